/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Records on their way to the disk and back: the queue, and the ports to which they come
 * back.
 */
#include "server/durable/queue.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "server/durable/impl.h"

/* Keys that are gone, of which nobody waits for the record. */
#define FORGOTTEN_MAX 65536u

/* ----------------------------------------------------------------------- ports */

void durable_port_init(struct durable_port *port, void (*wake)(void *arg), void *arg)
{
	*port = (struct durable_port){ .wake = wake, .arg = arg };
	pthread_mutex_init(&port->lock, NULL);
	port->done_end = &port->done;
}

struct durable_op *durable_port_take(struct durable_port *port)
{
	/* A hint; whoever is woken sees it. */
	if (!durable_port_has(port))
		return NULL;
	pthread_mutex_lock(&port->lock);
	struct durable_op *all = port->done;
	__atomic_store_n(&port->done, NULL, __ATOMIC_RELAXED);
	port->done_end = &port->done;
	pthread_mutex_unlock(&port->lock);
	return all;
}

bool durable_port_has(const struct durable_port *port)
{
	return __atomic_load_n(&port->done, __ATOMIC_RELAXED);
}

/* True: it is the first. */
static bool append(struct durable_op *op)
{
	struct durable_port *port = op->port;

	op->next = NULL;
	pthread_mutex_lock(&port->lock);
	bool first = !port->done;
	__atomic_store_n(port->done_end, op, __ATOMIC_RELAXED);
	port->done_end = &op->next;
	pthread_mutex_unlock(&port->lock);
	return first;
}

void durable_port_keep(struct durable_op *op)
{
	append(op);
}

static void give_back(struct durable *d, struct durable_op *op)
{
	struct durable_port *port = op->port;

	if (port) {
		if (append(op))
			port->wake(port->arg);
		return;
	}
	atomic_fetch_sub_explicit(&d->forgotten, 1, memory_order_relaxed);
	free(op);
}

/* Counted first: who asks once it was answered finds none that is not. */
void durable_give_back(struct durable *d, struct durable_op *list, enum durable_result result)
{
	struct durable_op *next;
	uint64_t n = 0;

	for (const struct durable_op *op = list; op; op = op->next)
		n++;
	atomic_fetch_sub_explicit(&d->pending, n, memory_order_relaxed);
	if (result == DURABLE_REFUSED)
		atomic_fetch_add_explicit(&d->refused, n, memory_order_relaxed);
	else if (result == DURABLE_UNKNOWN)
		atomic_fetch_add_explicit(&d->unknown, n, memory_order_relaxed);
	for (; list; list = next) {
		next = list->next;
		list->result = result;
		give_back(d, list);
	}
}

/* ---------------------------------------------------------------------- submit */

void durable_submit(struct durable *d, struct durable_op *op)
{
	op->next = NULL;
	atomic_fetch_add_explicit(&d->pending, 1, memory_order_relaxed);
	pthread_mutex_lock(&d->lock);
	struct durable_op ***end = op->is_undo ? &d->undos_end : &d->queue_end;
	**end = op;
	*end = &op->next;
	d->queued += !op->is_undo;
	if (op->is_undo || d->queued == 1 || d->queued == d->awaited)
		pthread_cond_signal(&d->work);
	pthread_mutex_unlock(&d->lock);
}

struct forgotten {
	struct durable_op op;
	struct durable_record record;
	uint8_t key[];
};

bool durable_forget(struct durable *d, const void *key, unsigned key_bytes)
{
	if (atomic_load_explicit(&d->forgotten, memory_order_relaxed) >= FORGOTTEN_MAX)
		return false;
	struct forgotten *f = malloc(sizeof *f + key_bytes);
	if (!f)
		return false;
	memcpy(f->key, key, key_bytes);
	f->record = (struct durable_record){ .key = f->key, .key_bytes = key_bytes };
	f->op = (struct durable_op){ .records = &f->record, .count = 1 };
	atomic_fetch_add_explicit(&d->forgotten, 1, memory_order_relaxed);
	durable_submit(d, &f->op);
	return true;
}
