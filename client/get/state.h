/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * state.h -- a one-sided GET in progress, and what its parts say is next.
 *
 *   fast.c     the shortest way, which makes no operation
 *   get.c      drives: posts the READs that a step wants, asks kvd, ends the operation
 *   parts.c    the READs of values into the caller's memory
 *   lookup.c   where the key's entry is
 *   item.c     the item that the entry names
 *   verify.c   whether what was READ is that item
 *   pending.c  what counts while a change of it is under way
 *
 * The last four are functions of the bytes in `memory`: they know the table, post nothing
 * and wait for nothing but, of a long value, the last step of its checksum.  All of it runs in
 * the session's thread, and that checksum in a second one, too.
 */
#ifndef CLIENT_GET_STATE_H
#define CLIENT_GET_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "client/cache/hasher.h"
#include "client/cache/iov.h"
#include "client/cache/table.h"
#include "client/kvd.h"
#include "client/op/memory.h"
#include "common/hash.h"
#include "common/layout.h"

enum step {
	/* READs of `reads`; beside each what takes the bytes that they bring. */
	READ_DIRECTORY, /* lookup_got_directory */
	READ_MARK,      /* lookup_got_mark: the stripe's */
	READ_BUCKETS,   /* lookup_got_buckets */
	READ_NODE,      /* lookup_got_node: overflow of a bucket */
	READ_LINKS,     /* lookup_got_links: the buckets again, after their chains */
	READ_UPDATING,  /* pending_got_updating: the old item, in a worker's scratch */
	READ_PREPARED,  /* pending_got_prepared: a scratch's head */
	READ_TXN,       /* pending_got_txn: a scratch's transaction */
	/* READs of the item that `word` names. */
	READ_ITEM,    /* item_got */
	READ_PINNED,  /* item_got: the one that kvd pinned for it */
	READ_OLD,     /* pending_got_old: what a prepared one replaces */
	READ_TXN_OLD, /* pending_got_txn_old: what a transaction is to replace */
	/* Where to look next. */
	NEXT_ENTRY, /* lookup_next: that was another key's item */
	START_OVER, /* lookup_restart */
	/* Ends. */
	ASK,     /* kvd */
	DELIVER, /* the item in `memory` */
	ABSENT,
};

static inline bool step_reads_item(enum step step)
{
	return step >= READ_ITEM && step <= READ_TXN_OLD;
}

struct op;

#define READS_MAX 2u
#define TRIED_MAX 8u

/*
 * A long item is READ in parts, several of them in flight.  Each is hashed when it has
 * arrived, while it is in the processor's cache and the next ones come.
 */
#define PART_BYTES (256u << 10)
#define PARTS_MAX 4u /* in flight, of an item */

/* READs to be posted with one doorbell. */
struct reads {
	unsigned count;
	struct {
		uint64_t offset; /* in the table */
		void *to;
		uint32_t bytes;
	} part[READS_MAX];
};

struct get {
	/* Of its operation, for good. */
	const struct remote_table *table;
	struct op_memory *memory;
	const struct pieces *value; /* the caller's memory */
	const uint8_t *key;
	struct kvd_counters *counters;
	struct op *op;
	struct hasher *hasher; /* the client's; NULL: none */

	/* Of this GET. */
	uint32_t key_bytes;
	struct hash hash;
	uint64_t begun_ns;
	uint64_t reign;  /* in which alone what is READ counts: look_counts() */
	bool allocate;   /* memory for the value is to be made */
	bool locked;     /* by the holder of the key's lock */
	bool exists;     /* no value is wanted */
	bool asked_head; /* of kvd: only version and length */
	unsigned lost;   /* items that kvd pinned, and that were gone before they were READ */
	enum step step;  /* the READs that are out, or whose bytes are looked at */
	struct reads reads;

	/* The index. */
	uint64_t bucket[2];
	unsigned epoch[2];
	bool fresh[2];    /* memory->bucket was READ since the call began */
	bool complete[2]; /* and is a consistent sample of the right bucket */
	bool mixed[2];    /* memory->before is a sample in the middle of an expansion */
	unsigned chain;   /* which bucket's chain is being followed: 0, 1 */
	bool chained[2];
	unsigned chain_length;
	uint64_t link;   /* of the node that is being READ */
	bool mark_clear; /* no change was under way since the lock is held */
	bool from_mirror;
	bool index_read;
	unsigned attempts;         /* lookups of the index again */
	uint64_t tried[TRIED_MAX]; /* entries that are other keys' */
	unsigned tried_count;
	struct {
		uint64_t entry;
		uint64_t version;
	} other[TRIED_MAX]; /* the same, of the whole call: items that were seen there */
	unsigned other_count;
	bool doubt;  /* an entry was perhaps the key's when it was READ */
	bool untold; /* among `tried` is one that was not proved to be another key's */

	/* The item. */
	uint64_t word;   /* its entry */
	uint64_t length; /* of its READ */
	uint64_t posted; /* of that */
	uint64_t arrived;
	uint32_t part_bytes[PARTS_MAX]; /* in flight, by their number; of a direct one */
	uint32_t parts_posted, parts_arrived;
	struct get *next_parked; /* long values: parts.h */
	bool summed;     /* `sum` is of what has arrived, with the head that it came with */
	bool direct;     /* its value is READ into `value` */
	unsigned torn;   /* READs of it again */
	uint64_t cut[4]; /* the head of one that is longer than the caller's buffer */

	/* A change of it. */
	uint64_t held_word; /* the new item's entry */
	uint64_t held_version; /* of the new item, the old one, or the one that kvd pinned */
	bool accept_prepared;

	struct value_hash sum; /* last: few GETs use it */
};

static inline uint64_t get_hash(const struct get *g, unsigned i)
{
	return i ? g->hash.b : g->hash.a;
}

/* What of an item comes before the value. */
static inline uint32_t get_head_bytes(const struct get *g)
{
	return (uint32_t)sizeof(struct layout_item) + g->key_bytes;
}

/* The place that an entry or a link names. */
static inline uint64_t get_offset(const struct get *g, uint64_t word)
{
	return layout_word_offset(word, g->table->unit_mask);
}

static inline uint64_t get_fp(const struct get *g)
{
	return layout_fp(g->hash.a, g->table->unit_mask);
}

/* An entry without what its place adds to it. */
static inline uint64_t get_entry(uint64_t word)
{
	return word & ~LAYOUT_EPOCH_MASK;
}

static inline const struct layout_item *get_item(const struct get *g)
{
	return (const struct layout_item *)g->memory->item;
}

/* One READ more with the next doorbell. */
static inline void get_add_read(struct get *g, uint64_t offset, void *to, uint32_t bytes)
{
	g->reads.part[g->reads.count].offset = offset;
	g->reads.part[g->reads.count].to = to;
	g->reads.part[g->reads.count++].bytes = bytes;
}

#endif
