/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The main thread: connections come and go, signals.
 *
 * A connection: CONNECT_REQUEST -> its private data is checked, which names the
 * namespace; a queue pair is made in that one's protection domain, on its worker with
 * the fewest connections, and brought to RTS without any remote right -> handed to the
 * worker -> accepted.  DISCONNECTED, or an error of
 * its queue pair -> the worker is told, drains it and gives it back -> it is
 * destroyed here.
 *
 * Limits: on connections, on those an address may begin (knock.c), on those that have
 * not said a good hello (HANDSHAKES_PART: the eldest makes room), on the time until
 * it (HELLO_NS_MAX), and on the time that replies may wait for a peer to take them
 * (STUCK_NS_MAX).
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "common/log.h"
#include "server/listener.h"
#include "server/notify.h"
#include "server/options.h"
#include "server/server.h"
#include "server/watch.h"

#define BACKLOG 128
#define CREDITS_DEFAULT 32u
#define CREDITS_MAX 129u /* of libkvd: 128 operations, and an unlock */
#define PULL_SENDS 8u
#define UNSIGNALED_SENDS 32u /* twice what reply.c posts from signal to signal */
#define HELLO_NS_MAX 10000000000ull
#define STUCK_NS_MAX 10000000000ull
#define HANDSHAKES_PART 2 /* a half of all connections */
#define LOOK_NS 250000000ull

/* Of what peers do. */
static struct log_limit limit_said;

void conn_drop(struct conn *c, const char *reason)
{
	const char *none = NULL;

	atomic_compare_exchange_strong(&c->drop_reason, &none, reason);
	atomic_store(&c->disconnected, true);
	worker_wake(c->worker);
}

/* ------------------------------------------------------------------ accept */

static void refuse(struct server *s, struct rdma_cm_id *id, enum wire_refusal why,
		   uint32_t limit)
{
	struct wire_accept answer = { .magic = WIRE_MAGIC, .version = WIRE_VERSION,
				      .refusal = (uint16_t)why, .limit = limit };

	atomic_fetch_add(&s->refused, 1);
	s->verbs->reject(id, &answer, sizeof answer);
	s->verbs->destroy_id(id);
}

/* The state is the worker's, but a stale look only delays what follows from it. */
static bool is_pending(const struct conn *c)
{
	int state = (int)__atomic_load_n(&c->state, __ATOMIC_RELAXED);

	return state == CONN_NEW || state == CONN_DENIED;
}

static uint64_t count_conns(const struct host *h)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < h->server_count; i++)
		n += h->servers[i].conn_count;
	return n;
}

static uint64_t count_pending(const struct host *h)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < h->server_count; i++)
		n += atomic_load(&h->servers[i].pending);
	return n;
}

/* NULL: there is none. */
static struct server *find_space(struct host *h, uint64_t space)
{
	for (unsigned i = 0; i < h->server_count; i++)
		if (h->servers[i].space == space)
			return &h->servers[i];
	return NULL;
}

static enum wire_refusal check_request(const struct rdma_cm_event *e,
				       struct wire_connect *request)
{
	const struct rdma_conn_param *p = &e->param.conn;

	if (!p->private_data || p->private_data_len < sizeof *request)
		return WIRE_REFUSED_MAGIC;
	memcpy(request, p->private_data, sizeof *request);
	if (request->magic != WIRE_MAGIC)
		return WIRE_REFUSED_MAGIC;
	return request->version == WIRE_VERSION ? WIRE_ACCEPTED : WIRE_REFUSED_VERSION;
}

static struct worker *choose_worker(struct server *s)
{
	struct worker *best = &s->workers[0];

	for (unsigned i = 1; i < s->worker_count; i++)
		if (atomic_load(&s->workers[i].load) < atomic_load(&best->load))
			best = &s->workers[i];
	return best;
}

static void link_all(struct server *s, struct conn *c)
{
	pthread_mutex_lock(&s->conns_lock);
	c->all_next = s->conns;
	c->all_prev = &s->conns;
	if (s->conns)
		s->conns->all_prev = &c->all_next;
	s->conns = c;
	s->conn_count++;
	pthread_mutex_unlock(&s->conns_lock);
}

