/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Records of a backup: read off the wire into items of this table, complete but for being found;
 * then open; then applied, when a later record or the primary proves that they are committed.
 *
 * Memory: a record that is open has its items.  A primary has one for each stripe at the most.
 * One that finds no memory is parked (parked.h), and tried again at each flush.
 */
#include "server/cluster/replica/in.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "server/cluster/record/in.h"
#include "server/cluster/replica/disk.h"
#include "server/cluster/replica/list.h"
#include "server/cluster/replica/parked.h"
#include "server/store/apply.h"
#include "server/store/item/clock.h"
#include "server/store/reclaim/compact.h"
#include "server/table/heap.h"

#define FORCE_NS 100000000ull   /* without memory; longer than what is visible stays open */
#define STARVE_NS 500000000ull  /* then there is none, but in an empty table */

/* -------------------------------------------------------------------- memory */
void replica_forget(struct replica_worker *w, struct replica_record *in)
{
	for (unsigned i = 0; i < in->count; i++)
		if (in->items[i].item)
			store_item_delete(w->store, in->items[i].item);
	free(in);
}

/* -------------------------------------------------------------------- from the wire */
static bool has_stripe(const struct replica_record *in, uint32_t stripe)
{
	for (unsigned i = 0; i < in->base.count; i++)
		if (in->stripes[i] == stripe)
			return true;
	return false;
}

static bool is_sane(const struct replica_worker *w, const struct replica_record *in,
		    const struct link_item *item, const uint8_t *key)
{
	const struct table *t = w->store->store->table;
	struct hash h = hash_key(t->hash_seed, key, item->key_bytes);

	return item->key_bytes && item->key_bytes <= LAYOUT_KEY_BYTES_MAX &&
	       !(in->base.is_copy && (item->flags & LINK_DELETED)) &&
	       !item->version == !!(item->flags & LINK_DELETED) &&
	       item->version <= LAYOUT_VERSION_MAX && item->signs <= LAYOUT_SIGNS &&
	       has_stripe(in, (uint32_t)layout_stripe(h.b, t->stripes));
}

static void set_place(struct replica_item *i, const uint8_t *value)
{
	memcpy(&i->place, value, sizeof i->place);
	i->is_to_be_read = true;
}

/* False: there is no memory. */
static bool make_item(struct replica_worker *w, struct replica_item *i, const struct link_item *item,
		      const uint8_t *key, const uint8_t *value, uint64_t clock_ms)
{
	struct layout_attributes with = { .flags = item->client_flags, .signs = item->signs };
	uint64_t bytes = item->value_bytes;

	i->version = item->version;
	i->key_bytes = item->key_bytes;
	if (item->flags & LINK_DELETED)
		return true;
	if (item->flags & LINK_PLACE) {
		set_place(i, value);
		bytes = i->place.bytes;
	}
	if (item->left_ms)
		with.expiry_ms = (clock_ms ? clock_ms : store_clock_ms(w->store->store)) + item->left_ms;
	i->item = store_item_new(w->store, key, item->key_bytes, bytes, &with);
	if (!i->item)
		return false;
	if (i->is_to_be_read)
		return true;
	memcpy(i->item->data + item->key_bytes, value, bytes);
	store_apply_seal(w->store, i->item, i->version);
	return true;
}

/* Beside the items: none of the table's keys. */
static bool take_fate(struct replica_record *in, const struct link_item *item, const uint8_t *key,
		      const uint8_t *value)
{
	struct link_fate fate;

	if (item->key_bytes != sizeof(uint64_t) || item->value_bytes != sizeof fate)
		return false;
	memcpy(&fate, value, sizeof fate);
	memcpy(&in->fate.connection, key, sizeof in->fate.connection);
	in->fate.secret = fate.secret;
	in->fate.request = fate.request;
	in->fate.kept = fate.kept;
	in->fate.version = fate.version;
	in->fate.value_bytes = fate.value_bytes;
	return true;
}

enum made { MADE, NO_MEMORY, NO_RECORD };

/* Keys of removals are kept behind the items. */
static enum made fill(struct replica_worker *w, struct replica_record *in,
		      struct link_reader_record *from, uint64_t clock_ms)
{
	uint8_t *keys = (uint8_t *)&in->items[from->left];
	const struct link_item *item;
	const uint8_t *key, *value;

