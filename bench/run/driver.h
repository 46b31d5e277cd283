/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * driver.h -- runs a workload against a store: threads with a session each, many
 * operations in flight on each session, every one timed.
 */
#ifndef BENCH_RUN_DRIVER_H
#define BENCH_RUN_DRIVER_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "bench/run/history.h"
#include "bench/run/result.h"
#include "bench/store/store.h"
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
