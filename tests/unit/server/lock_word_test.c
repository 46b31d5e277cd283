/* SPDX-License-Identifier: BSD-2-Clause */
/* server/lock/word.h: what is done with one lock word, on a loopback that is a function. */
#include "common/clock.h"
#include "server/lock/lease.h"
#include "tests/unit/server/lock_words.h"

/* kvd serves no locks where two could hold one: before anybody asks for it. */
static void test_litmus(void **state)
{
	struct err err;

	(void)state;
	assert_int_equal(words[0], 0);
	lockwords_fini(&l);
	is_unseen = true;
	assert_int_equal(init(&err), -1);
	assert_non_null(strstr(err.text, "does not see a compare-and-swap"));
	lockwords_fini(&l);
	is_unseen = false;
	words[0] = 5; /* somebody's */
	assert_int_equal(init(&err), -1);
	assert_non_null(strstr(err.text, "does not see a compare-and-swap"));
	assert_int_equal(words[0], 5);
	lockwords_fini(&l);
	words[0] = 0;
	lies = true;
	assert_int_equal(init(&err), -1);
	assert_non_null(strstr(err.text, "does not see a compare-and-swap"));
	lockwords_fini(&l);
	words[0] = 0;
	breaks = true;
	assert_int_equal(init(&err), -1);
	assert_string_equal(err.text, "broken");
}

/* The device's port is down: words stay as they are, and kvd lives; when it is up, locks go on. */
static void test_no_way_to_the_words(void **state)
{
	const uint64_t token = layout_token(77, 1);

	(void)state;
	words[1] = token;
	breaks = is_down = true;
	assert_false(lockword_swap(&l, 1, token, 0));
	assert_false(lockwords_are_reached(&l));
	tries = 0;
	for (unsigned i = 0; i < 1000; i++)
		assert_false(lockword_clear(&l, 1));
	assert_in_range(tries, 0, 1); /* a try may take half a second */
	assert_int_equal(words[1], token);
	breaks = is_down = false;
	l.again_ns = 0; /* its time has come */
	assert_true(lockword_clear(&l, 1));
	assert_int_equal(words[1], 0);
}

/* One that breaks is made anew at once; what breaks again is left alone for a while. */
static void test_breaks_again(void **state)
{
	(void)state;
	breaks = true;
	tries = 0;
	assert_false(lockword_swap(&l, 1, 0, 5));
	assert_int_equal(tries, 0);
	for (unsigned i = 0; i < 1000; i++)
		assert_false(lockword_swap(&l, 1, 0, 5));
	assert_int_equal(tries, 1);
	breaks = false;
	l.again_ns = 0;
	assert_true(lockword_swap(&l, 1, 0, 5));
	assert_int_equal(words[1], 5);
}

/* A writer that changes its word in a loop: the others' turn comes nevertheless. */
static void test_flips(void **state)
{
	struct queue *q = queue_get(&l.queues, 1);

	(void)state;
	flips = true;
	words[1] = layout_token(77, 1); /* of nobody: to be released */
	q->watched_ns = UINT64_MAX;
	lockword_serve(&l, q, clock_ns());
	assert_int_equal(swaps, TRIES);
	assert_non_null(queue_find(&l.queues, 1));
	flips = false;
	lockword_serve(&l, q, clock_ns());
	assert_int_equal(words[1] & ~LAYOUT_LOCK_WAIT, 0);
}

/* The same where somebody holds it, who is to be told that others wait; and where none do any more. */
static void test_flips_of_a_holder(void **state)
{
	struct holder h = { .may_write = true, .may_hold = true };
	struct queue *q = queue_get(&l.queues, 1);
	uint64_t now = clock_ns();

	(void)state;
	assert_true(holders_add(&l.holders, &h));
	flips = true;
	words[1] = layout_token(h.id, 1);
	q->watched_ns = UINT64_MAX;
	lockword_serve(&l, q, now);
	assert_int_equal(swaps, TRIES);
	assert_int_equal(words[1], layout_token(h.id, 1)); /* changed so many times */
	flips = false;
	lockword_serve(&l, q, now);
	assert_int_equal(swaps, TRIES + 1);
	assert_int_equal(words[1], layout_token(h.id, 1) | LAYOUT_LOCK_WAIT);

	flips = true;
	q->watched_ns = now;
	lockword_serve(&l, q, now);
	assert_int_equal(swaps, 2 * TRIES + 1);
	assert_ptr_equal(queue_find(&l.queues, 1), q);
	flips = false;
	lockword_serve(&l, q, now);
	assert_int_equal(swaps, 2 * TRIES + 2);
	assert_int_equal(words[1], layout_token(h.id, 1));
	assert_null(queue_find(&l.queues, 1));
	holders_remove(&l.holders, &h);
}

/* Of two that have a word's bits in common at different times, neither is taken for the other:
 * who has them now is asked and fenced, by all of its id. */
