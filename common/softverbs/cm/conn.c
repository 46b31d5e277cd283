/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * conn.c -- connection management: what becomes of a connection.
 *
 *	active		REQ ->			passive
 *			<- REP, or REJ
 *			RTU ->
 *			DREQ -> <- DREP		(either side)
 *
 * An id for datagrams has REQ and REP only: its queue pair's number is asked for, and told.
 *
 * Happy path: CONNECTING, RESPONDED, CONNECTED on the active side; REQUESTED,
 * ACCEPTED, CONNECTED on the passive.
 *
 * Failure: nobody listens (REJECTED, reason 8); the other process ends, or its id is
 * destroyed, seen as the end of the socket (UNREACHABLE or REJECTED before, and
 * DISCONNECTED after the connection is up); a frozen process, seen by the deadline of
 * each state (UNREACHABLE, -ETIMEDOUT).
 *
 * Teardown: DISCONNECTED, and after the time wait TIMEWAIT_EXIT.
 *
 * All of it runs in the control thread or under a call, sv_cm.lock held.
 */
#include <errno.h>
#include <string.h>
#include "common/softverbs/base/shm.h"
#include "common/softverbs/cm/conn.h"
#include "common/softverbs/cm/event.h"
#include "common/softverbs/cm/sock.h"

#define TIMEWAIT_MS 1000

/* ---- messages ---- */

void sv_cm_on_request(struct sv_id *id, struct sv_id *listener, const struct sv_cm_msg *req)
{
	id->state = SV_CM_REQUESTED;
	id->remote_qpn = req->qpn;
	id->remote_psn = req->psn;
	/* What the one may ask for the other must be ready to answer. */
	id->responder_resources = req->initiator_depth;
	id->initiator_depth = req->responder_resources;
	id->retry_count = req->retry_count & 7;
	id->rnr_retry_count = req->rnr_retry_count & 7;
	id->peer_ack_timeout = req->ack_timeout & 31;
	memcpy(&id->id.route.addr.src_storage, &req->dst, sizeof(req->dst));
	memcpy(&id->id.route.addr.dst_storage, &req->src, sizeof(req->src));
	sv_cm_set_device(id);
	listener->nrequests++;
	id->listener = listener;
	sv_cm_queue(id, RDMA_CM_EVENT_CONNECT_REQUEST, 0, req);
}

/* Where to send datagrams is known; nothing is held for it. */
static void answered(struct sv_id *id, const struct sv_cm_msg *rep)
{
	id->state = SV_CM_CONNECTED;
	sv_cm_set_deadline(id, 0);
	sv_cm_close(id);
	sv_cm_queue(id, RDMA_CM_EVENT_ESTABLISHED, 0, rep);
}

static void on_response(struct sv_id *id, const struct sv_cm_msg *rep)
{
	if (id->state != SV_CM_CONNECTING)
		return;
	if (sv_id_datagram(id)) {
		answered(id, rep);
		return;
	}
	id->remote_qpn = rep->qpn;
	id->remote_psn = rep->psn;
	id->responder_resources = rep->initiator_depth;
	id->initiator_depth = rep->responder_resources;
	id->rnr_retry_count = rep->rnr_retry_count & 7;
	id->peer_ack_timeout = rep->ack_timeout & 31;
	id->state = SV_CM_RESPONDED;
	sv_cm_set_deadline(id, 0);
	sv_cm_queue(id, RDMA_CM_EVENT_CONNECT_RESPONSE, 0, rep);
}

static void on_reject(struct sv_id *id, const struct sv_cm_msg *rej)
{
	if (id->state != SV_CM_CONNECTING && id->state != SV_CM_REQUESTED &&
	    id->state != SV_CM_ACCEPTED)
		return;
	id->state = SV_CM_OVER;
	sv_cm_set_deadline(id, 0);
	sv_cm_close(id);
	sv_cm_queue(id, RDMA_CM_EVENT_REJECTED, (int)rej->reason, rej);
}

static void disconnected(struct sv_id *id)
{
	id->state = SV_CM_DISCONNECTED;
	sv_cm_queue(id, RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
	sv_cm_set_deadline(id, TIMEWAIT_MS);
}

static void established(struct sv_id *id)
{
	id->state = SV_CM_CONNECTED;
	sv_cm_set_deadline(id, 0);
	sv_cm_queue(id, RDMA_CM_EVENT_ESTABLISHED, 0, NULL);
}

static void on_disconnect(struct sv_id *id)
{
	struct sv_cm_msg drep = { .type = SV_CM_DREP, .abi = SV_ABI_VERSION };

	/* A message may have overtaken the RTU, or the application's answer. */
	if (id->state < SV_CM_RESPONDED || id->state > SV_CM_DISCONNECTING)
		return;
	sv_cm_send(id, &drep);
	disconnected(id);
}

void sv_cm_on_message(struct sv_id *id, const struct sv_cm_msg *msg)
{
	switch (msg->type) {
	case SV_CM_REP:
		on_response(id, msg);
		break;
	case SV_CM_REJ:
		on_reject(id, msg);
		break;
	case SV_CM_RTU:
		if (id->state == SV_CM_ACCEPTED)
			established(id);
		break;
	case SV_CM_DREQ:
		on_disconnect(id);
		break;
	case SV_CM_DREP:
		if (id->state == SV_CM_DISCONNECTING)
			disconnected(id);
		break;
	default:
		break;
	}
}

/* ---- ends ---- */

void sv_cm_connect_failed(struct sv_id *id, enum rdma_cm_event_type type, int status)
{
	id->state = SV_CM_OVER;
	sv_cm_set_deadline(id, 0);
	sv_cm_close(id);
	sv_cm_queue(id, type, status, NULL);
}

void sv_cm_on_end(struct sv_id *id)
{
	switch (id->state) {
	case SV_CM_CONNECTING:
	case SV_CM_RESPONDED:
	case SV_CM_ACCEPTED:
		sv_cm_connect_failed(id, RDMA_CM_EVENT_UNREACHABLE, -ECONNRESET);
		break;
	case SV_CM_REQUESTED:
		id->gone = true;
		break;
	case SV_CM_CONNECTED:
	case SV_CM_DISCONNECTING:
		disconnected(id);
		break;
	default:
		break;
	}
}

void sv_cm_is_late(struct sv_id *id)
{
	sv_cm_set_deadline(id, 0);
	switch (id->state) {
	case SV_CM_CONNECTING:
	case SV_CM_ACCEPTED:
		sv_cm_connect_failed(id, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
		break;
	case SV_CM_DISCONNECTING:
		disconnected(id);
		break;
	case SV_CM_DISCONNECTED:
		id->state = SV_CM_OVER;
		sv_cm_close(id);
		sv_cm_queue(id, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0, NULL);
		break;
	default:
		break;
	}
}
