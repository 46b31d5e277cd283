/* SPDX-License-Identifier: BSD-2-Clause */
/* config.h -- what a run's driver is to do. */
#ifndef BENCH_RUN_CONFIG_H
#define BENCH_RUN_CONFIG_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "bench/run/history.h"
#include "bench/run/tick.h"
#include "bench/store/store.h"
#include "bench/workload/workload.h"

struct driver_config {
	struct workload *workload;
	struct store *store;
	bool load;            /* the loading phase, not the run */
	bool with_raw;        /* raw verbs between the operations; depth 1, no target */
	bool locked_rmw;      /* a read-modify-write is kvd_update(); depth 1 */
	bool verify;          /* check values; the workload says how they are made */
	unsigned threads;
	unsigned depth;
	uint64_t warmup;      /* operations before the measurement */
	uint64_t operations;  /* 0: until the time is over */
	double seconds;       /* 0: until the operations are done */
	uint64_t target;      /* operations/s, of all threads; 0: no limit */
	struct history *history; /* or NULL */
	void (*tick)(void *arg, const struct driver_tick *tick); /* or NULL */
	void *arg;
	const volatile sig_atomic_t *interrupted; /* ends the run early; or NULL */
};

#endif
