/* SPDX-License-Identifier: BSD-2-Clause */
/* The users file and credentials: what is written comes back, a line that is wrong is told by its
 * number, and nothing is believed that others could have read or changed. */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/unit/common/auth_folder.h"

/* ------------------------------------------------------------------- users */

/* A program that has closed its standard input opens files as 0. */
static void test_without_standard_input(void **state)
{
	struct users *users = users_new(), *back;
	struct auth_secret secret;
	int input = fcntl(0, F_DUPFD_CLOEXEC, 3), rc;

	(void)state;
	assert_true(input >= 3);
	assert_int_equal(users_add(users, "ann", ROLE_ADMIN, &secret, &err), 0);
	assert_int_equal(users_save(users, path, true, &err), 0);
	close(0);
	rc = users_load(path, &back, &err);
	bool open = fcntl(0, F_GETFD) >= 0;
	assert_int_equal(dup2(input, 0), 0);
	close(input);
	assert_int_equal(rc, 0);
	assert_false(open);
	assert_int_equal(back->count, 1);
	users_delete(&back);
	users_delete(&users);
}

static void test_created_without_standard_input(void **state)
{
	int input = fcntl(0, F_DUPFD_CLOEXEC, 3), fd;
	struct credentials c = { .name = "ann" };

	(void)state;
	close(0);
	errno = EEXIST;
	fd = credentials_create(path, &err);
	int rc = fd == 0 ? credentials_write(&c, fd, path, &err) : -1;
	assert_int_equal(dup2(input, 0), 0);
	close(input);
	assert_int_equal(fd, 0);
	assert_int_equal(rc, 0);
}

