/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stopped_kit.h -- a table that a traced child changes one instruction at a time, and what
 * it and its parent know of it.  One at a time: begin, start, go on until the child has
 * ended, end.
 */
#ifndef TESTS_UNIT_SERVER_STOPPED_KIT_H
#define TESTS_UNIT_SERVER_STOPPED_KIT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "tests/lib/fixture.h"

#define KEYS 3u
#define VALUES_MAX 4096u

/* A key's values one after the other, 0 for absent; done <= started <= done + 1. */
struct timeline {
	uint64_t value[VALUES_MAX];
	unsigned done;
	unsigned started;
	unsigned seen; /* the latest that a completed GET had */
};

struct shared {
	struct timeline key[KEYS];
	unsigned busy; /* the key that is being changed, or one of them */
	unsigned keys; /* all of them, a bit each: they change at the same instant */
	volatile bool through;
	volatile bool enough; /* the readers saw what they were to see */
	volatile bool end;
};

extern struct fixture stopped_store;
extern struct shared *stopped_shared;

/* A new table of two workers, and what both know, zeroed. */
void stopped_begin(uint64_t seed);
void stopped_end(void);

/* Runs `work` in a traced child; it is stopped when this returns.  Ends the program as
 * skipped where tracing is not permitted. */
pid_t stopped_start(void (*work)(unsigned n), unsigned n);
/* One instruction, or up to where it stops itself; false: it has ended, and well. */
bool stopped_go_on(pid_t child, bool one_step);

/* Of KVD_TEST_SCALE per cent; at least 1. */
unsigned stopped_scaled(unsigned n);
uint64_t stopped_roll(uint64_t n);
size_t stopped_key(unsigned i, char *key);

/* Fails the test if what it is about did not happen often enough. */
void stopped_must_reach(const char *what, uint64_t n, uint64_t least);

#endif
