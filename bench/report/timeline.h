/* SPDX-License-Identifier: BSD-2-Clause */
/* timeline.h -- a run second by second. */
#ifndef BENCH_REPORT_TIMELINE_H
#define BENCH_REPORT_TIMELINE_H

#include <stddef.h>
#include <stdint.h>

#include "bench/run/tick.h"

struct timeline {
	struct timeline_point {
		double from_seconds, to_seconds;
		uint64_t operations;
		uint64_t p50_ns, p99_ns, max_ns;
	} *points;
	size_t count, room;
};

/* Adds a tick's interval; leaves it out where there is no memory. */
void timeline_add(struct timeline *t, const struct driver_tick *tick);
void timeline_clear(struct timeline *t);

#endif
