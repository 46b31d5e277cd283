/* SPDX-License-Identifier: BSD-2-Clause */
/* kvcli export and import: the file, what is said at the end, and what is left where they fail.
 * dump_test.c has the formats. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "client/cli/command/tree.h"
#include "tests/unit/client/commands.h"
#include "tests/unit/client/folder.h"
#include "tests/unit/descriptors.h"

static bool terminal[3];
static int fsync_error, write_error, close_error;
static time_t now_s;

/* Each look at it is a second later. */
int clock_gettime(clockid_t id, struct timespec *t)
{
	*t = (struct timespec){ id == CLOCK_MONOTONIC ? now_s++ : 1, 0 };
	return 0;
}

int isatty(int fd)
{
	return fd >= 0 && fd < 3 && terminal[fd];
}

static int fails_with(int error)
{
	errno = error;
	return -1;
}

int fsync(int fd)
{
	(void)fd;
	return fsync_error ? fails_with(fsync_error) : 0;
}

ssize_t write(int fd, const void *data, size_t bytes)
{
	return write_error && fd != 2 ? fails_with(write_error) : syscall(SYS_write, fd, data, bytes);
}

/* Of a file that is written. */
int close(int fd)
{
	int written = (fcntl(fd, F_GETFL) & O_ACCMODE) == O_WRONLY, rc = (int)syscall(SYS_close, fd);

	return close_error && written ? fails_with(close_error) : rc;
}

static int set_up(void **state)
{
	memset(terminal, 0, sizeof terminal);
	fsync_error = write_error = close_error = 0;
	in_shell = false;
	return made_begin(state);
}

/* No file but these is here: names with a space behind each. */
static void files_are(const char *want)
{
	struct dirent **names;
	char found[512] = "";
	int n = scandir(".", &names, NULL, alphasort);

	for (int i = 0; i < n; i++) {
		if (names[i]->d_name[0] != '.')
			strcat(strcat(found, names[i]->d_name), " ");
		free(names[i]);
	}
	free(names);
	assert_string_equal(found, want);
}

static void furnish(void)
{
	made_put("one", "1");
	made_put("two", "22")->info.ttl_ms = 5000;
	made_put("three", "333")->info.flags = 7;
	made_find("three", 5)->info.signs = KVD_CLAIMED;
}

#define ONE "{\"key\":\"one\",\"value\":\"1\"}\n"
#define TWO "{\"key\":\"two\",\"value\":\"22\",\"ttl_ms\":5000}\n"
#define THREE "{\"key\":\"three\",\"value\":\"333\",\"flags\":7,\"claimed\":true}\n"
#define TIME(bytes) bytes " in 1.00 s (" bytes "/s, "

/* ------------------------------------------------------------------ export */

static void all_keys_go_to_a_file(void **state)
{
	struct stat st;

	(void)state;
	furnish();
	RUNS(0, "export: 3 keys, " TIME("17 B") "3 keys/s)\n", "", &cli_export, "--json out");
	file_is("out", ONE TWO THREE);
	stat("out", &st);
	assert_int_equal(st.st_mode & 0777, 0600);
	RUNS(0, "export: 2 keys, " TIME("13 B") "2 keys/s)\n", "", &cli_export, "--json --prefix t out");
	file_is("out", TWO THREE);
	assert_memory_equal(made.calls, "keys t\nsubmit_get two\n", 22);
	RUNS(0, ONE, "export: 1 key, " TIME("4 B") "1 keys/s)\n", &cli_export, "--json -p o -");
	RUNS(0, "export: 0 keys, " TIME("0 B") "0 keys/s)\n", "", &cli_export, "--json --prefix x out");
	file_is("out", "");
	files_are("out ");
	unlink("out");
}

static void go_away(void)
{
	if (strstr(made.calls, "submit_get three")) /* the last of them */
		made_del("two", 3);
}

static void a_key_goes_meanwhile(void **state)
{
	(void)state;
	furnish();
	made.asked = go_away;
	RUNS(0, ONE THREE, "export: 2 keys, " TIME("12 B") "2 keys/s)\n", &cli_export, "--json -");
}

