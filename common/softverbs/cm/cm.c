/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cm.c -- connection management: what is asked of ids.
 *
 * The calls check the id's state, change it, and start what connect.c, accept.c and conn.c
 * finish; outcomes are events, all queued under one lock.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "common/softverbs/base/ctl.h"
#include "common/softverbs/base/limits.h"
#include "common/softverbs/base/shm.h"
#include "common/softverbs/cm/accept.h"
#include "common/softverbs/cm/addr.h"
#include "common/softverbs/cm/connect.h"
#include "common/softverbs/cm/event.h"
#include "common/softverbs/cm/group.h"
#include "common/softverbs/cm/id.h"
#include "common/softverbs/cm/qp.h"
#include "common/softverbs/cm/sock.h"
#include "common/softverbs/cm/sync.h"
#include "common/softverbs/softverbs.h"

#define DISCONNECT_MS 2000
#define BACKLOG_MAX 1024

/* ---- ids ---- */

/* A device's context that all its ids share. */
static int open_device(uint32_t index)
{
	struct ibv_context *context = sv_open_device(sv_device_at(index));

	if (!context)
		return errno;
	sv_cm.pd[index] = sv_alloc_pd(context);
	if (sv_cm.pd[index]) {
		sv_cm.verbs[index] = context;
		return 0;
	}
	sv_close_device(context);
	return ENOMEM;
}

/* The first last, as it tells whether all are open; sv_cm.lock held. */
static int open_verbs(void)
{
	int ret = 0;

	if (sv_cm.verbs[0])
		return 0;
	for (uint32_t i = sv_device_count(); i-- && !ret;)
		ret = sv_cm.verbs[i] ? 0 : open_device(i);
	return ret;
}

int sv_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **out, void *context,
		 enum rdma_port_space ps)
{
	struct rdma_event_channel *own = NULL;
	struct sv_id *id;
	int ret;

	if (ps != RDMA_PS_TCP && ps != RDMA_PS_IB && ps != RDMA_PS_UDP)
		return sv_cm_fail(EOPNOTSUPP);
	if (sv_cm_start())
		return -1;
	sv_ctl_on_timer(sv_cm_run_timers);
	if (!channel) {
		own = channel = sv_create_event_channel();
		if (!channel)
			return -1;
	}
	pthread_mutex_lock(&sv_cm.lock);
	ret = open_verbs();
	id = ret ? NULL : sv_cm_new_id(NULL);
	if (!id) {
		pthread_mutex_unlock(&sv_cm.lock);
		if (own)
			sv_destroy_event_channel(own);
		return sv_cm_fail(ret ? ret : ENOMEM);
	}
	id->id.channel = channel;
	id->id.context = context;
	id->id.ps = ps;
	if (ps == RDMA_PS_UDP)
		id->id.qp_type = IBV_QPT_UD;
	id->sync = own != NULL;
	*out = &id->id;
	return sv_cm_done(0);
}

/* No longer counts in its listener's backlog; sv_cm.lock held. */
static void leave_backlog(struct sv_id *id)
{
	if (id->listener)
		id->listener->nrequests--;
	id->listener = NULL;
}

static void orphan_requests(struct sv_id *listener)
{
	for (struct sv_id *id = sv_cm.ids; id; id = id->next) {
		if (id->listener == listener)
			id->listener = NULL;
	}
}

/* Tells the other side why, if it waits for an answer. */
static void say_goodbye(struct sv_id *id)
{
	struct sv_cm_msg rej = { .type = SV_CM_REJ, .abi = SV_ABI_VERSION,
				 .reason = SV_REJ_CONSUMER };

	if (id->state == SV_CM_CONNECTING || id->state == SV_CM_RESPONDED ||
	    id->state == SV_CM_REQUESTED)
		sv_cm_send(id, &rej);
}

int sv_destroy_id(struct rdma_cm_id *cm_id)
{
	struct sv_id *id = sv_id_of(cm_id);
	struct rdma_event_channel *own = id->sync ? cm_id->channel : NULL;

	if (cm_id->event) {
		struct rdma_cm_event *event = cm_id->event;

		cm_id->event = NULL;
		sv_ack_cm_event(event);
	}
	pthread_mutex_lock(&sv_cm.lock);
	say_goodbye(id);
	sv_cm_close(id);
	id->state = SV_CM_OVER;
	id->deadline_ns = UINT64_MAX;
	leave_backlog(id);
	sv_cm_drop_events(id);
	orphan_requests(id);
	sv_cm_forget_groups(id);
	while (id->events_got != id->events_acked)
		pthread_cond_wait(&sv_cm.acked, &sv_cm.lock);
	sv_cm_free_id(id);
	pthread_mutex_unlock(&sv_cm.lock);
	if (own)
		sv_destroy_event_channel(own);
	return 0;
}

/* ---- connections ---- */

