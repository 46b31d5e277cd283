/* SPDX-License-Identifier: BSD-2-Clause */
/* kvcli user: what becomes of the users file, which credentials are handed out, and what is left
 * where it fails. */
#include <errno.h>
#include <sys/file.h>
#include <sys/syscall.h>

#include "client/cli/command/server.h"
#include "common/auth/file.h"
#include "tests/unit/client/commands.h"
#include "tests/unit/client/folder.h"
#include "tests/unit/descriptors.h"

static unsigned locks;              /* of the folder, alone */
static unsigned fsyncs_well;        /* so many, then they fail */
static unsigned secrets, lines;     /* that were wiped: an Ann's in a structure, as text */
static bool no_memory;              /* for a copy of a string */

int flock(int fd, int operation)
{
	struct stat locked, folder;

	assert_int_equal(fstat(fd, &locked) | stat("data", &folder), 0);
	locks += operation == LOCK_EX && locked.st_ino == folder.st_ino;
	return 0;
}

int fsync(int fd)
{
	(void)fd;
	if (fsyncs_well--)
		return 0;
	errno = ENOSPC;
	return -1;
}

char *strdup(const char *text)
{
	return no_memory ? NULL : made_copy(text, strlen(text));
}

void __wrap_auth_wipe(void *at, size_t bytes);
void __wrap_auth_wipe(void *at, size_t bytes)
{
	secrets += bytes == sizeof(struct credentials) && !strcmp(at, "ann");
	lines += bytes == CREDENTIALS_BYTES_MAX && !strncmp(at, "kvd1:ann:", 9);
	memset(at, 0, bytes);
}

/* Of the server's, with two users. */
static int set_up(void **state)
{
	struct users *users = users_new();
	struct auth_secret secret;
	struct err err;
	int rc;

	in_shell = no_memory = false;
	fsyncs_well = 1000;
	folder_clear();
	mkdir("data", 0777);
	rc = users_add(users, "boss", ROLE_ADMIN, &secret, &err) | users_add(users, "cy", ROLE_READ, &secret, &err) |
	     users_save(users, "data/users", true, &err);
	users_delete(&users);
	setenv("KVD_USERS_FILE", "data/users", 1);
	secrets = lines = locks = 0;
	return rc | made_begin(state);
}

static struct users *load(void)
{
	struct users *users = NULL;
	struct err err;

	assert_int_equal(users_load("data/users", &users, &err), 0);
	return users;
}

/* Does the file hold this one, with the key of those credentials? */
static void is_user(const char *name, enum role role, const char *line)
{
	struct users *users = load();
	const struct user *user = users_find(users, name, strlen(name));
	struct credentials c;
	struct auth_key key;
	struct err err;

	assert_non_null(user);
	assert_int_equal(user->role, role);
	assert_int_equal(line[strlen(line) - 1], '\n');
	assert_int_equal(credentials_parse(line, strlen(line), "line", &c, &err), 0);
	assert_string_equal(c.name, name);
	auth_key_of(&c.secret, &key);
	assert_true(auth_key_equal(&key, &user->key));
	assert_true(auth_key_equal(&c.server, &users->key));
	users_delete(&users);
}

#define LIST_OF_BOSS "boss                             admin\n"
#define LIST_OF_CY "cy                               read\n"
#define UNCHANGED() RUNS(0, LIST_OF_BOSS LIST_OF_CY, "", &cli_user, "list")
#define USAGE "user: usage: user add NAME ROLE [--output FILE] | user remove NAME | user passwd NAME | " \
	      "user list [--json]; ROLE is read, write or admin\n"

/* ------------------------------------------------------------------ what it does */

static void users_are_listed(void **state)
{
	(void)state;
	RUNS(0, LIST_OF_BOSS LIST_OF_CY, "", &cli_user, "list");
	assert_int_equal(locks, 1);
	RUNS(0, "{\"name\":\"boss\",\"role\":\"admin\"}\n{\"name\":\"cy\",\"role\":\"read\"}\n", "", &cli_user,
	     "list --json");
}

