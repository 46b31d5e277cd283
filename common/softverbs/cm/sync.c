/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sync.c -- connection management: taking events, and synchronous mode.
 *
 * The transitions of a queue pair that belongs to an id are made when its owner takes the
 * event, by that thread, as librdmacm does.  An id in synchronous mode has a channel of its
 * own, and each call on it waits for its event there.
 */
#include "common/softverbs/base/shm.h"
#include "common/softverbs/cm/event.h"
#include "common/softverbs/cm/group.h"
#include "common/softverbs/cm/qp.h"
#include "common/softverbs/cm/sock.h"
#include "common/softverbs/cm/sync.h"
#include "common/softverbs/softverbs.h"

/* The active side's answer arrived, and its queue pair is ours to move. */
static void finish_response(struct sv_cm_event *event, struct sv_id *id)
{
	struct sv_cm_msg msg = { .type = SV_CM_RTU, .abi = SV_ABI_VERSION };
	int ret = sv_cm_qp_to_rts(id);

	pthread_mutex_lock(&sv_cm.lock);
	if (!ret && id->state == SV_CM_RESPONDED)
		ret = sv_cm_send(id, &msg);
	else if (!ret)
		ret = ECONNRESET;
	id->state = ret ? SV_CM_OVER : SV_CM_CONNECTED;
	if (ret)
		sv_cm_close(id);
	pthread_mutex_unlock(&sv_cm.lock);
	event->ev.event = ret ? RDMA_CM_EVENT_CONNECT_ERROR : RDMA_CM_EVENT_ESTABLISHED;
	event->ev.status = -ret;
}

int sv_get_cm_event(struct rdma_event_channel *ch, struct rdma_cm_event **out)
{
	struct sv_cm_event *event;
	struct sv_id *id;

	if (sv_cm_next_event(ch, &event))
		return -1;
	id = sv_id_of(event->ev.id);
	if (event->ev.event == RDMA_CM_EVENT_CONNECT_RESPONSE && id->id.qp)
		finish_response(event, id);
	else if (event->ev.event == RDMA_CM_EVENT_REJECTED && id->id.qp)
		sv_cm_qp_to_error(id);
	else if (event->ev.event == RDMA_CM_EVENT_MULTICAST_JOIN)
		sv_cm_joined(event, id);
	*out = &event->ev;
	return 0;
}

int sv_cm_complete(struct rdma_cm_id *id)
{
	struct rdma_cm_event *ev;
	int err = 0;

	if (!sv_id_of(id)->sync)
		return 0;
	if (id->event) {
		ev = id->event;
		id->event = NULL;
		sv_ack_cm_event(ev);
	}
	if (sv_get_cm_event(id->channel, &id->event))
		return -1;
	if (id->event->event == RDMA_CM_EVENT_REJECTED)
		err = ECONNREFUSED;
	else if (id->event->status < 0)
		err = -id->event->status;
	if (!err)
		return 0;
	errno = err;
	return -1;
}