	while ((item = link_next_item(from, &key, &value))) {
		struct replica_item *i = &in->items[in->count++];

		i->record = in;
		if (item->flags & LINK_FATE) {
			in->count--;
			if (!take_fate(in, item, key, value))
				return NO_RECORD;
			continue;
		}
		if (!is_sane(w, in, item, key))
			return NO_RECORD;
		if (!make_item(w, i, item, key, value, clock_ms))
			return NO_MEMORY;
		if (i->item)
			continue;
		i->key = memcpy(keys, key, item->key_bytes);
		keys += item->key_bytes;
	}
	return in->count <= LAYOUT_TXN_KEYS_MAX ? MADE : NO_RECORD;
}

/* A copy is of one stripe, and has a key or none. */
static bool is_record(const struct table *t, const struct link_reader_record *from)
{
	const struct link_record *h = from->record;

	for (unsigned i = 0; i < h->stripes; i++)
		if (from->stripes[i] >= t->stripes)
			return false;
	if (h->version > LAYOUT_VERSION_MAX)
		return false;
	if (h->flags == LINK_COPY)
		return h->stripes == 1 && h->items <= 1;
	return !h->flags && h->stripes <= LAYOUT_TXN_KEYS_MAX && h->items &&
	       h->items <= LAYOUT_TXN_KEYS_MAX + 1; /* and a completion record */
}

/* `clock_ms`: as it came; 0: it comes now. */
static enum made make(struct replica_peer *q, struct link_reader_record *from, uint64_t epoch,
		      uint64_t clock_ms, struct replica_record **out)
{
	const struct link_record *h = from->record;
	struct replica_record *in;
	enum made made;

	*out = NULL;
	if (!is_record(q->worker->store->store->table, from))
		return NO_RECORD;
	in = replica_record_new(h->items, h->bytes);
	if (!in)
		return NO_MEMORY;
	in->worker = q->worker;
	in->from = q;
	in->epoch = epoch;
	in->incarnation = q->worker->incarnation;
	in->sender = q->incarnation;
	in->base = (struct record){ .version = h->version, .number = h->number,
				    .is_copy = h->flags & LINK_COPY, .count = h->stripes, .stripes = in->stripes };
	memcpy(in->stripes, from->stripes, h->stripes * sizeof *in->stripes);
	made = fill(q->worker, in, from, clock_ms);
	if (made == MADE)
		*out = in;
	else
		replica_forget(q->worker, in);
	return made;
}

/* -------------------------------------------------------------------- taken */
void replica_acknowledge(struct replica_peer *q, uint64_t epoch, uint64_t number)
{
	if (q->ack_epoch != epoch)
		q->ack_count = 0; /* of an epoch that is over: sent again */
	q->ack_epoch = epoch;
	if (q->ack_count == ACKS_MAX)
		link_peer_close(q->link, "it takes no acknowledgements");
	else
		q->acks[q->ack_count++] = number;
}

/* Those that are given out here, once this is the primary, are above. */
static void saw_versions(struct store *s, const struct replica_record *in)
{
	store_apply_saw(s, in->base.version);
	for (unsigned i = 0; i < in->count; i++)
		store_apply_saw(s, in->items[i].version);
}

/*
 * A copy takes effect before the lock is let go: the same one, come by another connection, is
 * acknowledged as known, and a change of the stripe may follow that.
 *
 * Its values may have been READ while the table was emptied for another copy.  *waits: the disk is
 * to have it before it is acknowledged.
 */
static enum records_taken take_locked(struct replica_record *in, bool *waits)
{
	struct replica_worker *w = in->worker;
	struct replica *r = w->replica;
	enum records_taken taken;

	if (in->incarnation != r->incarnation)
		return RECORDS_REFUSED;
	taken = in->base.is_copy ? records_take_copy(&r->records, in->epoch, &in->base)
				 : records_take(&r->records, in->epoch, &in->base);
	if (r->options.store->durable) {
		if (taken == RECORDS_TAKEN)
			replica_count_taken(w, &in->base);
		*waits = replica_is_on_its_way(r, &in->base);
	}
	if (taken != RECORDS_TAKEN || !in->base.is_copy)
		return taken;
	replica_do(w);
	replica_apply(w, in);
	return taken;
}

