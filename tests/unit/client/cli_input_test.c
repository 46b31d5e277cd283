/* SPDX-License-Identifier: BSD-2-Clause */
/* kvcli's lines of input: in pieces, long ones, what is asked before it waits, and reads that fail. */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "client/cli/text/input.h"
#include "tests/unit/poll_chk.h"
#include "tests/unit/read_chk.h"

static struct cli_input input;
static int pipes[2];
static const char *const *pieces; /* that come as nobody else has something to do; NULL ends them */
static unsigned idles;
static int errors[4];             /* of the next reads, the last first */
static unsigned error_count, waits;
static bool no_memory;

void *__real_realloc(void *at, size_t bytes);
void *__wrap_realloc(void *at, size_t bytes);
ssize_t __real_read(int fd, void *to, size_t bytes);
ssize_t __wrap_read(int fd, void *to, size_t bytes);
int __real_poll(struct pollfd *fds, nfds_t n, int ms);
int __wrap_poll(struct pollfd *fds, nfds_t n, int ms);

void *__wrap_realloc(void *at, size_t bytes)
{
	if (!no_memory)
		return __real_realloc(at, bytes);
	errno = ENOMEM;
	return NULL;
}

ssize_t __wrap_read(int fd, void *to, size_t bytes)
{
	if (!error_count)
		return __real_read(fd, to, bytes);
	errno = errors[--error_count];
	return -1;
}

/* One that waits without end finds something at once. */
int __wrap_poll(struct pollfd *fds, nfds_t n, int ms)
{
	assert_int_equal(n, 1);
	assert_int_equal(fds->fd, pipes[0]);
	assert_int_equal(fds->events, POLLIN);
	waits += ms == -1;
	return ms == -1 ? 1 : __real_poll(fds, n, ms);
}

static bool write_next(void *arg)
{
	const char *piece = pieces ? *pieces : NULL;

	assert_ptr_equal(arg, &input);
	idles++;
	if (!piece)
		return false;
	assert_int_equal(write(pipes[1], piece, strlen(piece)), strlen(piece));
	pieces++;
	return true;
}

static int set_up(void **state)
{
	(void)state;
	pieces = NULL;
	no_memory = false;
	idles = error_count = waits = 0;
	if (pipe(pipes))
		return -1;
	memset(&input, 0, sizeof input);
	input.fd = pipes[0];
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	cli_input_free(&input);
	close(pipes[0]);
	if (pipes[1] >= 0)
		close(pipes[1]);
	return input.data || input.room || input.end || input.fd || input.ended;
}

static void close_end(void)
{
	close(pipes[1]);
	pipes[1] = -1;
}

static int next(char **line, size_t *bytes)
{
	return cli_input_line(&input, write_next, &input, line, bytes);
}

static void line_is(const char *want)
{
	size_t bytes = 0;
	char *line = NULL;

	assert_int_equal(next(&line, &bytes), 1);
	assert_int_equal(bytes, strlen(want));
	assert_memory_equal(line, want, bytes);
}

static void it_ends(void)
{
	size_t bytes;
	char *line;

	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(next(&line, &bytes), 0);
}

/* A piece ends in a line, before its newline, behind it. */
static void lines_come_in_pieces(void **state)
{
	static const char *const all[] = { "one", " lo", "ng line\nx\n\ny", "\n", "z\nlast", NULL };

	(void)state;
	pieces = all;
	line_is("one long line");
	assert_int_equal(idles, 3);
	line_is("x");
	line_is("");
	line_is("y");
	line_is("z");
	assert_int_equal(idles, 5); /* before each wait, and no other time */
	close_end();
	line_is("last");
	it_ends();
	assert_int_equal(idles, 5);
}

static void the_last_line(void **state)
{
	(void)state;
	assert_int_equal(write(pipes[1], "a\nb", 3), 3);
	close_end();
	line_is("a");
	line_is("b");
	it_ends();
	assert_int_equal(idles, 0);
}

