/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * buffer.h -- memory that the user registered once, found again by its address.
 *
 * It is registered with each of the client's devices.
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

#define BUFFER_DEVICES_MAX 4u /* of a client, by their numbers */

struct buffers;
/* NULL without memory. */
struct buffers *buffers_new(void);
void buffers_delete(struct buffers *buffers);

/*
 * Whether one buffer has all of this memory, and by which keys, of a device that joined and did
 * not leave.
 */
bool buffers_find(struct buffers *buffers, unsigned device, const void *addr, size_t bytes,
		  struct buffer_keys *keys);

/* Whether there is any. */
bool buffers_any(const struct buffers *buffers);

/* 0; KVD_ETOOBIG: there are KVD_BUFFERS_MAX; KVD_EINVAL: a part of this memory is in one. */
int buffers_check(struct buffers *buffers, uintptr_t begin, size_t bytes);
/* After that.  0, or an errno value: a device does not take it. */
int buffers_add(struct buffers *buffers, const struct verbs *verbs, uintptr_t begin, size_t bytes);
/* The one that begins there. */
void buffers_remove(struct buffers *buffers, const struct verbs *verbs, uintptr_t begin);

/* A device is used from now on, and gets all that there are.  0, or an errno value: it does not
 * take one of them, and has none. */
int buffers_join(struct buffers *buffers, const struct verbs *verbs, unsigned device,
		 struct ibv_pd *pd);
/* It is used no more. */
void buffers_leave(struct buffers *buffers, const struct verbs *verbs, unsigned device);

/* How memory is registered that no buffer has. */
struct registrar {
	const struct verbs *verbs;
	struct ibv_pd *pd;
	unsigned device; /* its number in `buffers` */
	struct buffers *buffers;
};

#endif
