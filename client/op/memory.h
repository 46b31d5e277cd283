/* SPDX-License-Identifier: BSD-2-Clause */
/* memory.h -- an operation's own memory, registered with its session's connection. */
#ifndef CLIENT_OP_MEMORY_H
#define CLIENT_OP_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "common/layout.h"
#include "common/wire.h"

#define OP_ITEM_BYTES 16384u

struct op_memory {
	uint8_t item[OP_ITEM_BYTES];
	uint8_t message[WIRE_MESSAGE_BYTES_MAX];
	uint64_t bucket[2][LAYOUT_BUCKET_WORDS];
	uint64_t before[2][LAYOUT_BUCKET_WORDS]; /* an earlier sample */
	uint64_t node[LAYOUT_NODE_WORDS];
	uint64_t small[4]; /* directory entries, head of a scratch */
	/* The part of a scratch that is about a transaction. */
	uint64_t scratch[offsetof(struct layout_scratch, item) / sizeof(uint64_t)];
};

#endif