static void test_twins(void **state)
{
	struct holder first = { .may_write = true, .may_hold = true }, second = first, third = first;
	struct queue *q = queue_get(&l.queues, 1);
	uint64_t now = clock_ns();

	(void)state;
	assert_true(holders_add(&l.holders, &first));
	/* So many later, with one that holds. */
	l.holders.last += LAYOUT_LOCK_CONNECTION_MASK;
	assert_true(holders_add(&l.holders, &second));
	assert_int_not_equal(second.id & LAYOUT_LOCK_CONNECTION_MASK, first.id);
	holders_end(&first);
	holders_remove(&l.holders, &first);
	l.holders.last = 2 * (LAYOUT_LOCK_CONNECTION_MASK + 1);
	assert_true(holders_add(&l.holders, &third));
	assert_int_equal(third.id & LAYOUT_LOCK_CONNECTION_MASK, first.id);

	words[1] = layout_token(first.id, 1);
	q->watched_ns = UINT64_MAX;
	lockword_serve(&l, q, now);
	lockword_serve(&l, q, now + LOOK_NS);
	assert_int_equal(looked_at, third.id);
	lockword_serve(&l, q, now + 2 * LEASE_NS);
	assert_int_equal(fenced, third.id);
	holders_remove(&l.holders, &second);
	holders_remove(&l.holders, &third);
}

/* However many of its locks are waited for, a holder is looked at once in a while; that look is for
 * all of them. */
static void test_one_look_for_all(void **state)
{
	struct holder h = { .may_write = true, .may_hold = true };
	uint64_t now = clock_ns();

	(void)state;
	assert_true(holders_add(&l.holders, &h));
	for (unsigned i = 0; i < STRIPES; i++) {
		struct queue *q = queue_get(&l.queues, i);
		words[i] = layout_token(h.id, i + 1);
		q->watched_ns = UINT64_MAX;
		lockword_serve(&l, q, now);
	}
	looks = 0;
	for (unsigned round = 1; round <= 3; round++)
		for (unsigned i = 0; i < STRIPES; i++) {
			lockword_serve(&l, queue_find(&l.queues, i), now + round * LOOK_NS);
			assert_int_equal(looks, round);
		}
	for (unsigned i = 0; i < STRIPES; i++) {
		assert_true(queue_find(&l.queues, i)->asked <= l.looks);
		words[i] = 0;
	}
	holders_remove(&l.holders, &h);
}

/* Whoever can hold nothing stands in a word like nobody. */
static void test_holds_nothing(void **state)
{
	struct holder h = { .may_write = true };
	struct queue *q = queue_get(&l.queues, 1);

	(void)state;
	assert_true(holders_add(&l.holders, &h));
	words[1] = layout_token(h.id, 1);
	q->watched_ns = UINT64_MAX;
	lockword_serve(&l, q, clock_ns());
	assert_int_equal(words[1], 0);
	holders_remove(&l.holders, &h);
}

/* A holder's lease of a lock begins once. Of more locks than it may hold none is remembered, until one
 * of the others is free. */
static void test_begin_of_leases(void **state)
{
	struct holder h = { 0 };
	uint64_t token[LAYOUT_HELD_MAX + 1];

	(void)state;
	for (unsigned i = 0; i <= LAYOUT_HELD_MAX; i++)
		words[i] = token[i] = layout_token(1, i + 1);
	for (unsigned i = 0; i < LAYOUT_HELD_MAX; i++)
		assert_int_equal(lease_since(&l, &h, i, token[i], 100 + i), 100 + i);
	for (unsigned i = 0; i < LAYOUT_HELD_MAX; i++)
		assert_int_equal(lease_since(&l, &h, i, token[i], 1000), 100 + i);
	for (unsigned since = 500; since < 503; since++)
		assert_int_equal(lease_since(&l, &h, LAYOUT_HELD_MAX, token[LAYOUT_HELD_MAX], since), since);
	words[3] = LAYOUT_LOCK_WAIT;
	assert_int_equal(lease_since(&l, &h, LAYOUT_HELD_MAX, token[LAYOUT_HELD_MAX], 700), 700);
	assert_int_equal(lease_since(&l, &h, LAYOUT_HELD_MAX, token[LAYOUT_HELD_MAX], 800), 700);
	assert_int_equal(lease_since(&l, &h, 3, token[3], 900), 900);
	assert_int_equal(lease_since(&l, &h, 3, token[3], 901), 901);
	assert_int_equal(lease_since(&l, &h, 4, token[4], 902), 104);
	free(h.leases);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_litmus, begin, end),
		cmocka_unit_test_setup_teardown(test_no_way_to_the_words, begin, end),
		cmocka_unit_test_setup_teardown(test_breaks_again, begin, end),
		cmocka_unit_test_setup_teardown(test_flips, begin, end),
		cmocka_unit_test_setup_teardown(test_flips_of_a_holder, begin, end),
		cmocka_unit_test_setup_teardown(test_twins, begin, end),
		cmocka_unit_test_setup_teardown(test_one_look_for_all, begin, end),
		cmocka_unit_test_setup_teardown(test_holds_nothing, begin, end),
		cmocka_unit_test_setup_teardown(test_begin_of_leases, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
