/* SPDX-License-Identifier: BSD-2-Clause */
/* client/op/hints.c: what kvd is told of GETs, how much at once, and how soon. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "client/op/hints.h"
#include "client/op/operation.h"
#include "client/op/poll.h"
#include "common/layout.h"
#include "tests/lib/end.h"
#include "tests/unit/client/set_clock.h"

#define SHIFT 7u

static struct end *end;
static struct engine *e;

static void answer(struct end *to, const struct wire_request *q)
{
	assert_int_equal(q->op, WIRE_HINTS);
	end_reply(to, (struct wire_reply){ .bucket = ~0ull }, NULL, 0);
}

static int set_up(void **state)
{
	(void)state;
	set_clock();
	set_look_ns = 0;
	end = end_new();
	e = end->engine;
	end->answer = answer;
	e->table.welcome.hint_shift = SHIFT;
	e->table.welcome.hints_every = 1;
	hints_begin(e);
	assert_non_null(e->hints);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	ops_abort(e);
	end_delete(end);
	return 0;
}

/* A GET found an item there. */
static void note(uint32_t place)
{
	uint64_t unit = ((uint64_t)place << SHIFT) / layout_unit_bytes(e->table.unit_mask);

	hints_note(e, layout_word(unit, 1, layout_fp(3, e->table.unit_mask)));
	assert_int_equal(engine_look(e), 0);
	assert_int_equal(e->in_flight, end->answer ? 0 : 1);
}

static uint32_t told(unsigned i)
{
	uint32_t place;

	memcpy(&place, end->behind + i * sizeof place, sizeof place);
	return place;
}

static void must_have_told(unsigned messages, unsigned places, uint32_t first)
{
	assert_int_equal(end->messages, messages);
	assert_int_equal(end->asked.value_bytes, places * sizeof(uint32_t));
	assert_int_equal(end->asked.key_bytes, 0);
	for (unsigned i = 0; i < places; i++)
		assert_int_equal(told(i), first + i);
}

static void test_as_many_as_fit(void **state)
{
	(void)state;
	for (unsigned i = 0; i < WIRE_HINTS_MAX; i++) {
		assert_int_equal(end->messages, 0);
		note(1000 + i);
	}
	must_have_told(1, WIRE_HINTS_MAX, 1000);
	/* Then it begins anew, also with one of those. */
	note(1003);
	assert_int_equal(end->messages, 1);
	set_ns += 201 * SET_MS;
	note(1004);
	must_have_told(2, 2, 1003);
}

/* One place is told once, however often its turn comes; as many turns are told as soon as many places. */
static void test_few_keys(void **state)
{
	(void)state;
	for (unsigned i = 0; i < WIRE_HINTS_MAX; i++) {
		assert_int_equal(end->messages, 0);
		note(70 + i % 2);
	}
	must_have_told(1, 2, 70);
	for (unsigned i = 0; i + 1 < WIRE_HINTS_MAX; i++)
		note(0);
	assert_int_equal(end->messages, 1);
	note(0);
	must_have_told(2, 1, 0);
}

/* The first one is told after a fifth of a second, with what came since. */
static void test_age(void **state)
{
	(void)state;
	note(5);
	set_ns += 150 * SET_MS;
	note(6);
	set_ns += 50 * SET_MS;
	note(7);
	assert_int_equal(end->messages, 0);
	set_ns += 1;
	note(8);
	must_have_told(1, 4, 5);
	/* Nothing was noted since: the next one is the first. */
	set_ns += 1000 * SET_MS;
	note(9);
	assert_int_equal(end->messages, 1);
	set_ns += 200 * SET_MS;
	note(9);
	assert_int_equal(end->messages, 1);
	set_ns += 1;
	note(9);
	must_have_told(2, 1, 9);
}

/* While all operations are in flight nobody is told: those are forgotten. */
static void test_no_operation(void **state)
{
	struct op *op[END_DEPTH];

	(void)state;
	note(5);
	for (unsigned i = 0; i < END_DEPTH; i++)
		op[i] = op_new(e, NULL, NULL, 0);
	set_ns += 300 * SET_MS;
	hints_note(e, layout_word(9, 1, 0));
	assert_int_equal(end->messages, 0);
	for (unsigned i = 0; i < END_DEPTH; i++)
		op_free(op[i]);
	set_ns += 1000 * SET_MS;
	note(20);
	assert_int_equal(end->messages, 0);
	set_ns += 300 * SET_MS;
	note(21);
	must_have_told(1, 2, 20);
}

/* Of so many GETs one has its turn, whichever those are that a loop does. */
static void test_every(void **state)
{
	static const unsigned every[] = { 2, 16, 100 };

	(void)state;
	set_end_ns = UINT64_MAX;
	for (unsigned k = 0; k < 3; k++) {
		unsigned gets = 20000 * every[k], places = 6, turns[6] = { 0 };

		e->table.welcome.hints_every = every[k];
		e->table.welcome.connection_id = 77 + k;
		hints_begin(e);
		for (unsigned i = 0; i < gets; i++) {
			end->messages = 0;
			set_ns += 1000 * SET_MS; /* the second turn tells of both */
			note(i % places);
			for (unsigned n = 0; end->messages && n < end->asked.value_bytes / 4; n++)
				turns[told(n)]++;
		}
		for (unsigned i = 0; i < places; i++)
			assert_in_range(turns[i] * places, 17000, 21000);
	}
}

/* One that wants none is told none, also where the one before did. */
static void test_not_wanted(void **state)
{
	(void)state;
	note(1);
	e->table.welcome.hints_every = 0;
	hints_begin(e);
	assert_null(e->hints);
	e->table.welcome.hints_every = 1;
	hints_begin(e);
	set_ns += 300 * SET_MS;
	note(2);
	set_ns += 300 * SET_MS;
	note(3);
	must_have_told(1, 2, 2);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_as_many_as_fit),
		TEST(test_few_keys),
		TEST(test_age),
		TEST(test_no_operation),
		TEST(test_every),
		TEST(test_not_wanted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
