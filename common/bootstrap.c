/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdma_cm's part over TCP.
 *
 * An id is one socket and a state.  Happy path of the client: bind or resolve opens the
 * device; connect() begins the TCP connection, CONNECTING; when it is there the request
 * is sent, ASKED; the response comes, ANSWERED; establish() says ready, UP.  Of kvd: a
 * peer is accepted, HALF_OPEN, an id that nobody outside knows; its request is whole,
 * REQUESTED, and told; accept() sends the response, ACCEPTED; ready comes, UP.  In any
 * state the end of the TCP connection, or a byte too much, is OVER, and told as far as
 * the id is known.
 *
 * The channel's descriptor is an epoll set of the sockets and of a bell, which rings
 * while events are queued.
 */
#include "common/bootstrap.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define HALF_OPEN_MAX 256u
#define ACCEPTS_MAX 64u /* in a row, then the others' turn */
/* A host that died is noticed after these, in seconds: idle, between probes, how many. */
#define KEEP_IDLE_S 10
#define KEEP_PAUSE_S 5
#define KEEP_PROBES 4

enum state {
	IDLE,
	LISTENING,
	HALF_OPEN,
	REQUESTED,
	ACCEPTED,
	CONNECTING,
	ASKED,
	ANSWERED,
	UP,
	OVER,
};

struct queued {
	struct rdma_cm_event event;
	struct queued *next;
	uint8_t data[WIRE_BOOTSTRAP_DATA_BYTES];
};

struct channel {
	struct rdma_event_channel ib;
	int bell;
	struct queued *head, **tail;
};

struct id {
	struct rdma_cm_id ib;
	struct bootstrap_path path;
	enum state state;
	int fd;
	int spare_fd; /* of a listener: given up to turn one away when there is none left */
	struct wire_bootstrap out, peer;
	uint8_t in[sizeof(struct wire_bootstrap)];
	size_t in_bytes;
	/* HALF_OPEN ones, the latest first; of a listener their list and number. */
	struct id *listener, *half_open, *next, **prev;
	unsigned half_open_count;
};

static struct channel *channel_of(const struct id *id)
{
	return (struct channel *)id->ib.channel;
}

static struct id *id_of(struct rdma_cm_id *id)
{
	return (struct id *)id;
}

static int fail(int error)
{
	errno = error;
	return -1;
}

/* ---------------------------------------------------------------- messages */

bool bootstrap_is_sane(const struct wire_bootstrap *m, unsigned kinds)
{
	return m->magic == WIRE_BOOTSTRAP_MAGIC && m->version == WIRE_BOOTSTRAP_VERSION &&
	       m->kind <= WIRE_BOOTSTRAP_READY && (kinds & 1u << m->kind) &&
	       (m->link_layer == WIRE_BOOTSTRAP_INFINIBAND ||
		m->link_layer == WIRE_BOOTSTRAP_ETHERNET) &&
	       m->qpn <= 0xffffff && m->psn <= 0xffffff && m->mtu >= IBV_MTU_256 &&
	       m->mtu <= IBV_MTU_4096 && m->data_bytes <= WIRE_BOOTSTRAP_DATA_BYTES;
}

static void fill(struct id *id, enum wire_bootstrap_kind kind, const struct rdma_conn_param *param)
{
	struct wire_bootstrap *m = &id->out;

	*m = (struct wire_bootstrap){ .magic = WIRE_BOOTSTRAP_MAGIC,
				      .version = WIRE_BOOTSTRAP_VERSION, .kind = (uint8_t)kind };
	bootstrap_path_tell(&id->path, m);
	if (!param)
		return;
	m->qpn = param->qp_num;
	m->initiator_depth = param->initiator_depth;
	m->responder_resources = param->responder_resources;
	m->data_bytes = param->private_data_len;
	memcpy(m->data, param->private_data, param->private_data_len);
}

