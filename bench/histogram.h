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
#ifndef BENCH_HISTOGRAM_H
#define BENCH_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_SIGNIFICANT_DIGITS 2
#define HISTOGRAM_NS_MAX 3600000000000ull
#define HISTOGRAM_BUCKETS 4608u

struct histogram {
	uint64_t count;
	uint64_t sum_ns;
	uint64_t min_ns; /* UINT64_MAX if there is none */
	uint64_t max_ns;
	uint64_t buckets[HISTOGRAM_BUCKETS];
};

void histogram_clear(struct histogram *h);
void histogram_record(struct histogram *h, uint64_t ns);

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
unsigned histogram_bucket_of(uint64_t ns);

#endif
