/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * histogram.h -- latencies in nanoseconds, counted with at most 0.8 % error.
 *
 * The buckets are those of HdrHistogram with two significant digits, so that
 * its tools read what hdrlog.h writes: from 128 * 2^n to 256 * 2^n in steps of
 * 2^n, up to one hour and beyond; what is longer counts in the last one, and
 * the greatest value is kept exactly.
 *
 * One thread records; any thread may read or merge meanwhile and sees each count
 * as it is at some time in between.
 */
#ifndef BENCH_MEASURE_HISTOGRAM_H
#define BENCH_MEASURE_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_SIGNIFICANT_DIGITS 2
#define HISTOGRAM_NS_MAX 3600000000000ull
#define HISTOGRAM_BUCKETS 4608u
#define HISTOGRAM_STEP_BITS 7u /* 2^7 buckets from one power of two to the next */
#define HISTOGRAM_STEPS (1u << HISTOGRAM_STEP_BITS)

struct histogram {
	uint64_t count;
	uint64_t sum_ns;
	uint64_t min_ns; /* UINT64_MAX if there is none */
	uint64_t max_ns;
	uint64_t buckets[HISTOGRAM_BUCKETS];
};

void histogram_clear(struct histogram *h);

/* Adds `from`, in which another thread may be recording. */
void histogram_merge(struct histogram *to, const struct histogram *from);

/* now minus before, bucket by bucket; min and max to within a bucket. */
void histogram_difference(struct histogram *to, const struct histogram *now,
			  const struct histogram *before);

/* The least value that `percentile` (0 to 100) of the values don't exceed, as
 * the end of its bucket; 0 if there is none. */
uint64_t histogram_percentile(const struct histogram *h, double percentile);

double histogram_mean(const struct histogram *h);

/* The values that count in a bucket. */
uint64_t histogram_bucket_first(unsigned bucket);
uint64_t histogram_bucket_last(unsigned bucket);

static inline unsigned histogram_bucket_of(uint64_t ns)
{
	uint64_t at_least = ns | (2 * HISTOGRAM_STEPS - 1);
	unsigned shift = 63 - HISTOGRAM_STEP_BITS - (unsigned)__builtin_clzll(at_least);
	unsigned bucket = shift * HISTOGRAM_STEPS + (unsigned)(ns >> shift);

	return bucket < HISTOGRAM_BUCKETS ? bucket : HISTOGRAM_BUCKETS - 1;
}

/* Counts have one writer: no read-modify-write needed, only whole stores. */
static inline uint64_t histogram_load(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_RELAXED);
}

static inline void histogram_add(uint64_t *word, uint64_t n)
{
	__atomic_store_n(word, histogram_load(word) + n, __ATOMIC_RELAXED);
}

static inline void histogram_record(struct histogram *h, uint64_t ns)
{
	histogram_add(&h->buckets[histogram_bucket_of(ns)], 1);
	histogram_add(&h->count, 1);
	histogram_add(&h->sum_ns, ns);
	if (ns < h->min_ns)
		__atomic_store_n(&h->min_ns, ns, __ATOMIC_RELAXED);
	if (ns > h->max_ns)
		__atomic_store_n(&h->max_ns, ns, __ATOMIC_RELAXED);
}

#endif
