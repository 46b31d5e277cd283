/* SPDX-License-Identifier: BSD-2-Clause */
/* client/get/lookup.h: where a key's entry is looked for next, from the bytes that were
 * READ: found, absent, or to be looked for again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "client/get/lookup.h"
#include "tests/lib/bytes.h"

#define ATTEMPTS_MAX 64 /* as lookup.c has it */
#define NODE_UNIT 3000u
#define ITEM_UNIT 4000u

static struct bytes *b;
static char key[BYTES_KEY]; /* its two buckets are of two groups, and stay in an expansion */

static int set_up(void **state)
{
	(void)state;
	b = bytes_new();
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	bytes_delete(b);
	return 0;
}

static bool are_two_groups(struct hash h, const void *arg)
{
	(void)arg;
	return (h.a ^ h.b) >> (64 - LAYOUT_BASE_BITS) != 0;
}

static bool are_one_bucket(struct hash h, const void *arg)
{
	(void)arg;
	return layout_bucket_of(h.a, 0) == layout_bucket_of(h.b, 0);
}

/* Two buckets, which an expansion of their group makes three. */
static bool are_one_group(struct hash h, const void *arg)
{
	return !are_two_groups(h, arg) && !are_one_bucket(h, arg);
}

/* Of two groups; by the first hash another bucket at epoch 1. */
static bool moves(struct hash h, const void *arg)
{
	return are_two_groups(h, arg) && layout_bucket_of(h.a, 0) != layout_bucket_of(h.a, 1);
}

static bool stays(struct hash h, const void *arg)
{
	return are_two_groups(h, arg) && layout_bucket_of(h.a, 0) == layout_bucket_of(h.a, 1) &&
	       layout_bucket_of(h.b, 0) == layout_bucket_of(h.b, 1);
}

/* A GET of a key like this, whose directory is known. */
static struct get *begin(bool (*is)(struct hash h, const void *arg))
{
	bytes_find_key(key, "key-", is, NULL);
	struct get *g = bytes_get(b, key, 100);
	for (unsigned i = 0; i < BYTES_SEGMENTS; i++)
		table_learn_segment(&b->table, i, 32768 + i * BYTES_SEGMENT);
	return g;
}

static uint64_t entry(void)
{
	return bytes_item(b, &(struct bytes_item){ .unit = ITEM_UNIT,
						   .key = key,
						   .value = "x",
						   .value_bytes = 10,
						   .kind = LAYOUT_LIVE,
						   .version = 7 });
}

/* What the buckets say. */
static enum step read_buckets(struct get *g)
{
	assert_int_equal(lookup_read(g), READ_BUCKETS);
	bytes_read(b, READ_BUCKETS);
	return lookup_got_buckets(g);
}

static void assert_found(struct get *g, enum step step, uint64_t word)
{
	assert_int_equal(step, READ_ITEM);
	assert_int_equal(get_entry(g->word), word);
}

/* ----------------------------------------------------------------- buckets */

static void test_found_in_either_bucket(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct get *g = begin(are_two_groups);
		uint64_t word = entry();
		bytes_enter(b, g->bucket[i], 5 + i, word);
		assert_found(g, read_buckets(g), word);
		assert_true(g->index_read);
		assert_false(g->from_mirror);
		bytes_enter(b, g->bucket[i], 5 + i, 0);
	}
}

static void test_absent(void **state)
{
	struct get *g = begin(are_two_groups);

	(void)state;
	bytes_enter(b, g->bucket[0], 0, entry() ^ 1ull << LAYOUT_FP_SHIFT); /* another's */
	assert_int_equal(read_buckets(g), ABSENT);
}

static void test_one_bucket_is_read_once(void **state)
{
	struct get *g = begin(are_one_bucket);
	uint64_t word = entry();

	(void)state;
	bytes_enter(b, g->bucket[1], 31, word);
	assert_int_equal(lookup_read(g), READ_BUCKETS);
	assert_int_equal(g->reads.count, 1);
	bytes_read(b, READ_BUCKETS);
	assert_found(g, lookup_got_buckets(g), word);
	assert_memory_equal(b->memory.bucket[0], b->memory.bucket[1], LAYOUT_BUCKET_BYTES);
}

