/* SPDX-License-Identifier: BSD-2-Clause */
/* item.h -- items in the table's memory. */
#ifndef SERVER_STORE_ITEM_ITEM_H
#define SERVER_STORE_ITEM_ITEM_H

#include <stdatomic.h>
#include <stdbool.h>

#include "common/dma.h"
#include "common/hash.h"
#include "server/store/item/clock.h"
#include "server/store/item/context.h"
#include "server/store/item/pin.h"

/* The item that a word of the index names. */
static inline struct layout_item *item_at(const struct store *s, uint64_t word)
{
	return (struct layout_item *)(s->table->base +
				      layout_word_offset(word, s->table->unit_mask));
}

/* Its number as words of the index have it. */
static inline uint64_t item_unit(const struct store *s, const struct layout_item *item)
{
	return table_offset(s->table, item) >> layout_unit_shift(s->table->unit_mask);
}

static inline uint64_t item_bytes(const struct layout_item *item)
{
	return layout_item_bytes(layout_key_bytes(item->lengths),
				 layout_value_bytes(item->lengths));
}

/* Release: what was written before is seen by whoever sees the state. */
static inline void state_store(struct layout_item *item, uint64_t state)
{
	dma_store_fence();
	__atomic_store_n(&item->state, state, __ATOMIC_RELEASE);
}

/* Of all of the item, at this version, where it stands. */
static inline uint64_t item_checksum(const struct store *s, const struct layout_item *item,
				     uint64_t version)
{
	return hash_item(item, item_bytes(item), version, table_offset(s->table, item));
}

static inline bool item_is_expired(const struct store *s, const struct layout_item *item)
{
	uint64_t expiry_ms = layout_expiry_ms(item->expiry);

	return expiry_ms && expiry_ms <= store_clock_ms(s);
}

/* Versions never repeat in a table's life (protocols.md, 11). */
static inline uint64_t next_version(struct store *s)
{
	return atomic_fetch_add_explicit(&s->version, 1, memory_order_relaxed) + 1;
}

/* The first of so many that are its alone, and at least one. */
static inline uint64_t next_versions(struct store *s, unsigned count)
{
	return atomic_fetch_add_explicit(&s->version, count ? count : 1, memory_order_relaxed) + 1;
}

static inline struct layout_attributes item_attributes(const struct layout_item *item)
{
	return layout_attributes(item->lengths, item->expiry);
}

/* Key and value stay where they are. */
static inline struct durable_record item_record(const struct layout_item *item)
{
	unsigned key_bytes = layout_key_bytes(item->lengths);

	return (struct durable_record){ .key = item->data, .key_bytes = key_bytes,
					.value = item->data + key_bytes,
					.value_bytes = layout_value_bytes(item->lengths),
					.version = layout_state_version(item->state),
					.with = item_attributes(item) };
}

/* All of its header but state and checksum. */
static inline void item_set_head(struct layout_item *item, unsigned key_bytes,
				 uint64_t value_bytes, const struct layout_attributes *with)
{
	item->lengths = layout_lengths(value_bytes, key_bytes) | layout_flags_high(with->flags);
	item->expiry = layout_expiry(with);
}

/* Memory for an item, or NULL; its key, lengths and attributes are set, its state is dead. */
struct layout_item *store_item_new(struct store_worker *worker, const void *key,
				   unsigned key_bytes, uint64_t value_bytes,
				   const struct layout_attributes *with);
/* What is pinned keeps its memory until it is not. */
void store_item_delete(struct store_worker *worker, struct layout_item *item);
/* Ends a pin; the last one of an item that was deleted frees it. */
void store_item_unpin(struct store_worker *worker, struct pin *pin);

/*
 * Gives a filled-in item its version and checksum, which store_put would do under locks
 * of buckets that others wait for: do it for long items.  The stripe is marked, so that
 * versions of a key grow in the order of its changes.
 */
void store_item_seal(struct store_worker *worker, struct layout_item *item);
/* The long part of it, ahead of the mark: from a stream that has all of the item. */
void store_item_hash_stream(struct layout_item *item, struct hash_stream *stream);
/* The same, from the hash_bytes() of the value. */
void store_item_hash_value(struct layout_item *item, uint64_t value_hash);

#endif
