/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * store.h -- the operations on keys, as workers execute them.
 *
 * Any number of workers at once, each with its own struct store_worker.  None of
 * these functions blocks: where another worker or a lock holder is in the way
 * they return STORE_ASIDE, and the caller tries again later.
 */
#ifndef SERVER_STORE_STORE_H
#define SERVER_STORE_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/wire.h"
#include "server/durable/durable.h"
#include "server/store/evict.h"
#include "server/table/index.h"
#include "server/table/table.h"

struct store_result;
struct store_worker;

/* Beside enum wire_status: */
#define STORE_ASIDE (-1)
#define STORE_COMMIT (-2) /* it waits for the disk: see struct commit */
#define STORE_SILENT (-3) /* a commit's end that needs no answer: it had one before */

/*
 * With a database (durable.h) a change is made in two steps.  store_put, store_remove
 * and txn_run look at everything, prepare what is new, hand in its record and return
 * STORE_COMMIT; the stripe stays marked.  When the record comes back to the worker's
 * port, commit_end makes it visible, or takes it back.  The change's item is the
 * store's from then on.
 */
struct commit {
	struct durable_op op; /* first */
	int (*end)(struct store_worker *worker, struct commit *commit,
		   struct store_result *result);
	void *caller; /* for whoever made the change, to know it again */
};
/* So many may be under way in one worker. */
#define STORE_COMMITS_MAX 4096u

struct compact;
struct compact_worker;

struct store {
	struct table *table;
	struct index *index;
	_Atomic uint64_t version;     /* the last one given out */
	_Atomic uint64_t value_bytes; /* of all live items */
	struct expire *expire;
	struct durable *durable; /* NULL: none */
	uint64_t clock_start_ns;
	struct compact *compact;
	struct evict *evict; /* NULL: not a cache */
	/* Wakes all workers, or NULL; for the owner to set before the first change. */
	void (*wake)(void *arg);
	void *wake_arg;
};

struct store_worker {
	struct store *store;
	unsigned id;
	struct heap *heap;
	struct layout_scratch *scratch;
	struct compact_worker *compact; /* NULL: the worker moves nothing */
	uint64_t missing_bytes; /* of the last item that found no memory */
	/* The stripe whose lock kept a change away; for the caller to set and to look at. */
	uint64_t blocked;
	/* With a database: */
	struct durable_port port;
	struct commit *commit; /* of the last STORE_COMMIT */
	unsigned commits;      /* that have not ended */
};
#define STORE_NOT_BLOCKED (~0ull)

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
	uint64_t expiry_ms;
	uint64_t version; /* of WIRE_IF_VERSION */
	unsigned flags;   /* enum wire_flag */
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
	uint64_t expiry_ms; /* of store_get */
	bool moved; /* the entry is another than before */
};

/* 0, or -1 after setting err. */
int store_new(struct table *table, struct store **store, struct err *err);
void store_delete(struct store **store);

/* 0 or an errno value. */
int store_worker_init(struct store_worker *worker, struct store *store, unsigned id);
void store_worker_fini(struct store_worker *worker);

/* These return an enum wire_status, STORE_ASIDE or STORE_COMMIT. */
int store_put(struct store_worker *worker, const struct store_change *change,
	      struct store_result *result);
int store_remove(struct store_worker *worker, const struct store_change *change,
		 struct store_result *result);

/*
 * A record of the worker's came back.  An enum wire_status as of the change itself;
 * WIRE_EDISK: the disk is full or broken, nothing was changed; WIRE_EUNKNOWN: it may
 * be found after a restart.  STORE_COMMIT: it is handed in once more, to be undone;
 * STORE_SILENT: that is done.  *result as of the change.
 */
int commit_end(struct store_worker *worker, struct commit *commit, struct store_result *result);
/* Hands a commit in; w->commit is it. */
int commit_begin(struct store_worker *worker, struct commit *commit);

/*
 * A change found no memory (WIRE_EMEMORY), or no place in the index (WIRE_ECROWDED): true
 * if it is to be tried again at once; else *status is what is to become of it.  `tries`:
 * how often that was.  Caller: holds nothing.
 */
bool store_make_room(struct store_worker *worker, struct hash hash, unsigned tries, int *status);

/* Removes a key whose memory others need.  WIRE_OK, WIRE_NOT_FOUND or STORE_ASIDE. */
int store_evict(struct store_worker *worker, const struct store_change *key);

/* Removes a key whose time is over; WIRE_NOT_FOUND if that is not so. */
int store_expire(struct store_worker *worker, const struct store_change *key);

/*
 * GET: copies the value to `buf` if it has room; otherwise to a copy of the item
 * that only the caller knows of (*copy, to be given to store_item_delete).
 */
int store_get(struct store_worker *worker, const struct store_change *key, void *buf,
	      size_t buf_bytes, struct store_result *result, struct layout_item **copy);

/* The same without the value. */
int store_head(struct store_worker *worker, const struct store_change *key,
	       struct store_result *result);

/* Memory for an item, or NULL; its key, lengths and expiry are set, its state is dead. */
struct layout_item *store_item_new(struct store_worker *worker, const void *key,
				   unsigned key_bytes, uint64_t value_bytes, uint64_t expiry_ms);
void store_item_delete(struct store_worker *worker, struct layout_item *item);

/*
 * Gives a filled-in item its version and checksum, which store_put would do under locks
 * of buckets that others wait for: do it for long items.  The stripe is marked, so that
 * versions of a key grow in the order of its changes.
 */
void store_item_seal(struct store_worker *worker, struct layout_item *item);
/* The long part of it, ahead of the mark: from a stream that has all of the item. */
void store_item_hash_stream(struct layout_item *item, struct hash_stream *stream);

/* The largest value whose item could ever fit. */
bool store_fits(const struct store *store, uint64_t item_bytes);

/*
 * Moves an item that stands in a slot of slot_bytes, if one does, to another place of the
 * worker's heap that is not in the slab: same version, same value.
 */
enum store_moved {
	STORE_MOVED,
	STORE_MOVED_NOT,     /* no item, or one that is under way or locked */
	STORE_MOVED_NOWHERE, /* there is no place for it */
};
enum store_moved store_move(struct store_worker *worker, struct layout_item *item,
			    size_t slot_bytes, const void *slab, size_t slab_bytes);

/* kvd's clock, from its start; at clock_ns(). */
uint64_t store_clock_ms(const struct store *store);
uint64_t store_clock_ms_at(const struct store *store, uint64_t now_ns);

#endif
