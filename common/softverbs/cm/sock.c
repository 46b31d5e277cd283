/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sock.c -- connection management: the sockets between processes, and time.
 *
 * A listener is an abstract unix socket "softverbs/<fabric>/cm/<address>/<port>".
 * A connection is a SEQPACKET connection to it, which lives as long as both ids; what
 * its messages, its end and the lack of both mean is in conn.c.  One that has sent
 * no request yet is its listener's, an embryo.  Nothing blocks.
 *
 * Nobody listens: tried again for 100 ms.  The listener's backlog is full: for as long as
 * the id waits.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/un.h>
#include <unistd.h>
#include "common/softverbs/cm/cm.h"

#define BACKLOG_RETRY_MS 5
/* A request takes its time on a wire; a server that listens anew between two clients, as
 * perftest's does, relies on it. */
#define REFUSE_AFTER_MS 100
#define PORT_TRIES 1000
#define FIRST_FREE_PORT 32768
#define MESSAGES_PER_WAKE 16
#define IPV6_ONLY "::!"

/* ---- time ---- */

uint64_t sv_cm_timeout_ms(void)
{
	const char *text = getenv("SOFTVERBS_CM_TIMEOUT_MS");
	unsigned long ms = text ? strtoul(text, NULL, 10) : 0;

	return ms && ms <= 600000 ? ms : SV_CM_TIMEOUT_MS;
}

static void due_at(uint64_t at_ns)
{
	if (at_ns < atomic_load(&sv_cm.next_ns))
		atomic_store(&sv_cm.next_ns, at_ns);
	sv_ctl_wake_at(at_ns);
}

void sv_cm_set_deadline(struct sv_id *id, uint64_t in_ms)
{
	id->deadline_ns = in_ms ? sv_now_ns() + in_ms * 1000000u : UINT64_MAX;
	if (in_ms)
		due_at(id->deadline_ns);
}

/* ---- addresses ---- */

static uint16_t port_of(const struct sockaddr *addr)
{
	return addr->sa_family == AF_INET6 ?
		       ntohs(((const struct sockaddr_in6 *)(const void *)addr)->sin6_port) :
		       ntohs(((const struct sockaddr_in *)(const void *)addr)->sin_port);
}

static void set_port(struct sockaddr *addr, uint16_t port)
{
	if (addr->sa_family == AF_INET6)
		((struct sockaddr_in6 *)(void *)addr)->sin6_port = htons(port);
	else
		((struct sockaddr_in *)(void *)addr)->sin_port = htons(port);
}

static socklen_t unix_name(struct sockaddr_un *sun, const char *host, uint16_t port)
{
	char name[INET6_ADDRSTRLEN + 8];

	snprintf(name, sizeof(name), "%s/%u", host, port);
	return sv_address(sun, "cm", name);
}

static void host_name(const struct sockaddr *addr, char *host, socklen_t size)
{
	const struct sockaddr_in6 *in6 = (const void *)addr;
	const struct sockaddr_in *in = (const void *)addr;

	if (addr->sa_family == AF_INET)
		inet_ntop(AF_INET, &in->sin_addr, host, size);
	else if (IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr))
		inet_ntop(AF_INET, &in6->sin6_addr.s6_addr[12], host, size);
	else
		inet_ntop(AF_INET6, &in6->sin6_addr, host, size);
}

