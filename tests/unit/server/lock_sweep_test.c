/* SPDX-License-Identifier: BSD-2-Clause */
/* server/lock/sweep.h: one look at all words for all who ended, in short steps; on a loopback
 * that is a function. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/clock.h"
#include "common/layout.h"
#include "server/lock/sweep.h"
#include "server/lock/word.h"

#define STRIPES (1u << 20) /* the most that kvd has */
#define ENDED 960u         /* who proves nothing may come and go so often a second */
#define STEPS_MAX 100000u
#define STEPS 100u
#define LONG_NS 50000000ull /* a step of 0.1 ms on a machine that is busy */

static _Atomic uint64_t words[STRIPES];
static struct lockwords l;
static struct sweep sweep;
static struct holder h[ENDED];
static unsigned forgotten, sweeps, steps;
static uint64_t now;
static unsigned fails_at; /* the so manieth swap from now on; 0: none */
static bool is_down;      /* no loopback can be made */

struct loopback {
	int unused;
};
static struct loopback only;

int loopback_new(const struct loopback_config *config, struct loopback **loopback, struct err *err)
{
	(void)config;
	if (is_down)
		return err_set(err, -1, "down");
	*loopback = &only;
	return 0;
}

void loopback_delete(struct loopback **loopback)
{
	*loopback = NULL;
}

int loopback_cas(struct loopback *loopback, uint64_t stripe, uint64_t expected, uint64_t desired,
		 uint64_t *old, struct err *err)
{
	(void)loopback;
	if (fails_at && !--fails_at)
		return err_set(err, -1, "broken");
	*old = words[stripe];
	if (*old == expected)
		words[stripe] = desired;
	return 0;
}

static void forget(struct holder *holder)
{
	assert_true(holder->has_ended);
	forgotten++;
}

static int begin(void **state)
{
	const struct locker_config config = { .loopback = { .locks = words }, .stripes = STRIPES };
	struct err err;

	(void)state;
	memset((void *)words, 0, sizeof words);
	memset(h, 0, sizeof h);
	l = (struct lockwords){ 0 };
	if (lockwords_init(&l, &config, &err))
		return -1;
	sweep = (struct sweep){ .words = &l, .forget = forget };
	forgotten = sweeps = steps = fails_at = 0;
	is_down = false;
	now = clock_ns();
	return 0;
}

static int end(void **state)
{
	(void)state;
	sweep_drop(&sweep);
	lockwords_fini(&l);
	return 0;
}

static void add(unsigned i)
{
	h[i] = (struct holder){ .may_write = true, .may_hold = true };
	assert_true(holders_add(&l.holders, &h[i]));
}

/* One step, when its time has come. */
static void step(void)
{
	bool was_running = sweep.is_running;

	sweep.resume_ns = 0; /* the time that it rests is over */
	now = clock_ns();
	sweep_step(&sweep, now);
	sweeps += was_running && !sweep.is_running;
	assert_true(++steps < STEPS_MAX);
}

static void test_one_for_all(void **state)
{
	(void)state;
	for (unsigned i = 0; i < ENDED; i++) {
		add(i);
		words[i * 1000 + 7] = layout_token(h[i].id, 1);
	}
	for (unsigned i = 0; i < ENDED; i++)
		sweep_ended(&sweep, &h[i]);
	assert_true(sweep_is_due(&sweep));
	while (forgotten < ENDED)
		step();
	assert_in_range(sweeps, 0, 1);
	for (unsigned i = 0; i < ENDED; i++) {
		assert_int_equal(words[i * 1000 + 7], 0);
		assert_int_equal(h[i].released, 1);
		assert_null(holders_find(&l.holders, h[i].id & LAYOUT_LOCK_CONNECTION_MASK));
	}
	assert_false(sweep_is_due(&sweep));
}

/* A word that could not be released keeps its holder from being forgotten. */
static void test_swap_that_fails(void **state)
{
	(void)state;
	for (unsigned i = 0; i < ENDED; i++) {
		add(i);
		words[i * 1000 + 7] = layout_token(h[i].id, 1);
		sweep_ended(&sweep, &h[i]);
	}
	fails_at = 2;
	while (forgotten < ENDED)
		step();
	for (unsigned i = 0; i < ENDED; i++)
		assert_int_equal(words[i * 1000 + 7], 0);
}

