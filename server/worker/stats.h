/* SPDX-License-Identifier: BSD-2-Clause */
/* stats.h -- what a worker counts.  It alone writes; any thread reads. */
#ifndef SERVER_WORKER_STATS_H
#define SERVER_WORKER_STATS_H

#include <stdatomic.h>
#include <stdint.h>

#include "common/wire.h"

#define WC_STATUSES 24u

struct worker_stats {
	_Atomic uint64_t requests[WIRE_OPS];
	_Atomic uint64_t not_found;
	_Atomic uint64_t failed;
	_Atomic uint64_t aside;
	_Atomic uint64_t pull_bytes;
	_Atomic uint64_t pulls;
	_Atomic uint64_t wc_errors[WC_STATUSES]; /* by enum ibv_wc_status */
};

static inline void stats_add(_Atomic uint64_t *counter, uint64_t n)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
			      memory_order_relaxed);
}

#endif
