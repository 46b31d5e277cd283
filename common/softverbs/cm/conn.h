/* SPDX-License-Identifier: BSD-2-Clause */
/* conn.h -- connection management: what becomes of a connection.  sv_cm.lock held for all. */
#ifndef COMMON_SOFTVERBS_CM_CONN_H
#define COMMON_SOFTVERBS_CM_CONN_H

#include "common/softverbs/cm/id.h"
#include "common/softverbs/cm/msg.h"

/* Somebody wants to connect to a listener; the id is new. */
void sv_cm_on_request(struct sv_id *id, struct sv_id *listener, const struct sv_cm_msg *req);
void sv_cm_on_message(struct sv_id *id, const struct sv_cm_msg *msg);
/* The other side is gone. */
void sv_cm_on_end(struct sv_id *id);
void sv_cm_connect_failed(struct sv_id *id, enum rdma_cm_event_type type, int status);
/* Its deadline has come. */
void sv_cm_is_late(struct sv_id *id);

#endif