static void unlink_all(struct conn *c)
{
	pthread_mutex_lock(&c->server->conns_lock);
	*c->all_prev = c->all_next;
	if (c->all_next)
		c->all_next->all_prev = c->all_prev;
	c->server->conn_count--;
	pthread_mutex_unlock(&c->server->conns_lock);
}

bool server_knows(struct server *s, uint64_t connection_id)
{
	bool found = false;

	pthread_mutex_lock(&s->conns_lock);
	for (const struct conn *c = s->conns; c && !found; c = c->all_next)
		found = c->connection_id == connection_id;
	pthread_mutex_unlock(&s->conns_lock);
	return found;
}

static int new_qp(struct conn *c, struct worker *w, uint8_t peer_rd_atom, struct err *err)
{
	struct server *s = c->server;
	struct link_config config = {
		.pd = s->pd,
		.send_cq = w->cq,
		.recv_cq = w->cq,
		.srq = w->srq,
		.context = c,
		.send_depth = 2 * c->credits + PULL_SENDS + UNSIGNALED_SENDS,
		.send_sge = 1,
		.inline_bytes = 256,
	};

	c->sq_depth = config.send_depth;
	c->rd_atom = s->limits.rd_atom < 16 ? s->limits.rd_atom : 16;
	c->qp = link_qp_new(s->verbs, &config, &c->inline_bytes, err);
	if (!c->qp)
		return -1;
	if (link_qp_init(s->verbs, c->id, c->qp, 0, err) ||
	    link_qp_ready_tuned(s->verbs, c->id, c->qp, 0, c->rd_atom, peer_rd_atom,
				&s->device.tuning, err)) {
		s->verbs->destroy_qp(c->qp);
		return -1;
	}
	return 0;
}

/* Asks the device: rdma_cm and drivers are known to raise them by themselves. */
bool conn_check_rights(struct conn *c, int rights)
{
	struct server *s = c->server;
	int has = link_qp_access(s->verbs, c->qp);

	/* The main thread's question, which the worker has overtaken. */
	if (!rights && atomic_load(&c->said_hello))
		return true;
	log_debug("connection %llu: its queue pair has the remote rights 0x%x",
		  (unsigned long long)c->connection_id, (unsigned)has);
	if (has == rights || atomic_load(&c->disconnected))
		return true;
	link_qp_set_error(s->verbs, c->qp);
	atomic_fetch_add(&s->wrong_rights, 1);
	log_error("%s: its queue pair has the remote rights 0x%x instead of 0x%x", c->peer.text,
		  (unsigned)has, (unsigned)rights);
	return false;
}

static struct conn *new_conn(struct server *s, struct rdma_cm_id *id,
			     const struct wire_connect *request)
{
	struct conn *c = calloc(1, sizeof *c);

	if (!c)
		return NULL;
	if (s->locker && !(c->lock_note = locker_note_new())) {
		free(c);
		return NULL;
	}
	c->server = s;
	c->worker = choose_worker(s); /* before there can be an event of its queue pair */
	c->id = id;
	c->connection_id = ++s->host->conn_last_id;
	c->credits = request->depth ? request->depth : CREDITS_DEFAULT;
	if (c->credits > CREDITS_MAX)
		c->credits = CREDITS_MAX;
	c->depth_asked = request->depth;
	c->space = request->space;
	c->nowhere = request->space != s->space;
	memcpy(c->client_nonce, request->nonce, sizeof c->client_nonce);
	auth_nonce(c->server_nonce);
	c->since_ns = clock_ns();
	addr_from(&c->peer, rdma_get_peer_addr(id));
	return c;
}

