/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sweep.h -- one look at every lock word, in steps: words that name nobody are released.
 *
 * One sweep serves all connections that had ended when it began.  Its steps are short, so
 * that who waits is not kept, and take at most a fifth of the thread's time.  What somebody
 * waits for is not left to it: lockword_serve() finds out by itself that a holder has ended.
 *
 * The locker's thread calls what is here.
 */
#ifndef SERVER_LOCK_SWEEP_H
#define SERVER_LOCK_SWEEP_H

#include <stdbool.h>
#include <stdint.h>

struct holder;
struct lockwords;

struct sweep {
	struct lockwords *words;
	/* No word has a holder's token any more: it is not used again. */
	void (*forget)(struct holder *holder);
	struct holder *now;   /* ended before this sweep began */
	struct holder *later; /* ended since */
	bool is_running;
	uint64_t next;      /* stripe */
	uint64_t resume_ns; /* not before that */
	uint64_t failures;  /* of swaps, when it began */
};

/* A connection has ended: all words are looked at if it may have written any. */
void sweep_ended(struct sweep *sweep, struct holder *holder);
/* Whether there is something to do, now or soon. */
bool sweep_is_due(const struct sweep *sweep);
/* Goes on for a moment, if its time has come. */
void sweep_step(struct sweep *sweep, uint64_t now_ns);
/* Forgets who is left; the words stay. */
void sweep_drop(struct sweep *sweep);

#endif
