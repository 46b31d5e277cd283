/* SPDX-License-Identifier: BSD-2-Clause */
/* client/op/held.c and lockword.c: what a session holds, and how it gives it back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "client/op/held.h"
#include "client/op/lockword.h"
#include "client/op/operation.h"
#include "client/op/operation_impl.h"
#include "client/op/poll.h"
#include "tests/lib/end.h"

#define TOKEN 0x7700u
#define STRIPE 3u

static struct end *end;
static struct engine *e;

static int set_up(void **state)
{
	(void)state;
	alarm(20);
	end = end_new();
	e = end->engine;
	e->table.welcome.lock_rkey = 1;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	ops_abort(e);
	end_delete(end);
	alarm(0);
	return 0;
}

/* ------------------------------------------------------------------------------- the page */

static struct layout_held page[LAYOUT_HELD_MAX + 1];

static void test_page(void **state)
{
	static const unsigned places[] = { 0, 10, LAYOUT_HELD_MAX - 1 };
	struct held h = { .page = page };

	(void)state;
	memset(page, 0xff, sizeof page);
	h.count = 3;
	held_forget(&h);
	assert_int_equal(h.count, 0);
	for (unsigned i = 0; i < LAYOUT_HELD_MAX; i++)
		assert_true(held_say(&h, 500 + i, 1000 + i));
	assert_false(held_say(&h, 1, 2));
	for (unsigned i = 0; i < LAYOUT_HELD_MAX; i++) {
		assert_int_equal(page[i].stripe, 500 + i);
		assert_int_equal(page[i].token, 1000 + i);
	}
	/* The place of one that is given back is the next one's. */
	for (unsigned i = 0; i < 3; i++) {
		held_say_free(&h, 1000 + places[i]);
		for (unsigned k = 0; k < LAYOUT_HELD_MAX; k++)
			assert_int_equal(!page[k].token, k == places[i]);
		assert_true(held_say(&h, 7, 1000 + places[i]));
		assert_int_equal(page[places[i]].stripe, 7);
	}
	held_say_free(&h, UINT64_MAX);
	held_forget(&h);
	for (unsigned i = 0; i < LAYOUT_HELD_MAX; i++)
		assert_false(page[i].token || page[i].stripe);
	assert_int_equal(page[LAYOUT_HELD_MAX].token, UINT64_MAX);
}

/* ----------------------------------------------------------------------------- given back */

static void answer(struct end *to, const struct wire_request *q)
{
	(void)q;
	end_reply(to, (struct wire_reply){ .bucket = ~0ull }, NULL, 0);
}

static void hold(uint64_t word)
{
	end->words[STRIPE] = word;
	assert_true(held_say(&e->held, STRIPE, TOKEN));
}

static void take_all(void)
{
	for (unsigned i = 0; i < 100 && e->in_flight; i++)
		assert_int_equal(engine_look(e), 0);
	assert_int_equal(e->in_flight, 0);
	assert_null(e->done); /* nobody waits for it */
}

static void test_nobody_waits(void **state)
{
	(void)state;
	hold(TOKEN);
	stripe_release(e, STRIPE, TOKEN);
	assert_int_equal(end->words[STRIPE], 0);
	assert_int_equal(e->held.page[0].token, 0);
	take_all();
	assert_int_equal(end->messages, 0);
	assert_int_equal(e->counters.atomics, 1);
}

static void must_have_told(void)
{
	assert_int_equal(end->messages, 1);
	assert_int_equal(end->asked.op, WIRE_UNLOCK);
	assert_int_equal(end->asked.token, TOKEN);
	assert_int_equal(end->asked.version, STRIPE);
	assert_int_equal(end->asked.key_bytes, 0);
	assert_int_equal(end->asked.value_bytes, 0);
}

static const struct op *in_flight(void)
{
	for (unsigned i = 0; i < e->depth; i++)
		if (e->ops[i].phase == PHASE_REPLY)
			return &e->ops[i];
	fail_msg("nothing was sent");
	return NULL;
}

/* Somebody does: kvd hands it over, and has all of a call's time for that. */
static void test_somebody_waits(void **state)
{
	(void)state;
	hold(TOKEN | LAYOUT_LOCK_WAIT);
	e->time.limit_ns = 1000000000ull;
	stripe_release(e, STRIPE, TOKEN);
	assert_int_equal(end->words[STRIPE], TOKEN | LAYOUT_LOCK_WAIT);
	assert_int_equal(end->messages, 0);
	e->time.limit_ns = 60000000000ull;
	end->delay = 1;
	uint64_t now_ns = clock_ns();
	while (!end->messages)
		assert_int_equal(engine_look(e), 0);
	must_have_told();
	assert_true(in_flight()->deadline_ns >= now_ns + 60000000000ull);
	end_reply(end, (struct wire_reply){ .bucket = ~0ull }, NULL, 0);
	take_all();
}

