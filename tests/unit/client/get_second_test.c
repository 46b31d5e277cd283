/* SPDX-License-Identifier: BSD-2-Clause */
/* client/get/get.h: a GET has the place of one before it, and begins as if it were the first one there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "client/cache/mirror.h"
#include "client/get/get.h"
#include "client/op/operation.h"
#include "client/op/operation_impl.h"
#include "tests/unit/client/two_groups.h"

static void answer(struct end *to, const struct wire_request *request)
{
	(void)request;
	end_reply(to, (struct wire_reply){ .status = WIRE_NOT_FOUND }, "", 0);
}

static int set_up_with_answers(void **state)
{
	set_up(state);
	end->answer = answer;
	return 0;
}

static void store_of(enum layout_kind kind, unsigned worker, size_t bytes)
{
	struct bytes_item item = item_of(bytes);

	item.kind = kind;
	item.worker = worker;
	store(&item);
}

/* The READs that it takes. */
static unsigned get(unsigned how, size_t room, int result)
{
	struct op *op = op_new(e, &get_class, key, strlen(key));

	end->reads = 0;
	assert_int_equal(get_start(op, how, &(struct iovec){ value, room }, 1), 0);
	assert_int_equal(end_run(end, op)->result, result);
	return end->reads;
}

/* What was before it left all that it may leave. */
static void leave(void)
{
	for (unsigned i = 0; i < END_DEPTH; i++) {
		struct get *g = e->ops[i].own;

		g->torn = 5;
		g->attempts = 20;
		g->mark_clear = g->accept_prepared = true;
		g->held_version = ITEM_VERSION;
	}
	mirror_clear(e->table.mirror);
}

/* An item of a worker that is none is READ as often as it may be, and then kvd is asked. */
static void test_as_many_tries(void **state)
{
	unsigned reads;

	(void)state;
	store_of(LAYOUT_PREPARED, BYTES_WORKERS, 100);
	get(GET_PLAIN, 100, KVD_NOT_FOUND); /* which learns the directory */
	mirror_clear(e->table.mirror);
	reads = get(GET_PLAIN, 100, KVD_NOT_FOUND);
	assert_true(reads > 500);
	leave();
	assert_int_equal(get(GET_PLAIN, 100, KVD_NOT_FOUND), reads);
	assert_int_equal(end->messages, 3);
}

/* What another change has prepared is no value, whatever its version. */
static void test_prepared_by_another(void **state)
{
	(void)state;
	store_of(LAYOUT_PREPARED, 0, 100);
	leave();
	get(GET_PLAIN, 100, KVD_NOT_FOUND);
	assert_int_equal(end->messages, 1);
}

/* The holder of a lock looks for each key whether a change is under way. */
static void test_mark_of_each_lock(void **state)
{
	unsigned reads;

	(void)state;
	get(GET_LOCKED, 100, KVD_NOT_FOUND);
	mirror_clear(e->table.mirror);
	reads = get(GET_LOCKED, 100, KVD_NOT_FOUND);
	assert_int_equal(reads, 1 + 2);
	leave();
	assert_int_equal(get(GET_LOCKED, 100, KVD_NOT_FOUND), reads);
	assert_int_equal(end->messages, 0);
}

/* Each time two READs have to find the same head of a value that has no room. */
static void test_a_head_is_read_twice(void **state)
{
	(void)state;
	store_of(LAYOUT_LIVE, 0, LONG_BYTES);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(get(GET_PLAIN, 100, KVD_ESPACE), (i ? 0 : 2 + 2) + 2);
	assert_int_equal(end->messages, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up_with_answers, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_as_many_tries),
		TEST(test_prepared_by_another),
		TEST(test_mark_of_each_lock),
		TEST(test_a_head_is_read_twice),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
