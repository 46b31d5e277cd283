/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * locks.h -- the cases of `locks`, and what they share.
 *
 *   locks_many.c     many clients at the same keys: turns, exclusion, all or nothing
 *   locks_holder.c   what becomes of a lock as its holder dies, hangs, idles, or kvd ends
 *   locks_calls.c    the calls: tries, misuse, small depths
 *
 * A case forks its clients, which meet on the stage, and returns if all of them ended
 * well; else the process ends with 1 and says why.
 */
#ifndef TESTS_TORTURE_LOCKS_H
#define TESTS_TORTURE_LOCKS_H

#include "tests/torture/kit.h"

#define LOCKS_PROCESSES_MAX 16

/* What the processes of a case share. */
struct stage {
	volatile unsigned step; /* how far the case is */
	volatile bool stop;
	volatile uint64_t at_ns;
	volatile uint64_t count[LOCKS_PROCESSES_MAX];
	volatile uint64_t other[LOCKS_PROCESSES_MAX];
};
extern struct stage *stage;

extern unsigned size; /* of the case: each says of what */

/* The one that most cases lock. */
extern const struct kvd_key key;

/* Waits until it has it. */
kvd_lock_t *lock_key(kvd_session *session);

/* Waits for the ends of processes: each has to be a good one. */
void finish(const pid_t *pid, unsigned count);

/* How often the session lost its connection and had a new one. */
uint64_t reconnects(kvd_session *session);

/* locks_many.c; `size` */
void case_fair(void);      /* tenths of a second */
void case_turns(void);     /* tenths of a second */
void case_exclusion(void); /* tenths of a second */
void case_many(void);      /* locks of each client */

/* locks_holder.c */
void case_killed(void);        /* rounds, 10 to 100 */
void case_stopped(void);       /* kvd's lease, ms */
void case_stopped_plain(void); /* kvd's lease, ms */
void case_idle(void);
void case_restart(void); /* says "held", and waits for a line on standard input */

/* locks_calls.c */
void case_try(void);
void case_depth(void);

#endif
