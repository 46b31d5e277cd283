/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/cluster/replica/disk.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "server/cluster/note/note.h"
#include "server/durable/durable.h"
#include "server/store/apply.h"
#include "server/store/item/stripe.h"

static struct durable *disk_of(const struct replica_worker *w)
{
	return w->replica->options.store->durable;
}

void replica_forget_write(struct replica_write *d)
{
	if (!d)
		return;
	for (unsigned i = 0; i < LAYOUT_TXN_KEYS_MAX; i++) {
		free((void *)(uintptr_t)d->notes[i].bytes);
		free(d->values[i]);
	}
	d->store->commit_bytes -= d->kept_bytes;
	free(d);
}

static void keep(struct replica_write *d, uint64_t bytes)
{
	d->kept_bytes += bytes;
	d->store->commit_bytes += bytes;
}

static struct replica_write *new_write(struct replica_worker *w, enum write_kind kind,
				       const struct record *base)
{
	struct replica_write *d = calloc(1, sizeof *d);

	if (!d)
		return NULL;
	d->kind = kind;
	d->store = w->store;
	d->reign = base->reign;
	d->number = base->number;
	d->base = (struct record){ .count = base->count, .stripes = d->stripes };
	memcpy(d->stripes, base->stripes, base->count * sizeof *d->stripes);
	d->op.port = &w->disk;
	d->op.records = d->records;
	d->op.notes = d->notes;
	return d;
}

static void count_write(struct replica_worker *w, int by)
{
	w->writes += (unsigned)by;
	atomic_fetch_add(&w->replica->writes, (unsigned)by);
}

static void submit(struct replica_worker *w, struct replica_write *d)
{
	d->op.note_count = d->note_count;
	durable_submit(disk_of(w), &d->op);
}

/* -------------------------------------------------------------------- the table */
static struct hash hash_of(const struct store *s, const struct durable_record *key)
{
	return hash_key(s->table->hash_seed, key->key, key->key_bytes);
}

static uint32_t stripe_of(const struct store *s, struct hash hash)
{
	return (uint32_t)layout_stripe(hash.b, s->table->stripes);
}

/* False: it stays marked.  Compaction has a mark for a few steps; nobody else has, at a backup. */
static bool mark(const struct store *s, uint32_t stripe)
{
	uint64_t until_ns = 0;

	while (!stripe_mark(s, stripe)) {
		uint64_t now_ns = clock_ns();

		until_ns = until_ns ? until_ns : now_ns + REPLICA_FREE_NS;
		if (now_ns >= until_ns)
			return false;
		sched_yield();
	}
	return true;
}

/* What the table has of the key; its stripe is marked. */
static struct durable_record look(const struct store *s, struct hash hash,
				  const struct durable_record *key)
{
	const struct layout_item *item = store_apply_find(s, hash, key->key, key->key_bytes);

	if (item)
		return item_record(item);
	return (struct durable_record){ .key = key->key, .key_bytes = key->key_bytes };
}

/* -------------------------------------------------------------------- notes */
static bool put_note(struct replica_write *d, uint32_t stripe, const struct note *n)
{
	size_t length = note_bytes(n);
	char *bytes = malloc(length);

	if (!bytes)
		return false;
	note_write(n, bytes);
	keep(d, length);
	d->notes[d->note_count++] = (struct durable_note){ stripe, bytes, length };
	return true;
}

/*
 * The record's keys of that stripe, as the table has them; the stripe is marked.  What was applied
 * there last stays so until the record has come back from the disk: it is looked at without the lock.
 */
static bool note_stripe(struct replica_worker *w, struct replica_write *d, uint64_t version,
			uint32_t stripe)
{
	const struct store *s = w->store->store;
	struct note n = { .version = version, .before = w->replica->records.slots[stripe].applied,
			  .reign = d->reign, .number = d->number, .stripe_count = d->base.count };

	memcpy(n.stripes, d->stripes, d->base.count * sizeof *n.stripes);
	for (unsigned i = 0; i < d->op.count; i++) {
		struct hash hash = hash_of(s, &d->op.records[i]);
		struct durable_record *key = &n.keys[n.count];

		if (stripe_of(s, hash) != stripe)
			continue;
		*key = look(s, hash, &d->op.records[i]);
		key->with.expiry_ms = durable_wall_ms(disk_of(w), key->with.expiry_ms);
		n.count++;
	}
	return put_note(d, stripe, &n);
}

/* -------------------------------------------------------------------- a primary's */
struct replica_write *replica_prepare_change(struct replica_worker *w, struct replica_record *o)
{
	struct replica_write *d = new_write(w, WRITE_CHANGE, &o->base);
	bool ok = d;

	if (!d)
		return NULL;
	d->record = o;
	d->op.records = o->op->records;
	d->op.count = o->op->count;
	for (unsigned i = 0; i < d->base.count && ok; i++)
		ok = note_stripe(w, d, o->base.version, d->stripes[i]);
	if (ok)
		return d;
	replica_forget_write(d);
	return NULL;
}

