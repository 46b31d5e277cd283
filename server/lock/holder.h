/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * holder.h -- connections that can be named in lock words.
 *
 * A connection's id is given once and has 64 bits.  A lock word has the low ones of it
 * (LAYOUT_LOCK_CONNECTION_MASK), and they come again.  So no id is given whose low bits are
 * still another's: of one that lives, or that ended and may stand in a word.  0 and all
 * ones are nobody's low bits.
 *
 *	holders_add      its hello was good: it has an id
 *	holders_end      its queue pair is destroyed: it names nobody
 *	holders_remove   every word was looked at since: its low bits may come again
 *
 * Any thread calls holders_add, and fills the holder in before.  The locker's thread calls
 * the others: a holder is its own from then on.
 */
#ifndef SERVER_LOCK_HOLDER_H
#define SERVER_LOCK_HOLDER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define HOLDER_BUCKETS 4096u

struct lease;

struct holder {
	struct holder *next; /* of its bucket */
	uint64_t id;         /* 0: it was not added */
	uint64_t number;     /* of the connection, for the log */
	bool may_write;      /* it has the rkey of the lock words */
	bool may_hold;       /* and says what it holds: a word can be its own */
	bool has_ended;
	uint64_t looked_ns;   /* the last look at what it holds */
	struct lease *leases; /* lease.h */
	unsigned released;    /* words, after its end */
	struct holder *next_ended;
};

struct holders {
	pthread_mutex_t lock; /* a leaf: of the buckets and `last` */
	uint64_t last, mask;
	struct holder *at[HOLDER_BUCKETS];
};

/* bits: that a word has of an id, 2 at the least.  Ids are above `last`. */
void holders_init(struct holders *holders, unsigned bits, uint64_t last);
void holders_fini(struct holders *holders);

/* Gives it an id.  False: the low bits of all ids are somebody's. */
bool holders_add(struct holders *holders, struct holder *holder);
void holders_end(struct holder *holder);
void holders_remove(struct holders *holders, struct holder *holder);

/* Who has these low bits; NULL: nobody. */
struct holder *holders_find(struct holders *holders, uint64_t low);

#endif
