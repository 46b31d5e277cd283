/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * disk.h -- a member's records on its disk (--data-dir): as what their keys are from then on, and
 * with a note of each stripe that says how to take that back (server/cluster/note).
 *
 * A primary's goes there as it goes to the others.  A backup's is acknowledged when it is there;
 * so is what a beginning drops taken back there before it is said that it began.  While a worker
 * has something on the way there it obeys no order that changes what is open: replica_may_obey().
 *
 * Failure: a record that the disk does not take, and others have, makes the member unfit.
 */
#ifndef SERVER_CLUSTER_REPLICA_DISK_H
#define SERVER_CLUSTER_REPLICA_DISK_H

#include "server/cluster/replica/impl.h"

enum write_kind { WRITE_CHANGE, WRITE_TAKEN, WRITE_COPY, WRITE_DROP };

/* A record on its way. */
struct replica_write {
	struct durable_op op; /* first; its result, when it is back */
	enum write_kind kind;
	struct store_worker *store;    /* whose memory is counted */
	uint64_t kept_bytes;           /* of notes and values */
	struct replica_record *record; /* of a change */
	/* What is acknowledged, and to whom. */
	uint64_t epoch, reign, number, incarnation;
	struct record base; /* its stripes */
	uint32_t stripes[LAYOUT_TXN_KEYS_MAX];
	struct durable_note notes[LAYOUT_TXN_KEYS_MAX];
	unsigned note_count;
	char *values[LAYOUT_TXN_KEYS_MAX]; /* of copies and drops, whose items go elsewhere */
	struct durable_record records[LAYOUT_TXN_KEYS_MAX];
};

/* Of a change that is prepared, under its marks; NULL: there is no memory. */
struct replica_write *replica_prepare_change(struct replica_worker *w, struct replica_record *o);
/* It has its number. */
void replica_write_change(struct replica_worker *w, struct replica_record *o);
/* A record, or a copy, was taken: it is on its way from here on.  The lock is held. */
void replica_count_taken(struct replica_worker *w, const struct record *record);
/* Whether one of its stripes is: then it is acknowledged when it is there.  The lock is held. */
bool replica_is_on_its_way(const struct replica *r, const struct record *record);
/* Once those before it took effect. */
void replica_write_taken(struct replica_worker *w, const struct replica_record *in);
/* Of a copy, made before that takes effect; NULL: there is no memory. */
struct replica_write *replica_prepare_copy(struct replica_worker *w, const struct replica_record *in);
void replica_write_copy(struct replica_worker *w, struct replica_write *write);
/* It has no effect: as the table is.  The lock is held.  False: there is no memory, or its stripe stays
 * marked. */
bool replica_write_dropped(struct replica_worker *w, const struct replica_record *in);
void replica_forget_write(struct replica_write *write);

/* The disk gave it back. */
void replica_count_written(struct replica_worker *w, const struct replica_write *write);

#endif