void replica_write_change(struct replica_worker *w, struct replica_record *o)
{
	struct replica_write *d = o->write;

	for (unsigned i = 0; i < d->note_count; i++)
		note_number((char *)(uintptr_t)d->notes[i].bytes, o->base.reign, o->number);
	count_write(w, 1);
	submit(w, d);
}

/* -------------------------------------------------------------------- a backup's */
bool replica_is_on_its_way(const struct replica *r, const struct record *record)
{
	for (unsigned i = 0; i < record->count; i++)
		if (r->on_its_way[record->stripes[i] / 8] >> record->stripes[i] % 8 & 1)
			return true;
	return false;
}

static void set_on_its_way(struct replica *r, const struct record *record, bool is)
{
	for (unsigned i = 0; i < record->count; i++) {
		uint8_t *byte = &r->on_its_way[record->stripes[i] / 8];
		uint8_t bit = (uint8_t)(1u << record->stripes[i] % 8);

		*byte = is ? *byte | bit : *byte & (uint8_t)~bit;
	}
}

void replica_count_taken(struct replica_worker *w, const struct record *record)
{
	set_on_its_way(w->replica, record, true);
	count_write(w, 1);
}

static bool write_taken(struct replica_worker *w, const struct replica_record *in)
{
	struct replica_write *d = new_write(w, WRITE_TAKEN, &in->base);
	bool ok = d;

	if (!d)
		return false;
	d->epoch = in->epoch;
	d->incarnation = in->sender;
	for (; d->op.count < in->count; d->op.count++)
		d->records[d->op.count] = replica_record_of(&in->items[d->op.count]);
	for (unsigned i = 0; i < d->base.count && ok; i++) {
		ok = mark(w->store->store, d->stripes[i]);
		if (!ok)
			break;
		ok = note_stripe(w, d, in->base.version, d->stripes[i]);
		stripe_unmark(w->store->store, d->stripes[i]);
	}
	if (ok)
		submit(w, d);
	else
		replica_forget_write(d);
	return ok;
}

void replica_write_taken(struct replica_worker *w, const struct replica_record *in)
{
	if (write_taken(w, in))
		return;
	count_write(w, -1);
	replica_unfit(w->replica, "there is no memory to write a change, or its stripe stays marked");
}

/* -------------------------------------------------------------------- copies and drops */
/* Its key and value, in a memory of their own.  False: there is none. */
static bool add_record(struct replica_write *d, const struct durable_record *from)
{
	struct durable_record *r = &d->records[d->op.count];
	char *at = d->values[d->op.count] = malloc(from->key_bytes + from->value_bytes);

	if (!at)
		return false;
	keep(d, from->key_bytes + from->value_bytes);
	*r = *from;
	r->key = memcpy(at, from->key, from->key_bytes);
	if (from->value_bytes)
		memcpy(at + from->key_bytes, from->value, from->value_bytes);
	r->value = at + from->key_bytes;
	d->op.count++;
	return true;
}

struct replica_write *replica_prepare_copy(struct replica_worker *w, const struct replica_record *in)
{
	struct replica_write *d = new_write(w, WRITE_COPY, &in->base);
	const struct note n = { .version = in->base.version };
	struct durable_record item;
	bool ok = d;

	if (!d)
		return NULL;
	d->epoch = in->epoch;
	d->incarnation = in->sender;
	for (unsigned i = 0; i < in->count && ok; i++) {
		item = replica_record_of(&in->items[i]);
		ok = add_record(d, &item);
	}
	if (ok && put_note(d, d->stripes[0], &n))
		return d;
	replica_forget_write(d);
	return NULL;
}

void replica_write_copy(struct replica_worker *w, struct replica_write *d)
{
	submit(w, d);
}

static bool add_as_it_is(struct replica_worker *w, struct replica_write *d,
			 const struct replica_item *i)
{
	const struct store *s = w->store->store;
	struct durable_record key = replica_record_of(i), now;
	struct hash hash = hash_of(s, &key);
	uint32_t stripe = stripe_of(s, hash);
	bool ok;

	if (!mark(s, stripe))
		return false;
	now = look(s, hash, &key);
	ok = add_record(d, &now);
	stripe_unmark(s, stripe);
	return ok;
}

bool replica_write_dropped(struct replica_worker *w, const struct replica_record *in)
{
	struct replica_write *d = new_write(w, WRITE_DROP, &in->base);
	const struct records *rs = &w->replica->records;
	bool ok = d;

	for (unsigned i = 0; ok && i < in->count; i++)
		ok = add_as_it_is(w, d, &in->items[i]);
	for (unsigned i = 0; ok && i < d->base.count; i++) {
		const struct note n = { .version = rs->slots[d->stripes[i]].applied };

		ok = put_note(d, d->stripes[i], &n);
	}
	if (!ok) {
		replica_forget_write(d);
		return false;
	}
	count_write(w, 1);
	submit(w, d);
	return true;
}

/* -------------------------------------------------------------------- and back */
void replica_count_written(struct replica_worker *w, const struct replica_write *d)
{
	struct replica *r = w->replica;

	count_write(w, -1);
	if (d->kind != WRITE_TAKEN && d->kind != WRITE_COPY)
		return;
	replica_enter(r, w);
	set_on_its_way(r, &d->base, false);
	replica_leave(r);
}
