/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * group.h -- a group of tests whose teardown counts: cmocka tells of one that fails, and
 * ends with 0 all the same.
 */
#ifndef TESTS_LIB_GROUP_H
#define TESTS_LIB_GROUP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static CMFixtureFunction group_teardown;
static bool group_is_over;

static int group_end(void **state)
{
	int rc = group_teardown(state);

	group_is_over = !rc;
	return rc;
}

/* As cmocka_run_group_tests(); not 0 if a test fails, or the teardown, or it was not reached. */
#define GROUP_RUN(tests, setup, teardown)                                                        \
	(group_teardown = (teardown),                                                            \
	 cmocka_run_group_tests(tests, setup, group_end) + (group_is_over ? 0 : 1))

#endif
