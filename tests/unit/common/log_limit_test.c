/* SPDX-License-Identifier: BSD-2-Clause */
/* common/log_limit.h: a bucket lets its burst through, then its rate, and loses no count. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <cmocka.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/log_limit.h"
#include "tests/unit/said.h"

#define S 1000000000ull

/* What the monotonic clock says; 0: the time. */
static uint64_t set_ns;

int __real_clock_gettime(clockid_t clock, struct timespec *ts);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ts);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
	if (!set_ns || clock != CLOCK_MONOTONIC)
		return __real_clock_gettime(clock, ts);
	*ts = (struct timespec){ .tv_sec = (time_t)(set_ns / S), .tv_nsec = (long)(set_ns % S) };
	return 0;
}

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

/* Its first moment may be any but 0, and a full bucket stays full. */
static void test_first(void **state)
{
	struct log_bucket b = { 0 };

	(void)state;
	assert_int_equal(take(&b, 1, 1), 1);
	assert_int_equal(b.filled_ns, 1);
	assert_true(b.lines > LOG_LIMIT_BURST - 1.5 && b.lines < LOG_LIMIT_BURST - 0.5);
	assert_int_equal(take(&b, 1000, 1), LOG_LIMIT_BURST - 1);
	assert_int_equal(b.unsaid, 1001 - LOG_LIMIT_BURST);
}

static unsigned tell(uint64_t now_ns, bool all)
{
	said_begin();
	log_limit_tell(now_ns, all);
	said_end();
	return said_lines("more like this suppressed");
}

/* A count that was left out waits for its time, is told once, and not before; or at once, with all. */
static void test_told(void **state)
{
	uint64_t begun_ns = clock_ns();

	(void)state;
	for (unsigned round = 0; round < 2; round++) {
		said_begin();
		for (unsigned i = 0; i < 200; i++)
			log_limited(LOG_LEVEL_INFO, "a kind", "line %u", i);
		said_end();
		assert_in_range(said_lines(": line "), round ? 0 : LOG_LIMIT_BURST, 199);
		assert_int_equal(tell(begun_ns, false), 0);
		assert_int_equal(tell(begun_ns + (LOG_LIMIT_TELL_S - 1) * S, false), 0);
		assert_int_equal(tell(clock_ns() + (round ? 0 : LOG_LIMIT_TELL_S) * S, round), 1);
		assert_int_equal(tell(clock_ns() + LOG_LIMIT_TELL_S * S, false), 0);
	}
}

/*
 * At LOG_LIMIT_TELL_S after the first that was left out, not a nanosecond before, with the seconds begun
 * since; by a clock that is behind it, in the first second.
 */
static void test_told_exactly(void **state)
{
	(void)state;
	for (unsigned n = 0; n < 3; n++) {
		static const char *const told[] = {
			"1 more like this suppressed in the last 11 s: at a time",
			"1 more like this suppressed in the last 12 s: at a time",
			"1 more like this suppressed in the last 1 s: at a time",
		};
		const uint64_t first = 1000000 * S * (n + 1), due = first + LOG_LIMIT_TELL_S * S;
		set_ns = first;
		said_begin();
		for (unsigned i = 0; i <= LOG_LIMIT_BURST; i++)
			log_limited(LOG_LEVEL_INFO, "at a time", "line");
		said_end();
		set_ns = 0;
		assert_int_equal(said_lines(": line"), LOG_LIMIT_BURST);
		assert_int_equal(tell(first - 1, false), 0);
		assert_int_equal(tell(due - 1, false), 0);
		assert_int_equal(n == 2 ? tell(first - 5 * S, true) : tell(n ? due + S : due, false), 1);
		assert_int_equal(said_lines(told[n]), 1);
	}
}

