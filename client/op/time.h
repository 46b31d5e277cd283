/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * time.h -- what a call may take.
 *
 * Fixed when a call that waits begins: connecting again, asking again and what became of
 * a change are all of that time, not of one of their own.
 */
#ifndef CLIENT_OP_TIME_H
#define CLIENT_OP_TIME_H

#include <stdbool.h>
#include <stdint.h>

#include "common/clock.h"

struct call_time {
	uint64_t begun_ns, end_ns; /* of a call that waits; 0: none is under way */
	uint64_t limit_ns;         /* for a call */
	uint64_t tick_ns;          /* of the coarse clock */
};

/* At most tick_ns behind, at a third of the price.  What was over by this clock is over,
 * and a deadline needs no more. */
static inline uint64_t clock_coarse_ns(void)
{
	return clock_read_ns(CLOCK_MONOTONIC_COARSE);
}

/* A call that waits begins; false: it is a part of one.  To its end with that. */
static inline bool call_begin(struct call_time *t)
{
	if (t->end_ns)
		return false;
	t->begun_ns = clock_coarse_ns();
	t->end_ns = t->begun_ns + t->tick_ns + t->limit_ns;
	return true;
}

static inline void call_end(struct call_time *t, bool outermost)
{
	if (outermost)
		t->end_ns = 0;
}

/* When the call that is under way, or that begins now, has to end. */
static inline uint64_t call_deadline_ns(const struct call_time *t)
{
	return t->end_ns ? t->end_ns : clock_ns() + t->limit_ns;
}

#endif
