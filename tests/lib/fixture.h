/* SPDX-License-Identifier: BSD-2-Clause */
/* fixture.h -- the store of kvd in a test's own memory, with no network. */
#ifndef TESTS_LIB_FIXTURE_H
#define TESTS_LIB_FIXTURE_H

#include <stddef.h>
#include <stdint.h>

#include "server/store/change/move.h"
#include "server/store/store.h"
#include "server/table/index.h"

#define FIXTURE_WORKERS_MAX 8u

struct fixture {
	struct table *table;
	struct store *store;
	struct store_worker worker[FIXTURE_WORKERS_MAX];
	unsigned workers;
};

/* The table's memory is shared with children.  Ends the test on an error. */
void fixture_new(struct fixture *fixture, uint64_t table_bytes, unsigned workers);
/* As of kvd --wipe. */
void fixture_new_wiping(struct fixture *fixture, uint64_t table_bytes, unsigned workers);
void fixture_delete(struct fixture *fixture);

/* Until it is no longer in somebody's way (STORE_ASIDE); an enum wire_status. */
int fixture_put(struct store_worker *worker, const void *key, size_t key_bytes,
		const void *value, size_t value_bytes, unsigned flags, uint64_t *version);
/* The same as kvd stores a pulled value: straight into the new item. */
int fixture_put_item(struct store_worker *worker, const void *key, size_t key_bytes,
		     const void *value, size_t value_bytes, uint64_t *version);
/* Moves the key's item, if it is there and there is a place for it; see store_move. */
enum store_moved fixture_move(struct store_worker *worker, const void *key, size_t key_bytes);
int fixture_remove(struct store_worker *worker, const void *key, size_t key_bytes);
int fixture_get(struct store_worker *worker, const void *key, size_t key_bytes, void *buf,
		size_t buf_bytes, size_t *value_bytes, uint64_t *version);

/* splitmix64 */
uint64_t fixture_random(uint64_t *state);

#endif
