/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Records of a primary: handed in, numbered, sent, acknowledged, given back.
 *
 * Each member's connection has a cursor into the worker's list: what is behind it was sent.  A
 * connection that is new begins at the list's head: a record that comes again is known by its
 * number.  Of values that are long only the place is sent: they stay until the record comes back.
 *
 * The database gets it at the same time, and acknowledges as RECORDS_SELF.
 */
#include "server/cluster/replica/out.h"

#include <stdlib.h>
#include <string.h>

#include "server/cluster/record/open.h"
#include "server/cluster/record/out.h"
#include "server/cluster/replica/copy.h"
#include "server/cluster/replica/disk.h"
#include "server/cluster/replica/in.h"
#include "server/cluster/replica/list.h"
#include "server/store/apply.h"
#include "server/store/item/clock.h"

/* -------------------------------------------------------------------- in */
static unsigned find_stripes(const struct store *s, const struct durable_op *op, uint32_t *stripes)
{
	unsigned n = 0;

	for (unsigned i = 0; i < op->count; i++) {
		const struct durable_record *d = &op->records[i];
		struct hash h = hash_key(s->table->hash_seed, d->key, d->key_bytes);
		uint32_t stripe = (uint32_t)layout_stripe(h.b, s->table->stripes);
		unsigned k = 0;

		while (k < n && stripes[k] != stripe)
			k++;
		if (k == n)
			stripes[n++] = stripe;
	}
	return n;
}

/* To this worker itself. */
static void give(struct durable_op *op, enum durable_result result)
{
	op->result = result;
	durable_port_keep(op);
}

static struct replica_record *make(struct replica_worker *w, struct durable_op *op)
{
	struct store *s = w->replica->options.store;
	struct replica_record *o = replica_record_new(0, 0);
	uint64_t version = op->records[0].version;

	if (!o)
		return NULL;
	o->worker = w;
	o->op = op;
	o->base.stripes = o->stripes;
	o->base.count = find_stripes(s, op, o->stripes);
	o->base.version = version ? version : next_version(s);
	if (!s->durable || (o->write = replica_prepare_change(w, o)))
		return o;
	free(o);
	return NULL;
}

/* False: this is no primary. */
static bool add(struct replica_worker *w, struct replica_record *o, uint32_t self)
{
	struct replica *r = w->replica;
	bool may = false;

	replica_enter(r, w);
	if (r->records.role == RECORDS_PRIMARY && !r->records.is_sealed && !r->is_unfit) {
		may = true;
		o->is_listed = true; /* it may be over at once */
		records_add(&r->records, &o->base, self);
		replica_append(w, o);
	}
	replica_leave(r);
	return may;
}

/* What nobody else has is undone on the disk.  What is open stays there, as open. */
static void undo(struct replica_worker *w, struct durable_op *op)
{
	struct durable *d = w->replica->options.store->durable;

	if (d && !op->is_kept)
		durable_submit(d, op);
	else
		give(op, DURABLE_WRITTEN);
}

void replica_submit(void *arg, struct durable_op *op)
{
	struct replica_worker *w = arg;
	struct durable *d = w->replica->options.store->durable;
	struct replica_record *o;

	if (op->is_undo) {
		undo(w, op);
		return;
	}
	o = make(w, op);
	if (!o || !add(w, o, d ? RECORDS_SELF : 0)) {
		give(op, o ? DURABLE_ELSEWHERE : DURABLE_REFUSED);
		if (o)
			replica_forget_write(o->write);
		free(o);
		return;
	}
	if (d)
		replica_write_change(w, o);
}

/* -------------------------------------------------------------------- and back */
void replica_finish(struct replica_record *o, bool is_applied)
{
	struct replica_worker *w = o->worker;
	bool is_first = !w->finished;

	o->is_over = true;
	o->is_applied = is_applied;
	o->finished = NULL;
	__atomic_store_n(w->finished_end, o, __ATOMIC_RELAXED);
	w->finished_end = &o->finished;
	if (is_first && w->replica->inside != w && w->wake)
		w->wake(w->wake_arg);
}

/* Of one that was dropped its client did not hear. */
static void end(struct replica_worker *w, struct replica_record *o)
{
	if (o->base.is_copy) {
		replica_copied(w, o);
		return;
	}
	if (!o->op) {
		if (o->is_applied)
			replica_apply(w, o);
		else
			replica_forget(w, o);
		return;
	}
	o->op->is_kept = !o->is_applied;
	give(o->op, o->is_applied ? DURABLE_WRITTEN : DURABLE_UNKNOWN);
	free(o);
}