/* So little fits into a socket that has just been made, or it is of no use. */
static int send_out(struct id *id)
{
	ssize_t n = send(id->fd, &id->out, sizeof id->out, MSG_NOSIGNAL | MSG_DONTWAIT);

	if (n == (ssize_t)sizeof id->out)
		return 0;
	return n < 0 ? -1 : fail(EPIPE);
}

/* ------------------------------------------------------------------ events */

static struct queued *put_event(struct id *id, enum rdma_cm_event_type type, int status)
{
	struct channel *ch = channel_of(id);
	struct queued *q = calloc(1, sizeof *q);

	if (!q)
		return NULL; /* UNTESTED: the caller's time-out ends it */
	q->event.id = &id->ib;
	q->event.event = type;
	q->event.status = status;
	if (!ch->head && eventfd_write(ch->bell, 1)) {
		free(q);
		return NULL;
	}
	*ch->tail = q;
	ch->tail = &q->next;
	return q;
}

/* With what the peer's message says; READs of one end are answered by the other. */
static void put_message(struct id *id, enum rdma_cm_event_type type, int status)
{
	const struct wire_bootstrap *m = &id->peer;
	struct queued *q = put_event(id, type, status);

	if (!q)
		return;
	memcpy(q->data, m->data, m->data_bytes);
	q->event.param.conn = (struct rdma_conn_param){
		.private_data = q->data,
		.private_data_len = m->data_bytes,
		.responder_resources = m->initiator_depth,
		.initiator_depth = m->responder_resources,
		.qp_num = m->qpn,
	};
}

static void drop_events(struct channel *ch, const struct id *id)
{
	struct queued **at = &ch->head;
	eventfd_t value;

	while (*at) {
		struct queued *q = *at;
		if (q->event.id == &id->ib) {
			*at = q->next;
			free(q);
		} else {
			at = &q->next;
		}
	}
	ch->tail = at;
	if (!ch->head)
		eventfd_read(ch->bell, &value);
}

static struct queued *pop_event(struct channel *ch)
{
	struct queued *q = ch->head;
	eventfd_t value;

	if (!q)
		return NULL;
	ch->head = q->next;
	if (!ch->head) {
		ch->tail = &ch->head;
		eventfd_read(ch->bell, &value);
	}
	return q;
}

/* --------------------------------------------------------------------- ids */

static struct rdma_event_channel *boot_create_event_channel(void)
{
	struct channel *ch = calloc(1, sizeof *ch);
	struct epoll_event e = { .events = EPOLLIN };

	if (!ch)
		return NULL;
	ch->tail = &ch->head;
	ch->ib.fd = epoll_create1(EPOLL_CLOEXEC);
	ch->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (ch->ib.fd >= 0 && ch->bell >= 0 &&
	    !epoll_ctl(ch->ib.fd, EPOLL_CTL_ADD, ch->bell, &e))
		return &ch->ib;
	int error = errno;
	if (ch->ib.fd >= 0)
		close(ch->ib.fd);
	if (ch->bell >= 0)
		close(ch->bell);
	free(ch);
	errno = error;
	return NULL;
}

static void boot_destroy_event_channel(struct rdma_event_channel *channel)
{
	struct channel *ch = (struct channel *)channel;

	while (ch->head)
		free(pop_event(ch));
	close(ch->bell);
	close(ch->ib.fd);
	free(ch);
}

static struct id *new_id(struct rdma_event_channel *channel, void *context)
{
	struct id *id = calloc(1, sizeof *id);

	if (!id)
		return NULL;
	id->ib.channel = channel;
	id->ib.context = context;
	id->ib.ps = RDMA_PS_TCP;
	id->fd = id->spare_fd = -1;
	return id;
}

/* A socket that is closed leaves the channel's set by itself. */
static void close_fd(struct id *id)
{
	if (id->fd >= 0)
		close(id->fd);
	id->fd = -1;
}

