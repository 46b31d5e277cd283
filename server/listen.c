/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The main thread: connections come and go, asynchronous events, signals.
 *
 * A connection: CONNECT_REQUEST -> its private data is checked, a queue pair is
 * made on the worker with the fewest connections and brought to RTS without any
 * remote right -> handed to the worker -> accepted.  DISCONNECTED, or an error of
 * its queue pair -> the worker is told, drains it and gives it back -> it is
 * destroyed here.  One that says nothing for HELLO_NS_MAX is dropped.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "common/log.h"
#include "server/server.h"

#define BACKLOG 128
#define CREDITS_DEFAULT 32u
#define CREDITS_MAX 129u /* of libkvd: 128 operations, and an unlock */
#define PULL_SENDS 8u
#define UNSIGNALED_SENDS 32u /* twice what reply.c posts from signal to signal */
#define HELLO_NS_MAX 10000000000ull

static int set_nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) ? errno : 0;
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
	    link_qp_ready(s->verbs, c->id, c->qp, 0, c->rd_atom, peer_rd_atom, err)) {
		s->verbs->destroy_qp(c->qp);
		return -1;
	}
	return 0;
}

static struct conn *new_conn(struct server *s, struct rdma_cm_id *id,
			     const struct wire_connect *request)
{
	struct conn *c = calloc(1, sizeof *c);

	if (!c)
		return NULL;
	c->server = s;
	c->id = id;
	c->connection_id = ++s->conn_last_id;
	c->credits = request->depth ? request->depth : CREDITS_DEFAULT;
	if (c->credits > CREDITS_MAX)
		c->credits = CREDITS_MAX;
	c->since_ns = clock_ns();
	addr_from(&c->peer, rdma_get_peer_addr(id));
	return c;
}

static void accept_conn(struct server *s, struct rdma_cm_id *id,
			const struct wire_connect *request, const struct rdma_conn_param *asked)
{
	struct wire_accept answer = { .magic = WIRE_MAGIC, .version = WIRE_VERSION };
	struct rdma_conn_param param;
	struct err err = { "out of memory" };
	struct conn *c = new_conn(s, id, request);
	struct worker *w = choose_worker(s);
	uint8_t peer = asked->initiator_depth < s->limits.rd_atom ? asked->initiator_depth
								  : s->limits.rd_atom;

	if (!c || new_qp(c, w, peer, &err)) {
		log_error("no connection for %s: %s", c ? c->peer.text : "a peer", err.text);
		free(c);
		refuse(s, id, WIRE_REFUSED_RESOURCES, 0);
		return;
	}
	if (asked->responder_resources < c->rd_atom)
		c->rd_atom = asked->responder_resources;
	id->context = c;
	link_all(s, c);
	atomic_fetch_add(&w->load, 1);
	if (s->locker)
		locker_born(s->locker, c->connection_id);
	worker_give(w, c);
	link_conn_param(&param, c->qp, &answer, sizeof answer, c->rd_atom, peer);
	if (s->verbs->accept(id, &param)) {
		log_error("accepting %s failed: %s", c->peer.text, strerror(errno));
		atomic_store(&c->disconnected, true);
		worker_wake(w);
		return;
	}
	log_debug("connection %llu from %s on worker %u", (unsigned long long)c->connection_id,
		  c->peer.text, w->id);
}

static void on_request(struct server *s, struct rdma_cm_event *e)
{
	static const char *const why[] = {
		[WIRE_REFUSED_MAGIC] = "it does not speak kvd's protocol",
		[WIRE_REFUSED_VERSION] = "it speaks another version of the protocol",
		[WIRE_REFUSED_CONNECTIONS] = "the limit of connections is reached (--connections)",
	};
	struct wire_connect request = { 0 };
	struct rdma_conn_param asked = e->param.conn;
	struct rdma_cm_id *id = e->id;
	struct addr peer;
	enum wire_refusal refusal = check_request(e, &request);
	uint32_t limit = (uint32_t)s->options.connections;

	addr_from(&peer, rdma_get_peer_addr(id));
	s->verbs->ack_cm_event(e);
	if (refusal == WIRE_ACCEPTED && s->conn_count >= limit)
		refusal = WIRE_REFUSED_CONNECTIONS;
	if (refusal != WIRE_ACCEPTED) {
		log_warn("refused %s: %s", peer.text, why[refusal]);
		refuse(s, id, refusal, limit);
		return;
	}
	accept_conn(s, id, &request, &asked);
}