static void accept_conn(struct server *s, struct rdma_cm_id *id,
			const struct wire_connect *request, const struct rdma_conn_param *asked)
{
	struct wire_accept answer = { .magic = WIRE_MAGIC, .version = WIRE_VERSION,
				      .flags = gate_has_users(s->gate) ? WIRE_ACCEPT_USERS : 0 };
	struct rdma_conn_param param;
	struct err err = { "out of memory" };
	struct conn *c = new_conn(s, id, request);
	uint8_t peer = asked->initiator_depth < s->limits.rd_atom ? asked->initiator_depth
								  : s->limits.rd_atom;

	if (!c || new_qp(c, c->worker, peer, &err)) {
		log_error("no connection for %s: %s", c ? c->peer.text : "a peer", err.text);
		if (c)
			free(c->lock_note);
		free(c);
		refuse(s, id, WIRE_REFUSED_RESOURCES, 0);
		return;
	}
	if (asked->responder_resources < c->rd_atom)
		c->rd_atom = asked->responder_resources;
	c->client_qpn = asked->qp_num;
	memcpy(answer.nonce, c->server_nonce, sizeof answer.nonce);
	id->context = c;
	link_all(s, c);
	atomic_fetch_add(&s->pending, 1);
	atomic_fetch_add(&c->worker->load, 1);
	if (s->locker)
		locker_born(s->locker, c->connection_id);
	worker_give(c->worker, c);
	link_conn_param(&param, c->qp, &answer, sizeof answer, c->rd_atom, peer);
	if (s->verbs->accept(id, &param)) {
		log_error("accepting %s failed: %s", c->peer.text, strerror(errno));
		conn_drop(c, "it could not be accepted");
		return;
	}
	if (!conn_check_rights(c, 0)) {
		conn_drop(c, "its queue pair has remote rights that nobody gave it");
		return;
	}
	log_debug("connection %llu from %s on worker %u%s%s", (unsigned long long)c->connection_id,
		  c->peer.text, c->worker->id, *s->name ? " of " : "", s->name);
}

/* Many that don't finish their handshake must not keep others from theirs. */
static void make_room(struct host *h)
{
	uint64_t most = (uint64_t)h->servers->options.connections / HANDSHAKES_PART;
	struct conn *eldest = NULL;

	if (count_pending(h) < (most ? most : 1))
		return;
	for (unsigned i = 0; i < h->server_count; i++)
		for (struct conn *c = h->servers[i].conns; c; c = c->all_next)
			if (is_pending(c) && !atomic_load(&c->disconnected) &&
			    (!eldest || c->since_ns <= eldest->since_ns))
				eldest = c;
	if (eldest)
		conn_drop(eldest, "it did not finish its handshake, and others wait for theirs");
}

/* What there is to say against a request that is well-formed, or nothing; *limit: which
 * limit it hit. */
static enum wire_refusal judge(struct host *h, const struct server *s, const struct addr *peer,
			       uint32_t *limit)
{
	const struct options *all = &h->servers->options, *own = s ? &s->options : all;

	*limit = 0;
	if (!knock_may(h->knock, peer, clock_ns())) {
		*limit = (uint32_t)all->handshakes;
		return WIRE_REFUSED_RATE;
	}
	/* Where there are users it is denied its hello, like somebody whom nobody knows. */
	if (!s && !gate_has_users(h->servers->gate))
		return WIRE_REFUSED_SPACE;
	*limit = (uint32_t)own->connections;
	if (s && s->conn_count >= *limit)
		return WIRE_REFUSED_CONNECTIONS;
	*limit = (uint32_t)all->connections;
	return count_conns(h) >= *limit ? WIRE_REFUSED_CONNECTIONS : WIRE_ACCEPTED;
}

static void on_request(struct host *h, struct rdma_cm_event *e)
{
	static const char *const why[] = {
		[WIRE_REFUSED_MAGIC] = "it does not speak kvd's protocol",
		[WIRE_REFUSED_VERSION] = "it speaks another version of the protocol",
		[WIRE_REFUSED_CONNECTIONS] = "the limit of connections is reached (--connections)",
		[WIRE_REFUSED_RATE] = "too many handshakes from there (--handshakes)",
		[WIRE_REFUSED_SPACE] = "it asks for a namespace that is none (--namespace)",
	};
	struct wire_connect request = { 0 };
	struct rdma_conn_param asked = e->param.conn;
	struct rdma_cm_id *id = e->id;
	struct addr peer;
	enum wire_refusal refusal = check_request(e, &request);
	struct server *s = NULL;
	uint32_t limit = 0;

	addr_from(&peer, rdma_get_peer_addr(id));
	h->servers->verbs->ack_cm_event(e);
	if (refusal == WIRE_ACCEPTED) {
		s = find_space(h, request.space);
		refusal = judge(h, s, &peer, &limit);
	}
	if (!s)
		s = h->servers;
	if (refusal != WIRE_ACCEPTED) {
		log_some(&limit_said, "refused %s: %s", peer.text, why[refusal]);
		refuse(s, id, refusal, limit);
		return;
	}
	if (s->space != request.space)
		log_some(&limit_said, "%s asks for a namespace that is none: its hello will be denied", peer.text);
	make_room(h);
	accept_conn(s, id, &request, &asked);
}

