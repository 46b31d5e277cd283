/* SPDX-License-Identifier: BSD-2-Clause */
/* impl.h -- a replica and its workers, for the files of this folder. */
#ifndef SERVER_CLUSTER_REPLICA_IMPL_H
#define SERVER_CLUSTER_REPLICA_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "server/cluster/link/peer.h"
#include "server/cluster/record/records.h"
#include "server/cluster/replica/options.h"
#include "server/store/item/item.h"
#include "server/store/store.h"

/* More than a primary's worker has under way. */
#define REPLICA_FREE_NS 100000000ull /* a stripe of a backup is, within that */
#define ACKS_MAX (2 * STORE_COMMITS_MAX)

struct replica_item {
	struct replica_record *record;
	struct layout_item *item; /* NULL: the key is removed */
	const uint8_t *key;       /* then */
	uint16_t key_bytes;
	bool is_to_be_read;       /* from `place` */
	uint64_t version;
	struct link_place place;
};

/*
 * A change of one key, or a transaction.  A primary's is the store's, prepared under marks
 * (`op`).  A backup's is items, complete but for being found, which nothing marks.  A primary
 * that took over has what it had as a backup under way, too: that is listed.
 */
struct replica_record {
	struct record base; /* first */
	struct replica_worker *worker;

	/* Out: in its worker's list, in the order in which they came. */
	bool is_listed;
	struct replica_record *next, *prev, *finished;
	uint64_t number;       /* base.number, for its worker without the lock */
	uint32_t to;           /* members, as it was handed in */
	struct durable_op *op; /* NULL: items */
	struct replica_write *write; /* on its way to the disk (disk.h); NULL: not now */
	bool is_over;          /* and when that comes back it ends */
	bool is_applied;       /* it took effect; otherwise it was dropped */
	uint64_t copy;         /* base.is_copy: the number of that copy; copy.h has more of it */

	/* In. */
	struct replica_record *waiting;
	struct replica_peer *from; /* while values are READ; NULL: its connection ended */
	uint64_t epoch, incarnation; /* that it was sent to */
	uint64_t sender;             /* an incarnation */
	unsigned reads, count;
	bool is_torn; /* a READ failed */
	struct durable_fate fate; /* of items: of the change that they are */

	uint32_t stripes[LAYOUT_TXN_KEYS_MAX]; /* the first that is not zero in a new one */
	struct replica_item items[];
};

struct replica_peer {
	struct replica_worker *worker;
	struct link_peer *link; /* NULL: this place is free */
	uint32_t member;        /* 0: none of the present seats */
	uint64_t incarnation;
	/* Out. */
	bool is_begun;                 /* it takes records of this epoch */
	struct replica_record *cursor; /* the first that was not sent; NULL: all were */
	/* In. */
	uint64_t *acks;
	unsigned ack_count;
	uint64_t ack_epoch;
	struct replica_record *reading, **reading_end; /* whose READs are not all posted */
	struct replica_parked *parked, **parked_end;   /* without memory (parked.h) */
};

/* What a backup has open, as it asked last, and what was answered. */
struct replica_question {
	uint64_t number; /* 0: none */
	struct link_entry *entries;
	unsigned count, answered;
};

/* The table on its way to a joiner (copy.h). */
struct replica_copy {
	uint64_t number; /* 0: none is made */
	uint32_t joiner; /* its bit */
	uint64_t before;  /* changes up to that number are awaited first */
	uint64_t version; /* what has a higher one was sent as a record */
	/* Where the walk is: its next bucket and place, then the next stripe. */
	uint64_t bucket;
	unsigned skip, epoch;
	uint32_t stripe;
	bool is_walked;
	bool is_told;    /* that it is made: the joiner may be named any moment */
	bool is_spoiled; /* the joiner has a change that the primary's disk refused */
	unsigned pending; /* in workers' hands, or under way */
	uint8_t *has;     /* stripes of which something was sent, bits */
	struct replica_progress progress;
};

/* What one worker is to copy, of a part of the walk. */
#define HAND_BYTES 8192u
struct replica_hand {
	uint64_t copy, version;
	size_t bytes;
	unsigned left;  /* that are not begun */
	unsigned under_way;
	uint64_t under_way_bytes;
	uint8_t entries[HAND_BYTES] __attribute__((aligned(8)));
};

struct replica {
	struct replica_options options;
	struct replica_worker *workers[REPLICA_WORKERS_MAX];
	unsigned worker_count;

	pthread_mutex_t lock; /* a leaf: all below */
	struct records records;
	struct record_slot *slots;
	struct replica_worker *inside; /* whose call it is */
	uint64_t orders, obeyed;       /* numbers given out; the latest that was begun */
	struct replica_seat seats[REPLICA_PEERS_MAX]; /* of the latest order that changed them */
	struct replica_question question;
	struct replica_copy copy;
	uint64_t incarnation;          /* of this table */
	uint8_t *on_its_way;           /* to the disk: stripes, bits (disk.h) */
	/* Without the lock. */
	_Atomic bool is_unfit;
	_Atomic(struct replica_worker *) starving; /* the next memory is its; NULL: nobody's */
	_Atomic unsigned writes;       /* on their way to the disk, of all workers */
	_Atomic uint64_t spoiled;      /* incarnation of a joiner that is sent nothing any more; 0: none */
	_Atomic bool is_copying;       /* a hint */
	_Atomic uint64_t copy_due_ns;  /* nothing of a copy leaves before */
	atomic_flag is_walking;        /* one worker walks, so that no key moves behind the walk */
};

/* Records in their order, of which there may be one for each stripe. */
struct replica_due {
	struct record *first, **end; /* end: of one that is not empty */
};

struct replica_worker {
	struct replica *replica;
	struct store_worker *store;
	struct store_others others;
	void (*wake)(void *arg);
	void *wake_arg;
	struct durable_port disk; /* what the database gives back */
	unsigned writes;          /* on their way there */
	struct replica_peer peers[REPLICA_PEERS_MAX];
	struct replica_record *first, *last; /* under way, and finished ones not yet taken back */
	unsigned parked; /* of all its peers */
	struct replica_hand hand;
	uint64_t emptying; /* the next bucket */
	/* Of the epoch that this worker knows. */
	uint64_t epoch, reign, incarnation;
	enum records_role role;
	uint32_t begun;
	struct replica_seat seats[REPLICA_PEERS_MAX];

	/* The replica's lock. */
	struct replica_record *finished, **finished_end;
	struct replica_due applied; /* by a call of this worker: to be done without the lock */
	struct replica_due dropped;
};

static inline void replica_enter(struct replica *r, struct replica_worker *w)
{
	pthread_mutex_lock(&r->lock);
	r->inside = w;
}

static inline void replica_leave(struct replica *r)
{
	r->inside = NULL;
	pthread_mutex_unlock(&r->lock);
}

static inline struct durable_record replica_record_of(const struct replica_item *i)
{
	if (i->item)
		return item_record(i->item);
	return (struct durable_record){ .key = i->key, .key_bytes = i->key_bytes };
}

/* Any thread, without the lock: it lacks a change. */
static inline void replica_unfit(struct replica *r, const char *why)
{
	r->is_unfit = true;
	r->options.unfit(r->options.arg, why);
}

#endif
