/* SPDX-License-Identifier: BSD-2-Clause */
/* client/op/message.c: the ids, times and lengths of messages; when one is sent again, by a clock that is set. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "client/op/message.h"
#include "client/op/operation.h"
#include "client/op/operation_impl.h"
#include "client/op/poll.h"
#include "client/op/post.h"
#include "client/op/request.h"
#include "tests/lib/end.h"
#include "tests/unit/client/set_clock.h"

#define LIMIT_NS (100 * SET_MS)

static struct end *end;
static struct engine *e;

static int set_up(void **state)
{
	(void)state;
	set_clock();
	set_look_ns = 0;
	end = end_new();
	e = end->engine;
	e->time.limit_ns = LIMIT_NS;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	ops_abort(e);
	end_delete(end);
	return 0;
}

static uint32_t id_of(const struct op_class *class)
{
	struct op *op = op_new(e, class, NULL, 0);

	assert_int_equal(request_start(op, &(struct wire_request){ .op = WIRE_PING }, NULL, 0), 0);
	uint32_t id = op->request_id, index = op->index;
	assert_int_equal(id % OPS_MAX, index);
	assert_int_equal(engine_flush(e), 0);
	assert_int_equal(end->asked.request_id, id);
	op_free(op);
	return id;
}

/* Those of changes and of others are never the same, whichever there are more of. */
static void test_ids(void **state)
{
	uint32_t ids[300];

	(void)state;
	for (unsigned i = 0; i < 300; i++) {
		bool is_change = i % 3 == 0 || i > 200;

		ids[i] = id_of(is_change ? &change_class : &call_class);
		assert_int_equal(ids[i] / OPS_MAX % 2, is_change);
		for (unsigned k = 0; k < i; k++)
			assert_int_not_equal(ids[i], ids[k]);
	}
}

/* What a receipt says, and when it was sent. */
static void test_receipt(void **state)
{
	struct kvd_receipt receipt = { 0 };

	(void)state;
	e->receipt = &receipt;
	e->reign = 5;
	e->secret = 66;
	e->table.welcome.instance = 77;
	e->table.welcome.connection_id = 88;
	e->table.grant.is_needed = true;
	set_ns += 12345;
	struct op *op = end_change(end, "key", NULL);
	assert_int_equal(receipt.instance, 77);
	assert_int_equal(receipt.connection, 88);
	assert_int_equal(receipt.secret, 66);
	assert_int_equal(receipt.request, 5ull << 32 | op->request_id);
	assert_memory_equal(&op_sent(op)->receipt, &receipt, sizeof receipt);
	assert_int_equal(op_sent(op)->ns, set_ns);
	assert_int_equal(op->sent_ns, set_ns);
	assert_int_equal(op->asked_ns, set_ns);
	/* Of what changes nothing there is none. */
	receipt.request = 1;
	e->table.grant.is_needed = false;
	op = op_new(e, &call_class, NULL, 0);
	set_ns += 5;
	assert_int_equal(request_start(op, &(struct wire_request){ .op = WIRE_PING }, NULL, 0), 0);
	assert_int_equal(receipt.request, 1);
	assert_int_equal(op->sent_ns, set_ns);
	assert_int_equal(op->asked_ns, 0);
}

/* It is as long the second time, whatever its operation sent before. */
static void test_length(void **state)
{
	(void)state;
	struct op *op = end_change(end, "a long key before it", NULL);
	op_free(op);
	uint64_t before = e->counters.message_bytes;
	op = end_change(end, "key", NULL);
	uint64_t bytes = e->counters.message_bytes - before;
	assert_int_equal(bytes, sizeof(struct wire_request) + 3);
	uint32_t id = op->request_id;
	message_again(op);
	assert_int_equal(e->counters.message_bytes - before, 2 * bytes);
	assert_int_not_equal(op->request_id, id);
}

/* By another device: a value that was gathered has its keys there; one that was copied needs none, and is
 * no long one, which takes its time. */
