/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * generator.h -- which record an operation is on: YCSB's request distributions.
 */
#ifndef BENCH_WORKLOAD_GENERATOR_H
#define BENCH_WORKLOAD_GENERATOR_H

#include <stdint.h>

#include "bench/workload/random.h"
#include "bench/workload/zipf.h"

enum generator_kind {
	GENERATOR_UNIFORM,
	GENERATOR_ZIPFIAN, /* scrambled: the popular records are spread over all */
	GENERATOR_LATEST,
	GENERATOR_HOTSPOT,
	GENERATOR_EXPONENTIAL,
	GENERATOR_SEQUENTIAL,
	GENERATOR_KINDS
};

/* As the property requestdistribution calls them, NULL-terminated. */
extern const char *const generator_names[GENERATOR_KINDS + 1];

/*
 * Scrambled zipfian draws from this many items whatever the number of records,
 * 0 to 10^10, with a constant that belongs to them, and hashes the result.
 */
#define GENERATOR_SCRAMBLED_ITEMS 10000000001ull
#define GENERATOR_SCRAMBLED_ZETAN 26.46902820178302

/*
 * Copied for each thread: `latest` follows the newest record by itself.
 * first and count: the records drawn from; latest and exponential draw from
 * `first` to the newest one.
 */
struct generator {
	enum generator_kind kind;
	uint64_t first;
	uint64_t count;
	uint64_t inverse;       /* of count: floor((2^64 - 1) / count) */
	uint64_t hot_count;     /* hotspot */
	double hot_proportion;  /* hotspot: of the draws */
	double mean;            /* exponential */
	struct zipf zipf;
};

/* count > 0; the settings of the kind (hot_*, mean) are set by the caller. */
void generator_init(struct generator *g, enum generator_kind kind, uint64_t first, uint64_t count);

/*
 * A record number.  `index` is the operation's (sequential), `newest` the number
 * of the newest record that is there; never gives a record after it.
 */
uint64_t generator_next(struct generator *g, struct random *r, uint64_t index, uint64_t newest);

#endif
