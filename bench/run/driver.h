/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * driver.h -- runs a workload against a store: threads with a session each, many
 * operations in flight on each session, every one timed.
 */
#ifndef BENCH_RUN_DRIVER_H
#define BENCH_RUN_DRIVER_H

#include "bench/run/config.h"
#include "bench/run/result.h"
#include "common/err.h"

/*
 * Blocks until the run is over.  0 with *result filled in, though operations may
 * have failed (result->failed, result->err); -1 with err where it could not begin:
 * no memory, no connection.
 */
int driver_run(const struct driver_config *config, struct result *result, struct err *err);

/* Nanoseconds that kvbench itself costs per operation of a workload, in making,
 * timing and recording it; negative if there is no memory. */
double driver_cost(const struct workload *workload, unsigned depth);

#endif
