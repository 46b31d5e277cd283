/* SPDX-License-Identifier: BSD-2-Clause */
/* server/durable/folder.h: whose a folder is, files that are whole or not there, and what fails. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <cmocka.h>

#include "server/durable/folder.h"
#include "tests/unit/descriptors.h"
#include "tests/unit/made_up.h"

#define WHOLE "kvd data, format 1\n"

static char dir[40];
static struct err err;
static char calls[64];
static const char *fails; /* the calls so far, with which one fails */
static int fails_with;
static bool is_short, no_size;

/* -------------------------------------------------------------------- made up */

int __real_fsync(int fd);
int __real_rename(const char *from, const char *to);
ssize_t __real_write(int fd, const void *data, size_t bytes);

static bool call(const char *word)
{
	strncat(calls, word, sizeof calls - strlen(calls) - 1);
	errno = fails_with;
	return fails && !strcmp(calls, fails);
}

MADE_UP(int, fsync, int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return call(S_ISDIR(st.st_mode) ? "folder " : "file ") ? -1 : __real_fsync(fd);
}

MADE_UP(int, rename, const char *from, const char *to) { return call("rename ") ? -1 : __real_rename(from, to); }
MADE_UP(ssize_t, write, int fd, const void *data, size_t bytes)
{
	return __real_write(fd, data, is_short ? bytes - 1 : bytes);
}

static int size_of(const char *path, struct statvfs *fs)
{
	*fs = (struct statvfs){ .f_frsize = 512, .f_bsize = 4096, .f_blocks = 1000, .f_bfree = 100, .f_bavail = 10 };
	return no_size || strcmp(path, dir) ? -1 : 0;
}

MADE_UP(int, statvfs, const char *path, struct statvfs *fs) { return size_of(path, fs); }
MADE_UP(int, statvfs64, const char *path, struct statvfs *fs) { return size_of(path, fs); }

/* ------------------------------------------------------------------------- kit */

static const char *in_dir(const char *name)
{
	static char path[64];

	snprintf(path, sizeof path, "%s/%s", dir, name);
	return path;
}

