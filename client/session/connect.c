/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A session's connection.
 *
 * Happy path: resolve address and route, make the queue pair, connect, bring it
 * to RTS, say hello, learn the table.  Every step is bounded by the client's
 * time-out.  Failure at any step takes apart what was made (session_disconnect
 * does so from any state) and leaves a sentence that names the step.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "client/op/session.h"

#define RD_ATOM_MAX 16
#define ATTEMPT_MS_MIN 1000u
#define ATTEMPT_MS_MAX 8000u /* twice what rdma_cm takes to ask again */
#define PAUSE_MS_MIN 4
#define PAUSE_MS_MAX 500

/* Waits for one event of rdma_cm; `wanted` or an error. */
static int wait_event(struct kvd_session *s, enum rdma_cm_event_type wanted, const char *step,
		      uint64_t deadline_ns, struct wire_accept *accept)
{
	struct pollfd fd = { .fd = s->channel->fd, .events = POLLIN };
	struct rdma_cm_event *e;
	const char *to = s->client->addr.text;
	char words[256];

	while (s->verbs->get_cm_event(s->channel, &e)) {
		uint64_t now = clock_ns();
		if (errno != EAGAIN && errno != EINTR)
			return err_set_errno(&s->err, KVD_ECONNECT, errno, "%s to %s", step, to);
		if (now >= deadline_ns)
			return err_set(&s->err, KVD_ECONNECT,
				       "%s to %s: no answer within %d ms (is the host up and the port "
				       "right?)", step, to, s->attempt_ms);
		poll(&fd, 1, (int)((deadline_ns - now) / 1000000) + 1);
	}
	enum rdma_cm_event_type got = e->event;
	memset(accept, 0, sizeof *accept);
	if ((got == wanted || got == RDMA_CM_EVENT_REJECTED) && e->param.conn.private_data &&
	    e->param.conn.private_data_len >= sizeof *accept)
		memcpy(accept, e->param.conn.private_data, sizeof *accept);
	if (got == RDMA_CM_EVENT_CONNECT_RESPONSE)
		s->server_qpn = e->param.conn.qp_num;
	link_event_words(e, words, sizeof words);
	s->verbs->ack_cm_event(e);
	if (got == wanted)
		return 0;
	s->device_lost |= got == RDMA_CM_EVENT_DEVICE_REMOVAL;
	if (got == RDMA_CM_EVENT_REJECTED && accept->magic == WIRE_MAGIC) {
		static const char *const why[] = {
			[WIRE_ACCEPTED] = "it did not say why",
			[WIRE_REFUSED_MAGIC] = "it does not know this protocol",
			[WIRE_REFUSED_VERSION] = "it speaks another version of the protocol",
			[WIRE_REFUSED_CONNECTIONS] = "it has as many connections as it may have, see --connections",
			[WIRE_REFUSED_RESOURCES] = "it has no resources for a connection (see its log)",
			[WIRE_REFUSED_STOPPING] = "it is stopping",
			[WIRE_REFUSED_RATE] = "too many connections from here in a short time, see --handshakes",
			[WIRE_REFUSED_SPACE] = "it has no such namespace, see --namespace",
		};
		bool version = accept->refusal == WIRE_REFUSED_VERSION;
		return err_set(&s->err, version ? KVD_EPROTOCOL : KVD_ECONNECT,
			       "kvd at %s refused the connection: %s (its protocol is %u, ours %u)", to,
			       accept->refusal < WIRE_REFUSALS ? why[accept->refusal] : "?",
			       accept->version, WIRE_VERSION);
	}
	return err_set(&s->err, KVD_ECONNECT, "%s to %s: %s", step, to, words);
}

static int resolve(struct kvd_session *s, uint64_t deadline_ns)
{
	struct kvd_client *c = s->client;
	int timeout = s->attempt_ms;
	struct wire_accept ignored;
	int rc;

	s->channel = s->verbs->create_event_channel();
	if (!s->channel)
		return err_set_errno(&s->err, KVD_EDEVICE, errno,
				     "can't open an RDMA event channel (is the module rdma_ucm loaded?)");
	if (fcntl(s->channel->fd, F_SETFL, fcntl(s->channel->fd, F_GETFL) | O_NONBLOCK))
		return err_set_errno(&s->err, KVD_EDEVICE, errno, "fcntl");
	if (s->verbs->create_id(s->channel, &s->id, s, RDMA_PS_TCP) || device_prepare(&c->device, s->id))
		return err_set_errno(&s->err, KVD_EDEVICE, errno, "can't create an RDMA id");
	if (s->verbs->resolve_addr(s->id, NULL, &c->addr.sa, timeout))
		return err_set_errno(&s->err, KVD_ECONNECT, errno, "resolving the address %s",
				     c->addr.text);
	rc = wait_event(s, RDMA_CM_EVENT_ADDR_RESOLVED, "resolving the address", deadline_ns,
			&ignored);
	if (rc)
		return rc;
	pthread_mutex_lock(&c->lock);
	rc = device_check(&c->device, s->id, &c->addr, &s->err);
	pthread_mutex_unlock(&c->lock);
	if (rc)
		return KVD_EDEVICE;
	if (s->verbs->resolve_route(s->id, timeout))
		return err_set_errno(&s->err, KVD_ECONNECT, errno, "resolving the route to %s",
				     c->addr.text);
	return wait_event(s, RDMA_CM_EVENT_ROUTE_RESOLVED, "resolving the route", deadline_ns,
			  &ignored);
}

