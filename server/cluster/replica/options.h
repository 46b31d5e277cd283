/* SPDX-License-Identifier: BSD-2-Clause */
/* options.h -- what a replica is made with, and its limits. */
#ifndef SERVER_CLUSTER_REPLICA_OPTIONS_H
#define SERVER_CLUSTER_REPLICA_OPTIONS_H

#include "common/err.h"
#include "server/cluster/link/message.h"
#include "server/cluster/record/record.h"
#include "server/durable/queue.h"
#include "server/store/item/context.h"

#define REPLICA_WORKERS_MAX 64u
#define REPLICA_PEERS_MAX 9u /* of a worker: the others of a set, and a joiner */
#define REPLICA_INLINE_MAX 8192u
#define REPLICA_INLINE_CROWDED 64u /* where a transaction has no room otherwise */

struct replica_options {
	struct store *store;
	uint64_t incarnation; /* of this table, until it is emptied */
	uint64_t copy_bytes_s; /* a second, of a copy; 0: no limit */
	/* It lacks a change that it can't make, or its disk failed: a sentence.  Any worker. */
	void (*unfit)(void *arg, const char *why);
	/* A change of that reign took effect here: what its client is to be told.  Any worker; or NULL. */
	void (*completed)(void *arg, const struct durable_fate *fate, uint64_t reign);
	void *arg;
};

/* A copy: how far it is. */
struct replica_progress {
	uint64_t keys, bytes; /* that the joiner has, by copy or by a record */
	uint64_t of;          /* keys there were at its beginning */
};

/* One of the others: its place is its bit. */
struct replica_seat {
	char name[LINK_NAME_BYTES]; /* empty: nobody */
	uint64_t incarnation;
};

/*
 * Orders are for all workers.  What all share is done by the first one that obeys; each does
 * its own part.
 */
enum replica_order_kind {
	REPLICA_EPOCH,    /* `epoch`, `reign`, `role`, `members` are awaited, `seats`; the table is
			     `incarnation` */
	REPLICA_SEAL,
	REPLICA_RESOLVE,  /* what the answers to the latest question say; then records are taken */
	REPLICA_BEGUN_BY, /* `members` are sent what they lack */
	REPLICA_SHOW,     /* what all have takes effect */
	REPLICA_HOLD,     /* nothing: that each worker has come to it is what is asked for */
	REPLICA_SEEN,     /* up to `number` of `epoch` is visible at the primary */
	REPLICA_AWAIT,    /* `members` are awaited from now on, `seats`: a joiner more, or none */
	REPLICA_COPY,     /* all keys to `members`, one joiner; `number`: of this copy */
	REPLICA_EMPTY,    /* no record is taken, and nothing is open; then replica_empty() */
};

struct replica_order {
	uint64_t serial; /* replica_number()'s */
	enum replica_order_kind kind;
	uint64_t epoch, reign, number, incarnation;
	enum records_role role;
	uint32_t members;
	struct replica_seat seats[REPLICA_PEERS_MAX];
};

#endif
