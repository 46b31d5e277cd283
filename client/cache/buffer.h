/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * buffer.h -- memory that the user registered once, found again by its address.
 *
 * Finding takes no lock, in any thread; changes are made by one thread at a time.
 * (Device memory could come in by another kvd_buffer_new(), which registers a dma-buf
 * under the address that it has in the user's process; what the library then must not
 * do is in buffer.c.)
 */
#ifndef CLIENT_CACHE_BUFFER_H
#define CLIENT_CACHE_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/verbs/verbs.h"

struct buffer_keys {
	uint32_t lkey;
	uint32_t rkey;
};

struct buffers;
/* NULL without memory. */
struct buffers *buffers_new(void);
void buffers_delete(struct buffers *buffers);

/* Whether one buffer has all of this memory, and by which keys. */
bool buffers_find(struct buffers *buffers, const void *addr, size_t bytes,
		  struct buffer_keys *keys);

/* Whether there is any. */
bool buffers_any(const struct buffers *buffers);

/* 0; KVD_ETOOBIG: there are KVD_BUFFERS_MAX; KVD_EINVAL: a part of this memory is in one. */
int buffers_check(struct buffers *buffers, uintptr_t begin, size_t bytes);
/* After that. */
void buffers_add(struct buffers *buffers, uintptr_t begin, size_t bytes,
		 const struct buffer_keys *keys);
/* The one that begins there. */
void buffers_remove(struct buffers *buffers, uintptr_t begin);

/* How memory is registered that no buffer has. */
struct registrar {
	const struct verbs *verbs;
	struct ibv_pd *pd;
	struct buffers *buffers;
};

#endif
