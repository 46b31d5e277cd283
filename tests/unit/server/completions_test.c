/* SPDX-License-Identifier: BSD-2-Clause */
/* server/worker/request/completions: what is told of changes that another member executed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "server/worker/request/completions.h"

#define SECRET 77u

static struct completions *c;

static void note(uint64_t connection, uint64_t secret, uint64_t reign, uint32_t request)
{
	const struct completion of = { .connection = connection, .secret = secret, .reign = reign,
				       .fate = { request, WIRE_OK, 100 + request, 7 }, .size = 4 };

	completions_note(c, &of);
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
	completions_lack(c, 5);
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
	completions_lack(c, 5);
	do
		assert_int_equal(find(9, SECRET, 5, 1, &fate), WIRE_EUNSUPPORTED);
	while (fate.value_bytes < 20);
	completions_lack(c, 3);
	assert_int_equal(find(9, SECRET, 5, 1, &fate), WIRE_EUNSUPPORTED);
	assert_in_range(fate.value_bytes, 0, 19);
}

/* Who is forgotten for want of room is not told that nothing happened. */
static void test_forgotten(void **state)
{
	struct fate fate;

	(void)state;
	note(1, SECRET, 3, 10);
	for (uint64_t i = 1; i <= 4; i++)
		note(1, SECRET + 1024 * i, 4, 10);
	assert_int_equal(find(1, SECRET, 3, 10, &fate), WIRE_EUNSUPPORTED);
	assert_int_equal(find(1, SECRET + 1024, 4, 10, &fate), WIRE_OK);
	assert_int_equal(find(9, SECRET, 4, 1, &fate), WIRE_NOT_FOUND);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_found, begin, finish),
		cmocka_unit_test_setup_teardown(test_lack, begin, finish),
		cmocka_unit_test_setup_teardown(test_since, begin, finish),
		cmocka_unit_test_setup_teardown(test_forgotten, begin, finish),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
