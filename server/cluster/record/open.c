/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/cluster/record/open.h"

#include <stddef.h>

static void chain(struct records *rs, struct record *r)
{
	struct record **at = &rs->chains[r->number % RECORDS_CHAINS];

	r->chain = *at;
	*at = r;
}

static void unchain(struct records *rs, struct record *r)
{
	struct record **at = &rs->chains[r->number % RECORDS_CHAINS];

	while (*at != r)
		at = &(*at)->chain;
	*at = r->chain;
}

void record_renumber(struct records *rs, struct record *r, uint64_t number)
{
	unchain(rs, r);
	r->number = number;
	chain(rs, r);
}

struct record *record_find(const struct records *rs, uint64_t number)
{
	struct record *r = rs->chains[number % RECORDS_CHAINS];

	while (r && r->number != number)
		r = r->chain;
	return r;
}

void record_open(struct records *rs, struct record *r)
{
	r->prev = rs->open.prev;
	r->next = &rs->open;
	r->prev->next = r;
	rs->open.prev = r;
	chain(rs, r);
	for (unsigned i = 0; i < r->count; i++)
		rs->slots[r->stripes[i]].open = r;
}

static void close_record(struct records *rs, struct record *r)
{
	r->prev->next = r->next;
	r->next->prev = r->prev;
	unchain(rs, r);
	for (unsigned i = 0; i < r->count; i++)
		rs->slots[r->stripes[i]].open = NULL;
}

void record_apply(struct records *rs, struct record *r)
{
	close_record(rs, r);
	for (unsigned i = 0; i < r->count && !r->is_copy; i++)
		rs->slots[r->stripes[i]].applied = r->version;
	rs->hooks.apply(rs->hooks.arg, r);
}

void record_drop(struct records *rs, struct record *r)
{
	close_record(rs, r);
	rs->hooks.drop(rs->hooks.arg, r);
}

void record_replace(struct records *rs, struct record *r, struct record *other)
{
	other->version = r->version;
	other->reign = r->reign;
	other->number = r->number;
	other->need = r->need;
	other->has = r->has;
	unchain(rs, r);
	chain(rs, other);
	other->prev = r->prev;
	other->next = r->next;
	other->prev->next = other->next->prev = other;
	for (unsigned i = 0; i < other->count; i++)
		rs->slots[other->stripes[i]].open = other;
}

void record_cancel(struct records *rs, struct record *r)
{
	close_record(rs, r);
}
