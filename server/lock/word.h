/* SPDX-License-Identifier: BSD-2-Clause */
/* word.h -- the lock words as the locker's thread sees and changes them, and what it
 * has for that.  The thread alone calls what is here, but where said. */
#ifndef SERVER_LOCK_WORD_H
#define SERVER_LOCK_WORD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "server/lock/config.h"
#include "server/lock/holder.h"
#include "server/lock/queue.h"

struct lockwords {
	struct locker_config config;
	struct loopback *loopback; /* NULL: the device lets nothing through */
	uint64_t again_ns;         /* then: it is not made before */
	uint64_t failures;         /* of swaps, counted */
	bool has_failed;           /* the last one */
	bool is_cut;               /* which was told */
	struct queues queues;
	struct holders holders;
	uint64_t looks; /* at holders, counted */
	bool wants_sweep; /* there may be words that name nobody */
	_Atomic uint64_t handovers, fenced, recovered; /* any thread reads */
};

/* Loopback and memory; 0, or -1 after setting err. */
int lockwords_init(struct lockwords *l, const struct locker_config *config, struct err *err);
/* Also of one that is zero, or that did not get as far. */
void lockwords_fini(struct lockwords *l);

/* Whom a word names: a connection that lives and may hold it; NULL: nobody. */
struct holder *lockword_holder(struct lockwords *l, uint64_t word);
uint64_t lockword_get(const struct lockwords *l, uint64_t stripe);
/* Whether words can be swapped, as far as is known. */
bool lockwords_are_reached(struct lockwords *l);
/* True if it was `expected`, and is `desired` now; false, too, while none can be. */
bool lockword_swap(struct lockwords *l, uint64_t stripe, uint64_t expected, uint64_t desired);
/* Gives the lock to the first waiter, or frees it if there is none; false: it is not
 * `word` any more. */
bool lockword_hand_over(struct lockwords *l, struct queue *q, uint64_t word);
/* Releases the lock if its word names nobody: to who waits, or to none.  False: it stays. */
bool lockword_clear(struct lockwords *l, uint64_t stripe);
/* Goes on with one stripe; its queue is dropped when nobody waits and WAIT is off. */
void lockword_serve(struct lockwords *l, struct queue *q, uint64_t now);

#endif
