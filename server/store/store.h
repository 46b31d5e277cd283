/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * store.h -- the store that workers share, and what they do with it.
 *
 * It includes the operations on keys.
 */
#ifndef SERVER_STORE_STORE_H
#define SERVER_STORE_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "server/store/change/commit.h"
#include "server/store/change/remove.h"
#include "server/store/get.h"
#include "server/store/item/item.h"
#include "server/store/put.h"

/* 0, or -1 after setting err. */
int store_new(struct table *table, struct store **store, struct err *err);
void store_delete(struct store **store);

/* 0 or an errno value. */
int store_worker_init(struct store_worker *worker, struct store *store, unsigned id);
void store_worker_fini(struct store_worker *worker);

/* Whether an item of so many bytes could ever fit. */
bool store_fits(const struct store *store, uint64_t item_bytes);

#endif
