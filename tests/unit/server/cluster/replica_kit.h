/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * replica_kit.h -- two members with a table each, in one thread: anna, who is primary at first,
 * and bert, her backup.
 */
#ifndef TESTS_UNIT_SERVER_CLUSTER_REPLICA_KIT_H
#define TESTS_UNIT_SERVER_CLUSTER_REPLICA_KIT_H

#include "common/clock.h"
#include "server/cluster/replica/order.h"
#include "server/cluster/replica/replica.h"
#include "tests/lib/fixture.h"
#include "tests/unit/server/cluster/link_kit.h"

#define KEYS 500u
#define LONG_BYTES 100000u
#define UNDER_WAY 64u
#define PRIMARY 0xa1ull
#define BACKUP 0xb2ull
#define KIT_QUESTION 77u
#define MEMBER 1u /* the other one's bit at each */

struct kit_member {
	struct side side;
	struct fixture f;
	struct replica *replica;
	struct replica_worker *worker;
	struct ibv_mr *mr;
	struct replica_seat other;
	uint64_t incarnation;
	unsigned heard, reads;
	unsigned under_way, done, unknown;
	unsigned elsewhere, no_disk; /* refused: for another member, for its own disk */
	uint64_t epoch;
	unsigned completed;
	struct durable_fate fate; /* the latest that it was told */
	char unfit[256];
};

extern struct kit_member a, b;

/* In the first epoch both are ready. */
int kit_setup(void **state);
int kit_teardown(void **state);
void kit_connect_them(void);
/* What replica_order has, to that one. */
void kit_epoch(struct kit_member *m, uint64_t epoch, uint64_t reign, enum records_role role,
	       uint32_t members);
void kit_order(struct kit_member *m, enum replica_order_kind kind, uint64_t number, uint32_t members);

/* What a worker does beside its polls. */
void kit_step(struct kit_member *m);
/* One poll of each, as a worker does it. */
void kit_turn(void);
void kit_turns(unsigned n);
/* Turns until it is so; within KIT_LIMIT_NS. */
#define KIT_UNTIL(is_so)                                                          \
	do {                                                                      \
		uint64_t kit_end_ns = clock_ns() + KIT_LIMIT_NS;                  \
		while (!(is_so)) {                                                \
			kit_turn();                                               \
			if (clock_ns() > kit_end_ns)                              \
				fail_msg("it is never so: %s", #is_so);           \
		}                                                                 \
	} while (0)
/* Until no change is under way. */
void kit_finish(void);

struct store_change kit_change_of(struct kit_member *m, const char *key);
/* Until nobody is in its way; at the member that is primary. */
void kit_put(struct kit_member *m, const char *key, const void *value, size_t bytes);
void kit_remove(struct kit_member *m, const char *key);
/* One or the other, of a key and a value that are drawn. */
void kit_change_something(struct kit_member *m, uint64_t *seed);
/* NULL: the key is not there. */
void kit_has_value(struct kit_member *m, const char *key, const char *value);
void kit_expect_same(const char *key);
/* The primary says that all is visible; then both tables are the same. */
void kit_expect_all_same(struct kit_member *primary, struct kit_member *backup);

/* -------------------------------------------------------------------- reigns */
extern uint8_t kit_memory[2][LINK_BYTES_MAX]; /* for two messages */
struct link_reader kit_opened(const struct link_writer *message);
/* OPEN, BEGIN, and its effect: BEGUN.  How many messages it took. */
unsigned kit_begin_with(struct kit_member *backup, struct kit_member *primary);
/* What its workers are told and do as it takes over from the other one, up to BEGUN. */
void kit_take_over(struct kit_member *primary, struct kit_member *backup, uint64_t epoch);
/* Until all has that is under way. */
void kit_settle(struct kit_member *primary);
/* Its records arrive there, and no acknowledgement comes back. */
void kit_send_to(struct kit_member *from, struct kit_member *to);

#endif
