/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tests/lib/leak_roots.h: where AddressSanitizer is, what a program has lost is found at its end; what its
 * variables know, a library's or a thread's, is not lost.
 */
#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <cmocka.h>

#define LEAKS_STATUS 23

static char *volatile known;
static _Thread_local char *volatile known_here;

/* What the program does that is looked at. */
static int lose(const char *how)
{
	if (!strcmp(how, "variable"))
		known = malloc(77);
	else if (!strcmp(how, "thread"))
		known_here = malloc(77);
	else if (!strcmp(how, "library"))
		setenv("LEAKS", "one", 1); /* the C library has the array of all variables */
	else
		known = malloc(77), known = NULL;
	return 0;
}

/* Its status at the end, with these options of LeakSanitizer's. */
static int status_of(const char *how, const char *options)
{
	char program[] = "leaks_test", word[20], variable[40];
	char *const args[] = { program, word, NULL };
	char *const env[] = { variable, NULL };
	posix_spawn_file_actions_t quiet;
	pid_t pid;
	int status;

	snprintf(word, sizeof word, "%s", how);
	snprintf(variable, sizeof variable, "LSAN_OPTIONS=exitcode=%d:%s", LEAKS_STATUS, options);
	assert_int_equal(posix_spawn_file_actions_init(&quiet), 0);
	assert_int_equal(posix_spawn_file_actions_addopen(&quiet, 2, "/dev/null", 1, 0), 0);
	assert_int_equal(posix_spawn(&pid, "/proc/self/exe", &quiet, NULL, args, env), 0);
	posix_spawn_file_actions_destroy(&quiet);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void test_lost(void **state)
{
	(void)state;
	assert_int_equal(status_of("lost", ""), LEAKS_STATUS);
}

static void test_known(void **state)
{
	(void)state;
	assert_int_equal(status_of("variable", ""), 0);
	assert_int_equal(status_of("thread", ""), 0);
	assert_int_equal(status_of("library", ""), 0);
}

static long faults_with(const char *options)
{
	struct rusage before, after;

	getrusage(RUSAGE_CHILDREN, &before);
	assert_int_equal(status_of("variable", options), 0);
	getrusage(RUSAGE_CHILDREN, &after);
	return after.ru_minflt - before.ru_minflt;
}

/* Of AddressSanitizer's own variables nothing is read. */
static void test_faults(void **state)
{
	(void)state;
	long all = faults_with("use_globals=1"), here = faults_with("");
	print_message("%ld page faults, and %ld where all variables are read\n", here, all);
	assert_true(here < all - 200);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lost),
		cmocka_unit_test(test_known),
		cmocka_unit_test(test_faults),
	};

	if (argc > 1)
		return lose(argv[1]);
#ifndef TESTS_LIB_LEAK_ROOTS_H
	printf("skipped: a build without AddressSanitizer\n");
	return 77;
#endif
	return cmocka_run_group_tests(tests, NULL, NULL);
}