/* What connect and accept have in common.  The queue pair of the id, or the
 * number that the caller gave. */
static int fill_msg(const struct sv_id *id, struct sv_cm_msg *msg, uint32_t type,
		    const struct rdma_conn_param *param, size_t data_max)
{
	memset(msg, 0, sizeof(*msg));
	msg->type = type;
	msg->abi = SV_ABI_VERSION;
	msg->psn = id->psn;
	msg->ack_timeout = id->ack_timeout;
	msg->qpn = id->id.qp ? id->id.qp->qp_num : param ? param->qp_num : 0;
	msg->srq = id->id.qp ? id->id.qp->srq != NULL : param ? param->srq : 0;
	if (!param)
		return 0;
	if (param->private_data_len > data_max)
		return EINVAL;
	if (param->private_data_len)
		memcpy(msg->data, param->private_data, param->private_data_len);
	msg->flow_control = param->flow_control;
	msg->retry_count = param->retry_count;
	msg->rnr_retry_count = param->rnr_retry_count;
	return 0;
}

static uint8_t limit(uint8_t asked)
{
	return asked < SV_MAX_RD_ATOMIC ? asked : SV_MAX_RD_ATOMIC;
}

static int start_connect(struct sv_id *id, const struct rdma_conn_param *param)
{
	int ret;

	if (id->state != SV_CM_ROUTE_RESOLVED)
		return EINVAL;
	ret = fill_msg(id, &id->req, SV_CM_REQ, param,
		       sv_id_datagram(id) ? SV_CM_UD_REQ_DATA : SV_CM_REQ_DATA);
	if (ret)
		return ret;
	id->responder_resources = limit(param ? param->responder_resources : UINT8_MAX);
	id->initiator_depth = limit(param ? param->initiator_depth : UINT8_MAX);
	id->retry_count = param ? param->retry_count & 7 : 7;
	id->req.responder_resources = id->responder_resources;
	id->req.initiator_depth = id->initiator_depth;
	if (!param)
		id->req.retry_count = id->req.rnr_retry_count = 7;
	memcpy(&id->req.src, &id->id.route.addr.src_storage, sizeof(id->req.src));
	memcpy(&id->req.dst, &id->id.route.addr.dst_storage, sizeof(id->req.dst));
	id->state = SV_CM_CONNECTING;
	sv_cm_set_deadline(id, sv_cm_timeout_ms());
	sv_cm_start_connect(id);
	return 0;
}

int sv_connect(struct rdma_cm_id *cm_id, struct rdma_conn_param *param)
{
	int ret;

	pthread_mutex_lock(&sv_cm.lock);
	ret = start_connect(sv_id_of(cm_id), param);
	pthread_mutex_unlock(&sv_cm.lock);
	return ret ? sv_cm_fail(ret) : sv_cm_complete(cm_id);
}

int sv_establish(struct rdma_cm_id *cm_id)
{
	struct sv_cm_msg rtu = { .type = SV_CM_RTU, .abi = SV_ABI_VERSION };
	struct sv_id *id = sv_id_of(cm_id);
	int ret;

	pthread_mutex_lock(&sv_cm.lock);
	if (id->state != SV_CM_RESPONDED)
		return sv_cm_done(EINVAL);
	ret = sv_cm_send(id, &rtu);
	if (!ret)
		id->state = SV_CM_CONNECTED;
	return sv_cm_done(ret);
}

int sv_listen(struct rdma_cm_id *cm_id, int backlog)
{
	struct sockaddr_in any = { .sin_family = AF_INET };
	struct sv_id *id = sv_id_of(cm_id);
	int ret = 0;

	pthread_mutex_lock(&sv_cm.lock);
	if (id->state == SV_CM_IDLE)
		ret = sv_cm_bind_id(id, (struct sockaddr *)&any);
	if (!ret && id->state != SV_CM_BOUND)
		ret = EINVAL;
	if (ret)
		return sv_cm_done(ret);
	id->backlog = BACKLOG_MAX;
	if (backlog > 0 && backlog < BACKLOG_MAX)
		id->backlog = (unsigned int)backlog;
	ret = sv_cm_listen(id);
	if (!ret)
		id->state = SV_CM_LISTENING;
	return sv_cm_done(ret);
}

static int check_request(const struct sv_id *id)
{
	if (id->state != SV_CM_REQUESTED)
		return EINVAL;
	return id->gone ? ECONNRESET : 0;
}

static int send_accept(struct sv_id *id, const struct rdma_conn_param *param)
{
	struct sv_cm_msg rep;
	int ret = check_request(id);

	if (!ret)
		ret = fill_msg(id, &rep, SV_CM_REP, param,
			       sv_id_datagram(id) ? SV_CM_UD_REP_DATA : SV_CM_REP_DATA);
	if (ret)
		return ret;
	rep.responder_resources = id->responder_resources;
	rep.initiator_depth = id->initiator_depth;
	ret = sv_cm_send(id, &rep);
	if (ret)
		return ret;
	leave_backlog(id);
	if (sv_id_datagram(id)) { /* that is all: it is answered */
		id->state = SV_CM_CONNECTED;
		sv_cm_close(id);
		return 0;
	}
	id->state = SV_CM_ACCEPTED;
	sv_cm_set_deadline(id, sv_cm_timeout_ms());
	return 0;
}

