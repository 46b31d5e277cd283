/* SPDX-License-Identifier: BSD-2-Clause */
/* event.h -- events of ids, and the channel that they are of. */
#ifndef COMMON_BOOTSTRAP_EVENT_H
#define COMMON_BOOTSTRAP_EVENT_H

#include "common/bootstrap/impl.h"

/* NULL without memory. */
struct queued *bootstrap_event_put(struct id *id, enum rdma_cm_event_type type, int status);
/* With what the peer's message says; false without memory. */
bool bootstrap_event_put_message(struct id *id, enum rdma_cm_event_type type, int status);
/* Those of the id. */
void bootstrap_event_drop(struct channel *channel, const struct id *id);
/* NULL: none is queued. */
struct queued *bootstrap_event_pop(struct channel *channel);
int bootstrap_event_ack(struct rdma_cm_event *event);
struct rdma_event_channel *bootstrap_channel_create(void);
void bootstrap_channel_destroy(struct rdma_event_channel *channel);

#endif
