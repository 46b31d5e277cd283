/* SPDX-License-Identifier: BSD-2-Clause */
/* client/op/poll.c: a session whose every poll finds something still looks at the clock and at rdma_cm.
 * client/op/message.c: messages that kvd was too busy for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "client/op/message.h"
#include "client/op/operation.h"
#include "client/op/operation_impl.h"
#include "client/op/poll.h"
#include "client/op/post.h"
#include "tests/lib/end.h"

#define KEY "key"
#define LIMIT_NS 200000000ull     /* of the change that is not answered */
#define PATIENCE_NS 5000000000ull /* of this test */

static struct end *end;
static struct engine *e;
static unsigned answered;

/* kvd answers GETs, and no change. */
static void answer(struct end *to, const struct wire_request *q)
{
	if (q->op != WIRE_GET)
		return;
	answered++;
	end_reply(to, (struct wire_reply){ .status = WIRE_NOT_FOUND, .bucket = ~0ull }, NULL, 0);
}

static int set_up(void **state)
{
	(void)state;
	end = end_new();
	e = end->engine;
	e->get = KVD_GET_MESSAGE;
	end->answer = answer;
	answered = 0;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	end_delete(end);
	return 0;
}

/* A GET is submitted and complete at each poll, until the connection is given up for the change;
 * what that ends with. */
static int result_among_gets(int wait_ms, const char *change)
{
	uint64_t end_ns = clock_ns() + PATIENCE_NS;
	char value[8], get;

	while (clock_ns() < end_ns) {
		struct kvd_completion done[2];
		int rc = kvd_submit_get(&end->session, KEY, strlen(KEY), value, sizeof value, &get);
		assert_true(rc == KVD_OK || !health_is_usable(&e->health));
		int n = kvd_poll(&end->session, done, 2, wait_ms);
		assert_true(n > 0);
		for (int i = 0; i < n; i++)
			if (done[i].tag == change)
				return done[i].result;
	}
	return KVD_OK;
}

static void expect_its_end(int wait_ms)
{
	uint64_t limit_ns = e->time.limit_ns;
	char change;

	e->time.limit_ns = LIMIT_NS;
	assert_int_equal(kvd_submit_put(&end->session, KEY, strlen(KEY), "value", 5, &change), KVD_OK);
	e->time.limit_ns = limit_ns;
	assert_int_equal(result_among_gets(wait_ms, &change), KVD_EUNKNOWN);
	assert_true(answered > 64); /* it was never idle */
}

static void test_deadline(void **state)
{
	(void)state;
	expect_its_end(0);
}

static void test_deadline_where_it_waits(void **state)
{
	(void)state;
	expect_its_end(1000);
}

static void read_again(struct op *op)
{
	op_read(op, (uintptr_t)end->bytes->base, e->table.welcome.table_rkey, op->memory->small, 8, true);
}

/* An operation that always has to READ once more. */
static void test_no_end(void **state)
{
	static const struct op_class class = { .advance = read_again };

	(void)state;
	e->time.limit_ns = LIMIT_NS;
	struct op *op = op_new(e, &class, KEY, strlen(KEY));
	assert_non_null(op);
	read_again(op);
	alarm(5);
	assert_int_equal(engine_await(e, op, NULL), KVD_ETIMEDOUT);
	alarm(0);
	assert_true(end->reads > 64);
}

static const struct kvd_change touch = { .size = sizeof touch, .ttl_ms = 1000 };
static char value[8];

/* kvd is too busy, but has news. */
static void answer_busy(struct end *to, const struct wire_request *q)
{
	static const struct wire_news news[2];

	(void)q;
	end_reply(to, (struct wire_reply){ .status = WIRE_EBUSY, .bucket = ~0ull }, news, sizeof news);
}

/* Each operation's message is out, in the order of their places. */
static void begin_changes(struct op **op, unsigned count)
{
	end->answer = NULL;
	for (unsigned i = 0; i < count; i++)
		op[i] = end_change(end, KEY, NULL);
}

