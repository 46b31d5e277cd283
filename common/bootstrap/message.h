/* SPDX-License-Identifier: BSD-2-Clause */
/* message.h -- what the two ends of a connection over TCP say to each other. */
#ifndef COMMON_BOOTSTRAP_MESSAGE_H
#define COMMON_BOOTSTRAP_MESSAGE_H

#include <stdbool.h>
#include "common/bootstrap/impl.h"
#include "common/wire.h"

/*
 * Whether a message off the wire makes sense, and is of one of the kinds in the mask
 * (1 << enum wire_bootstrap_kind).
 */
bool bootstrap_is_sane(const struct wire_bootstrap *message, unsigned kinds);

/* Into id->out; `param`: with the queue pair's. */
void bootstrap_message_fill(struct id *id, enum wire_bootstrap_kind kind,
			    const struct rdma_conn_param *param);
int bootstrap_message_send(struct id *id);

#endif
