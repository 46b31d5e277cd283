/* SPDX-License-Identifier: BSD-2-Clause */
/* event.h -- connection management: event channels and what is in them. */
#ifndef COMMON_SOFTVERBS_CM_EVENT_H
#define COMMON_SOFTVERBS_CM_EVENT_H

#include <stdbool.h>
#include <stdint.h>
#include <rdma/rdma_cma.h>
#include "common/softverbs/cm/id.h"
#include "common/softverbs/cm/msg.h"

struct sv_cm_event {
	struct rdma_cm_event ev;
	struct sv_id *counted; /* whose acknowledgement it wants */
	struct sv_cm_event *next;
	uint8_t data[SV_CM_REP_DATA];
};

/* Queues an event; sv_cm.lock held.  msg: the message that it tells of, or NULL. */
void sv_cm_queue(struct sv_id *id, enum rdma_cm_event_type type, int status,
		 const struct sv_cm_msg *msg);
/* The same of datagrams: what it says is copied. */
void sv_cm_queue_ud(struct sv_id *id, enum rdma_cm_event_type type,
		    const struct rdma_ud_param *ud);
/* Takes the events of an id out of its channel; sv_cm.lock held. */
void sv_cm_drop_events(struct sv_id *id);
/* The next event, which is the caller's to acknowledge.  Blocks, or EAGAIN, as the
 * channel's descriptor says.  0, or -1 and errno. */
int sv_cm_next_event(struct rdma_event_channel *ch, struct sv_cm_event **event);

#endif