static void users_are_added(void **state)
{
	char first[300];

	(void)state;
	assert_int_equal(run(&cli_user, "add ann write"), 0);
	assert_string_equal(printed_err, "");
	strcpy(first, printed_out);
	is_user("ann", ROLE_WRITE, first);
	assert_int_equal(secrets, 1);
	assert_int_equal(lines, 1);
	assert_int_equal(locks, 1);
	RUNS(0, LIST_OF_BOSS LIST_OF_CY "ann                              write\n", "", &cli_user, "list");
	RUNS(2, "", "kvcli: user: there is a user ann already\n", &cli_user, "add ann read");
	is_user("ann", ROLE_WRITE, first);
	RUNS(2, "", "kvcli: user: 'a b' is no name: 1 to 32 letters, digits, '.', '_', '-'\n", &cli_user,
	     "add \"a b\" read");
	in_shell = true;
	RUNS(2, "ERROR user: there is a user ann already\n", "", &cli_user, "add ann admin");
	is_user("ann", ROLE_WRITE, first);
}

static void keys_are_changed(void **state)
{
	char first[300];

	(void)state;
	assert_int_equal(run(&cli_user, "passwd cy"), 0);
	strcpy(first, printed_out);
	is_user("cy", ROLE_READ, first);
	assert_int_equal(run(&cli_user, "passwd cy"), 0);
	assert_string_not_equal(printed_out, first);
	is_user("cy", ROLE_READ, printed_out);
	RUNS(2, "", "kvcli: user: there is no user ann\n", &cli_user, "passwd ann");
	UNCHANGED();
}

static void users_are_removed(void **state)
{
	(void)state;
	RUNS(0, "", "", &cli_user, "remove boss");
	assert_int_equal(locks, 1);
	RUNS(0, LIST_OF_CY, "", &cli_user, "list");
	RUNS(2, "", "kvcli: user: there is no user boss\n", &cli_user, "remove boss");
}

