/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Waiting for company.  Whoever is answered often comes again at once; a batch that is
 * begun without waiting for them makes two groups that wait for each other's syncs, each
 * with half of the clients.  So after a sync the next batch waits for as many as there
 * were, half as long as that sync took at the most, and not at all for a while when they
 * did not come.
 */
#include "server/durable/batch.h"

#include "server/durable/impl.h"
#include "server/durable/queue.h"

#define BATCH_BYTES_MAX (16ull << 20)
#define LINGER_NS_MAX 5000000ull
#define LINGER_REST 16u

static uint64_t bytes_of(const struct durable_op *op)
{
	uint64_t bytes = 0;

	for (unsigned i = 0; i < op->count; i++)
		bytes += op->records[i].key_bytes + op->records[i].value_bytes + 32;
	for (unsigned i = 0; i < op->note_count; i++)
		bytes += op->notes[i].length;
	return bytes;
}

/* A wipe is alone.  So are a member's deletions for time, which look at what was written before. */
static bool are_apart(const struct durable *d, const struct durable_op *a, const struct durable_op *b)
{
	return a->wipe || b->wipe || (d->options.is_members && !a->port != !b->port);
}

struct durable_op *durable_take_batch(struct durable *d, uint64_t *bytes)
{
	struct durable_op *first = d->queue, **at = &d->queue;

	*bytes = 0;
	while (*at && (*bytes == 0 || *bytes < BATCH_BYTES_MAX) &&
	       (*at == first || !are_apart(d, first, *at))) {
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