/* ------------------------------------------------------------------ events */

/* False: the device was taken away, which waits for kvd's end. */
static bool on_cm_event(struct host *h)
{
	const struct server *s = h->servers;
	struct rdma_cm_event *e;
	bool go_on = true;
	char words[256];

	while (!s->verbs->get_cm_event(h->channel, &e)) {
		/* A listener's is the host, which requests inherit. */
		struct conn *c = e->id->context == h ? NULL : e->id->context;
		switch (e->event) {
		case RDMA_CM_EVENT_CONNECT_REQUEST:
			on_request(h, e);
			continue;
		case RDMA_CM_EVENT_ESTABLISHED:
			break;
		case RDMA_CM_EVENT_DISCONNECTED:
			/* Our side of the handshake, so that the peer needs no time-out. */
			s->verbs->disconnect(e->id);
			/* fall through */
		default:
			if (e->event == RDMA_CM_EVENT_DEVICE_REMOVAL && !c) {
				log_error("%s was taken away: kvd ends", s->ctx->device->name);
				go_on = false;
			}
			log_debug("%s: %s", c ? c->peer.text : "listener",
				  link_event_words(e, words, sizeof words));
			if (c && e->event != RDMA_CM_EVENT_TIMEWAIT_EXIT)
				conn_drop(c, "disconnected by the peer");
			break;
		}
		s->verbs->ack_cm_event(e);
	}
	return go_on;
}

/* ------------------------------------------------------------------ burial */

void conn_done(struct conn *c)
{
	struct host *h = c->server->host;

	pthread_mutex_lock(&h->done_lock);
	c->next = h->done;
	h->done = c;
	pthread_mutex_unlock(&h->done_lock);
	if (eventfd_write(h->done_fd, 1))
		log_error("can't wake the main thread: %s", strerror(errno));
}

static void destroy_conn(struct conn *c)
{
	const struct verbs *v = c->server->verbs;

	v->disconnect(c->id);
	v->destroy_qp(c->qp);
	/* Only now can nothing that it sent take effect any more. */
	if (c->server->locker)
		locker_dead(c->server->locker, c->connection_id, &c->lock_note);
	v->destroy_id(c->id);
	if (c->fate)
		fates_keep(c->server->fates, c->connection_id, c->fate);
	unlink_all(c);
	free(c);
}

static void bury_done(struct host *h)
{
	eventfd_t value;

	eventfd_read(h->done_fd, &value);
	pthread_mutex_lock(&h->done_lock);
	struct conn *c = h->done, *next;
	h->done = NULL;
	pthread_mutex_unlock(&h->done_lock);
	for (; c; c = next) {
		next = c->next;
		destroy_conn(c);
	}
}

static void look_after_conn(struct conn *c, uint64_t now)
{
	uint64_t denied = atomic_load(&c->denied_ns);
	uint64_t stuck = atomic_load_explicit(&c->stuck_ns, memory_order_relaxed);

	if (atomic_load(&c->disconnected))
		return;
	if (denied && now - denied > 2 * DENIED_NS) {
		conn_drop(c, "its hello proved nothing");
	} else if (denied && now - denied > DENIED_NS && !c->denial_told) {
		c->denial_told = true;
		worker_deny(c);
	} else if (is_pending(c) && now - c->since_ns > HELLO_NS_MAX) {
		conn_drop(c, "it said nothing for 10 s after it connected");
	} else if (stuck && now > stuck && now - stuck > STUCK_NS_MAX) {
		conn_drop(c, "it took none of its replies for 10 s");
	}
}

