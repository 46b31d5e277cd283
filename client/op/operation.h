/* SPDX-License-Identifier: BSD-2-Clause */
/* operation.h -- operations: made, ended, given to who waits. */
#ifndef CLIENT_OP_OPERATION_H
#define CLIENT_OP_OPERATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/kvd.h"
#include "client/op/memory.h"
#include "client/op/outcome.h"
#include "common/err.h"

struct engine;
struct op;

#define OPS_MAX 256u /* a power of two; an operation's place in its request ids */

/*
 * What an operation does when something of it is complete: set by who starts it.
 * It goes on with it, or ends it by op_done().
 */
struct op_class {
	void (*advance)(struct op *op); /* what it waits for has become one less: op->reads */
	void (*reply)(struct op *op, const uint8_t *payload); /* op->out.reply is set */
	bool detached; /* nobody waits for it: its end frees it */
	bool changes;  /* if its connection is lost, nobody knows whether it happened */
};

/* 0, or KVD_E* with *err: it is no key. */
int check_key(struct err *err, const void *key, size_t key_bytes);

/* The engine's operations, whose memory is the first of what is registered; false: without
 * memory. */
bool ops_new(struct engine *e, struct op_memory *memory);
void ops_delete(struct engine *e);
/* Ends every operation of a broken connection, after its queue pair is gone. */
void ops_abort(struct engine *e);
/* How many in flight are detached. */
uint32_t ops_detached(const struct engine *e);
/* The memory of the operation that op_new() would give. */
struct op_memory *ops_next_memory(const struct engine *e);
/* The first of those that are done, if there is one, goes to *completion and is free. */
bool ops_take_done(struct engine *e, struct kvd_completion *completion);

/* Those that are done are on no list: who awaited them frees them. */
void ops_forget_done(struct engine *e);

/* NULL: all are in flight. */
struct op *op_new(struct engine *e, const struct op_class *class, const void *key,
		  size_t key_bytes);
void op_free(struct op *op);
void op_set_tag(struct op *op, void *tag);
/* Its value, or where that is to go; 0, or KVD_EINVAL with a sentence. */
int op_set_value(struct op *op, const struct iovec *iov, int count);
/* It may take so much longer. */
void op_allow_ms(struct op *op, int more_ms);
/* Ends an operation: it goes to the list of completed ones, or is freed if it is detached;
 * when what is posted of it is complete, unless its connection is broken. */
void op_done(struct op *op, int result);
/* An advance() of what ends with it. */
void op_finish(struct op *op);
/* Of one that is done; until the next op_new(). */
const struct outcome *op_outcome(const struct op *op);

#endif