/* What has come of a line is gone then. */
static void who_gives_up(void **state)
{
	static const char *const all[] = { "a\nhalf", NULL };

	(void)state;
	pieces = all;
	line_is("a");
	it_ends();
	assert_int_equal(idles, 2);
}

/* Memory is of the longest line, and not of all. */
static void many_lines(void **state)
{
	static char piece[4096];
	const char *const again[] = { piece, NULL };
	size_t used = 0, bytes;
	char *line, want[16];

	(void)state;
	for (unsigned i = 0; i < 400; i++)
		used += (size_t)sprintf(piece + used, "line %u\n", 100 + i % 10);
	for (unsigned i = 0; i < 100; i++) {
		pieces = again;
		for (unsigned n = 0; n < 400; n++) {
			snprintf(want, sizeof want, "line %u", 100 + n % 10);
			assert_int_equal(next(&line, &bytes), 1);
			assert_int_equal(bytes, strlen(want));
			assert_memory_equal(line, want, bytes);
		}
	}
	assert_true(input.room <= 65536);
}

/* It grows, once what was told has made room. */
static void a_long_line(void **state)
{
	static char piece[4000];
	static const char *all[103] = { "a\nb\n" };
	size_t bytes;
	char *line;

	(void)state;
	memset(piece, 'y', sizeof piece - 1);
	for (unsigned i = 1; i < 101; i++)
		all[i] = piece;
	all[101] = "z\nx\n";
	pieces = all;
	line_is("a");
	line_is("b");
	assert_int_equal(next(&line, &bytes), 1);
	assert_int_equal(bytes, 100 * (sizeof piece - 1) + 1);
	for (size_t i = 0; i < bytes; i++)
		assert_int_equal(line[i], i + 1 < bytes ? 'y' : 'z');
	line_is("x");
}

static void reads_that_fail(void **state)
{
	static const char *const all[] = { "b\n", NULL };
	size_t bytes;
	char *line;

	(void)state;
	assert_int_equal(write(pipes[1], "a\n", 2), 2);
	/* Who made it non-blocking, and a signal. */
	memcpy(errors, (int[]){ EINTR, EAGAIN, EINTR, EAGAIN }, sizeof errors);
	error_count = 4;
	line_is("a");
	assert_int_equal(error_count, 0);
	assert_int_equal(waits, 2);
	pieces = all;
	errors[0] = EIO;
	error_count = 1;
	assert_int_equal(next(&line, &bytes), -1);
	assert_int_equal(errno, EIO);
	line_is("b");
	close_end();
	errors[0] = EINTR;
	error_count = 1;
	it_ends();
	assert_int_equal(waits, 2);
}

static void there_is_no_memory(void **state)
{
	size_t bytes;
	char *line;

	(void)state;
	assert_int_equal(write(pipes[1], "a\n", 2), 2);
	no_memory = true;
	assert_int_equal(next(&line, &bytes), -1);
	assert_int_equal(errno, ENOMEM);
	no_memory = false;
	line_is("a");
}

/* The longest line is in memory, and has no end.  Nobody looks at it. */
static void lines_that_are_too_long(void **state)
{
	size_t bytes;
	char *line;

	(void)state;
	input.data = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	no_memory = true;
	input.end = input.room = input.searched = CLI_INPUT_LINE_MAX - 1;
	assert_int_equal(next(&line, &bytes), -1);
	assert_int_equal(errno, ENOMEM);
	input.end = input.room = input.searched = CLI_INPUT_LINE_MAX;
	assert_int_equal(next(&line, &bytes), -1);
	assert_int_equal(errno, EFBIG);
	munmap(input.data, 4096);
	input.data = NULL;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(lines_come_in_pieces),
		TEST(the_last_line),
		TEST(who_gives_up),
		TEST(many_lines),
		TEST(a_long_line),
		TEST(reads_that_fail),
		TEST(there_is_no_memory),
		TEST(lines_that_are_too_long),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