void replica_take_back(struct replica_worker *w)
{
	struct replica_record *o, *next;

	/* A hint; whoever is woken sees it. */
	if (!__atomic_load_n(&w->finished, __ATOMIC_RELAXED))
		return;
	replica_enter(w->replica, w);
	o = w->finished;
	__atomic_store_n(&w->finished, NULL, __ATOMIC_RELAXED);
	w->finished_end = &w->finished;
	for (struct replica_record *i = o; i; i = i->finished)
		replica_unlist(w, i);
	replica_leave(w->replica);
	for (; o; o = next) {
		next = o->finished;
		if (!o->write) /* or when the database gives it back */
			end(w, o);
	}
}

/* -------------------------------------------------------------------- the database */
static void is_written(struct replica *r, struct replica_record *o)
{
	if (!o->is_over)
		records_acked(&r->records, RECORDS_SELF, r->records.epoch, o->base.number);
}

/*
 * Nobody else was sent it, or only a joiner, which may be given up: what its disk says of it is so.
 * The joiner is sent nothing more, as what came next would tell it that this one took effect.
 */
static bool is_alone(struct replica *r, struct replica_record *o)
{
	uint32_t others = o->to & ~RECORDS_SELF;

	if (o->is_over || (others && !replica_spoil_copy(r, others)))
		return false;
	record_cancel(&r->records, &o->base);
	replica_unlist(o->worker, o);
	return true;
}

void replica_change_written(struct replica_worker *w, struct replica_record *o,
			    enum durable_result result)
{
	struct replica *r = w->replica;
	bool is_ended, is_refused = false;

	replica_enter(r, w);
	is_ended = o->is_over;
	if (result == DURABLE_WRITTEN)
		is_written(r, o);
	else
		is_refused = is_alone(r, o);
	replica_leave(r);
	if (is_ended) {
		end(w, o);
	} else if (is_refused) {
		give(o->op, result);
		free(o);
	} else if (result != DURABLE_WRITTEN) {
		replica_unfit(r, "its disk takes no change that other members have already: "
				 "another one decides what becomes of it");
	}
}

/* -------------------------------------------------------------------- as items */
static size_t removed_bytes(const struct durable_op *op)
{
	size_t bytes = 0;

	for (unsigned i = 0; i < op->count; i++)
		bytes += op->records[i].version ? 0 : op->records[i].key_bytes;
	return bytes;
}

static bool copy_item(struct replica_worker *w, struct replica_item *i,
		      const struct durable_record *d)
{
	i->version = d->version;
	i->key_bytes = (uint16_t)d->key_bytes;
	if (!d->version) {
		memcpy((void *)(uintptr_t)i->key, d->key, d->key_bytes);
		return true;
	}
	i->item = store_apply_item(w->store, d);
	return i->item;
}

struct replica_record *replica_items_of(struct replica_worker *w, const struct replica_record *o)
{
	const struct durable_op *op = o->op;
	struct replica_record *in = replica_record_new(op->count, removed_bytes(op));
	uint8_t *keys = in ? (uint8_t *)&in->items[op->count] : NULL;

	if (!in)
		return NULL;
	in->worker = w;
	in->base = (struct record){ .version = o->base.version, .count = o->base.count,
				    .stripes = in->stripes };
	memcpy(in->stripes, o->stripes, o->base.count * sizeof *in->stripes);
	in->fate = op->fate;
	for (unsigned i = 0; i < op->count; i++) {
		in->items[i].record = in;
		in->items[i].key = keys;
		keys += op->records[i].version ? 0 : op->records[i].key_bytes;
		in->count++;
		if (!copy_item(w, &in->items[i], &op->records[i])) {
			replica_forget(w, in);
			return NULL;
		}
	}
	return in;
}

/* -------------------------------------------------------------------- sending */
static uint64_t left_ms(const struct store *s, const struct durable_record *d)
{
	if (!d->with.expiry_ms)
		return 0;

	uint64_t now_ms = store_clock_ms(s);
	return d->with.expiry_ms > now_ms ? d->with.expiry_ms - now_ms : 1;
}