static void test_what_was_tried_is_passed(void **state)
{
	struct get *g = begin(are_two_groups);
	uint64_t word = entry(), other = word + 100;

	(void)state;
	bytes_enter(b, g->bucket[0], 3, other);
	bytes_enter(b, g->bucket[0], 4, word);
	assert_found(g, read_buckets(g), other);
	g->tried[g->tried_count++] = other;
	assert_found(g, lookup_next(g), word);
	g->tried[g->tried_count++] = word;
	assert_int_equal(lookup_next(g), ABSENT);
	g->doubt = true; /* one of them was perhaps the key's */
	assert_int_equal(lookup_next(g), START_OVER);
	g->untold = true; /* one was not proved to be another key's */
	assert_int_equal(lookup_next(g), ASK);
}

static void test_beyond_the_directory(void **state)
{
	struct get *g = begin(are_two_groups);

	(void)state;
	g->bucket[1] = BYTES_SEGMENTS * 64;
	assert_int_equal(lookup_read(g), ASK);
}

/* --------------------------------------------------------------- directory */

static void test_directory_is_read_first(void **state)
{
	bytes_find_key(key, "key-", are_two_groups, NULL);
	struct get *g = bytes_get(b, key, 100);
	uint64_t word = entry();

	(void)state;
	bytes_enter(b, g->bucket[0], 0, word);
	assert_int_equal(lookup_read(g), READ_DIRECTORY);
	bytes_read(b, READ_DIRECTORY);
	assert_int_equal(lookup_got_directory(g), READ_BUCKETS);
	bytes_read(b, READ_BUCKETS);
	assert_found(g, lookup_got_buckets(g), word);
}

static void test_directory_without_sense(void **state)
{
	bytes_find_key(key, "key-", are_two_groups, NULL);
	struct get *g = bytes_get(b, key, 100);
	enum step step = lookup_read(g);
	unsigned lookups = 0;

	(void)state;
	while (step == READ_DIRECTORY && lookups++ < 1000) {
		bytes_read(b, step);
		b->memory.small[0] = b->memory.small[1] = LAYOUT_TABLE_BYTES_MAX; /* outside */
		step = lookup_got_directory(g);
	}
	assert_int_equal(step, ASK);
	assert_int_equal(lookups, ATTEMPTS_MAX + 1);
}

/* -------------------------------------------------------------------- mark */

static uint32_t *mark_of(const struct get *g)
{
	return (uint32_t *)(void *)(b->base + b->table.welcome.marks_offset) +
	       layout_stripe(g->hash.b, BYTES_STRIPES);
}

static void test_mark_of_a_locked_key(void **state)
{
	struct get *g = begin(are_two_groups);

	(void)state;
	g->locked = true;
	*mark_of(g) = 1;
	for (unsigned i = 0; i < ATTEMPTS_MAX; i++) {
		assert_int_equal(i ? lookup_got_mark(g) : lookup_read(g), READ_MARK);
		bytes_read(b, READ_MARK);
	}
	*mark_of(g) = 0;
	assert_int_equal(lookup_got_mark(g), READ_MARK); /* was set when it was READ */
	bytes_read(b, READ_MARK);
	assert_int_equal(lookup_got_mark(g), READ_BUCKETS);
	bytes_read(b, READ_BUCKETS);
	*mark_of(g) = 1; /* clear once is enough */
	assert_int_equal(lookup_got_buckets(g), ABSENT);
}

static void test_mark_that_stays(void **state)
{
	struct get *g = begin(are_two_groups);
	enum step step;
	unsigned lookups = 0;

	(void)state;
	g->locked = true;
	*mark_of(g) = 1;
	for (step = lookup_read(g); step == READ_MARK && lookups++ < 1000;
	     step = lookup_got_mark(g))
		bytes_read(b, step);
	assert_int_equal(step, ASK);
}

/* ------------------------------------------------------------------ growth */

/* All buckets of the key's groups at an epoch. */
static void expand(const struct get *g, unsigned epoch)
{
	for (unsigned i = 0; i < 2; i++) {
		bytes_epoch(b, layout_bucket_of(get_hash(g, i), 0), epoch, LAYOUT_BUCKET_WORDS);
		bytes_epoch(b, layout_bucket_of(get_hash(g, i), 1), epoch, LAYOUT_BUCKET_WORDS);
	}
}

