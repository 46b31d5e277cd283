/* SPDX-License-Identifier: BSD-2-Clause */
/* The end that connects. */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "common/bootstrap/client.h"
#include "common/bootstrap/event.h"
#include "common/bootstrap/id.h"
#include "common/bootstrap/message.h"

int bootstrap_client_resolve_addr(struct rdma_cm_id *ibid, struct sockaddr *src, struct sockaddr *dst,
			     int timeout_ms)
{
	struct id *id = id_of(ibid);

	(void)src;
	(void)timeout_ms;
	if (bootstrap_id_open(id))
		return -1;
	memcpy(&ibid->route.addr.dst_addr, dst, bootstrap_address_bytes(dst));
	return bootstrap_event_put(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0) ? 0 : fail(ENOMEM);
}

int bootstrap_client_resolve_route(struct rdma_cm_id *ibid, int timeout_ms)
{
	(void)timeout_ms;
	return bootstrap_event_put(id_of(ibid), RDMA_CM_EVENT_ROUTE_RESOLVED, 0) ? 0 : fail(ENOMEM);
}

int bootstrap_client_connect(struct rdma_cm_id *ibid, struct rdma_conn_param *param)
{
	const struct sockaddr *to = &ibid->route.addr.dst_addr;
	struct id *id = id_of(ibid);

	if (id->state != IDLE || id->fd >= 0 || !ibid->verbs ||
	    param->private_data_len > sizeof id->out.data)
		return fail(EINVAL);
	id->fd = bootstrap_socket_new(to);
	if (id->fd < 0)
		return -1;
	bootstrap_socket_tune(id->fd);
	bootstrap_message_fill(id, WIRE_BOOTSTRAP_REQUEST, param);
	if (connect(id->fd, to, bootstrap_address_bytes(to)) && errno != EINPROGRESS)
		return bootstrap_id_failed(id);
	if (bootstrap_id_watch(id, EPOLL_CTL_ADD, EPOLLOUT))
		return bootstrap_id_failed(id);
	id->state = CONNECTING;
	return 0;
}

void bootstrap_client_connected(struct id *id)
{
	socklen_t bytes = sizeof(int);
	int error = 0;

	if (getsockopt(id->fd, SOL_SOCKET, SO_ERROR, &error, &bytes))
		error = errno;
	if (!error && (bootstrap_message_send(id) || bootstrap_id_watch(id, EPOLL_CTL_MOD, EPOLLIN)))
		error = errno;
	id->state = ASKED;
	if (error)
		bootstrap_id_over(id, RDMA_CM_EVENT_UNREACHABLE, -error);
}

void bootstrap_client_answered(struct id *id)
{
	unsigned kinds = 1u << WIRE_BOOTSTRAP_RESPONSE | 1u << WIRE_BOOTSTRAP_REJECTION;

	if (!bootstrap_is_sane(&id->peer, kinds)) {
		bootstrap_id_over(id, RDMA_CM_EVENT_CONNECT_ERROR, -EPROTO);
	} else if (id->peer.kind == WIRE_BOOTSTRAP_RESPONSE) {
		id->state = ANSWERED;
		bootstrap_event_put_message(id, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	} else {
		bootstrap_id_close(id);
		id->state = OVER;
		bootstrap_event_put_message(id, RDMA_CM_EVENT_REJECTED, 0);
	}
}

int bootstrap_client_establish(struct rdma_cm_id *ibid)
{
	struct id *id = id_of(ibid);

	if (id->state != ANSWERED)
		return fail(ENOTCONN);
	bootstrap_message_fill(id, WIRE_BOOTSTRAP_READY, NULL);
	if (bootstrap_message_send(id))
		return -1;
	id->state = UP;
	return 0;
}
