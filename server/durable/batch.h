/* SPDX-License-Identifier: BSD-2-Clause */
/* batch.h -- which records are written together.  The commit thread only. */
#ifndef SERVER_DURABLE_BATCH_H
#define SERVER_DURABLE_BATCH_H

#include <stdint.h>

struct durable;
struct durable_op;

/* Of the queue, what fits one batch.  Caller: has the lock. */
struct durable_op *durable_take_batch(struct durable *durable, uint64_t *bytes);
/* Waits for those who were answered last to come again.  Caller: has the lock, and work. */
void durable_linger(struct durable *durable);
/* What to wait for before the next batch.  Called before this one, which took so long, is given
 * back. */
void durable_plan(struct durable *durable, const struct durable_op *list, uint64_t took_ns);

#endif
