/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * change.h -- a change of one key: what is asked, what it did, how it begins and ends.
 *
 * None of these functions blocks.  Where another worker or a lock holder is in the way, the
 * change is STORE_ASIDE, and the caller tries again later.
 */
#ifndef SERVER_STORE_CHANGE_CHANGE_H
#define SERVER_STORE_CHANGE_CHANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/hash.h"
#include "common/wire.h"
#include "server/store/item/context.h"
#include "server/store/item/item.h"
#include "server/table/index_entry.h"

/* What operations return beside an enum wire_status. */
#define STORE_ASIDE (-1)
#define STORE_COMMIT (-2) /* it waits for the disk: see commit.h */
#define STORE_LONG (-4)   /* a long value is to be computed: see rewrite.h */
#define STORE_SILENT (-3) /* a commit's end that needs no answer: it had one before */

/* So many commits may be under way in one worker. */
#define STORE_COMMITS_MAX 4096u
/* Nor does one begin while those under way keep so much beside the table: images, old values. */
#define STORE_COMMIT_BYTES_MAX (16ull << 20)

struct compute;

/* A change, as it came in. */
struct store_change {
	struct hash hash;
	const void *key;
	unsigned key_bytes;
	const void *value; /* NULL: `item` has it */
	uint64_t value_bytes;
	/* Memory for the new item that the caller allocated (store_item_new) and
	 * filled in; taken over by a store_put that returns WIRE_OK. */
	struct layout_item *item;
	uint64_t token;
	struct layout_attributes with; /* of what is stored */
	uint64_t version; /* of WIRE_IF_VERSION */
	unsigned flags;   /* enum wire_flag */
	bool is_decided;  /* by the primary of this member's cluster: no lock keeps it away */
	/* NULL, or what makes the value from the old one; it may set `head`: only
	 * the old item's header is to change, to this one. */
	struct compute *compute;
	const struct layout_item *head;
};

/* What it did. */
struct store_result {
	uint64_t version;
	uint64_t value_bytes;
	uint64_t bucket;
	unsigned slot;
	uint64_t word;
	struct layout_attributes with; /* of store_get, store_head */
	bool moved; /* the entry is another than before */
};

/* Of the entry of its item. */
static inline unsigned change_len_code(const struct store_change *c)
{
	return layout_len_encode(layout_item_bytes(c->key_bytes, c->value_bytes));
}

/* A change under way: the stripe is marked and the buckets are locked. */
struct work {
	uint64_t stripe;
	struct index_spot spot;
	struct index_entry entry;
	struct layout_item *old; /* NULL: there is no such key */
	bool is_promised;        /* a place in the index */
};

/* Whether no other commit may begin; what others decided is none. */
static inline bool commits_are_full(const struct store_worker *w)
{
	return w->commits >= STORE_COMMITS_MAX || w->commit_bytes >= STORE_COMMIT_BYTES_MAX;
}

/*
 * Begins a change: marks the stripe, locks the buckets, finds the old item.  False:
 * another worker or a lock holder is in the way, and nothing is held.
 */
bool work_enter(struct store_worker *worker, const struct store_change *change,
		struct work *work);
/* Locks the buckets again; the mark kept the item, but its entry may have moved. */
void work_lock(struct store_worker *worker, struct work *work);
/* Ends a change that was made. */
void work_leave(struct store_worker *worker, struct work *work);
/* Ends a change that did nothing. */
void work_leave_unchanged(struct store_worker *worker, struct work *work);

/* The old item, if its time is not over; or NULL. */
static inline const struct layout_item *work_unexpired(const struct store *s, const struct work *k)
{
	return k->old && !item_is_expired(s, k->old) ? k->old : NULL;
}

/* Whether it replaces a later version than it knows of, so that it is stale. */
static inline bool change_is_late(const struct store_change *c, const struct layout_item *old)
{
	return (c->flags & WIRE_OR_STALE) && old && layout_state_version(old->state) > c->version;
}

/* Whether the change's conditions hold; old: as of work_unexpired(). */
bool change_holds(const struct store_change *change, const struct layout_item *old);
/* What the entry names now. */
void work_tell(const struct store *store, const struct work *work, struct store_result *result);

#endif
