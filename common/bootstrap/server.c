/* SPDX-License-Identifier: BSD-2-Clause */
/* The end that listens: peers whose request is not whole yet are its HALF_OPEN ones. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/bootstrap/event.h"
#include "common/bootstrap/id.h"
#include "common/bootstrap/message.h"
#include "common/bootstrap/path.h"
#include "common/bootstrap/server.h"

#define HALF_OPEN_MAX 256u
#define ACCEPTS_MAX 64u /* in a row, then the others' turn */

int bootstrap_server_bind_addr(struct rdma_cm_id *ibid, struct sockaddr *addr)
{
	socklen_t bytes = sizeof ibid->route.addr.src_storage;
	struct id *id = id_of(ibid);
	int on = 1;

	if (id->state != IDLE || id->fd >= 0)
		return fail(EINVAL);
	if (bootstrap_id_open(id))
		return -1;
	id->fd = bootstrap_socket_new(addr);
	if (id->fd < 0)
		return -1;
	/* So that kvd can be started again while old connections linger. */
	if (setsockopt(id->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) ||
	    bind(id->fd, addr, bootstrap_address_bytes(addr)) ||
	    getsockname(id->fd, (struct sockaddr *)&ibid->route.addr.src_storage, &bytes))
		return bootstrap_id_failed(id);
	return 0;
}

__be16 bootstrap_server_get_src_port(struct rdma_cm_id *ibid)
{
	const struct sockaddr *sa = &ibid->route.addr.src_addr;

	return sa->sa_family == AF_INET6 ? ibid->route.addr.src_sin6.sin6_port
					 : ibid->route.addr.src_sin.sin_port;
}

int bootstrap_server_listen(struct rdma_cm_id *ibid, int backlog)
{
	struct id *id = id_of(ibid);

	if (id->state != IDLE)
		return fail(EINVAL);
	if (id->spare_fd < 0)
		id->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (id->fd < 0 || listen(id->fd, backlog) || bootstrap_id_watch(id, EPOLL_CTL_ADD, EPOLLIN))
		return -1;
	id->state = LISTENING;
	return 0;
}

/* No descriptor is left: a waiting client is sent away, or poll() would tell of it for ever. */
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
	bootstrap_id_destroy(&eldest->ib);
}

static void add_half_open(struct id *listener, int fd, const struct sockaddr_storage *from)
{
	struct id *id = bootstrap_id_new(listener->ib.channel, listener->ib.context);

	if (!id) {
		close(fd);
		return;
	}
	if (listener->half_open_count == HALF_OPEN_MAX)
		drop_eldest(listener);
	bootstrap_socket_tune(fd);
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
	if (bootstrap_id_watch(id, EPOLL_CTL_ADD, EPOLLIN))
		bootstrap_id_destroy(&id->ib);
}

void bootstrap_server_arrived(struct id *listener)
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

void bootstrap_server_asked(struct id *id)
{
	struct id *listener = id->listener;

	bootstrap_id_leave(id);
	if (!bootstrap_is_sane(&id->peer, 1u << WIRE_BOOTSTRAP_REQUEST) ||
	    bootstrap_path_again(&id->path, &listener->path)) {
		bootstrap_id_destroy(&id->ib);
		return;
	}
	bootstrap_id_show_path(id);
	id->state = REQUESTED;
	if (!bootstrap_event_put_message(id, RDMA_CM_EVENT_CONNECT_REQUEST, 0))
		bootstrap_id_destroy(&id->ib); /* nobody knows it: its peer is told by the end */
}

int bootstrap_server_accept(struct rdma_cm_id *ibid, struct rdma_conn_param *param)
{
	struct id *id = id_of(ibid);

	if (id->state != REQUESTED)
		return fail(ENOTCONN);
	if (param->private_data_len > sizeof id->out.data)
		return fail(EINVAL);
	bootstrap_message_fill(id, WIRE_BOOTSTRAP_RESPONSE, param);
	if (bootstrap_message_send(id))
		return -1;
	id->state = ACCEPTED;
	return 0;
}

int bootstrap_server_reject(struct rdma_cm_id *ibid, const void *data, uint8_t bytes)
{
	struct rdma_conn_param param = { .private_data = data, .private_data_len = bytes };
	struct id *id = id_of(ibid);

	if (id->state != REQUESTED)
		return fail(ENOTCONN);
	if (bytes > sizeof id->out.data)
		return fail(EINVAL);
	bootstrap_message_fill(id, WIRE_BOOTSTRAP_REJECTION, &param);
	return bootstrap_message_send(id);
}
