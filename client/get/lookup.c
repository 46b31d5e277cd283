/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where a key's entry is: the directory, its two buckets, the overflow nodes behind
 * them; and when all of that says that there is none.
 */
#include <string.h>

#include "client/get/lookup.h"

#define ATTEMPTS_MAX 64u /* lookups of one GET; then kvd is asked */
#define CHAIN_MAX 96u
#define LAST_WORD (LAYOUT_BUCKET_BYTES - sizeof(uint64_t)) /* where a link is */

/* ----------------------------------------------------------------- entries */

static bool was_tried(const struct get *g, uint64_t word)
{
	for (unsigned i = 0; i < g->tried_count; i++)
		if (g->tried[i] == get_entry(word))
			return true;
	return false;
}

/* The first entry that may be the key's, or 0. */
static uint64_t candidate(const struct get *g, const uint64_t *words, unsigned count)
{
	const uint64_t mask = layout_fp_mask(g->table->unit_mask), fp = get_fp(g);

	for (unsigned i = 0; i < count; i++)
		if ((words[i] & mask) == fp && !layout_word_is_empty(words[i]) &&
		    !layout_word_is_chain(words[i]) && !was_tried(g, words[i]))
			return words[i];
	return 0;
}

/* The link to a node in which, or behind which, the key may be, or 0. */
static uint64_t chain_of(const struct get *g, const uint64_t *words, unsigned count)
{
	uint64_t last = words[count - 1];
	bool may = layout_word_is_chain(last) &&
		   layout_link_may_lead_to(last, get_fp(g), g->table->unit_mask);

	return may ? last : 0;
}

/* --------------------------------------------------------------- directory */

/* The next lookup; there is an end to them, because what is READ may never make sense. */
static enum step look_again(struct get *g)
{
	return ++g->attempts > ATTEMPTS_MAX ? ASK : lookup_read(g);
}

/* READs the directory entries that are missing; false if none is. */
static bool read_directory(struct get *g)
{
	uint64_t per = table_buckets_per_segment(g->table);
	bool missing = false;

	for (unsigned i = 0; i < 2; i++) {
		g->memory->small[i] = 0;
		if (g->fresh[i] || table_bucket_offset(g->table, g->bucket[i]))
			continue;
		get_add_read(g, g->table->welcome.dir_offset + g->bucket[i] / per * 8,
			     &g->memory->small[i], 8);
		missing = true;
	}
	return missing;
}

enum step lookup_got_directory(struct get *g)
{
	uint64_t per = table_buckets_per_segment(g->table);

	for (unsigned i = 0; i < 2; i++)
		table_learn_segment(g->table, g->bucket[i] / per, g->memory->small[i]);
	return look_again(g);
}

/* ----------------------------------------------------------------- buckets */

/*
 * For the holder of the key's lock: a change that began before the lock was taken
 * may still be under way, and shows in no item if the key is absent.  After the
 * mark was clear once, none can be (protocols.md, 4).
 */
static void read_mark(struct get *g)
{
	const struct wire_welcome *w = &g->table->welcome;
	uint64_t stripe = layout_stripe(g->hash.b, w->stripes);

	get_add_read(g, w->marks_offset + stripe * sizeof(uint32_t), g->memory->small,
		     sizeof(uint32_t));
}

enum step lookup_got_mark(struct get *g)
{
	uint32_t mark;

	memcpy(&mark, g->memory->small, sizeof mark);
	g->mark_clear = mark == 0;
	return g->mark_clear ? lookup_read(g) : look_again(g);
}

static void read_bucket(struct get *g, unsigned i, uint64_t *to)
{
	get_add_read(g, table_bucket_offset(g->table, g->bucket[i]), to, LAYOUT_BUCKET_BYTES);
}

enum step lookup_read(struct get *g)
{
	uint64_t limit = g->table->welcome.dir_entries * table_buckets_per_segment(g->table);

	g->from_mirror = false;
	g->index_read = true;
	if (g->locked && !g->mark_clear) {
		read_mark(g);
		return READ_MARK;
	}
	if (g->bucket[0] >= limit || g->bucket[1] >= limit)
		return ASK;
	if (read_directory(g))
		return READ_DIRECTORY;
	bool first = !g->fresh[0];
	if (first)
		read_bucket(g, 0, g->memory->bucket[0]);
	/* The same bucket twice: one READ serves both. */
	if (!g->fresh[1] && !(first && g->bucket[0] == g->bucket[1]))
		read_bucket(g, 1, g->memory->bucket[1]);
	return READ_BUCKETS;
}

