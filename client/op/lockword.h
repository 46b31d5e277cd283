/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lockword.h -- one stripe's lock word.
 *
 * Happy path: compare-and-swap of the word from 0 to a fresh token.  Unlock: a
 * compare-and-swap back to 0, posted and not waited for.
 *
 * Lost: ask kvd to wait in its queue (WIRE_LOCK); the answer is the grant.  From
 * then on the word has WAIT, our unlock's compare-and-swap fails, and when its
 * completion is seen the lock is handed over with WIRE_UNLOCK.  Should this thread
 * do something else by then: kvd READs what is held (held.h), where the token is gone.
 *
 * A session on another device than the first of kvd's has no right to the words: it has asked kvd
 * for each lock, and says WIRE_UNLOCK at once.
 *
 * The token is put there before the compare-and-swap and taken out before the
 * unlock, so that kvd never takes a lock from somebody who holds it.
 */
#ifndef CLIENT_OP_LOCKWORD_H
#define CLIENT_OP_LOCKWORD_H

#include <stdbool.h>
#include <stdint.h>

struct engine;
struct op;

/* Whether kvd swaps the words for this session. */
bool stripes_are_asked(const struct engine *e);

/* Posts the compare-and-swap of one stripe from free to the token; not of one that is asked. */
struct op *stripe_start(struct engine *e, uint64_t stripe, uint64_t token);
/* The operation of one that has been posted for it, and perhaps is complete. */
struct op *stripe_resume(struct engine *e, bool complete);
/* Of one that has ended well: whether the word was free. */
bool stripe_was_free(const struct op *op);
/* The same: a compare-and-swap of the token to itself, which tells whether it is there still. */
struct op *stripe_ask(struct engine *e, uint64_t stripe, uint64_t token);
/* Of one that has ended well: whether it was, perhaps with WAIT. */
bool stripe_is_held(const struct op *op, uint64_t token);
/* Gives it back.  Not waited for. */
void stripe_release(struct engine *e, uint64_t stripe, uint64_t token);

#endif
