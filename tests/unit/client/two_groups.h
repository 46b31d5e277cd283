/* SPDX-License-Identifier: BSD-2-Clause */
/* two_groups.h -- a key whose buckets are of two groups, and an end for each test; one program. */
#ifndef TESTS_UNIT_CLIENT_TWO_GROUPS_H
#define TESTS_UNIT_CLIENT_TWO_GROUPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "client/op/operation.h"
#include "tests/lib/end.h"

#define UNIT 4000u
#define ITEM_VERSION 7u
#define LONG_BYTES 40000u

static struct end *end;
static struct engine *e;
static char key[BYTES_KEY];
static uint8_t value[BYTES_ROOM];

static bool are_two_groups(struct hash h, const void *arg)
{
	(void)arg;
	return (h.a ^ h.b) >> (64 - LAYOUT_BASE_BITS) != 0;
}

static int set_up(void **state)
{
	(void)state;
	end = end_new();
	e = end->engine;
	bytes_find_key(key, "key-", are_two_groups, NULL);
	memset(value, 0, sizeof value);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	end_delete(end);
	return 0;
}

static inline struct bytes_item item_of(size_t bytes)
{
	return (struct bytes_item){ .unit = UNIT,
				    .key = key,
				    .value = "value",
				    .value_bytes = bytes,
				    .kind = LAYOUT_LIVE,
				    .version = ITEM_VERSION };
}

static inline void store(const struct bytes_item *item)
{
	struct hash h = hash_key(e->table.welcome.hash_seed, key, strlen(key));

	bytes_enter(end->bytes, layout_bucket_of(h.a, 0), 3, bytes_item(end->bytes, item));
}

#endif
