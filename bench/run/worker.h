/* SPDX-License-Identifier: BSD-2-Clause */
/* worker.h -- one thread of the driver: its session and its share of operations. */
#ifndef BENCH_RUN_WORKER_H
#define BENCH_RUN_WORKER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "bench/run/config.h"
#include "bench/run/result.h"

struct slot;

/* Shared by the workers of a run. */
struct worker_shared {
	const struct driver_config *config;
	atomic_bool stop;        /* begin nothing more */
	uint64_t start_ns;       /* of the measurement; set before it begins */
	uint64_t deadline_ns;    /* UINT64_MAX: none */
};

struct worker {
	struct worker_shared *shared;
	unsigned number;
	struct generator generator;
	struct store_session *session;

	struct slot *slots;
	struct slot *free;
	struct slot *deferred; /* kvd was too busy for it */
	char *buffers;
	struct kvd_completion *completions;
	unsigned in_flight;

	uint64_t next, end;  /* indexes of operations: own ones are every threads-th */
	uint64_t now_ns;     /* the last look at the clock */
	uint64_t end_ns;     /* of worker_run() */
	bool measured;       /* not the warm-up */
	bool paced;
	unsigned error_streak;

	/* Read by the driver while the worker runs; see histogram.h. */
	struct op_result op[OP_KINDS];
	uint64_t errors;
	struct pair pair[PAIR_KINDS];
	struct random order; /* of an operation and its raw verb */
	uint64_t *past;      /* records of former GETs, a ring; for raw READs */
	uint64_t past_count; /* ever */
	struct verify_result verify;
	uint64_t busy;
	struct kvd_counters counters;
	bool failed;
	struct err err;
};

/* Allocates the worker's memory and connects.  0 or -1 with w->err. */
int worker_init(struct worker *w, struct worker_shared *shared, unsigned number);
void worker_clear(struct worker *w);

/* Does the worker's operations with an index below `end`, and returns when all
 * are answered. */
void worker_run(struct worker *w, uint64_t end, bool measured);

#endif
