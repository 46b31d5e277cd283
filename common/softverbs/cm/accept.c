/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * accept.c -- connection management: what comes over sockets.  Listeners take connections,
 * and both sides' connections take messages, on the control thread.
 *
 * A connection that has sent no request yet is its listener's, an embryo.  With its request
 * it gets an id of its own, or is refused.
 */
#include <sys/epoll.h>
#include "common/softverbs/base/compiler.h"
#include "common/softverbs/base/fd.h"
#include "common/softverbs/base/lock.h"
#include "common/softverbs/base/proc.h"
#include "common/softverbs/cm/accept.h"
#include "common/softverbs/cm/conn.h"

#define EMBRYOS_MAX 256
#define MESSAGES_PER_WAKE 16

static void unlink_embryo(struct sv_cm_sock *sock)
{
	struct sv_cm_sock **at;

	for (at = &sock->listener->embryos; *at != sock; at = &(*at)->next)
		;
	*at = sock->next;
	sock->listener->nembryos--;
}

void sv_cm_drop_embryo(struct sv_cm_sock *sock)
{
	unlink_embryo(sock);
	sv_cm_end_sock(sock);
}

static void refuse(struct sv_cm_sock *sock, uint32_t reason)
{
	struct sv_cm_msg rej = { .type = SV_CM_REJ, .abi = SV_ABI_VERSION, .reason = reason };
	ssize_t n = send(sock->watch.fd, &rej, sizeof(rej), MSG_DONTWAIT | MSG_NOSIGNAL);

	(void)n;
	sv_cm_drop_embryo(sock);
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
			sv_cm_drop_embryo(sock);
	} else if (good) {
		sv_cm_on_message(sock->id, &msg);
	} else {
		/* It is gone, which nobody hears of over a cut port, or speaks another language. */
		sv_watch_stop(&sock->watch);
		if (!sv_cm_is_cut(sock->id))
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

int sv_cm_watch(struct sv_id *id, int fd)
{
	struct sv_cm_sock *sock = sv_cm_new_sock(fd, id);

	if (!sock)
		return ENOMEM;
	if (id->sock) /* that which held the source port */
		sv_cm_end_sock(id->sock);
	id->sock = sock;
	sock->watch.ready = on_connection;
	return sv_watch_add(&sock->watch, EPOLLIN);
}

static void add_embryo(struct sv_id *listener, int fd)
{
	struct sv_cm_sock *sock = sv_same_user(fd) ? sv_cm_new_sock(fd, NULL) : NULL;

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
	sv_cm_due_at(sock->deadline_ns);
	if (sv_watch_add(&sock->watch, EPOLLIN))
		sv_cm_drop_embryo(sock);
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
		if (sock->id->nembryos >= EMBRYOS_MAX)
			sv_fd_close(fd);
		else
			add_embryo(sock->id, fd);
	}
	pthread_mutex_unlock(&sv_cm.lock);
}

int sv_cm_listen(struct sv_id *id)
{
	if (listen(id->sock->watch.fd, (int)id->backlog))
		return errno;
	id->sock->watch.ready = on_listener;
	return sv_watch_add(&id->sock->watch, EPOLLIN);
}
