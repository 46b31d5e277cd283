/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * event.c -- event channels of connection management.
 *
 * A channel's descriptor is an eventfd with one count per queued event.
 *
 * Programs (rping) end a channel while another thread waits for its next event.
 * As a system call would, that thread goes on waiting, and keeps what it needs.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "common/softverbs/base/bell.h"
#include "common/softverbs/base/fd.h"
#include "common/softverbs/cm/event.h"
#include "common/softverbs/cm/sock.h"
#include "common/softverbs/softverbs.h"

struct sv_cm_channel {
	struct rdma_event_channel ch;
	struct sv_cm_event *head, **tail;
	/* Threads in sv_cm_next_event(); of a destroyed channel, the last frees it. */
	unsigned int readers;
	bool over;
	struct sv_cm_channel *next; /* sv_cm.channels */
};

static struct sv_cm_channel *channel_of(struct rdma_event_channel *channel)
{
	return SV_CONTAINER(channel, struct sv_cm_channel, ch);
}

struct rdma_event_channel *sv_create_event_channel(void)
{
	struct sv_cm_channel *channel;

	if (sv_cm_start())
		return NULL;
	channel = calloc(1, sizeof(*channel));
	if (!channel)
		return NULL;
	channel->tail = &channel->head;
	channel->ch.fd = sv_bell_open();
	if (channel->ch.fd < 0) {
		free(channel);
		return NULL;
	}
	pthread_mutex_lock(&sv_cm.lock);
	channel->next = sv_cm.channels;
	sv_cm.channels = channel;
	pthread_mutex_unlock(&sv_cm.lock);
	return &channel->ch;
}

static void free_channel(struct sv_cm_channel *channel)
{
	while (channel->head) {
		struct sv_cm_event *event = channel->head;

		channel->head = event->next;
		free(event);
	}
	sv_fd_close(channel->ch.fd);
	free(channel);
}

/* Where the channel is linked; NULL there: it is not.  sv_cm.lock held. */
static struct sv_cm_channel **find_channel(const struct rdma_event_channel *ch)
{
	struct sv_cm_channel **at = &sv_cm.channels;

	while (*at && &(*at)->ch != ch)
		at = &(*at)->next;
	return at;
}

void sv_destroy_event_channel(struct rdma_event_channel *ch)
{
	struct sv_cm_channel *channel = channel_of(ch);
	bool unused;

	pthread_mutex_lock(&sv_cm.lock);
	*find_channel(ch) = channel->next;
	channel->over = true;
	unused = !channel->readers;
	pthread_mutex_unlock(&sv_cm.lock);
	if (unused)
		free_channel(channel);
}

/* The channel, kept until leave_channel(); NULL: there is none (any more). */
static struct sv_cm_channel *enter_channel(const struct rdma_event_channel *ch)
{
	struct sv_cm_channel *channel;

	pthread_mutex_lock(&sv_cm.lock);
	channel = *find_channel(ch);
	if (channel)
		channel->readers++;
	pthread_mutex_unlock(&sv_cm.lock);
	return channel;
}

/* Also run when the reader is cancelled. */
static void leave_channel(void *arg)
{
	struct sv_cm_channel *channel = arg;
	bool last;

	pthread_mutex_lock(&sv_cm.lock);
	last = !--channel->readers && channel->over;
	pthread_mutex_unlock(&sv_cm.lock);
	if (last)
		free_channel(channel);
}

static void append(struct sv_cm_channel *channel, struct sv_cm_event *event)
{
	event->next = NULL;
	*channel->tail = event;
	channel->tail = &event->next;
	sv_bell_ring(channel->ch.fd);
}

/* The peer's address, as every one of this host, and its queue pair. */
static void fill_ud(struct sv_cm_event *event, const struct sv_cm_msg *msg)
{
	struct rdma_ud_param *ud = &event->ev.param.ud;

	ud->private_data_len = msg->type == SV_CM_REQ ? SV_CM_UD_REQ_DATA : SV_CM_UD_REP_DATA;
	ud->private_data = event->data;
	memcpy(event->data, msg->data, sizeof(event->data));
	if (msg->type != SV_CM_REP)
		return;
	sv_query_gid(sv_cm.verbs[0], 1, 0, &ud->ah_attr.grh.dgid);
	ud->ah_attr.is_global = 1;
	ud->ah_attr.port_num = 1;
	ud->ah_attr.grh.hop_limit = 64;
	ud->qp_num = msg->qpn;
	ud->qkey = RDMA_UDP_QKEY;
}

static uint8_t data_bytes(uint32_t type)
{
	switch (type) {
	case SV_CM_REQ:
		return SV_CM_REQ_DATA;
	case SV_CM_REP:
		return SV_CM_REP_DATA;
	case SV_CM_REJ:
		return SV_CM_REJ_DATA;
	default:
		return 0;
	}
}

static void fill_param(struct sv_cm_event *event, const struct sv_cm_msg *msg)
{
	struct rdma_conn_param *conn = &event->ev.param.conn;

	conn->private_data_len = data_bytes(msg->type);
	if (conn->private_data_len)
		conn->private_data = event->data;
	memcpy(event->data, msg->data, sizeof(event->data));
	conn->responder_resources = msg->initiator_depth;
	conn->initiator_depth = msg->responder_resources;
	conn->flow_control = msg->flow_control;
	conn->retry_count = msg->retry_count;
	conn->rnr_retry_count = msg->rnr_retry_count;
	conn->srq = msg->srq;
	conn->qp_num = msg->qpn;
}