/* Whoever's pause is over first is posted first, whatever the order in which they were put off. */
static void test_pauses_that_differ(void **state)
{
	static const uint32_t refusals[] = { 5, 0, 4, 5 };
	struct op *op[4];

	(void)state;
	begin_changes(op, 4);
	for (unsigned i = 0; i < 4; i++) {
		op[i]->refusals = refusals[i];
		assert_true(message_put_off(op[i]));
	}
	assert_true(op[1]->again_ns < op[2]->again_ns && op[2]->again_ns < op[0]->again_ns);
	assert_int_equal(e->later_ns, op[1]->again_ns);
	messages_look(e, op[1]->again_ns - 1);
	assert_int_equal(op[1]->phase, PHASE_LATER);
	messages_look(e, op[1]->again_ns);
	assert_int_equal(op[1]->phase, PHASE_REPLY);
	assert_int_equal(op[2]->phase, PHASE_LATER);
	assert_int_equal(e->later_ns, op[2]->again_ns);
	messages_look(e, op[2]->again_ns);
	assert_int_equal(op[2]->phase, PHASE_REPLY);
	assert_int_equal(e->later_ns, op[0]->again_ns);
	messages_look(e, op[3]->again_ns);
	assert_int_equal(op[0]->phase, PHASE_REPLY);
	assert_int_equal(op[3]->phase, PHASE_REPLY);
	assert_int_equal(e->later_ns, 0);
	ops_abort(e);
}

/* A pause is doubled up to 32 ms. */
static void test_pause_is_doubled(void **state)
{
	struct op *op;

	(void)state;
	begin_changes(&op, 1);
	for (unsigned i = 0; i < 8; i++) {
		uint64_t pause_ns = 1000000ull << (i < 5 ? i : 5), before_ns = clock_ns();

		assert_true(message_put_off(op));
		assert_in_range(op->again_ns, before_ns + pause_ns, clock_ns() + pause_ns);
		e->later_ns = 0;
	}
	message_again(op); /* on another connection the first one is short again */
	uint64_t before_ns = clock_ns();
	assert_true(message_put_off(op));
	assert_in_range(op->again_ns, before_ns + 1000000, clock_ns() + 1000000);
	ops_abort(e);
}

/* The operation that waits for the end of a pause. */
static struct op *put_off(void)
{
	for (unsigned polls = 0; polls < 100; polls++) {
		struct kvd_completion done;

		assert_int_equal(kvd_poll(&end->session, &done, 1, 0), 0);
		for (unsigned i = 0; i < e->depth; i++)
			if (e->ops[i].phase == PHASE_LATER)
				return &e->ops[i];
	}
	fail_msg("nothing was put off");
	return NULL;
}

static int submit(unsigned kind)
{
	switch (kind) {
	case 0:
		return kvd_submit_put(&end->session, KEY, strlen(KEY), "value", 5, NULL);
	case 1:
		return kvd_submit_get(&end->session, KEY, strlen(KEY), value, sizeof value, NULL);
	default:
		return kvd_submit_get_touch(&end->session, KEY, strlen(KEY), &touch, value,
					    sizeof value, NULL);
	}
}

/* Nobody polled until it was too late to ask again: what was answered last is the result. */
static void test_pause_that_was_too_long(void **state)
{
	(void)state;
	end->answer = answer_busy;
	for (unsigned kind = 0; kind < 3; kind++) {
		struct kvd_completion done = { 0 };

		end->messages = 0;
		assert_int_equal(submit(kind), KVD_OK);
		struct op *op = put_off();
		unsigned asked = end->messages;
		op->deadline_ns = clock_ns() + e->time.limit_ns / 4; /* an answer may take longer */
		assert_int_equal(kvd_poll(&end->session, &done, 1, 1000), 1);
		assert_int_equal(done.result, KVD_EBUSY);
		assert_int_equal(end->messages, asked);
		assert_int_equal(e->in_flight, 0);
		assert_int_equal(op->phase, PHASE_FREE);
	}
	assert_true(health_is_usable(&e->health));
}

static void answer_touch_then_get(struct end *to, const struct wire_request *q)
{
	struct wire_reply reply = { .bucket = ~0ull, .version = 7 };

	answered++;
	if (answered == 1)
		reply.status = WIRE_EBUSY;
	else if (q->op == WIRE_GET)
		reply.value_bytes = 5;
	end_reply(to, reply, "value", reply.value_bytes);
}

/* kvd was too busy for the touch, which is sent again; its GET follows. */
static void test_touch_that_is_sent_again(void **state)
{
	struct kvd_completion done = { 0 };

	(void)state;
	end->answer = answer_touch_then_get;
	assert_int_equal(submit(2), KVD_OK);
	assert_int_equal(kvd_poll(&end->session, &done, 1, 4000), 1);
	assert_int_equal(done.result, KVD_OK);
	assert_int_equal(done.value_bytes, 5);
	assert_int_equal(done.version, 7);
	assert_memory_equal(value, "value", 5);
	assert_int_equal(end->messages, 3);
	assert_int_equal(end->asked.op, WIRE_GET);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_deadline, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_deadline_where_it_waits, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_no_end, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_pauses_that_differ, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_pause_is_doubled, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_pause_that_was_too_long, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_touch_that_is_sent_again, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