enum step lookup_restart(struct get *g)
{
	bool hint = g->from_mirror;

	lookup_locate(g);
	g->counters->retries++;
	g->torn = 0;
	if (hint)
		return lookup_read(g);
	g->accept_prepared = false;
	return look_again(g);
}

/* No candidate is left: the key is absent, or one of them was inconclusive. */
static enum step no_entry(const struct get *g)
{
	return g->untold ? ASK : g->doubt ? START_OVER : ABSENT;
}

uint64_t lookup_known(const struct remote_table *t, struct hash h)
{
	const struct layout_view v =
		layout_view(atomic_load_explicit(t->buckets, memory_order_relaxed));
	const uint64_t bucket[2] = { layout_bucket_of(h.a, layout_view_epoch(&v, h.a)),
				     layout_bucket_of(h.b, layout_view_epoch(&v, h.b)) };

	return mirror_find(t->mirror, bucket, t->unit_mask, layout_fp(h.a, t->unit_mask));
}

void lookup_locate(struct get *g)
{
	struct layout_view v =
		layout_view(atomic_load_explicit(g->table->buckets, memory_order_relaxed));

	for (unsigned i = 0; i < 2; i++) {
		g->epoch[i] = layout_view_epoch(&v, get_hash(g, i));
		g->bucket[i] = layout_bucket_of(get_hash(g, i), g->epoch[i]);
		g->fresh[i] = g->complete[i] = g->mixed[i] = g->chained[i] = false;
	}
	g->doubt = false;
}

/* Where they were before the last expansion of their groups. */
static uint64_t in_mirror_before(const struct get *g)
{
	uint64_t before[2];

	for (unsigned i = 0; i < 2; i++)
		before[i] = g->epoch[i] ? layout_bucket_of(get_hash(g, i), g->epoch[i] - 1)
					: g->bucket[i];
	return mirror_find(g->table->mirror, before, g->table->unit_mask, get_fp(g));
}

uint64_t lookup_in_mirror(const struct get *g)
{
	uint64_t word = mirror_find(g->table->mirror, g->bucket, g->table->unit_mask, get_fp(g));

	return word ? word : in_mirror_before(g);
}

/* There is a bucket of this epoch. */
static void learn_epoch(struct get *g, uint64_t bucket, unsigned epoch)
{
	table_learn_buckets(g->table, layout_buckets_floor(bucket, epoch));
}

/*
 * The bucket is at this epoch, or on the way to it.  If the key left it since g->epoch
 * it is, or was, in the next place, and not necessarily in the one of `epoch`: that
 * group may not be expanded yet (protocols.md, 12).
 */
static void step(struct get *g, unsigned i, unsigned epoch)
{
	uint64_t hash = get_hash(g, i);

	while (g->epoch[i] < epoch && layout_bucket_of(hash, g->epoch[i] + 1) == g->bucket[i])
		g->epoch[i]++;
	if (g->epoch[i] >= epoch) {
		g->complete[i] = true;
		return;
	}
	struct layout_view v =
		layout_view(atomic_load_explicit(g->table->buckets, memory_order_relaxed));
	unsigned known = layout_view_epoch(&v, hash);
	g->epoch[i] = known > g->epoch[i] + 1 ? known : g->epoch[i] + 1;
	g->bucket[i] = layout_bucket_of(hash, g->epoch[i]);
	g->mixed[i] = false;
}

/*
 * The bucket is being expanded, from epoch e to e + 1.  If a second sample is the
 * same, it is a consistent one (words change only forward), and the key is there
 * or in its new place: READ that next (protocols.md, 12).
 */
static void judge_mixed(struct get *g, unsigned i)
{
	const uint64_t *words = g->memory->bucket[i];
	bool same = g->mixed[i] && !memcmp(words, g->memory->before[i], LAYOUT_BUCKET_BYTES);
	unsigned older;

	memcpy(g->memory->before[i], words, LAYOUT_BUCKET_BYTES);
	g->mixed[i] = true;
	if (same && layout_bucket_epochs(words, &older))
		step(g, i, older + 1);
}

static void judge_bucket(struct get *g, unsigned i)
{
	unsigned epoch;

	if (!layout_bucket_epoch(g->memory->bucket[i], &epoch)) {
		judge_mixed(g, i);
		return;
	}
	if (epoch < g->epoch[i] || epoch > 2 * LAYOUT_LEVEL_MAX + 1)
		return; /* not a bucket of this index (any more): try again */
	learn_epoch(g, g->bucket[i], epoch);
	step(g, i, epoch);
}

