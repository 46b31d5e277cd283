/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/cluster/replica/copy.h"

#include <stdlib.h>
#include <string.h>

#include "server/cluster/record/out.h"
#include "server/cluster/replica/impl.h"
#include "server/cluster/replica/list.h"
#include "server/store/apply.h"
#include "server/store/item/stripe.h"
#include "server/table/index.h"

#define WALK_BUCKETS 64u /* of one hand, at the most */
#define ROUND_KEYS 64u
#define UNDER_WAY_KEYS 64u
#define UNDER_WAY_BYTES (1u << 20) /* beside one that is longer */
#define KEY_COST_BYTES 4096u /* of the rate, beside the item's own: what a message costs */
#define BURST_NS 2000000ull /* that it makes up for */

/* In a hand: behind it the key; without one: a stripe. */
struct entry {
	uint16_t key_bytes;
	bool is_begun;
	uint32_t stripe;
};

static struct entry *entry_at(struct replica_hand *h, size_t at)
{
	return (struct entry *)(void *)(h->entries + at);
}

static size_t entry_bytes(unsigned key_bytes)
{
	return (sizeof(struct entry) + key_bytes + 7) & ~(size_t)7;
}

/* -------------------------------------------------------------------- begun and ended */
void replica_begin_copy(struct replica *r, const struct replica_order *o)
{
	struct replica_copy *c = &r->copy;
	struct store *s = r->options.store;
	uint8_t *has = c->has;

	memset(has, 0, r->records.stripes / 8 + 1);
	*c = (struct replica_copy){ .number = o->number, .joiner = o->members, .has = has,
				    .before = r->records.numbers,
				    .version = atomic_load(&s->version),
				    .progress = { .of = index_keys(s->index) } };
	r->is_copying = true;
}

void replica_end_copy(struct replica *r)
{
	uint8_t *has = r->copy.has;

	r->copy = (struct replica_copy){ .has = has };
	r->is_copying = false;
}

bool replica_is_copied(struct replica *r, uint64_t number)
{
	bool is_copied;

	replica_enter(r, NULL);
	is_copied = r->copy.number == number && r->copy.is_walked && !r->copy.pending &&
		    !r->copy.is_spoiled;
	r->copy.is_told |= is_copied;
	replica_leave(r);
	return is_copied;
}

bool replica_is_spoiled(struct replica *r, uint64_t number)
{
	bool is_spoiled;

	replica_enter(r, NULL);
	is_spoiled = r->copy.number == number && r->copy.is_spoiled;
	replica_leave(r);
	return is_spoiled;
}

bool replica_spoil_copy(struct replica *r, uint32_t members)
{
	if (!r->copy.number || r->copy.is_told || members != r->copy.joiner)
		return false;
	r->copy.is_spoiled = true;
	r->spoiled = r->seats[__builtin_ctz(members)].incarnation;
	return true;
}

bool replica_progress(struct replica *r, struct replica_progress *progress)
{
	bool is_made;

	replica_enter(r, NULL);
	is_made = r->copy.number;
	*progress = r->copy.progress;
	replica_leave(r);
	return is_made;
}

/* -------------------------------------------------------------------- into the hand */
static bool put_entry(struct replica_hand *h, const void *key, unsigned key_bytes, uint32_t stripe)
{
	struct entry *e = entry_at(h, h->bytes);

	if (h->bytes + entry_bytes(key_bytes) > sizeof h->entries)
		return false;
	*e = (struct entry){ .key_bytes = (uint16_t)key_bytes, .stripe = stripe };
	memcpy(e + 1, key, key_bytes);
	h->bytes += entry_bytes(key_bytes);
	h->left++;
	return true;
}

struct gathering {
	struct replica_hand *hand;
	uint64_t sent; /* keys that the joiner has by a record */
	bool is_full;
};

static bool gather(void *arg, const struct layout_item *item)
{
	struct gathering *g = arg;

	if (layout_state_version(item->state) > g->hand->version)
		g->sent++;
	else
		g->is_full = !put_entry(g->hand, item->data, layout_key_bytes(item->lengths), 0);
	return !g->is_full;
}

