/* SPDX-License-Identifier: BSD-2-Clause */
/* server/lock/inbox.h: what many threads say comes once each, in the order of each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "server/lock/inbox.h"

#define THREADS 4u
#define MESSAGES 5000u
#define LONG_MS 60000u

static struct inbox inbox;
static time_t set_by_s; /* by how much somebody set the time of day */

/* In front of the C library's. */
int clock_gettime(clockid_t clock, struct timespec *t)
{
	int rc = (int)syscall(SYS_clock_gettime, clock, t);

	if (clock == CLOCK_REALTIME)
		t->tv_sec += set_by_s;
	return rc;
}

static int begin(void **state)
{
	(void)state;
	inbox = (struct inbox){ 0 };
	inbox_init(&inbox);
	return 0;
}

static int end(void **state)
{
	(void)state;
	for (struct message *m = inbox_take(&inbox, 0), *next; m; m = next) {
		next = m->next;
		free(m);
	}
	inbox_fini(&inbox);
	return 0;
}

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void post(uint64_t stripe)
{
	assert_true(inbox_post(&inbox, &(struct message){ .kind = MSG_WATCH, .stripe = stripe }));
}

/* Takes what there is, which must be of these stripes. */
static void expect(const uint64_t *stripes, unsigned count)
{
	struct message *m = inbox_take(&inbox, LONG_MS), *next;

	for (unsigned i = 0; i < count; i++, m = next) {
		assert_non_null(m);
		assert_int_equal(m->kind, MSG_WATCH);
		assert_int_equal(m->stripe, stripes[i]);
		next = m->next;
		free(m);
	}
	assert_null(m);
}

static void test_order(void **state)
{
	(void)state;
	post(1);
	post(2);
	/* An own message, which inbox_post() would have copied. */
	struct message *own = calloc(1, sizeof *own);
	own->kind = MSG_WATCH;
	own->stripe = 3;
	own->next = own; /* of the list that it was in before */
	inbox_append(&inbox, own);
	expect((const uint64_t[]){ 1, 2, 3 }, 3);
	post(4);
	expect((const uint64_t[]){ 4 }, 1);
}

static void test_time_out(void **state)
{
	uint64_t start = now_ms();

	(void)state;
	assert_null(inbox_take(&inbox, 20));
	assert_in_range(now_ms() - start, 20, LONG_MS);
}

/* A wait is as long when somebody sets the clock. */
static void test_clock_set(void **state)
{
	uint64_t start = now_ms();

	(void)state;
	alarm(LONG_MS / 1000);
	set_by_s = 3600;
	assert_null(inbox_take(&inbox, 20));
	assert_in_range(now_ms() - start, 20, LONG_MS);
	start = now_ms();
	set_by_s = -3600;
	assert_null(inbox_take(&inbox, 20));
	assert_in_range(now_ms() - start, 20, LONG_MS);
	set_by_s = 0;
	alarm(0);
}

/* So many may wait to be taken, and what must come is not one of them. */
static void test_full(void **state)
{
	struct message *own = calloc(1, sizeof *own), *next;
	unsigned count = 0;

	(void)state;
	for (unsigned i = 0; i < INBOX_COPIES_MAX; i++)
		post(i);
	assert_false(inbox_post(&inbox, &(struct message){ .kind = MSG_WATCH }));
	inbox_append(&inbox, own);
	for (struct message *m = inbox_take(&inbox, LONG_MS); m; m = next, count++) {
		next = m->next;
		free(m);
	}
	assert_int_equal(count, INBOX_COPIES_MAX + 1);
	post(1);
	expect((const uint64_t[]){ 1 }, 1);
}

static void test_close(void **state)
{
	uint64_t start = now_ms();

	(void)state;
	assert_false(inbox_is_closed(&inbox));
	post(1);
	inbox_close(&inbox);
	/* What is there is still to be taken. */
	assert_false(inbox_is_closed(&inbox));
	expect((const uint64_t[]){ 1 }, 1);
	assert_true(inbox_is_closed(&inbox));
	assert_null(inbox_take(&inbox, LONG_MS));
	assert_true(now_ms() - start < LONG_MS);
}

static void *close_it(void *arg)
{
	(void)arg;
	inbox_close(&inbox);
	return NULL;
}

/* Who waits is woken by the end. */
static void test_close_wakes(void **state)
{
	uint64_t start = now_ms();
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, close_it, NULL), 0);
	while (!inbox_is_closed(&inbox)) {
		assert_null(inbox_take(&inbox, LONG_MS));
		assert_true(now_ms() - start < LONG_MS);
	}
	pthread_join(thread, NULL);
}

static void *say(void *arg)
{
	uint64_t me = (uint64_t)(uintptr_t)arg;

	for (uint64_t i = 0; i < MESSAGES; i++)
		if (!inbox_post(&inbox, &(struct message){ .connection_id = me, .look = i }))
			abort();
	return NULL;
}

static void test_threads(void **state)
{
	uint64_t start = now_ms(), next[THREADS] = { 0 };
	pthread_t thread[THREADS];
	unsigned count = 0;

	(void)state;
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, say, (void *)i), 0);
	while (count < THREADS * MESSAGES) {
		for (struct message *m = inbox_take(&inbox, LONG_MS), *behind; m; m = behind) {
			behind = m->next;
			assert_int_equal(m->look, next[m->connection_id]++);
			count++;
			free(m);
		}
		assert_true(now_ms() - start < LONG_MS);
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	assert_null(inbox_take(&inbox, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_order, begin, end),
		cmocka_unit_test_setup_teardown(test_time_out, begin, end),
		cmocka_unit_test_setup_teardown(test_clock_set, begin, end),
		cmocka_unit_test_setup_teardown(test_full, begin, end),
		cmocka_unit_test_setup_teardown(test_close, begin, end),
		cmocka_unit_test_setup_teardown(test_close_wakes, begin, end),
		cmocka_unit_test_setup_teardown(test_threads, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
