/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * async.h -- contexts: who uses them, and their asynchronous events.
 *
 * Any thread.  Nothing here blocks but the reader of events (softverbs.h).
 */
#ifndef COMMON_SOFTVERBS_OBJECT_ASYNC_H
#define COMMON_SOFTVERBS_OBJECT_ASYNC_H

#include <stdbool.h>
#include <infiniband/verbs.h>
#include "common/softverbs/base/compiler.h"
#include "common/softverbs/base/lock.h"

struct sv_async {
	struct ibv_async_event event;
	_Atomic unsigned int *got;
	struct sv_async *next;
};

struct sv_ctx {
	struct sv_spin lock;
	struct sv_async *head, **tail;
	_Atomic unsigned int users; /* its owner, PDs, CQs, channels, readers of events */
	struct verbs_context vctx;
};

static inline struct sv_ctx *sv_ctx_of(struct ibv_context *context)
{
	return SV_CONTAINER(context, struct sv_ctx, vctx.context);
}

void sv_ctx_get(struct ibv_context *context);
/* The last one frees it, and events that nobody took. */
void sv_ctx_put(struct ibv_context *context);

/* Queues an asynchronous event for the QP, CQ or SRQ obj.  got: the object's counter of
 * events that were taken, for which its destruction waits. */
void sv_async_raise(struct ibv_context *context, enum ibv_event_type type, void *obj,
		    _Atomic unsigned int *got);
/* The same of the device, or its port. */
void sv_async_raise_device(struct ibv_context *context, enum ibv_event_type type);
/* Whether such an event is of no object that somebody could destroy. */
bool sv_async_is_of_device(enum ibv_event_type type);
/* Before destruction of obj: drops its events that nobody took. */
void sv_async_drop(struct ibv_context *context, const void *obj);

#endif
