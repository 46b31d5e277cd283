/* SPDX-License-Identifier: BSD-2-Clause */
/* An id: its life, its socket, and the device behind it. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/bootstrap/event.h"
#include "common/bootstrap/id.h"
#include "common/bootstrap/path.h"

/* A host that died is noticed after these, in seconds: idle, between probes, how many. */
#define KEEP_IDLE_S 10
#define KEEP_PAUSE_S 5
#define KEEP_PROBES 4

struct id *bootstrap_id_new(struct rdma_event_channel *channel, void *context)
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
void bootstrap_id_close(struct id *id)
{
	if (id->fd >= 0)
		close(id->fd);
	id->fd = -1;
}

int bootstrap_id_failed(struct id *id)
{
	int error = errno;

	bootstrap_id_close(id);
	return fail(error);
}

void bootstrap_id_over(struct id *id, enum rdma_cm_event_type type, int status)
{
	bootstrap_id_close(id);
	id->state = OVER;
	bootstrap_event_put(id, type, status);
}

void bootstrap_id_leave(struct id *id)
{
	if (!id->prev)
		return;
	*id->prev = id->next;
	if (id->next)
		id->next->prev = id->prev;
	id->prev = NULL;
	id->listener->half_open_count--;
}

int bootstrap_id_destroy(struct rdma_cm_id *ibid)
{
	struct id *id = id_of(ibid);

	while (id->half_open)
		bootstrap_id_destroy(&id->half_open->ib);
	bootstrap_id_leave(id);
	bootstrap_event_drop(channel_of(id), id);
	bootstrap_id_close(id);
	if (id->spare_fd >= 0)
		close(id->spare_fd);
	free(id);
	return 0;
}

int bootstrap_id_create(const struct verbs *base, struct rdma_event_channel *channel,
			  struct rdma_cm_id **ibid, void *context)
{
	struct id *id = bootstrap_id_new(channel, context);

	if (!id)
		return -1;
	id->path.base = base;
	*ibid = &id->ib;
	return 0;
}

int bootstrap_id_set_option(struct rdma_cm_id *ibid, int level, int name, void *value, size_t bytes)
{
	struct id *id = id_of(ibid);

	(void)name;
	if (level != BOOTSTRAP_LEVEL || bytes != sizeof id->path.device || id->state != IDLE)
		return fail(EINVAL);
	memcpy(&id->path.device, value, bytes);
	return 0;
}

int bootstrap_id_watch(struct id *id, int op, uint32_t events)
{
	struct epoll_event e = { .events = events, .data.ptr = id };

	return epoll_ctl(id->ib.channel->fd, op, id->fd, &e);
}

/* What rdma_cm shows of the path that it chose. */
void bootstrap_id_show_path(struct id *id)
{
	id->ib.verbs = id->path.ctx;
	id->ib.port_num = id->path.port;
	memcpy(&id->ib.route.addr.addr.ibaddr.sgid, &id->path.gid, sizeof id->path.gid);
}

int bootstrap_id_open(struct id *id)
{
	if (bootstrap_path_open(&id->path))
		return -1;
	bootstrap_id_show_path(id);
	return 0;
}

socklen_t bootstrap_address_bytes(const struct sockaddr *sa)
{
	return sa->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
					 : sizeof(struct sockaddr_in);
}

/* Messages are sent at once, and the peer's death is noticed. */
void bootstrap_socket_tune(int fd)
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

int bootstrap_socket_new(const struct sockaddr *sa)
{
	return socket(sa->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}
