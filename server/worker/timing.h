/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * timing.h -- how long requests take in kvd: histograms, and words about slow ones.
 *
 * Off unless somebody wants it (--metrics, --slow): then each request costs a look at
 * the clock.  The time is from the look at the completion queue that found the request
 * until its reply is ready to be posted: with waiting for locks and for values to be
 * pulled, without the network.  A worker writes its own, any thread reads them.
 */
#ifndef SERVER_WORKER_TIMING_H
#define SERVER_WORKER_TIMING_H

#include <stdatomic.h>
#include <stdint.h>

#include "common/wire.h"

/* Bounds of the histogram's buckets, 1, 2, 5 microseconds and so on to 5 seconds; one
 * more bucket has what took longer. */
#define TIMING_BOUNDS 21u
extern const uint64_t timing_bound_ns[TIMING_BOUNDS];

struct timing {
	_Atomic uint64_t bucket[TIMING_BOUNDS + 1];
	_Atomic uint64_t sum_ns;
};

/* A worker's. */
struct timings {
	struct timing op[WIRE_OPS];
	uint64_t begun_ns; /* the request under way; 0: nobody wants to know */
	uint64_t slow_ns;  /* words about what takes as long; 0: none */
	unsigned worker;   /* its number, for those */
	uint64_t slow_since_ns;
	unsigned slow_count;
};

/* Of a key no more than this is looked at. */
#define TIMING_KEY_BYTES 64u

/* The request under way is answered later: when it began, for timing_note() then. */
static inline uint64_t timing_take(struct timings *t)
{
	uint64_t begun_ns = t->begun_ns;

	t->begun_ns = 0;
	return begun_ns;
}

/* A request of `peer` was answered that began at since_ns; 0: it is not timed. */
void timing_note(struct timings *timings, const char *peer, const struct wire_request *request,
		 const void *key, uint64_t since_ns);

const char *timing_op_name(unsigned op);

#endif
