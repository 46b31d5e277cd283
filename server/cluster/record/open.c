/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/cluster/record/open.h"

#include <stddef.h>

void record_open(struct records *rs, struct record *r)
{
	r->prev = rs->open.prev;
	r->next = &rs->open;
	r->prev->next = r;
	rs->open.prev = r;
	for (unsigned i = 0; i < r->count; i++)
		rs->slots[r->stripes[i]].open = r;
}

static void close_record(struct records *rs, struct record *r)
{
	r->prev->next = r->next;
	r->next->prev = r->prev;
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
