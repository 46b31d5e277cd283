/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * context.h -- the store, and a worker's part of it.
 *
 * Any number of workers at once, each with its own struct store_worker.
 */
#ifndef SERVER_STORE_ITEM_CONTEXT_H
#define SERVER_STORE_ITEM_CONTEXT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "server/durable/queue.h"
#include "server/platform/stall.h"
#include "server/table/table.h"

struct clear;
struct commit;
struct compact;
struct compact_worker;
struct evict;
struct expire;
struct expiry;
struct heap;
struct heat;
struct index;
struct pins;

/* Other members of a cluster, who have a change before it is seen. */
struct store_others {
	/* Given back to op->port when all have it; as durable_submit(). */
	void (*submit)(void *arg, struct durable_op *op);
	void *arg;
};

struct store {
	struct table *table;
	struct index *index;
	_Atomic uint64_t version;     /* the last one given out */
	_Atomic uint64_t value_bytes; /* of all live items */
	_Atomic uint64_t freed_bytes; /* of items, ever */
	uint64_t clock_start_ns;
	bool wipes; /* no byte of an old value stays where peers can READ it */
	_Atomic uint64_t slept_ns; /* only grows: store_clock_woke() */
	struct expiry *expiry;
	struct expire *expire;
	struct clear *clear;
	struct compact *compact;
	struct pins *pins;
	/* NULL: not a cache */
	struct heat *heat;
	struct evict *evict;
	struct durable *durable; /* NULL: none */
	bool waits; /* changes wait for the database, or for others: see commit.h */
	/* Wakes all workers, or NULL; for the owner to set before the first change. */
	void (*wake)(void *arg);
	void *wake_arg;
};

/* The slab that a worker of a cache empties (reclaim/evict.h). */
struct emptying {
	struct slab_held slab; /* number 0: none */
	unsigned slot;         /* where to go on */
	uint64_t left_bytes;   /* of slots that it may empty in this round */
};

struct store_worker {
	struct store *store;
	unsigned id;
	struct heap *heap;
	struct layout_scratch *scratch;
	struct compact_worker *compact; /* NULL: the worker moves nothing */
	struct emptying emptying;
	struct stall stall;
	uint64_t missing_bytes; /* of the last item that found no memory */
	/* The stripe whose lock kept a change away; for the caller to set and to look at. */
	uint64_t blocked;
	/* Where changes wait: */
	const struct store_others *others; /* NULL: for the database alone */
	struct durable_port port;
	struct commit *commit; /* of the last STORE_COMMIT */
	unsigned commits;      /* that have not ended */
	unsigned evictions;    /* of them */
	uint64_t commit_bytes; /* what they keep in memory beside the table */
};
#define STORE_NOT_BLOCKED (~0ull)

#endif
