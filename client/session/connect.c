/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/session/connect.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>

#include "client/op/held.h"
#include "client/session/client.h"
#include "client/session/device.h"
#include "client/session/event.h"
#include "client/session/hello.h"
#include "client/session/session.h"
#include "client/session/session_impl.h"
#include "client/session/teardown.h"
#include "client/session/where.h"
#include "common/rdma/link.h"

#define ACK_TIMEOUT_OF_MANY 13 /* 34 ms */
#define HOME_NS 10000000000ull
#define DRAIN_NS 50000000ull /* for what is in flight to end, before that */
#define HOME_MS 100 /* what a call may lose where nobody is at home */
#define SETTLE_LOOK_MS 1
#define DEALT_MS 1000 /* for a session that begins, where another address is known to be good */

static int refused(struct engine *e, const struct wire_accept *accept)
{
	static const char *const why[] = {
		[WIRE_ACCEPTED] = "it did not say why",
		[WIRE_REFUSED_MAGIC] = "it does not know this protocol",
		[WIRE_REFUSED_VERSION] = "it speaks another version of the protocol",
		[WIRE_REFUSED_CONNECTIONS] =
			"it has as many connections as it may have, see --connections",
		[WIRE_REFUSED_RESOURCES] = "it has no resources for a connection (see its log)",
		[WIRE_REFUSED_STOPPING] = "it is stopping",
		[WIRE_REFUSED_RATE] =
			"too many connections from here in a short time, see --handshakes",
		[WIRE_REFUSED_SPACE] = "it has no such namespace, see --namespace",
	};
	bool version = accept->refusal == WIRE_REFUSED_VERSION;

	return err_set(&e->health.err, version ? KVD_EPROTOCOL : KVD_ECONNECT,
		       "kvd at %s refused the connection: %s (its protocol is %u, ours %u)",
		       e->health.peer, accept->refusal < WIRE_REFUSALS ? why[accept->refusal] : "?",
		       accept->version, WIRE_VERSION);
}

/* Nobody whom this process can reach listens.  On the software device it may be that kvd is
 * another user's: then that is said. */
static int not_reached(struct kvd_session *s, const char *step, const char *words)
{
	struct engine *e = &s->engine;
	const struct verbs *v = e->registrar.verbs;
	const struct addr *addr = &s->addr;
	uint16_t port = ntohs(addr->sa.sa_family == AF_INET6 ? addr->v6.sin6_port : addr->v4.sin_port);
	const char *to = e->health.peer;
	char fabric[64];

	if (!v->listens_elsewhere || !v->listens_elsewhere(port, fabric, sizeof fabric))
		return err_set(&e->health.err, KVD_ECONNECT, "%s to %s: %s", step, to, words);
	if (fabric[strspn(fabric, "0123456789")])
		return err_set(&e->health.err, KVD_ECONNECT,
			       "%s to %s: on that port kvd is in another fabric of the software "
			       "device: set SOFTVERBS_FABRIC=%s", step, to, fabric);
	return err_set(&e->health.err, KVD_ECONNECT,
		       "%s to %s: on that port there is a kvd of user %s, and the software device "
		       "serves one user only: be that user (sudo -u '#%s' ...), or give kvd an RDMA "
		       "device (see 'kvcli doctor')", step, to, fabric, fabric);
}