static int make_queues(struct kvd_session *s)
{
	struct kvd_client *c = s->client;
	s->sge_max = c->limits.sge_max < SGE_MAX ? c->limits.sge_max : SGE_MAX;
	const struct verbs *v = s->verbs;
	struct link_config config = { .pd = c->pd, .context = s, .send_depth = s->sq_depth,
				      .recv_depth = s->rx_count, .send_sge = s->sge_max,
				      .inline_bytes = 256 };

	s->comp = v->create_comp_channel(c->ctx);
	if (!s->comp || fcntl(s->comp->fd, F_SETFL, fcntl(s->comp->fd, F_GETFL) | O_NONBLOCK))
		return err_set_errno(&s->err, KVD_EDEVICE, errno, "can't create a completion channel");
	s->cq = v->create_cq(c->ctx, (int)(s->sq_depth + s->rx_count), s, s->comp, 0);
	if (!s->cq)
		return err_set_errno(&s->err, KVD_EDEVICE, errno, "can't create a completion queue");
	if (!s->memory_mr)
		s->memory_mr = v->reg_mr(c->pd, s->memory, s->memory_bytes, IBV_ACCESS_LOCAL_WRITE);
	if (!s->memory_mr)
		return err_set_errno(&s->err, KVD_EDEVICE, errno,
				     "can't register %zu KiB of memory: the locked-memory limit may be too "
				     "low (see 'ulimit -l')", s->memory_bytes >> 10);
	/* A page of its own: kvd may READ it, and nothing else of this process. */
	if (!s->held_mr)
		s->held_mr = v->reg_mr(c->pd, s->held, 4096, IBV_ACCESS_REMOTE_READ);
	if (!s->held_mr)
		return err_set_errno(&s->err, KVD_EDEVICE, errno, "can't register a page of memory");
	config.send_cq = config.recv_cq = s->cq;
	s->qp = link_qp_new(v, &config, &s->inline_bytes, &s->err);
	if (!s->qp || link_qp_init(v, s->id, s->qp, IBV_ACCESS_REMOTE_READ, &s->err))
		return KVD_EDEVICE;
	for (uint32_t i = 0; i < s->rx_count; i++) {
		struct ibv_sge sge = { (uintptr_t)(s->rx + (size_t)i * RX_STRIDE_BYTES),
				       WIRE_MESSAGE_BYTES_MAX, s->memory_mr->lkey };
		struct ibv_recv_wr wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1 }, *bad;
		int rc = ibv_post_recv(s->qp, &wr, &bad);
		if (rc)
			return err_set_errno(&s->err, KVD_EDEVICE, rc, "posting a receive failed");
	}
	return 0;
}

static int connect_qp(struct kvd_session *s, uint64_t deadline_ns)
{
	struct rdma_conn_param param;
	uint8_t rd = s->client->limits.rd_atom < RD_ATOM_MAX ? s->client->limits.rd_atom
							     : RD_ATOM_MAX;

	s->connect = (struct wire_connect){ .magic = WIRE_MAGIC, .version = WIRE_VERSION,
					    .depth = (uint16_t)s->depth,
					    .space = s->client->space };
	if (s->client->has_credentials)
		auth_nonce(s->connect.nonce);
	link_conn_param(&param, s->qp, &s->connect, sizeof s->connect, rd, rd);
	if (s->verbs->connect(s->id, &param))
		return err_set_errno(&s->err, KVD_ECONNECT, errno, "connecting to %s",
				     s->client->addr.text);
	int rc = wait_event(s, RDMA_CM_EVENT_CONNECT_RESPONSE, "connecting", deadline_ns,
			    &s->accept);
	if (rc)
		return rc;
	if (s->accept.magic != WIRE_MAGIC || s->accept.version != WIRE_VERSION)
		return err_set(&s->err, KVD_EPROTOCOL, "what listens at %s is not kvd, or of another version",
			       s->client->addr.text);
	if (link_qp_ready_tuned(s->verbs, s->id, s->qp, IBV_ACCESS_REMOTE_READ, rd, rd,
				&s->client->device.tuning, &s->err))
		return KVD_EDEVICE;
	if (s->verbs->establish(s->id))
		return err_set_errno(&s->err, KVD_ECONNECT, errno, "establishing the connection to %s",
				     s->client->addr.text);
	return 0;
}

