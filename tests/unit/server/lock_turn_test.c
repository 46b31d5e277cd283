/* SPDX-License-Identifier: BSD-2-Clause */
/* server/lock/word.h: whose turn it is at a lock word, when its holder's lease is over, and what is counted
 * and told. */
#include "common/clock.h"
#include "common/log.h"
#include "tests/unit/said.h"
#include "tests/unit/server/lock_words.h"

/* Somebody waits for it, for so long. */
static void wait_for(struct queue *q, uint64_t token, uint64_t ttl_ms, uint64_t now)
{
	const struct wire_request request = { .op = WIRE_LOCK, .token = token, .ttl_ms = ttl_ms };

	assert_true(queue_push(&l.queues, q, NULL, &request, now));
}

static void expect_answer(unsigned count, uint64_t token, enum wire_status status)
{
	assert_int_equal(answers, count);
	assert_int_equal(answered, token);
	assert_int_equal(status_of_it, status);
}

/* WAIT stays for as long as there is another one behind; where the word is not that any more nobody is
 * told that they have it. */
static void test_hand_over(void **state)
{
	const uint64_t held = layout_token(9, 1), first = layout_token(10, 1), second = layout_token(11, 1);
	struct queue *q = queue_get(&l.queues, 1);

	(void)state;
	words[1] = held | LAYOUT_LOCK_WAIT;
	wait_for(q, first, 1000, clock_ns());
	wait_for(q, second, 1000, clock_ns());
	assert_false(lockword_hand_over(&l, q, held));
	assert_int_equal(answers, 0);
	assert_int_equal(l.handovers, 0);
	assert_int_equal(l.queues.waiters, 2);
	assert_true(lockword_hand_over(&l, q, words[1]));
	expect_answer(1, first, WIRE_OK);
	assert_int_equal(words[1], first | LAYOUT_LOCK_WAIT);
	assert_true(lockword_hand_over(&l, q, words[1]));
	expect_answer(2, second, WIRE_OK);
	assert_int_equal(words[1], second);
	assert_int_equal(l.handovers, 2);
	assert_true(lockword_hand_over(&l, q, words[1]));
	assert_int_equal(words[1], 0);
	assert_int_equal(l.handovers, 2);
	assert_int_equal(answers, 2);
	assert_int_equal(wakes, 0);
}

/* Changes that wait beside clients have the next turn, when they had none for a while; a word of WAIT
 * alone is left to them for 2 ms, and then is the first client's. */
static void test_turn_of_changes(void **state)
{
	const uint64_t held = layout_token(9, 1) | LAYOUT_LOCK_WAIT, first = layout_token(10, 1);
	struct queue *q = queue_get(&l.queues, 1);
	uint64_t before = clock_ns();

	(void)state;
	words[1] = held;
	wait_for(q, first, 3600000, before);
	q->watched_ns = UINT64_MAX;
	assert_false(lockword_hand_over(&l, q, held ^ 1)); /* it is not that */
	assert_int_equal(wakes, 0);
	assert_int_equal(q->opened_ns, 0);
	assert_true(lockword_hand_over(&l, q, held));
	assert_int_equal(words[1], LAYOUT_LOCK_WAIT);
	assert_int_equal(wakes, 1);
	assert_in_range(q->opened_ns, before, clock_ns());
	assert_int_equal(answers, 0);

	q->watched_ns = 0; /* no change waits any more */
	swaps = 0;
	lockword_serve(&l, q, q->opened_ns + 1999999);
	assert_int_equal(swaps, 0);
	assert_false(lockword_clear(&l, 1)); /* a sweep leaves it as well */
	assert_int_equal(words[1], LAYOUT_LOCK_WAIT);
	lockword_serve(&l, q, q->opened_ns + 2000000);
	expect_answer(1, first, WIRE_OK);
	assert_int_equal(wakes, 1);
	assert_false(l.wants_sweep); /* that word was nobody's token */
}

