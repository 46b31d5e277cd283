/* SPDX-License-Identifier: BSD-2-Clause */
/* client/get/parts.h: how many READs of long values are under way, and of which. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "client/get/get.h"
#include "client/get/parts.h"
#include "client/op/engine.h"
#include "client/op/operation.h"
#include "client/op/operation_impl.h"
#include "client/op/request.h"
#include "tests/lib/end.h"

#define VALUE_BYTES (5 * PART_BYTES)
#define COUNT 6u

static struct end *end;
static struct engine *e;
static struct op *ops[COUNT];
static uint8_t *room;

static int set_up(void **state)
{
	(void)state;
	end = end_new();
	e = end->engine;
	e->message_bytes_max = PART_BYTES;
	room = calloc(1, VALUE_BYTES + PART_BYTES);
	assert_non_null(room);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	end_delete(end);
	free(room);
	return 0;
}

static struct op *begin(size_t bytes)
{
	struct op *op = op_new(e, &get_class, "key", 3);
	struct get *g = op->own;

	assert_int_equal(op_set_value(op, &(struct iovec){ room, bytes }, 1), 0);
	g->key_bytes = 3;
	g->word = layout_word(0, layout_len_encode(layout_item_bytes(3, bytes)), 0);
	g->length = layout_item_bytes(3, bytes);
	parts_begin(e, g);
	return op;
}

static void begin_all(void)
{
	for (unsigned i = 0; i < COUNT; i++)
		ops[i] = begin(VALUE_BYTES);
}

static uint32_t under_way(void)
{
	uint32_t n = 0;

	for (unsigned i = 0; i < COUNT; i++)
		n += ops[i]->reads;
	return n;
}

static bool is_whole(const struct op *op)
{
	const struct get *g = op->own;

	return g->arrived == g->length;
}

static void arrive(struct op *op)
{
	op->reads--;
	e->sq_done++;
	parts_arrived(e, op->own);
	e->wr_count = 0; /* posted */
}

static void test_few_are_under_way(void **state)
{
	(void)state;
	begin_all();
	assert_int_equal(e->parts, PARTS_ALL_MAX);
	assert_int_equal(under_way(), PARTS_ALL_MAX);
	assert_int_equal(ops[0]->reads, PARTS_MAX);
	assert_int_equal(ops[COUNT - 1]->reads, 0);
}

/* Values end one after the other, and none is forgotten. */
static void test_all_arrive_in_turn(void **state)
{
	unsigned first = 0, arrived = 0;

	(void)state;
	begin_all();
	e->wr_count = 0;
	while (first < COUNT) {
		assert_true(ops[first]->reads > 0);
		arrive(ops[first]);
		arrived++;
		assert_int_equal(e->parts, under_way());
		assert_true(e->parts <= PARTS_ALL_MAX);
		assert_true(e->parts == PARTS_ALL_MAX || !e->parked);
		first += is_whole(ops[first]);
	}
	assert_int_equal(arrived, COUNT * (VALUE_BYTES / PART_BYTES + 1));
	assert_int_equal(e->parts, 0);
	assert_null(e->parked);
}

static void test_short_ones_do_not_wait(void **state)
{
	(void)state;
	begin_all();
	struct op *op = begin(2000);
	assert_int_equal(op->reads, 1);
	arrive(op);
	assert_true(is_whole(op));
	assert_int_equal(e->parts, PARTS_ALL_MAX);
}

/* The second thread hashes a value that the session waits for alone, and none of many. */
static void test_one_alone_is_hashed_aside(void **state)
{
	(void)state;
	e->hasher = hasher_new();
	assert_non_null(e->hasher);
	struct op *one = begin(VALUE_BYTES);
	arrive(one);
	assert_ptr_equal(((struct get *)one->own)->hasher, e->hasher);
	while (!is_whole(one))
		arrive(one);
	struct op *two[] = { begin(VALUE_BYTES), begin(VALUE_BYTES) };
	arrive(two[0]);
	assert_null(((struct get *)two[0]->own)->hasher);
	struct op *parked = begin(VALUE_BYTES);
	while (e->parked)
		arrive(two[0]);
	assert_true(parked->reads > 0);
	health_fail(&e->health, KVD_ECONNECT, "gone");
	ops_abort(e);
	hasher_delete(e->hasher);
	e->hasher = NULL;
}

/* The next connection begins with none under way, and nobody parked. */
static void test_broken_connection(void **state)
{
	(void)state;
	begin_all();
	health_fail(&e->health, KVD_ECONNECT, "gone");
	ops_abort(e);
	assert_int_equal(e->parts, 0);
	assert_null(e->parked);
	for (unsigned i = 0; i < COUNT; i++)
		assert_true(ops[i]->done);
}

/* What kvd pulls it shall begin with, while the next value's checksum is made. */
static void test_long_put_is_posted_at_once(void **state)
{
	const struct wire_request put = { .op = WIRE_PUT };
	struct op *op = op_new(e, &change_class, "key", 3);

	(void)state;
	assert_int_equal(request_start(op, &put, &(struct iovec){ room, 100 }, 1), 0);
	assert_int_equal(end->messages, 0);
	op = op_new(e, &change_class, "key", 3);
	assert_int_equal(request_start(op, &put, &(struct iovec){ room, VALUE_BYTES }, 1), 0);
	assert_int_equal(end->messages, 2);
	health_fail(&e->health, KVD_ECONNECT, "gone");
	ops_abort(e);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_few_are_under_way),
		TEST(test_all_arrive_in_turn),
		TEST(test_short_ones_do_not_wait),
		TEST(test_one_alone_is_hashed_aside),
		TEST(test_broken_connection),
		TEST(test_long_put_is_posted_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
