/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where a key's entry is: the directory, its two buckets, the overflow nodes behind
 * them; and when all of that says that there is none.
 */
#include <string.h>

#include "client/get/get.h"

#define CHAIN_MAX 96u
#define LAST_WORD (LAYOUT_BUCKET_BYTES - sizeof(uint64_t)) /* where a link is */

/* ----------------------------------------------------------------- entries */

static bool was_tried(const struct op *op, uint64_t word)
{
	for (unsigned i = 0; i < op->tried_count; i++)
		if (op->tried[i] == lookup_entry(word))
			return true;
	return false;
}

/* The first entry that may be the key's, or 0. */
static uint64_t candidate(const struct op *op, const uint64_t *words, unsigned count)
{
	const uint64_t mask = layout_fp_mask(op->session->table.unit_mask), fp = fp_of(op);

	for (unsigned i = 0; i < count; i++)
		if ((words[i] & mask) == fp && !layout_word_is_empty(words[i]) &&
		    !layout_word_is_chain(words[i]) && !was_tried(op, words[i]))
			return words[i];
	return 0;
}

/* The link to a node in which, or behind which, the key may be, or 0. */
static uint64_t chain_of(const struct op *op, const uint64_t *words, unsigned count)
{
	uint64_t last = words[count - 1];
	bool may = layout_word_is_chain(last) &&
		   layout_link_may_lead_to(last, fp_of(op), op->session->table.unit_mask);

	return may ? last : 0;
}

/* --------------------------------------------------------------- directory */

static uint64_t buckets_per_segment(const struct op *op)
{
	return op->session->table.welcome.segment_bytes / LAYOUT_BUCKET_BYTES;
}

/* A bucket's offset in the table, 0 if its segment's is not known. */
static uint64_t bucket_offset(const struct op *op, uint64_t bucket)
{
	uint64_t per = buckets_per_segment(op);
	uint64_t segment = atomic_load_explicit(&op->session->table.directory->offset[bucket / per],
						memory_order_relaxed);
	return segment ? segment + bucket % per * LAYOUT_BUCKET_BYTES : 0;
}

/* READs the directory entries that are missing; false if none is. */
static bool read_directory(struct op *op)
{
	const struct wire_welcome *w = &op->session->table.welcome;
	uint64_t per = buckets_per_segment(op);
	bool need[2];

	for (unsigned i = 0; i < 2; i++)
		need[i] = !op->fresh[i] && !bucket_offset(op, op->bucket[i]);
	if (!need[0] && !need[1])
		return false;
	op->phase = PHASE_DIR;
	for (unsigned i = 0; i < 2; i++)
		if (need[i])
			read_table(op, w->dir_offset + op->bucket[i] / per * 8,
				   &op->memory->small[i], 8, i == 1 || !need[1]);
		else
			op->memory->small[i] = 0;
	return true;
}

void lookup_got_directory(struct op *op)
{
	const struct wire_welcome *w = &op->session->table.welcome;
	_Atomic uint64_t *offset = op->session->table.directory->offset;

	for (unsigned i = 0; i < 2; i++) {
		uint64_t at = op->memory->small[i];
		if (at && at + w->segment_bytes <= w->table_bytes)
			atomic_store_explicit(&offset[op->bucket[i] / buckets_per_segment(op)], at,
					      memory_order_relaxed);
	}
	if (++op->attempts > ATTEMPTS_MAX)
		get_ask_server(op);
	else
		lookup_read(op);
}

/* ----------------------------------------------------------------- buckets */

/*
 * For the holder of the key's lock: a change that began before the lock was taken
 * may still be under way, and shows in no item if the key is absent.  After the
 * mark was clear once, none can be (protocols.md, 4).
 */
static void read_mark(struct op *op)
{
	const struct wire_welcome *w = &op->session->table.welcome;
	uint64_t stripe = layout_stripe(op->hash.b, w->stripes);

	op->phase = PHASE_MARK;
	read_table(op, w->marks_offset + stripe * sizeof(uint32_t), op->memory->small,
		   sizeof(uint32_t), true);
}

void lookup_got_mark(struct op *op)
{
	uint32_t mark;

	memcpy(&mark, op->memory->small, sizeof mark);
	op->mark_clear = mark == 0;
	if (op->mark_clear || ++op->attempts <= ATTEMPTS_MAX)
		lookup_read(op);
	else
		get_ask_server(op);
}

