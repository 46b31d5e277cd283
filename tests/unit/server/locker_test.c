/* SPDX-License-Identifier: BSD-2-Clause */
/* server/lock/locker.h: what is left where it can't start, and what is said and counted of requests that it
 * has no memory for, on a loopback that is a function. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "server/lock/locker.h"
#include "tests/unit/made_up.h"
#include "tests/unit/no_memory.h"
#include "tests/unit/server/lock_words.h"

#define WAIT_MS 20000 /* for what comes */

static struct locker *locker;
static int no_thread;
static unsigned joins;
static int said = -1; /* eventfd: an answer came */
static struct {
	uint64_t token;
	enum wire_status status;
} told;
static struct locker_note *note; /* of who asks */
static uint64_t id;

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg);
int __real_pthread_join(pthread_t thread, void **result);

MADE_UP(int, pthread_create, pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
	return no_thread ? no_thread : __real_pthread_create(thread, attr, run, arg);
}

MADE_UP(int, pthread_join, pthread_t thread, void **result)
{
	joins++;
	return __real_pthread_join(thread, result);
}

/* By the locker's thread. */
static void tell(struct conn *conn, const struct wire_request *request, enum wire_status status)
{
	(void)conn;
	told.token = request->token;
	told.status = status;
	if (request->ttl_ms > 1)
		fails_at = (unsigned)request->ttl_ms - 1;
	eventfd_write(said, 1);
}

static const struct locker_config config = {
	.loopback = { .locks = words }, .stripes = STRIPES, .lease_ns = LEASE_NS,
	.hooks = { .answer = tell, .fence = fence, .read_held = read_held, .wake_all = wake_all },
};

static void wait_said(void)
{
	struct pollfd p = { .fd = said, .events = POLLIN };
	eventfd_t count;

	assert_int_equal(poll(&p, 1, WAIT_MS), 1);
	assert_int_equal(eventfd_read(said, &count), 0);
	assert_int_equal(count, 1);
}

static int start(void **state)
{
	struct err err;

	(void)state;
	memset((void *)words, 0, sizeof words);
	said = eventfd(0, EFD_CLOEXEC);
	note = locker_note_new();
	if (said < 0 || !note || locker_new(&config, &locker, &err))
		return -1;
	id = locker_born(locker, note, 1, LOCKER_HOLDS);
	return id ? 0 : -1;
}

/* Its thread is over when it is gone. */
static int stop(void **state)
{
	(void)state;
	joins = 0;
	locker_dead(locker, &note);
	locker_delete(&locker);
	locker_delete(&locker);
	close(said);
	return locker || loopbacks || joins != 1 ? -1 : 0;
}

static void refuses(const char *why)
{
	struct locker *none = NULL;
	struct err err;

	assert_int_equal(locker_new(&config, &none, &err), -1);
	assert_string_equal(err.text, why);
	assert_null(none);
	assert_int_equal(loopbacks, 1); /* the group's own */
}

/* It says why, and nothing of it is left. */
static void test_no_start(void **state)
{
	(void)state;
	joins = 0;
	no_thread = EAGAIN;
	refuses("can't start the locker: Resource temporarily unavailable");
	no_thread = 0;
	is_down = true;
	refuses("down");
	is_down = false;
	breaks = true;
	refuses("broken");
	breaks = false;
	fails_at = 1;
	refuses("out of memory");
	assert_int_equal(fails_at, 0);
	assert_int_equal(joins, 0);
}

/* Asks for a lock; where it is answered the so manieth allocation of the locker's thread behind it fails. */
static void ask(uint64_t stripe, uint64_t token, unsigned then_fails)
{
	const struct wire_request request = { .op = WIRE_LOCK, .version = stripe, .token = token,
					      .ttl_ms = then_fails + 1 };

	assert_true(locker_wait(locker, NULL, &request));
}

static void expect(uint64_t token, enum wire_status status)
{
	wait_said();
	assert_int_equal(told.token, token);
	assert_int_equal(told.status, status);
}

/* Who can't be put in the queue is told so at once, whether there was one or not; nobody waited. */
static void test_no_memory(void **state)
{
	struct locker_stats stats;
	const uint64_t held = layout_token(id, 1), wanted = layout_token(id, 2);

	(void)state;
	atomic_store(&words[1], held);
	for (unsigned i = 1; i <= 2; i++) {
		ask(1, held, i);
		expect(held, WIRE_OK);
		ask(2, wanted, 0);
		expect(wanted, WIRE_EBUSY);
		assert_int_equal(atomic_load(&words[2]), 0);
	}
	locker_stats(locker, &stats);
	assert_int_equal(stats.waits, 0);
	/* With memory it is the asker's. */
	ask(2, wanted, 0);
	expect(wanted, WIRE_OK);
	assert_int_equal(atomic_load(&words[2]), wanted);
	locker_stats(locker, &stats);
	assert_int_equal(stats.waits, 1);
	assert_int_equal(stats.handovers, 1);
}

/* A request that can't be handed to the thread is not taken: the asker has no answer to wait for. */
static void test_not_taken(void **state)
{
	const struct wire_request request = { .op = WIRE_LOCK, .version = 1, .token = layout_token(id, 1) };

	(void)state;
	fails_at = 1;
	assert_false(locker_wait(locker, NULL, &request));
	assert_int_equal(fails_at, 0);
	fails_at = 1;
	assert_null(locker_note_new());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_no_start, begin, end),
		cmocka_unit_test_setup_teardown(test_no_memory, start, stop),
		cmocka_unit_test_setup_teardown(test_not_taken, start, stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