int sv_accept(struct rdma_cm_id *cm_id, struct rdma_conn_param *param)
{
	struct sv_id *id = sv_id_of(cm_id);
	int ret;

	if (param && param->private_data_len > SV_CM_REP_DATA)
		return sv_cm_fail(EINVAL);
	pthread_mutex_lock(&sv_cm.lock);
	ret = check_request(id);
	if (!ret && param) {
		id->responder_resources = limit(param->responder_resources);
		id->initiator_depth = limit(param->initiator_depth);
	}
	pthread_mutex_unlock(&sv_cm.lock);
	if (!ret && cm_id->qp && !sv_id_datagram(id))
		ret = sv_cm_qp_to_rts(id);
	if (ret)
		return sv_cm_fail(ret);
	pthread_mutex_lock(&sv_cm.lock);
	ret = send_accept(id, param);
	pthread_mutex_unlock(&sv_cm.lock);
	if (!ret)
		return sv_id_datagram(id) ? 0 : sv_cm_complete(cm_id);
	if (cm_id->qp)
		sv_cm_qp_to_error(id);
	return sv_cm_fail(ret);
}

int sv_reject(struct rdma_cm_id *cm_id, const void *data, uint8_t bytes)
{
	struct sv_cm_msg rej = { .type = SV_CM_REJ, .abi = SV_ABI_VERSION,
				 .reason = SV_REJ_CONSUMER };
	struct sv_id *id = sv_id_of(cm_id);

	if (bytes > SV_CM_REJ_DATA)
		return sv_cm_fail(EINVAL);
	if (bytes)
		memcpy(rej.data, data, bytes);
	pthread_mutex_lock(&sv_cm.lock);
	if (id->state != SV_CM_REQUESTED && id->state != SV_CM_RESPONDED)
		return sv_cm_done(EINVAL);
	sv_cm_send(id, &rej); /* whether it is still there or not */
	leave_backlog(id);
	id->state = SV_CM_OVER;
	sv_cm_close(id);
	return sv_cm_done(0);
}

int sv_disconnect(struct rdma_cm_id *cm_id)
{
	struct sv_cm_msg dreq = { .type = SV_CM_DREQ, .abi = SV_ABI_VERSION };
	struct sv_id *id = sv_id_of(cm_id);
	bool waiting = false;

	pthread_mutex_lock(&sv_cm.lock);
	if (id->state < SV_CM_RESPONDED || id->state == SV_CM_REQUESTED)
		return sv_cm_done(EINVAL);
	if (id->state < SV_CM_DISCONNECTING) {
		waiting = true;
		sv_cm_send(id, &dreq); /* if it fails, the end of the socket tells */
		id->state = SV_CM_DISCONNECTING;
		sv_cm_set_deadline(id, DISCONNECT_MS);
	}
	pthread_mutex_unlock(&sv_cm.lock);
	if (cm_id->qp)
		sv_cm_qp_to_error(id);
	return waiting ? sv_cm_complete(cm_id) : 0;
}

/* ---- the rest ---- */

static int set_flag(const void *optval, size_t optlen, bool *flag)
{
	int value;

	if (optlen != sizeof(value))
		return EINVAL;
	memcpy(&value, optval, sizeof(value));
	*flag = value;
	return 0;
}

int sv_set_option(struct rdma_cm_id *cm_id, int level, int optname, void *optval, size_t optlen)
{
	struct sv_id *id = sv_id_of(cm_id);
	bool reuse;

	if (level != RDMA_OPTION_ID)
		return sv_cm_fail(ENOSYS);
	pthread_mutex_lock(&sv_cm.lock);
	switch (optname) {
	case RDMA_OPTION_ID_TOS:
		if (optlen != 1)
			return sv_cm_done(EINVAL);
		id->tos = *(uint8_t *)optval;
		return sv_cm_done(0);
	case RDMA_OPTION_ID_REUSEADDR:
		return sv_cm_done(set_flag(optval, optlen, &reuse));
	case RDMA_OPTION_ID_AFONLY:
		return sv_cm_done(set_flag(optval, optlen, &id->af_only));
	case RDMA_OPTION_ID_ACK_TIMEOUT:
		if (optlen != 1 || *(uint8_t *)optval > 31)
			return sv_cm_done(EINVAL);
		id->ack_timeout = *(uint8_t *)optval;
		return sv_cm_done(0);
	default:
		return sv_cm_done(ENOSYS);
	}
}
