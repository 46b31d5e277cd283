/* SPDX-License-Identifier: BSD-2-Clause */
/* server/worker/request/completions: what is told of changes that another member executed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "common/clock.h"
#include "server/worker/request/completions.h"

#define SECRET 77u
#define CLIENTS 3000u
#define LONG 512u          /* of whom so many changes are remembered */
#define LONG_MAX 20000u    /* no table has as many of those */

static struct completions *c;

static void note_of(uint64_t connection, uint64_t secret, uint64_t reign, uint32_t request,
		    uint32_t size)
{
	const struct completion of = { .connection = connection, .secret = secret, .reign = reign,
				       .fate = { request, WIRE_OK, 100 + request, 7 }, .size = size };

	completions_note(c, &of);
}

static void note(uint64_t connection, uint64_t secret, uint64_t reign, uint32_t request)
{
	note_of(connection, secret, reign, request, 4);
}

static void lack(uint64_t reign)
{
	completions_lack(c, reign, clock_read_ns(CLOCK_BOOTTIME));
}

static enum wire_status find(uint64_t connection, uint64_t secret, uint64_t reign, uint32_t request,
			     struct fate *fate)
{
	const struct completion asked = { .connection = connection, .secret = secret,
					  .reign = reign, .fate = { .request_id = request } };

	return completions_find(c, &asked, fate);
}

static int begin(void **state)
{
	(void)state;
	c = completions_new();
	return !c;
}

static int finish(void **state)
{
	(void)state;
	completions_delete(&c);
	return 0;
}

static void test_found(void **state)
{
	struct fate fate;

	(void)state;
	note(1, SECRET, 3, 10);
	assert_int_equal(find(1, SECRET, 3, 10, &fate), WIRE_OK);
	assert_int_equal(fate.version, 110);
	assert_int_equal(fate.value_bytes, 7);
	/* No effect: nobody else's, and not the next request. */
	assert_int_equal(find(1, SECRET, 3, 11, &fate), WIRE_NOT_FOUND);
	assert_int_equal(find(1, SECRET + 1, 3, 10, &fate), WIRE_NOT_FOUND);
	assert_int_equal(find(2, SECRET, 3, 10, &fate), WIRE_NOT_FOUND);
}

/* A member that was copied to does not know what became of what came before. */
static void test_lack(void **state)
{
	struct fate fate;

	(void)state;
	lack(5);
	note(1, SECRET, 5, 10);
	assert_int_equal(find(1, SECRET, 5, 10, &fate), WIRE_OK);
	assert_int_equal(find(1, SECRET, 5, 11, &fate), WIRE_EUNSUPPORTED);
	assert_int_equal(find(9, SECRET, 4, 1, &fate), WIRE_EUNSUPPORTED);
	assert_int_equal(find(9, SECRET, 6, 1, &fate), WIRE_NOT_FOUND);
}

/* But what was sent since then: the time is told, and begins anew with what is forgotten. */
static void test_since(void **state)
{
	struct fate fate;

	(void)state;
	lack(5);
	do
		assert_int_equal(find(9, SECRET, 5, 1, &fate), WIRE_EUNSUPPORTED);
	while (fate.value_bytes < 20);
	lack(3);
	assert_int_equal(find(9, SECRET, 5, 1, &fate), WIRE_EUNSUPPORTED);
	assert_in_range(fate.value_bytes, 0, 19);
}

/* However many there are, each is known; what none of them did had no effect. */
static void test_many(void **state)
{
	struct fate fate;

	(void)state;
	for (uint32_t i = 1; i <= CLIENTS; i++)
		note(i, SECRET + i, 4, 10);
	for (uint32_t i = 1; i <= CLIENTS; i++) {
		assert_int_equal(find(i, SECRET + i, 4, 10, &fate), WIRE_OK);
		assert_int_equal(find(i, SECRET + i, 4, 11, &fate), WIRE_NOT_FOUND);
	}
}

/* Until that one is forgotten. */
static void crowd_out(uint64_t secret)
{
	struct fate fate;

	for (uint32_t i = 1; find(1, secret, 3, 10, &fate) == WIRE_OK; i++) {
		assert_true(i < LONG_MAX);
		note_of(i, SECRET + 2 + i, 4, 10, LONG);
	}
}

/* Who is forgotten for want of room, which is who was heard of longest ago, is not told that
 * nothing happened. */
static void test_forgotten(void **state)
{
	struct fate fate;

	(void)state;
	note_of(1, SECRET, 3, 10, LONG);
	note_of(1, SECRET + 1, 3, 10, LONG);
	note_of(1, SECRET, 3, 11, LONG); /* it is the younger one now */
	crowd_out(SECRET + 1);
	assert_int_equal(find(1, SECRET, 3, 10, &fate), WIRE_OK);
	assert_int_equal(find(1, SECRET + 1, 3, 10, &fate), WIRE_EUNSUPPORTED);
	assert_int_equal(find(9, SECRET, 4, 1, &fate), WIRE_NOT_FOUND);
	crowd_out(SECRET);
	assert_int_equal(find(1, SECRET, 3, 11, &fate), WIRE_EUNSUPPORTED);
}

/* What was sent since they were heard of is not forgotten with them. */
static void test_forgotten_since(void **state)
{
	struct fate fate;
	uint64_t noted_ns, asked_ns;

	(void)state;
	note_of(1, SECRET, 3, 10, LONG);
	noted_ns = clock_read_ns(CLOCK_BOOTTIME);
	while (clock_read_ns(CLOCK_BOOTTIME) < noted_ns + 20000000)
		;
	crowd_out(SECRET);
	asked_ns = clock_read_ns(CLOCK_BOOTTIME);
	assert_int_equal(find(1, SECRET, 3, 10, &fate), WIRE_EUNSUPPORTED);
	assert_in_range(fate.value_bytes, (asked_ns - noted_ns) / 1000000, UINT32_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_found, begin, finish),
		cmocka_unit_test_setup_teardown(test_lack, begin, finish),
		cmocka_unit_test_setup_teardown(test_since, begin, finish),
		cmocka_unit_test_setup_teardown(test_many, begin, finish),
		cmocka_unit_test_setup_teardown(test_forgotten, begin, finish),
		cmocka_unit_test_setup_teardown(test_forgotten_since, begin, finish),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