/* ------------------------------------------------------------------ events */

static void tell_gone(struct conn *c)
{
	atomic_store(&c->disconnected, true);
	worker_wake(c->worker);
}

static void on_cm_event(struct server *s)
{
	struct rdma_cm_event *e;
	char words[256];

	while (!s->verbs->get_cm_event(s->channel, &e)) {
		struct conn *c = e->id == s->listener ? NULL : e->id->context;
		switch (e->event) {
		case RDMA_CM_EVENT_CONNECT_REQUEST:
			on_request(s, e);
			continue;
		case RDMA_CM_EVENT_ESTABLISHED:
			break;
		case RDMA_CM_EVENT_DISCONNECTED:
			/* Our side of the handshake, so that the peer needs no time-out. */
			s->verbs->disconnect(e->id);
			/* fall through */
		default:
			log_debug("%s: %s", c ? c->peer.text : "listener",
				  link_event_words(e, words, sizeof words));
			if (c && e->event != RDMA_CM_EVENT_TIMEWAIT_EXIT)
				tell_gone(c);
			break;
		}
		s->verbs->ack_cm_event(e);
	}
}

static void on_qp_event(const struct ibv_async_event *e)
{
	struct conn *c = e->element.qp->qp_context;

	if (e->event_type == IBV_EVENT_QP_LAST_WQE_REACHED) {
		atomic_store(&c->last_wqe, true);
		worker_wake(c->worker);
		return;
	}
	log_warn("%s: %s", c->peer.text, ibv_event_type_str(e->event_type));
	tell_gone(c);
}

static bool on_async_event(struct server *s)
{
	struct ibv_async_event e;
	bool go_on = true;

	while (!s->verbs->get_async_event(s->ctx, &e)) {
		switch (e.event_type) {
		case IBV_EVENT_QP_FATAL:
		case IBV_EVENT_QP_REQ_ERR:
		case IBV_EVENT_QP_ACCESS_ERR:
		case IBV_EVENT_QP_LAST_WQE_REACHED:
			on_qp_event(&e);
			break;
		case IBV_EVENT_COMM_EST:
			break;
		case IBV_EVENT_DEVICE_FATAL:
		case IBV_EVENT_CQ_ERR:
			log_error("%s: %s; kvd stops", s->ctx->device->name,
				  ibv_event_type_str(e.event_type));
			go_on = false;
			break;
		default:
			log_warn("%s: %s", s->ctx->device->name, ibv_event_type_str(e.event_type));
			break;
		}
		s->verbs->ack_async_event(&e);
	}
	return go_on;
}

/* ------------------------------------------------------------------ burial */

void conn_done(struct conn *c)
{
	struct server *s = c->server;

	pthread_mutex_lock(&s->done_lock);
	c->next = s->done;
	s->done = c;
	pthread_mutex_unlock(&s->done_lock);
	if (eventfd_write(s->done_fd, 1))
		log_error("can't wake the main thread: %s", strerror(errno));
}

static void destroy_conn(struct conn *c)
{
	const struct verbs *v = c->server->verbs;

	v->disconnect(c->id);
	v->destroy_qp(c->qp);
	/* Only now can nothing that it sent take effect any more. */
	if (c->server->locker)
		locker_dead(c->server->locker, c->connection_id);
	v->destroy_id(c->id);
	if (c->fate)
		fates_keep(c->server->fates, c->connection_id, c->fate);
	unlink_all(c);
	free(c);
}

static void bury_done(struct server *s)
{
	eventfd_t value;

	eventfd_read(s->done_fd, &value);
	pthread_mutex_lock(&s->done_lock);
	struct conn *c = s->done, *next;
	s->done = NULL;
	pthread_mutex_unlock(&s->done_lock);
	for (; c; c = next) {
		next = c->next;
		destroy_conn(c);
	}
}

