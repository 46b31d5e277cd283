/* SPDX-License-Identifier: BSD-2-Clause */
/* What is done under locks. */
#include "tests/torture/histories/client.h"

static struct ask ask;

struct held {
	kvd_lock_t *lock;
	uint32_t number;
	unsigned keys[2], count;
	bool is_lost;
};

static void lock_both(struct me *me, struct held *h)
{
	struct kvd_key keys[2];
	struct note *notes[2];
	char names[2][KEY_BYTES];

	for (unsigned i = 0; i < 2; i++) {
		notes[i] = note_begin(me, ORDER_LOCK, h->keys[i]);
		notes[i]->op.parts[0].lock = h->number;
		keys[i] = (struct kvd_key){ names[i], key_name(me, h->keys[i], names[i]) };
	}
	int rc = kvd_lock(me->session, keys, 2, -1, &h->lock);
	for (unsigned i = 0; i < 2; i++) {
		if (note_settle(me, notes[i], rc))
			note_end(notes[i], notes[i]->op.end_ns);
		else
			h->lock = NULL;
	}
}

/* Grant and read are one instant: nobody changes the key in between. */
static void lock_one(struct me *me, struct held *h)
{
	struct note *n = note_begin(me, ORDER_LOCK, h->keys[0]);
	char name[KEY_BYTES], *value = ask.value;
	size_t bytes = 0, name_bytes = key_name(me, h->keys[0], name);
	uint64_t version = 0;

	n->op.parts[0].lock = h->number;
	n->op.start_ns = now_ns();
	int rc = kvd_lock_get(me->session, name, name_bytes, -1, value, VALUE_BYTES_MAX, &bytes,
			      &version, &h->lock);
	if (!note_settle(me, n, rc)) {
		h->lock = NULL;
		return;
	}
	struct order_part *part = note_add(n, ORDER_GET, h->keys[0]);
	part->lock = h->number;
	part->result = result_of(rc);
	part->tells = rc == KVD_OK;
	part->version = version;
	if (rc == KVD_OK)
		note_keep(me, n, 1, value, bytes);
	note_end(n, n->op.end_ns);
}

static void change_under_lock(struct me *me, struct held *h, unsigned key, enum order_kind kind)
{
	struct ask *a = &ask;
	struct answer answer = { .rc = 0 };
	char name[KEY_BYTES];
	size_t n = key_name(me, key, name);

	a->note = note_begin(me, kind, key);
	a->note->op.parts[0].lock = h->number;
	if (kind == ORDER_PUT) {
		a->bytes = make_value(me, a->value, sizeof a->value);
		note_keep(me, a->note, 0, a->value, a->bytes);
	}
	a->note->op.start_ns = now_ns();
	if (kind == ORDER_GET)
		answer.rc = kvd_locked_get(h->lock, name, n, a->value, sizeof a->value, &answer.bytes,
					   &answer.version);
	else if (kind == ORDER_PUT)
		answer.rc = kvd_locked_put(h->lock, name, n, a->value, a->bytes, &answer.version);
	else
		answer.rc = kvd_locked_del(h->lock, name, n);
	h->is_lost = answer.rc < 0;
	if (answer.rc >= 0 && kind != ORDER_GET)
		me->desk->counts[COUNT_LOCKED]++;
	complete(me, a, &answer);
}

/* An unlock isn't waited for: it takes effect at some time after. */
static void give_back(struct me *me, struct held *h)
{
	struct note *notes[2];

	for (unsigned i = 0; i < h->count; i++) {
		notes[i] = note_begin(me, ORDER_UNLOCK, h->keys[i]);
		notes[i]->op.parts[0].lock = h->number;
	}
	/* One that was lost ended before. */
	bool is_lost = is_error(me, kvd_unlock(&h->lock)) || h->is_lost;
	for (unsigned i = 0; i < h->count; i++)
		notes[i]->is_nothing = is_lost;
}

void do_locked(struct me *me)
{
	unsigned first = (unsigned)roll(me, me->board->keys);
	struct held h = { .number = me->number << 12 | ++me->locks % 4096,
			  .keys = { first, (first + 1) % me->board->keys }, .count = 1 };
	static const enum order_kind kinds[] = { ORDER_GET, ORDER_PUT, ORDER_PUT, ORDER_DEL };

	h.count += roll(me, 3) == 0;
	if (h.count == 2)
		lock_both(me, &h);
	else
		lock_one(me, &h);
	for (unsigned n = (unsigned)roll(me, 3); h.lock && n && !h.is_lost; n--)
		change_under_lock(me, &h, h.keys[roll(me, h.count)], kinds[roll(me, 4)]);
	if (h.lock)
		give_back(me, &h);
}
