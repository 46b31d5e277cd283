/* SPDX-License-Identifier: BSD-2-Clause */
/* progress.h -- a bar while loading, a status line a second while running, on
 * standard error: in place on a terminal, line after line elsewhere. */
#ifndef BENCH_REPORT_PROGRESS_H
#define BENCH_REPORT_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/run/tick.h"

struct progress {
	bool load;
	bool terminal;
	uint64_t operations; /* planned; 0: by time */
	uint64_t before;     /* operations at the last tick */
};

void progress_init(struct progress *p, bool load, uint64_t operations);
void progress_tick(struct progress *p, const struct driver_tick *tick);

#endif
