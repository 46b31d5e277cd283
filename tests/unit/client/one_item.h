/* SPDX-License-Identifier: BSD-2-Clause */
/* one_item.h -- a table written by hand for each test, and GETs of a key's item; one program. */
#ifndef TESTS_UNIT_CLIENT_ONE_ITEM_H
#define TESTS_UNIT_CLIENT_ONE_ITEM_H

#include "tests/lib/bytes.h"

#define KEY "key"

static struct bytes *b;

static int set_up(void **state)
{
	(void)state;
	b = bytes_new();
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	bytes_delete(b);
	return 0;
}

/* A GET that has READ this item by an entry that it READ since it began. */
static inline struct get *read_item(const struct bytes_item *item, size_t room)
{
	struct get *g = bytes_get(b, KEY, room);

	g->word = bytes_item(b, item);
	bytes_read(b, READ_ITEM);
	return g;
}

#endif