static void credentials_go_to_a_file(void **state)
{
	char line[300];
	struct stat st;

	(void)state;
	RUNS(0, "", "", &cli_user, "add ann read --output ann");
	is_user("ann", ROLE_READ, read_file("ann", line, sizeof line));
	assert_int_equal(stat("ann", &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	RUNS(0, "", "", &cli_user, "passwd cy --output cy");
	is_user("cy", ROLE_READ, read_file("cy", line, sizeof line));
	RUNS(2, "", "kvcli: user: cy is there already: it stays as it is\n", &cli_user, "passwd cy --output cy");
	is_user("cy", ROLE_READ, line);
	RUNS(2, "", "kvcli: user: can't write none/dan: No such file or directory\n", &cli_user,
	     "add dan read --output none/dan");
	RUNS(0, LIST_OF_BOSS LIST_OF_CY "ann                              read\n", "", &cli_user, "list");
}

/* The option comes before the environment. */
static void which_file_it_is(void **state)
{
	(void)state;
	RUNS(0, "", "", &cli_user, "remove boss");
	setenv("KVD_USERS_FILE", "none", 1);
	RUNS(0, LIST_OF_CY, "", &cli_user, "list --users data/users");
	RUNS(2, "", "kvcli: user: can't read none: No such file or directory\n", &cli_user, "list");
	RUNS(2, "", "kvcli: user: can't read no/ne: No such file or directory\n", &cli_user, "list --users no/ne");
	unsetenv("KVD_USERS_FILE");
	RUNS(0, LIST_OF_CY, "", &cli_user, "list --users data/users");
	RUNS(2, "", "kvcli: user: --users FILE or KVD_USERS_FILE says which file\n", &cli_user, "list");
	RUNS(2, "", "kvcli: user: --users FILE or KVD_USERS_FILE says which file\n", &cli_user,
	     "list --users \"a\\x00b\"");
}

/* ------------------------------------------------------------------ what is wrong */

static void words_that_are_wrong(void **state)
{
	static const char *const wrong[] = {
		"add", "add ann", "add ann none", "add ann \"\"", "passwd", "passwd cy x", "remove", "remove cy x",
		"list x", "list x y", "find cy", "find", "add \"a\\x00\" read", "add ann \"read\\x00\"",
		"remove \"cy\\x00\"", "passwd \"\\x00\"", "\"li\\x00st\"",
	};

	(void)state;
	for (unsigned i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
		RUNS(2, "", "kvcli: " USAGE, &cli_user, wrong[i]);
	assert_int_equal(locks, 0);
	RUNS(2, "", "kvcli: user: no memory, or a zero byte in the path\n", &cli_user,
	     "add ann read --output \"a\\x00\"");
	in_shell = true;
	RUNS(2, "ERROR " USAGE, "", &cli_user, "add ann none");
	in_shell = false;
	UNCHANGED();
}

static void the_file_cant_be_written(void **state)
{
	(void)state;
	fsyncs_well = 0;
	RUNS(2, "", "kvcli: user: can't write data/users: No space left on device\n", &cli_user, "add ann read");
	fsyncs_well = 0;
	RUNS(2, "", "kvcli: user: can't write data/users: No space left on device\n", &cli_user,
	     "add ann read --output ann");
	fsyncs_well = 0;
	RUNS(2, "", "kvcli: user: can't write data/users: No space left on device\n", &cli_user, "remove cy");
	assert_int_equal(secrets, 2);
	assert_int_equal(access("ann", F_OK), -1);
	UNCHANGED();
}

/* Then the user is there, and gets a key by passwd. */
static void credentials_cant_be_written(void **state)
{
	(void)state;
	fsyncs_well = 1;
	RUNS(2, "", "kvcli: user: can't write ann: No space left on device\n", &cli_user, "add ann read --output ann");
	fsyncs_well = 1000;
	assert_int_equal(access("ann", F_OK), -1);
	RUNS(0, LIST_OF_BOSS LIST_OF_CY "ann                              read\n", "", &cli_user, "list");
	assert_int_equal(run(&cli_user, "passwd ann"), 0);
	is_user("ann", ROLE_READ, printed_out);
}

static void no_memory_for_a_path(void **state)
{
	(void)state;
	no_memory = true;
	RUNS(2, "", "kvcli: user: out of memory\n", &cli_user, "list --users data/users");
}

static void nothing_is_kept(void **state)
{
	int open = count_descriptors();

	(void)state;
	in_shell = true;
	keeps_nothing(&cli_user, "list");
	keeps_nothing(&cli_user, "passwd cy");
	keeps_nothing(&cli_user, "add cy read --output none/x");
	keeps_nothing(&cli_user, "remove ann --output x --users none");
	keeps_nothing(&cli_user, "add ann none");
	for (unsigned i = 0; i < 30; i++) {
		fsyncs_well = 0;
		assert_int_equal(run(&cli_user, "passwd cy --output x"), 2);
		fsyncs_well = 1000;
		assert_int_equal(run(&cli_user, "passwd cy --output x"), 0);
		unlink("x");
	}
	assert_int_equal(count_descriptors(), open);
}

/* The folder is what is opened first: 0, if that is free. */
static void without_standard_input(void **state)
{
	int input = dup(0), open = count_descriptors();
	struct cli cli = { .server = "here:1" };
	struct cli_word words[] = { { "remove", 6, false }, { "cy", 2, false } };
	struct cli_args args = { .operand = words, .count = 2 };

	(void)state;
	close(0);
	assert_int_equal(cli_user.run(&cli, &args), 0);
	assert_int_equal(fcntl(0, F_GETFD), -1);
	assert_int_equal(locks, 1);
	assert_int_equal(dup2(input, 0), 0);
	assert_int_equal(count_descriptors(), open);
	close(input);
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(users_are_listed),
		TEST(users_are_added),
		TEST(keys_are_changed),
		TEST(users_are_removed),
		TEST(credentials_go_to_a_file),
		TEST(which_file_it_is),
		TEST(words_that_are_wrong),
		TEST(the_file_cant_be_written),
		TEST(credentials_cant_be_written),
		TEST(no_memory_for_a_path),
		TEST(nothing_is_kept),
		TEST(without_standard_input),
	};
	int rc;

	setenv("TERM", "dumb", 1);
	if (auth_init() || !folder_begin())
		return 1;
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	return !folder_end() || rc;
}
