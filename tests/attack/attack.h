/* SPDX-License-Identifier: BSD-2-Clause */
/* attack.h -- the attacks, and what they share.  Each exits with 1 and a sentence if
 * something works that must not.  WHO, VICTIM and the like are files of credentials. */
#ifndef TESTS_ATTACK_ATTACK_H
#define TESTS_ATTACK_ATTACK_H

#include "tests/attack/raw_peer.h"

#define ATTACK_OPCODES 4u
extern const enum ibv_wr_opcode attack_opcodes[ATTACK_OPCODES];

/* How many tries of this process failed, as they must. */
extern unsigned attack_tries;

struct credentials attack_load(const char *path);

/* One request (an index into attack_opcodes) that must fail, without a byte changed here.
 * That none changed there is for the snapshots to say. */
void attack_must_fail(struct raw_conn *c, unsigned op, uint64_t addr, uint32_t rkey,
		      const char *when);

/* The hello made for `c`; it is to be refused, and the rkeys of `known` then, too. */
void attack_must_be_denied(struct raw_conn *c, const struct wire_welcome *known,
			   const char *what);

/* What another process is told as `who`, so that this one holds nothing of it. */
void attack_learn(const char *addr, const struct credentials *who, struct wire_welcome *known);

/* The processes that this one made: 0 if all went well. */
int attack_wait_all(void);

/* rkeys.c: memory that is somebody else's. */
void attack_snapshot(struct raw *raw, const char *who, const char *path);
void attack_matrix(struct raw *raw, const char *victim, const char *reader);
void attack_holdings(const char *addr, const char *victim, const char *reader);
void attack_guess(const char *addr, int argc, char **argv) __attribute__((noreturn));
void attack_revoked(struct raw *raw, const char *victim, const char *other);
void attack_across(struct raw *raw, const char *there, const char *own, const char *victim);
void attack_rails(struct raw *raw, const char *there);
void attack_unlock(struct raw *raw, const char *who, const char *key);

/* hoard.c: long values, and what others notice of them. */
void attack_hoard(const char *addr, char **argv) __attribute__((noreturn));
void attack_swell(const char *addr, char **argv) __attribute__((noreturn));
void attack_pace(struct raw *raw, const char *name, const char *key, const char *path);

/* handshakes.c: recorded ones, borrowed ones, wrong ones. */
void attack_replay(struct raw *raw, const char *victim);

/* pressure.c: too many, too much, too little. */
void attack_crowd(const char *addr, char **argv) __attribute__((noreturn));
void attack_flood(const char *addr, char **argv) __attribute__((noreturn));
void attack_strangers(const char *addr, char **argv) __attribute__((noreturn));
void attack_greedy(struct raw *raw, const char *name, const char *key);
void attack_mute(struct raw *raw, const char *name);

/* saturation.c: more than a worker can do, by peers that keep to their credits. */
void attack_saturate(struct raw *raw, const char *name, const char *end);

/* locks.c: the lock words.  `whose`: "own" or "nobody"; until there is a file of that path. */
void attack_words(struct raw *raw, const char *name, const char *whose, const char *path);
void attack_passers(struct raw *raw, const char *path);

/* readers.c: by who may only read. */
void attack_mutes(struct raw *raw, char **argv);
void attack_listers(struct raw *raw, char **argv);

#endif
