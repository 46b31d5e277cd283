/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rail.h -- one of the RDMA devices that kvd serves, as a namespace has it.
 *
 * The table is registered with each.  A worker is of one, and so are its queues, what it
 * registers, and its connections.  The lock words are those of the first: its clients alone may
 * change them by atomics, the others' ask the locker (doc/decisions.md, "Several devices").
 */
#ifndef SERVER_WORKER_RAIL_H
#define SERVER_WORKER_RAIL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/addr.h"
#include "common/rails.h"
#include "common/rdma/link.h"

struct rail {
	unsigned number; /* 0: the first, whose end is kvd's */
	struct ibv_context *ctx;
	uint8_t port;
	struct addr addr; /* the first one that is on it */
	struct link_limits limits;
	struct ibv_pd *pd; /* the namespace's own */
	atomic_bool is_lost; /* for good: nobody comes by it any more.  Set by any thread */
};

static inline const char *rail_name(const struct rail *rail)
{
	return rail->ctx->device->name;
}

#endif
