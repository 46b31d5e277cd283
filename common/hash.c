/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/hash.h"

#include <stdbool.h>

#include "common/hash_wide.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

static uint64_t xxh3(const void *data, size_t bytes)
{
	if (bytes >= HASH_WIDE_BYTES_MIN && hash_is_wide())
		return hash_wide(data, bytes);
	return XXH3_64bits(data, bytes);
}

struct hash hash_key(uint64_t seed, const void *key, size_t key_bytes)
{
	XXH128_hash_t h = XXH3_128bits_withSeed(key, key_bytes, seed);
	return (struct hash){ .a = h.low64, .b = h.high64 };
}

uint64_t hash_bytes(const void *data, size_t bytes)
{
	return xxh3(data, bytes);
}

static uint64_t mix(uint64_t x)
{
	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93ull;
	x ^= x >> 29;
	x *= 0x9fb21c651e98df25ull;
	return x ^ x >> 32;
}

/*
 * Version and location are mixed in afterwards rather than as XXH3's seed: a
 * seed makes XXH3 derive a secret for every input over 240 bytes.
 */
static uint64_t seal(uint64_t h, uint64_t version, uint64_t offset)
{
	return mix(h + mix(version + 0x9e3779b97f4a7c15ull) + mix(offset ^ 0xc2b2ae3d27d4eb4full));
}

#define HASHED_FROM offsetof(struct layout_item, lengths)

/* Lengths, expiry and key. */
static size_t head_bytes(size_t key_bytes)
{
	return sizeof(struct layout_item) - HASHED_FROM + key_bytes;
}

static bool is_apart(const struct layout_item *head)
{
	return layout_value_bytes(head->lengths) >= LAYOUT_APART_BYTES_MIN;
}

uint64_t hash_item_join(const struct layout_item *head, size_t key_bytes, uint64_t value_hash)
{
	return mix(xxh3(&head->lengths, head_bytes(key_bytes))) + value_hash;
}

/* `bytes` from lengths on. */
static uint64_t hash_long_item(const struct layout_item *item, uint64_t bytes)
{
	size_t key_bytes = bytes - head_bytes(0) - layout_value_bytes(item->lengths);

	return hash_item_join(item, key_bytes,
			      xxh3(item->data + key_bytes, layout_value_bytes(item->lengths)));
}

uint64_t hash_item(const struct layout_item *item, uint64_t item_bytes, uint64_t version,
		   uint64_t offset)
{
	uint64_t bytes = item_bytes - HASHED_FROM;

	/* The same question as in xxh3(): of a short item no more is asked. */
	if (bytes >= HASH_WIDE_BYTES_MIN && is_apart(item) &&
	    bytes - head_bytes(0) >= layout_value_bytes(item->lengths))
		return seal(hash_long_item(item, bytes), version, offset);
	return seal(xxh3(&item->lengths, bytes), version, offset);
}

struct stream {
	XXH3_state_t xxh3;
	uint64_t head; /* what hash_item_join() adds to that */
};

static_assert(sizeof(struct stream) <= sizeof(struct hash_stream), "hash_stream");

static XXH3_state_t *state_of(struct hash_stream *s)
{
	return &((struct stream *)s->state)->xxh3;
}

static uint64_t digest(const struct hash_stream *s)
{
	const struct stream *of = (const struct stream *)s->state;

	return XXH3_64bits_digest(&of->xxh3) + of->head;
}

void hash_bytes_begin(struct hash_stream *s)
{
	XXH3_64bits_reset(state_of(s));
	((struct stream *)s->state)->head = 0;
}

void hash_item_begin(struct hash_stream *s, const struct layout_item *head, size_t key_bytes)
{
	hash_bytes_begin(s);
	if (is_apart(head))
		((struct stream *)s->state)->head = hash_item_join(head, key_bytes, 0);
	else
		XXH3_64bits_update(state_of(s), &head->lengths, head_bytes(key_bytes));
}

void hash_add(struct hash_stream *s, const void *data, size_t bytes)
{
	if (bytes >= HASH_WIDE_BYTES_MIN && hash_is_wide())
		hash_wide_add(state_of(s), data, bytes);
	else
		XXH3_64bits_update(state_of(s), data, bytes);
}

uint64_t hash_bytes_end(struct hash_stream *s)
{
	return digest(s);
}

uint64_t hash_item_end(struct hash_stream *s, uint64_t version, uint64_t offset)
{
	return seal(digest(s), version, offset);
}

uint64_t hash_item_sum(const struct hash_stream *s, uint64_t version, uint64_t offset)
{
	return seal(digest(s), version, offset);
}

uint64_t hash_item_of(uint64_t bytes, uint64_t version, uint64_t offset)
{
	return seal(bytes, version, offset);
}

uint64_t hash_item_split(const struct layout_item *head, size_t key_bytes, const void *value,
			 size_t value_bytes, uint64_t version, uint64_t offset)
{
	struct hash_stream s;

	hash_item_begin(&s, head, key_bytes);
	hash_add(&s, value, value_bytes);
	return hash_item_end(&s, version, offset);
}

uint64_t hash_lease(const struct layout_lease *lease)
{
	return XXH3_64bits(lease, offsetof(struct layout_lease, checksum)) | 1; /* never 0 */
}

uint64_t hash_txn(const struct layout_txn *entry)
{
	return XXH3_64bits(entry, offsetof(struct layout_txn, seal)) | 1; /* never 0 */
}
