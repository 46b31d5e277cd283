/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * zipf.h -- the zipfian numbers of YCSB: 0 is drawn most, then 1, and so on.
 *
 * By the formula of Gray et al., "Quickly Generating Billion-Record Synthetic
 * Databases" (SIGMOD 1994).  It is exact for the numbers 0 and 1 only: it draws
 * 2 a fifth too often, for example.  zipf_probability() is what it gives.
 */
#ifndef BENCH_WORKLOAD_ZIPF_H
#define BENCH_WORKLOAD_ZIPF_H

#include <stdint.h>

#include "bench/workload/random.h"

#define ZIPF_THETA 0.99

struct zipf {
	uint64_t items;
	double zetan; /* sum of 1 / i^theta for i in 1..items */
	double eta;
};

/* zetan: 0 to have it computed. */
void zipf_init(struct zipf *z, uint64_t items, double zetan);

/* The same with another number of items; cheap for a few more or less. */
void zipf_resize(struct zipf *z, uint64_t items);

/* In [0, items). */
uint64_t zipf_next(const struct zipf *z, struct random *r);

/* How often zipf_next() gives `number`: what the formula gives, not Zipf's law. */
double zipf_probability(const struct zipf *z, uint64_t number);

/* Sum of 1 / i^ZIPF_THETA for i in 1..n, to 13 digits, in constant time. */
double zipf_zeta(uint64_t n);

#endif
