/* SPDX-License-Identifier: BSD-2-Clause */
/* client/session: what becomes of operations whose connection is broken. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "client/get/get.h"
#include "client/op/lockword.h"
#include "client/op/operation.h"
#include "client/op/request.h"
#include "client/session/ready.h"
#include "client/session/wait.h"
#include "tests/lib/end.h"

#define KEY "key"
#define TOKEN 99u

static struct end *end;
static struct engine *e;

static int set_up(void **state)
{
	(void)state;
	end = end_new();
	e = end->engine;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	end_delete(end);
	return 0;
}

static struct op *new_change(void *tag)
{
	struct op *op = op_new(e, &change_class, KEY, strlen(KEY));

	op_set_tag(op, tag);
	assert_int_equal(request_start(op, &(struct wire_request){ .op = WIRE_DELETE }, NULL, 0),
			 0);
	return op;
}

static struct op *new_get(void *value, size_t bytes)
{
	struct op *op = op_new(e, &get_class, KEY, strlen(KEY));

	assert_int_equal(get_start(op, GET_PLAIN, &(struct iovec){ value, bytes }, 1), 0);
	return op;
}

static void test_run_ends_with_the_connection(void **state)
{
	const struct outcome *out;
	uint8_t value[10];

	(void)state;
	end->status = IBV_WC_RETRY_EXC_ERR;
	assert_int_equal(session_run(&end->session, new_get(value, sizeof value), &out),
			 KVD_ECONNECT);
	assert_null(e->qp); /* nothing touches the callers' memory after this */
	assert_int_equal(e->in_flight, 0);
	assert_null(e->done);
}

static void test_poll_gives_what_a_broken_connection_ended(void **state)
{
	struct kvd_completion done;
	char tag;

	(void)state;
	new_change(&tag);
	health_fail(&e->health, KVD_EPROTOCOL, "nonsense");
	assert_int_equal(session_poll_for(&end->session, 0), 0);
	assert_true(ops_take_done(e, &done));
	assert_ptr_equal(done.tag, &tag);
	assert_int_equal(done.result, KVD_EPROTOCOL);
	assert_false(ops_take_done(e, &done));
}

/* An unlock that is out when its connection is found broken would break the next one, when
 * its deadline comes; and a change would never be answered. */
static void test_nothing_is_left_in_flight_for_the_next_connection(void **state)
{
	struct kvd_completion done;
	char tag;

	(void)state;
	end->delay = 10;
	stripe_release(e, 3, TOKEN);
	new_change(&tag);
	assert_int_equal(e->in_flight, 2);
	health_fail(&e->health, KVD_ECONNECT, "gone");
	assert_int_equal(session_ready(&end->session), KVD_EDEVICE); /* there is none */
	assert_true(ops_take_done(e, &done));
	assert_ptr_equal(done.tag, &tag);
	assert_int_equal(done.result, KVD_EUNKNOWN);
	assert_int_equal(e->in_flight, 0);
}

static void test_alone(void **state)
{
	struct kvd_completion done;
	uint8_t value[10];

	(void)state;
	end->words[3] = TOKEN;
	end->delay = 1;
	stripe_release(e, 3, TOKEN); /* nobody waits for it */
	assert_int_equal(session_alone(&end->session), 0);
	assert_int_equal(end->words[3], 0);
	new_get(value, sizeof value);
	assert_int_equal(session_alone(&end->session), KVD_EINVAL);
	assert_int_equal(session_settle(&end->session), 1);
	assert_int_equal(session_poll(&end->session, UINT64_MAX), 0);
	assert_true(ops_take_done(e, &done));
	assert_int_equal(done.result, KVD_NOT_FOUND);
	assert_int_equal(session_begin(&end->session, KEY, 0), KVD_EINVAL);
	assert_int_equal(session_begin(&end->session, KEY, strlen(KEY)), 0);
	assert_int_equal(e->in_flight, 0);
}

/* kvd has no room for an answer now; `busy` times. */
static unsigned busy;

static void answer_busy(struct end *to, const struct wire_request *request)
{
	static const struct wire_key head = { .key_bytes = 3, .value_bytes = 5 };
	uint8_t page[sizeof head + 3];

	(void)request;
	memcpy(page, &head, sizeof head);
	memcpy(page + sizeof head, KEY, 3);
	if (busy) {
		busy--;
		end_reply(to, (struct wire_reply){ .status = WIRE_EBUSY }, NULL, 0);
	} else {
		end_reply(to, (struct wire_reply){ .value_bytes = sizeof page }, page, sizeof page);
	}
}

static int count_key(void *arg, const void *k, size_t key_bytes, uint64_t value_bytes)
{
	assert_memory_equal(k, KEY, key_bytes);
	assert_int_equal(value_bytes, 5);
	++*(unsigned *)arg;
	return 0;
}

/* A list of keys is whole, or its caller is told that it is not. */
static void test_busy_is_no_answer(void **state)
{
	unsigned keys = 0;
	char *json = NULL;

	(void)state;
	end->answer = answer_busy;
	busy = 3;
	assert_int_equal(kvd_keys(&end->session, NULL, 0, count_key, &keys), KVD_OK);
	assert_int_equal(keys, 1);
	assert_int_equal(busy, 0);
	e->time.limit_ns = 20000000;
	busy = UINT32_MAX;
	assert_int_equal(kvd_keys(&end->session, NULL, 0, count_key, &keys), KVD_EBUSY);
	assert_int_equal(keys, 1);
	assert_int_equal(kvd_stats(&end->session, &json), KVD_EBUSY);
	assert_null(json);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_run_ends_with_the_connection),
		TEST(test_poll_gives_what_a_broken_connection_ended),
		TEST(test_nothing_is_left_in_flight_for_the_next_connection),
		TEST(test_alone),
		TEST(test_busy_is_no_answer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
