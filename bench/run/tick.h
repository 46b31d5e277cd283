/* SPDX-License-Identifier: BSD-2-Clause */
/* tick.h -- what a run's driver tells while it runs. */
#ifndef BENCH_RUN_TICK_H
#define BENCH_RUN_TICK_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/measure/histogram.h"
#include "bench/workload/workload.h"

/* Told once a second, and once at the end. */
struct driver_tick {
	double from_seconds, to_seconds; /* since the measurement began */
	uint64_t operations;             /* so far */
	uint64_t errors;                 /* so far */
	double done;                     /* of the whole, 0 to 1 */
	bool last;
	const struct histogram *interval[OP_KINDS]; /* since the last tick */
};

#endif
