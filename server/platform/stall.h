/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stall.h -- how long a piece of work kept a worker from its clients.
 *
 * By the monotonic clock, which costs no system call.  A piece of work in which the thread was
 * preempted doesn't count: its time is another's.  Whether it was is asked of the kernel only
 * where the piece would be the longest.
 */
#ifndef SERVER_PLATFORM_STALL_H
#define SERVER_PLATFORM_STALL_H

#include <stdint.h>

/* A thread's own; zeroed at first. */
struct stall {
	uint64_t looked_ns;
	long preemptions; /* of the thread, then */
};

/* A piece of work begins; the time. */
uint64_t stall_begin(struct stall *stall);
/* It ends: its time if that is longer than longest_ns, otherwise 0.  Also 0 if the thread was
 * preempted meanwhile, or within the millisecond before. */
uint64_t stall_end(struct stall *stall, uint64_t begun_ns, uint64_t longest_ns);

#endif
