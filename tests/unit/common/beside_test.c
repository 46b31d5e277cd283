/* SPDX-License-Identifier: BSD-2-Clause */
/* common/beside.h: a file of its own beside another one, whatever stands there already. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/beside.h"
#include "tests/lib/group.h"

/* By --wrap: the random bytes, the first of them `drawn`, which is counted up; or none. */
ssize_t __wrap_getrandom(void *to, size_t bytes, unsigned flags);

static uint8_t drawn, step;
static ssize_t fewer;
static unsigned asked;

ssize_t __wrap_getrandom(void *to, size_t bytes, unsigned flags)
{
	uint8_t *at = to;

	assert_int_equal(flags, 0);
	asked++;
	if (fewer) {
		errno = ENOSYS;
		return fewer < 0 ? -1 : (ssize_t)bytes - fewer;
	}
	for (size_t i = 0; i < bytes; i++)
		at[i] = (uint8_t)(drawn + i);
	drawn = (uint8_t)(drawn + step);
	return (ssize_t)bytes;
}

static char folder[] = "/tmp/beside_test.XXXXXX";
static int dir = -1;
static char name[32];

static int set_up(void **state)
{
	(void)state;
	if (!mkdtemp(folder))
		return -1;
	dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return dir < 0;
}

static int tear_down(void **state)
{
	(void)state;
	close(dir);
	return rmdir(folder); /* nothing else is there */
}

static int create(uint8_t from, uint8_t by, size_t name_bytes)
{
	drawn = from;
	step = by;
	fewer = 0;
	asked = 0;
	memset(name, 'x', sizeof name);
	return beside_create(dir, "file", 0640, name, name_bytes);
}

static void test_names(void **state)
{
	struct stat st;
	mode_t before = umask(0);

	(void)state;
	for (unsigned n = 0; n < 2; n++) {
		int fd = create(n ? 58 : 0, 1, 4 + BESIDE_BYTES);
		assert_true(fd >= 0);
		assert_string_equal(name, n ? "file.WXYZab" : "file.abcdef");
		assert_int_equal(fcntl(fd, F_GETFL) & O_ACCMODE, O_WRONLY);
		assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
		assert_int_equal(fstat(fd, &st), 0);
		assert_int_equal(st.st_mode & 0777, 0640);
		close(fd);
		assert_int_equal(unlinkat(dir, name, 0), 0);
	}
	umask(before);
}

/* A link or a file that is there is left alone, and another name found. */
static void test_others_are_left_alone(void **state)
{
	int fd;

	(void)state;
	assert_int_equal(symlinkat("none", dir, "file.abcdef"), 0);
	fd = openat(dir, "file.bcdefg", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	close(fd);
	fd = create(0, 1, sizeof name);
	assert_true(fd >= 0);
	assert_string_equal(name, "file.cdefgh");
	assert_int_equal(asked, 3);
	close(fd);
	assert_int_equal(faccessat(dir, "none", F_OK, 0), -1);
	assert_int_equal(unlinkat(dir, name, 0), 0);
	assert_int_equal(unlinkat(dir, "file.bcdefg", 0), 0);
	/* It doesn't look for ever. */
	fd = create(0, 0, sizeof name);
	assert_int_equal(fd, -1);
	assert_int_equal(errno, EEXIST);
	assert_in_range(asked, 2, 1000);
	assert_int_equal(unlinkat(dir, "file.abcdef", 0), 0);
}

/* What has the longest name, too: the new one is as long as a name may be. */
static void test_long_names(void **state)
{
	char path[300], longest[sizeof path];

	(void)state;
	snprintf(path, sizeof path, "%s/", folder);
	size_t begin = strlen(path);
	memset(path + begin, 'n', NAME_MAX);
	for (size_t bytes = NAME_MAX - 8; bytes <= NAME_MAX; bytes++) {
		size_t room = begin + (bytes < NAME_MAX - 7 ? bytes : NAME_MAX - 7);

		path[begin + bytes] = '\0';
		drawn = 0;
		int fd = beside_create(AT_FDCWD, path, 0600, longest, room + BESIDE_BYTES);
		assert_true(fd >= 0);
		assert_memory_equal(longest, path, room);
		assert_string_equal(longest + room, ".abcdef");
		close(fd);
		assert_int_equal(unlink(longest), 0);
		path[begin + bytes] = 'n';
	}
}

static void test_no_file(void **state)
{
	(void)state;
	errno = 0;
	assert_int_equal(create(0, 1, 4 + BESIDE_BYTES - 1), -1);
	assert_int_equal(errno, ENAMETOOLONG);
	assert_int_equal(asked, 0);
	for (fewer = -1; fewer <= 1; fewer += 2) {
		memset(name, 'x', sizeof name);
		asked = 0;
		assert_int_equal(beside_create(dir, "file", 0600, name, sizeof name), -1);
		assert_int_equal(asked, 1);
	}
	fewer = 0;
	asked = 0;
	assert_int_equal(beside_create(dir, "none/file", 0600, name, sizeof name), -1);
	assert_int_equal(errno, ENOENT);
	assert_int_equal(asked, 1);
}

/* A program that has closed its standard input gets 0. */
static void test_without_standard_input(void **state)
{
	int input = fcntl(0, F_DUPFD_CLOEXEC, 3), fd;

	(void)state;
	assert_true(input >= 0);
	close(0);
	errno = 0;
	fd = create(0, 1, sizeof name);
	assert_int_equal(dup2(input, 0), 0);
	close(input);
	assert_int_equal(fd, 0);
	assert_int_equal(asked, 1);
	assert_int_equal(unlinkat(dir, name, 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_others_are_left_alone),
		cmocka_unit_test(test_long_names),
		cmocka_unit_test(test_no_file),
		cmocka_unit_test(test_without_standard_input),
	};

	return GROUP_RUN(tests, set_up, tear_down);
}