static void leave_half_open(struct id *id)
{
	if (!id->prev)
		return;
	*id->prev = id->next;
	if (id->next)
		id->next->prev = id->prev;
	id->prev = NULL;
	id->listener->half_open_count--;
}

static int boot_destroy_id(struct rdma_cm_id *ibid)
{
	struct id *id = id_of(ibid);

	while (id->half_open)
		boot_destroy_id(&id->half_open->ib);
	leave_half_open(id);
	drop_events(channel_of(id), id);
	close_fd(id);
	if (id->spare_fd >= 0)
		close(id->spare_fd);
	free(id);
	return 0;
}

static int boot_create_id(const struct verbs *base, struct rdma_event_channel *channel,
			  struct rdma_cm_id **ibid, void *context)
{
	struct id *id = new_id(channel, context);

	if (!id)
		return -1;
	id->path.base = base;
	*ibid = &id->ib;
	return 0;
}

static int boot_set_option(struct rdma_cm_id *ibid, int level, int name, void *value, size_t bytes)
{
	struct id *id = id_of(ibid);

	(void)name;
	if (level != BOOTSTRAP_LEVEL || bytes != sizeof id->path.device || id->state != IDLE)
		return fail(EINVAL);
	memcpy(&id->path.device, value, bytes);
	return 0;
}

static int watch(struct id *id, int op, uint32_t events)
{
	struct epoll_event e = { .events = events, .data.ptr = id };

	return epoll_ctl(id->ib.channel->fd, op, id->fd, &e);
}

/* What rdma_cm shows of the path that it chose. */
static void show_path(struct id *id)
{
	id->ib.verbs = id->path.ctx;
	id->ib.port_num = id->path.port;
	memcpy(&id->ib.route.addr.addr.ibaddr.sgid, &id->path.gid, sizeof id->path.gid);
}

static int open_path(struct id *id)
{
	if (bootstrap_path_open(&id->path))
		return -1;
	show_path(id);
	return 0;
}

static socklen_t address_bytes(const struct sockaddr *sa)
{
	return sa->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
					 : sizeof(struct sockaddr_in);
}

/* Messages are sent at once, and the peer's death is noticed. */
static void tune_socket(int fd)
{
	const struct {
		int level, name, value;
	} options[] = { { IPPROTO_TCP, TCP_NODELAY, 1 }, { SOL_SOCKET, SO_KEEPALIVE, 1 },
			{ IPPROTO_TCP, TCP_KEEPIDLE, KEEP_IDLE_S },
			{ IPPROTO_TCP, TCP_KEEPINTVL, KEEP_PAUSE_S },
			{ IPPROTO_TCP, TCP_KEEPCNT, KEEP_PROBES } };

	for (unsigned i = 0; i < sizeof options / sizeof options[0]; i++)
		(void)setsockopt(fd, options[i].level, options[i].name, &options[i].value,
				 sizeof options[i].value);
}