/* READs those buckets that are not fresh, with one doorbell. */
void lookup_read(struct op *op)
{
	uint64_t limit = op->session->table.welcome.dir_entries * buckets_per_segment(op);

	op->from_mirror = false;
	op->index_read = true;
	if (op->locked && !op->mark_clear) {
		read_mark(op);
		return;
	}
	if (op->bucket[0] >= limit || op->bucket[1] >= limit) {
		get_ask_server(op);
		return;
	}
	if (read_directory(op))
		return;
	op->phase = PHASE_BUCKETS;
	bool first = !op->fresh[0];
	/* The same bucket twice: one READ serves both. */
	bool second = !op->fresh[1] && !(first && op->bucket[0] == op->bucket[1]);
	if (first)
		read_table(op, bucket_offset(op, op->bucket[0]), op->memory->bucket[0],
			   LAYOUT_BUCKET_BYTES, !second);
	if (second)
		read_table(op, bucket_offset(op, op->bucket[1]), op->memory->bucket[1],
			   LAYOUT_BUCKET_BYTES, true);
}

uint64_t lookup_known(const struct kvd_session *s, const void *key, size_t key_bytes)
{
	const struct hash h = hash_key(s->table.welcome.hash_seed, key, key_bytes);
	const struct layout_view v =
		layout_view(atomic_load_explicit(s->table.buckets, memory_order_relaxed));
	const uint64_t bucket[2] = { layout_bucket_of(h.a, layout_view_epoch(&v, h.a)),
				     layout_bucket_of(h.b, layout_view_epoch(&v, h.b)) };

	return mirror_find(s->table.mirror, bucket, s->table.unit_mask, layout_fp(h.a, s->table.unit_mask));
}

/* The addresses as this client knows the index. */
void lookup_locate(struct op *op)
{
	struct layout_view v = layout_view(
		atomic_load_explicit(op->session->table.buckets, memory_order_relaxed));

	for (unsigned i = 0; i < 2; i++) {
		op->epoch[i] = layout_view_epoch(&v, hash_of(op, i));
		op->bucket[i] = layout_bucket_of(hash_of(op, i), op->epoch[i]);
		op->fresh[i] = op->complete[i] = op->mixed[i] = op->chained[i] = false;
	}
	op->doubt = false;
}

/* There is a bucket of this epoch. */
static void learn_epoch(struct op *op, uint64_t bucket, unsigned epoch)
{
	table_learn_buckets(&op->session->table, layout_buckets_floor(bucket, epoch));
}

/*
 * The bucket is at this epoch, or on the way to it.  If the key left it since op->epoch
 * it is, or was, in the next place, and not necessarily in the one of `epoch`: that
 * group may not be expanded yet (protocols.md, 12).
 */
static void step(struct op *op, unsigned i, unsigned epoch)
{
	uint64_t hash = hash_of(op, i);

	while (op->epoch[i] < epoch &&
	       layout_bucket_of(hash, op->epoch[i] + 1) == op->bucket[i])
		op->epoch[i]++;
	if (op->epoch[i] >= epoch) {
		op->complete[i] = true;
		return;
	}
	struct layout_view v = layout_view(
		atomic_load_explicit(op->session->table.buckets, memory_order_relaxed));
	unsigned known = layout_view_epoch(&v, hash);
	op->epoch[i] = known > op->epoch[i] + 1 ? known : op->epoch[i] + 1;
	op->bucket[i] = layout_bucket_of(hash, op->epoch[i]);
	op->mixed[i] = false;
}

/*
 * The bucket is being expanded, from epoch e to e + 1.  If a second sample is the
 * same, it is a consistent one (words change only forward), and the key is there
 * or in its new place: READ that next (protocols.md, 12).
 */
static void judge_mixed(struct op *op, unsigned i)
{
	const uint64_t *words = op->memory->bucket[i];
	bool same = op->mixed[i] && !memcmp(words, op->memory->before[i], LAYOUT_BUCKET_BYTES);
	unsigned older;

	memcpy(op->memory->before[i], words, LAYOUT_BUCKET_BYTES);
	op->mixed[i] = true;
	if (same && layout_bucket_epochs(words, &older))
		step(op, i, older + 1);
}

static void judge_bucket(struct op *op, unsigned i)
{
	unsigned epoch;

	if (!layout_bucket_epoch(op->memory->bucket[i], &epoch)) {
		judge_mixed(op, i);
		return;
	}
	if (epoch < op->epoch[i] || epoch > 2 * LAYOUT_LEVEL_MAX + 1)
		return; /* not a bucket of this index (any more): try again */
	learn_epoch(op, op->bucket[i], epoch);
	step(op, i, epoch);
}

/*
 * Both hashes in one group: an expansion may make an entry that stood by the one stand
 * by the other, so the two samples have to be of the same time.
 */
