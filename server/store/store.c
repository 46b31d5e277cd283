/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Changes of keys.
 *
 * Happy path of a change: mark the key's stripe (the workers' mutex on it), lock
 * its buckets, find the old item, look at the lock word, make the change, unlock,
 * unmark, free what was replaced.  The rules are those of protocols.md; the
 * numbers in the comments are its.
 *
 *   insert      new item complete, INSERTING; entry; new state LIVE (the point of
 *               effect)
 *   in place    old item to the scratch; state UPDATING; new bytes; state LIVE
 *               with the new version (the point of effect)
 *   elsewhere   scratch names the old item; new item complete, PREPARED; entry;
 *               old state DEAD (the point of effect); new state LIVE
 *   header      as in place, with the value left alone, so at any length
 *   delete      state DELETED (the point of effect); entry cleared
 *
 * At each step a reader finds either the old value or the new one, also if kvd
 * is stopped there (10, 13).  Freed memory is used again at once: readers with an
 * old location are kept out by versions that never repeat (11) and the checksum.
 */
#include "server/store/change.h"
#include "server/table/index_grow.h"
#include "server/table/heap.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "server/store/compact.h"
#include "server/store/rmw.h"
#include "server/store/expire.h"

/* ------------------------------------------------------------ small things */

uint64_t store_clock_ms_at(const struct store *s, uint64_t now_ns)
{
	/* From 1: an expiry of 0 is none. */
	return (now_ns - s->clock_start_ns) / 1000000 + 1;
}

uint64_t store_clock_ms(const struct store *s)
{
	return store_clock_ms_at(s, clock_ns());
}

int store_new(struct table *table, struct store **store, struct err *err)
{
	struct store *s = calloc(1, sizeof *s);

	if (!s)
		return err_set(err, -1, "out of memory");
	s->table = table;
	s->clock_start_ns = clock_ns();
	int rc = expire_new(&s->expire);
	if (!rc)
		rc = compact_new(&s->compact);
	if (!rc)
		rc = index_new(table, &s->index);
	if (rc) {
		compact_delete(&s->compact);
		expire_delete(&s->expire);
		free(s);
		return err_set_errno(err, -1, rc, "can't make the index");
	}
	*store = s;
	return 0;
}

void store_delete(struct store **store)
{
	if (!*store)
		return;
	index_delete(&(*store)->index);
	expire_delete(&(*store)->expire);
	compact_delete(&(*store)->compact);
	evict_delete(&(*store)->evict);
	free(*store);
	*store = NULL;
}

int store_worker_init(struct store_worker *w, struct store *store, unsigned id)
{
	*w = (struct store_worker){ .store = store, .id = id,
				    .scratch = &store->table->scratch[id] };
	return heap_new(store->table->region, &w->heap);
}

void store_worker_fini(struct store_worker *w)
{
	heap_delete(&w->heap);
}

bool store_fits(const struct store *s, uint64_t item_bytes)
{
	return item_bytes <= s->table->bytes - s->table->heap_offset;
}

uint64_t next_version(struct store *s)
{
	return atomic_fetch_add_explicit(&s->version, 1, memory_order_relaxed) + 1;
}

uint64_t item_bytes(const struct layout_item *item)
{
	return layout_item_bytes(layout_key_bytes(item->lengths),
				 layout_value_bytes(item->lengths));
}

void state_store(struct layout_item *item, uint64_t state)
{
	__atomic_store_n(&item->state, state, __ATOMIC_RELEASE);
}

uint64_t item_checksum(const struct store *s, const struct layout_item *item, uint64_t version)
{
	return hash_item(item, item_bytes(item), version, table_offset(s->table, item));
}

static unsigned key_len_code(const struct store_change *c)
{
	return layout_len_encode(layout_item_bytes(c->key_bytes, c->value_bytes));
}

struct layout_item *store_item_new(struct store_worker *w, const void *key, unsigned key_bytes,
				   uint64_t value_bytes, uint64_t expiry_ms)
{
	struct layout_item *item = heap_alloc(w->heap, layout_item_bytes(key_bytes, value_bytes));

	if (!item) {
		w->missing_bytes = layout_item_bytes(key_bytes, value_bytes);
		return NULL;
	}
	state_store(item, 0);
	item->checksum = 0;
	item->lengths = layout_lengths(value_bytes, key_bytes);
	item->expiry_ms = expiry_ms;
	memcpy(item->data, key, key_bytes);
	return item;
}

