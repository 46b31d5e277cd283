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
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "common/bootstrap/bootstrap.h"
#include "common/bootstrap/client.h"
#include "common/bootstrap/event.h"
#include "common/bootstrap/id.h"
#include "common/bootstrap/impl.h"
#include "common/bootstrap/message.h"
#include "common/bootstrap/path.h"
#include "common/bootstrap/server.h"

static void got_message(struct id *id)
{
	memcpy(&id->peer, id->in, sizeof id->peer);
	id->in_bytes = 0;
	if (id->state == HALF_OPEN) {
		bootstrap_server_asked(id);
	} else if (id->state == ASKED) {
		bootstrap_client_answered(id);
	} else if (bootstrap_is_sane(&id->peer, 1u << WIRE_BOOTSTRAP_READY)) {
		id->state = UP;
		bootstrap_event_put(id, RDMA_CM_EVENT_ESTABLISHED, 0);
	} else {
		bootstrap_id_over(id, RDMA_CM_EVENT_DISCONNECTED, -EPROTO);
	}
}

static void ended(struct id *id, int error)
{
	if (id->state == HALF_OPEN)
		bootstrap_id_destroy(&id->ib); /* nobody knows it */
	else if (id->state == ASKED)
		bootstrap_id_over(id, RDMA_CM_EVENT_CONNECT_ERROR, -(error ? error : ECONNRESET));
	else
		bootstrap_id_over(id, RDMA_CM_EVENT_DISCONNECTED, -error);
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
		struct queued *q = bootstrap_event_pop(ch);
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
			bootstrap_server_arrived(id);
		else if (id && id->state == CONNECTING)
			bootstrap_client_connected(id);
		else if (id)
			on_readable(id);
	}
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
	return bootstrap_id_create(&verbs_system, channel, id, context);
}

static int create_id_soft(struct rdma_event_channel *channel, struct rdma_cm_id **id,
			  void *context, enum rdma_port_space ps)
{
	(void)ps;
	return bootstrap_id_create(verbs_soft, channel, id, context);
}

static struct verbs over_system, over_soft;

static void fill_table(struct verbs *v, const struct verbs *base)
{
	*v = *base;
	v->create_event_channel = bootstrap_channel_create;
	v->destroy_event_channel = bootstrap_channel_destroy;
	v->create_id = base->soft ? create_id_soft : create_id_system;
	v->destroy_id = bootstrap_id_destroy;
	v->bind_addr = bootstrap_server_bind_addr;
	v->resolve_addr = bootstrap_client_resolve_addr;
	v->resolve_route = bootstrap_client_resolve_route;
	v->connect = bootstrap_client_connect;
	v->establish = bootstrap_client_establish;
	v->listen = bootstrap_server_listen;
	v->accept = bootstrap_server_accept;
	v->reject = bootstrap_server_reject;
	v->disconnect = boot_disconnect;
	v->init_qp_attr = boot_init_qp_attr;
	v->get_cm_event = boot_get_cm_event;
	v->ack_cm_event = bootstrap_event_ack;
	v->set_option = bootstrap_id_set_option;
	v->get_src_port = bootstrap_server_get_src_port;
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
