/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * round.h -- a primary's side of leases: it raises A, asks, and sets G (doc/cluster.md, 9 to 12).
 *
 * Who calls executes what follows of a call (it shows the words, then asks) before the next
 * call.  Each now_ns is taken after that, and before the call: so who is frozen in between
 * finds its own lease shorter, and its waits longer.  No I/O; one thread owns it.
 */
#ifndef SERVER_CLUSTER_LEASE_ROUND_H
#define SERVER_CLUSTER_LEASE_ROUND_H

#include "common/lease.h"

#define ROUND_NS 16000000ull /* from one to the next */

struct round {
	struct lease_words words; /* as they have to be shown */
	uint64_t number;          /* of the latest round: its A */
	uint32_t awaited;         /* members that have not promised in it, bits */
	uint64_t raised_ns;
	uint64_t until_ns;        /* the primary's own lease */
	uint64_t hidden_ns;       /* since when no round is shown; 0: they are */
	uint32_t joiner;          /* a bit, or 0 */
	uint64_t included_ns;     /* since when each round that is begun includes it */
};

/* Words go on from where the same table's were: A never goes back. */
void round_reign(struct round *r, uint64_t reign);

/* The next round: who is asked, as bits.  What was under way is given up. */
void round_raise(struct round *r, uint32_t members, uint64_t now_ns);
/* A member promised, in that round.  True: all have. */
bool round_promised(struct round *r, uint32_t member, uint64_t number);

/* Rounds that are begun from now on include a member that joins; 0: no longer. */
void round_include(struct round *r, uint32_t joiner, uint64_t now_ns);
/* Whether no lease is good that the joiner did not promise for. */
bool round_may_grow(const struct round *r, uint64_t now_ns);

/* No reader gets a lease from now on; the primary itself does.  Or again. */
void round_hide(struct round *r, uint64_t now_ns);
void round_show(struct round *r);
/* Whether no reader's lease is good since it was hidden. */
bool round_is_forgotten(const struct round *r, uint64_t now_ns);

/* Whether what was sampled before now_ns was taken may be answered by message. */
bool round_is_good(const struct round *r, uint64_t now_ns);
/* "Still d": what a reader that asks may count from when it asked; 0: nothing. */
uint64_t round_left_ns(const struct round *r, uint64_t now_ns);

#endif
