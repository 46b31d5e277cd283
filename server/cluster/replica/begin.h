/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * begin.h -- the beginning of an epoch: what becomes of what a member has open
 * (doc/cluster.md, 6).
 *
 * OPEN says what it is, in as many messages as it needs, one after the other: the next one is
 * sent when the one before was answered.  BEGIN answers each.  When all are answered the
 * workers are told to do so (REPLICA_RESOLVE).
 *
 * The cluster's thread.
 */
#ifndef SERVER_CLUSTER_REPLICA_BEGIN_H
#define SERVER_CLUSTER_REPLICA_BEGIN_H

#include <stdbool.h>
#include <stdint.h>

struct link_reader;
struct link_writer;
struct replica;

/* A member's: what is open now is what that question is of.  False: there is no memory. */
bool replica_ask(struct replica *replica, uint64_t number);
/* The next part of it, into an OPEN. */
void replica_put_question(struct replica *replica, struct link_writer *open);

enum replica_answered {
	REPLICA_ANSWERED_NOT,   /* it answers another question */
	REPLICA_ANSWERED_PART,  /* the next one is to be asked */
	REPLICA_ANSWERED_WHOLE, /* it may be resolved */
};
enum replica_answered replica_answered(struct replica *replica, struct link_reader *begin);

/* A primary's: `begin` has what it says of each.  False: what was asked can't be. */
bool replica_answer(struct replica *replica, struct link_reader *open, struct link_writer *begin);

#endif
