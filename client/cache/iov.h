/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * iov.h -- where a value stands, or is to go: pieces of the caller's memory.
 *
 * Not thread-safe: an operation's.
 */
#ifndef CLIENT_CACHE_IOV_H
#define CLIENT_CACHE_IOV_H

#include <stdbool.h>
#include <infiniband/verbs.h>

#include "client/cache/buffer.h"
#include "client/kvd.h"
#include "common/hash.h"

struct pieces {
	struct iovec iov[KVD_IOV_MAX]; /* none is empty */
	unsigned count;
	size_t bytes;
	/* Registered, by kvd_buffers or for this operation (then mr is not NULL). */
	bool registered;
	struct ibv_mr *mr[KVD_IOV_MAX];
	struct buffer_keys keys[KVD_IOV_MAX];
};

/* 0 or KVD_EINVAL: too many pieces, or more bytes than a size_t counts. */
int pieces_set(struct pieces *pieces, const struct iovec *iov, int count);

/* Registers what no kvd_buffer has.  0 or an errno value, with nothing registered. */
int pieces_register(struct pieces *pieces, const struct registrar *registrar, int access);
/* The same if kvd_buffers have all of it; false otherwise. */
bool pieces_find(struct pieces *pieces, const struct registrar *registrar);
void pieces_release(struct pieces *pieces, const struct verbs *verbs);

void pieces_gather(const struct pieces *pieces, void *to);
/* The first `bytes` of them, which are no more than there is room for. */
void pieces_scatter(const struct pieces *pieces, const void *from, size_t bytes);

/* Of the first `bytes`, the checksum of the item with this head. */
uint64_t pieces_checksum(const struct pieces *pieces, size_t bytes, const struct layout_item *head,
			 size_t key_bytes, uint64_t version, uint64_t offset);
/* Adds `bytes` of them to a hash, from the byte `from` on; they are there. */
void pieces_add(const struct pieces *pieces, uint64_t from, size_t bytes,
		struct hash_stream *stream);
/* XXH3-64 of all. */
uint64_t pieces_hash(const struct pieces *pieces);

/*
 * Gather elements for `bytes` from the byte `from` on, at most `max` of them;
 * *covered: for how many bytes they are.  Registered.
 */
unsigned pieces_sge(const struct pieces *pieces, uint64_t from, uint32_t bytes, struct ibv_sge *sge,
		    unsigned max, uint32_t *covered);

#endif
