/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * histories.h -- what clients note of each call, in memory that outlives them.
 *
 * A process that is killed leaves what it had begun as an operation of unknown outcome.
 */
#ifndef TESTS_TORTURE_HISTORIES_H
#define TESTS_TORTURE_HISTORIES_H

#include "tests/lib/order.h"
#include "tests/torture/kit.h"

#define CLIENTS_MAX 8
#define KEYS_MAX 4u             /* of an episode */
#define NOTES_MAX 64           /* of a client in an episode */
#define BYTES_MAX (8u << 20)   /* of the values that it notes */
#define VALUE_BYTES_MAX 131072 /* a large one, and all that is appended in an episode */

struct note {
	struct order_op op; /* without values: those are at `from` of the client's bytes */
	uint32_t from[ORDER_PARTS_MAX], bytes[ORDER_PARTS_MAX];
	bool is_nothing;    /* known to have had no effect, or a read that failed */
	bool is_submitted;
};

/* What is seen besides the results of operations. */
enum count {
	COUNT_TXN,       /* committed */
	COUNT_TXN_READS, /* that only read */
	COUNT_TXN_LATE,  /* refused: what it read was changed */
	COUNT_LOCKED,    /* changes under a lock */
	COUNT_ERRORS,    /* calls that failed, with or without effect */
	COUNTS,
};

struct desk {
	volatile unsigned done; /* the last episode that its client is through with */
	volatile unsigned count;
	uint32_t used;
	uint64_t counts[COUNTS];
	struct note notes[NOTES_MAX];
	char bytes[BYTES_MAX];
};

struct board {
	volatile unsigned episode; /* that is on; 0: none yet */
	volatile bool is_over;
	bool restarts;             /* kvd may be killed and started again */
	unsigned keys, ops;        /* of the episode; ops of each client */
	uint64_t seed;
	struct desk desks[CLIENTS_MAX];
};

/* A client process: takes part in each episode until all are over. */
__attribute__((noreturn)) void client_main(struct board *board, unsigned desk, uint32_t number);

/* Totals over all episodes. */
struct totals {
	uint64_t episodes, undecided, ops, overlaps, submitted, unknown, expired, states_most;
	uint64_t results[ORDER_KINDS][ORDER_ANY];
	uint64_t counts[COUNTS];
};

/* Makes a history of what was noted and judges it; false, and the story is told, if it can't be
 * explained. */
bool judge(struct order *order, const struct board *board, unsigned clients, struct totals *totals);

#endif
