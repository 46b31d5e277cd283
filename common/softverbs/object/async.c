/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * async.c -- contexts and their asynchronous events.
 *
 * Events are a list, and the context's descriptor an eventfd with one count for each.
 * A thread that waits for the next one keeps the context, also behind the back of
 * another that closes it.
 */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
#include "common/softverbs/base/bell.h"
#include "common/softverbs/base/fd.h"
#include "common/softverbs/object/async.h"
#include "common/softverbs/softverbs.h"

/* ---- contexts ---- */

void sv_ctx_get(struct ibv_context *context)
{
	atomic_fetch_add(&sv_ctx_of(context)->users, 1);
}

void sv_ctx_put(struct ibv_context *context)
{
	struct sv_ctx *ctx = sv_ctx_of(context);

	if (atomic_fetch_sub(&ctx->users, 1) > 1)
		return;
	while (ctx->head) {
		struct sv_async *node = ctx->head;

		ctx->head = node->next;
		free(node);
	}
	sv_fd_close(context->async_fd);
	pthread_mutex_destroy(&context->mutex);
	free(ctx);
}

/* ---- events ---- */

static void *event_object(const struct ibv_async_event *event)
{
	/* All members of the union are pointers, but the port's number. */
	return event->element.cq;
}

bool sv_async_is_of_device(enum ibv_event_type type)
{
	return type == IBV_EVENT_DEVICE_FATAL || type == IBV_EVENT_PORT_ACTIVE ||
	       type == IBV_EVENT_PORT_ERR || type == IBV_EVENT_LID_CHANGE ||
	       type == IBV_EVENT_PKEY_CHANGE || type == IBV_EVENT_SM_CHANGE ||
	       type == IBV_EVENT_CLIENT_REREGISTER || type == IBV_EVENT_GID_CHANGE ||
	       type == IBV_EVENT_WQ_FATAL; /* there are no work queues here */
}

void sv_async_raise(struct ibv_context *context, enum ibv_event_type type, void *obj,
		    _Atomic unsigned int *got)
{
	struct sv_ctx *ctx = sv_ctx_of(context);
	struct sv_async *node = calloc(1, sizeof(*node));

	if (!node)
		return; /* UNTESTED: an event is lost when memory is out */
	node->event.event_type = type;
	node->event.element.cq = obj;
	node->got = got;
	sv_spin_lock(&ctx->lock);
	*ctx->tail = node;
	ctx->tail = &node->next;
	sv_spin_unlock(&ctx->lock);
	sv_bell_ring(context->async_fd);
}

void sv_async_raise_device(struct ibv_context *context, enum ibv_event_type type)
{
	sv_async_raise(context, type, (void *)1, NULL); /* port 1: element.port_num */
}

void sv_async_drop(struct ibv_context *context, const void *obj)
{
	struct sv_ctx *ctx = sv_ctx_of(context);
	struct sv_async *dropped = NULL, **at;

	sv_spin_lock(&ctx->lock);
	for (at = &ctx->head; *at;) {
		struct sv_async *node = *at;

		if (event_object(&node->event) == obj) {
			*at = node->next;
			node->next = dropped;
			dropped = node;
		} else {
			at = &node->next;
		}
	}
	ctx->tail = at;
	sv_spin_unlock(&ctx->lock);
	while (dropped) {
		struct sv_async *node = dropped;

		dropped = node->next;
		free(node);
		sv_bell_drop(context->async_fd);
	}
}

static struct sv_async *take_event(struct sv_ctx *ctx)
{
	struct sv_async *node;

	sv_spin_lock(&ctx->lock);
	node = ctx->head;
	if (node) {
		ctx->head = node->next;
		if (!ctx->head)
			ctx->tail = &ctx->head;
		/* Before the event can be dropped no more: destroy waits. */
		if (node->got)
			atomic_fetch_add(node->got, 1);
	}
	sv_spin_unlock(&ctx->lock);
	return node;
}

/* Blocks, or EAGAIN, as the descriptor's flags say; NULL and errno. */
static struct sv_async *wait_event(struct ibv_context *context)
{
	struct sv_async *node;
	uint64_t count;

	do {
		if (read(context->async_fd, &count, sizeof(count)) != sizeof(count))
			return NULL;
		node = take_event(sv_ctx_of(context));
	} while (!node);
	return node;
}

/* Also run when the reader is cancelled. */
static void leave(void *context)
{
	sv_ctx_put(context);
}

int sv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	struct sv_async *node;

	sv_ctx_get(context);
	pthread_cleanup_push(leave, context);
	node = wait_event(context);
	pthread_cleanup_pop(1);
	if (!node)
		return -1;
	*event = node->event;
	free(node);
	return 0;
}

static void ack(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *completed)
{
	pthread_mutex_lock(mutex);
	++*completed;
	pthread_cond_signal(cond);
	pthread_mutex_unlock(mutex);
}

void sv_ack_async_event(struct ibv_async_event *event)
{
	struct ibv_cq *cq = event->element.cq;
	struct ibv_srq *srq = event->element.srq;
	struct ibv_qp *qp = event->element.qp;

	if (sv_async_is_of_device(event->event_type))
		return;
	switch (event->event_type) {
	case IBV_EVENT_CQ_ERR:
		ack(&cq->mutex, &cq->cond, &cq->async_events_completed);
		break;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		ack(&srq->mutex, &srq->cond, &srq->events_completed);
		break;
	default:
		ack(&qp->mutex, &qp->cond, &qp->events_completed);
	}
}
