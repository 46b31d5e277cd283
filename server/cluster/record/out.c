/* SPDX-License-Identifier: BSD-2-Clause */
/* A primary's records: numbers, and who has acknowledged them. */
#include "server/cluster/record/out.h"

#include <stddef.h>

#include "server/cluster/record/open.h"

bool records_is_free(const struct records *rs, const struct record *r)
{
	for (unsigned i = 0; i < r->count; i++)
		if (rs->slots[r->stripes[i]].open)
			return false;
	return true;
}

static bool has_all(const struct record *r)
{
	return !(r->need & ~r->has);
}

static void add(struct records *rs, struct record *r, uint32_t need)
{
	r->reign = rs->reign;
	r->number = ++rs->numbers;
	r->need = need;
	r->has = 0;
	for (unsigned i = 0; i < r->count; i++)
		rs->slots[r->stripes[i]].number = r->number;
	record_open(rs, r);
	if (has_all(r) && rs->is_shown)
		record_apply(rs, r);
}

void records_add(struct records *rs, struct record *r, uint32_t self)
{
	r->is_copy = false;
	add(rs, r, rs->awaited | self);
}

void records_add_copy(struct records *rs, struct record *r, uint32_t joiner)
{
	r->version = rs->slots[r->stripes[0]].applied;
	r->is_copy = true;
	add(rs, r, joiner);
}

/* Acknowledgements of this reign count, of whichever epoch of it. */
void records_acked(struct records *rs, uint32_t member, uint64_t epoch, uint64_t number)
{
	struct record *r;

	if (rs->role != RECORDS_PRIMARY || epoch < rs->reign || epoch > rs->epoch)
		return;
	r = record_find(rs, number);
	if (!r)
		return;
	r->has |= member;
	if (has_all(r) && rs->is_shown)
		record_apply(rs, r);
}

static void apply_all(struct records *rs)
{
	struct record *next;

	for (struct record *r = rs->open.next; rs->is_shown && r != &rs->open; r = next) {
		next = r->next;
		if (has_all(r))
			record_apply(rs, r);
	}
}

/* A bit that is not awaited may be another member's next. */
void records_await(struct records *rs, uint32_t awaited)
{
	rs->awaited = awaited;
	rs->begun &= awaited;
	for (struct record *r = rs->open.next; r != &rs->open; r = r->next) {
		r->need &= awaited | RECORDS_SELF;
		r->has &= awaited | RECORDS_SELF;
	}
	apply_all(rs);
}

void records_begun(struct records *rs, uint32_t member)
{
	rs->begun |= member & rs->awaited;
}

bool records_is_settled(const struct records *rs)
{
	for (const struct record *r = rs->open.next; r != &rs->open; r = r->next)
		if (!has_all(r))
			return false;
	return true;
}

void records_show(struct records *rs)
{
	rs->is_shown = true;
	apply_all(rs);
}

uint64_t records_visible(const struct records *rs)
{
	if (!rs->is_shown)
		return 0;
	return rs->open.next == &rs->open ? rs->numbers : rs->open.next->number - 1;
}