void store_item_delete(struct store_worker *w, struct layout_item *item)
{
	uint64_t bytes = item_bytes(item);

	state_store(item, 0);
	heap_free(w->heap, item, bytes);
	compact_note_free(w->store->compact, bytes);
}

/* ------------------------------------------------- stripes and lock words */

struct layout_item *item_at(const struct store *s, uint64_t word)
{
	return (struct layout_item *)(s->table->base + layout_word_offset(word, s->table->unit_mask));
}

uint64_t stripe_word(const struct store *s, uint64_t stripe)
{
	return atomic_load_explicit(&s->table->locks[stripe], memory_order_acquire) &
	       ~LAYOUT_LOCK_WAIT;
}

/*
 * The exchange is the workers' mutex, and a full fence towards lock holders, whose
 * compare-and-swap comes before their READ: one of the two sees the other.
 */
bool stripe_mark(const struct store *s, uint64_t stripe)
{
	return !atomic_exchange_explicit(&s->table->marks[stripe], 1, memory_order_seq_cst);
}

void stripe_unmark(const struct store *s, uint64_t stripe)
{
	/* Release: pairs with the exchange in stripe_mark(). */
	atomic_store_explicit(&s->table->marks[stripe], 0, memory_order_release);
}

/*
 * Free, or held with exactly the change's token (6): a change under a lock that was
 * lost must not take effect, not even if the word is free.
 */
static bool is_permitted(struct store_worker *w, const struct store_change *c)
{
	uint64_t stripe = layout_stripe(c->hash.b, w->store->table->stripes);

	if (stripe_word(w->store, stripe) == c->token)
		return true;
	w->blocked = stripe;
	return false;
}

void work_lock(struct store_worker *w, struct work *k)
{
	const struct layout_item *old = k->old;

	index_lock(w->store->index, k->spot.hash, &k->spot);
	if (old)
		index_find(w->store->index, &k->spot, old->data, layout_key_bytes(old->lengths),
			   &k->entry);
}

void work_leave(struct store_worker *w, struct work *k)
{
	index_unlock(w->store->index, &k->spot);
	stripe_unmark(w->store, k->stripe);
}

/* It looks at the lock word before the mark and after it (3). */
bool work_enter(struct store_worker *w, const struct store_change *c, struct work *k)
{
	struct store *s = w->store;

	if (!is_permitted(w, c) || w->commits >= STORE_COMMITS_MAX)
		return false;
	k->stripe = layout_stripe(c->hash.b, s->table->stripes);
	if (!stripe_mark(s, k->stripe))
		return false;
	index_lock(s->index, c->hash, &k->spot);
	k->old = NULL;
	if (index_find(s->index, &k->spot, c->key, c->key_bytes, &k->entry))
		k->old = item_at(s, k->entry.word);
	/* The mark shows in the item, where a lock holder's one READ sees it (4). */
	if (k->old)
		state_store(k->old, k->old->state | LAYOUT_PENDING);
	atomic_thread_fence(memory_order_seq_cst);
	if (is_permitted(w, c))
		return true;
	if (k->old)
		state_store(k->old, k->old->state & ~LAYOUT_PENDING);
	work_leave(w, k);
	return false;
}

/* Ends a change that did nothing. */
void work_leave_unchanged(struct store_worker *w, struct work *k)
{
	if (k->old)
		state_store(k->old, k->old->state & ~LAYOUT_PENDING);
	work_leave(w, k);
}

bool item_is_expired(const struct store *s, const struct layout_item *item)
{
	return item->expiry_ms && item->expiry_ms <= store_clock_ms(s);
}

/* The old item, if its time is not over. */
static const struct layout_item *unexpired(const struct store *s, const struct work *k)
{
	return k->old && !item_is_expired(s, k->old) ? k->old : NULL;
}

static bool condition_holds(const struct store_change *c, const struct layout_item *old)
{
	if ((c->flags & WIRE_IF_ABSENT) && old)
		return false;
	if ((c->flags & WIRE_IF_PRESENT) && !old)
		return false;
	if (c->flags & WIRE_IF_VERSION)
		return old && layout_state_version(old->state) == c->version;
	return true;
}

void work_tell(const struct store *s, const struct work *k, struct store_result *r)
{
	const struct layout_item *item = item_at(s, k->entry.word);

	r->version = layout_state_version(item->state);
	r->value_bytes = layout_value_bytes(item->lengths);
	r->bucket = k->entry.bucket;
	r->slot = k->entry.slot;
	r->word = k->entry.word;
}