/* The word is another's, if it was taken from who was slow: there is nobody to tell. */
static void test_was_taken_away(void **state)
{
	static const uint64_t words[] = { 0, 0x8800, 0x8800 | LAYOUT_LOCK_WAIT, LAYOUT_LOCK_WAIT };

	(void)state;
	for (unsigned i = 0; i < sizeof words / sizeof words[0]; i++) {
		end->words[STRIPE] = words[i];
		stripe_release(e, STRIPE, TOKEN);
		take_all();
		assert_int_equal(end->words[STRIPE], words[i]);
		assert_int_equal(end->messages, 0);
	}
}

/* Who may not change the words says so at once. */
static void test_asked_ones(void **state)
{
	(void)state;
	e->table.welcome.lock_rkey = 0;
	assert_true(stripes_are_asked(e));
	hold(TOKEN);
	end->answer = answer;
	stripe_release(e, STRIPE, TOKEN);
	must_have_told();
	assert_int_equal(e->counters.atomics, 0);
	assert_int_equal(e->held.page[0].token, 0);
	take_all();
	e->table.welcome.lock_rkey = 1;
	assert_false(stripes_are_asked(e));
}

/* kvd releases what a broken connection held. */
static void test_without_a_connection(void **state)
{
	(void)state;
	hold(TOKEN);
	health_fail(&e->health, KVD_ECONNECT, "gone");
	stripe_release(e, STRIPE, TOKEN);
	assert_int_equal(e->held.page[0].token, 0);
	assert_int_equal(end->words[STRIPE], TOKEN);
	assert_int_equal(e->in_flight, 0);
}

/* Where all operations are in flight it waits for the unlock before it. */
static void test_several(void **state)
{
	(void)state;
	for (unsigned i = 0; i + 1 < e->depth; i++)
		end_change(end, "key", NULL);
	end->words[STRIPE] = TOKEN;
	end->words[STRIPE + 1] = TOKEN + 1;
	end->delay = 5;
	stripe_release(e, STRIPE, TOKEN);
	assert_int_equal(e->in_flight, e->depth);
	stripe_release(e, STRIPE + 1, TOKEN + 1);
	assert_int_equal(end->words[STRIPE], 0);
	assert_int_equal(end->words[STRIPE + 1], 0);
	assert_int_equal(e->in_flight, e->depth);
	/* And for nothing, if the connection breaks meanwhile. */
	end->words[STRIPE] = TOKEN;
	end->status = IBV_WC_RETRY_EXC_ERR;
	end->delay = 0;
	for (unsigned i = 0; i < 100 && e->in_flight == e->depth; i++)
		engine_look(e);
	stripe_release(e, STRIPE, TOKEN);
	stripe_release(e, STRIPE, TOKEN);
	assert_int_equal(end->words[STRIPE], 0);
	assert_false(health_is_good(&e->health));
}

/* ---------------------------------------------------------------------------- tried, asked */

static void finish(struct op *op)
{
	assert_int_equal(engine_await(e, op, NULL), 0);
	op_free(op);
}

static void test_tried(void **state)
{
	struct op *op = stripe_start(e, STRIPE, TOKEN);

	(void)state;
	finish(op);
	assert_true(stripe_was_free(op));
	assert_int_equal(end->words[STRIPE], TOKEN);
	op = stripe_start(e, STRIPE, TOKEN + 1);
	finish(op);
	assert_false(stripe_was_free(op));
	assert_int_equal(end->words[STRIPE], TOKEN);
}

static void test_asked_whether_held(void **state)
{
	static const struct {
		uint64_t word;
		bool is_held;
	} cases[] = { { TOKEN, true }, { TOKEN | LAYOUT_LOCK_WAIT, true }, { 0, false },
		      { TOKEN + 2, false } };

	(void)state;
	for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		end->words[STRIPE] = cases[i].word;
		struct op *op = stripe_ask(e, STRIPE, TOKEN);
		finish(op);
		assert_int_equal(stripe_is_held(op, TOKEN), cases[i].is_held);
		assert_int_equal(end->words[STRIPE], cases[i].word);
	}
}

static void test_posted_before(void **state)
{
	struct op *op = stripe_resume(e, true);

	(void)state;
	assert_true(op->done);
	assert_ptr_equal(e->done, op);
	ops_forget_done(e);
	op_free(op);
	op = stripe_resume(e, false);
	assert_false(op->done);
	assert_null(e->done);
	assert_int_equal(op->reads, 1);
	op->reads = 0;
	op_free(op);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_page),
		TEST(test_nobody_waits),
		TEST(test_somebody_waits),
		TEST(test_was_taken_away),
		TEST(test_asked_ones),
		TEST(test_without_a_connection),
		TEST(test_several),
		TEST(test_tried),
		TEST(test_asked_whether_held),
		TEST(test_posted_before),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