static void test_later_epoch_leads_to_its_address(void **state)
{
	struct get *g = begin(moves);
	uint64_t word = entry(), before = g->bucket[0];

	(void)state;
	expand(g, 1);
	bytes_enter(b, layout_bucket_of(g->hash.a, 1), 9, word);
	assert_int_equal(read_buckets(g), READ_BUCKETS);
	assert_int_equal(g->bucket[0], layout_bucket_of(g->hash.a, 1));
	assert_true(g->bucket[0] != before);
	assert_true(b->buckets > LAYOUT_BUCKETS_MIN); /* learnt, for the next one */
	bytes_read(b, READ_BUCKETS);
	assert_found(g, lookup_got_buckets(g), word);
}

static void test_later_epoch_and_absent(void **state)
{
	struct get *g = begin(moves);
	enum step step;

	(void)state;
	expand(g, 1);
	for (step = read_buckets(g); step == READ_BUCKETS; step = lookup_got_buckets(g))
		bytes_read(b, READ_BUCKETS);
	assert_int_equal(step, ABSENT);
	assert_int_equal(g->bucket[0], layout_bucket_of(g->hash.a, 1));
}

static void test_later_epoch_at_the_same_address(void **state)
{
	struct get *g = begin(stays);

	(void)state;
	expand(g, 1);
	assert_int_equal(read_buckets(g), ABSENT);
	assert_int_equal(g->epoch[0], 1);
}

static void test_earlier_epoch_is_no_sample(void **state)
{
	struct get *g = begin(stays);
	enum step step = ABSENT;
	unsigned lookups = 0;

	(void)state;
	b->buckets = 3 * LAYOUT_BUCKETS_MIN / 2; /* all groups have three */
	lookup_locate(g);
	for (step = lookup_read(g); step == READ_BUCKETS && lookups++ < 1000;
	     step = lookup_got_buckets(g))
		bytes_read(b, READ_BUCKETS);
	assert_int_equal(step, ASK);
}

static void test_middle_of_an_expansion(void **state)
{
	struct get *g = begin(moves);
	uint64_t word = entry(), old = g->bucket[0];

	(void)state;
	bytes_epoch(b, g->bucket[1], 0, LAYOUT_BUCKET_WORDS);
	bytes_epoch(b, old, 1, 7); /* the rest is at 0 still */
	bytes_epoch(b, layout_bucket_of(g->hash.a, 1), 1, LAYOUT_BUCKET_WORDS);
	bytes_enter(b, layout_bucket_of(g->hash.a, 1), 0, word);
	memcpy(b->memory.before[0], bytes_bucket(b, old), LAYOUT_BUCKET_BYTES); /* of another GET */
	assert_int_equal(read_buckets(g), READ_BUCKETS);
	assert_int_equal(g->bucket[0], old); /* one sample says nothing yet */
	bytes_epoch(b, old, 1, 8);
	bytes_read(b, READ_BUCKETS);
	assert_int_equal(lookup_got_buckets(g), READ_BUCKETS);
	assert_int_equal(g->bucket[0], old); /* another one does not either */
	bytes_read(b, READ_BUCKETS);
	assert_int_equal(lookup_got_buckets(g), READ_BUCKETS);
	assert_int_equal(g->bucket[0], layout_bucket_of(g->hash.a, 1)); /* the same twice does */
	bytes_read(b, READ_BUCKETS);
	assert_found(g, lookup_got_buckets(g), word);
}

static void test_middle_of_an_expansion_in_the_old_place(void **state)
{
	struct get *g = begin(moves);
	uint64_t word = entry();

	(void)state;
	bytes_epoch(b, g->bucket[0], 1, 7);
	bytes_enter(b, g->bucket[0], 20, word);
	assert_found(g, read_buckets(g), word);
}

static void test_both_hashes_in_one_group(void **state)
{
	struct get *g = begin(are_one_group);

	(void)state;
	assert_int_equal(read_buckets(g), READ_LINKS);
	bytes_read(b, READ_LINKS);
	assert_int_equal(lookup_got_links(g), ABSENT);
	lookup_locate(g);
	assert_int_equal(read_buckets(g), READ_LINKS);
	bytes_enter(b, g->bucket[1], 0, entry()); /* from where it stood by the other hash */
	bytes_read(b, READ_LINKS);
	assert_int_equal(lookup_got_links(g), START_OVER);
}

