/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Records on their way to the disk and back: the queue, what of it is a batch, and the
 * ports to which they come back.
 *
 * Waiting for company.  Whoever is answered often comes again at once; a batch that is
 * begun without waiting for them makes two groups that wait for each other's syncs, each
 * with half of the clients.  So after a sync the next batch waits for as many as there
 * were, half as long as that sync took at the most, and not at all for a while when they
 * did not come.
 */
#include "server/durable/queue.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "server/durable/impl.h"

#define BATCH_BYTES_MAX (16ull << 20)
#define LINGER_NS_MAX 5000000ull
#define LINGER_REST 16u
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
	if (!__atomic_load_n(&port->done, __ATOMIC_RELAXED))
		return NULL;
	pthread_mutex_lock(&port->lock);
	struct durable_op *all = port->done;
	__atomic_store_n(&port->done, NULL, __ATOMIC_RELAXED);
	port->done_end = &port->done;
	pthread_mutex_unlock(&port->lock);
	return all;
}

static void give_back(struct durable *d, struct durable_op *op)
{
	struct durable_port *port = op->port;

	if (!port) {
		atomic_fetch_sub_explicit(&d->forgotten, 1, memory_order_relaxed);
		free(op);
		return;
	}
	op->next = NULL;
	pthread_mutex_lock(&port->lock);
	bool first = !port->done;
	__atomic_store_n(port->done_end, op, __ATOMIC_RELAXED);
	port->done_end = &op->next;
	pthread_mutex_unlock(&port->lock);
	if (first)
		port->wake(port->arg);
}

void durable_give_back(struct durable *d, struct durable_op *list, enum durable_result result)
{
	struct durable_op *next;
	uint64_t n = 0;

	for (; list; list = next, n++) {
		next = list->next;
		list->result = result;
		give_back(d, list);
	}
	atomic_fetch_sub_explicit(&d->pending, n, memory_order_relaxed);
	if (result == DURABLE_REFUSED)
		atomic_fetch_add_explicit(&d->refused, n, memory_order_relaxed);
	else if (result == DURABLE_UNKNOWN)
		atomic_fetch_add_explicit(&d->unknown, n, memory_order_relaxed);
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

/* ----------------------------------------------------------------------- batch */

static uint64_t bytes_of(const struct durable_op *op)
{
	uint64_t bytes = 0;

	for (unsigned i = 0; i < op->count; i++)
		bytes += op->records[i].key_bytes + op->records[i].value_bytes + 32;
	return bytes;
}

struct durable_op *durable_take_batch(struct durable *d, uint64_t *bytes)
{
	struct durable_op *first = d->queue, **at = &d->queue;

	*bytes = 0;
	while (*at && (*bytes == 0 || *bytes < BATCH_BYTES_MAX)) {
		*bytes += bytes_of(*at);
		at = &(*at)->next;
		d->queued--;
	}
	d->queue = *at;
	if (!d->queue)
		d->queue_end = &d->queue;
	*at = NULL;
	return first;
}

void durable_linger(struct durable *d)
{
	struct timespec until = durable_in_ns(d->linger_ns);
	unsigned before = d->queued;
	int rc = 0;

	if (!d->linger_ns || d->queued >= d->expected || d->stopping)
		return;
	if (d->linger_rest) {
		d->linger_rest--;
		return;
	}
	d->awaited = d->expected;
	while (d->queued < d->expected && !d->stopping && !rc)
		rc = pthread_cond_timedwait(&d->work, &d->lock, &until);
	d->awaited = 0;
	if (d->queued < d->expected && d->queued - before < (d->expected - before) / 2)
		d->linger_rest = LINGER_REST;
}

void durable_plan(struct durable *d, const struct durable_op *list, uint64_t took_ns)
{
	unsigned n = 0;

	for (; list; list = list->next)
		n++;
	pthread_mutex_lock(&d->lock);
	n += d->queued;
	pthread_mutex_unlock(&d->lock);
	d->expected = n - n / 16;
	d->linger_ns = took_ns / 2 < LINGER_NS_MAX ? took_ns / 2 : LINGER_NS_MAX;
}