/* ----------------------------------------------------------------- changes */

bool work_fits_in_place(const struct store_change *c, const struct work *k)
{
	uint64_t bytes = layout_item_bytes(c->key_bytes, c->value_bytes);

	return !c->item && bytes <= LAYOUT_INPLACE_BYTES_MAX &&
	       key_len_code(c) == layout_word_len_code(k->entry.word);
}

/* Readers that meet UPDATING take the old item from the scratch. */
static void begin_in_place(struct store_worker *w, struct layout_item *item, uint64_t version,
			   uint64_t copied_bytes)
{
	struct layout_item *copy = (struct layout_item *)w->scratch->item;
	uint64_t old = layout_state_version(item->state);

	w->scratch->new_version = version;
	memcpy(copy, item, copied_bytes);
	copy->state = layout_state(old, LAYOUT_LIVE, 0);
	state_store(item, layout_state(old, LAYOUT_UPDATING, w->id) | LAYOUT_PENDING);
	atomic_thread_fence(memory_order_seq_cst);
}

/* The value of a long item stays readable where it is: only its head is copied. */
static void update_header(struct store_worker *w, const struct store_change *c, struct work *k)
{
	struct layout_item *item = k->old;
	uint64_t bytes = item_bytes(item);

	begin_in_place(w, item, layout_state_version(c->head->state),
		       bytes < LAYOUT_INPLACE_BYTES_MAX ? bytes : LAYOUT_INPLACE_BYTES_MAX);
	item->expiry_ms = c->head->expiry_ms;
	item->checksum = c->head->checksum;
	state_store(item, c->head->state);
}

static void update_in_place(struct store_worker *w, const struct store_change *c, struct work *k)
{
	struct store *s = w->store;
	struct layout_item *item = k->old;
	uint64_t version = next_version(s);

	begin_in_place(w, item, version, item_bytes(item));
	item->lengths = layout_lengths(c->value_bytes, c->key_bytes);
	item->expiry_ms = c->expiry_ms;
	memcpy(item->data + c->key_bytes, c->value, c->value_bytes);
	item->checksum = item_checksum(s, item, version);
	state_store(item, layout_state(version, LAYOUT_LIVE, 0));
	evict_note(s->evict, table_offset(s->table, item));
}

/* The same with an image of the item, sealed for its place. */
static void overwrite(struct store_worker *w, const struct layout_item *image, struct work *k)
{
	struct layout_item *item = k->old;

	begin_in_place(w, item, layout_state_version(image->state), item_bytes(item));
	item->lengths = image->lengths;
	item->expiry_ms = image->expiry_ms;
	memcpy(item->data, image->data, item_bytes(image) - sizeof *image);
	item->checksum = image->checksum;
	state_store(item, image->state);
}

/* Dead, and its checksum is as yet that of all but version and place. */
#define HASHED layout_state(0, LAYOUT_DEAD, 1)

void store_item_seal(struct store_worker *w, struct layout_item *item)
{
	uint64_t version = layout_state_version(item->state);

	if (version)
		return;
	version = next_version(w->store);
	if (item->state == HASHED)
		item->checksum = hash_item_of(item->checksum, version,
					      table_offset(w->store->table, item));
	else
		item->checksum = item_checksum(w->store, item, version);
	state_store(item, layout_state(version, LAYOUT_DEAD, 0));
}

void store_item_hash_stream(struct layout_item *item, struct hash_stream *stream)
{
	item->checksum = hash_bytes_end(stream);
	state_store(item, HASHED);
}

void work_replace(struct store_worker *w, struct work *k, struct layout_item *item,
		  unsigned len_code)
{
	struct store *s = w->store;
	struct layout_item *old = k->old;
	uint64_t old_version = layout_state_version(old->state);

	store_item_seal(w, item);
	uint64_t version = layout_state_version(item->state);

	w->scratch->old_word = k->entry.word;
	w->scratch->old_version = old_version;
	__atomic_store_n(&w->scratch->new_version, version, __ATOMIC_RELEASE);
	state_store(item, layout_state(version, LAYOUT_PREPARED, w->id));
	evict_note_moved(s->evict, table_offset(s->table, old), table_offset(s->table, item));
	index_replace(s->index, &k->entry, table_offset(s->table, item) / LAYOUT_UNIT_BYTES,
		      len_code);
	state_store(old, layout_state(old_version, LAYOUT_DEAD, w->id));
	state_store(item, layout_state(version, LAYOUT_LIVE, 0));
}

