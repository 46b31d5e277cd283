/* SPDX-License-Identifier: BSD-2-Clause */
/* hash.h -- the hashes of keys and the checksums of items (XXH3). */
#ifndef COMMON_HASH_H
#define COMMON_HASH_H

#include <stddef.h>
#include <stdint.h>

#include "common/layout.h"

/*
 * The two hashes of a key: low and high half of XXH3-128 with the seed that kvd chose
 * at its start, so that nobody can make keys beforehand that share a bucket.
 */
struct hash {
	uint64_t a;
	uint64_t b;
};

struct hash hash_key(uint64_t seed, const void *key, size_t key_bytes);

/* XXH3-64 of a value, as a PUT that is pulled carries it. */
uint64_t hash_bytes(const void *data, size_t bytes);

/*
 * The checksum of an item whose lengths, expiry, key and value stand at
 * item->lengths and behind, of `version` and at `offset` of the table.
 */
uint64_t hash_item(const struct layout_item *item, uint64_t item_bytes, uint64_t version,
		   uint64_t offset);

/* The checksum of a primary's words. */
uint64_t hash_lease(const struct layout_lease *lease);

/* The seal of a transaction's entry. */
uint64_t hash_txn(const struct layout_txn *entry);

/* The same where the value stands elsewhere than behind the key. */
uint64_t hash_item_split(const struct layout_item *head, size_t key_bytes, const void *value,
			 size_t value_bytes, uint64_t version, uint64_t offset);

/*
 * The hash of an item without version and place, of a value's hash_bytes(): for
 * hash_item_of().  `head` is of a value of LAYOUT_APART_BYTES_MIN at the least.
 */
uint64_t hash_item_join(const struct layout_item *head, size_t key_bytes, uint64_t value_hash);

/*
 * Either of them, of a value that comes in pieces: begin, add each in order, end
 * with the function that the hash is of.
 */
struct hash_stream {
	_Alignas(64) unsigned char state[640];
};
void hash_bytes_begin(struct hash_stream *stream);
void hash_item_begin(struct hash_stream *stream, const struct layout_item *head,
		     size_t key_bytes);
void hash_add(struct hash_stream *stream, const void *data, size_t bytes);
uint64_t hash_bytes_end(struct hash_stream *stream);
uint64_t hash_item_end(struct hash_stream *stream, uint64_t version, uint64_t offset);
/* The same of a stream that goes on. */
uint64_t hash_item_sum(const struct hash_stream *stream, uint64_t version, uint64_t offset);
/* What hash_item_end() makes of the hash_bytes_end() of an item's stream, or of
 * hash_item_join(). */
uint64_t hash_item_of(uint64_t bytes, uint64_t version, uint64_t offset);

#endif