static void put_item(struct link_writer *m, const struct store *s, const struct durable_record *d,
		     uint32_t inline_max)
{
	struct link_place place = { (uintptr_t)d->value, s->table->mr[0] ? s->table->mr[0]->rkey : 0,
				    (uint32_t)d->value_bytes, 0 };
	struct link_item item = { .key_bytes = (uint16_t)d->key_bytes, .version = d->version,
				  .left_ms = left_ms(s, d), .client_flags = d->with.flags,
				  .signs = d->with.signs };
	const void *value = d->value;

	if (!d->version) {
		item.flags = LINK_DELETED;
	} else if (d->value_bytes <= inline_max) {
		item.value_bytes = (uint32_t)d->value_bytes;
	} else {
		item.flags = LINK_PLACE;
		item.value_bytes = sizeof place;
		value = &place;
	}
	link_put_item(m, &item, d->key, value);
}

/* Whose change it is, and what it is answered. */
static void put_fate(struct link_writer *m, const struct durable_fate *f)
{
	const struct link_fate fate = { f->secret, f->version, f->value_bytes, f->request, f->kept };
	const struct link_item item = { .key_bytes = sizeof f->connection, .flags = LINK_FATE,
					.value_bytes = sizeof fate };

	if (f->connection)
		link_put_item(m, &item, &f->connection, &fate);
}

static int put_record(struct link_writer *m, const struct store *s,
		      const struct replica_record *o, uint32_t inline_max)
{
	link_begin_record(m, o->base.is_copy ? LINK_COPY : 0, o->number, o->base.version, o->stripes, (uint16_t)o->base.count);
	for (unsigned i = 0; i < (o->op ? o->op->count : o->count); i++) {
		struct durable_record d = o->op ? o->op->records[i] : replica_record_of(&o->items[i]);

		put_item(m, s, &d, inline_max);
	}
	put_fate(m, o->op ? &o->op->fate : &o->fate);
	return link_end_record(m);
}

/* Those that have room; false: not one has, even alone. */
static bool fill(struct replica_peer *q, struct link_writer *m)
{
	const struct store *s = q->worker->replica->options.store;
	struct replica_record *o;

	for (; (o = q->cursor); q->cursor = o->next) {
		if (!(o->to & q->member) || !put_record(m, s, o, REPLICA_INLINE_MAX))
			continue;
		if (m->header->count)
			return true;
		m->is_full = false;
		if (put_record(m, s, o, REPLICA_INLINE_CROWDED))
			return false;
	}
	return true;
}

/* Its place; REPLICA_PEERS_MAX: it has none. */
static unsigned seat_of(const struct replica_peer *q)
{
	const char *name = q->link ? link_peer_name(q->link) : "";
	unsigned i = 0;

	while (i < REPLICA_PEERS_MAX && (!*name || strcmp(q->worker->seats[i].name, name)))
		i++;
	return i;
}

void replica_seat(struct replica_peer *q)
{
	struct replica_worker *w = q->worker;
	unsigned seat = seat_of(q);

	q->member = 0;
	q->is_begun = false;
	q->cursor = w->first;
	if (seat == REPLICA_PEERS_MAX)
		return;
	q->member = 1u << seat;
	q->incarnation = w->seats[seat].incarnation;
	q->is_begun = w->role == RECORDS_PRIMARY && (w->begun & q->member);
}

bool replica_is_seated(const struct replica_peer *q)
{
	unsigned seat = seat_of(q);

	if (seat == REPLICA_PEERS_MAX)
		return !q->member;
	return q->member == 1u << seat && q->incarnation == q->worker->seats[seat].incarnation;
}

void replica_send_records(struct replica_peer *q)
{
	struct replica_worker *w = q->worker;
	struct link_writer m;
	void *memory;

	if (q->incarnation == w->replica->spoiled)
		return;
	while (q->is_begun && q->cursor && (memory = link_peer_reserve(q->link))) {
		link_begin(&m, memory, LINK_RECORDS, w->epoch, w->incarnation,
			   q->incarnation, 0);
		if (!fill(q, &m)) {
			link_peer_close(q->link, "a change is longer than a message");
			return;
		}
		if (m.header->count)
			link_peer_send(q->link, link_length(&m));
	}
}

/* -------------------------------------------------------------------- acknowledgements */
/* Another worker may know already that this place is another member's. */
static bool is_awaited(const struct replica *r, const struct replica_peer *q)
{
	return r->seats[__builtin_ctz(q->member)].incarnation == q->incarnation;
}

void replica_heard_acks(struct replica_peer *q, struct link_reader *r)
{
	struct replica *replica = q->worker->replica;
	const uint64_t *number;

	replica_enter(replica, q->worker);
	while ((number = link_next_number(r)))
		if (is_awaited(replica, q))
			records_acked(&replica->records, q->member, r->header->epoch, *number);
	replica_leave(replica);
}