/* One group before it was doubled, two since, and no bucket of the one is the other's. */
static bool are_parted(struct hash h, const void *arg)
{
	for (unsigned i = 0; i < 3; i++)
		for (unsigned k = 0; k < 3; k++)
			if (layout_bucket_of(h.a, i) == layout_bucket_of(h.b, k))
				return false;
	return !are_two_groups(h, arg) && (h.a ^ h.b) >> (64 - LAYOUT_BASE_BITS - 1) != 0;
}

/* One sample is of before the group was doubled: the key may have gone to the other since. */
static void test_one_group_in_the_earlier_sample(void **state)
{
	struct get *g = begin(are_parted);
	enum step step;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		bytes_epoch(b, layout_bucket_of(g->hash.a, i), 1, LAYOUT_BUCKET_WORDS);
		bytes_epoch(b, layout_bucket_of(g->hash.b, i), 2, LAYOUT_BUCKET_WORDS);
	}
	for (step = read_buckets(g); step == READ_BUCKETS; step = lookup_got_buckets(g))
		bytes_read(b, READ_BUCKETS);
	assert_int_equal(g->epoch[0], 1);
	assert_int_equal(g->epoch[1], 2);
	assert_int_equal(step, READ_LINKS);
	bytes_read(b, READ_LINKS);
	assert_int_equal(lookup_got_links(g), ABSENT);
}

/* ------------------------------------------------------------------ chains */

static uint64_t *node(unsigned n)
{
	return (uint64_t *)(void *)(b->base + (NODE_UNIT + n) * LAYOUT_UNIT_BYTES);
}

static uint64_t link_to(const struct get *g, unsigned n)
{
	return layout_link(NODE_UNIT + n, 1) | layout_filter(get_fp(g), b->table.unit_mask);
}

static void test_entry_in_a_node(void **state)
{
	struct get *g = begin(are_two_groups);
	uint64_t word = entry();

	(void)state;
	bytes_enter(b, g->bucket[1], LAYOUT_BUCKET_WORDS - 1, link_to(g, 0));
	node(0)[3] = link_to(g, 1);
	node(1)[0] = word;
	assert_int_equal(read_buckets(g), READ_NODE);
	bytes_read(b, READ_NODE);
	assert_int_equal(lookup_got_node(g), READ_NODE);
	bytes_read(b, READ_NODE);
	assert_found(g, lookup_got_node(g), word);
}

static void test_absent_behind_a_link(void **state)
{
	struct get *g = begin(are_two_groups);

	(void)state;
	bytes_enter(b, g->bucket[0], LAYOUT_BUCKET_WORDS - 1, link_to(g, 0));
	assert_int_equal(read_buckets(g), READ_NODE);
	bytes_read(b, READ_NODE);
	assert_int_equal(lookup_got_node(g), READ_LINKS);
	assert_int_equal(g->reads.count, 1); /* of the bucket that has one */
	bytes_read(b, READ_LINKS);
	assert_int_equal(lookup_got_links(g), ABSENT);
	/* Another key's bits in the filter meanwhile don't matter. */
	b->memory.small[0] |= layout_filter_mask(b->table.unit_mask);
	b->memory.small[1] = ~0ull; /* nor what the other bucket has none of */
	assert_int_equal(lookup_got_links(g), ABSENT);
	/* Another use of the node does. */
	b->memory.small[0] ^= layout_link(0, 2);
	assert_int_equal(lookup_got_links(g), START_OVER);
}

static void test_link_that_leads_elsewhere(void **state)
{
	struct get *g = begin(are_two_groups);

	(void)state;
	bytes_enter(b, g->bucket[0], LAYOUT_BUCKET_WORDS - 1, layout_link(NODE_UNIT, 1));
	assert_int_equal(read_buckets(g), ABSENT);
}

static void test_link_out_of_the_table(void **state)
{
	struct get *g = begin(are_two_groups);

	(void)state;
	b->table.welcome.table_bytes = NODE_UNIT * LAYOUT_UNIT_BYTES;
	bytes_enter(b, g->bucket[0], LAYOUT_BUCKET_WORDS - 1, link_to(g, 0));
	assert_int_equal(read_buckets(g), START_OVER);
}

static void test_chain_without_end(void **state)
{
	struct get *g = begin(are_two_groups);
	enum step step;
	unsigned nodes = 0;

	(void)state;
	bytes_enter(b, g->bucket[0], LAYOUT_BUCKET_WORDS - 1, link_to(g, 0));
	node(0)[3] = link_to(g, 0);
	for (step = read_buckets(g); step == READ_NODE && nodes++ < 1000; step = lookup_got_node(g))
		bytes_read(b, step);
	assert_int_equal(step, ASK);
}

