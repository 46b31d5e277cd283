/* SPDX-License-Identifier: BSD-2-Clause */
/* server/lock/queue.h: first come, first served, on each stripe by itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "server/lock/queue.h"

#define MS 1000000ull
#define WAITERS_MOST 65536u

static struct queues queues;
static uint8_t place[4]; /* addresses that stand for connections */

static void *client(unsigned i)
{
	return &place[i];
}

static bool push(struct queue *q, unsigned who, uint64_t token, uint64_t ttl_ms, uint64_t now)
{
	struct wire_request request = { .op = WIRE_LOCK, .version = q->stripe, .token = token,
					.ttl_ms = ttl_ms };

	return queue_push(&queues, q, client(who), &request, now);
}

/* The token of one that was taken out, which is freed; 0: none was. */
static uint64_t token_of(struct waiter *w)
{
	uint64_t token = w ? w->request.token : 0;

	free(w);
	return token;
}

static uint64_t pop(struct queue *q)
{
	return token_of(queue_pop(&queues, q));
}

static int begin(void **state)
{
	(void)state;
	queues = (struct queues){ 0 };
	return 0;
}

static int end(void **state)
{
	(void)state;
	queues_clear(&queues);
	return queues.count || queues.waiters;
}

static void test_find(void **state)
{
	(void)state;
	assert_null(queue_find(&queues, 7));
	struct queue *q = queue_get(&queues, 7);
	assert_non_null(q);
	assert_ptr_equal(queue_find(&queues, 7), q);
	assert_ptr_equal(queue_get(&queues, 7), q);
	assert_int_equal(queues.count, 1);
	queue_drop(&queues, q);
	assert_null(queue_find(&queues, 7));
	assert_int_equal(queues.count, 0);
}

/* Stripes that fall into one bucket of the map: each is found when another is dropped. */
static void test_same_bucket(void **state)
{
	struct queue *q[4];

	(void)state;
	for (unsigned i = 0; i < 4; i++)
		q[i] = queue_get(&queues, 5 + i * QUEUES);
	for (unsigned i = 0; i < 4; i++) {
		assert_ptr_equal(queue_find(&queues, 5 + i * QUEUES), q[i]);
		assert_int_equal(q[i]->stripe, 5 + i * QUEUES);
	}
	queue_drop(&queues, q[1]);
	queue_drop(&queues, q[3]);
	assert_ptr_equal(queue_find(&queues, 5), q[0]);
	assert_null(queue_find(&queues, 5 + QUEUES));
	assert_ptr_equal(queue_find(&queues, 5 + 2 * QUEUES), q[2]);
	assert_null(queue_find(&queues, 5 + 3 * QUEUES));
}

static void test_order(void **state)
{
	(void)state;
	struct queue *a = queue_get(&queues, 1), *b = queue_get(&queues, 2);
	for (unsigned i = 1; i <= 3; i++) {
		assert_true(push(a, 0, 10 + i, 1000, 0));
		assert_true(push(b, 1, 20 + i, 1000, 0));
	}
	assert_int_equal(queues.waiters, 6);
	for (unsigned i = 1; i <= 3; i++)
		assert_int_equal(pop(a), 10 + i);
	assert_null(a->first);
	/* One that was empty takes more. */
	assert_true(push(a, 0, 14, 1000, 0));
	assert_int_equal(pop(a), 14);
	for (unsigned i = 1; i <= 3; i++)
		assert_int_equal(pop(b), 20 + i);
	assert_int_equal(queues.waiters, 0);
}

static void test_expired(void **state)
{
	(void)state;
	struct queue *q = queue_get(&queues, 1);
	push(q, 0, 1, 30, 0);
	push(q, 0, 2, 10, 0);
	push(q, 0, 3, 20, 0);
	assert_null(queue_expired(&queues, q, 10 * MS - 1));
	assert_int_equal(token_of(queue_expired(&queues, q, 10 * MS)), 2);
	assert_null(queue_expired(&queues, q, 10 * MS));
	/* The last one: what is pushed then stands behind the first. */
	assert_int_equal(token_of(queue_expired(&queues, q, 25 * MS)), 3);
	push(q, 0, 4, 1000, 25 * MS);
	assert_int_equal(pop(q), 1);
	assert_int_equal(pop(q), 4);
}

/* Everywhere, and nobody else. */
static void test_forget(void **state)
{
	(void)state;
	struct queue *a = queue_get(&queues, 1), *b = queue_get(&queues, 1 + QUEUES);
	push(a, 0, 1, 1000, 0);
	push(a, 1, 2, 1000, 0);
	push(a, 0, 3, 1000, 0);
	push(b, 0, 4, 1000, 0);
	queues_forget(&queues, client(0));
	assert_int_equal(queues.waiters, 1);
	assert_null(b->first);
	push(a, 2, 5, 1000, 0);
	push(b, 2, 6, 1000, 0);
	assert_int_equal(pop(a), 2);
	assert_int_equal(pop(a), 5);
	assert_int_equal(pop(b), 6);
}

/* The limit is on all stripes together. */
static void test_full(void **state)
{
	(void)state;
	for (unsigned i = 0; i < WAITERS_MOST; i++)
		assert_true(push(queue_get(&queues, i % 100), 0, i + 1, 1000, 0));
	struct queue *q = queue_get(&queues, 1000);
	assert_false(push(q, 1, 1, 1000, 0));
	assert_null(q->first);
	assert_int_equal(pop(queue_find(&queues, 0)), 1);
	assert_true(push(q, 1, 1, 1000, 0));
	assert_int_equal(queues.waiters, WAITERS_MOST);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_find, begin, end),
		cmocka_unit_test_setup_teardown(test_same_bucket, begin, end),
		cmocka_unit_test_setup_teardown(test_order, begin, end),
		cmocka_unit_test_setup_teardown(test_expired, begin, end),
		cmocka_unit_test_setup_teardown(test_forget, begin, end),
		cmocka_unit_test_setup_teardown(test_full, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
