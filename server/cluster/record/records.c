/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/cluster/record/records.h"

#include <string.h>

#include "server/cluster/record/open.h"
#include "server/cluster/record/out.h"

void records_init(struct records *rs, struct record_slot *slots, uint32_t stripes,
		  const struct records_hooks *hooks)
{
	*rs = (struct records){ .slots = slots, .stripes = stripes, .hooks = *hooks };
	rs->open.next = rs->open.prev = &rs->open;
}

/* Copies are of the reign that made them, and of its primary only. */
static void forget_copies(struct records *rs)
{
	struct record *next;

	for (struct record *r = rs->open.next; r != &rs->open; r = next) {
		next = r->next;
		if (r->is_copy)
			record_drop(rs, r);
	}
}

/* What was open is under way again, as of this reign. */
static void send_again(struct records *rs)
{
	for (struct record *r = rs->open.next; r != &rs->open; r = r->next) {
		r->reign = rs->reign;
		record_renumber(rs, r, ++rs->numbers);
		r->need = rs->awaited | (r->need & ~r->has & RECORDS_SELF);
		r->has = 0;
		for (unsigned i = 0; i < r->count; i++)
			rs->slots[r->stripes[i]].number = r->number;
	}
}

static void begin_reign(struct records *rs, uint64_t reign)
{
	rs->reign = reign;
	rs->numbers = 0;
	rs->is_shown = false;
	for (uint32_t i = 0; i < rs->stripes; i++)
		rs->slots[i].number = 0;
}

void records_epoch(struct records *rs, uint64_t epoch, uint64_t reign, enum records_role role,
		   uint32_t awaited)
{
	bool is_new = reign != rs->reign;

	rs->epoch = epoch;
	rs->role = role;
	rs->is_sealed = false;
	rs->is_ready = false;
	rs->begun = 0;
	if (is_new || role != RECORDS_PRIMARY)
		forget_copies(rs);
	if (is_new)
		begin_reign(rs, reign);
	if (role != RECORDS_PRIMARY)
		return;
	if (is_new) {
		rs->awaited = awaited;
		send_again(rs);
	} else {
		records_await(rs, awaited);
	}
}

void records_seal(struct records *rs)
{
	rs->is_sealed = true;
}

void records_empty(struct records *rs)
{
	while (rs->open.next != &rs->open)
		record_drop(rs, rs->open.next);
	memset(rs->slots, 0, rs->stripes * sizeof *rs->slots);
	rs->reign = 0;
	records_seal(rs);
}

void records_restore(struct records *rs, struct record *r)
{
	r->reign = 0;
	r->number = 0;
	record_open(rs, r);
}

void records_restore_applied(struct records *rs, uint32_t stripe, uint64_t version)
{
	rs->slots[stripe].applied = version;
}

enum records_fate records_fate(const struct records *rs, uint32_t stripe, uint64_t version,
			       uint64_t reign)
{
	const struct record_slot *s = &rs->slots[stripe];

	if (s->open && s->open->version == version)
		return RECORDS_OPEN;
	/*
	 * A member of the set that serves began in this reign: what it has of earlier ones is
	 * what the primary had.
	 */
	if (s->applied == version || reign == rs->reign || rs->is_shown)
		return RECORDS_APPLIED;
	return RECORDS_UNKNOWN;
}

void records_resolve(struct records *rs, uint32_t stripe, uint64_t version,
		     enum records_fate fate)
{
	struct record *r = rs->slots[stripe].open;

	if (!r || r->version != version || fate == RECORDS_OPEN)
		return;
	if (fate == RECORDS_APPLIED)
		record_apply(rs, r);
	else
		record_drop(rs, r);
}

void records_ready(struct records *rs)
{
	rs->is_ready = rs->role == RECORDS_BACKUP;
}