/* Waits for one event of rdma_cm; `wanted` or an error. */
static int wait_event(struct kvd_session *s, enum rdma_cm_event_type wanted, const char *step,
		      uint64_t deadline_ns, struct wire_accept *accept)
{
	struct engine *e = &s->engine;
	const struct verbs *v = e->registrar.verbs;
	struct err *err = &e->health.err;
	struct pollfd fd = { .fd = e->channel->fd, .events = POLLIN };
	struct rdma_cm_event *event;
	const char *to = e->health.peer;
	char words[256];

	while (v->get_cm_event(e->channel, &event)) {
		uint64_t now = clock_ns();
		if (errno != EAGAIN && errno != EINTR)
			return err_set_errno(err, KVD_ECONNECT, errno, "%s to %s", step, to);
		if (now >= deadline_ns)
			return err_set(err, KVD_ECONNECT,
				       "%s to %s: no answer within %u ms: is kvd running there, "
				       "and is the port right?",
				       step, to, (unsigned)(e->time.limit_ns / 1000000));
		poll(&fd, 1, (int)((deadline_ns - now) / 1000000) + 1);
	}
	enum rdma_cm_event_type got = event->event;
	memset(accept, 0, sizeof *accept);
	if ((got == wanted || got == RDMA_CM_EVENT_REJECTED) && event->param.conn.private_data &&
	    event->param.conn.private_data_len >= sizeof *accept)
		memcpy(accept, event->param.conn.private_data, sizeof *accept);
	if (got == RDMA_CM_EVENT_CONNECT_RESPONSE)
		s->server_qpn = event->param.conn.qp_num;
	link_event_words(event, words, sizeof words);
	v->ack_cm_event(event);
	if (got == wanted)
		return 0;
	e->health.device_lost |= got == RDMA_CM_EVENT_DEVICE_REMOVAL;
	if (got == RDMA_CM_EVENT_REJECTED && accept->magic == WIRE_MAGIC)
		return refused(e, accept);
	if (got == RDMA_CM_EVENT_REJECTED || got == RDMA_CM_EVENT_UNREACHABLE)
		return not_reached(s, step, words);
	return err_set(err, KVD_ECONNECT, "%s to %s: %s", step, to, words);
}

static int resolve(struct kvd_session *s, uint64_t deadline_ns)
{
	struct engine *e = &s->engine;
	const struct verbs *v = e->registrar.verbs;
	struct err *err = &e->health.err;
	struct kvd_client *c = s->client;
	int timeout = s->attempt_ms;
	struct wire_accept ignored;
	int rc;

	e->channel = v->create_event_channel();
	if (!e->channel)
		return err_set_errno(
			err, KVD_EDEVICE, errno,
			"can't open an RDMA event channel (is the module rdma_ucm loaded?)");
	if (fcntl(e->channel->fd, F_SETFL, fcntl(e->channel->fd, F_GETFL) | O_NONBLOCK))
		return err_set_errno(err, KVD_EDEVICE, errno, "fcntl");
	if (v->create_id(e->channel, &s->id, s, RDMA_PS_TCP) || device_prepare(&c->device, s->id))
		return err_set_errno(err, KVD_EDEVICE, errno, "can't create an RDMA id");
	if (v->resolve_addr(s->id, NULL, &s->addr.sa, timeout))
		return err_set_errno(err, KVD_ECONNECT, errno, "resolving the address %s",
				     s->addr.text);
	rc = wait_event(s, RDMA_CM_EVENT_ADDR_RESOLVED, "resolving the address", deadline_ns,
			&ignored);
	if (rc)
		return rc;
	pthread_mutex_lock(&c->lock);
	rc = device_check(&c->device, s->id, &s->addr, err);
	pthread_mutex_unlock(&c->lock);
	if (rc)
		return KVD_EDEVICE;
	if (v->resolve_route(s->id, timeout))
		return err_set_errno(err, KVD_ECONNECT, errno, "resolving the route to %s",
				     s->addr.text);
	return wait_event(s, RDMA_CM_EVENT_ROUTE_RESOLVED, "resolving the route", deadline_ns,
			  &ignored);
}

