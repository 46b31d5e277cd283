/* SPDX-License-Identifier: BSD-2-Clause */
/* load.h -- fills the store from the database. */
#ifndef SERVER_STORE_LOAD_H
#define SERVER_STORE_LOAD_H

#include <stdbool.h>

#include "common/err.h"
#include "server/durable/durable.h"

struct store;
struct store_worker;

/* The clock that the items' expiries are in.  The store outlives it. */
struct durable_clock store_durable_clock(const struct store *store);

/*
 * Fills the store, by threads of its own that use the workers' heaps; before any worker runs.
 * `stop` is asked a few times a second.  0, or -1 after setting err.
 */
int store_load(struct store *store, struct durable *durable, struct store_worker *const *workers,
	       unsigned worker_count, bool (*stop)(void *arg), void *arg, struct err *err);

#endif
