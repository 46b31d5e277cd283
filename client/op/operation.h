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
struct sent;
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
	/* Goes on, or once more, on another connection; NULL: it ends with the one that it had. */
	void (*resume)(struct op *op);
};

/* 0, or KVD_E* with *err: it is no key. */
int check_key(struct err *err, const void *key, size_t key_bytes);

/* The engine's operations, whose memory is the first of what is registered; false: without
 * memory. */
bool ops_new(struct engine *e, struct op_memory *memory);
void ops_delete(struct engine *e);
/* Ends every operation of a broken connection, after its queue pair is gone; not those that are
 * adrift. */
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

/* ------------------------------------------------------------------ adrift */
/*
 * Operations without a connection: theirs was lost before they were answered, or another member
 * of a cluster has to be asked.  They go on when there is a connection again.  Of a change that
 * was sent it has to be known first what became of it (it is "unsettled").
 */

/* The queue pair is gone: who can go on is adrift, others end as by ops_abort(). */
void ops_drift(struct engine *e);
/* The queue pair is gone, and its device is left: nothing that operations use is registered. */
void ops_leave_device(struct engine *e);
/* It was refused, and had no effect: false, unless somebody will take care of it. */
bool op_drift(struct op *op);

struct op *ops_next_unsettled(const struct engine *e);
const struct sent *op_sent(const struct op *op);
uint64_t op_deadline_ns(const struct op *op);
void op_had_no_effect(struct op *op);
void op_end_adrift(struct op *op, int result, uint64_t version, size_t value_bytes,
		   int64_t number);
/* All go on; none is unsettled. */
void ops_send_adrift(struct engine *e);
/* All end: with KVD_EUNKNOWN, if they are unsettled, or that code.  Those whose time is over. */
void ops_end_adrift(struct engine *e, int code);
void ops_end_late(struct engine *e, uint64_t now_ns);

/* It is none of those that nobody took yet: who waits for it takes it. */
void ops_take_out(struct engine *e, const struct op *op);
/* Completed ones that nobody took yet, out of the way of calls that wait. */
struct op *ops_stash_done(struct engine *e);
void ops_restore_done(struct engine *e, struct op *done);

#endif