static void test_users_come_back(void **state)
{
	struct users *users = users_new(), *back;
	struct auth_secret secret;
	struct stat st;

	(void)state;
	assert_int_equal(users_add(users, "ann", ROLE_ADMIN, &secret, &err), 0);
	assert_int_equal(users_add(users, "ben", ROLE_READ, &secret, &err), 0);
	assert_int_equal(users_add(users, "cy", ROLE_WRITE, &secret, &err), 0);
	assert_int_equal(users_remove(users, "ben", &err), 0);
	assert_int_equal(users_add(users, "dee", ROLE_READ, &secret, &err), 0);
	assert_int_equal(users_save(users, path, true, &err), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(users_load(path, &back, &err), 0);
	assert_memory_equal(&back->secret, &users->secret, sizeof back->secret);
	assert_true(auth_key_equal(&back->key, &users->key));
	assert_int_equal(back->count, 3);
	for (unsigned i = 0; i < 3; i++) {
		const struct user *u = users_find(back, users->user[i].name, strlen(users->user[i].name));
		assert_non_null(u);
		assert_int_equal(u->role, users->user[i].role);
		assert_true(auth_key_equal(&u->key, &users->user[i].key));
	}
	assert_null(users_find(back, "ben", 3));
	assert_null(users_find(back, "an", 2));
	users_delete(&back);
	assert_null(back);
	users_delete(&users);
	users_delete(&users);
}

/* There is room for each. */
static void test_many_users(void **state)
{
	struct users *users = users_new();
	struct auth_secret secret;

	(void)state;
	for (unsigned i = 1; i <= 70; i++) {
		char name[16];
		snprintf(name, sizeof name, "u%u", i);
		assert_int_equal(users_add(users, name, ROLE_READ, &secret, &err), 0);
		assert_int_equal(users->count, i);
		assert_true(malloc_usable_size(users->user) >= i * sizeof *users->user);
		assert_ptr_equal(users_find(users, name, strlen(name)), &users->user[i - 1]);
	}
	/* The others stay in their order. */
	assert_int_equal(users_remove(users, "u70", &err), 0);
	assert_int_equal(users_remove(users, "u1", &err), 0);
	for (unsigned i = 0; i < 68; i++)
		assert_int_equal(atoi(users->user[i].name + 1), i + 2);
	users_delete(&users);
}

/* A file that is there is replaced only by who was told to. */
static void test_new_is_new(void **state)
{
	struct users *users = users_new(), *back;

	(void)state;
	write_file("server " SECRET "\n", 51, 0600);
	assert_int_equal(users_save(users, path, true, &err), -1);
	must_say("is there already: it stays as it is");
	assert_int_equal(users_load(path, &back, &err), 0);
	assert_memory_not_equal(&back->secret, &users->secret, sizeof back->secret);
	users_delete(&back);
	assert_int_equal(users_save(users, path, false, &err), 0);
	assert_int_equal(users_load(path, &back, &err), 0);
	assert_memory_equal(&back->secret, &users->secret, sizeof back->secret);
	users_delete(&back);
	users_delete(&users);
}

static void test_saved_nowhere(void **state)
{
	struct users *users = users_new();
	char longer[5000], below[80];

	(void)state;
	memset(longer, '/', sizeof longer - 1);
	longer[sizeof longer - 1] = '\0';
	assert_int_equal(users_save(users, longer, false, &err), -1);
	must_say("the path is too long");
	snprintf(below, sizeof below, "%s/none/file", folder);
	assert_int_equal(users_save(users, below, false, &err), -1);
	must_say("No such file or directory");
	/* Nor over a folder; nothing is left beside it. */
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(users_save(users, path, false, &err), -1);
	must_say("can't write");
	assert_int_equal(rmdir(path), 0);
	users_delete(&users);
}

static void test_changes_that_are_none(void **state)
{
	struct users *users = users_new();
	struct auth_secret secret;
	struct auth_key key;

	(void)state;
	assert_int_equal(users_add(users, "ann", ROLE_READ, &secret, &err), 0);
	assert_int_equal(users_add(users, "ann", ROLE_WRITE, &secret, &err), -1);
	must_say("there is a user ann already");
	assert_int_equal(users_add(users, "ben", ROLE_NONE, &secret, &err), -1);
	must_say("there is no user ben");
	assert_int_equal(users_add(users, "b n", ROLE_READ, &secret, &err), -1);
	must_say("'b n' is no name");
	assert_int_equal(users_add(users, "", ROLE_READ, &secret, &err), -1);
	assert_int_equal(users_remove(users, "ben", &err), -1);
	must_say("there is no user ben");
	assert_int_equal(users->count, 1);
	/* A new key, and the role stays. */
	key = users->user[0].key;
	assert_int_equal(users_add(users, "ann", ROLE_NONE, &secret, &err), 0);
	assert_int_equal(users->count, 1);
	assert_int_equal(users->user[0].role, ROLE_READ);
	assert_false(auth_key_equal(&key, &users->user[0].key));
	users_delete(&users);
}

static void test_users_have_a_limit(void **state)
{
	struct users *users = users_new();
	struct auth_secret secret;
	char name[16];

	(void)state;
	users->user = calloc(USERS_MAX, sizeof *users->user);
	users->count = USERS_MAX - 1;
	assert_int_equal(users_add(users, "last", ROLE_READ, &secret, &err), 0);
	snprintf(name, sizeof name, "more");
	assert_int_equal(users_add(users, name, ROLE_READ, &secret, &err), -1);
	must_say("there are 4096 users already");
	assert_int_equal(users->count, USERS_MAX);
	users_delete(&users);
}

static void test_lines_that_are_wrong(void **state)
{
	static const char *const cases[][2] = {
		{ "", "f has no line 'server SECRET'" },
		{ "# nothing\n\n \t\r\n", "f has no line 'server SECRET'" },
		{ "server AAA\n", "f:1: the server's secret is none" },
		{ "server " SECRET "\n\nserver " SECRET, "f:3: a second line 'server'" },
		{ "server " SECRET " x\n", "f:1: a line is" },
		{ "server\n", "f:1: a line is" },
		{ "users a b c\n", "f:1: a line is" },
		{ "serves " SECRET "\n", "f:1: a line is" },
		{ "uses a read " SECRET "\n", "f:1: a line is" },
		{ "user a read " SECRET " more and more\n", "f:1: a line is" },
		{ "server " SECRET "\nuser b/d read " SECRET "\n", "f:2: a name has" },
		{ "user a123456789012345678901234567890123 read " SECRET "\n", "f:1: a name has" },
		{ "user a reader " SECRET "\n", "f:1: a role is" },
		{ "user a rea " SECRET "\n", "f:1: a role is" },
		{ "user a read " SECRET "A\n", "f:1: the key is none" },
		{ "user a read " SECRET "\n#\nuser a admin " SECRET "\n", "f:3: this user stands there twice" },
		{ "user ann read " SECRET "\nuser ann write " SECRET "\n", "f:2: this user stands there twice" },
	};
	struct users *users = NULL;

	(void)state;
	for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		assert_int_equal(users_parse(cases[i][0], strlen(cases[i][0]), "f", &users, &err), -1);
		must_say(cases[i][1]);
		assert_null(users);
	}
}