static int new_socket(const struct sockaddr *sa)
{
	return socket(sa->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

/* ------------------------------------------------------------------ client */

static int boot_resolve_addr(struct rdma_cm_id *ibid, struct sockaddr *src, struct sockaddr *dst,
			     int timeout_ms)
{
	struct id *id = id_of(ibid);

	(void)src;
	(void)timeout_ms;
	if (open_path(id))
		return -1;
	memcpy(&ibid->route.addr.dst_addr, dst, address_bytes(dst));
	return put_event(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0) ? 0 : fail(ENOMEM);
}

static int boot_resolve_route(struct rdma_cm_id *ibid, int timeout_ms)
{
	(void)timeout_ms;
	return put_event(id_of(ibid), RDMA_CM_EVENT_ROUTE_RESOLVED, 0) ? 0 : fail(ENOMEM);
}

static int boot_connect(struct rdma_cm_id *ibid, struct rdma_conn_param *param)
{
	const struct sockaddr *to = &ibid->route.addr.dst_addr;
	struct id *id = id_of(ibid);

	if (id->state != IDLE || !ibid->verbs || param->private_data_len > sizeof id->out.data)
		return fail(EINVAL);
	id->fd = new_socket(to);
	if (id->fd < 0)
		return -1;
	tune_socket(id->fd);
	fill(id, WIRE_BOOTSTRAP_REQUEST, param);
	if (connect(id->fd, to, address_bytes(to)) && errno != EINPROGRESS)
		return -1;
	if (watch(id, EPOLL_CTL_ADD, EPOLLOUT))
		return -1;
	id->state = CONNECTING;
	return 0;
}

static void is_over(struct id *id, enum rdma_cm_event_type type, int status)
{
	close_fd(id);
	id->state = OVER;
	put_event(id, type, status);
}

static void on_connected(struct id *id)
{
	socklen_t bytes = sizeof(int);
	int error = 0;

	if (getsockopt(id->fd, SOL_SOCKET, SO_ERROR, &error, &bytes))
		error = errno;
	if (!error && (send_out(id) || watch(id, EPOLL_CTL_MOD, EPOLLIN)))
		error = errno;
	id->state = ASKED;
	if (error)
		is_over(id, RDMA_CM_EVENT_UNREACHABLE, -error);
}

static int boot_establish(struct rdma_cm_id *ibid)
{
	struct id *id = id_of(ibid);

	if (id->state != ANSWERED)
		return fail(ENOTCONN);
	fill(id, WIRE_BOOTSTRAP_READY, NULL);
	if (send_out(id))
		return -1;
	id->state = UP;
	return 0;
}

/* ------------------------------------------------------------------ server */

static int boot_bind_addr(struct rdma_cm_id *ibid, struct sockaddr *addr)
{
	socklen_t bytes = sizeof ibid->route.addr.src_storage;
	struct id *id = id_of(ibid);
	int on = 1;

	if (open_path(id))
		return -1;
	id->fd = new_socket(addr);
	if (id->fd < 0)
		return -1;
	/* So that kvd can be started again while old connections linger. */
	if (setsockopt(id->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) ||
	    bind(id->fd, addr, address_bytes(addr)) ||
	    getsockname(id->fd, (struct sockaddr *)&ibid->route.addr.src_storage, &bytes))
		return -1;
	return 0;
}

static __be16 boot_get_src_port(struct rdma_cm_id *ibid)
{
	const struct sockaddr *sa = &ibid->route.addr.src_addr;

	return sa->sa_family == AF_INET6 ? ibid->route.addr.src_sin6.sin6_port
					 : ibid->route.addr.src_sin.sin_port;
}

static int boot_listen(struct rdma_cm_id *ibid, int backlog)
{
	struct id *id = id_of(ibid);

	id->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (id->fd < 0 || listen(id->fd, backlog) || watch(id, EPOLL_CTL_ADD, EPOLLIN))
		return -1;
	id->state = LISTENING;
	return 0;
}

/* No descriptor left: whoever waits is sent away rather than asked about for ever. */
static void turn_away(struct id *listener)
{
	if (listener->spare_fd < 0)
		return;
	close(listener->spare_fd);
	int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC);
	if (fd >= 0)
		close(fd);
	listener->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void drop_eldest(struct id *listener)
{
	struct id *eldest = listener->half_open;

	while (eldest->next)
		eldest = eldest->next;
	boot_destroy_id(&eldest->ib);
}

static void add_half_open(struct id *listener, int fd, const struct sockaddr_storage *from)
{
	struct id *id = new_id(listener->ib.channel, listener->ib.context);

	if (!id) {
		close(fd);
		return;
	}
	if (listener->half_open_count == HALF_OPEN_MAX)
		drop_eldest(listener);
	tune_socket(fd);
	id->fd = fd;
	id->state = HALF_OPEN;
	id->path.base = listener->path.base;
	memcpy(&id->ib.route.addr.dst_storage, from, sizeof *from);
	id->listener = listener;
	id->prev = &listener->half_open;
	id->next = listener->half_open;
	if (id->next)
		id->next->prev = &id->next;
	listener->half_open = id;
	listener->half_open_count++;
	if (watch(id, EPOLL_CTL_ADD, EPOLLIN))
		boot_destroy_id(&id->ib);
}

static void accept_peers(struct id *listener)
{
	struct sockaddr_storage from;

	for (unsigned i = 0; i < ACCEPTS_MAX; i++) {
		socklen_t bytes = sizeof from;
		memset(&from, 0, sizeof from);
		int fd = accept4(listener->fd, (struct sockaddr *)&from, &bytes,
				 SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd < 0 && (errno == EMFILE || errno == ENFILE))
			turn_away(listener);
		if (fd < 0 && errno != EINTR && errno != ECONNABORTED)
			return;
		if (fd >= 0)
			add_half_open(listener, fd, &from);
	}
}

static int boot_accept(struct rdma_cm_id *ibid, struct rdma_conn_param *param)
{
	struct id *id = id_of(ibid);

	if (id->state != REQUESTED)
		return fail(ENOTCONN);
	if (param->private_data_len > sizeof id->out.data)
		return fail(EINVAL);
	fill(id, WIRE_BOOTSTRAP_RESPONSE, param);
	if (send_out(id))
		return -1;
	id->state = ACCEPTED;
	return 0;
}

static int boot_reject(struct rdma_cm_id *ibid, const void *data, uint8_t bytes)
{
	struct rdma_conn_param param = { .private_data = data, .private_data_len = bytes };
	struct id *id = id_of(ibid);

	if (id->state != REQUESTED)
		return fail(ENOTCONN);
	if (bytes > sizeof id->out.data)
		return fail(EINVAL);
	fill(id, WIRE_BOOTSTRAP_REJECTION, &param);
	return send_out(id);
}

/* ---------------------------------------------------------- what peers send */

static void got_request(struct id *id)
{
	struct id *listener = id->listener;

	leave_half_open(id);
	if (!bootstrap_is_sane(&id->peer, 1u << WIRE_BOOTSTRAP_REQUEST) ||
	    bootstrap_path_again(&id->path, &listener->path)) {
		boot_destroy_id(&id->ib);
		return;
	}
	show_path(id);
	id->state = REQUESTED;
	put_message(id, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
}

static void got_answer(struct id *id)
{
	unsigned kinds = 1u << WIRE_BOOTSTRAP_RESPONSE | 1u << WIRE_BOOTSTRAP_REJECTION;

	if (!bootstrap_is_sane(&id->peer, kinds)) {
		is_over(id, RDMA_CM_EVENT_CONNECT_ERROR, -EPROTO);
	} else if (id->peer.kind == WIRE_BOOTSTRAP_RESPONSE) {
		id->state = ANSWERED;
		put_message(id, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	} else {
		close_fd(id);
		id->state = OVER;
		put_message(id, RDMA_CM_EVENT_REJECTED, 0);
	}
}

static void got_message(struct id *id)
{
	memcpy(&id->peer, id->in, sizeof id->peer);
	id->in_bytes = 0;
	if (id->state == HALF_OPEN) {
		got_request(id);
	} else if (id->state == ASKED) {
		got_answer(id);
	} else if (bootstrap_is_sane(&id->peer, 1u << WIRE_BOOTSTRAP_READY)) {
		id->state = UP;
		put_event(id, RDMA_CM_EVENT_ESTABLISHED, 0);
	} else {
		is_over(id, RDMA_CM_EVENT_DISCONNECTED, -EPROTO);
	}
}

static void ended(struct id *id, int error)
{
	if (id->state == HALF_OPEN)
		boot_destroy_id(&id->ib); /* nobody knows it */
	else if (id->state == ASKED)
		is_over(id, RDMA_CM_EVENT_CONNECT_ERROR, -(error ? error : ECONNRESET));
	else
		is_over(id, RDMA_CM_EVENT_DISCONNECTED, -error);
}

static void on_readable(struct id *id)
{
	bool expected = id->state == HALF_OPEN || id->state == ASKED || id->state == ACCEPTED;
	ssize_t n = recv(id->fd, id->in + id->in_bytes, sizeof id->in - id->in_bytes, MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		ended(id, n < 0 ? errno : 0);
		return;
	}
	if (!expected) {
		ended(id, EPROTO);
		return;
	}
	id->in_bytes += (size_t)n;
	if (id->in_bytes == sizeof id->in)
		got_message(id);
}

static int boot_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	struct channel *ch = (struct channel *)channel;
	struct epoll_event e;

	for (;;) {
		struct queued *q = pop_event(ch);
		if (q) {
			*event = &q->event;
			return 0;
		}
		int flags = fcntl(ch->ib.fd, F_GETFL);
		int n = epoll_wait(ch->ib.fd, &e, 1, flags & O_NONBLOCK ? 0 : -1);
		if (n <= 0)
			return n ? -1 : fail(EAGAIN);
		struct id *id = e.data.ptr;
		if (id && id->state == LISTENING)
			accept_peers(id);
		else if (id && id->state == CONNECTING)
			on_connected(id);
		else if (id)
			on_readable(id);
	}
}

static int boot_ack_cm_event(struct rdma_cm_event *event)
{
	free(event); /* the first member of its struct queued */
	return 0;
}

static int boot_disconnect(struct rdma_cm_id *ibid)
{
	struct id *id = id_of(ibid);

	return id->fd < 0 ? fail(ENOTCONN) : shutdown(id->fd, SHUT_RDWR);
}

static int boot_init_qp_attr(struct rdma_cm_id *ibid, struct ibv_qp_attr *attr, int *mask)
{
	struct id *id = id_of(ibid);

	return bootstrap_path_attr(&id->path, &id->peer, attr, mask);
}

/* ------------------------------------------------------------------- table */

static int create_id_system(struct rdma_event_channel *channel, struct rdma_cm_id **id,
			    void *context, enum rdma_port_space ps)
{
	(void)ps;
	return boot_create_id(&verbs_system, channel, id, context);
}

static int create_id_soft(struct rdma_event_channel *channel, struct rdma_cm_id **id,
			  void *context, enum rdma_port_space ps)
{
	(void)ps;
	return boot_create_id(verbs_soft, channel, id, context);
}

static struct verbs over_system, over_soft;

static void fill_table(struct verbs *v, const struct verbs *base)
{
	*v = *base;
	v->create_event_channel = boot_create_event_channel;
	v->destroy_event_channel = boot_destroy_event_channel;
	v->create_id = base->soft ? create_id_soft : create_id_system;
	v->destroy_id = boot_destroy_id;
	v->bind_addr = boot_bind_addr;
	v->resolve_addr = boot_resolve_addr;
	v->resolve_route = boot_resolve_route;
	v->connect = boot_connect;
	v->establish = boot_establish;
	v->listen = boot_listen;
	v->accept = boot_accept;
	v->reject = boot_reject;
	v->disconnect = boot_disconnect;
	v->init_qp_attr = boot_init_qp_attr;
	v->get_cm_event = boot_get_cm_event;
	v->ack_cm_event = boot_ack_cm_event;
	v->set_option = boot_set_option;
	v->get_src_port = boot_get_src_port;
}

static void fill_tables(void)
{
	fill_table(&over_system, &verbs_system);
	if (verbs_soft)
		fill_table(&over_soft, verbs_soft);
}

const struct verbs *bootstrap_verbs(const struct verbs *base)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, fill_tables);
	return base->soft ? &over_soft : &over_system;
}
