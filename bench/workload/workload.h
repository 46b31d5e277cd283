/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * workload.h -- a YCSB core workload: its settings, and the operation that stands
 * at each index of its sequence.
 *
 * The operation at an index depends on the seed, and on nothing else but the
 * newest record, so that a run's operations are the same for any number of
 * threads; but numbers of new records are given out in the order of arrival.
 */
#ifndef BENCH_WORKLOAD_WORKLOAD_H
#define BENCH_WORKLOAD_WORKLOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/workload/generator.h"
#include "bench/workload/key.h"
#include "bench/workload/property.h"
#include "bench/workload/record.h"
#include "bench/workload/sequence.h"
#include "common/err.h"

enum op_kind { OP_READ, OP_UPDATE, OP_INSERT, OP_READ_MODIFY_WRITE, OP_KINDS };

/* "READ", "UPDATE", "INSERT", "READ-MODIFY-WRITE". */
extern const char *const op_names[OP_KINDS];

struct workload {
	/* Settings, as the properties of the same names. */
	uint64_t record_count;
	uint64_t insert_start;
	uint64_t insert_count;
	uint64_t operation_count; /* 0: until the time is over */
	uint64_t seconds_max;     /* maxexecutiontime; 0: none */
	uint64_t target;          /* operations/s; 0: as fast as it goes */
	uint64_t threads;
	double proportion[OP_KINDS]; /* they sum to 1 */
	int distribution;            /* enum generator_kind */
	bool read_all_fields;
	struct key_format key;
	struct record_format record;
	uint64_t seed;
	uint64_t random_base; /* of the seed */

	/* Made by workload_init() */
	struct generator generator; /* each thread copies it */
	struct sequence *inserts;
};

/* Reads the properties.  0, or -1 with err: a wrong value, or a workload that a
 * hash store can't run.  workload_clear() it in either case. */
int workload_init(struct workload *w, struct properties *p, uint64_t seed, struct err *err);
void workload_clear(struct workload *w);

/* Is a property one of YCSB's that has no meaning here? */
bool workload_ignores(const char *key);

struct operation {
	enum op_kind kind;
	uint64_t number;      /* the record's */
	struct random random; /* for its value */
};

/* The index-th operation of the run; `g` is the thread's copy of the generator. */
void workload_operation(struct workload *w, struct generator *g, uint64_t index,
			struct operation *op);

/* The index-th operation of the loading phase, 0 to insert_count - 1. */
void workload_load_operation(const struct workload *w, uint64_t index, struct operation *op);

#endif