/* ------------------------------------------------------------------ mirror */

static void test_mirror(void **state)
{
	struct get *g = begin(moves);
	uint64_t word = entry(), old = g->bucket[0];

	(void)state;
	assert_int_equal(lookup_in_mirror(g), 0);
	assert_int_equal(lookup_known(&b->table, g->hash), 0);
	bytes_enter(b, old, 2, word);
	read_buckets(g); /* which the mirror keeps */
	lookup_locate(g);
	assert_int_equal(lookup_in_mirror(g), word);
	assert_int_equal(lookup_known(&b->table, g->hash), word);
	b->buckets = 3 * LAYOUT_BUCKETS_MIN / 2; /* it may have moved since: a hint still */
	lookup_locate(g);
	assert_true(g->bucket[0] != old);
	assert_int_equal(lookup_in_mirror(g), word);
	assert_int_equal(lookup_known(&b->table, g->hash), 0);
}

static void test_mirror_of_a_node(void **state)
{
	struct get *g = begin(are_two_groups);
	uint64_t word = entry();

	(void)state;
	bytes_enter(b, g->bucket[0], LAYOUT_BUCKET_WORDS - 1, link_to(g, 0));
	node(0)[1] = word;
	assert_int_equal(read_buckets(g), READ_NODE);
	bytes_read(b, READ_NODE);
	lookup_got_node(g);
	assert_int_equal(lookup_in_mirror(g), word);
}

/* ----------------------------------------------------------------- restart */

static void test_restart(void **state)
{
	struct get *g = begin(are_two_groups);

	(void)state;
	g->from_mirror = g->accept_prepared = true;
	g->torn = 5;
	assert_int_equal(lookup_restart(g), READ_BUCKETS); /* a stale hint is no lookup */
	assert_int_equal(g->attempts, 0);
	assert_int_equal(g->torn, 0);
	for (unsigned i = 0; i < ATTEMPTS_MAX; i++) {
		g->reads.count = 0;
		g->fresh[0] = true;
		assert_int_equal(lookup_restart(g), READ_BUCKETS);
		assert_int_equal(g->reads.count, 2); /* nothing is taken for fresh */
	}
	assert_false(g->accept_prepared);
	g->reads.count = 0;
	assert_int_equal(lookup_restart(g), ASK);
	assert_int_equal(b->counters.retries, ATTEMPTS_MAX + 2);
}

/* The fingerprint alone does not make an entry the key's: item.c tells. */
static void test_fingerprint_of_another_key(void **state)
{
	struct get *g = begin(are_two_groups);
	uint64_t fp = get_fp(g);
	char other[BYTES_KEY];

	(void)state;
	bytes_find_key(other, "other-", bytes_has_fp, &fp);
	uint64_t word = bytes_item(b, &(struct bytes_item){ .unit = ITEM_UNIT,
							    .key = other,
							    .kind = LAYOUT_LIVE,
							    .version = 1 });
	bytes_enter(b, g->bucket[0], 0, word);
	assert_found(g, read_buckets(g), word);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_found_in_either_bucket),
		TEST(test_absent),
		TEST(test_one_bucket_is_read_once),
		TEST(test_what_was_tried_is_passed),
		TEST(test_beyond_the_directory),
		TEST(test_directory_is_read_first),
		TEST(test_directory_without_sense),
		TEST(test_mark_of_a_locked_key),
		TEST(test_mark_that_stays),
		TEST(test_later_epoch_leads_to_its_address),
		TEST(test_later_epoch_and_absent),
		TEST(test_later_epoch_at_the_same_address),
		TEST(test_earlier_epoch_is_no_sample),
		TEST(test_middle_of_an_expansion),
		TEST(test_middle_of_an_expansion_in_the_old_place),
		TEST(test_both_hashes_in_one_group),
		TEST(test_one_group_in_the_earlier_sample),
		TEST(test_entry_in_a_node),
		TEST(test_absent_behind_a_link),
		TEST(test_link_that_leads_elsewhere),
		TEST(test_link_out_of_the_table),
		TEST(test_chain_without_end),
		TEST(test_mirror),
		TEST(test_mirror_of_a_node),
		TEST(test_restart),
		TEST(test_fingerprint_of_another_key),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
