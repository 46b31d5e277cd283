/* SPDX-License-Identifier: BSD-2-Clause */
/* server/platform/stall.h: the time of a piece of work, but for one in which the thread was preempted. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/clock.h"
#include "server/platform/stall.h"

static uint64_t still_ns; /* what the clock says; 0: the time */

int clock_gettime(clockid_t clock, struct timespec *time)
{
	if (!still_ns)
		return (int)syscall(SYS_clock_gettime, clock, time);
	*time = (struct timespec){ (time_t)(still_ns / 1000000000), (long)(still_ns % 1000000000) };
	return 0;
}

#define WORK_NS 100000ull
#define TRIES 1000u
#define PREEMPTED_WAIT_NS 10000000000ull

static long preemptions(void)
{
	struct rusage use;

	assert_int_equal(getrusage(RUSAGE_THREAD, &use), 0);
	return use.ru_nivcsw;
}

static void work(void)
{
	uint64_t end_ns = clock_ns() + WORK_NS;

	while (clock_ns() < end_ns)
		;
}

/* On a machine with other work one of so many isn't preempted. */
static void test_a_piece_of_work_counts(void **state)
{
	struct stall s = { 0 };
	uint64_t ns = 0;

	(void)state;
	for (unsigned i = 0; i < TRIES && !ns; i++) {
		uint64_t begun_ns = stall_begin(&s);
		work();
		ns = stall_end(&s, begun_ns, 0);
	}
	assert_true(ns >= WORK_NS);
}

static void test_a_shorter_one_does_not(void **state)
{
	struct stall s = { 0 };
	uint64_t begun_ns = stall_begin(&s);

	(void)state;
	work();
	assert_int_equal(stall_end(&s, begun_ns, UINT64_MAX), 0);
}

static void test_as_long_as_may_be(void **state)
{
	struct stall s = { 0 };
	uint64_t longer_ns = 0, not_longer_ns = 0;

	(void)state;
	still_ns = clock_ns();
	for (unsigned i = 0; i < TRIES && !longer_ns; i++)
		longer_ns = stall_end(&s, still_ns - 5, 4);
	for (unsigned i = 0; i < TRIES; i++)
		not_longer_ns += stall_end(&s, still_ns - 5, 5);
	still_ns = 0;
	assert_int_equal(longer_ns, 5);
	assert_int_equal(not_longer_ns, 0);
}

/* Long before the next one begins the kernel is asked again, so that what was then doesn't count. */
static void test_preempted_before(void **state)
{
	struct stall s = { 0 };
	unsigned counted = 0;

	(void)state;
	for (unsigned i = 0; i < TRIES && !counted; i++) {
		(void)stall_begin(&s);
		s.preemptions -= 1; /* as if it had been since */
		s.looked_ns -= 1000000;
		uint64_t begun_ns = stall_begin(&s);
		work();
		counted += stall_end(&s, begun_ns, 0) > 0;
	}
	assert_int_equal(counted, 1);
}

static atomic_bool ends;

static void *spin(void *arg)
{
	while (!atomic_load(&ends))
		;
	return arg;
}

/* Two threads that share a processor: each is preempted while the other works. */
static void test_preempted(void **state)
{
	struct stall s = { 0 };
	cpu_set_t had, one;
	pthread_t other;
	int cpu = 0;

	(void)state;
	assert_int_equal(pthread_getaffinity_np(pthread_self(), sizeof had, &had), 0);
	while (!CPU_ISSET(cpu, &had))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	assert_int_equal(pthread_setaffinity_np(pthread_self(), sizeof one, &one), 0);
	assert_int_equal(pthread_create(&other, NULL, spin, NULL), 0);
	uint64_t end_ns = clock_ns() + PREEMPTED_WAIT_NS, begun_ns = stall_begin(&s);
	long before = preemptions();
	while (preemptions() == before && clock_ns() < end_ns)
		;
	bool was = preemptions() != before;
	uint64_t ns = stall_end(&s, begun_ns, 0);
	atomic_store(&ends, true);
	assert_int_equal(pthread_join(other, NULL), 0);
	assert_int_equal(pthread_setaffinity_np(pthread_self(), sizeof had, &had), 0);
	assert_true(was);
	assert_int_equal(ns, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_piece_of_work_counts),
		cmocka_unit_test(test_a_shorter_one_does_not),
		cmocka_unit_test(test_as_long_as_may_be),
		cmocka_unit_test(test_preempted_before),
		cmocka_unit_test(test_preempted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
