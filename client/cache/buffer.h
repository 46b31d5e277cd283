/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * buffer.h -- memory that the user registered once, found again by its address.
 *
 * Any thread; finding takes no lock.  (Device memory could come in by another _new,
 * which registers a dma-buf under the address that it has in the user's process;
 * what the library then must not do is in buffer.c.)
 */
#ifndef CLIENT_CACHE_BUFFER_H
#define CLIENT_CACHE_BUFFER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kvd_client;

struct buffer_keys {
	uint32_t lkey;
	uint32_t rkey;
};

/* Whether one buffer has all of this memory, and by which keys. */
bool buffer_find(struct kvd_client *client, const void *addr, size_t bytes,
		 struct buffer_keys *keys);

/* Whether there is any. */
bool buffer_any(const struct kvd_client *client);

struct buffers;
/* NULL without memory. */
struct buffers *buffers_new(void);
void buffers_delete(struct buffers *buffers);

#endif