/* A change that was told of long ago waits no more: it is a client's turn. */
static void test_turn_of_clients(void **state)
{
	const uint64_t held = layout_token(9, 1) | LAYOUT_LOCK_WAIT, first = layout_token(10, 1);
	struct queue *q = queue_get(&l.queues, 1);

	(void)state;
	words[1] = held;
	wait_for(q, first, 3600000, clock_ns());
	q->watched_ns = 1; /* that was long ago */
	assert_true(lockword_hand_over(&l, q, held));
	expect_answer(1, first, WIRE_OK);
	assert_int_equal(wakes, 0);
	assert_int_equal(words[1], first);
}

/* Whoever waited for as long as they wanted is told so, and gets nothing. */
static void test_waited_in_vain(void **state)
{
	struct holder h = { .may_write = true, .may_hold = true };
	struct queue *q = queue_get(&l.queues, 1);
	uint64_t now = clock_ns(), token;

	(void)state;
	assert_true(holders_add(&l.holders, &h));
	words[1] = token = layout_token(h.id, 1);
	wait_for(q, layout_token(10, 1), 5, now);
	lockword_serve(&l, q, now);
	assert_int_equal(words[1], token | LAYOUT_LOCK_WAIT);
	lockword_serve(&l, q, now + 4999999);
	assert_int_equal(answers, 0);
	lockword_serve(&l, q, now + 5000000);
	expect_answer(1, layout_token(10, 1), WIRE_EBUSY);
	/* Nobody waits: the holder has its word for itself again. */
	assert_int_equal(words[1], token);
	assert_null(queue_find(&l.queues, 1));
	assert_int_equal(l.handovers, 0);
	holders_remove(&l.holders, &h);
}

/* What was released counts for who is gone, and for nobody else. */
static void test_count_of_the_gone(void **state)
{
	struct holder gone = { .may_write = true, .may_hold = true }, there = gone;
	struct holder other = { .may_write = true };

	(void)state;
	assert_true(holders_add(&l.holders, &gone));
	assert_true(holders_add(&l.holders, &there));
	assert_true(holders_add(&l.holders, &other));
	holders_end(&gone);
	words[1] = layout_token(gone.id, 1);
	words[2] = layout_token(gone.id, 2) | LAYOUT_LOCK_WAIT;
	words[3] = layout_token(there.id, 1);
	words[4] = layout_token(other.id, 1);
	words[5] = layout_token(4711, 1);
	for (unsigned i = 0; i < STRIPES; i++)
		assert_int_equal(lockword_clear(&l, i), i == 1 || i == 2 || i == 4 || i == 5);
	assert_int_equal(words[3], layout_token(there.id, 1));
	assert_int_equal(gone.released, 2);
	assert_int_equal(there.released, 0);
	assert_int_equal(other.released, 0);
	assert_int_equal(l.recovered, 2);

	/* The same where somebody waits, who has it then. */
	struct queue *q = queue_get(&l.queues, 6);
	words[6] = layout_token(gone.id, 3) | LAYOUT_LOCK_WAIT;
	wait_for(q, layout_token(there.id, 2), 3600000, clock_ns());
	lockword_serve(&l, q, clock_ns());
	expect_answer(1, layout_token(there.id, 2), WIRE_OK);
	assert_int_equal(gone.released, 3);
	assert_int_equal(l.recovered, 3);
	assert_true(l.wants_sweep);
	holders_remove(&l.holders, &gone);
	holders_remove(&l.holders, &there);
	holders_remove(&l.holders, &other);
}

