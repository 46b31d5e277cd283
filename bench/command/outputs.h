/* SPDX-License-Identifier: BSD-2-Clause */
/* outputs.h -- the files that a run writes while it runs: --csv, --hdr and --history. */
#ifndef BENCH_COMMAND_OUTPUTS_H
#define BENCH_COMMAND_OUTPUTS_H

#include "bench/run/options.h"
#include "bench/run/result.h"
#include "bench/run/tick.h"
#include "common/err.h"

struct outputs {
	struct history *history; /* each NULL if it was not asked for */
	struct csv *csv;
	struct hdrlog *hdrlog;
};

/*
 * Opens those of the options.  `store` (NULL: there is but one) goes into their names:
 * "run.csv" becomes "run-redis.csv".  Call it when the run is about to begin.  0, or -1 with
 * err; outputs_close() in either case.
 */
int outputs_open(struct outputs *out, const struct options *o, const char *store, struct err *err);
void outputs_tick(const struct outputs *out, const struct driver_tick *tick);
void outputs_total(const struct outputs *out, const struct result *result);
/* 0, or -1 with err if not all could be written. */
int outputs_close(struct outputs *out, struct err *err);

#endif
