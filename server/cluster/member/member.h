/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * member.h -- what a member of a shard is and becomes (doc/cluster.md, "A member's states"):
 * events in, actions out, no I/O.
 *
 * Further events are in primary.h, join.h and backup.h.
 *
 * One thread owns it.  Each event is told with the time, taken after the event came and
 * after the actions of the one before were carried out; what it wants done is appended to
 * `actions`, which the caller empties.  Time is of CLOCK_BOOTTIME, whose rate is wrong by an
 * eighth at the most.
 *
 * The way of a fail-over: a backup hears nothing of its primary (tick, gone), is SEALED, has
 * its workers sealed (obeyed), writes a configuration that names it (wrote), is TAKING: it
 * tells the others' beginnings (OPEN, BEGIN, BEGUN), its records are settled and its promise is
 * over: what is open is made visible (obeyed), it is SERVING.  A write whose outcome is unknown is repeated until a later epoch is read.
 */
#ifndef SERVER_CLUSTER_MEMBER_MEMBER_H
#define SERVER_CLUSTER_MEMBER_MEMBER_H

#include "server/cluster/member/state.h"

/* A kvd starts: `life` is drawn anew; an incarnation of 0: its table was empty. */
void member_start(struct member *m, const struct config_member *self, uint64_t life,
		  uint64_t now_ns, struct member_actions *actions);

void member_tick(struct member *m, uint64_t now_ns, uint64_t visible,
		 struct member_actions *actions);
void member_config(struct member *m, uint64_t now_ns, const struct config *c,
		   struct member_actions *actions);
/* A write's outcome: the configuration that it is now; NULL: it lost, or that is not known. */
void member_wrote(struct member *m, uint64_t now_ns, const struct config *c,
		  struct member_actions *actions);
void member_reached(struct member *m, bool is_reached);
void member_heard(struct member *m, uint64_t now_ns, const char *from,
		  const struct member_message *message, struct member_actions *actions);
/*
 * After a configuration: its connections are yet to be made.  For so long nobody is taken for
 * gone who is silent.
 */
void member_expect(struct member *m, uint64_t now_ns);
/* The connection with that one is there: it hears of this one at once. */
void member_connected(struct member *m, const char *name);
/* Nothing was heard of somebody for half as long as takes to take them for gone, or more. */
bool member_misses(const struct member *m, uint64_t now_ns);
/*
 * Its port went down, or came up.  Meanwhile it leaves nobody out and does not take over: those who
 * are not cut off do.  When it is up connections are yet to be made.
 */
void member_cut(struct member *m, bool is_cut, uint64_t now_ns);
/*
 * All that had come by then was told.  Who is silent is judged by that: a thread that comes late
 * takes nobody for gone whose message lies there.
 */
void member_polled(struct member *m, uint64_t polled_ns);
/* One of several connections to that one is broken, or the only one. */
void member_lost(struct member *m, const char *name);
void member_gone(struct member *m, const char *name);
void member_obeyed(struct member *m, uint64_t order, uint64_t now_ns,
		   struct member_actions *actions);
/*
 * Its disk failed, or it lacks a change: another one decides what was under way.  may_heal: a copy
 * makes it whole, so it joins again, after a while that is longer each time.
 */
void member_failed(struct member *m, bool may_heal, uint64_t now_ns,
		   struct member_actions *actions);

#endif
