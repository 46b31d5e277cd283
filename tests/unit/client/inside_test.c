/* SPDX-License-Identifier: BSD-2-Clause */
/* A file below a folder: no link leads out of it, folders on the way are made, and nothing is left
 * open.  cli_files_test.c has the calls that fail. */
#include <errno.h>
#include <limits.h>

#include "client/cli/file/inside.h"
#include "tests/unit/client/folder.h"

static unsigned mode_of(const char *path)
{
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	return st.st_mode & 07777;
}

static void no_link_leads_out(void **state)
{
	int root = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char longer[NAME_MAX + 4];

	(void)state;
	assert_int_equal(cli_inside_save(root, "a/b/c", "one", 3), 0);
	file_is("a/b/c", "one");
	assert_int_equal(chmod("a/b/c", 0640), 0);
	assert_int_equal(cli_inside_save(root, "a/b/c", "three", 5), 0);
	assert_int_equal(mode_of("a/b/c"), 0640);

	assert_int_equal(symlink("a/b", "way"), 0);
	assert_int_equal(symlink("a/b/c", "file"), 0);
	assert_int_equal(cli_inside_save(root, "way/c", "no", 2), ELOOP);
	assert_int_equal(cli_inside_save(root, "file", "no", 2), ELOOP);
	assert_int_equal(cli_inside_save(root, "a/b", "no", 2), EEXIST);
	assert_int_equal(cli_inside_save(root, "a/b/c/d", "no", 2), ENOTDIR);
	memset(longer, 'n', sizeof longer - 1);
	longer[sizeof longer - 1] = '\0';
	assert_int_equal(cli_inside_save(root, longer + 2, "no", 2), ENAMETOOLONG);
	memcpy(longer, "a/", 2);
	assert_int_equal(cli_inside_save(root, longer, "no", 2), ENAMETOOLONG);
	/* Nothing else is there, not even beside. */
	folder_is(".", "./a/b/c=three\n./file?\n./way?\n");
	close(root);
}

static void files_inside(void **state)
{
	int input = dup(0), root = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char name[NAME_MAX + 3];

	(void)state;
	memset(name, 'n', NAME_MAX);
	strcpy(name + NAME_MAX, "/x");
	assert_int_equal(cli_inside_save(root, "a/b/c", "1", 1), 0);
	assert_int_equal(mode_of("a/b"), 0777);
	assert_int_equal(mode_of("a/b/c"), 0666);
	assert_int_equal(cli_inside_save(root, name, "2", 1), 0);
	file_is(name, "2");
	assert_int_equal(unlink(name), 0);
	name[NAME_MAX] = '\0';
	assert_int_equal(rmdir(name), 0);
	for (unsigned bytes = NAME_MAX - 8; bytes <= NAME_MAX; bytes++) { /* with little room beside it, or none */
		name[bytes] = '\0';
		assert_int_equal(cli_inside_save(root, name, "5", 1), 0);
		file_is(name, "5");
		assert_int_equal(unlink(name), 0);
		name[bytes] = 'n';
	}
	close(0);
	assert_int_equal(cli_inside_save(root, "a/b/d", "3", 1), 0);
	assert_int_equal(cli_inside_save(root, "e", "4", 1), 0);
	assert_int_equal(fcntl(0, F_GETFD), -1); /* it was used, and closed */
	assert_int_equal(dup2(input, 0), 0);
	close(input);
	folder_is(".", "./a/b/c=1\n./a/b/d=3\n./e=4\n");
	close(root);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, folder_set_up, folder_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(no_link_leads_out),
		TEST(files_inside),
	};
	int rc;

	if (!folder_begin())
		return 1;
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	return !folder_end() || rc;
}