static void test_lines_as_people_write_them(void **state)
{
	static const char text[] = "# ours\r\n\tuser  a\tadmin " SECRET " \r\n server " SECRET;
	struct users *users;

	(void)state;
	assert_int_equal(users_parse(text, sizeof text - 1, "f", &users, &err), 0);
	assert_int_equal(users->count, 1);
	assert_string_equal(users->user[0].name, "a");
	assert_int_equal(users->user[0].role, ROLE_ADMIN);
	users_delete(&users);
}

static void test_roles(void **state)
{
	(void)state;
	for (enum role r = ROLE_READ; r <= ROLE_ADMIN; r++)
		assert_int_equal(role_parse(role_name(r), strlen(role_name(r))), r);
	assert_string_equal(role_name(ROLE_NONE), "none");
	assert_string_equal(role_name((enum role)9), "none");
	assert_int_equal(role_parse("", 0), ROLE_NONE);
}

/* ------------------------------------------------------------- private files */

static void test_files_of_others(void **state)
{
	struct users *users;

	(void)state;
	must_not_load("No such file or directory");
	for (mode_t bit = 1; bit < 0100; bit <<= 1) {
		write_file("server " SECRET, 50, 0600 | bit);
		char mode[32];
		snprintf(mode, sizeof mode, "(mode %03o): chmod 600 ", 0600 | (unsigned)bit);
		must_not_load("others than its owner may read or change it");
		must_say(mode);
	}
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkdir(path, 0700), 0);
	must_not_load("is no regular file");
	assert_int_equal(rmdir(path), 0);
	/* It doesn't wait for who writes. */
	assert_int_equal(mkfifo(path, 0600), 0);
	must_not_load("is no regular file");
	assert_int_equal(unlink(path), 0);
	if (geteuid())
		return;
	write_file("server " SECRET, 50, 0600);
	assert_int_equal(chown(path, 4321, 4321), 0);
	must_not_load("belongs to another user (uid 4321)");
	assert_int_equal(chown(path, 1, 1), 0);
	must_not_load("belongs to another user (uid 1)");
	assert_int_equal(chown(path, 4321, 4321), 0);
	/* root edits it, and it stays its owner's. */
	struct stat st;
	assert_int_equal(users_load_to_edit(path, &users, &err), 0);
	assert_int_equal(users_save(users, path, false, &err), 0);
	users_delete(&users);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_uid, 4321);
	assert_int_equal(st.st_gid, 4321);
}

static void test_files_that_are_too_long(void **state)
{
	char *text = calloc(1, USERS_FILE_BYTES_MAX + 1);
	struct users *users;

	(void)state;
	memset(text, '\n', USERS_FILE_BYTES_MAX + 1);
	memcpy(text, "server " SECRET, 50);
	write_file(text, USERS_FILE_BYTES_MAX, 0600);
	assert_int_equal(users_load(path, &users, &err), 0);
	users_delete(&users);
	write_file(text, USERS_FILE_BYTES_MAX + 1, 0600);
	must_not_load("is longer than");
	free(text);
}

/* ------------------------------------------------------------- credentials */

