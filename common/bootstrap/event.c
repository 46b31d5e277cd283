/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The events of a channel.  Its descriptor is an epoll set of the ids' sockets and of a
 * bell, which rings while events are queued.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/bootstrap/event.h"

struct queued *bootstrap_event_put(struct id *id, enum rdma_cm_event_type type, int status)
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
bool bootstrap_event_put_message(struct id *id, enum rdma_cm_event_type type, int status)
{
	const struct wire_bootstrap *m = &id->peer;
	struct queued *q = bootstrap_event_put(id, type, status);

	if (!q)
		return false;
	memcpy(q->data, m->data, m->data_bytes);
	q->event.param.conn = (struct rdma_conn_param){
		.private_data = q->data,
		.private_data_len = m->data_bytes,
		.responder_resources = m->initiator_depth,
		.initiator_depth = m->responder_resources,
		.qp_num = m->qpn,
	};
	return true;
}

void bootstrap_event_drop(struct channel *ch, const struct id *id)
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

struct queued *bootstrap_event_pop(struct channel *ch)
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

int bootstrap_event_ack(struct rdma_cm_event *event)
{
	free(event); /* the first member of its struct queued */
	return 0;
}

struct rdma_event_channel *bootstrap_channel_create(void)
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

void bootstrap_channel_destroy(struct rdma_event_channel *channel)
{
	struct channel *ch = (struct channel *)channel;

	while (ch->head)
		free(bootstrap_event_pop(ch));
	close(ch->bell);
	close(ch->ib.fd);
	free(ch);
}