/* The state is the worker's, but a stale look only delays this. */
static void drop_silent(struct server *s)
{
	uint64_t now = clock_ns();

	for (struct conn *c = s->conns; c; c = c->all_next)
		if (__atomic_load_n(&c->state, __ATOMIC_RELAXED) == CONN_NEW &&
		    now - c->since_ns > HELLO_NS_MAX && !atomic_load(&c->disconnected)) {
			log_warn("%s said nothing for 10 s after it connected", c->peer.text);
			tell_gone(c);
		}
}

/* ----------------------------------------------------------- start and run */

int listen_start(struct server *s, struct err *err)
{
	const struct verbs *v = s->verbs;

	s->channel = v->create_event_channel();
	if (!s->channel)
		return err_set_errno(err, -1, errno,
				     "can't open an RDMA event channel (is the module rdma_ucm loaded?)");
	if (v->create_id(s->channel, &s->listener, s, RDMA_PS_TCP))
		return err_set_errno(err, -1, errno, "can't create an RDMA id");
	if (v->bind_addr(s->listener, &s->addr.sa)) {
		char names[256];
		int e = errno;
		if (e == EADDRINUSE)
			return err_set(err, -1, "%s is in use: another kvd serves it; use another port, "
				       "or port 0 for any", s->addr.text);
		if (e == ENODEV || e == EADDRNOTAVAIL)
			return err_set(err, -1, "no RDMA device serves the address %s (devices: %s): give "
				       "the address of an RDMA interface ('rdma link' lists them)",
				       s->addr.text, device_list(names, sizeof names));
		return err_set_errno(err, -1, e, "can't bind to %s", s->addr.text);
	}
	if (device_check(&s->device, s->listener, &s->addr, err))
		return -1;
	s->ctx = s->listener->verbs;
	if (!s->ctx)
		return err_set(err, -1, "%s is on no single device: give the address of one interface",
			       s->addr.text);
	addr_set_port(&s->addr, ntohs(v->get_src_port(s->listener)));
	int rc = set_nonblocking(s->channel->fd);
	if (!rc)
		rc = set_nonblocking(s->ctx->async_fd);
	s->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (rc || s->done_fd < 0)
		return err_set_errno(err, -1, rc ? rc : errno, "can't set up event descriptors");
	return 0;
}

static bool stop_asked(struct server *s)
{
	struct signalfd_siginfo info;

	if (read(s->signal_fd, &info, sizeof info) != (ssize_t)sizeof info)
		return false;
	log_info("%s: finishing what was accepted", strsignal((int)info.ssi_signo));
	return true;
}

int listen_run(struct server *s)
{
	struct pollfd fds[] = { { .fd = s->channel->fd, .events = POLLIN },
				{ .fd = s->ctx->async_fd, .events = POLLIN },
				{ .fd = s->done_fd, .events = POLLIN },
				{ .fd = s->signal_fd, .events = POLLIN } };

	for (;;) {
		int n = poll(fds, sizeof fds / sizeof fds[0], 1000);
		if (n < 0 && errno != EINTR) {
			log_error("poll: %s", strerror(errno));
			return -1;
		}
		if (n <= 0) {
			drop_silent(s);
			continue;
		}
		if (fds[0].revents)
			on_cm_event(s);
		if (fds[1].revents && !on_async_event(s))
			return -1;
		if (fds[2].revents)
			bury_done(s);
		if (fds[3].revents && stop_asked(s))
			return 0;
	}
}

void listen_stop(struct server *s)
{
	const struct verbs *v = s->verbs;

	if (s->listener)
		v->destroy_id(s->listener);
	s->listener = NULL;
	for (unsigned i = 0; i < s->worker_count; i++)
		worker_stop(&s->workers[i]);
	while (s->conns)
		destroy_conn(s->conns);
	locker_delete(&s->locker);
	if (s->channel)
		v->destroy_event_channel(s->channel);
	s->channel = NULL;
}