static void take_copy(struct replica_record *in)
{
	struct replica_worker *w = in->worker;
	struct replica_peer *q = in->from;
	uint64_t number = in->base.number, epoch = in->epoch;
	struct replica_write *d = NULL;
	enum records_taken taken;
	bool waits = false;

	if (w->replica->options.store->durable && !(d = replica_prepare_copy(w, in))) {
		replica_unfit(w->replica, "there is no memory to write a copy");
		replica_forget(w, in);
		return;
	}
	replica_enter(w->replica, w);
	taken = take_locked(in, &waits);
	replica_leave(w->replica);
	if (taken != RECORDS_TAKEN) {
		replica_forget(w, in);
		replica_forget_write(d);
	} else if (d) {
		replica_write_copy(w, d);
	}
	if (taken != RECORDS_REFUSED && !waits && !w->replica->is_unfit)
		replica_acknowledge(q, epoch, number);
}

/* All of it is here. */
static void take(struct replica_record *in)
{
	struct replica_worker *w = in->worker;
	struct replica_peer *q = in->from;
	uint64_t number = in->base.number, epoch = in->epoch;
	enum records_taken taken;
	bool waits = false;

	saw_versions(w->replica->options.store, in);
	if (in->base.is_copy) {
		take_copy(in);
		return;
	}
	in->from = NULL;
	replica_enter(w->replica, w);
	taken = take_locked(in, &waits);
	replica_leave(w->replica);
	if (taken != RECORDS_TAKEN)
		replica_forget(w, in);
	replica_do(w);
	if (taken == RECORDS_TAKEN && waits)
		replica_write_taken(w, in);
	if (taken != RECORDS_REFUSED && !waits && !w->replica->is_unfit)
		replica_acknowledge(q, epoch, number);
}

/* -------------------------------------------------------------------- READs */
static bool start(struct replica_peer *q, struct replica_item *i)
{
	struct link_read read = { .to = i->item->data + i->key_bytes,
				  .lkey = q->worker->store->store->table->lkey[0], /* links' */
				  .bytes = i->place.bytes, .from = i->place.address,
				  .rkey = i->place.rkey, .cookie = (uintptr_t)i };

	if (!link_peer_read(q->link, &read))
		return false;
	i->is_to_be_read = false;
	i->record->reads++;
	return true;
}

static bool start_all(struct replica_peer *q, struct replica_record *in)
{
	for (unsigned i = 0; i < in->count; i++)
		if (in->items[i].is_to_be_read && !start(q, &in->items[i]))
			return false;
	return true;
}

/* The first of the list, as far as there is room. */
void replica_go_on_reading(struct replica_peer *q)
{
	struct replica_record *in;

	while (q->link && (in = q->reading) && start_all(q, in)) {
		q->reading = in->waiting;
		if (!q->reading)
			q->reading_end = &q->reading;
	}
}

static bool is_read_whole(const struct replica_record *in)
{
	for (unsigned i = 0; i < in->count; i++)
		if (in->items[i].is_to_be_read)
			return false;
	return !in->reads;
}

void replica_stop_reading(struct replica_peer *q)
{
	struct replica_record *in, *next;

	for (in = q->reading; in; in = next) {
		next = in->waiting;
		if (in->reads) { /* the last one frees it */
			in->is_torn = true;
			for (unsigned i = 0; i < in->count; i++)
				in->items[i].is_to_be_read = false;
		} else {
			replica_forget(q->worker, in);
		}
	}
	q->reading = NULL;
	q->reading_end = &q->reading;
	replica_drop_parked(q);
}

void replica_has_read(struct replica_worker *w, uint64_t cookie, bool is_ok)
{
	struct replica_item *i = (struct replica_item *)(uintptr_t)cookie;
	struct replica_record *in = i->record;

	in->reads--;
	if (is_ok)
		store_apply_seal(w->store, i->item, i->version);
	else
		in->is_torn = true;
	if (!is_read_whole(in))
		return;
	if (in->is_torn || !in->from->link)
		replica_forget(w, in);
	else
		take(in);
}

/* Takes it, or begins to READ its values. */
static enum made begin(struct replica_peer *q, struct link_reader_record *from, uint64_t epoch,
		       uint64_t clock_ms)
{
	struct replica_record *in;
	enum made made = make(q, from, epoch, clock_ms, &in);

	if (made == NO_RECORD)
		link_peer_close(q->link, "it sent a record that can't be: do both have the same "
					 "table's seed and stripes?");
	if (made != MADE)
		return made;
	if (is_read_whole(in)) {
		take(in);
		return MADE;
	}
	in->waiting = NULL;
	*q->reading_end = in;
	q->reading_end = &in->waiting;
	return MADE;
}

