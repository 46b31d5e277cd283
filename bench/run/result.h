/* SPDX-License-Identifier: BSD-2-Clause */
/* result.h -- what a run found out; the driver fills it in, the reports read it. */
#ifndef BENCH_RUN_RESULT_H
#define BENCH_RUN_RESULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/measure/histogram.h"
#include "bench/measure/pair.h"
#include "bench/store/store.h"
#include "bench/workload/workload.h"
#include "common/err.h"

struct op_result {
	/* Of what was answered, found or not.  From the intended start where a
	 * rate was set, else the same as service. */
	struct histogram latency;
	/* From the submission. */
	struct histogram service;
	uint64_t ok;
	uint64_t not_found;
	uint64_t errors;
};

static inline uint64_t op_result_count(const struct op_result *op)
{
	return op->ok + op->not_found + op->errors;
}

/* Values that data integrity checked. */
struct verify_result {
	uint64_t ok;
	uint64_t wrong;   /* not what the key's value must be */
	uint64_t missing; /* no value at all */
};

struct result {
	struct op_result op[OP_KINDS];
	struct pair pair[PAIR_KINDS]; /* with raw verbs */
	struct verify_result verify;
	uint64_t operations;
	double seconds;
	uint64_t busy; /* operations tried again as kvd was too busy */
	struct kvd_counters counters;
	double client_cpu_seconds;
	struct store_stats server; /* cpu_seconds, gets_served: of the run alone */
	bool interrupted;
	bool failed;
	struct err err; /* the first error; "" if there was none */
};

#endif