static int make_queues(struct kvd_session *s)
{
	struct engine *e = &s->engine;
	struct err *err = &e->health.err;
	const struct client_device *d = s->device;

	e->message_bytes_max = d->limits.message_bytes_max;
	e->sge_max = d->limits.sge_max < SGE_MAX ? d->limits.sge_max : SGE_MAX;
	const struct verbs *v = e->registrar.verbs;
	struct link_config config = { .pd = d->pd,
				      .context = s,
				      .send_depth = e->sq_depth,
				      .recv_depth = e->rx_count,
				      .send_sge = e->sge_max,
				      .inline_bytes = 256 };

	e->comp = v->create_comp_channel(d->ctx);
	if (!e->comp || fcntl(e->comp->fd, F_SETFL, fcntl(e->comp->fd, F_GETFL) | O_NONBLOCK))
		return err_set_errno(err, KVD_EDEVICE, errno, "can't create a completion channel");
	e->cq = v->create_cq(d->ctx, (int)(e->sq_depth + e->rx_count), s, e->comp, 0);
	if (!e->cq)
		return err_set_errno(err, KVD_EDEVICE, errno, "can't create a completion queue");
	if (!e->memory_mr)
		e->memory_mr = v->reg_mr(d->pd, s->memory, s->memory_bytes, IBV_ACCESS_LOCAL_WRITE);
	if (!e->memory_mr)
		return err_set_errno(
			err, KVD_EDEVICE, errno,
			"can't register %zu KiB of memory: the locked-memory limit may be too "
			"low (see 'ulimit -l')",
			s->memory_bytes >> 10);
	/* A page of its own: kvd may READ it, and nothing else of this process. */
	if (!s->held_mr)
		s->held_mr = v->reg_mr(d->pd, e->held.page, 4096, IBV_ACCESS_REMOTE_READ);
	if (!s->held_mr)
		return err_set_errno(err, KVD_EDEVICE, errno, "can't register a page of memory");
	config.send_cq = config.recv_cq = e->cq;
	e->qp = link_qp_new(v, &config, &e->inline_bytes, err);
	if (!e->qp || link_qp_init(v, s->id, e->qp, IBV_ACCESS_REMOTE_READ, err))
		return KVD_EDEVICE;
	for (uint32_t i = 0; i < e->rx_count; i++) {
		struct ibv_sge sge = { (uintptr_t)(e->rx + (size_t)i * RX_STRIDE_BYTES),
				       WIRE_MESSAGE_BYTES_MAX, e->memory_mr->lkey };
		struct ibv_recv_wr wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1 }, *bad;
		int rc = ibv_post_recv(e->qp, &wr, &bad);
		if (rc)
			return err_set_errno(err, KVD_EDEVICE, rc, "posting a receive failed");
	}
	return 0;
}

/* Who has another way knows in a quarter of a second that this one is cut: a device tries seven times, and
 * may take up to four times the time-out. */
static struct device_tuning tuning_of(struct kvd_session *s)
{
	struct device_tuning t = s->client->device.tuning;

	if (t.ack_timeout == DEVICE_UNSET && route_has_others(&s->client->route))
		t.ack_timeout = ACK_TIMEOUT_OF_MANY;
	return t;
}

static int connect_qp(struct kvd_session *s, uint64_t deadline_ns)
{
	struct engine *e = &s->engine;
	const struct verbs *v = e->registrar.verbs;
	struct err *err = &e->health.err;
	struct rdma_conn_param param;
	uint8_t most = s->device->limits.rd_atom, rd = most < LINK_RD_ATOM_MAX ? most : LINK_RD_ATOM_MAX;

	s->connect = (struct wire_connect){ .magic = WIRE_MAGIC,
					    .version = WIRE_VERSION,
					    .depth = (uint16_t)e->depth,
					    .space = s->client->space };
	if (s->client->has_credentials)
		auth_nonce(s->connect.nonce);
	link_conn_param(&param, e->qp, &s->connect, sizeof s->connect, rd, rd);
	if (v->connect(s->id, &param))
		return err_set_errno(err, KVD_ECONNECT, errno, "connecting to %s", e->health.peer);
	int rc = wait_event(s, RDMA_CM_EVENT_CONNECT_RESPONSE, "connecting", deadline_ns,
			    &s->accept);
	if (rc)
		return rc;
	if (s->accept.magic != WIRE_MAGIC || s->accept.version != WIRE_VERSION)
		return err_set(err, KVD_EPROTOCOL,
			       "what listens at %s is not kvd, or of another version",
			       e->health.peer);
	struct device_tuning tuning = tuning_of(s);
	rc = link_qp_ready_tuned(v, s->id, e->qp, IBV_ACCESS_REMOTE_READ, rd, rd, &tuning, err);
	if (rc)
		return rc == LINK_ENDED ? KVD_ECONNECT : KVD_EDEVICE;
	if (v->establish(s->id))
		return err_set_errno(err, KVD_ECONNECT, errno, "establishing the connection to %s",
				     e->health.peer);
	return 0;
}

