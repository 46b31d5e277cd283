/* SPDX-License-Identifier: BSD-2-Clause */
/* client/op/poll.c: a session whose every poll finds something still looks at the clock and at rdma_cm. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "client/op/operation.h"
#include "client/op/operation_impl.h"
#include "client/op/poll.h"
#include "client/op/post.h"
#include "tests/lib/end.h"

#define KEY "key"
#define LIMIT_NS 20000000ull      /* of the change that is not answered */
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_deadline, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_deadline_where_it_waits, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_no_end, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
