/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/measure/histogram.h"

#include <math.h>
#include <string.h>

#define STEPS HISTOGRAM_STEPS

uint64_t histogram_bucket_first(unsigned bucket)
{
	unsigned shift = bucket < STEPS ? 0 : bucket / STEPS - 1;

	return (uint64_t)(bucket - shift * STEPS) << shift;
}

uint64_t histogram_bucket_last(unsigned bucket)
{
	return histogram_bucket_first(bucket + 1) - 1;
}

void histogram_clear(struct histogram *h)
{
	memset(h, 0, sizeof *h);
	h->min_ns = UINT64_MAX;
}

void histogram_merge(struct histogram *to, const struct histogram *from)
{
	uint64_t least = histogram_load(&from->min_ns), most = histogram_load(&from->max_ns);

	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
		uint64_t n = histogram_load(&from->buckets[i]);
		to->buckets[i] += n;
		to->count += n; /* not from->count, which may be ahead */
	}
	to->sum_ns += histogram_load(&from->sum_ns);
	to->min_ns = least < to->min_ns ? least : to->min_ns;
	to->max_ns = most > to->max_ns ? most : to->max_ns;
}

void histogram_difference(struct histogram *to, const struct histogram *now,
			  const struct histogram *before)
{
	histogram_clear(to);
	to->sum_ns = now->sum_ns - before->sum_ns;
	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
		uint64_t n = now->buckets[i] - before->buckets[i];
		if (n == 0)
			continue;
		to->buckets[i] = n;
		to->count += n;
		if (to->min_ns == UINT64_MAX)
			to->min_ns = histogram_bucket_first(i);
		to->max_ns = histogram_bucket_last(i);
	}
	if (to->max_ns > now->max_ns)
		to->max_ns = now->max_ns;
	if (to->count > 0 && to->min_ns < now->min_ns)
		to->min_ns = now->min_ns;
}

uint64_t histogram_percentile(const struct histogram *h, double percentile)
{
	double wanted = ceil(percentile / 100 * (double)h->count);
	uint64_t below = 0;

	if (h->count == 0)
		return 0;
	for (unsigned i = 0; i < HISTOGRAM_BUCKETS - 1; i++) {
		uint64_t last = histogram_bucket_last(i);
		below += h->buckets[i];
		if (below > 0 && (double)below >= wanted)
			return last < h->max_ns ? last : h->max_ns;
	}
	return h->max_ns;
}

double histogram_mean(const struct histogram *h)
{
	return h->count > 0 ? (double)h->sum_ns / (double)h->count : 0;
}
