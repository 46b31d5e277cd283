/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * grant.h -- whether what a session READs counts (doc/cluster.md, 10).
 *
 * In a cluster it does while the session has a lease of the primary that its connection is with.
 * That comes from looks at the words in the table's header, and from kvd's replies, which say
 * how long it is good.  It ends with the connection.  Without a cluster it always counts.
 *
 * Times are of CLOCK_BOOTTIME.  The session's thread; no I/O.
 */
#ifndef CLIENT_CACHE_GRANT_H
#define CLIENT_CACHE_GRANT_H

#include "client/cache/ticks.h"
#include "common/clock.h"
#include "common/layout.h"
#include "common/lease.h"

/* From one look to the next: two with a round (16 ms) in between make a lease.  The first one is
 * due half of that after a reply told of a lease, which lasts until the second. */
#define GRANT_LOOK_NS 20000000ull

struct grant {
	bool is_needed;
	bool is_told; /* kvd's replies are of the lease's reign */
	struct lease lease;
	uint64_t look_ns;    /* when the next look is due */
	uint64_t looking_ns; /* since when one is out; 0: none is */
	uint64_t fresh_ns;   /* until then the lease is good, and no look is due */
	struct ticks ticks;  /* before fresh_ns, without a look at the clock */
};

/* A connection begins: with a kvd of no cluster; with one of a cluster, which is primary of that
 * reign, or of none yet: 0. */
void grant_not_needed(struct grant *grant);
void grant_begin(struct grant *grant, uint64_t reign);

/* A reply said so, to a request that was sent after asked_ns was taken. */
void grant_told(struct grant *grant, unsigned left_ms, uint64_t asked_ns);

/* Whether a look is to be posted.  It is, after now_ns was taken.  It brought these bytes; those
 * that are no primary's, or another reign's, count as nothing. */
bool grant_look_is_due(const struct grant *grant, uint64_t now_ns);
void grant_looks(struct grant *grant, uint64_t now_ns);
void grant_seen(struct grant *grant, const struct layout_lease *shown);

/* When something is asked, or looked at; 0: nobody needs it. */
static inline uint64_t grant_clock_ns(const struct grant *grant)
{
	return grant->is_needed ? clock_read_ns(CLOCK_BOOTTIME) : 0;
}

/* What is known before a READ is posted: for the functions below. */
static inline uint64_t grant_reign(const struct grant *grant)
{
	return grant->lease.reign;
}

/* When what was READ was complete.  Until fresh_ns grant_is_fresh() goes by it. */
uint64_t grant_look_at_clock_ns(struct grant *grant);

/* Whether what was READ surely counts, and no look is due.  Asked when it is complete. */
static inline bool grant_is_fresh(const struct grant *grant, uint64_t reign)
{
	return ticks_is_near(&grant->ticks) && reign == grant->lease.reign;
}

/* Whether it counts. */
static inline bool grant_is_good(const struct grant *grant, uint64_t reign, uint64_t now_ns)
{
	return lease_is_good(&grant->lease, reign, now_ns);
}

#endif
