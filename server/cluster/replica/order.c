/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Orders: what is of all, by the first one that comes, and each worker's own part.
 *
 * The role changes so.  A primary that is deposed, or begins a new reign, has changes under way
 * that its store prepared, under marks.  Each worker copies its own into items, as a backup has
 * them, and takes back what was prepared; for whoever asked for the change that is "unknown".
 * What is open stays open in another form.  A backup that takes over lists what it has open
 * among what it sends: that is under way again.
 */
#include "server/cluster/replica/order.h"

#include <stdlib.h>
#include <string.h>

#include "server/cluster/record/in.h"
#include "server/cluster/record/open.h"
#include "server/cluster/record/out.h"
#include "server/cluster/replica/copy.h"
#include "server/cluster/replica/disk.h"
#include "server/cluster/replica/in.h"
#include "server/cluster/replica/list.h"
#include "server/cluster/replica/out.h"
#include "server/durable/durable.h"
#include "server/table/index.h"
#include "server/table/region.h"

/*
 * Of the table, as a part: what a primary's items leave, and what a backup's leave to the index.
 * What a primary found memory for a backup has to find memory for, in other slabs and pieces.
 */
#define PRIMARY_RESERVE_PART 16u
#define BACKUP_RESERVE_PART 64u

uint64_t replica_order_serial(struct replica *r)
{
	uint64_t serial;

	replica_enter(r, NULL);
	serial = ++r->orders;
	replica_leave(r);
	return serial;
}

/* -------------------------------------------------------------------- of all; the lock is held */
/* The disk has it as it was before this member says that it began. */
static void write_dropped(struct replica_worker *w)
{
	for (struct record *r = w->dropped.first; r; r = r->next)
		if (!replica_write_dropped(w, (struct replica_record *)r))
			replica_unfit(w->replica, "there is no memory to write what was dropped, or its stripe stays marked");
}

static void resolve(struct replica_worker *w, uint64_t number)
{
	struct replica *r = w->replica;
	struct replica_question *q = &r->question;

	if (number != q->number)
		return;
	for (unsigned i = 0; i < q->answered; i++)
		records_resolve(&r->records, q->entries[i].stripe, q->entries[i].version,
				(enum records_fate)q->entries[i].fate);
	free(q->entries);
	*q = (struct replica_question){ .number = 0 };
	if (r->options.store->durable)
		write_dropped(w);
	/* Before a record is taken, by whomever. */
	replica_do(w);
	records_ready(&r->records);
}

/* It answers no question of before. */
static void be_empty(struct replica *r)
{
	records_empty(&r->records);
	free(r->question.entries);
	r->question = (struct replica_question){ .number = 0 };
	memset(r->on_its_way, 0, r->records.stripes / 8 + 1);
	r->incarnation = 0;
}

static void reserve(const struct table *t, enum records_role role)
{
	region_set_reserve(t->region, (t->bytes - t->heap_offset) /
			   (role == RECORDS_PRIMARY ? PRIMARY_RESERVE_PART : BACKUP_RESERVE_PART));
}

static void obey_for_all(struct replica_worker *w, const struct replica_order *o)
{
	struct replica *r = w->replica;

	switch (o->kind) {
	case REPLICA_EPOCH:
		memcpy(r->seats, o->seats, sizeof r->seats);
		if (r->incarnation != o->incarnation)
			r->is_unfit = false; /* a table that lacks nothing: it is being filled */
		r->incarnation = o->incarnation;
		replica_end_copy(r);
		reserve(r->options.store->table, o->role);
		records_epoch(&r->records, o->epoch, o->reign, o->role, o->members);
		break;
	case REPLICA_SEAL:
		records_seal(&r->records);
		break;
	case REPLICA_RESOLVE:
		resolve(w, o->number);
		break;
	case REPLICA_BEGUN_BY:
		records_begun(&r->records, o->members);
		break;
	case REPLICA_HOLD:
		break;
	case REPLICA_SHOW:
		records_show(&r->records);
		break;
	case REPLICA_SEEN:
		if (records_seen(&r->records, o->epoch, o->number) && r->options.store->durable)
			durable_seen(r->options.store->durable, r->records.reign, o->number);
		/* Before another worker takes the next one of a stripe: it does not wait for this. */
		replica_do(w);
		break;
	case REPLICA_AWAIT:
		memcpy(r->seats, o->seats, sizeof r->seats);
		if (!(o->members & r->copy.joiner))
			replica_end_copy(r);
		records_await(&r->records, o->members);
		break;
	case REPLICA_COPY:
		replica_begin_copy(r, o);
		break;
	case REPLICA_EMPTY:
		be_empty(r);
		break;
	}
}

