/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mirror.h -- the client's copy of buckets that it has READ before.
 *
 * A direct-mapped cache from a bucket's number to its words, for all sessions of
 * a client.  Any thread, no lock: words are single atomics, and whatever stands in
 * them is only a hint, which the item that it leads to confirms or refutes.
 * unit_mask: layout_unit_mask() of the table.
 */
#ifndef CLIENT_CACHE_MIRROR_H
#define CLIENT_CACHE_MIRROR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mirror;

/* NULL if there is no memory or `bytes` is too small: then there is no mirror. */
struct mirror *mirror_new(size_t bytes);
void mirror_delete(struct mirror *mirror); /* may be NULL, as in all below */

/* Forgets all: the server is another one. */
void mirror_clear(struct mirror *mirror);

void mirror_store(struct mirror *mirror, uint64_t bucket, const uint64_t *words);

/* The overflow node behind this link, which has its generation: a node's memory may
 * serve another bucket later. */
void mirror_store_node(struct mirror *mirror, uint64_t unit_mask, uint64_t link,
		       const uint64_t *words);

/* One word of a bucket.  A bucket that is not there is begun with it, if its place is
 * free: what it lacks is looked for in kvd, as everything that is not found here. */
void mirror_store_word(struct mirror *mirror, uint64_t bucket, unsigned slot, uint64_t word);

/* Buckets that there is room for. */
uint64_t mirror_buckets_max(const struct mirror *mirror);

/* Fetches into the cache what mirror_store_word() will write. */
void mirror_prefetch_word(const struct mirror *mirror, uint64_t bucket, unsigned slot);

/* The first entry with that fingerprint in either bucket, or in the overflow nodes behind
 * them; or 0. */
uint64_t mirror_find(const struct mirror *mirror, const uint64_t bucket[2], uint64_t unit_mask,
		     uint64_t fp);

#endif