static void put_file(const char *name, const char *text)
{
	FILE *f = fopen(in_dir(name), "w");

	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

static void expect_file(const char *name, const char *text)
{
	char is[256];
	FILE *f = fopen(in_dir(name), "r");

	assert_non_null(f);
	is[fread(is, 1, sizeof is - 1, f)] = '\0';
	fclose(f);
	assert_string_equal(is, text);
}

static void expect_none(const char *name)
{
	assert_int_equal(access(in_dir(name), F_OK), -1);
}

static void expect_failed(int rc, const char *text)
{
	char with_dir[256];

	assert_int_equal(rc, -1);
	snprintf(with_dir, sizeof with_dir, text, dir);
	assert_string_equal(err.text, with_dir);
}

static void expect_calls(const char *words)
{
	assert_string_equal(calls, words);
	calls[0] = '\0';
}

/* -------------------------------------------------------------------- the marker */

static void test_marked(void **state)
{
	uint64_t newest = 5;
	struct stat st;

	(void)state;
	assert_int_equal(folder_look(dir, &newest, &err), 0);
	assert_int_equal(mkdir(in_dir("lost+found"), 0700), 0);
	assert_int_equal(folder_look(dir, &newest, &err), 0);
	assert_int_equal(folder_begin(dir, &err), 0);
	expect_calls("file rename folder ");
	expect_file("KVD-DATA", "kvd data, format 1, being made\n");
	put_file("000004.log", "x");
	assert_int_equal(folder_look(dir, &newest, &err), 0);
	assert_int_equal(newest, 5);
	assert_int_equal(folder_complete(dir, 0, &err), 0);
	expect_calls("file rename folder ");
	expect_file("KVD-DATA", WHOLE);
	assert_int_equal(folder_look(dir, &newest, &err), 1);
	assert_int_equal(newest, 5);
	assert_int_equal(folder_complete(dir, 123456789012, &err), 0);
	expect_file("KVD-DATA", WHOLE "newest log 123456789012\n");
	assert_int_equal(folder_look(dir, &newest, &err), 1);
	assert_int_equal(newest, 123456789012);
	assert_int_equal(stat(in_dir("KVD-DATA"), &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	expect_none("KVD-DATA.tmp");
}

static void test_not_kvds(void **state)
{
	static const char foreign[] = "%s has files in it that are not kvd's (no KVD-DATA): name another folder, or "
				      "restore what is missing";
	static const char *const names[] = { "x", ".x", "lost+found2" };
	uint64_t newest;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		put_file(names[i], "");
		expect_failed(folder_look(dir, &newest, &err), foreign);
		assert_int_equal(unlink(in_dir(names[i])), 0);
	}
	put_file("KVD-DATA", "kvd data, format 2\nwith more than forty bytes in it\n");
	expect_failed(folder_look(dir, &newest, &err),
		      "%s/KVD-DATA is not of a version that this kvd can read: it says 'kvd data, format 2 with "
		      "more than forty '");
	put_file("KVD-DATA", "kvd data, format 1");
	assert_int_equal(folder_look(dir, &newest, &err), -1);
	put_file("KVD-DATA", "");
	assert_int_equal(folder_look(dir, &newest, &err), -1);
	assert_int_equal(unlink(in_dir("KVD-DATA")), 0);
	assert_int_equal(mkdir(in_dir("KVD-DATA"), 0700), 0);
	int before = count_descriptors();
	expect_failed(folder_look(dir, &newest, &err), "can't read %s/KVD-DATA: Is a directory");
	assert_int_equal(count_descriptors(), before);
	assert_int_equal(rmdir(in_dir("KVD-DATA")), 0);
	assert_int_equal(folder_look(dir, &newest, &err), 0);
	assert_int_equal(count_descriptors(), before);
	strcat(dir, "/none");
	assert_int_equal(folder_look(dir, &newest, &err), -1);
}

/* What was there stays where something fails; and nothing is left open. */
static void test_not_written(void **state)
{
	static const char *const steps[] = { "file ", "file rename ", "file rename folder " };
	static const int errors[] = { EIO, EDQUOT, EROFS };
	uint64_t newest = 0;
	char text[128];

	(void)state;
	assert_int_equal(folder_complete(dir, 7, &err), 0);
	int before = count_descriptors();
	for (unsigned i = 0; i < 3; i++) {
		calls[0] = '\0';
		fails = steps[i];
		fails_with = errors[i];
		snprintf(text, sizeof text, "can't write to %%s: %s", strerror(errors[i]));
		expect_failed(folder_complete(dir, 8, &err), text);
		expect_calls(steps[i]);
		assert_int_equal(folder_look(dir, &newest, &err), 1);
		assert_int_equal(newest, i < 2 ? 7 : 8);
		assert_int_equal(count_descriptors(), before);
	}
	fails = NULL;
	is_short = true;
	expect_failed(folder_complete(dir, 9, &err), "can't write to %s: No space left on device");
	is_short = false;
	expect_file("KVD-DATA", WHOLE "newest log 8\n");
	assert_int_equal(folder_complete(dir, 0, &err), 0);
	assert_int_equal(unlink(in_dir("KVD-DATA")), 0);
	assert_int_equal(mkdir(in_dir("KVD-DATA"), 0700), 0);
	expect_failed(folder_complete(dir, 0, &err), "can't write to %s: Is a directory");
	assert_int_equal(count_descriptors(), before);
}

/* What somebody put in the place of the new file is not written to. */
static void test_in_its_place(void **state)
{
	(void)state;
	put_file("victim", "mine");
	assert_int_equal(symlink("victim", in_dir("KVD-DATA.tmp")), 0);
	assert_int_equal(folder_complete(dir, 0, &err), 0);
	expect_file("victim", "mine");
	expect_file("KVD-DATA", WHOLE);
	assert_int_equal(mkdir(in_dir("KVD-DATA.tmp"), 0700), 0);
	calls[0] = '\0';
	expect_failed(folder_complete(dir, 3, &err), "can't write to %s: Is a directory");
	expect_calls("");
	expect_file("KVD-DATA", WHOLE);
	strcat(dir, "/none");
	expect_failed(folder_begin(dir, &err), "can't write to %s: No such file or directory");
}

/* A name that has just room, with the longest that is put behind it, and one that has not. */
static void test_long_names(void **state)
{
	static char name[4200];
	uint64_t newest = 0;

	(void)state;
	strcpy(name, dir);
	while (strlen(name) < 4096 - sizeof "/KVD-DATA.tmp")
		strcat(name, "/");
	assert_int_equal(folder_begin(name, &err), 0);
	assert_int_equal(folder_look(name, &newest, &err), 0);
	strcat(name, "/");
	assert_int_equal(folder_begin(name, &err), -1);
	assert_memory_equal(err.text, "the path /tmp/", 14);
	assert_non_null(strstr(err.text, "... is too long"));
	assert_int_equal(folder_look(name, &newest, &err), 0); /* that has room */
	strcat(name, "////");
	assert_int_equal(folder_look(name, &newest, &err), -1);
	assert_non_null(strstr(err.text, "... is too long"));
	strcat(name, "/");
	assert_int_equal(folder_drop_member(name, &err), -1);
	assert_non_null(strstr(err.text, "... is too long"));
	struct folder_member m;
	assert_int_equal(folder_read_member(name, &m, &err), -1);
}

/* -------------------------------------------------------------------- of a member */

static void test_member(void **state)
{
	const struct folder_member m = { 0x123456789abcdef0, UINT64_MAX, UINT64_MAX };
	struct folder_member is = { 1, 2, 3 };

	(void)state;
	assert_int_equal(folder_read_member(dir, &is, &err), 0);
	assert_int_equal(folder_write_member(dir, &m, &err), 0);
	expect_calls("file rename folder ");
	expect_file("KVD-MEMBER", "kvd member, format 1\nincarnation 123456789abcdef0\n"
				  "stripes 18446744073709551615\ncluster ffffffffffffffff\n");
	assert_int_equal(folder_read_member(dir, &is, &err), 1);
	assert_memory_equal(&is, &m, sizeof m);
	assert_int_equal(folder_drop_member(dir, &err), 0);
	expect_calls("folder ");
	expect_none("KVD-MEMBER");
	assert_int_equal(folder_read_member(dir, &is, &err), 0);
	assert_int_equal(folder_drop_member(dir, &err), 0); /* there is none */
	expect_calls("folder ");
	fails = "folder ";
	fails_with = EIO;
	expect_failed(folder_drop_member(dir, &err), "can't write to %s: Input/output error");
	fails = NULL;
	assert_int_equal(mkdir(in_dir("KVD-MEMBER"), 0700), 0);
	expect_failed(folder_drop_member(dir, &err), "can't write to %s: Is a directory");
	expect_failed(folder_read_member(dir, &is, &err), "can't read %s/KVD-MEMBER: Is a directory");
	strcat(dir, "/none");
	expect_failed(folder_drop_member(dir, &err), "can't write to %s: No such file or directory");
}

static void test_no_member(void **state)
{
	static const char *const texts[] = {
		"", "kvd member, format 2\nincarnation 0000000000000001\nstripes 64\ncluster 0000000000000002\n",
		"kvd member, format 1\nincarnation 0000000000000001\nstripes 64\n",
	};
	char text[128];
	struct folder_member is;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		put_file("KVD-MEMBER", texts[i]);
		assert_int_equal(folder_read_member(dir, &is, &err), -1);
		snprintf(text, sizeof text, "%s/KVD-MEMBER is not of a version that this kvd can read: it says '",
			 dir);
		assert_memory_equal(err.text, text, strlen(text));
	}
}

static void test_free_bytes(void **state)
{
	(void)state;
	assert_int_equal(folder_free_bytes(dir), 5120);
	no_size = true;
	assert_int_equal(folder_free_bytes(dir), UINT64_MAX);
}

/* -------------------------------------------------------------------------- group */

static int set_up(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/kvd-folder-test.XXXXXX");
	calls[0] = '\0';
	fails = NULL;
	is_short = no_size = false;
	return mkdtemp(dir) ? 0 : -1;
}

static int tear_down(void **state)
{
	char command[64];

	(void)state;
	dir[strlen("/tmp/kvd-folder-test.XXXXXX")] = '\0';
	snprintf(command, sizeof command, "rm -rf %s", dir);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
		TEST(test_marked), TEST(test_not_kvds), TEST(test_not_written), TEST(test_in_its_place),
		TEST(test_long_names), TEST(test_member), TEST(test_no_member), TEST(test_free_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
