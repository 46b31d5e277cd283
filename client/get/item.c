/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/get/item.h"

#include <string.h>

#include "client/get/verify.h"
#include "common/clock.h"

#define TORN_MAX 8u
#define TORN_HINT_MAX 1u /* where only the mirror says that there is an item */
#define ITEM_BYTES_MAX                        \
	(layout_len_decode(layout_len_encode( \
		layout_item_bytes(LAYOUT_KEY_BYTES_MAX, LAYOUT_VALUE_BYTES_MAX))))

bool item_plan(struct get *g)
{
	uint64_t offset = get_offset(g, g->word), table = g->table->welcome.table_bytes;

	g->direct = false;
	g->length = layout_len_decode(layout_word_len_code(g->word));
	if (offset >= table || g->length < sizeof(struct layout_item) || g->length > ITEM_BYTES_MAX)
		return false;
	if (g->length > table - offset)
		g->length = table - offset;
	return true;
}

/* What surely has no room is READ without its value. */
void item_plan_direct(struct get *g)
{
	unsigned code = layout_word_len_code(g->word);
	uint64_t head = get_head_bytes(g), room = g->length - head;

	g->direct = true;
	g->summed = false;
	g->posted = g->arrived = 0;
	g->parts_posted = g->parts_arrived = 0;
	if (head + g->value->bytes <= layout_len_decode(code - 1))
		g->length = head;
	else if (g->value->bytes < room)
		g->length = head + g->value->bytes;
}

uint32_t item_next_part(const struct get *g)
{
	uint64_t left = g->length - g->posted;

	if (g->parts_posted - g->parts_arrived == PARTS_MAX)
		return 0;
	return (uint32_t)(left < PART_BYTES ? left : PART_BYTES);
}

void item_part_posted(struct get *g, uint32_t bytes)
{
	g->part_bytes[g->parts_posted++ % PARTS_MAX] = bytes;
	g->posted += bytes;
}

/* Of the value, by the head that came first, and as far as there is room for it. */
static uint64_t sum_bytes(const struct get *g)
{
	uint64_t bytes = layout_value_bytes(get_item(g)->lengths);

	return bytes < g->value->bytes ? bytes : g->value->bytes;
}

/* What of the item's bytes `from` to `to` is value. */
static void sum_part(struct get *g, uint64_t from, uint64_t to)
{
	uint64_t head = get_head_bytes(g), end = head + sum_bytes(g);

	if (from < head)
		from = head;
	if (to > end)
		to = end;
	if (from < to)
		value_hash_add(&g->sum, to - from);
}

/* The first part has all of the head.  What came in one part verify.c hashes. */
void item_part_arrived(struct get *g)
{
	uint32_t bytes = g->part_bytes[g->parts_arrived++ % PARTS_MAX];
	uint64_t from = g->arrived;

	g->arrived += bytes;
	if (!from && bytes < g->length) {
		hash_item_begin(&g->sum.sum, get_item(g), g->key_bytes);
		value_hash_begin(&g->sum, g->hasher, g->value, sum_bytes(g));
		g->summed = true;
	}
	if (!g->summed)
		return;
	sum_part(g, from, g->arrived);
	if (g->arrived < g->length)
		return;
	value_hash_end(&g->sum);
	g->counters->hashed_aside_bytes += g->sum.aside;
}

enum step item_again(struct get *g)
{
	g->counters->retries++;
	if (++g->torn > (g->from_mirror ? TORN_HINT_MAX : TORN_MAX))
		return START_OVER;
	return READ_ITEM;
}

/* What kvd pinned is torn only while it gets a new header. */
static enum step pinned_again(struct get *g)
{
	g->counters->retries++;
	return ++g->torn > TORN_MAX ? ASK : READ_PINNED;
}

/* A change looked at the item while it lived, perhaps, and has yet to take effect. */
static bool is_looked_at(const struct get *g)
{
	return (get_item(g)->state & LAYOUT_PENDING) || g->step != READ_ITEM;
}

/* An item whose time is over under a change is no answer: where the change asked whether the
 * key is there, it was, and will be. */
enum step item_got_live(struct get *g)
{
	const struct clock *c = &g->table->clock;
	uint64_t expiry_ms = layout_expiry_ms(get_item(g)->expiry);
	enum clock_verdict v = CLOCK_LIVE;

	if (expiry_ms) {
		uint64_t boot_ns = clock_read_ns(CLOCK_BOOTTIME), now_ns = clock_ns();
		v = clock_slept(c, boot_ns, now_ns) ? CLOCK_UNSURE
						    : clock_judge(c, expiry_ms, g->begun_ns, now_ns);
	}
	if (v == CLOCK_EXPIRED && !is_looked_at(g))
		return ABSENT;
	return v == CLOCK_LIVE ? DELIVER : ASK;
}