/* One attempt.  The peer's answers may be lost, and rdma_cm asks again after 4 s only. */
static int attempt(struct kvd_session *s, int timeout_ms)
{
	uint64_t deadline = clock_ns() + (uint64_t)timeout_ms * 1000000;
	int rc;

	s->attempt_ms = timeout_ms;

	s->broken = false;
	s->table.clock = (struct clock){ .known = false };
	s->sq_posted = s->sq_done = 0;
	s->wr_count = s->unsignaled = 0;
	s->lock_count = 0; /* kvd releases what the old connection held */
	memset(s->held, 0, LAYOUT_HELD_MAX * sizeof *s->held);
	if ((rc = resolve(s, deadline)) || (rc = session_share_pd(s)) || (rc = make_queues(s)) ||
	    (rc = connect_qp(s, deadline))) {
		session_disconnect(s);
		return rc;
	}
	s->connected = true;
	s->device_lost = false;
	s->notice = 0;
	s->port = s->id->port_num ? s->id->port_num : 1;
	if (!s->verbs->soft)
		hwcount_read(s->client->ctx->device->name, s->port, &s->counted);
	rc = event_attach(s);
	if (!rc)
		rc = hello_say(s);
	if (rc)
		session_disconnect(s);
	else
		s->lost.text[0] = '\0';
	return rc;
}

/* Nobody there, or no way there: another address of the same name may be better. */
static bool may_be_elsewhere(int rc)
{
	return rc == KVD_ECONNECT || rc == KVD_EDEVICE;
}

/*
 * Tries a name's addresses, each for its part of the time; the first that kvd answers
 * from is the client's from then on.  None: what is told is what the first one said.
 * The client's `settling` held.
 */
static int settle(struct kvd_session *s)
{
	struct kvd_client *c = s->client;
	struct addr first = c->addr;
	int part_ms = c->options.timeout_ms / (int)(c->other_count + 1) + 1;
	int first_rc = attempt(s, part_ms), rc = first_rc;
	struct err said = s->err;

	for (unsigned i = 0; i < c->other_count && may_be_elsewhere(rc); i++) {
		c->addr = c->others[i];
		rc = attempt(s, part_ms);
	}
	if (!may_be_elsewhere(rc)) {
		c->other_count = 0;
		return rc;
	}
	c->addr = first;
	s->err = said;
	return first_rc;
}

int session_connect(struct kvd_session *s)
{
	struct kvd_client *c = s->client;
	int rc = 0;

	pthread_mutex_lock(&c->settling);
	bool settled = !c->other_count;
	if (!settled)
		rc = settle(s);
	pthread_mutex_unlock(&c->settling);
	return settled ? attempt(s, c->options.timeout_ms) : rc;
}

/* What another attempt may cure: kvd is being started again, the link is down. */
static bool may_pass(const struct kvd_session *s, int rc)
{
	return rc == KVD_ECONNECT || (rc == KVD_EDEVICE && s->device_lost);
}

/*
 * Connects again until the time of a call is over, with pauses that double: a kvd that
 * was started again gets its clients back within half a second of its being there, and
 * a thousand clients without one don't keep the network busy.
 */
static int reconnect(struct kvd_session *s)
{
	uint64_t end = session_deadline_ns(s), begin = clock_ns();
	unsigned pause_ms = PAUSE_MS_MIN, limit_ms = ATTEMPT_MS_MIN;

	if (begin >= end)
		return s->broken ? s->broken_code : KVD_ECONNECT; /* the call's time is over */
	for (;; begin = clock_ns()) {
		uint64_t left_ms = begin < end ? (end - begin) / 1000000 + 1 : 1;
		int rc = attempt(s, (int)(left_ms < limit_ms ? left_ms : limit_ms));
		/* One that failed at once says nothing of how long one may take. */
		if (clock_ns() - begin >= limit_ms * 1000000ull && limit_ms < ATTEMPT_MS_MAX)
			limit_ms *= 2;
		uint64_t rest_ms = pause_ms / 2 + clock_ns() % (pause_ms / 2 + 1);
		if (!may_pass(s, rc) || clock_ns() + rest_ms * 1000000 >= end) {
			if (rc == KVD_ECONNECT && !s->broken) {
				session_explain(s);
				session_recall(s);
			}
			return rc;
		}
		poll(NULL, 0, (int)rest_ms);
		pause_ms = pause_ms < PAUSE_MS_MAX / 2 ? 2 * pause_ms : PAUSE_MS_MAX;
	}
}

int session_ready(struct kvd_session *s)
{
	if (s->connected && !s->broken)
		return 0;
	session_down(s);
	s->counters.reconnects++;
	return reconnect(s);
}
