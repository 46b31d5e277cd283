/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * server/cluster/agree/agree.h and impl.h with an engine that the test is: what is delivered, in which
 * order and how often, how much there is room for, and that nothing is left.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "server/cluster/agree/agree.h"
#include "server/cluster/agree/impl.h"
#include "tests/unit/descriptors.h"
#include "tests/unit/made_up.h"

static struct agree *agree;
static struct agree_call *calls[AGREE_CALLS_MAX]; /* that the engine has */
static unsigned call_count, closes, blocks; /* blocks: of memory, not freed */
static bool no_memory, no_descriptor;
static char told[1024]; /* all that was delivered, a word each */

/* ------------------------------------------------------------------------- memory */

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void __real_free(void *block);
int __real_eventfd(unsigned count, int flags);

MADE_UP(void *, malloc, size_t bytes)
{
	errno = ENOMEM;
	blocks += !no_memory;
	return no_memory ? NULL : __real_malloc(bytes);
}

MADE_UP(void *, calloc, size_t n, size_t bytes)
{
	errno = ENOMEM;
	blocks += !no_memory;
	return no_memory ? NULL : __real_calloc(n, bytes);
}

MADE_UP(void, free, void *block)
{
	blocks -= block != NULL;
	__real_free(block);
}

MADE_UP(int, eventfd, unsigned count, int flags)
{
	errno = EMFILE;
	return no_descriptor ? -1 : __real_eventfd(count, flags);
}

/* ------------------------------------------------------------------------ an engine */

static void take_read(struct agree_call *call, bool watch)
{
	assert_false(watch);
	calls[call_count++] = call;
}

static void end(struct agree *a)
{
	assert_ptr_equal(a, agree);
	closes++;
}

static const struct agree_engine engine = { .read = take_read, .close = end };

static void tell(const char *word)
{
	assert_true(strlen(told) + strlen(word) + 2 < sizeof told);
	strcat(strcat(told, word), " ");
}

static void on_changed(void *arg, const char *path)
{
	assert_ptr_equal(arg, &agree);
	tell(path ? path : "any");
}

static void on_session(void *arg, enum agree_session session)
{
	static const char *const words[] = { "connecting", "connected", "away", "over" };

	assert_ptr_equal(arg, &agree);
	tell(words[session]);
}

static const struct agree_events events = { on_changed, on_session, &agree };
static struct agree_answer last;

static void on_answer(void *arg, const struct agree_answer *answer)
{
	last = *answer;
	tell(arg);
}

static void on_answer_ask(void *arg, const struct agree_answer *answer)
{
	on_answer(arg, answer);
	assert_int_equal(agree_read(agree, "/more", false, on_answer, (void *)(uintptr_t)"more"), 0);
}

static int ask(const char *word)
{
	return agree_read(agree, "/a", false, on_answer, (void *)(uintptr_t)word);
}

static bool is_readable(void)
{
	return poll(&(struct pollfd){ .fd = agree_descriptor(agree), .events = POLLIN }, 1, 0) == 1;
}

/* Its descriptor says that there is something, until it is polled; that was it. */
static void expect_told(const char *words)
{
	assert_true(is_readable());
	agree_poll(agree);
	assert_false(is_readable());
	assert_string_equal(told, words);
	told[0] = '\0';
}

static void expect_nothing_more(void)
{
	agree_poll(agree);
	assert_string_equal(told, "");
}

/* --------------------------------------------------------------------------- cases */

static void test_descriptor(void **state)
{
	int fd = agree_descriptor(agree);

	(void)state;
	assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC); /* no child's */
	expect_nothing_more();
}

static void test_none(void **state)
{
	unsigned had = blocks;

	(void)state;
	no_memory = true;
	assert_null(agree_new(&engine, NULL, &events));
	assert_int_equal(ask("a"), ENOMEM);
	assert_int_equal(call_count, 0);
	no_memory = false;
	no_descriptor = true;
	assert_null(agree_new(&engine, NULL, &events));
	assert_int_equal(errno, EMFILE);
	assert_int_equal(blocks, had);
	/* What had no memory is not counted as one that is to be answered. */
	for (unsigned i = 0; i < AGREE_CALLS_MAX; i++)
		assert_int_equal(ask("a"), 0);
	assert_int_equal(ask("a"), EAGAIN);
	assert_int_equal(call_count, AGREE_CALLS_MAX);
}

/* In the order in which they were answered; each makes room for another one when it is delivered. */
static void test_order(void **state)
{
	(void)state;
	assert_true(!ask("a") && !ask("b") && !ask("c"));
	agree_answer(calls[1], AGREE_DONE, NULL);
	agree_answer(calls[2], AGREE_DONE, NULL);
	agree_answer(calls[0], AGREE_UNKNOWN, NULL);
	expect_told("b c a ");
	assert_int_equal(last.status, AGREE_UNKNOWN);
	assert_true(!last.version && !last.length && !last.count && !last.why);
	expect_nothing_more();
	for (unsigned round = 0; round < 2; round++) {
		call_count = 0;
		while (call_count < AGREE_CALLS_MAX)
			assert_int_equal(ask("x"), 0);
		assert_int_equal(ask("x"), EAGAIN);
		for (unsigned i = 0; i < AGREE_CALLS_MAX; i++)
			agree_answer(calls[i], AGREE_DONE, NULL);
		assert_int_equal(ask("x"), EAGAIN); /* not delivered yet */
		agree_poll(agree);
		assert_int_equal(strlen(told), 2 * AGREE_CALLS_MAX);
		told[0] = '\0';
	}
}