static void walk_index(struct replica *r, struct replica_copy *c, struct gathering *g)
{
	struct index *index = r->options.store->index;

	for (unsigned n = 0; n < WALK_BUCKETS && c->bucket < index_buckets(index) && !g->is_full;
	     n++) {
		c->skip = index_walk(index, c->bucket, c->skip, &c->epoch, gather, g);
		if (g->is_full)
			return;
		c->bucket++;
		c->skip = 0;
	}
}

/* Of which nothing was sent, though something was applied there.  The lock is held. */
static bool is_lacking(const struct replica *r, uint32_t stripe)
{
	uint64_t applied = r->records.slots[stripe].applied;

	return applied && applied <= r->copy.version &&
	       !(r->copy.has[stripe / 8] >> stripe % 8 & 1);
}

static void walk_stripes(struct replica *r, struct replica_copy *c, struct replica_hand *h)
{
	replica_enter(r, NULL);
	for (unsigned n = 0; c->stripe < r->records.stripes && n < HAND_BYTES; n++, c->stripe++)
		if (is_lacking(r, c->stripe) && !put_entry(h, "", 0, c->stripe))
			break;
	replica_leave(r);
}

/* Where it stands; false: it may not begin yet, or is through. */
static bool look(struct replica *r, struct replica_copy *c)
{
	bool may;

	replica_enter(r, NULL);
	*c = r->copy;
	may = c->number && !c->is_walked && records_visible(&r->records) >= c->before;
	replica_leave(r);
	return may;
}

static void note(struct replica *r, const struct replica_copy *c, const struct gathering *g)
{
	struct replica_copy *now = &r->copy;

	replica_enter(r, NULL);
	if (now->number == c->number) {
		now->bucket = c->bucket;
		now->skip = c->skip;
		now->epoch = c->epoch;
		now->stripe = c->stripe;
		now->is_walked = c->stripe == r->records.stripes &&
				 c->bucket >= index_buckets(r->options.store->index);
		now->pending += g->hand->left;
		now->progress.keys += g->sent;
	}
	replica_leave(r);
}

/* Keys move to buckets that come later only: so the walk meets each, if one walks at a time. */
static void fill_hand(struct replica_worker *w)
{
	struct replica *r = w->replica;
	struct replica_hand *h = &w->hand;
	struct gathering g = { .hand = h };
	struct replica_copy c;

	if (atomic_flag_test_and_set_explicit(&r->is_walking, memory_order_acquire))
		return;
	if (look(r, &c)) {
		h->copy = c.number;
		h->version = c.version;
		h->bytes = 0;
		h->left = 0;
		if (c.bucket < index_buckets(r->options.store->index))
			walk_index(r, &c, &g);
		else
			walk_stripes(r, &c, h);
		note(r, &c, &g);
	}
	atomic_flag_clear_explicit(&r->is_walking, memory_order_release);
}

/* -------------------------------------------------------------------- out of it */
static struct replica_record *make(struct replica_worker *w, uint32_t stripe,
				   struct layout_item *item)
{
	struct replica_record *o = replica_record_new(1, 0);

	if (!o)
		return NULL;
	o->worker = w;
	o->copy = w->hand.copy;
	o->stripes[0] = stripe;
	o->base = (struct record){ .is_copy = true, .count = 1, .stripes = o->stripes };
	if (!item)
		return o;
	o->count = 1;
	o->items[0] = (struct replica_item){ .record = o, .item = item,
					     .key_bytes = (uint16_t)layout_key_bytes(item->lengths),
					     .version = layout_state_version(item->state) };
	return o;
}

/* The next one leaves when this one's bytes had their time. */
static void pay(struct replica *r, uint64_t bytes, uint64_t now_ns)
{
	uint64_t due_ns = r->copy_due_ns, megabytes_s = r->options.copy_bytes_s / 1000000 + 1;

	if (!r->options.copy_bytes_s)
		return;
	if (due_ns + BURST_NS < now_ns)
		due_ns = now_ns - BURST_NS;
	r->copy_due_ns = due_ns + (bytes + KEY_COST_BYTES) * 1000 / megabytes_s;
}

static uint64_t bytes_of(const struct replica_record *o)
{
	return o->count ? item_bytes(o->items[0].item) : 0;
}

