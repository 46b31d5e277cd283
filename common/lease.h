/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lease.h -- for how long a reader may trust what it READs of a primary (doc/cluster.md, 9, 10).
 *
 * A primary shows two words.  It raises A, then asks all members for a promise not to serve;
 * when all have answered it sets G to that A.  A reader that sampled A, and later samples a
 * G above that, knows that all promised after it sampled: it may trust what it READs for
 * LEASE_GOOD_NS of its own clock, counted from before it posted the READ of that A.
 *
 * All members and readers have to go by the same LEASE_NS: who changes it gives WIRE_VERSION and
 * LINK_VERSION their next numbers.
 *
 * Clocks here are CLOCK_BOOTTIME, whose rate is wrong by 1/LEASE_RHO at the most.  No I/O;
 * one thread owns a struct lease.
 */
#ifndef COMMON_LEASE_H
#define COMMON_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#define LEASE_RHO 8u
#define LEASE_NS 80000000ull                               /* L: of a promise */
#define LEASE_GOOD_NS (LEASE_NS - 2 * LEASE_NS / LEASE_RHO) /* L (1 - 2 rho): of a reader */

/* As a header shows them. */
struct lease_words {
	uint64_t reign; /* never 0 */
	uint64_t a, g;
};

struct lease_sample {
	uint64_t a;
	uint64_t posted_ns;
};

/* What a reader knows of one primary; {0} is nothing. */
struct lease {
	uint64_t reign;
	unsigned count;
	struct lease_sample samples[2]; /* of different A, the older one first */
	uint64_t until_ns;
};

/* The words were READ, whole and by one READ, which was posted after posted_ns was taken. */
void lease_sampled(struct lease *l, const struct lease_words *words, uint64_t posted_ns);

/* The primary said that its own lease lasts for left_ns; it was asked after asked_ns was taken. */
void lease_told(struct lease *l, uint64_t reign, uint64_t left_ns, uint64_t asked_ns);

/*
 * Whether what was READ counts.  now_ns: taken when it was complete; reign: the one that was
 * known before its READ was posted.
 */
static inline bool lease_is_good(const struct lease *l, uint64_t reign, uint64_t now_ns)
{
	return now_ns < l->until_ns && reign == l->reign;
}

#endif
