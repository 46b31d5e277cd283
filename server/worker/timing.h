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

struct worker;
struct conn;
struct wire_request;

/* Bounds of the histogram's buckets, 1, 2, 5 microseconds and so on to 5 seconds; one
 * more bucket has what took longer. */
#define TIMING_BOUNDS 21u
extern const uint64_t timing_bound_ns[TIMING_BOUNDS];

struct timing {
	_Atomic uint64_t bucket[TIMING_BOUNDS + 1];
	_Atomic uint64_t sum_ns;
};

/* Of a key no more than this is looked at. */
#define TIMING_KEY_BYTES 64u

/* The worker's request is answered later: returns when it began, for timing_note() then,
 * with a copy of the key. */
uint64_t timing_keep(struct worker *worker, uint8_t copy[TIMING_KEY_BYTES], const void *key,
		     unsigned key_bytes);

/* A request was answered that began at since_ns; 0: it is not timed. */
void timing_note(struct worker *worker, const struct conn *conn,
		 const struct wire_request *request, const void *key, uint64_t since_ns);

#endif
