/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/hash.h"

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

uint64_t hash_item(const struct layout_item *item, uint64_t item_bytes, uint64_t version,
		   uint64_t offset)
{
	return seal(xxh3(&item->lengths, item_bytes - HASHED_FROM), version, offset);
}

static_assert(sizeof(XXH3_state_t) <= sizeof(struct hash_stream), "hash_stream");

static XXH3_state_t *state_of(struct hash_stream *s)
{
	return (XXH3_state_t *)s->state;
}

void hash_bytes_begin(struct hash_stream *s)
{
	XXH3_64bits_reset(state_of(s));
}

void hash_item_begin(struct hash_stream *s, const struct layout_item *head, size_t key_bytes)
{
	XXH3_64bits_reset(state_of(s));
	XXH3_64bits_update(state_of(s), &head->lengths,
			   sizeof(struct layout_item) - HASHED_FROM + key_bytes);
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
	return XXH3_64bits_digest(state_of(s));
}

uint64_t hash_item_end(struct hash_stream *s, uint64_t version, uint64_t offset)
{
	return seal(XXH3_64bits_digest(state_of(s)), version, offset);
}

uint64_t hash_item_sum(const struct hash_stream *s, uint64_t version, uint64_t offset)
{
	return seal(XXH3_64bits_digest((const XXH3_state_t *)s->state), version, offset);
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