/* Peers that are silent, slow, or to be told what they are. */
static void look_after(struct host *h)
{
	uint64_t now = clock_ns();

	if (now - h->looked_ns < LOOK_NS)
		return;
	h->looked_ns = now;
	for (unsigned i = 0; i < h->server_count; i++)
		for (struct conn *c = h->servers[i].conns; c; c = c->all_next)
			look_after_conn(c, now);
}

/* ----------------------------------------------------------- start and run */

int listen_start(struct host *h, struct err *err)
{
	h->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (h->done_fd < 0)
		return err_set_errno(err, -1, errno, "can't set up event descriptors");
	return listeners_open(h, err);
}

/* SIGHUP: the log's level, and the users. */
static void reload(struct host *h)
{
	struct server *s = h->servers;
	static const char *const names[] = { "error", "warn", "info", "debug" };
	struct options fresh;
	struct err err;

	if (options_again(&fresh, &err)) {
		log_error("%s: the log's level stays %s", err.text, names[s->options.log_level]);
	} else if (fresh.log_level != s->options.log_level) {
		/* Told at the wider of the two. */
		if (fresh.log_level > s->options.log_level)
			log_set_level((enum log_level)fresh.log_level);
		log_info("the log's level is %s now", names[fresh.log_level]);
		log_set_level((enum log_level)fresh.log_level);
		s->options.log_level = fresh.log_level;
	}
	for (unsigned i = 0; i < h->server_count; i++)
		gate_reload(h->servers[i].gate);
}

static bool stop_asked(struct host *h)
{
	struct signalfd_siginfo info;

	if (read(h->signal_fd, &info, sizeof info) != (ssize_t)sizeof info)
		return false;
	if (info.ssi_signo == SIGHUP) {
		reload(h);
		return false;
	}
	log_info("%s: finishing what was accepted", strsignal((int)info.ssi_signo));
	notify_manager("STOPPING=1\nSTATUS=Finishing what was accepted\n");
	return true;
}

/* The users' files that were touched. */
static void look_at_users(struct host *h, const struct pollfd *fds)
{
	for (unsigned i = 0; i < h->server_count; i++)
		if (fds[i].revents && gate_touched(h->servers[i].gate))
			gate_reload(h->servers[i].gate);
}

int listen_run(struct host *h)
{
	struct pollfd fds[4 + 1 + NAMESPACES_MAX] = {
		{ .fd = h->channel->fd, .events = POLLIN },
		{ .fd = watch_fd(h->watch), .events = POLLIN },
		{ .fd = h->done_fd, .events = POLLIN },
		{ .fd = h->signal_fd, .events = POLLIN },
	};

	for (unsigned i = 0; i < h->server_count; i++)
		fds[4 + i] = (struct pollfd){ .fd = gate_fd(h->servers[i].gate), .events = POLLIN };
	for (;;) {
		int wait_ms = count_pending(h) ? (int)(LOOK_NS / 1000000) : 1000;
		int n = poll(fds, 4 + h->server_count, wait_ms);
		if (n < 0 && errno != EINTR) {
			log_error("poll: %s", strerror(errno));
			return -1;
		}
		look_after(h);
		if (n <= 0)
			continue;
		if (fds[0].revents && !on_cm_event(h))
			return -1;
		if (fds[1].revents)
			return -1; /* it said why */
		if (fds[2].revents)
			bury_done(h);
		if (fds[3].revents && stop_asked(h))
			return 0;
		look_at_users(h, fds + 4);
	}
}

static void stop_server(struct server *s)
{
	for (unsigned i = 0; i < s->worker_count; i++)
		worker_stop(&s->workers[i]);
	while (s->conns)
		destroy_conn(s->conns);
	locker_delete(&s->locker);
}

void listen_stop(struct host *h)
{
	const struct verbs *v = h->servers->verbs;

	listeners_close(h);
	for (unsigned i = 0; i < h->server_count; i++)
		stop_server(&h->servers[i]);
	if (h->channel)
		v->destroy_event_channel(h->channel);
	h->channel = NULL;
}