static int attempt(struct kvd_session *s, int timeout_ms)
{
	struct engine *e = &s->engine;
	const struct verbs *v = e->registrar.verbs;
	uint64_t deadline = clock_ns() + (uint64_t)timeout_ms * 1000000;
	struct where where;
	int rc;

	s->attempt_ms = timeout_ms;
	e->probes = false; /* of what is known after the hello */
	e->tried_ns = 0;
	e->connections++;
	e->health.broken = e->health.moved = e->health.silent = false;
	e->table.clock = (struct clock){ .known = false };
	grant_not_needed(&e->table.grant);
	e->sq_posted = e->sq_done = 0;
	e->wr_count = e->unsignaled = 0;
	held_forget(&e->held);
	if ((rc = resolve(s, deadline)) || (rc = session_join_device(s)) || (rc = make_queues(s)) ||
	    (rc = connect_qp(s, deadline))) {
		session_disconnect(s);
		return rc;
	}
	e->health.connected = true;
	e->health.was_lost = false;
	e->health.notice = 0;
	e->health.port = s->id->port_num ? s->id->port_num : 1;
	if (!v->soft)
		hwcount_read(e->health.ctx->device->name, e->health.port, &e->counted);
	rc = event_attach(e);
	if (!rc)
		rc = hello_say(s);
	/* Others may be primary later: who loses this one asks them. */
	if (!rc && session_is_of_cluster(s)) {
		unsigned silences = e->silences; /* nor is this answer a sign of a primary's */
		rc = where_ask(s, false, &where);
		e->silences = silences;
	}
	if (rc)
		session_disconnect(s);
	else
		e->health.lost.text[0] = '\0';
	return rc;
}

/* Nobody there, or no way there: another address may be better. */
static bool may_be_elsewhere(int rc)
{
	return rc == KVD_ECONNECT || rc == KVD_EDEVICE;
}

/* Who was met: no cluster's member, as of that the primary counts. */
static uint64_t instance_of(const struct kvd_session *s)
{
	return session_is_of_cluster(s) ? 0 : s->engine.table.welcome.instance;
}

/* It is connected: what it does when that is lost, and when it is not where it belongs. */
static void look_ahead(struct kvd_session *s)
{
	struct route *r = &s->client->route;
	struct engine *e = &s->engine;

	s->others = route_count(r);
	e->probes = route_has_others(r);
	route_stay(r, &s->own, &s->addr);
	e->home_ns = route_is_home(r, s->own, &s->addr) ? 0 : clock_ns() + HOME_NS;
	e->is_homesick = false;
	e->drains_ns = 0;
}

static int attempt_at(struct kvd_session *s, const struct goal *goal, int timeout_ms)
{
	struct route *r = &s->client->route;
	int rc;

	s->addr = goal->addr;
	s->expected = goal->instance;
	s->engine.table.welcome.instance = 0;
	rc = attempt(s, timeout_ms);
	s->expected = 0;
	if (s->engine.table.welcome.instance)
		route_met(r, goal, instance_of(s), clock_ns());
	else if (may_be_elsewhere(rc))
		route_missed(r, &goal->addr, clock_ns());
	if (!rc)
		look_ahead(s);
	return rc;
}

/* The peer's answers may be lost, and rdma_cm asks again after 4 s only. */
int session_attempt(struct kvd_session *s, int timeout_ms)
{
	struct route *r = &s->client->route;
	struct goal goal;
	int rc;

	/* First to another address of the kvd that it lost: the one that it was at may be cut. */
	if (s->others && s->others-- && route_other(r, &s->addr, clock_ns(), &goal))
		return attempt_at(s, &goal, timeout_ms);
	if (s->engine.health.silent || s->engine.was_primary)
		route_failed(r, &s->addr, clock_ns());
	s->engine.was_primary = false;
	route_present(r, &s->own, clock_ns(), &s->addr);
	rc = attempt(s, timeout_ms);
	if (!rc) {
		route_settled(r, &s->addr, instance_of(s));
		look_ahead(s);
	} else if (may_be_elsewhere(rc)) {
		route_failed(r, &s->addr, clock_ns());
	}
	return rc;
}

