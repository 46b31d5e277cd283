/* SPDX-License-Identifier: BSD-2-Clause */
/* common/log_limit.h: a bucket lets its burst through, then its rate, and loses no count. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/log_limit.h"

#define S 1000000000ull

/* How many of `tries` at that time are let through. */
static unsigned take(struct log_bucket *b, unsigned tries, uint64_t now_ns)
{
	unsigned taken = 0;

	for (unsigned i = 0; i < tries; i++)
		taken += log_bucket_take(b, now_ns);
	return taken;
}

static void test_burst_and_rate(void **state)
{
	struct log_bucket b = { 0 };

	(void)state;
	assert_int_equal(take(&b, 1000, 5 * S), LOG_LIMIT_BURST);
	assert_int_equal(b.unsaid, 1000 - LOG_LIMIT_BURST);
	assert_int_equal(b.unsaid_since_ns, 5 * S);
	assert_int_equal(take(&b, 1000, 15 * S), 10 * LOG_LIMIT_PER_S);
	assert_int_equal(b.unsaid, 2000 - LOG_LIMIT_BURST - 10 * LOG_LIMIT_PER_S);
	/* Still since the first of them. */
	assert_int_equal(b.unsaid_since_ns, 5 * S);
}

/* However long nothing was said, no more than a burst. */
static void test_idle(void **state)
{
	struct log_bucket b = { 0 };

	(void)state;
	assert_int_equal(take(&b, 1, S), 1);
	assert_int_equal(take(&b, 1000, 1000000 * S), LOG_LIMIT_BURST);
}

/* A thread whose clock is behind takes none, and gives none. */
static void test_backwards(void **state)
{
	struct log_bucket b = { 0 };

	(void)state;
	assert_int_equal(take(&b, 1000, 50 * S), LOG_LIMIT_BURST);
	assert_int_equal(take(&b, 10, 40 * S), 0);
	assert_int_equal(take(&b, 10, 50 * S), 0);
	assert_int_equal(take(&b, 10, 51 * S), LOG_LIMIT_PER_S);
}

/* For a day of the worst flood: what kvd(8) says. */
static void test_day(void **state)
{
	struct log_bucket b = { 0 };
	unsigned lines = 0;

	(void)state;
	for (uint64_t ms = 1; ms < 86400000; ms += 7)
		lines += log_bucket_take(&b, ms * 1000000);
	assert_in_range(lines, 86400 * LOG_LIMIT_PER_S, 86400 * LOG_LIMIT_PER_S + LOG_LIMIT_BURST + 1);
	assert_int_equal(lines + b.unsaid, (86400000 - 1 + 6) / 7);
}

static int said; /* what was written to standard error */

/* Lines of it with that, since the last time; standard error is what it was again. */
static unsigned lines_with(const char *what, int terminal)
{
	static char text[65536];
	ssize_t bytes = pread(said, text, sizeof text - 1, 0);
	unsigned lines = 0;

	assert_true(bytes >= 0);
	assert_int_equal(dup2(terminal, 2), 2);
	close(terminal);
	text[bytes] = '\0';
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
		lines += strstr(line, what) != NULL;
	return lines;
}

static int listen_to_stderr(void)
{
	int terminal = dup(2);

	assert_true(terminal >= 0);
	assert_int_equal(ftruncate(said, 0), 0);
	assert_int_equal(lseek(said, 0, SEEK_SET), 0);
	assert_int_equal(dup2(said, 2), 2);
	return terminal;
}

static unsigned tell(uint64_t now_ns, bool all)
{
	int terminal = listen_to_stderr();

	log_limit_tell(now_ns, all);
	return lines_with("more like this suppressed", terminal);
}

/* A count that was left out waits for its time, is told once, and not before; or at once, with all. */
static void test_told(void **state)
{
	uint64_t begun_ns = clock_ns();

	(void)state;
	for (unsigned round = 0; round < 2; round++) {
		int terminal = listen_to_stderr();
		for (unsigned i = 0; i < 200; i++)
			log_limited(LOG_LEVEL_INFO, "a kind", "line %u", i);
		assert_in_range(lines_with(": line ", terminal), round ? 0 : LOG_LIMIT_BURST, 199);
		assert_int_equal(tell(begun_ns, false), 0);
		assert_int_equal(tell(begun_ns + (LOG_LIMIT_TELL_S - 1) * S, false), 0);
		assert_int_equal(tell(clock_ns() + (round ? 0 : LOG_LIMIT_TELL_S) * S, round), 1);
		assert_int_equal(tell(clock_ns() + LOG_LIMIT_TELL_S * S, false), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_burst_and_rate),
		cmocka_unit_test(test_idle),
		cmocka_unit_test(test_backwards),
		cmocka_unit_test(test_day),
		cmocka_unit_test(test_told),
	};

	log_open("log_limit_test", LOG_LEVEL_INFO);
	said = memfd_create("said", MFD_CLOEXEC);
	if (said < 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
