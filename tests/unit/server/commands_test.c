/* SPDX-License-Identifier: BSD-2-Clause */
/* server/worker/commands.h: what is asked of workers comes once, in order, and wakes them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/log.h"
#include "server/worker/commands.h"
#include "tests/unit/descriptors.h"
#include "tests/unit/made_up.h"
#include "tests/unit/no_memory.h"
#include "tests/unit/said.h"

#define WORKERS 3u

static struct commands commands[WORKERS];
static struct commands_all all;
static int no_eventfd; /* why there is none */
static int files;

int __real_eventfd(unsigned count, int flags);

MADE_UP(int, eventfd, unsigned count, int flags)
{
	errno = no_eventfd;
	return no_eventfd ? -1 : __real_eventfd(count, flags);
}

static int begin(void **state)
{
	(void)state;
	files = count_descriptors();
	no_eventfd = 0;
	fails_at = 0;
	all = (struct commands_all){ .count = WORKERS };
	for (unsigned i = 0; i < WORKERS; i++) {
		memset(&commands[i], 0, sizeof commands[i]);
		all.of[i] = &commands[i];
		if (commands_init(&commands[i]))
			return -1;
	}
	return 0;
}

static int end(void **state)
{
	(void)state;
	for (unsigned i = 0; i < WORKERS; i++)
		commands_fini(&commands[i]);
	return count_descriptors() - files;
}

/* Whether it was woken since it was asked last. */
static bool is_woken(struct commands *c)
{
	bool poked = atomic_exchange(&c->poked, false);
	eventfd_t value = 0;
	bool rang = eventfd_read(c->wake_fd, &value) == 0;

	assert_int_equal(poked, rang);
	return poked;
}

/* Takes all there is, which has to be notices of these numbers, in order. */
static void expect(struct commands *c, const uint64_t *looks, unsigned count)
{
	struct command *m = commands_take(c), *next;

	for (unsigned i = 0; i < count; i++, m = next) {
		assert_non_null(m);
		assert_int_equal(m->kind, CMD_READ_HELD);
		assert_int_equal(m->look, looks[i]);
		next = m->next;
		free(m);
	}
	assert_null(m);
}

/* A copy each: the caller's may be changed and posted again; what it is linked to is nothing to them. */
static void test_order(void **state)
{
	struct command m = { .kind = CMD_READ_HELD, .look = 1 };

	(void)state;
	m.next = &m;
	assert_false(is_woken(&commands[0]));
	expect(&commands[0], NULL, 0);
	assert_true(commands_post(&commands[0], &m));
	m.look = 2;
	assert_true(commands_post(&commands[0], &m));
	assert_true(is_woken(&commands[0]));
	assert_false(is_woken(&commands[0]));
	expect(&commands[0], (const uint64_t[]){ 1, 2 }, 2);
	expect(&commands[0], NULL, 0);
	m.look = 3;
	assert_true(commands_post(&commands[0], &m));
	assert_true(is_woken(&commands[0]));
	expect(&commands[0], (const uint64_t[]){ 3 }, 1);
}

/* Each of them, each time; nobody's heap is trimmed for it. */
static void test_all(void **state)
{
	(void)state;
	commands_post_all(&all, &(struct command){ .kind = CMD_READ_HELD, .look = 7 });
	for (unsigned i = 0; i < WORKERS; i++) {
		assert_true(is_woken(&commands[i]));
		expect(&commands[i], (const uint64_t[]){ 7 }, 1);
	}
	commands_wake_all(&all);
	for (unsigned i = 0; i < WORKERS; i++) {
		assert_true(is_woken(&commands[i]));
		assert_false(atomic_load(&commands[i].trim));
		expect(&commands[i], NULL, 0);
	}
	commands_trim_all(&all);
	for (unsigned i = 0; i < WORKERS; i++) {
		assert_true(is_woken(&commands[i]));
		assert_true(atomic_load(&commands[i].trim));
	}
	/* Fewer than there is room for. */
	all.count = 1;
	commands_wake_all(&all);
	assert_true(is_woken(&commands[0]));
	assert_false(is_woken(&commands[1]));
}

/* Nothing is posted and nobody is woken; who is told to tell all says so, and tells the others. */
static void test_no_memory(void **state)
{
	const struct command m = { .kind = CMD_READ_HELD, .look = 5 };

	(void)state;
	fails_at = 1;
	assert_false(commands_post(&commands[0], &m));
	assert_false(is_woken(&commands[0]));
	expect(&commands[0], NULL, 0);
	said_begin();
	fails_at = 2;
	commands_post_all(&all, &m);
	said_end();
	assert_int_equal(said_lines("out of memory: a worker is not told what to do"), 1);
	expect(&commands[0], (const uint64_t[]){ 5 }, 1);
	expect(&commands[1], NULL, 0);
	expect(&commands[2], (const uint64_t[]){ 5 }, 1);
	said_begin();
	commands_post_all(&all, &m);
	assert_string_equal(said_end(), "");
	for (unsigned i = 0; i < WORKERS; i++)
		expect(&commands[i], (const uint64_t[]){ 5 }, 1);
}

/* A worker that does not come to look makes nobody wait, and nothing is said of a wake that arrives. */
static void test_full(void **state)
{
	eventfd_t value;

	(void)state;
	assert_true(fcntl(commands[0].wake_fd, F_GETFL) & O_NONBLOCK);
	assert_true(fcntl(commands[0].wake_fd, F_GETFD) & FD_CLOEXEC);
	said_begin();
	commands_wake(&commands[0]);
	assert_string_equal(said_end(), "");
	assert_int_equal(eventfd_write(commands[0].wake_fd, UINT64_MAX - 2), 0);
	said_begin();
	commands_wake(&commands[0]);
	said_end();
	assert_int_equal(said_lines("can't wake a worker: "), 1);
	assert_int_equal(eventfd_read(commands[0].wake_fd, &value), 0);
}

static void test_no_descriptor(void **state)
{
	struct commands none = { .wake_fd = 0 };

	(void)state;
	no_eventfd = EMFILE;
	assert_int_equal(commands_init(&none), EMFILE);
	assert_null(commands_take(&none));
	commands_fini(&none);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_order, begin, end),
		cmocka_unit_test_setup_teardown(test_all, begin, end),
		cmocka_unit_test_setup_teardown(test_no_memory, begin, end),
		cmocka_unit_test_setup_teardown(test_full, begin, end),
		cmocka_unit_test_setup_teardown(test_no_descriptor, begin, end),
	};

	log_open("commands_test", LOG_LEVEL_INFO);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