static bool insert(struct store_worker *w, struct work *k, struct layout_item *item,
		   unsigned len_code)
{
	struct store *s = w->store;

	store_item_seal(w, item);
	uint64_t version = layout_state_version(item->state);
	/* Absent to those who find it by an old location, until those who go by the index
	 * find it, too (10).  It says so itself: what the scratch says belongs to the next
	 * change a moment later. */
	state_store(item, layout_state(version, LAYOUT_INSERTING, 0));
	evict_note_new(s->evict, table_offset(s->table, item));
	if (!index_insert(s->index, &k->spot, table_offset(s->table, item) / LAYOUT_UNIT_BYTES,
			  len_code, &k->entry)) {
		state_store(item, 0);
		return false;
	}
	state_store(item, layout_state(version, LAYOUT_LIVE, 0));
	return true;
}

/* The change's item: the caller's, or a new one with the value copied in. */
static struct layout_item *change_item(struct store_worker *w, const struct store_change *c)
{
	if (c->item)
		return c->item;
	struct layout_item *item =
		store_item_new(w, c->key, c->key_bytes, c->value_bytes, c->expiry_ms);
	if (item)
		memcpy(item->data + c->key_bytes, c->value, c->value_bytes);
	return item;
}

static int put_elsewhere(struct store_worker *w, const struct store_change *c, struct work *k)
{
	struct layout_item *item = change_item(w, c);

	if (!item)
		return WIRE_EMEMORY;
	if (k->old) {
		work_replace(w, k, item, key_len_code(c));
		evict_note(w->store->evict, table_offset(w->store->table, item));
	} else if (!insert(w, k, item, key_len_code(c))) {
		if (!c->item)
			store_item_delete(w, item);
		w->missing_bytes = LAYOUT_NODE_BYTES;
		return WIRE_EMEMORY;
	}
	return WIRE_OK;
}

/*
 * Makes the change's value from the old one.  That may take long, so the buckets
 * are let go meanwhile: the mark keeps the item, but an expansion may move its
 * entry.
 */
static int complete(struct store_worker *w, struct store_change *c, struct work *k,
		    const struct layout_item *old)
{
	struct store *s = w->store;

	index_unlock(s->index, &k->spot);
	int status = compute_run(w, c, old);
	work_lock(w, k);
	return status;
}

/* *freed: the old item, if another took its place. */
static int apply(struct store_worker *w, const struct store_change *c,
		 const struct layout_item *image, struct work *k, struct layout_item **freed)
{
	int status = WIRE_OK;

	if (image) {
		overwrite(w, image, k);
	} else if (c->head) {
		update_header(w, c, k);
	} else if (k->old && work_fits_in_place(c, k)) {
		update_in_place(w, c, k);
	} else {
		status = put_elsewhere(w, c, k);
		if (status == WIRE_OK)
			*freed = k->old;
	}
	return status;
}

int work_put(struct store_worker *w, const struct store_change *c,
	     const struct layout_item *image, struct work *k, struct store_result *r)
{
	struct store *s = w->store;
	struct layout_item *freed = NULL;
	uint64_t old_bytes = k->old ? layout_value_bytes(k->old->lengths) : 0;
	uint64_t old_expiry = k->old ? k->old->expiry_ms : 0;
	bool inserted = !k->old;
	int status = apply(w, c, image, k, &freed);

	if (status != WIRE_OK)
		return status;
	work_tell(s, k, r);
	r->moved = inserted || freed;
	work_leave(w, k);
	atomic_fetch_add_explicit(&s->value_bytes, c->value_bytes - old_bytes,
				  memory_order_relaxed);
	expire_note(s->expire, old_expiry, c->head ? c->head->expiry_ms : c->expiry_ms);
	if (freed)
		store_item_delete(w, freed);
	if (inserted)
		index_grow(s->index);
	return WIRE_OK;
}

static int put_once(struct store_worker *w, const struct store_change *asked,
		    struct store_result *r)
{
	struct store *s = w->store;
	struct store_change change = *asked, *c = &change;
	struct work k;
	int status = WIRE_OK;

