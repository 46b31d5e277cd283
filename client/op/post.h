/* SPDX-License-Identifier: BSD-2-Clause */
/* post.h -- work requests: collected while operations advance, posted with one doorbell. */
#ifndef CLIENT_OP_POST_H
#define CLIENT_OP_POST_H

#include <stdbool.h>
#include <stdint.h>

struct engine;
struct op;

/* Into op->memory; `last` of those that it waits for together. */
void op_read(struct op *op, uint64_t remote, uint32_t rkey, void *to, uint32_t bytes, bool last);
/*
 * From the byte `from` on of an item whose first head_bytes go to op->memory->item
 * and the rest to op->value, which is registered; `bytes` in all, or less if that
 * takes too many gather elements: how many.
 */
uint32_t op_read_item(struct op *op, uint64_t remote, uint32_t rkey, uint64_t from,
		      uint32_t head_bytes, uint32_t bytes);
/* What stands in op->memory->message; `gather`: and op->value, which is registered, behind
 * it. */
void op_send(struct op *op, uint32_t bytes, bool gather);
/* The old value goes to memory->small[0].  Not fenced: locks are taken and released
 * only while no READ or change under them is outstanding, and of an unlock and a
 * lock behind it either may come first. */
void op_cas(struct op *op, uint64_t remote, uint32_t rkey, uint64_t expected, uint64_t desired);

/* A READ of the table that no operation waits for: `index` stands in its wr_id in the place of
 * one.  `to` is of engine->memory_mr. */
void engine_read(struct engine *e, uint32_t index, uint64_t remote, void *to, uint32_t bytes);
/* How many work requests the send queue has room for. */
uint32_t engine_room(const struct engine *e);
/* Posts what was collected.  0, or KVD_E*: the connection is broken. */
int engine_flush(struct engine *e);

#endif