static int open_socket(void)
{
	return sv_fd_track(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

/* ---- sockets of ids ---- */

static void on_listener(struct sv_watch *watch, uint32_t events);
static void on_connection(struct sv_watch *watch, uint32_t events);

static void release_sock(struct sv_watch *watch)
{
	free(SV_CONTAINER(watch, struct sv_cm_sock, watch));
}

static struct sv_cm_sock *new_sock(int fd, struct sv_id *id)
{
	struct sv_cm_sock *sock = calloc(1, sizeof(*sock));

	if (!sock)
		return NULL;
	sock->watch.fd = fd;
	sock->watch.release = release_sock;
	sock->id = id;
	return sock;
}

/* Closes at once (its address is free again) and frees later. */
static void end_sock(struct sv_cm_sock *sock)
{
	sock->id = sock->listener = NULL;
	sv_fd_close(sock->watch.fd);
	sock->watch.fd = -1;
	sv_watch_retire(&sock->watch);
}

void sv_cm_close(struct sv_id *id)
{
	while (id->embryos) {
		struct sv_cm_sock *sock = id->embryos;

		id->embryos = sock->next;
		end_sock(sock);
	}
	id->nembryos = 0;
	if (id->sock)
		end_sock(id->sock);
	id->sock = NULL;
}

static int bind_port(int fd, const char *host, uint16_t port)
{
	struct sockaddr_un sun;

	return bind(fd, (struct sockaddr *)&sun, unix_name(&sun, host, port)) ? errno : 0;
}

static int bind_free_port(int fd, const char *host, uint16_t *port)
{
	uint16_t random;

	for (int i = 0; i < PORT_TRIES; i++) {
		int ret;

		if (sv_random(&random, sizeof(random)))
			return EIO;
		*port = (uint16_t)(FIRST_FREE_PORT + random % FIRST_FREE_PORT);
		ret = bind_port(fd, host, *port);
		if (ret != EADDRINUSE)
			return ret;
	}
	return EADDRINUSE;
}

int sv_cm_bind(struct sv_id *id, const struct sockaddr *addr)
{
	char host[INET6_ADDRSTRLEN] = "";
	uint16_t port = port_of(addr);
	int fd, ret;

	host_name(addr, host, sizeof(host));
	if (id->af_only && !strcmp(host, "::"))
		strcpy(host, IPV6_ONLY);
	fd = open_socket();
	if (fd < 0)
		return errno;
	ret = port ? bind_port(fd, host, port) : bind_free_port(fd, host, &port);
	if (ret)
		goto err;
	ret = ENOMEM;
	id->sock = new_sock(fd, id);
	if (!id->sock)
		goto err;
	memcpy(&id->id.route.addr.src_storage, addr,
	       addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) :
					     sizeof(struct sockaddr_in));
	set_port(&id->id.route.addr.src_addr, port);
	return 0;
err:
	sv_fd_close(fd);
	return ret;
}

int sv_cm_listen(struct sv_id *id)
{
	if (listen(id->sock->watch.fd, (int)id->backlog))
		return errno;
	id->sock->watch.ready = on_listener;
	return sv_watch_add(&id->sock->watch, EPOLLIN);
}

int sv_cm_send(struct sv_id *id, const struct sv_cm_msg *msg)
{
	if (!id->sock || id->sock->watch.fd < 0)
		return ENOTCONN;
	return send(id->sock->watch.fd, msg, sizeof(*msg), MSG_DONTWAIT | MSG_NOSIGNAL) ==
			       (ssize_t)sizeof(*msg) ?
		       0 :
		       errno;
}

/* ---- connect ---- */

/* Tries the address itself, then the wildcards that would cover it.  IPV6_ONLY is
 * the name of the IPv6 wildcard that covers no IPv4 address. */
static int connect_listener(struct sv_id *id, int fd)
{
	const struct sockaddr *dst = &id->id.route.addr.dst_addr;
	char host[INET6_ADDRSTRLEN] = "";
	const char *hosts[3] = { host, "0.0.0.0", "::" };
	int ret = ECONNREFUSED;

	host_name(dst, host, sizeof(host));
	if (strchr(host, ':')) {
		hosts[1] = "::";
		hosts[2] = IPV6_ONLY;
	}
	for (int i = 0; i < 3 && ret == ECONNREFUSED; i++) {
		struct sockaddr_un sun;
		socklen_t len = unix_name(&sun, hosts[i], port_of(dst));

		ret = connect(fd, (struct sockaddr *)&sun, len) ? errno : 0;
	}
	return ret;
}

static int watch_connection(struct sv_id *id, int fd)
{
	struct sv_cm_sock *sock = new_sock(fd, id);

	if (!sock)
		return ENOMEM;
	if (id->sock) /* that which held the source port */
		end_sock(id->sock);
	id->sock = sock;
	sock->watch.ready = on_connection;
	return sv_watch_add(&sock->watch, EPOLLIN);
}

/* One try; EAGAIN if the listener's backlog is full, ECONNREFUSED if there is none. */
static int try_connect(struct sv_id *id)
{
	int fd = open_socket(), ret;

	if (fd < 0)
		return errno;
	ret = connect_listener(id, fd);
	if (!ret && !sv_same_user(fd))
		ret = ECONNREFUSED;
	if (ret) {
		sv_fd_close(fd);
		return ret;
	}
	ret = watch_connection(id, fd);
	return ret ? ret : sv_cm_send(id, &id->req);
}

void sv_cm_start_connect(struct sv_id *id)
{
	int ret = try_connect(id);
	uint64_t now = sv_now_ns();

	if (ret == ECONNREFUSED && !id->refused_ns)
		id->refused_ns = now;
	if (ret == ECONNREFUSED && now - id->refused_ns < REFUSE_AFTER_MS * 1000000ull)
		ret = EAGAIN;
	if (ret == ECONNREFUSED)
		sv_cm_connect_failed(id, RDMA_CM_EVENT_REJECTED, SV_REJ_NO_SERVICE);
	else if (ret && ret != EAGAIN)
		sv_cm_connect_failed(id, RDMA_CM_EVENT_UNREACHABLE, -ret);
	else if (ret)
		due_at(now + BACKLOG_RETRY_MS * 1000000u);
}

/* ---- passive side ---- */

static void unlink_embryo(struct sv_cm_sock *sock)
{
	struct sv_cm_sock **at;

	for (at = &sock->listener->embryos; *at != sock; at = &(*at)->next)
		;
	*at = sock->next;
	sock->listener->nembryos--;
}

static void drop_embryo(struct sv_cm_sock *sock)
{
	unlink_embryo(sock);
	end_sock(sock);
}

static void refuse(struct sv_cm_sock *sock, uint32_t reason)
{
	struct sv_cm_msg rej = { .type = SV_CM_REJ, .abi = SV_ABI_VERSION, .reason = reason };
	ssize_t n = send(sock->watch.fd, &rej, sizeof(rej), MSG_DONTWAIT | MSG_NOSIGNAL);

	(void)n;
	drop_embryo(sock);
}

static void on_request(struct sv_cm_sock *sock, const struct sv_cm_msg *req)
{
	struct sv_id *listener = sock->listener, *id = NULL;

	if (listener->nrequests < listener->backlog)
		id = sv_cm_new_id(listener);
	if (!id) {
		refuse(sock, SV_REJ_NO_RESOURCES);
		return;
	}
	unlink_embryo(sock);
	sock->listener = NULL;
	sock->id = id;
	id->sock = sock;
	sv_cm_on_request(id, listener, req);
}

static void add_embryo(struct sv_id *listener, int fd)
{
	struct sv_cm_sock *sock = sv_same_user(fd) ? new_sock(fd, NULL) : NULL;

	if (!sock) {
		sv_fd_close(fd);
		return;
	}
	sock->listener = listener;
	sock->deadline_ns = sv_now_ns() + sv_cm_timeout_ms() * 1000000u;
	sock->next = listener->embryos;
	listener->embryos = sock;
	listener->nembryos++;
	sock->watch.ready = on_connection;
	due_at(sock->deadline_ns);
	if (sv_watch_add(&sock->watch, EPOLLIN))
		drop_embryo(sock);
}

static void on_listener(struct sv_watch *watch, uint32_t events)
{
	struct sv_cm_sock *sock = SV_CONTAINER(watch, struct sv_cm_sock, watch);

	(void)events;
	pthread_mutex_lock(&sv_cm.lock);
	while (sock->id) {
		int fd = sv_accept_bounded(watch->fd);

		if (fd < 0)
			break;
		if (sock->id->nembryos >= SV_CM_EMBRYOS_MAX)
			sv_fd_close(fd);
		else
			add_embryo(sock->id, fd);
	}
	pthread_mutex_unlock(&sv_cm.lock);
}

/* Receives one message; false when there is nothing more to do. */
static bool receive_one(struct sv_cm_sock *sock)
{
	struct sv_cm_msg msg;
	ssize_t n = recv(sock->watch.fd, &msg, sizeof(msg), MSG_DONTWAIT | MSG_TRUNC);
	bool good = n == (ssize_t)sizeof(msg) && msg.abi == SV_ABI_VERSION;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (sock->listener) {
		if (good && msg.type == SV_CM_REQ)
			on_request(sock, &msg);
		else
			drop_embryo(sock);
	} else if (good) {
		sv_cm_on_message(sock->id, &msg);
	} else {
		/* It is gone, or speaks another language. */
		sv_watch_stop(&sock->watch);
		sv_cm_on_end(sock->id);
		return false;
	}
	return true;
}

static void on_connection(struct sv_watch *watch, uint32_t events)
{
	struct sv_cm_sock *sock = SV_CONTAINER(watch, struct sv_cm_sock, watch);

	(void)events;
	pthread_mutex_lock(&sv_cm.lock);
	for (int i = 0; i < MESSAGES_PER_WAKE && (sock->id || sock->listener); i++) {
		if (!receive_one(sock))
			break;
	}
	pthread_mutex_unlock(&sv_cm.lock);
}

/* ---- timers ---- */

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t run_embryos(struct sv_id *id, uint64_t now)
{
	struct sv_cm_sock *sock = id->embryos, *next;
	uint64_t due = UINT64_MAX;

	for (; sock; sock = next) {
		next = sock->next;
		if (now >= sock->deadline_ns)
			drop_embryo(sock);
		else
			due = earlier(due, sock->deadline_ns);
	}
	return due;
}

static uint64_t run_id(struct sv_id *id, uint64_t now)
{
	uint64_t due = run_embryos(id, now);

	if (now >= id->deadline_ns)
		sv_cm_is_late(id);
	if (id->state == SV_CM_CONNECTING && (!id->sock || !id->sock->watch.ready)) {
		sv_cm_start_connect(id); /* the backlog was full, or nobody listened */
		due = earlier(due, now + BACKLOG_RETRY_MS * 1000000u);
	}
	return earlier(due, id->deadline_ns);
}

uint64_t sv_cm_run_timers(void)
{
	uint64_t now = sv_now_ns();
	uint64_t next = atomic_load(&sv_cm.next_ns);

	if (now < next)
		return next;
	pthread_mutex_lock(&sv_cm.lock);
	next = UINT64_MAX;
	for (struct sv_id *id = sv_cm.ids; id; id = id->next)
		next = earlier(next, run_id(id, now));
	atomic_store(&sv_cm.next_ns, next);
	pthread_mutex_unlock(&sv_cm.lock);
	return next;
}
