/* SPDX-License-Identifier: BSD-2-Clause */
/* server/platform/affinity.h: which CPUs a worker has, on however many CPUs there are. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "server/platform/affinity.h"

static cpu_set_t all;

/* The n-th of them. */
static int nth_cpu(unsigned n)
{
	for (int i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &all) && n-- == 0)
			return i;
	fail();
	return -1;
}

/* What a thread has behind it, which has all of them again then. */
static cpu_set_t pin(unsigned number, unsigned count, char *text, size_t text_bytes)
{
	cpu_set_t has;

	affinity_pin(pthread_self(), -1, number, count, text, text_bytes);
	assert_int_equal(pthread_getaffinity_np(pthread_self(), sizeof has, &has), 0);
	assert_int_equal(pthread_setaffinity_np(pthread_self(), sizeof all, &all), 0);
	return has;
}

/* One of one's own where there are twice as many as workers. */
static void test_own(void **state)
{
	unsigned count = (unsigned)CPU_COUNT(&all) / 2;
	char text[64], expected[64];

	(void)state;
	for (unsigned i = 0; i < count; i++) {
		cpu_set_t has = pin(i, count, text, sizeof text);
		assert_int_equal(CPU_COUNT(&has), 1);
		assert_true(CPU_ISSET(nth_cpu(i), &has));
		snprintf(expected, sizeof expected, "cpus %d", nth_cpu(i));
		assert_string_equal(text, expected);
	}
}

/* Else any of them: a client's thread has to go somewhere. */
static void test_shared(void **state)
{
	unsigned count = (unsigned)CPU_COUNT(&all) / 2 + 1;
	char text[8 * CPU_SETSIZE], expected[8 * CPU_SETSIZE] = "cpus", shorter[8];
	size_t n = strlen(expected);

	(void)state;
	cpu_set_t has = pin(0, count, text, sizeof text);
	assert_true(CPU_EQUAL(&has, &all));
	for (unsigned i = 0; i < (unsigned)CPU_COUNT(&all); i++)
		n += (size_t)snprintf(expected + n, sizeof expected - n, " %d", nth_cpu(i));
	assert_string_equal(text, expected);
	memset(shorter, 'x', sizeof shorter);
	pin(0, count, shorter, 6);
	assert_string_equal(shorter, "cpus ");
	assert_int_equal(shorter[6], 'x');
}

static int begin(void **state)
{
	(void)state;
	return sched_getaffinity(0, sizeof all, &all);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_own),
		cmocka_unit_test(test_shared),
	};

	return cmocka_run_group_tests(tests, begin, NULL);
}
