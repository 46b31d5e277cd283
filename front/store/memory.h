/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * memory.h -- memory for values: registered pieces of two sizes, and beyond them the heap,
 * all of it bounded.
 *
 * A value is received from the socket into a block, and sent to kvd from there; or READ into
 * it by the network card, and sent to the socket from there.  A loop has its own.  The bound
 * is of the process.
 */
#ifndef FRONT_STORE_MEMORY_H
#define FRONT_STORE_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/kvd.h"

/* A GET of a value whose length nobody knows yet gets a small piece. */
#define MEMORY_SMALL_BYTES 16384u
#define MEMORY_SMALL_COUNT 256u
#define MEMORY_LARGE_BYTES (1048576u + 16384u)
#define MEMORY_LARGE_COUNT 4u
/* Shorter ones to be sent to kvd are in the message, so that the heap will do. */
#define MEMORY_HEAP_BYTES 4096u

/* What all loops together have from the heap. */
struct memory_budget {
	_Atomic uint64_t used; /* no order with anything else */
	uint64_t max;
};

struct block {
	uint8_t *at; /* NULL: there is none */
	size_t bytes;
	bool heap;
};

/* Those that are free: the last that was given back is the next to be taken, as it is the
 * warmest. */
struct pieces {
	unsigned count;
	uint8_t *free[MEMORY_SMALL_COUNT];
};

struct memory {
	struct memory_budget *budget;
	kvd_buffer *buffer; /* of all pieces; NULL: there are none */
	struct pieces small, large;
	bool asked; /* making it was tried */
};

/* There are no pieces yet. */
void memory_init(struct memory *m, struct memory_budget *budget);
/* Before the client's end; no block is in use. */
void memory_destroy(struct memory *m);
/* Makes the pieces, once there is a session: the first time only.  A sentence if that fails;
 * then the heap will do. */
const char *memory_make(struct memory *m, kvd_client *client);

/* For `bytes`, of which there may be more; false: the bound is reached. */
bool memory_take(struct memory *m, size_t bytes, struct block *block);
/* For a value to be sent. */
bool memory_take_for_sending(struct memory *m, size_t bytes, struct block *block);
/* Takes none, too; then it is none. */
void memory_give_back(struct memory *m, struct block *block);

#endif