/* The first look after 5 ms, and no end before the lease is over; then a while to die in. */
static void test_lease(void **state)
{
	struct holder h = { .may_write = true, .may_hold = true };
	struct queue *q = queue_get(&l.queues, 1);
	uint64_t before = clock_ns(), now = before - 8 * LEASE_NS; /* it began long ago */

	(void)state;
	assert_true(holders_add(&l.holders, &h));
	words[1] = layout_token(h.id, 1) | LAYOUT_LOCK_WAIT;
	q->watched_ns = UINT64_MAX;
	lockword_serve(&l, q, now);
	lockword_serve(&l, q, now + 4999999);
	assert_int_equal(looks, 0);
	lockword_serve(&l, q, now + 5000000);
	assert_int_equal(looks, 1);
	lockword_serve(&l, q, now + 9999999);
	assert_int_equal(looks, 1);
	lockword_serve(&l, q, now + LEASE_NS);
	assert_int_equal(looks, 2);
	assert_int_equal(fenced, 0);
	h.leases = calloc(1, 1);
	lockword_serve(&l, q, now + LEASE_NS + 1);
	assert_int_equal(fenced, h.id);
	assert_int_equal(l.fenced, 1);
	assert_null(h.leases);
	assert_in_range(q->since_ns, before, clock_ns());
	assert_int_equal(looks, 2);
	lockword_serve(&l, q, q->since_ns + LEASE_NS);
	assert_int_equal(l.fenced, 1);
	/* Another word of its is another lease. */
	words[1] = layout_token(h.id, 2) | LAYOUT_LOCK_WAIT;
	lockword_serve(&l, q, now + 3 * LEASE_NS);
	lockword_serve(&l, q, now + 4 * LEASE_NS);
	assert_int_equal(l.fenced, 1);
	lockword_serve(&l, q, now + 4 * LEASE_NS + 1);
	assert_int_equal(l.fenced, 2);
	holders_remove(&l.holders, &h);
}

/* A swap whose end is not known was done if the word is what it was to be; each is counted. */
static void test_unknown_end(void **state)
{
	(void)state;
	breaks = true;
	words[1] = 5;
	assert_true(lockword_swap(&l, 1, 0, 5));
	assert_int_equal(l.failures, 1);
	assert_null(l.loopback);
	assert_false(lockword_swap(&l, 1, 5, 6));
	assert_int_equal(l.failures, 2);
	breaks = false;
	l.again_ns = 0;
	assert_true(lockword_swap(&l, 1, 5, 6));
	assert_int_equal(l.failures, 2);
	/* It is well again: the next one that breaks is made anew at once. */
	breaks = true;
	assert_false(lockword_swap(&l, 1, 6, 7));
	breaks = false;
	assert_true(lockword_swap(&l, 1, 6, 7));
}

/* It is told once when there is no way, however often it is tried, and when there is one again. */
static void test_told_of_the_way(void **state)
{
	(void)state;
	breaks = is_down = true;
	assert_false(lockword_swap(&l, 1, 0, 5));
	said_begin();
	for (unsigned i = 0; i < 3; i++) {
		l.again_ns = 0;
		assert_false(lockwords_are_reached(&l));
	}
	said_end();
	assert_int_equal(said_lines("no way to the lock words, so locks wait"), 1);
	breaks = is_down = false;
	l.again_ns = 0;
	said_begin();
	assert_true(lockwords_are_reached(&l));
	assert_true(lockwords_are_reached(&l));
	said_end();
	assert_int_equal(said_lines("there is a way to the lock words again"), 1);
	/* The next time it is told again; one that can be made at once is no news. */
	breaks = true;
	assert_false(lockword_swap(&l, 1, 0, 5));
	breaks = false;
	l.again_ns = 0;
	said_begin();
	assert_true(lockwords_are_reached(&l));
	assert_string_equal(said_end(), "");
	loopback_delete(&l.loopback);
	is_down = true;
	said_begin();
	assert_false(lockwords_are_reached(&l));
	said_end();
	assert_int_equal(said_lines("(is the port of the first device down?): down"), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_hand_over, begin, end),
		cmocka_unit_test_setup_teardown(test_turn_of_changes, begin, end),
		cmocka_unit_test_setup_teardown(test_turn_of_clients, begin, end),
		cmocka_unit_test_setup_teardown(test_waited_in_vain, begin, end),
		cmocka_unit_test_setup_teardown(test_count_of_the_gone, begin, end),
		cmocka_unit_test_setup_teardown(test_lease, begin, end),
		cmocka_unit_test_setup_teardown(test_unknown_end, begin, end),
		cmocka_unit_test_setup_teardown(test_told_of_the_way, begin, end),
	};

	log_open("lock_turn_test", LOG_LEVEL_INFO);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