/* The device lets nothing through for a while. */
static void test_no_way_to_the_words(void **state)
{
	(void)state;
	add(0);
	words[7] = layout_token(h[0].id, 1);
	sweep_ended(&sweep, &h[0]);
	fails_at = 1;
	is_down = true;
	for (unsigned i = 0; i < 100; i++)
		step();
	assert_int_equal(forgotten, 0);
	assert_true(words[7] != 0 && sweep_is_due(&sweep));
	is_down = false;
	l.again_ns = 0; /* its time has come */
	while (!forgotten)
		step();
	assert_int_equal(words[7], 0);
}

/* Who ends while a sweep is under way may have words behind it: the next one is theirs. */
static void test_later(void **state)
{
	(void)state;
	add(0);
	add(1);
	words[0] = layout_token(h[1].id, 1);
	sweep_ended(&sweep, &h[0]);
	sweep.resume_ns = 0;
	sweep_step(&sweep, clock_ns());
	assert_int_equal(words[0], layout_token(h[1].id, 1));
	bool was_running = sweep.is_running;
	sweep_ended(&sweep, &h[1]);
	while (forgotten < 1)
		step();
	/* Its low bits are not another's yet. */
	if (was_running)
		assert_ptr_equal(holders_find(&l.holders, h[1].id), &h[1]);
	while (forgotten < 2)
		step();
	assert_int_equal(words[0], 0);
}

/* A step ends soon, and then the thread has time for others. */
static void test_cost(void **state)
{
	uint64_t longest = 0;
	unsigned rested = 0;

	(void)state;
	add(0);
	add(1);
	/* All words: half of them of somebody who is there. */
	for (unsigned i = 0; i < STRIPES; i++)
		words[i] = layout_token(h[i % 2].id, 1);
	sweep_ended(&sweep, &h[0]);
	for (unsigned i = 0; i < STEPS; i++) {
		step();
		uint64_t took = clock_ns() - now, next = sweep.next;
		longest = took > longest ? took : longest;
		rested += sweep.resume_ns - now > 4 * took;
		sweep_step(&sweep, sweep.resume_ns - 1);
		assert_int_equal(sweep.next, next);
	}
	/* But where this thread was interrupted behind the step. */
	assert_true(rested > STEPS / 2);
	assert_in_range(longest, 1, LONG_NS);
	assert_true(sweep.is_running);
	assert_int_equal(words[1], layout_token(h[1].id, 1));
}

/* Who had no rkey of the words costs nothing. */
static void test_not_for_readers(void **state)
{
	(void)state;
	for (unsigned i = 0; i < ENDED; i++) {
		add(i);
		h[i].may_write = false;
		sweep_ended(&sweep, &h[i]);
	}
	assert_int_equal(forgotten, ENDED);
	assert_false(sweep_is_due(&sweep));
}

/* What names nobody goes, whoever wrote it; what names somebody who lives stays. */
static void test_nobody(void **state)
{
	(void)state;
	add(0);
	words[1] = layout_token(12345, 6);
	words[2] = layout_token(12345, 6) | LAYOUT_LOCK_WAIT;
	words[3] = LAYOUT_LOCK_WAIT;
	words[4] = layout_token(h[0].id, 6);
	words[5] = ~0ull;
	words[STRIPES - 1] = 1;
	l.wants_sweep = true;
	step();
	while (sweep.is_running)
		step();
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(words[i], i == 4 ? layout_token(h[0].id, 6) : 0);
	assert_int_equal(words[STRIPES - 1], 0);
	assert_false(sweep_is_due(&sweep));
	holders_remove(&l.holders, &h[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_one_for_all, begin, end),
		cmocka_unit_test_setup_teardown(test_later, begin, end),
		cmocka_unit_test_setup_teardown(test_swap_that_fails, begin, end),
		cmocka_unit_test_setup_teardown(test_no_way_to_the_words, begin, end),
		cmocka_unit_test_setup_teardown(test_cost, begin, end),
		cmocka_unit_test_setup_teardown(test_not_for_readers, begin, end),
		cmocka_unit_test_setup_teardown(test_nobody, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