static void test_credentials_come_back(void **state)
{
	struct credentials c = { .name = "ann" }, back;
	struct auth_key key;
	struct stat st;

	(void)state;
	auth_new(&c.secret, &key);
	auth_new(&back.secret, &c.server);
	errno = EEXIST; /* of something else */
	int fd = credentials_create(path, &err);
	assert_true(fd >= 0);
	assert_int_equal(credentials_create(path, &err), -1);
	must_say("is there already: it stays as it is");
	assert_int_equal(credentials_write(&c, fd, path, &err), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(credentials_load(path, &back, &err), 0);
	assert_memory_equal(&back, &c, sizeof c);
}

/* A link that somebody put there is not written through; what can't be written goes away. */
static void test_credentials_go_nowhere(void **state)
{
	struct credentials c = { .name = "ann" };
	char other[80];

	(void)state;
	snprintf(other, sizeof other, "%s/other", folder);
	assert_int_equal(symlink(other, path), 0);
	assert_int_equal(credentials_create(path, &err), -1);
	assert_int_equal(access(other, F_OK), -1);
	assert_int_equal(unlink(path), 0);
	snprintf(other, sizeof other, "%s/none/file", folder);
	assert_int_equal(credentials_create(other, &err), -1);
	must_say("No such file or directory");
	write_file("", 0, 0600);
	assert_int_equal(credentials_write(&c, open("/dev/full", O_WRONLY | O_CLOEXEC), path, &err), -1);
	must_say("No space left on device");
	assert_int_equal(access(path, F_OK), -1);
}

static void test_credentials_that_are_none(void **state)
{
	static const char *const cases[] = {
		"", "\n", "kvd1", "kvd1:a:" SECRET, "kvd1:a:" SECRET ":" SECRET ":", "kvd2:a:" SECRET ":" SECRET,
		"kvd:a:" SECRET ":" SECRET, "kvd1::" SECRET ":" SECRET, "kvd1:b d:" SECRET ":" SECRET,
		"kvd1:a:" SECRET "A:" SECRET, "kvd1:a:" SECRET ":AAA", "kvd1:a:" SECRET ":" SECRET " ",
	};
	static const char right[] = "kvd1:a:" SECRET ":" SECRET "\r\n";
	static const struct credentials none;
	struct credentials c;

	(void)state;
	for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		assert_int_equal(credentials_parse(cases[i], strlen(cases[i]), "f", &c, &err), -1);
		must_say("f is no line of credentials");
		/* Nothing of a secret stays behind. */
		assert_memory_equal(&c, &none, sizeof c);
	}
	assert_int_equal(credentials_parse(right, sizeof right - 1, "f", &c, &err), 0);
	assert_string_equal(c.name, "a");
}

/* What is parsed ends where it ends, though it has no line's end. */
static void test_reads_no_further(void **state)
{
	static const char *const lines[] = { "server " SECRET, "server " SECRET " ", "server " SECRET "\n",
					     "server " SECRET "\n#", "server " SECRET "\n\r" };
	static const char line[] = "kvd1:a:" SECRET ":" SECRET;
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct credentials c;
	struct users *users;

	(void)state;
	assert_true(pages != MAP_FAILED);
	assert_int_equal(mprotect(pages + page, page, PROT_NONE), 0);
	for (unsigned i = 0; i < sizeof lines / sizeof lines[0]; i++) {
		size_t bytes = strlen(lines[i]);
		memcpy(pages + page - bytes, lines[i], bytes);
		assert_int_equal(users_parse(pages + page - bytes, bytes, "f", &users, &err), 0);
		users_delete(&users);
	}
	memcpy(pages + page - (sizeof line - 1), line, sizeof line - 1);
	assert_int_equal(credentials_parse(pages + page - (sizeof line - 1), sizeof line - 1, "f", &c, &err), 0);
	assert_int_equal(credentials_parse(pages + page, 0, "f", &c, &err), -1);
	assert_int_equal(munmap(pages, 2 * page), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_without_standard_input),
		TEST(test_created_without_standard_input),
		TEST(test_users_come_back),
		TEST(test_many_users),
		TEST(test_new_is_new),
		TEST(test_saved_nowhere),
		TEST(test_changes_that_are_none),
		TEST(test_users_have_a_limit),
		TEST(test_lines_that_are_wrong),
		TEST(test_lines_as_people_write_them),
		TEST(test_roles),
		TEST(test_files_of_others),
		TEST(test_files_that_are_too_long),
		TEST(test_credentials_come_back),
		TEST(test_credentials_go_nowhere),
		TEST(test_credentials_that_are_none),
		TEST(test_reads_no_further),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
