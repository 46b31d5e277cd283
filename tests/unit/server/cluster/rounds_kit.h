/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rounds_kit.h -- a shard (server/cluster/shard/shard.h) whose thread calls what the kit makes up.  Each call
 * is noted: a word, with what is told.  "?" is a call with what is not to be.
 */
#ifndef TESTS_UNIT_SERVER_CLUSTER_ROUNDS_KIT_H
#define TESTS_UNIT_SERVER_CLUSTER_ROUNDS_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "server/cluster/shard/impl.h"
#include "server/cluster/shard/shard.h"

#define MS 1000000ull
#define S (1000 * MS)
#define OWN 100u /* incarnation */
#define WORKERS 3u

extern struct ibv_comp_channel channel;
extern struct store store;
extern struct shard_options options;
extern struct shard *s;
extern struct err err;
extern struct addr door_addr;
extern _Atomic uint64_t reign, lease_until_ns, reader_until_ns;
extern _Atomic bool is_held;
extern char calls[4096];
extern const char *fails; /* whose call */
extern _Atomic uint64_t now_ns;
extern struct replica_order ordered;
extern uint64_t ordered_number, shown[3];
extern uint64_t obeyed[4]; /* that crew_obeyed() tells */
extern bool writes, empties, wipes, settled, misses, is_down, joins, is_first, is_ending;
extern enum member_state next_state;
extern struct member_actions todo; /* what a member wants done when it is told something */
extern unsigned port_has, port_is_busy;
extern _Atomic unsigned rounds_done, rounds_wanted;
extern int waited_ms;
extern short ready[4];
extern struct replica_options with_replica;
extern struct link_door_options with_door;
extern struct link_port_options with_port;
extern struct link_port *const port;
extern struct agree *const agree;

/* The calls since the last look at them, each with a space behind it. */
void expect_calls(const char *words);

/* Makes the shard of the options; deletes it. */
int make(void);
void end_it(void);
int set_up(void **state);
int tear_down(void **state);

#endif
