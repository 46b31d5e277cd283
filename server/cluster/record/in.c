/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A backup's records.  One that arrives proves that those before it in its stripes are
 * committed: their marks stayed up until all had them.  So they take effect then, each whole.
 */
#include "server/cluster/record/in.h"

#include <stddef.h>

#include "server/cluster/record/open.h"

static bool may_take(const struct records *rs, uint64_t epoch)
{
	return rs->role == RECORDS_BACKUP && epoch == rs->epoch && rs->is_ready && !rs->is_sealed;
}

static void number_slots(struct records *rs, const struct record *r, uint64_t number)
{
	for (unsigned i = 0; i < r->count; i++)
		rs->slots[r->stripes[i]].number = number;
}

static void apply_those_before(struct records *rs, const struct record *r)
{
	for (unsigned i = 0; i < r->count; i++)
		if (rs->slots[r->stripes[i]].open)
			record_apply(rs, rs->slots[r->stripes[i]].open);
}

/* It is the last one of its number. */
static void move_to_end(struct records *rs, struct record *r)
{
	r->prev->next = r->next;
	r->next->prev = r->prev;
	r->prev = rs->open.prev;
	r->next = &rs->open;
	r->prev->next = r;
	rs->open.prev = r;
}

enum records_taken records_take(struct records *rs, uint64_t epoch, struct record *r)
{
	struct record_slot *s = &rs->slots[r->stripes[0]];

	if (!may_take(rs, epoch))
		return RECORDS_REFUSED;
	if (r->number <= s->number)
		return RECORDS_HAD;
	if (s->open && s->open->version == r->version) {
		s->open->reign = rs->reign;
		record_renumber(rs, s->open, r->number);
		number_slots(rs, s->open, r->number);
		move_to_end(rs, s->open);
		return RECORDS_HAD;
	}
	number_slots(rs, r, r->number);
	if (s->applied == r->version)
		return RECORDS_HAD;
	apply_those_before(rs, r);
	r->reign = rs->reign;
	record_open(rs, r);
	return RECORDS_TAKEN;
}

enum records_taken records_take_copy(struct records *rs, uint64_t epoch, const struct record *r)
{
	if (!may_take(rs, epoch))
		return RECORDS_REFUSED;
	if (r->number <= rs->slots[r->stripes[0]].number)
		return RECORDS_HAD;
	number_slots(rs, r, r->number);
	apply_those_before(rs, r);
	rs->slots[r->stripes[0]].applied = r->version;
	return RECORDS_TAKEN;
}

bool records_seen(struct records *rs, uint64_t epoch, uint64_t number)
{
	struct record *next;

	if (!may_take(rs, epoch))
		return false;
	for (struct record *r = rs->open.next; r != &rs->open; r = next) {
		next = r->next;
		if (r->reign == rs->reign && r->number <= number)
			record_apply(rs, r);
	}
	return true;
}