/* Deleted: that counts where the entry was READ since the call began. */
static enum step got_deleted(const struct get *g)
{
	return g->from_mirror ? START_OVER : ABSENT;
}

/* It is believed if another READ finds the same head: same version, live or deleted. */
enum step item_got_cut(struct get *g)
{
	const struct layout_item *item = get_item(g);
	const uint64_t head[4] = { item->state & ~LAYOUT_PENDING, item->checksum, item->lengths,
				   item->expiry };

	if (memcmp(head, g->cut, sizeof head)) {
		memcpy(g->cut, head, sizeof head);
		return g->step == READ_PINNED ? pinned_again(g) : item_again(g);
	}
	if (g->step == READ_PINNED)
		return DELIVER;
	return layout_state_kind(item->state) == LAYOUT_DELETED ? got_deleted(g) : item_got_live(g);
}

/* Keeps which version of another key's item an entry led to; false: it had been this one. */
static bool note_other(struct get *g, uint64_t entry, uint64_t version)
{
	unsigned i = 0;

	while (i < g->other_count && g->other[i].entry != entry)
		i++;
	if (i == TRIED_MAX)
		i = entry % TRIED_MAX;
	else if (i == g->other_count)
		g->other[g->other_count++].entry = 0;
	bool is_new = g->other[i].entry != entry || g->other[i].version != version;
	g->other[i].entry = entry;
	g->other[i].version = version;
	return is_new;
}

/*
 * The entry was that key's if the item was there before the entry was READ, and still
 * is: or else the memory may have been used again in between, and the entry have been
 * ours.
 */
enum step item_got_other(struct get *g, uint64_t version)
{
	uint64_t entry = get_entry(g->word);

	if (g->from_mirror || g->tried_count == TRIED_MAX || !verify_is_collision(g))
		return START_OVER;
	if (note_other(g, entry, version))
		g->doubt = true;
	g->tried[g->tried_count++] = entry;
	return NEXT_ENTRY;
}

enum step item_got_untold(struct get *g)
{
	if (g->from_mirror || g->tried_count == TRIED_MAX)
		return START_OVER;
	g->untold = true;
	g->tried[g->tried_count++] = get_entry(g->word);
	return NEXT_ENTRY;
}

/* A change of the key is under way, or shows in its item still.  In a head that was READ
 * without its value PENDING counts as in a whole item. */
static bool is_changing(const struct get *g, enum verdict v, bool cut)
{
	return v == ITEM_UPDATING || v == ITEM_PREPARED || v == ITEM_INSERTING || v == ITEM_OLD ||
	       v == ITEM_NEW ||
	       ((v == ITEM_LIVE || cut) && (get_item(g)->state & LAYOUT_PENDING));
}

/* `*cut`: it is the head of an item whose value has no room. */
static enum verdict judge(const struct get *g, bool *cut)
{
	const struct layout_item *item = get_item(g);
	enum verdict v = verify_item(g);

	*cut = v == ITEM_TORN && verify_is_cut(g);
	if (*cut)
		v = verify_cut_kind(layout_state_kind(item->state));
	if ((v == ITEM_PREPARED || v == ITEM_NEW) && g->accept_prepared &&
	    layout_state_version(item->state) == g->held_version)
		v = *cut ? ITEM_TORN : ITEM_LIVE;
	/* The holder of the lock waits until what was under way is through (4). */
	if (g->locked && is_changing(g, v, *cut)) {
		v = ITEM_TORN;
		*cut = false;
	}
	return v;
}

/* It counts also for a lock's holder: kvd looked when no change was under way. */
enum step item_got_pinned(struct get *g)
{
	switch (verify_pinned(g)) {
	case ITEM_LIVE:
		return DELIVER;
	case ITEM_DEAD:
		return ASK;
	default:
		return verify_is_cut(g) ? item_got_cut(g) : pinned_again(g);
	}
}

enum step item_got(struct get *g)
{
	bool cut;

	switch (judge(g, &cut)) {
	case ITEM_LIVE:
		return item_got_live(g);
	case ITEM_UNTOLD:
		return item_got_untold(g);
	case ITEM_OTHER:
		return item_got_other(g, layout_state_version(get_item(g)->state));
	case ITEM_TORN:
		return cut ? item_got_cut(g) : item_again(g);
	case ITEM_DEAD:
		return START_OVER;
	case ITEM_INSERTING:
		return ABSENT;
	case ITEM_DELETED:
		return got_deleted(g);
	case ITEM_UPDATING:
		return READ_UPDATING;
	case ITEM_PREPARED:
		return READ_PREPARED;
	case ITEM_OLD:
	case ITEM_NEW:
		return READ_TXN;
	}
	return START_OVER;
}
