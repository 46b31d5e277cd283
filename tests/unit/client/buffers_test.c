/* SPDX-License-Identifier: BSD-2-Clause */
/* client/cache/buffer.c: many buffers in any order, each found by each device's keys; none overlaps. */
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "client/cache/buffer.h"
#include "client/kvd.h"

#define BEGIN 0x100000u
#define BYTES 0x1000u
#define STEP 0x3000u
#define DEVICES 3u

static struct ibv_pd domain[DEVICES];
static int registered;
static unsigned good; /* so many more are registered: then none is, */
static int why_not;   /* and this is errno */

/* A key tells of what it is: the device and the place. */
static uint32_t key_of(unsigned device, uintptr_t begin)
{
	return (uint32_t)(begin >> 8) * 16 + device * 2;
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t bytes, int access)
{
	struct ibv_mr *mr = good ? calloc(1, sizeof *mr) : NULL;

	if (!good) {
		errno = why_not;
		return NULL;
	}
	good--;
	assert_non_null(mr);
	assert_int_equal(bytes, BYTES);
	assert_int_equal(access, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	*mr = (struct ibv_mr){ .addr = addr, .length = bytes };
	mr->lkey = key_of((unsigned)(pd - domain), (uintptr_t)addr);
	mr->rkey = mr->lkey + 1;
	registered++;
	return mr;
}

static int dereg_mr(struct ibv_mr *mr)
{
	registered--;
	free(mr);
	return 0;
}

static const struct verbs verbs = { .reg_mr = reg_mr, .dereg_mr = dereg_mr };
static struct buffers *b;
static bool is_there[KVD_BUFFERS_MAX];

static uintptr_t begin_of(unsigned i)
{
	return BEGIN + (uintptr_t)i * STEP;
}

static int set_up(void **state)
{
	(void)state;
	b = buffers_new();
	assert_non_null(b);
	registered = 0;
	good = UINT_MAX;
	for (unsigned d = 0; d < DEVICES; d++)
		assert_int_equal(buffers_join(b, &verbs, d, &domain[d]), 0);
	for (unsigned i = 0; i < KVD_BUFFERS_MAX; i++)
		is_there[i] = false;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	for (unsigned d = 0; d < DEVICES; d++)
		buffers_leave(b, &verbs, d);
	assert_int_equal(registered, 0);
	buffers_delete(b);
	return 0;
}

static bool find(unsigned device, uintptr_t addr, size_t bytes, struct buffer_keys *keys)
{
	return buffers_find(b, device, (void *)addr, bytes, keys);
}

static void check_one(unsigned i, unsigned device)
{
	uintptr_t at = begin_of(i);
	struct buffer_keys keys = { 0 };

	assert_int_equal(find(device, at, BYTES, &keys), is_there[i]);
	assert_false(find(device, at - 1, 2, &keys));
	assert_false(find(device, at, BYTES + 1, &keys));
	assert_false(find(device, at + BYTES, 1, &keys));
	assert_false(find(device, at, SIZE_MAX, &keys)); /* which ends before it begins */
	if (!is_there[i])
		return;
	assert_int_equal(keys.lkey, key_of(device, at));
	assert_int_equal(keys.rkey, key_of(device, at) + 1);
	assert_true(find(device, at + BYTES - 1, 1, &keys));
	assert_int_equal(keys.lkey, key_of(device, at));
}

static void check(unsigned count)
{
	unsigned n = 0;

	for (unsigned i = 0; i < count; i++) {
		n += is_there[i];
		for (unsigned d = 0; d < DEVICES; d++)
			check_one(i, d);
	}
	assert_int_equal(registered, n * DEVICES);
	assert_int_equal(buffers_any(b), n > 0);
}

static void add(unsigned i)
{
	assert_int_equal(buffers_check(b, begin_of(i), BYTES), 0);
	assert_int_equal(buffers_add(b, &verbs, begin_of(i), BYTES), 0);
	is_there[i] = true;
}

static void take_away(unsigned i)
{
	buffers_remove(b, &verbs, begin_of(i));
	is_there[i] = false;
}

/* They come and go in an order of their own. */
static void test_any_order(void **state)
{
	static const unsigned order[] = { 5, 1, 8, 3, 0, 9, 2, 7, 4, 6 };

	(void)state;
	for (unsigned i = 0; i < 10; i++) {
		add(order[i]);
		check(10);
	}
	for (unsigned i = 0; i < 10; i++) {
		take_away(order[(i * 3 + 1) % 10]);
		check(10);
	}
}

static void test_as_many_as_there_may_be(void **state)
{
	(void)state;
	for (unsigned i = KVD_BUFFERS_MAX; i-- > 0;)
		add(i);
	check(KVD_BUFFERS_MAX);
	assert_int_equal(buffers_check(b, begin_of(KVD_BUFFERS_MAX), BYTES), KVD_ETOOBIG);
	take_away(3);
	assert_int_equal(buffers_check(b, begin_of(KVD_BUFFERS_MAX), BYTES), 0);
	check(KVD_BUFFERS_MAX);
	for (unsigned i = 0; i < KVD_BUFFERS_MAX; i++)
		if (is_there[i])
			take_away(i);
	check(KVD_BUFFERS_MAX);
}

/* They may touch, and no more. */
static void test_overlap(void **state)
{
	const uintptr_t first = begin_of(1), second = begin_of(2);

	(void)state;
	add(1);
	add(2);
	assert_int_equal(buffers_check(b, first + BYTES, STEP - BYTES), 0);
	assert_int_equal(buffers_check(b, first + BYTES, STEP - BYTES + 1), KVD_EINVAL);
	assert_int_equal(buffers_check(b, first + BYTES - 1, 10), KVD_EINVAL);
	assert_int_equal(buffers_check(b, first, 1), KVD_EINVAL);
	assert_int_equal(buffers_check(b, first - 10, 10), 0);
	assert_int_equal(buffers_check(b, first - 10, 11), KVD_EINVAL);
	assert_int_equal(buffers_check(b, first - 10, 5 * STEP), KVD_EINVAL);
	assert_int_equal(buffers_check(b, second + 5, 1), KVD_EINVAL);
	assert_int_equal(buffers_check(b, second + BYTES, BYTES), 0);
}

/* A device that comes later has all, one that leaves none. */
static void test_devices_come_and_go(void **state)
{
	struct buffer_keys keys;

	(void)state;
	add(4);
	add(2);
	buffers_leave(b, &verbs, 1);
	assert_int_equal(registered, 2 * (DEVICES - 1));
	add(3);
	assert_int_equal(registered, 3 * (DEVICES - 1));
	assert_int_equal(buffers_join(b, &verbs, 1, &domain[1]), 0);
	check(6);
	assert_true(find(1, begin_of(3), BYTES, &keys));
}

/* A buffer is with all devices or with none; why is said, also by a device that does not. */
static void test_one_device_does_not_take_it(void **state)
{
	(void)state;
	add(1);
	for (unsigned i = 0; i < 2 * DEVICES; i++) {
		good = i % DEVICES;
		why_not = i < DEVICES ? 0 : EPERM;
		assert_int_equal(buffers_add(b, &verbs, begin_of(2), BYTES), i < DEVICES ? ENOMEM : EPERM);
		check(4);
	}
	good = UINT_MAX;
	add(2);
	check(4);
}

/* A device that does not take all has none, and is not asked for the next one. */
static void test_a_device_does_not_take_one(void **state)
{
	(void)state;
	add(4);
	add(2);
	buffers_leave(b, &verbs, 1);
	for (unsigned i = 0; i < 4; i++) {
		good = i % 2;
		why_not = i < 2 ? 0 : EPERM;
		assert_int_equal(buffers_join(b, &verbs, 1, &domain[1]), i < 2 ? ENOMEM : EPERM);
		assert_int_equal(registered, 2 * (DEVICES - 1));
	}
	good = UINT_MAX;
	add(3);
	assert_int_equal(registered, 3 * (DEVICES - 1));
	assert_int_equal(buffers_join(b, &verbs, 1, &domain[1]), 0);
	check(6);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_any_order),
		TEST(test_as_many_as_there_may_be),
		TEST(test_overlap),
		TEST(test_devices_come_and_go),
		TEST(test_one_device_does_not_take_it),
		TEST(test_a_device_does_not_take_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