static bool add(struct replica_worker *w, struct replica_record *o, uint64_t now_ns)
{
	struct replica *r = w->replica;
	const struct records *rs = &r->records;
	bool may;

	replica_enter(r, w);
	may = r->copy.number == o->copy && rs->role == RECORDS_PRIMARY && !rs->is_sealed &&
	      records_is_free(rs, &o->base);
	if (may) {
		o->is_listed = true;
		records_add_copy(&r->records, &o->base, r->copy.joiner);
		replica_append(w, o);
		r->copy.has[o->stripes[0] / 8] |= (uint8_t)(1u << o->stripes[0] % 8);
		pay(r, bytes_of(o), now_ns);
		w->hand.under_way++;
		w->hand.under_way_bytes += bytes_of(o);
	}
	replica_leave(r);
	return may;
}

/* The joiner has it by a record, or it is no more. */
static void is_there(struct replica_worker *w)
{
	struct replica_copy *c = &w->replica->copy;

	replica_enter(w->replica, w);
	if (c->number == w->hand.copy) {
		c->pending--;
		c->progress.keys++;
	}
	replica_leave(w->replica);
}

/* Its stripe is marked. */
static bool send_key(struct replica_worker *w, uint32_t stripe, struct layout_item *item,
		 uint64_t now_ns)
{
	struct replica_record *o = make(w, stripe, item);

	if (o && add(w, o, now_ns))
		return true;
	free(o);
	return false;
}

/* False: somebody else has the stripe, or there is no memory: later. */
static bool begin(struct replica_worker *w, struct entry *e, uint64_t now_ns)
{
	struct store *s = w->store->store;
	struct hash hash = hash_key(s->table->hash_seed, e + 1, e->key_bytes);
	uint32_t stripe = e->key_bytes ? (uint32_t)layout_stripe(hash.b, s->table->stripes)
				       : e->stripe;
	struct layout_item *item = NULL;

	if (!stripe_mark(s, stripe))
		return false;
	if (e->key_bytes)
		item = store_apply_find(s, hash, e + 1, e->key_bytes);
	if (item && layout_state_version(item->state) > w->hand.version)
		item = NULL;
	if (item || !e->key_bytes) {
		e->is_begun = send_key(w, stripe, item, now_ns);
		if (!e->is_begun)
			stripe_unmark(s, stripe);
		return e->is_begun;
	}
	stripe_unmark(s, stripe);
	e->is_begun = true;
	is_there(w);
	return true;
}

static bool may_go_on(const struct replica_worker *w, uint64_t now_ns)
{
	return w->hand.under_way < UNDER_WAY_KEYS && w->hand.under_way_bytes < UNDER_WAY_BYTES &&
	       now_ns >= w->replica->copy_due_ns;
}

static void empty_hand(struct replica_worker *w, uint64_t now_ns)
{
	struct replica_hand *h = &w->hand;
	unsigned begun = 0;

	for (size_t at = 0; at < h->bytes && begun < ROUND_KEYS && may_go_on(w, now_ns);) {
		struct entry *e = entry_at(h, at);

		at += entry_bytes(e->key_bytes);
		if (e->is_begun || !begin(w, e, now_ns))
			continue;
		begun++;
		h->left--;
	}
}

void replica_copy(struct replica_worker *w, uint64_t now_ns)
{
	struct replica *r = w->replica;
	uint64_t number;

	if (!r->is_copying || !may_go_on(w, now_ns))
		return;
	replica_enter(r, w);
	number = r->copy.number;
	replica_leave(r);
	if (w->hand.copy != number)
		w->hand.left = 0; /* of one that was given up */
	if (!w->hand.left)
		fill_hand(w);
	if (w->hand.left)
		empty_hand(w, now_ns);
}

bool replica_copies(const struct replica_worker *w)
{
	return w->replica->is_copying;
}

void replica_copied(struct replica_worker *w, struct replica_record *o)
{
	struct replica_copy *c = &w->replica->copy;
	uint64_t bytes = bytes_of(o);

	stripe_unmark(w->store->store, o->stripes[0]);
	w->hand.under_way--;
	w->hand.under_way_bytes -= bytes;
	replica_enter(w->replica, w);
	if (c->number == o->copy) {
		c->pending--;
		c->progress.keys += o->count;
		c->progress.bytes += bytes;
	}
	replica_leave(w->replica);
	free(o);
}