void replica_heard_records(struct replica_peer *q, struct link_reader *r)
{
	struct replica *replica = q->worker->replica;
	uint64_t epoch = r->header->epoch;
	struct link_reader_record record;

	while (q->link && !replica->is_unfit && link_next_record(r, &record)) {
		const struct link_record *whole = record.record;

		if ((replica_must_park(q) || begin(q, &record, epoch, 0) == NO_MEMORY) &&
		    !replica_park(q, whole, epoch))
			link_peer_close(q->link, "it sent more than there is memory to keep");
	}
	if (q->link)
		replica_go_on_reading(q);
}

/* -------------------------------------------------------------------- without memory */
static void starve(struct replica_peer *q)
{
	uint64_t now_ns = clock_ns(), since_ns = replica_starves(q, now_ns);

	if (!compact_may_help(q->worker->store)) {
		heap_allow_waste(q->worker->store->heap);
		if (now_ns - since_ns >= FORCE_NS)
			compact_force(q->worker->store);
	}
	if (now_ns - since_ns >= STARVE_NS)
		replica_unfit(q->worker->replica, "there is no memory for another member's change: give it "
			      "as much (--memory) as its primary has");
}

void replica_take_parked(struct replica_peer *q)
{
	const struct replica *r = q->worker->replica;
	struct replica_parked *p;

	while (q->link && !r->is_unfit && (p = replica_first_parked(q))) {
		struct link_reader reader = { .at = p->record, .end = p->record + p->bytes, .left = 1 };
		struct link_reader_record record;
		bool is_wanted = p->incarnation == q->worker->incarnation && p->epoch >= q->worker->epoch;

		if (is_wanted && link_next_record(&reader, &record) &&
		    begin(q, &record, p->epoch, p->clock_ms) == NO_MEMORY) {
			starve(q);
			return;
		}
		if (q->parked == p) /* not dropped, with its connection */
			replica_unpark(q);
	}
}

/* -------------------------------------------------------------------- effect */
static int apply_item(struct replica_worker *w, struct replica_item *i)
{
	int status;

	if (!i->item) {
		status = store_apply_remove(w->store, i->key, i->key_bytes);
		return status == WIRE_NOT_FOUND ? WIRE_OK : status;
	}
	status = store_apply_put(w->store, i->item);
	if (status == WIRE_OK)
		i->item = NULL; /* the store's */
	return status;
}

/* Another worker that moves an item, or ends one's time, has the stripe for a few steps. */
static int apply_when_free(struct replica_worker *w, struct replica_item *i)
{
	uint64_t until_ns = 0;
	int status;

	while ((status = apply_item(w, i)) == STORE_ASIDE) {
		uint64_t now_ns = clock_ns();

		until_ns = until_ns ? until_ns : now_ns + REPLICA_FREE_NS;
		if (now_ns >= until_ns)
			break;
		sched_yield();
	}
	return status;
}

void replica_apply(struct replica_worker *w, struct replica_record *in)
{
	for (unsigned i = 0; i < in->count && !w->replica->is_unfit; i++) {
		switch (apply_when_free(w, &in->items[i])) {
		case WIRE_OK:
			break;
		case STORE_ASIDE:
			replica_unfit(w->replica, "a stripe is marked or locked, which nobody may "
						  "do at a backup");
			break;
		default:
			replica_unfit(w->replica, "there is no place in the index for another "
						  "member's change");
		}
	}
	if (in->fate.connection && w->replica->options.completed && !w->replica->is_unfit)
		w->replica->options.completed(w->replica->options.arg, &in->fate, in->base.reign);
	replica_forget(w, in);
}

void replica_do(struct replica_worker *w)
{
	struct record *applied = w->applied.first, *dropped = w->dropped.first, *next;

	w->applied.first = w->dropped.first = NULL;
	for (; applied; applied = next) {
		next = applied->next;
		replica_apply(w, (struct replica_record *)applied);
	}
	for (; dropped; dropped = next) {
		next = dropped->next;
		replica_forget(w, (struct replica_record *)dropped);
	}
}

void replica_send_acks(struct replica_peer *q)
{
	struct link_writer m;
	void *memory;
	unsigned n = 0;

	while (n < q->ack_count && (memory = link_peer_reserve(q->link))) {
		link_begin(&m, memory, LINK_ACKS, q->ack_epoch, q->worker->incarnation,
			   q->incarnation, 0);
		while (n < q->ack_count && m.header->count < LINK_COUNT_MAX)
			link_put_number(&m, q->acks[n++]);
		link_peer_send(q->link, link_length(&m));
	}
	q->ack_count -= n;
	memmove(q->acks, q->acks + n, q->ack_count * sizeof *q->acks);
}