/* How many keys there are is for the bar: where there is one. */
static void a_bar_knows_how_many(void **state)
{
	(void)state;
	furnish();
	terminal[2] = true;
	made.stats = "{\"more\":{\"keys\":9},\"keys\":12}";
	assert_int_equal(run(&cli_export, "--json out"), 0);
	assert_non_null(strstr(printed_err, "3 of 12"));
	assert_non_null(strstr(printed_err, " 25 %"));
	assert_int_equal(run(&cli_export, "--json --prefix t out"), 0);
	assert_null(strstr(printed_err, "of"));
	assert_non_null(strstr(printed_err, "\rexport  2 keys"));
	fails("stats", KVD_EBUSY);
	assert_int_equal(run(&cli_export, "--json out"), 0);
	assert_null(strstr(printed_err, "of"));
	unlink("out");
	fails(NULL, 0);
	write_file("in", ONE TWO);
	assert_int_equal(run(&cli_import, "in"), 0);
	assert_non_null(strstr(printed_err, "\rimport ["));
	assert_non_null(strstr(printed_err, " 100 %  2 keys"));
	fails("done", KVD_EFULL);
	made.once = true; /* the second of the two */
	assert_int_equal(run(&cli_import, "in"), 3);
	assert_non_null(strstr(printed_err, "\r\033[Kkvcli: import: stopped"));
	unlink("in");
}

static void where_it_may_not_go(void **state)
{
	(void)state;
	furnish();
	terminal[1] = true;
	RUNS(2, "", "kvcli: export: a terminal can't show it; give a file, or --json\n", &cli_export, "-");
	RUNS(0, ONE, "export: 1 key, " TIME("4 B") "1 keys/s)\n", &cli_export, "--json -p o -");
	terminal[1] = false;
	in_shell = true;
	RUNS(2, "ERROR export: in a shell it wants a file: answers stand on standard output\n", "", &cli_export,
	     "-");
	RUNS(2, "ERROR import: in a shell it wants a file: standard input holds commands\n", "", &cli_import, "-");
	in_shell = false;
	RUNS(2, "", "kvcli: export: no memory, or a zero byte in the path\n", &cli_export, "\"a\\x00b\"");
	RUNS(2, "", "kvcli: import: no memory, or a zero byte in the path\n", &cli_import, "\"a\\x00b\"");
	RUNS(2, "", "kvcli: export: a file beside none/a: No such file or directory\n", &cli_export, "none/a");
	RUNS(2, "", "kvcli: import: none: No such file or directory\n", &cli_import, "none");
	fails("client_new", KVD_ECONNECT);
	RUNS(3, "", "kvcli: here:1: nobody is there\n", &cli_export, "out");
	made.well = 1; /* the one that lists */
	RUNS(3, "", "kvcli: here:1: nobody is there\n", &cli_export, "out");
	files_are("");
}

/* It is told once, and no file is left. */
static void exports_that_fail(void **state)
{
	(void)state;
	furnish();
	fails("keys", KVD_EDENIED);
	RUNS(3, "", "kvcli: export: keys failed\n", &cli_export, "out");
	write_file("out", "before");
	fails("done", KVD_ETOOBIG);
	RUNS(2, "", "kvcli: export: done failed\n", &cli_export, "--json out");
	fails("done", KVD_EBUSY);
	made.well = 1;
	RUNS(3, "", "kvcli: export: done failed\n", &cli_export, "--json out");
	file_is("out", "before");
	files_are("out ");
	unlink("out");
}

static void files_that_fail(void **state)
{
	(void)state;
	furnish();
	fsync_error = EIO;
	RUNS(2, "", "kvcli: export: out: Input/output error\n", &cli_export, "out");
	files_are("");
	fsync_error = EINVAL;
	assert_int_equal(run(&cli_export, "out"), 0);
	fsync_error = EROFS;
	assert_int_equal(run(&cli_export, "out"), 0);
	fsync_error = 0;
	unlink("out");
	close_error = EDQUOT;
	RUNS(2, "", "kvcli: export: out: Disk quota exceeded\n", &cli_export, "out");
	close_error = 0;
	write_error = ENOSPC;
	RUNS(2, "", "kvcli: export: out: No space left on device\n", &cli_export, "out");
	write_error = EFBIG;
	assert_int_equal(run(&cli_export, "-"), 2);
	assert_memory_equal(printed_err, "kvcli: export: standard output: ", 32);
	write_error = 0;
	mkdir("out", 0700);
	RUNS(2, "", "kvcli: export: out: Is a directory\n", &cli_export, "out");
	rmdir("out");
	files_are("");
}

