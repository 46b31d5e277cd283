/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * copy.h -- a primary's table on its way to a joiner, while changes go on (doc/cluster.md, 13).
 *
 * Happy path: the joiner is awaited from the order before on.  Changes that began earlier come
 * to an end first.  Then the index is walked, by one worker at a time, in ascending order, as
 * far as one worker's hand holds.  Each worker copies what it has in hand: it marks the key's
 * stripe, and sends the item as a record with the flag LINK_COPY; the mark stays up until the
 * joiner has it.  Long values are READ by the joiner, from the item.  Behind the keys come the
 * stripes of which nothing was sent: each says which change was applied there last, and has no
 * key.
 *
 * What was changed since the copy began was sent as a record, and is not copied: its version
 * says so.
 *
 * Bounds: so many keys a worker and a round, and under way; so many bytes a second of all workers.
 *
 * Failure: a later epoch, or an order that awaits the joiner no more, ends the copy; what is
 * under way comes back then, and its marks go.
 */
#ifndef SERVER_CLUSTER_REPLICA_COPY_H
#define SERVER_CLUSTER_REPLICA_COPY_H

#include <stdbool.h>
#include <stdint.h>

struct replica;
struct replica_order;
struct replica_progress;
struct replica_record;
struct replica_worker;

/* Any thread: whether each key, and each stripe, of the copy of that number is at the joiner. */
bool replica_is_copied(struct replica *replica, uint64_t number);
/*
 * Any thread: whether the joiner has to be given up, as it has a change that nobody else has.  It is not
 * copied to in the end, and sent nothing.
 */
bool replica_is_spoiled(struct replica *replica, uint64_t number);
/* Any thread.  False: none is made. */
bool replica_progress(struct replica *replica, struct replica_progress *progress);
/*
 * The worker.  Behind the changes that ended, before those that wait for their stripes begin: a few
 * more keys are copied, if a copy is made.  What is new leaves with the next replica_flush().
 */
void replica_copy(struct replica_worker *worker, uint64_t now_ns);
/* Whether there is one under way. */
bool replica_copies(const struct replica_worker *worker);

/* -------------------------------------------------------------------- of this folder */
/* The lock is held. */
void replica_begin_copy(struct replica *r, const struct replica_order *o);
void replica_end_copy(struct replica *r);
/* False: the joiner may be of the set already, or others have it, too. */
bool replica_spoil_copy(struct replica *r, uint32_t members);
/* A key's record came back: the joiner has it, or is given up.  The worker, without the lock. */
void replica_copied(struct replica_worker *w, struct replica_record *o);

#endif
