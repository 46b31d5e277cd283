/* SPDX-License-Identifier: BSD-2-Clause */
/* server/worker/fate.h: the last changes of a connection that is gone, and of no other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "common/clock.h"
#include "server/worker/fate.h"

#define SECRET 77u
#define CREDITS 4u

static struct fates *fates;

static int begin(void **state)
{
	(void)state;
	fates = fates_new();
	return !fates;
}

static int end(void **state)
{
	(void)state;
	fates_delete(&fates);
	fates_delete(&fates); /* takes NULL */
	return 0;
}

/* A connection's ring with the results of requests 1 to `count`. */
static struct fate_ring *ring_of(uint64_t secret, uint32_t count)
{
	struct fate_ring *ring = fate_ring_new(secret, CREDITS);

	assert_non_null(ring);
	for (uint32_t i = 1; i <= count; i++)
		fate_note(ring, i, i % 2 ? WIRE_OK : WIRE_CONDITION, 100 + i, 200 + i);
	return ring;
}

static enum wire_status find(uint64_t connection, uint64_t secret, uint32_t request,
			     struct fate *fate)
{
	return fates_find(fates, connection, secret, request, fate);
}

static void test_result(void **state)
{
	struct fate fate = { 0 };

	(void)state;
	fates_keep(fates, 1, 0, ring_of(SECRET, 3));
	assert_int_equal(find(1, SECRET, 2, &fate), WIRE_OK);
	assert_int_equal(fate.request_id, 2);
	assert_int_equal(fate.status, WIRE_CONDITION);
	assert_int_equal(fate.version, 102);
	assert_int_equal(fate.value_bytes, 202);
	assert_int_equal(find(1, SECRET, 3, &fate), WIRE_OK);
	assert_int_equal(fate.status, WIRE_OK);
}

/* A change that kvd never saw had no effect; the answer is untouched. */
static void test_no_effect(void **state)
{
	struct fate fate = { .version = 5 };

	(void)state;
	fates_keep(fates, 1, 0, ring_of(SECRET, 3));
	assert_int_equal(find(1, SECRET, 4, &fate), WIRE_NOT_FOUND);
	assert_int_equal(fate.version, 5);
	/* An unused place of the ring is nobody's answer. */
	assert_int_equal(find(1, SECRET, 0, &fate), WIRE_NOT_FOUND);
}

static void test_secret(void **state)
{
	struct fate_ring *ring = ring_of(SECRET, 1);
	struct fate fate;

	(void)state;
	assert_true(fate_is_secret(ring, SECRET));
	assert_false(fate_is_secret(ring, SECRET + 1));
	fates_keep(fates, 1, 0, ring);
	assert_int_equal(find(1, SECRET + 1, 1, &fate), WIRE_EUNSUPPORTED);
	assert_int_equal(find(2, SECRET, 1, &fate), WIRE_EUNSUPPORTED);
	assert_int_equal(find(1, SECRET, 1, &fate), WIRE_OK);
}

/* As many as may be outstanding, twice; then the oldest goes. */
static void test_ring(void **state)
{
	struct fate fate;

	(void)state;
	fates_keep(fates, 1, 0, ring_of(SECRET, 2 * CREDITS));
	fates_keep(fates, 2, 0, ring_of(SECRET, 2 * CREDITS + 1));
	for (uint32_t i = 1; i <= 2 * CREDITS; i++)
		assert_int_equal(find(1, SECRET, i, &fate), WIRE_OK);
	assert_int_equal(find(2, SECRET, 1, &fate), WIRE_NOT_FOUND);
	for (uint32_t i = 2; i <= 2 * CREDITS + 1; i++)
		assert_int_equal(find(2, SECRET, i, &fate), WIRE_OK);
}

/* The table's end is the connection's that ended first. */
static void test_table(void **state)
{
	struct fate fate;

	(void)state;
	for (uint64_t id = 1; id <= FATES_MAX; id++)
		fates_keep(fates, id, 0, ring_of(SECRET, 1));
	assert_int_equal(find(1, SECRET, 1, &fate), WIRE_OK);
	fates_keep(fates, FATES_MAX + 1, 0, ring_of(SECRET, 1));
	assert_int_equal(find(1, SECRET, 1, &fate), WIRE_EUNSUPPORTED);
	assert_int_equal(find(2, SECRET, 1, &fate), WIRE_OK);
	assert_int_equal(find(FATES_MAX + 1, SECRET, 1, &fate), WIRE_OK);
}

/* Of what is forgotten it is told of which reign it was, and that nothing of it came later. */
static void test_forgotten(void **state)
{
	uint64_t now_ns = clock_read_ns(CLOCK_BOOTTIME);
	struct fates_forgotten f;

	(void)state;
	fates_keep(fates, 1, 7, ring_of(SECRET, 1));
	fates_keep(fates, 2, 0, ring_of(SECRET, 1));
	for (uint64_t id = 3; id <= FATES_MAX; id++)
		assert_int_equal(fates_keep(fates, id, 9, ring_of(SECRET, 1)).reign, 0);
	f = fates_keep(fates, FATES_MAX + 1, 9, ring_of(SECRET, 1));
	assert_int_equal(f.reign, 7);
	assert_in_range(f.until_ns, now_ns, clock_read_ns(CLOCK_BOOTTIME));
	assert_int_equal(fates_keep(fates, FATES_MAX + 2, 9, ring_of(SECRET, 1)).reign, 0);
	assert_int_equal(fates_keep(fates, FATES_MAX + 3, 9, ring_of(SECRET, 1)).reign, 9);
}

/* One that never said a good hello has no ring. */
static void test_no_ring(void **state)
{
	struct fate_ring *ring = ring_of(SECRET, 1);
	struct fate fate;

	(void)state;
	fates_keep(fates, 1, 0, NULL);
	assert_int_equal(find(1, 0, 0, &fate), WIRE_EUNSUPPORTED);
	fate_ring_delete(&ring);
	assert_null(ring);
	fate_ring_delete(&ring);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_result, begin, end),
		cmocka_unit_test_setup_teardown(test_no_effect, begin, end),
		cmocka_unit_test_setup_teardown(test_secret, begin, end),
		cmocka_unit_test_setup_teardown(test_ring, begin, end),
		cmocka_unit_test_setup_teardown(test_table, begin, end),
		cmocka_unit_test_setup_teardown(test_forgotten, begin, end),
		cmocka_unit_test_setup_teardown(test_no_ring, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