static struct sv_cm_event *new_event(struct sv_id *id, enum rdma_cm_event_type type, int status)
{
	struct sv_cm_event *event = calloc(1, sizeof(*event));

	if (!event)
		return NULL; /* UNTESTED: an event is lost when memory is out */
	event->ev.id = &id->id;
	event->ev.event = type;
	event->ev.status = status;
	event->counted = id;
	return event;
}

void sv_cm_queue(struct sv_id *id, enum rdma_cm_event_type type, int status,
		 const struct sv_cm_msg *msg)
{
	struct sv_cm_event *event = new_event(id, type, status);

	if (!event)
		return;
	if (msg && sv_id_datagram(id) && msg->type != SV_CM_REJ)
		fill_ud(event, msg);
	else if (msg)
		fill_param(event, msg);
	if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
		event->ev.listen_id = &id->listener->id;
		event->counted = id->listener;
	}
	append(channel_of(id->id.channel), event);
}

void sv_cm_queue_ud(struct sv_id *id, enum rdma_cm_event_type type, const struct rdma_ud_param *ud)
{
	struct sv_cm_event *event = new_event(id, type, 0);

	if (!event)
		return;
	event->ev.param.ud = *ud;
	append(channel_of(id->id.channel), event);
}

/* Takes out of the channel one event that concerns the id. */
static struct sv_cm_event *pull(struct sv_cm_channel *channel, const struct sv_id *id)
{
	struct sv_cm_event **at = &channel->head, *event;

	while (*at && (*at)->counted != id && (*at)->ev.id != &id->id)
		at = &(*at)->next;
	event = *at;
	if (!event)
		return NULL;
	*at = event->next;
	if (!*at)
		channel->tail = at;
	sv_bell_drop(channel->ch.fd);
	return event;
}

/* An id that nobody has heard of, since its request was not taken. */
static void drop_unknown(struct sv_id *id)
{
	sv_cm_close(id);
	sv_cm_drop_events(id);
	sv_cm_free_id(id);
}

void sv_cm_drop_events(struct sv_id *id)
{
	struct sv_cm_event *event;

	while ((event = pull(channel_of(id->id.channel), id))) {
		if (event->ev.id != &id->id)
			drop_unknown(sv_id_of(event->ev.id));
		free(event);
	}
}

static struct sv_cm_event *take(struct sv_cm_channel *channel)
{
	struct sv_cm_event *event;

	pthread_mutex_lock(&sv_cm.lock);
	event = channel->head;
	if (event) {
		channel->head = event->next;
		if (!channel->head)
			channel->tail = &channel->head;
		event->counted->events_got++;
	}
	pthread_mutex_unlock(&sv_cm.lock);
	return event;
}

/* Blocks, or EAGAIN, as the descriptor's flags say.  0, or -1 and errno. */
static int wait_event(struct sv_cm_channel *channel, struct sv_cm_event **event)
{
	uint64_t count;

	do {
		if (read(channel->ch.fd, &count, sizeof(count)) != sizeof(count))
			return -1;
		*event = take(channel);
	} while (!*event);
	return 0;
}

int sv_cm_next_event(struct rdma_event_channel *ch, struct sv_cm_event **event)
{
	struct sv_cm_channel *channel = enter_channel(ch);
	int ret;

	if (!channel)
		return sv_cm_fail(EBADF);
	*event = NULL;
	pthread_cleanup_push(leave_channel, channel);
	ret = wait_event(channel, event);
	pthread_cleanup_pop(1);
	return ret;
}

int sv_ack_cm_event(struct rdma_cm_event *ev)
{
	struct sv_cm_event *event = SV_CONTAINER(ev, struct sv_cm_event, ev);

	pthread_mutex_lock(&sv_cm.lock);
	event->counted->events_acked++;
	pthread_cond_broadcast(&sv_cm.acked);
	pthread_mutex_unlock(&sv_cm.lock);
	free(event);
	return 0;
}

int sv_migrate_id(struct rdma_cm_id *cm_id, struct rdma_event_channel *ch)
{
	struct sv_id *id = sv_id_of(cm_id);
	struct rdma_event_channel *fresh = ch ? ch : sv_create_event_channel();
	struct sv_cm_channel *from = channel_of(cm_id->channel);
	struct sv_cm_event *event;
	bool owned = id->sync;

	if (!fresh)
		return -1;
	if (owned && cm_id->event) {
		sv_ack_cm_event(cm_id->event);
		cm_id->event = NULL;
	}
	pthread_mutex_lock(&sv_cm.lock);
	while ((event = pull(from, id))) {
		if (event->ev.event == RDMA_CM_EVENT_CONNECT_REQUEST)
			event->ev.id->channel = fresh;
		append(channel_of(fresh), event);
	}
	cm_id->channel = fresh;
	id->sync = !ch;
	pthread_mutex_unlock(&sv_cm.lock);
	if (owned)
		sv_destroy_event_channel(&from->ch);
	return 0;
}