static bool is_one_group(const struct op *op)
{
	unsigned epoch = op->epoch[0] < op->epoch[1] ? op->epoch[0] : op->epoch[1];

	return (op->hash.a ^ op->hash.b) >> (64 - LAYOUT_BASE_BITS - (epoch >> 1)) == 0;
}

static void read_node(struct op *op, uint64_t link)
{
	uint64_t offset = offset_of(op, link);

	op->phase = PHASE_CHAIN;
	op->link = link;
	if (offset + LAYOUT_NODE_BYTES > op->session->table.welcome.table_bytes)
		get_start_over(op);
	else
		read_table(op, offset, op->memory->node, LAYOUT_NODE_BYTES, true);
}

void lookup_got_buckets(struct op *op)
{
	struct op_memory *m = op->memory;
	bool same = op->bucket[0] == op->bucket[1];
	bool read[2] = { !op->fresh[0], !op->fresh[1] };

	op->tried_count = 0; /* an entry may have become the key's since */
	op->untold = false;
	if (same && read[0] && read[1])
		memcpy(m->bucket[1], m->bucket[0], LAYOUT_BUCKET_BYTES);
	for (unsigned i = 0; i < 2; i++) {
		if (!read[i])
			continue;
		mirror_store(op->session->table.mirror, op->bucket[i], m->bucket[i]);
		op->fresh[i] = true;
	}
	lookup_search(op);
}

/* Were the nodes linked all the time that they were READ?  And is_one_group(). */
static void recheck(struct op *op)
{
	struct op_memory *m = op->memory;
	bool all = is_one_group(op);

	op->phase = PHASE_RECHECK;
	for (unsigned i = 0; i < 2; i++) {
		uint64_t offset = bucket_offset(op, op->bucket[i]);
		if (all)
			read_table(op, offset, m->before[i], LAYOUT_BUCKET_BYTES, i == 1);
		else if (op->chained[i])
			read_table(op, offset + LAST_WORD, &m->small[i], sizeof m->small[i],
				   i == 1 || !op->chained[1]);
	}
}

/* Looks for the key in what was READ; decides what comes next. */
void lookup_search(struct op *op)
{
	struct op_memory *m = op->memory;

	for (unsigned i = 0; i < 2; i++) {
		uint64_t word = op->fresh[i] ? candidate(op, m->bucket[i], LAYOUT_BUCKET_WORDS) : 0;
		if (word) {
			item_read(op, word, PHASE_ITEM);
			return;
		}
	}
	for (unsigned i = 0; i < 2; i++) {
		uint64_t link = chain_of(op, m->bucket[i], LAYOUT_BUCKET_WORDS);
		if (link && !op->chained[i]) {
			op->chain = i;
			op->chain_length = 0;
			read_node(op, link);
			return;
		}
	}
	for (unsigned i = 0; i < 2; i++)
		if (!op->complete[i])
			judge_bucket(op, i);
	bool complete = op->complete[0] && op->complete[1];
	if (complete && !op->chained[0] && !op->chained[1] && !is_one_group(op)) {
		get_no_entry(op);
		return;
	}
	if (complete) {
		recheck(op);
		return;
	}
	for (unsigned i = 0; i < 2; i++)
		if (!op->complete[i])
			op->fresh[i] = op->chained[i] = false;
	if (++op->attempts > ATTEMPTS_MAX)
		get_ask_server(op);
	else
		lookup_read(op);
}

void lookup_got_node(struct op *op)
{
	uint64_t word = candidate(op, op->memory->node, LAYOUT_NODE_WORDS);
	uint64_t link = chain_of(op, op->memory->node, LAYOUT_NODE_WORDS);

	mirror_store_node(op->session->table.mirror, op->session->table.unit_mask, op->link,
			  op->memory->node);
	if (word) {
		item_read(op, word, PHASE_ITEM);
		return;
	}
	if (link && ++op->chain_length == CHAIN_MAX) {
		get_ask_server(op); /* it is not known yet that the key is not there */
		return;
	}
	if (link) {
		read_node(op, link);
		return;
	}
	op->chained[op->chain] = true;
	lookup_search(op);
}

void lookup_got_recheck(struct op *op)
{
	const struct op_memory *m = op->memory;
	bool all = is_one_group(op);

	for (unsigned i = 0; i < 2; i++) {
		bool same = all ? !memcmp(m->before[i], m->bucket[i], LAYOUT_BUCKET_BYTES)
				: !op->chained[i] ||
					  layout_is_same_link(m->small[i],
							      m->bucket[i][LAYOUT_BUCKET_WORDS - 1],
							      op->session->table.unit_mask);
		if (!same) {
			lookup_locate(op);
			get_again(op);
			return;
		}
	}
	get_no_entry(op);
}