	if (!work_enter(w, c, &k))
		return STORE_ASIDE;
	const struct layout_item *old = unexpired(s, &k);
	*r = (struct store_result){ .bucket = ~0ull };
	if (!condition_holds(c, old)) {
		if (old)
			work_tell(s, &k, r);
		work_leave_unchanged(w, &k);
		return WIRE_CONDITION;
	}
	if (!k.old && !index_has_place(s->index, &k.spot))
		status = WIRE_ECROWDED;
	else if (c->compute)
		status = complete(w, c, &k, old);
	if (status == WIRE_OK)
		status = s->durable ? commit_put(w, c, &k)
				    : work_put(w, c, NULL, &k, r);
	if (status == WIRE_OK || status == STORE_COMMIT)
		return status;
	work_leave_unchanged(w, &k);
	if (c->item && c->item != asked->item)
		store_item_delete(w, c->item);
	return status;
}

int store_put(struct store_worker *w, const struct store_change *c, struct store_result *r)
{
	int status;

	for (unsigned tries = 0;; tries++) {
		status = put_once(w, c, r);
		if ((status != WIRE_EMEMORY && status != WIRE_ECROWDED) ||
		    !store_make_room(w, c->hash, tries, &status))
			return status;
	}
}

/* -------------------------------------------------------------------- room */

#define ROOM_TRIES_MAX 64u
#define ROOM_TRIES_PAGES_MAX 4u /* of an item that may cost many others theirs */

bool store_make_room(struct store_worker *w, struct hash hash, unsigned tries, int *status)
{
	struct store *s = w->store;
	struct index_spot spot;

	if (!s->evict) {
		if (*status == WIRE_EMEMORY && compact_may_help(w))
			*status = STORE_ASIDE;
		return false;
	}
	if (*status == WIRE_ECROWDED) {
		index_lock(s->index, hash, &spot);
		index_unlock(s->index, &spot);
		if (tries < ROOM_TRIES_MAX && evict_from(w, spot.bucket[tries % 2]))
			return true;
		*status = STORE_ASIDE;
		return false;
	}
	/* What was removed is being made room of. */
	uint64_t bytes = w->missing_bytes;
	bool moving = compact_is_busy(s->compact) && compact_may_help(w);
	unsigned max = bytes < HEAP_PAGES_BYTES_MIN ? ROOM_TRIES_MAX : ROOM_TRIES_PAGES_MAX;
	if (!region_may_spare(s->table->region, bytes))
		return false;
	if (!moving && tries < max && evict_make_room(w, bytes))
		return true;
	compact_may_help(w);
	*status = STORE_ASIDE;
	return false;
}

int store_evict(struct store_worker *w, const struct store_change *c)
{
	struct work k;

	if (!work_enter(w, c, &k))
		return STORE_ASIDE;
	if (!k.old) {
		work_leave_unchanged(w, &k);
		return WIRE_NOT_FOUND;
	}
	work_remove(w, &k);
	return WIRE_OK;
}

/* ----------------------------------------------------------------- removal */

void work_remove(struct store_worker *w, struct work *k)
{
	struct store *s = w->store;
	uint64_t expiry_ms = k->old->expiry_ms;

	atomic_fetch_sub_explicit(&s->value_bytes, layout_value_bytes(k->old->lengths),
				  memory_order_relaxed);
	state_store(k->old, layout_state(layout_state_version(k->old->state), LAYOUT_DELETED, 0));
	index_remove(s->index, &k->entry);
	work_leave(w, k);
	expire_note(s->expire, expiry_ms, 0);
	store_item_delete(w, k->old);
}

int store_remove(struct store_worker *w, const struct store_change *c, struct store_result *r)
{
	struct store *s = w->store;
	struct work k;

	if (!work_enter(w, c, &k))
		return STORE_ASIDE;
	const struct layout_item *old = unexpired(s, &k);
	*r = (struct store_result){ .bucket = ~0ull };
	if (old)
		work_tell(s, &k, r);
	if (!old || !condition_holds(c, old)) {
		work_leave_unchanged(w, &k);
		return old ? WIRE_CONDITION : WIRE_NOT_FOUND;
	}
	if (s->durable)
		return commit_remove(w, &k, r);
	work_remove(w, &k);
	return WIRE_OK;
}

int store_expire(struct store_worker *w, const struct store_change *c)
{
	struct work k;

	if (!work_enter(w, c, &k))
		return STORE_ASIDE;
	if (!k.old || !item_is_expired(w->store, k.old)) {
		work_leave_unchanged(w, &k);
		return WIRE_NOT_FOUND;
	}
	if (w->store->durable && !durable_forget(w->store->durable, c->key, c->key_bytes)) {
		work_leave_unchanged(w, &k);
		return STORE_ASIDE;
	}
	work_remove(w, &k);
	return WIRE_OK;
}