/* -------------------------------------------------------------------- its own part */
/*
 * What the store prepared becomes items.  Where there is no memory the member lacks a change,
 * and is of no use until it is copied to.
 */
static void turn_into_items(struct replica_worker *w, struct replica_record *o)
{
	struct replica *r = w->replica;
	struct replica_record *items = replica_items_of(w, o);

	if (!items)
		replica_unfit(r, "there is no memory to keep a change that was under way");
	replica_enter(r, w);
	if (o->is_over) { /* it has taken effect, or nobody has it */
		replica_leave(r);
		if (items)
			replica_forget(w, items);
		return;
	}
	if (items) {
		record_replace(&r->records, &o->base, &items->base);
		items->base.need &= ~RECORDS_SELF; /* its own disk has it, or it is unfit */
	} else {
		record_cancel(&r->records, &o->base);
	}
	replica_finish(o, false);
	replica_leave(r);
}

static void turn_back(struct replica_worker *w)
{
	struct replica_record *next;

	for (struct replica_record *o = w->first; o; o = next) {
		next = o->next;
		if (o->op) {
			turn_into_items(w, o);
			continue;
		}
		replica_enter(w->replica, w);
		if (!o->is_over)
			replica_unlist(w, o);
		replica_leave(w->replica);
	}
}

/* What this worker took as a backup is under way. */
static void adopt(struct replica_worker *w)
{
	struct records *rs = &w->replica->records;

	replica_enter(w->replica, w);
	for (struct record *r = rs->open.next; r != &rs->open; r = r->next) {
		struct replica_record *o = (struct replica_record *)r;

		if (o->worker == w && !o->is_listed)
			replica_append(w, o);
	}
	replica_leave(w->replica);
}

static void seat(struct replica_worker *w, const struct replica_order *o)
{
	memcpy(w->seats, o->seats, sizeof w->seats);
	for (unsigned i = 0; i < REPLICA_PEERS_MAX; i++)
		replica_seat(&w->peers[i]);
}

static void be_of_epoch(struct replica_worker *w, const struct replica_order *o)
{
	bool is_new = o->reign != w->reign || o->role != w->role;

	w->epoch = o->epoch;
	w->reign = o->reign;
	w->incarnation = o->incarnation;
	w->role = o->role;
	w->begun = 0;
	if (is_new)
		turn_back(w);
	if (is_new && o->role == RECORDS_PRIMARY)
		adopt(w);
	seat(w, o);
}

/* What it lacks is found by sending all: what comes again is known by its number. */
static void begin_with(struct replica_worker *w, uint32_t members)
{
	w->begun |= members;
	for (unsigned i = 0; i < REPLICA_PEERS_MAX; i++)
		if (w->peers[i].member & members)
			replica_seat(&w->peers[i]);
}

/* Who stays goes on where it is. */
static void await(struct replica_worker *w, const struct replica_order *o)
{
	memcpy(w->seats, o->seats, sizeof w->seats);
	w->begun &= o->members;
	for (unsigned i = 0; i < REPLICA_PEERS_MAX; i++)
		if (!replica_is_seated(&w->peers[i]))
			replica_seat(&w->peers[i]);
}

/* What is sent to, or READ for, the table that was is given up. */
static void forget_table(struct replica_worker *w)
{
	const struct replica *r = w->replica;
	unsigned i = 0;

	w->incarnation = 0;
	for (unsigned k = 0; k < REPLICA_PEERS_MAX; k++) {
		w->peers[k].ack_count = 0;
		replica_stop_reading(&w->peers[k]);
	}
	while (r->workers[i] != w)
		i++;
	w->emptying = index_buckets(w->store->store->index) * i / r->worker_count;
}

/* What is on its way to the disk is to be there before it may become something else. */
static bool may_obey(const struct replica_worker *w, const struct replica_order *o)
{
	if (o->kind == REPLICA_EMPTY)
		return !w->replica->writes;
	return o->kind != REPLICA_EPOCH || !w->writes ||
	       (w->role == RECORDS_PRIMARY && o->role == w->role && o->reign == w->reign);
}

bool replica_obey(struct replica_worker *w, const struct replica_order *o)
{
	struct replica *r = w->replica;
	bool may;

	replica_enter(r, w);
	may = may_obey(w, o);
	if (may && o->serial > r->obeyed) {
		r->obeyed = o->serial;
		obey_for_all(w, o);
	}
	replica_leave(r);
	if (!may)
		return false;
	if (o->kind == REPLICA_EPOCH)
		be_of_epoch(w, o);
	else if (o->kind == REPLICA_BEGUN_BY)
		begin_with(w, o->members);
	else if (o->kind == REPLICA_AWAIT)
		await(w, o);
	else if (o->kind == REPLICA_EMPTY)
		forget_table(w);
	replica_do(w);
	replica_take_back(w);
	return true;
}