/* Each kind has a bucket of its own, and each level; behind the last of them all share one. */
static void test_kinds(void **state)
{
	static char kinds[50][8];
	char told[64];

	(void)state;
	said_begin();
	for (unsigned k = 0; k < 50; k++) {
		snprintf(kinds[k], sizeof kinds[k], "kind%02u", k);
		for (unsigned i = 0; i < LOG_LIMIT_BURST + 10; i++)
			log_limited(k == 1 ? LOG_LEVEL_WARN : LOG_LEVEL_INFO, kinds[k ? k : 1], "line");
	}
	said_end();
	/* One each is test_told()'s and test_told_exactly()'s, one all share. */
	assert_int_equal(tell(clock_ns(), true), LOG_LIMIT_KINDS - 2);
	assert_int_equal(said_lines(": warning: "), 1);
	assert_int_equal(said_lines(" s: of several kinds"), 1);
	for (unsigned k = 1; k < 50; k++) {
		snprintf(told, sizeof told, " s: %s", kinds[k]);
		assert_int_equal(said_lines(told), k == 1 ? 2 : k < LOG_LIMIT_KINDS - 3);
	}
}

/* What isn't shown takes no bucket's lines, and is not counted. */
static void test_not_shown(void **state)
{
	(void)state;
	tell(clock_ns(), true);
	log_set_level(LOG_LEVEL_ERROR);
	said_begin();
	for (unsigned i = 0; i < LOG_LIMIT_BURST + 10; i++)
		log_limited(LOG_LEVEL_INFO, "a kind", "line");
	said_end();
	assert_int_equal(said_lines(": line"), 0);
	log_set_level(LOG_LEVEL_INFO);
	assert_int_equal(tell(clock_ns(), true), 0);
}

/* Who debugs gets each line, and of none only the number. */
static void test_debug(void **state)
{
	(void)state;
	tell(clock_ns(), true);
	log_set_level(LOG_LEVEL_DEBUG);
	said_begin();
	for (unsigned i = 0; i < 2 * LOG_LIMIT_BURST; i++)
		log_limited(i % 2 ? LOG_LEVEL_DEBUG : LOG_LEVEL_WARN, "a kind", "line");
	for (unsigned i = 0; i < 2 * LOG_LIMIT_BURST; i++)
		log_limited(LOG_LEVEL_INFO, "a kind", "line");
	said_end();
	assert_int_equal(said_lines(": line"), 4 * LOG_LIMIT_BURST);
	assert_int_equal(tell(clock_ns(), true), 0);
	log_set_level(LOG_LEVEL_INFO);
}

enum { LOGGERS = 2, LINES_EACH = 100000 };

/* Whether lines are counted rather than written; how many were said, or told of. */
static atomic_bool counts;
static atomic_ullong counted;

void __real_log_args(enum log_level level, const char *format, va_list args);
void __wrap_log_args(enum log_level level, const char *format, va_list args);
void __wrap_log_args(enum log_level level, const char *format, va_list args)
{
	char line[256];
	unsigned long long more;

	if (!counts) {
		__real_log_args(level, format, args);
		return;
	}
	vsnprintf(line, sizeof line, format, args);
	counted += sscanf(line, "%llu more like this", &more) == 1 ? more : 1;
}

static void *log_many(void *running)
{
	for (unsigned i = 0; i < LINES_EACH; i++)
		log_limited(LOG_LEVEL_INFO, "a kind", "line");
	--*(atomic_uint *)running;
	return NULL;
}

/* Each line is said or counted once, whoever else logs or tells meanwhile. */
static void test_threads(void **state)
{
	atomic_uint running = LOGGERS;
	pthread_t loggers[LOGGERS];

	(void)state;
	tell(clock_ns(), true);
	counts = true;
	for (unsigned i = 0; i < LOGGERS; i++)
		assert_int_equal(pthread_create(&loggers[i], NULL, log_many, &running), 0);
	while (running > 0)
		log_limit_tell(clock_ns(), true);
	for (unsigned i = 0; i < LOGGERS; i++)
		pthread_join(loggers[i], NULL);
	log_limit_tell(clock_ns(), true);
	counts = false;
	assert_int_equal(counted, LOGGERS * LINES_EACH);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_burst_and_rate),
		cmocka_unit_test(test_idle),
		cmocka_unit_test(test_backwards),
		cmocka_unit_test(test_day),
		cmocka_unit_test(test_first),
		cmocka_unit_test(test_told),
		cmocka_unit_test(test_told_exactly),
		cmocka_unit_test(test_kinds),
		cmocka_unit_test(test_not_shown),
		cmocka_unit_test(test_debug),
		cmocka_unit_test(test_threads),
	};

	log_open("log_limit_test", LOG_LEVEL_INFO);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
