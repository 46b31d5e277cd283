/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * impl.h -- between the parts of a connection over TCP.
 *
 *   bootstrap.c          what comes, and the table of functions
 *   message.c  what the two ends say to each other
 *   event.c    events, and the channel that they are of
 *   id.c       an id: its life, its socket, its device
 *   client.c   the end that connects
 *   server.c   the end that listens
 *
 * What returns an int returns 0, or -1 and errno.
 */
#ifndef COMMON_BOOTSTRAP_IMPL_H
#define COMMON_BOOTSTRAP_IMPL_H

#include <errno.h>

#include "common/bootstrap/bootstrap.h"

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

static inline struct channel *channel_of(const struct id *id)
{
	return (struct channel *)id->ib.channel;
}

static inline struct id *id_of(struct rdma_cm_id *id)
{
	return (struct id *)id;
}

static inline int fail(int error)
{
	errno = error;
	return -1;
}

/* message.c: into id->out; `param`: with the queue pair's. */
void bootstrap_message_fill(struct id *id, enum wire_bootstrap_kind kind,
			    const struct rdma_conn_param *param);
int bootstrap_message_send(struct id *id);

/* event.c; NULL without memory. */
struct queued *bootstrap_event_put(struct id *id, enum rdma_cm_event_type type, int status);
/* With what the peer's message says. */
void bootstrap_event_put_message(struct id *id, enum rdma_cm_event_type type, int status);
/* Those of the id. */
void bootstrap_event_drop(struct channel *channel, const struct id *id);
/* NULL: none is queued. */
struct queued *bootstrap_event_pop(struct channel *channel);
int bootstrap_event_ack(struct rdma_cm_event *event);
struct rdma_event_channel *bootstrap_channel_create(void);
void bootstrap_channel_destroy(struct rdma_event_channel *channel);

/* id.c */
struct id *bootstrap_id_new(struct rdma_event_channel *channel, void *context);
int bootstrap_id_create(const struct verbs *base, struct rdma_event_channel *channel,
			struct rdma_cm_id **id, void *context);
int bootstrap_id_destroy(struct rdma_cm_id *id);
int bootstrap_id_set_option(struct rdma_cm_id *id, int level, int name, void *value, size_t bytes);
int bootstrap_id_open(struct id *id); /* its device */
void bootstrap_id_show_path(struct id *id);
int bootstrap_id_watch(struct id *id, int op, uint32_t events);
void bootstrap_id_close(struct id *id); /* its socket */
void bootstrap_id_leave(struct id *id); /* the listener's HALF_OPEN ones */
void bootstrap_id_over(struct id *id, enum rdma_cm_event_type type, int status);
int bootstrap_socket_new(const struct sockaddr *address);
void bootstrap_socket_tune(int fd);
socklen_t bootstrap_address_bytes(const struct sockaddr *address);

/* client.c: rdma_cm's functions, and what came over the socket. */
int bootstrap_client_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src, struct sockaddr *dst,
				  int timeout_ms);
int bootstrap_client_resolve_route(struct rdma_cm_id *id, int timeout_ms);
int bootstrap_client_connect(struct rdma_cm_id *id, struct rdma_conn_param *param);
int bootstrap_client_establish(struct rdma_cm_id *id);
void bootstrap_client_connected(struct id *id);
void bootstrap_client_answered(struct id *id);

/* server.c: likewise. */
int bootstrap_server_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr);
__be16 bootstrap_server_get_src_port(struct rdma_cm_id *id);
int bootstrap_server_listen(struct rdma_cm_id *id, int backlog);
int bootstrap_server_accept(struct rdma_cm_id *id, struct rdma_conn_param *param);
int bootstrap_server_reject(struct rdma_cm_id *id, const void *data, uint8_t bytes);
void bootstrap_server_arrived(struct id *listener);
void bootstrap_server_asked(struct id *id);

#endif