/* Who is answered may ask again; that is answered in a later poll. */
static void test_ask_again(void **state)
{
	(void)state;
	assert_int_equal(agree_read(agree, "/a", false, on_answer_ask, (void *)(uintptr_t)"a"), 0);
	agree_answer(calls[0], AGREE_ABSENT, "it is gone");
	expect_told("a ");
	assert_int_equal(call_count, 2);
	agree_answer(calls[1], AGREE_DONE, NULL);
	expect_told("more ");
}

/* As many bytes as it says, and no more; what has no room leaves what there was. */
static void test_bytes(void **state)
{
	static uint8_t bytes[AGREE_BYTES_MAX + 1];

	(void)state;
	memset(bytes, 'b', sizeof bytes);
	assert_int_equal(ask("a"), 0);
	assert_true(agree_call_bytes(calls[0], bytes, AGREE_BYTES_MAX));
	assert_false(agree_call_bytes(calls[0], bytes, AGREE_BYTES_MAX + 1));
	assert_int_equal(calls[0]->length, AGREE_BYTES_MAX);
	assert_memory_equal(calls[0]->bytes, bytes, AGREE_BYTES_MAX);
	agree_answer(calls[0], AGREE_DONE, NULL);
	expect_told("a ");
	assert_int_equal(last.length, AGREE_BYTES_MAX);
}

static void test_names(void **state)
{
	char name[AGREE_BYTES_MAX + 1];

	(void)state;
	assert_true(!ask("a") && !ask("b"));
	for (unsigned i = 0; i < AGREE_NAMES_MAX; i++) {
		snprintf(name, sizeof name, "name-%u", i);
		assert_true(agree_call_name(calls[0], name));
	}
	assert_false(agree_call_name(calls[0], "more"));
	assert_string_equal(calls[0]->names[AGREE_NAMES_MAX - 1], "name-63");
	assert_string_equal(calls[0]->names[0], "name-0");
	/* By their bytes, each with its 0: two that fill it. */
	memset(name, 'n', sizeof name);
	name[AGREE_BYTES_MAX - 3] = '\0';
	assert_true(agree_call_name(calls[1], name));
	assert_false(agree_call_name(calls[1], "xx"));
	assert_true(agree_call_name(calls[1], "x"));
	assert_false(agree_call_name(calls[1], ""));
	agree_answer(calls[1], AGREE_DONE, NULL);
	expect_told("b ");
	assert_int_equal(last.count, 2);
	assert_int_equal(last.length, 0); /* names are not bytes of a record */
}

/* Each of what changed is told of once; where there was no place for its path, that any may have. */
static void test_changes(void **state)
{
	char path[AGREE_PATH_BYTES + 1] = "/", all[128] = "";

	(void)state;
	for (unsigned i = 0; i < AGREE_CHANGED_MAX; i++) {
		snprintf(path, sizeof path, "/%u", i);
		agree_changed(agree, path);
		strcat(strcat(all, path), " ");
	}
	expect_told(all);
	expect_nothing_more();
	for (unsigned i = 0; i <= AGREE_CHANGED_MAX; i++) {
		snprintf(path, sizeof path, "/%u", i);
		agree_changed(agree, path);
	}
	expect_told(strcat(all, "any "));
	expect_nothing_more();
	memset(path, 'p', sizeof path - 1);
	path[AGREE_PATH_BYTES] = '\0';
	agree_changed(agree, path);
	expect_told("any ");
	expect_nothing_more();
	path[AGREE_PATH_BYTES - 1] = '\0';
	agree_changed(agree, path);
	snprintf(all, sizeof all, "%.100s", path);
	agree_poll(agree);
	assert_int_equal(strncmp(told, path, strlen(path)), 0);
	assert_int_equal(strlen(told), AGREE_PATH_BYTES); /* the path and a space */
}

/* A session is told of when it is another than before; one that is over is so for good. */
static void test_session(void **state)
{
	(void)state;
	agree_session_is(agree, AGREE_CONNECTED);
	agree_changed(agree, "/a");
	expect_told("connected /a ");
	agree_session_is(agree, AGREE_CONNECTED);
	expect_told("");
	agree_session_is(agree, AGREE_AWAY);
	agree_session_is(agree, AGREE_CONNECTED); /* back before anybody looked */
	expect_told("");
	agree_session_is(agree, AGREE_AWAY);
	expect_told("away ");
	agree_session_is(agree, AGREE_OVER);
	agree_session_is(agree, AGREE_CONNECTED);
	expect_told("over ");
	agree_session_is(agree, AGREE_AWAY);
	expect_told("");
}

/* What is not answered, or not delivered, by the end is dropped. */
static void test_dropped(void **state)
{
	(void)state;
	assert_true(!ask("a") && !ask("b") && !ask("c") && !ask("d"));
	agree_answer(calls[1], AGREE_DONE, NULL);
	agree_answer(calls[2], AGREE_DONE, NULL);
}

/* -------------------------------------------------------------------------- group */

static int descriptors;

static int set_up(void **state)
{
	(void)state;
	descriptors = count_descriptors();
	call_count = closes = blocks = 0;
	no_memory = no_descriptor = false;
	told[0] = '\0';
	agree = agree_new(&engine, NULL, &events);
	return !agree;
}

/* Nothing is left of it: no memory, no descriptor; and nobody is told. */
static int tear_down(void **state)
{
	struct agree *a = agree;

	(void)state;
	told[0] = '\0';
	agree_close(&a);
	assert_null(a);
	assert_int_equal(closes, 1);
	assert_string_equal(told, "");
	assert_int_equal(blocks, 0);
	return count_descriptors() - descriptors;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
		TEST(test_descriptor), TEST(test_none), TEST(test_order), TEST(test_ask_again),
		TEST(test_bytes), TEST(test_names), TEST(test_changes), TEST(test_session),
		TEST(test_dropped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