static void test_again_by_another_device(void **state)
{
	static char value[1024];
	const struct iovec all = { value, sizeof value };
	struct buffers *buffers = e->registrar.buffers;

	(void)state;
	assert_int_equal(buffers_add(buffers, e->registrar.verbs, (uintptr_t)value, sizeof value), 0);
	struct op *copied = end_change(end, "key", NULL);
	struct op *gathered = op_new(e, &change_class, "key", 3);
	assert_int_equal(request_start(gathered, &(struct wire_request){ .op = WIRE_PUT }, &all, 1), 0);
	assert_true(gathered->gathers && !copied->gathers);
	ops_leave_device(e);
	assert_false(gathered->value.registered);
	change_class.resume(copied);
	change_class.resume(gathered);
	assert_true(gathered->value.registered);
	assert_false(copied->value.registered);
	pieces_release(&gathered->value, e->registrar.verbs);
	buffers_remove(buffers, e->registrar.verbs, (uintptr_t)value);
}

/* The first pause of each message is a short one. */
static void test_first_pause(void **state)
{
	(void)state;
	struct op *op = end_change(end, "key", NULL);
	for (unsigned i = 0; i < 4; i++)
		assert_true(message_put_off(op));
	assert_int_equal(op->again_ns, set_ns + 8 * SET_MS);
	e->later_ns = 0;
	op_free(op);
	op = end_change(end, "key", NULL);
	assert_true(message_put_off(op));
	assert_int_equal(op->again_ns, set_ns + SET_MS);
	assert_int_equal(e->later_ns, set_ns + SET_MS);
}

/* As long as an answer may come in time: half of a call's, and no more than kvd takes. */
static void must_put_off_until(uint64_t limit_ns, uint64_t answer_ns)
{
	for (unsigned late = 0; late < 2; late++) {
		e->time.limit_ns = limit_ns;
		struct op *op = end_change(end, "key", NULL);
		set_ns = op->deadline_ns - answer_ns - SET_MS + late;
		assert_int_equal(message_put_off(op), !late);
		assert_int_equal(op->phase, late ? PHASE_REPLY : PHASE_LATER);
		e->later_ns = 0;
		op_free(op);
	}
}

static void test_last_time(void **state)
{
	(void)state;
	must_put_off_until(100 * SET_MS, 50 * SET_MS);
	must_put_off_until(10000 * SET_MS, 2250 * SET_MS);
	must_put_off_until(4500 * SET_MS, 2250 * SET_MS);
	must_put_off_until(4400 * SET_MS, 2200 * SET_MS);
}

/* Who polls too late sends nothing any more; to the nanosecond. */
static void test_too_late(void **state)
{
	(void)state;
	struct op *op = end_change(end, "key", NULL), *other = end_change(end, "other", NULL);
	engine_flush(e);
	unsigned sent = end->messages;
	op->out.reply = other->out.reply = (struct wire_reply){ .status = WIRE_EBUSY, .bucket = ~0ull };
	other->deadline_ns += 1000 * SET_MS;
	assert_true(message_put_off(op));
	other->refusals = 9;
	set_ns += 45 * SET_MS;
	assert_true(message_put_off(other)); /* for longer */
	uint64_t last_ns = op->deadline_ns - LIMIT_NS / 2;
	op->again_ns = set_ns = last_ns;
	messages_look(e, set_ns);
	assert_int_equal(op->phase, PHASE_REPLY);
	engine_flush(e);
	assert_int_equal(end->messages, sent + 1);
	/* Put off once more, until there is no time left. */
	op->phase = PHASE_LATER;
	op->again_ns = e->later_ns = set_ns = last_ns + 1;
	messages_look(e, set_ns);
	assert_true(op->done);
	assert_int_equal(op_outcome(op)->result, KVD_EBUSY);
	assert_ptr_equal(e->done, op);
	assert_null(op->next);
	assert_int_equal(e->later_ns, other->again_ns);
	/* It is not ended again with the next one. */
	set_ns = other->again_ns;
	messages_look(e, set_ns);
	assert_int_equal(other->phase, PHASE_REPLY);
	assert_ptr_equal(e->done, op);
	assert_null(op->next);
	assert_int_equal(e->later_ns, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_ids),
		TEST(test_receipt),
		TEST(test_length),
		TEST(test_again_by_another_device),
		TEST(test_first_pause),
		TEST(test_last_time),
		TEST(test_too_late),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