/* Who reads has all that was wanted. */
static void a_reader_that_leaves(void **state)
{
	struct cli cli = { .server = "here:1" };

	(void)state;
	furnish();
	write_error = EPIPE;
	assert_int_equal(printed_run(&cli, cli_export.options, cli_export.run, "-"), 0);
	assert_int_equal(cli.output_error, EPIPE);
	assert_string_equal(printed_err, "");
	cli_disconnect(&cli);
	RUNS(2, "", "kvcli: export: out: Broken pipe\n", &cli_export, "out");
	write_error = 0;
	files_are("");
}

/* ------------------------------------------------------------------ signals */

static int signal_at_key;

static void is_caught(int number)
{
	struct sigaction now;

	sigaction(number, NULL, &now);
	assert_true(now.sa_flags & (int)SA_RESETHAND);
	assert_true(now.sa_handler != SIG_DFL);
}

static void send_signal(void)
{
	if (signal_at_key && strstr(made.calls, "submit_") && !strstr(made.calls, "submit_get three")) {
		is_caught(SIGINT);
		is_caught(SIGTERM);
		is_caught(SIGHUP);
		raise(signal_at_key);
		signal_at_key = 0;
	}
}

static void handler(int number)
{
	(void)number;
}

static void a_signal_ends_it_in_order(void **state)
{
	static const int numbers[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction now;

	(void)state;
	furnish();
	write_file("in", ONE TWO THREE);
	made.asked = send_signal;
	for (unsigned i = 0; i < 3; i++) {
		signal(numbers[i], handler);
		signal_at_key = numbers[i];
		RUNS(2, "", "kvcli: export: interrupted\n", &cli_export, "out");
		assert_string_equal(made.calls, "keys \nsubmit_get one\nkeys stopped\n");
		signal_at_key = numbers[i];
		assert_int_equal(run(&cli_import, "in"), 2);
		assert_non_null(strstr(printed_err, " stored record"));
		assert_non_null(strstr(printed_err, ": interrupted. To go on from there: kvcli -s here:1 import "
						    "'in' --from "));
		sigaction(numbers[i], NULL, &now);
		assert_ptr_equal(now.sa_handler, handler);
		signal(numbers[i], SIG_DFL);
	}
	/* An interrupt of one is not one of the next. */
	assert_int_equal(run(&cli_export, "out"), 0);
	unlink("in");
	unlink("out");
}

/* ------------------------------------------------------------------ import */

static void all_records_are_stored(void **state)
{
	(void)state;
	write_file("in", ONE TWO THREE);
	RUNS(0, "import: 3 keys, " TIME("17 B") "3 keys/s)\n", "", &cli_import, "--from 0 in");
	assert_string_equal(made.calls, "submit_put one\nsubmit_put two ttl 5000\n"
					"submit_put three flags 7 signs 2\n");
	assert_int_equal(run(&cli_export, "dump"), 0);
	made_begin(NULL);
	RUNS(0, "check: 3 keys, " TIME("17 B") "3 keys/s)\n", "", &cli_import, "--check dump");
	assert_string_equal(made.calls, "");
	assert_int_equal(made.items, 0);
	RUNS(0, "import: 3 keys, " TIME("17 B") "3 keys/s)\n", "", &cli_import, "dump");
	assert_string_equal(made_value("two"), "22");
	assert_int_equal(made_find("three", 5)->info.signs, KVD_CLAIMED);
	made_begin(NULL);
	RUNS(0, "import: 2 keys, " TIME("13 B") "2 keys/s)\n", "", &cli_import, "--from 26 in");
	assert_null(made_value("one"));
	RUNS(2, "", "kvcli: import --from wants the byte that a cut-off import told\n", &cli_import,
	     "--from -1 in");
	RUNS(0, "import: 0 keys, " TIME("0 B") "0 keys/s)\n", "", &cli_import, "--from 124 in");
	unlink("dump");
	unlink("in");
}

static void standard_input_is_read(void **state)
{
	int was = dup(0), fd;

	(void)state;
	write_file("in", ONE "x");
	fd = open("in", O_RDONLY | O_CLOEXEC);
	dup2(fd, 0);
	assert_int_equal(run(&cli_import, "-"), 2);
	assert_non_null(strstr(printed_err, "import '-' --from 26"));
	assert_true(fcntl(0, F_GETFD) >= 0); /* open still */
	dup2(was, 0);
	close(was);
	close(fd);
	assert_string_equal(made_value("one"), "1");
	unlink("in");
}

static void records_that_are_not_stored(void **state)
{
	(void)state;
	write_file("in", ONE TWO THREE);
	fails("done", KVD_EFULL);
	made.once = true;
	RUNS(3, "", "kvcli: import: stopped after 2 stored records: done failed. To go on from there: kvcli -s "
	     "here:1 import 'in' --from 67\n", &cli_import, "in");
	made.well = 1;
	RUNS(3, "", "kvcli: import: stopped after 1 stored record: done failed. To go on from there: kvcli -s "
	     "here:1 import 'in' --from 26\n", &cli_import, "in");
	fails("done", KVD_ETOOBIG);
	made.well = 0;
	made.once = false;
	in_shell = true;
	RUNS(2, "ERROR import: stopped after 0 stored records: done failed. To go on from there: import 'in' "
	     "--from 0\n", "", &cli_import, "in");
	in_shell = false;
	fails("submit_put", KVD_EINVAL);
	RUNS(2, "", "kvcli: import: stopped after 0 stored records: submit_put failed. To go on from there: "
	     "kvcli -s here:1 import 'in' --from 0\n", &cli_import, "in");
	fails("client_new", KVD_ECONNECT);
	RUNS(3, "", "kvcli: here:1: nobody is there\n", &cli_import, "in");
	unlink("in");
}

static void many_records(void **state)
{
	FILE *file = fopen("in", "w");

	(void)state;
	for (unsigned i = 0; i < 100; i++)
		fprintf(file, "{\"key\":\"%03u\",\"value\":\"\"}\n", i);
	fclose(file);
	fails("done", KVD_EFULL);
	made.once = true;
	assert_int_equal(run(&cli_import, "in"), 3);
	assert_null(strstr(made.calls, "submit_put 099")); /* it doesn't go on for long */
	fails(NULL, 0);
	made_begin(NULL);
	RUNS(0, "import: 100 keys, " TIME("300 B") "100 keys/s)\n", "", &cli_import, "in");
	assert_int_equal(made.items, 100);
	unlink("in");
}

static void files_that_are_wrong(void **state)
{
	char want[256];
	struct stat st;

	(void)state;
	write_file("in", ONE "x\n" TWO);
	assert_int_equal(run(&cli_import, "in"), 2);
	assert_memory_equal(printed_err, "kvcli: import: stopped after 1 stored record: the file is damaged at "
					 "byte 26: ", 78);
	assert_non_null(strstr(printed_err, ". To go on from there once that line is right: kvcli -s here:1 "
					    "import 'in' --from 26\n"));
	assert_int_equal(run(&cli_import, "--check in"), 2);
	assert_memory_equal(printed_err, "kvcli: import: the file is damaged at byte 26: ", 47);
	assert_non_null(strstr(printed_err, "; the 1 records before that are right\n"));
	write_file("in", "nothing of ours, but long enough for a head");
	assert_int_equal(run(&cli_import, "in"), 2);
	assert_memory_equal(printed_err, "kvcli: import: in is no export: ", 32);
	assert_null(strstr(printed_err, "go on"));
	mkdir("dir", 0700);
	RUNS(2, "", "kvcli: import: stopped after 0 stored records: dir can't be read: Is a directory. To go on "
	     "from there: kvcli -s here:1 import 'dir' --from 0\n", &cli_import, "dir");
	rmdir("dir");
	furnish();
	assert_int_equal(run(&cli_export, "in"), 0);
	stat("in", &st);
	assert_int_equal(truncate("in", st.st_size - 1), 0);
	snprintf(want, sizeof want, "kvcli: import: stopped after 3 stored records: the file is cut off: its end is "
		 "missing. To go on from there with the whole file: kvcli -s here:1 import 'in' --from %d\n",
		 (int)st.st_size - 32);
	RUNS(2, "", want, &cli_import, "in");
	int fd = open("in", O_WRONLY | O_CLOEXEC);
	assert_int_equal(pwrite(fd, "x", 1, 60), 1);
	close(fd);
	assert_int_equal(run(&cli_import, "in"), 2);
	assert_memory_equal(printed_err, "kvcli: import: stopped after 0 stored records: the file is damaged at "
					 "byte 16: ", 79);
	assert_null(strstr(printed_err, "go on"));
	unlink("in");
}

/* A shell does many of them. */
static void nothing_is_kept(void **state)
{
	int open = count_descriptors();

	(void)state;
	furnish();
	write_file("in", ONE "{\"key\":\"two\"");
	keeps_nothing(&cli_export, "out");
	keeps_nothing(&cli_export, "none/out");
	keeps_nothing(&cli_import, "out");
	keeps_nothing(&cli_import, "in");
	keeps_nothing(&cli_import, "none");
	keeps_nothing(&cli_import, "--check in");
	fails("client_new", KVD_ECONNECT);
	made.mute = true;
	keeps_nothing(&cli_import, "in");
	made.well = 1;
	keeps_nothing(&cli_export, "out");
	assert_int_equal(count_descriptors(), open);
	unlink("in");
	unlink("out");
}

static int sessions_at_once;

static void count_sessions(void)
{
	sessions_at_once = made.sessions;
}

static int connect_and_export(struct cli *cli, const struct cli_args *args)
{
	int status;

	assert_non_null(cli_connect(cli, &status));
	return cli_export.run(cli, args);
}

/* A shell has a session already: the one that lists is another, which is gone afterwards. */
static void a_shell_keeps_its_session(void **state)
{
	struct cli cli = { .server = "here:1", .shell = true };

	(void)state;
	furnish();
	made.asked = count_sessions;
	assert_int_equal(printed_run(&cli, cli_export.options, connect_and_export, "--json out"), 0);
	assert_int_equal(sessions_at_once, 2);
	assert_int_equal(made.sessions, 1);
	file_is("out", ONE TWO THREE);
	cli_disconnect(&cli);
	unlink("out");
}

/* More than is written at once. */
static void a_write_fails_meanwhile(void **state)
{
	static char value[3 << 20];

	(void)state;
	furnish();
	made_put_bytes("large", 5, value, sizeof value);
	made_put("last", "");
	write_error = ENOSPC;
	RUNS(2, "", "kvcli: export: out: No space left on device\n", &cli_export, "out");
	RUNS(2, "", "kvcli: export: out: No space left on device\n", &cli_export, "--json out");
	write_error = 0;
	files_are("");
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(all_keys_go_to_a_file),
		TEST(a_key_goes_meanwhile),
		TEST(a_bar_knows_how_many),
		TEST(where_it_may_not_go),
		TEST(exports_that_fail),
		TEST(files_that_fail),
		TEST(a_reader_that_leaves),
		TEST(a_signal_ends_it_in_order),
		TEST(all_records_are_stored),
		TEST(standard_input_is_read),
		TEST(records_that_are_not_stored),
		TEST(many_records),
		TEST(files_that_are_wrong),
		TEST(nothing_is_kept),
		TEST(a_shell_keeps_its_session),
		TEST(a_write_fails_meanwhile),
	};
	int rc;

	setenv("TERM", "dumb", 1);
	if (!folder_begin())
		return 1;
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	return !folder_end() || rc;
}
