/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * random.h -- random numbers that depend on the seed and an operation's index
 * only, so that a run's operations are the same for any number of threads.
 */
#ifndef BENCH_WORKLOAD_RANDOM_H
#define BENCH_WORKLOAD_RANDOM_H

#include <stdint.h>

/* SplitMix64 (Steele, Lea, Flood 2014): a counter and a mixing function. */
struct random {
	uint64_t state;
};

#define RANDOM_STEP 0x9e3779b97f4a7c15ull

static inline uint64_t random_mix(uint64_t x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

/* Where the streams of a seed begin. */
static inline uint64_t random_base(uint64_t seed)
{
	return random_mix(seed + RANDOM_STEP);
}

/*
 * The stream of numbers that belongs to `index`: counters of another step, so that
 * no two streams meet within the few numbers that are taken of each.
 */
static inline struct random random_stream(uint64_t base, uint64_t index)
{
	return (struct random){ base + index * 0xd1342543de82ef95ull };
}

static inline uint64_t random_next(struct random *r)
{
	r->state += RANDOM_STEP;
	return random_mix(r->state);
}

/* In [0, 1), with 53 random bits. */
static inline double random_double(struct random *r)
{
	return (double)(random_next(r) >> 11) * 0x1p-53;
}

/* In [0, n); the bias is below n / 2^64.  n > 0. */
static inline uint64_t random_below(struct random *r, uint64_t n)
{
	return (uint64_t)((unsigned __int128)random_next(r) * n >> 64);
}

#endif
