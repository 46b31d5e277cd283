/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * replica.h -- a shard's changes on their way to other members, and from them.
 *
 * Happy path of a primary: the store hands in a change that is prepared (store_others); it gets a
 * number; at the end of the worker's poll all new ones leave in one message for each member
 * (replica_flush), and go to the database, if there is one, at once; when all have it, it comes
 * back to the worker's port, and is made visible.  Of a backup: the values are copied, or READ,
 * into items of this table; the record is kept as open; the one before it in its stripe takes
 * effect; then it is acknowledged.
 *
 * A new epoch is an order to all workers (order.h).  A backup asks then what becomes of what it
 * has open (begin.h).  A primary that is deposed takes back what it had prepared, and keeps it
 * as a backup does; a backup that takes over sends what it has open again, as under way.
 *
 * Threads: each worker has a struct replica_worker and connections of its own (a lane), on which
 * its records leave and their acknowledgements come.  What all share is struct records
 * (server/cluster/record), behind one lock, a leaf: it is held for a few steps, never while bytes
 * are copied or the store changes, but where nothing may come in between.  What an acknowledged
 * record proves is applied before the acknowledgement leaves: so of one stripe nothing is applied
 * by two workers at once.
 *
 * Failure: what a member sends that can't be ends its connection.  A backup without memory, and
 * a primary whose disk fails with others there, say so by `unfit`, and acknowledge nothing more.
 *
 * A joiner is copied to while changes go on (copy.h); before that its table is emptied (empty.h).
 * With a database a member's records are on its disk, too (disk.h).
 */
#ifndef SERVER_CLUSTER_REPLICA_REPLICA_H
#define SERVER_CLUSTER_REPLICA_REPLICA_H

#include "server/cluster/replica/options.h"

struct replica;
struct replica_worker;
struct link_peer;

/* 0, or -1 after setting err.  From now on the store's changes wait for the replica. */
int replica_new(const struct replica_options *options, struct replica **replica, struct err *err);
/* Its workers are gone; open records are dropped.  Takes NULL. */
void replica_delete(struct replica **replica);
/* `wake`: any thread; something came back for the worker's thread.  0, or -1 after setting err. */
int replica_worker_new(struct replica *replica, struct store_worker *store,
		       void (*wake)(void *arg), void *arg, struct replica_worker **worker,
		       struct err *err);
/*
 * When all workers are there, before any is started: what the database has as open, is.  Nothing
 * without one.  0, or -1 after setting err.
 */
int replica_restore(struct replica *replica, struct err *err);
/* No change of its is under way, and the database is closed: it wakes workers.  Takes NULL. */
void replica_worker_delete(struct replica_worker **worker);

/* -------------------------------------------------------------------- any thread */
/* All up to this number of the epoch are visible at this primary; 0: none, or it is not one. */
uint64_t replica_visible(struct replica *replica);
/* Whether a primary that does not serve yet has all acknowledged that is under way. */
bool replica_is_settled(struct replica *replica);

/* Number of the eldest record that a member lacks; 0: none.  *bytes: of its values. */
uint64_t replica_lacking(struct replica *replica, uint32_t member, uint64_t *bytes);

/* -------------------------------------------------------------------- the worker */
/* A connection of its lane to the member of that name; false: it has too many. */
bool replica_up(struct replica_worker *worker, struct link_peer *peer);
void replica_down(struct replica_worker *worker, struct link_peer *peer);
/* A message of LINK_RECORDS or LINK_ACKS; false: it is of another kind. */
bool replica_heard(struct replica_worker *worker, struct link_peer *peer, struct link_reader *r);
void replica_read(struct replica_worker *worker, uint64_t cookie, bool is_ok);
/* Whether something is on its way to the disk. */
bool replica_is_writing(const struct replica_worker *worker);
/* Whether changes of a primary wait for memory: replica_flush() tries them again. */
bool replica_has_parked(const struct replica_worker *worker);
/* At the end of each poll: what is new leaves, what came back goes to the port. */
void replica_flush(struct replica_worker *worker);

#endif