/*
 * Both hashes in one group: an expansion may make an entry that stood by the one stand
 * by the other, so the two samples have to be of the same time.
 */
static bool is_one_group(const struct get *g)
{
	unsigned epoch = g->epoch[0] < g->epoch[1] ? g->epoch[0] : g->epoch[1];

	return (g->hash.a ^ g->hash.b) >> (64 - LAYOUT_BASE_BITS - (epoch >> 1)) == 0;
}

static enum step read_node(struct get *g, uint64_t link)
{
	uint64_t offset = get_offset(g, link);

	g->link = link;
	if (offset + LAYOUT_NODE_BYTES > g->table->welcome.table_bytes)
		return START_OVER;
	get_add_read(g, offset, g->memory->node, LAYOUT_NODE_BYTES);
	return READ_NODE;
}

enum step lookup_got_buckets(struct get *g)
{
	struct op_memory *m = g->memory;
	bool same = g->bucket[0] == g->bucket[1];
	bool read[2] = { !g->fresh[0], !g->fresh[1] };

	g->tried_count = 0; /* an entry may have become the key's since */
	g->untold = false;
	if (same && read[0] && read[1])
		memcpy(m->bucket[1], m->bucket[0], LAYOUT_BUCKET_BYTES);
	for (unsigned i = 0; i < 2; i++) {
		if (!read[i])
			continue;
		mirror_store(g->table->mirror, g->bucket[i], m->bucket[i]);
		g->fresh[i] = true;
	}
	return lookup_next(g);
}

/* Were the nodes linked all the time that they were READ?  And is_one_group(). */
static enum step read_links(struct get *g)
{
	struct op_memory *m = g->memory;
	bool all = is_one_group(g);

	for (unsigned i = 0; i < 2; i++) {
		if (all)
			read_bucket(g, i, m->before[i]);
		else if (g->chained[i])
			get_add_read(g, table_bucket_offset(g->table, g->bucket[i]) + LAST_WORD,
				     &m->small[i], sizeof m->small[i]);
	}
	return READ_LINKS;
}

/* The buckets that are no samples to go by are READ again. */
static enum step read_incomplete(struct get *g)
{
	for (unsigned i = 0; i < 2; i++)
		if (!g->complete[i])
			g->fresh[i] = g->chained[i] = false;
	return look_again(g);
}

enum step lookup_next(struct get *g)
{
	const struct op_memory *m = g->memory;

	for (unsigned i = 0; i < 2; i++) {
		g->word = g->fresh[i] ? candidate(g, m->bucket[i], LAYOUT_BUCKET_WORDS) : 0;
		if (g->word)
			return READ_ITEM;
	}
	for (unsigned i = 0; i < 2; i++) {
		uint64_t link = chain_of(g, m->bucket[i], LAYOUT_BUCKET_WORDS);
		if (link && !g->chained[i]) {
			g->chain = i;
			g->chain_length = 0;
			return read_node(g, link);
		}
	}
	for (unsigned i = 0; i < 2; i++)
		if (!g->complete[i])
			judge_bucket(g, i);
	if (!g->complete[0] || !g->complete[1])
		return read_incomplete(g);
	return g->chained[0] || g->chained[1] || is_one_group(g) ? read_links(g) : no_entry(g);
}

enum step lookup_got_node(struct get *g)
{
	const uint64_t *node = g->memory->node;
	uint64_t link = chain_of(g, node, LAYOUT_NODE_WORDS);

	mirror_store_node(g->table->mirror, g->table->unit_mask, g->link, node);
	g->word = candidate(g, node, LAYOUT_NODE_WORDS);
	if (g->word)
		return READ_ITEM;
	if (link && ++g->chain_length == CHAIN_MAX)
		return ASK; /* it is not known yet that the key is not there */
	if (link)
		return read_node(g, link);
	g->chained[g->chain] = true;
	return lookup_next(g);
}

static bool is_same_link(const struct get *g, unsigned i)
{
	return !g->chained[i] || layout_is_same_link(g->memory->small[i],
						     g->memory->bucket[i][LAYOUT_BUCKET_WORDS - 1],
						     g->table->unit_mask);
}

enum step lookup_got_links(struct get *g)
{
	const struct op_memory *m = g->memory;
	bool all = is_one_group(g);

	for (unsigned i = 0; i < 2; i++) {
		bool same = all ? !memcmp(m->before[i], m->bucket[i], LAYOUT_BUCKET_BYTES)
				: is_same_link(g, i);
		if (!same)
			return START_OVER;
	}
	return no_entry(g);
}