/* To its own address, or then to others of the same kvd. */
static int try_dealt(struct kvd_session *s, int timeout_ms)
{
	struct route *r = &s->client->route;
	struct goal goal;
	int rc = KVD_ECONNECT;

	for (unsigned left = route_count(r); left && may_be_elsewhere(rc) &&
	     route_deal(r, &s->own, clock_ns(), &goal); left--)
		rc = attempt_at(s, &goal, timeout_ms);
	if (may_be_elsewhere(rc) && s->own != ROUTE_NOWHERE &&
	    route_other(r, &s->addr, clock_ns(), &goal))
		rc = attempt_at(s, &goal, timeout_ms);
	return rc;
}

/*
 * Tries each address, for its part of the time.  None answers: what is told is what the first
 * one said.
 */
static int try_each(struct kvd_session *s)
{
	struct engine *e = &s->engine;
	unsigned count = route_count(&s->client->route);
	int timeout_ms = s->client->options.timeout_ms;
	int part_ms = count > 1 ? timeout_ms / (int)count + 1 : timeout_ms;
	int dealt_rc = try_dealt(s, part_ms < DEALT_MS ? part_ms : DEALT_MS);

	if (!may_be_elsewhere(dealt_rc))
		return dealt_rc;
	int first_rc = session_attempt(s, part_ms), rc = first_rc;
	struct err said = e->health.err;

	for (unsigned i = 1; i < count && may_be_elsewhere(rc); i++)
		rc = session_attempt(s, part_ms);
	if (may_be_elsewhere(rc))
		e->health.err = said;
	return may_be_elsewhere(rc) ? first_rc : rc;
}

/* It tries that again later. */
static void stay_away(struct engine *e, uint64_t now_ns)
{
	e->is_homesick = false;
	e->drains_ns = 0;
	e->home_ns = now_ns + HOME_NS;
}

/* One that is never without something in flight would never go. */
bool session_drains(struct kvd_session *s)
{
	struct engine *e = &s->engine;
	uint64_t now_ns = clock_ns();
	struct goal goal;

	if (!e->drains_ns && !e->held.count && route_deal(&s->client->route, &s->own, now_ns, &goal))
		e->drains_ns = now_ns;
	if (e->drains_ns && now_ns - e->drains_ns < DRAIN_NS)
		return true;
	stay_away(e, now_ns);
	return false;
}

void session_go_home(struct kvd_session *s)
{
	struct engine *e = &s->engine;
	struct goal goal;

	stay_away(e, clock_ns());
	if (e->in_flight || e->held.count ||
	    !route_deal(&s->client->route, &s->own, clock_ns(), &goal))
		return;
	session_disconnect(s);
	e->counters.reconnects++;
	attempt_at(s, &goal, HOME_MS);
}

/* The first one of a client: others wait for it. */
static int settle(struct kvd_session *s)
{
	struct kvd_client *c = s->client;
	int rc = try_each(s);

	if (!rc)
		atomic_store(&c->is_settled, true);
	pthread_mutex_unlock(&c->settling);
	return rc;
}

/* A crowd of sessions to a kvd that does not answer: each waits for as long as a call may take, and not
 * for all before it. */
int session_connect(struct kvd_session *s)
{
	struct kvd_client *c = s->client;
	uint64_t end_ns = clock_ns() + (uint64_t)c->options.timeout_ms * 1000000;

	while (!atomic_load(&c->is_settled)) {
		if (!pthread_mutex_trylock(&c->settling))
			return settle(s);
		if (clock_ns() >= end_ns)
			return err_set(&s->engine.health.err, KVD_ECONNECT,
				       "connecting to %s: another session of this client has tried for "
				       "%d ms already: is kvd running there, and is the port right?",
				       s->addr.text, c->options.timeout_ms);
		poll(NULL, 0, SETTLE_LOOK_MS);
	}
	return try_each(s);
}
