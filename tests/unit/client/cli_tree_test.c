/* SPDX-License-Identifier: BSD-2-Clause */
/* kvcli put-tree, get-tree and check-tree: which keys and files they make, what is said of those with
 * trouble, and the line at the end. */
#include <signal.h>
#include <time.h>

#include "client/cli/command/tree.h"
#include "client/cli/session/interrupt.h"
#include "tests/unit/client/commands.h"
#include "tests/unit/client/folder.h"
#include "tests/unit/descriptors.h"

static bool terminal;
static time_t now_s;

/* Each look at it is a second later. */
int clock_gettime(clockid_t id, struct timespec *t)
{
	(void)id;
	*t = (struct timespec){ now_s++, 0 };
	return 0;
}

int isatty(int fd)
{
	return fd == 2 && terminal;
}

static int set_up(void **state)
{
	terminal = in_shell = false;
	folder_clear();
	return made_begin(state);
}

#define SUM(name, files, bytes, rate) name ": " files ", " bytes " in 1.00 s (" bytes "/s, " rate " files/s)"
#define PUT(files, bytes, rate) SUM("put-tree", files, bytes, rate)
#define GOT(files, bytes, rate) SUM("get-tree", files, bytes, rate)
#define SAME(files, bytes, rate) SUM("check-tree", files, bytes, rate)

/* What lasts goes on so long, and then this happens. */
static const char *happens_at;
static void (*happens)(void);

static void look_for_it(void)
{
	if (happens && strstr(made.calls, happens_at)) {
		happens();
		happens = NULL;
	}
}

static void meanwhile(const char *at, void (*what)(void))
{
	made.asked = look_for_it;
	happens_at = at;
	happens = what;
}

static void write_numbered(const char *format, unsigned count)
{
	char path[64];

	for (unsigned i = 0; i < count; i++) {
		snprintf(path, sizeof path, format, i);
		write_file(path, "x");
	}
}

static unsigned count_calls(const char *with)
{
	unsigned n = 0;

	for (const char *at = made.calls; (at = strstr(at, with)); at++)
		n++;
	return n;
}

/* ------------------------------------------------------------------ put-tree */

static void files_become_keys(void **state)
{
	(void)state;
	write_file("in/b", "22");
	write_file("in/a/d e", "");
	write_file("in/a/c", "1");
	mkdir("in/empty", 0777);
	RUNS(0, PUT("3 files", "3 B", "3") "\n", "", &cli_put_tree, "in --prefix t/");
	assert_string_equal(made.calls, "submit_put t/a/c\nsubmit_put t/a/d e\nsubmit_put t/b\n");
	assert_string_equal(made_value("t/b"), "22");
	assert_string_equal(made_value("t/a/c"), "1");
	assert_string_equal(made_value("t/a/d e"), "");
	RUNS(0, PUT("2 files", "1 B", "2") "\n", "", &cli_put_tree, "in/a/");
	assert_string_equal(made.calls, "submit_put c\nsubmit_put d e\n");
	assert_int_equal(symlink("b", "in/link"), 0);
	assert_int_equal(symlink("a", "in/linked"), 0);
	assert_int_equal(mkfifo("in/pipe", 0600), 0);
	RUNS(0, PUT("3 files", "3 B", "3") ", 3 left out that are no regular files\n", "", &cli_put_tree,
	     "in --prefix t/");
	assert_int_equal(count_calls("submit_put"), 3);
	RUNS(0, PUT("0 files", "0 B", "0") "\n", "", &cli_put_tree, "in/empty");
	in_shell = true;
	RUNS(0, SUM("put-tree", "2 files", "1 B", "2") "\n", "", &cli_put_tree, "in/a");
}

static void folders_that_are_none(void **state)
{
	(void)state;
	write_file("file", "x");
	RUNS(2, "", "kvcli: put-tree: none: No such file or directory\n", &cli_put_tree, "none");
	RUNS(2, "", "kvcli: check-tree: file: Not a directory\n", &cli_check_tree, "file");
	RUNS(2, "", "kvcli: get-tree: file: it is a file, and no folder\n", &cli_get_tree, "file");
	RUNS(2, "", "kvcli: get-tree: none/here: No such file or directory\n", &cli_get_tree, "none/here");
	RUNS(2, "", "kvcli: put-tree: no memory, or a zero byte in the path\n", &cli_put_tree, "\"a\\x00b\"");
	RUNS(2, "", "kvcli: get-tree: no memory, or a zero byte in the path\n", &cli_get_tree, "\"a\\x00b\"");
	folder_is(".", "./file=x\n");
	in_shell = true;
	RUNS(2, "ERROR put-tree: none: No such file or directory\n", "", &cli_put_tree, "none");
}

static void no_server(void **state)
{
	(void)state;
	write_file("in/a", "1");
	fails("client_new", KVD_ECONNECT);
	RUNS(3, "", "kvcli: here:1: nobody is there\n", &cli_put_tree, "in");
	RUNS(3, "", "kvcli: here:1: nobody is there\n", &cli_get_tree, "out");
	RUNS(3, "", "kvcli: here:1: nobody is there\n", &cli_check_tree, "none");
	fails("keys", KVD_EDENIED);
	RUNS(3, "", "kvcli: keys failed\n", &cli_get_tree, "out");
	folder_is(".", "./in/a=1\n");
}

/* The longest key has 1,024 bytes. */
static void keys_that_are_too_long(void **state)
{
	static const char too_long[] = "kvcli: %s: %s/long: with the prefix it is longer than a key, 1,024 bytes\n";
	char line[512], dir[201], path[900], want[2048];

	(void)state;
	memset(dir, 'd', 200);
	dir[200] = '\0';
	snprintf(path, sizeof path, "%s/%s/%s", dir, dir, dir);
	snprintf(line, sizeof line, "in/%s", dir);
	mkdir("in", 0777);
	assert_int_equal(mkdir(line, 0777), 0);
	assert_int_equal(chdir(line), 0);
	assert_int_equal(mkdir(dir, 0777) | chdir(dir) | mkdir(dir, 0777) | chdir(dir), 0);
	write_file("one", "1");
	write_file("long", "2");
	assert_int_equal(chdir(folder_name), 0);
	/* 603 are of the folders, 3 or 4 of the file. */
	memset(line, 'p', sizeof line);
	memcpy(line, "in --prefix ", 12);
	line[12 + 1024 - 603 - 3] = '\0';
	snprintf(want, sizeof want, too_long, "put-tree", path);
	RUNS(2, PUT("1 file", "1 B", "1") ", 1 failed\n", want, &cli_put_tree, line);
	assert_int_equal(made.items, 1);
	assert_int_equal(made.item[0].key_bytes, 1024);
	assert_memory_equal(made.item[0].key, line + 12, 418);
	assert_memory_equal(made.item[0].key + 418, path, strlen(path));
	snprintf(want, sizeof want, too_long, "check-tree", path);
	RUNS(2, SAME("1 file", "1 B", "1") ", 1 failed\n", want, &cli_check_tree, line);
}

static void remove_b(void)
{
	assert_int_equal(unlink("in/b"), 0);
}

static void files_that_go_meanwhile(void **state)
{
	(void)state;
	write_file("in/a", "1");
	write_file("in/b", "2");
	write_file("in/c", "3");
	meanwhile("submit_put a", remove_b);
	RUNS(2, PUT("2 files", "2 B", "2") ", 1 failed\n", "kvcli: put-tree: b: No such file or directory\n",
	     &cli_put_tree, "in");
	assert_string_equal(made.calls, "submit_put a\nsubmit_put c\n");
	write_file("in/b", "2");
	made_put("b", "2");
	meanwhile("submit_get c", remove_b);
	RUNS(2, SAME("2 files", "2 B", "2") ", 1 failed\n", "kvcli: check-tree: b: No such file or directory\n",
	     &cli_check_tree, "in");
}

static void files_that_are_too_large(void **state)
{
	(void)state;
	write_file("in/a", "1");
	write_file("in/large", "");
	assert_int_equal(truncate("in/large", (1 << 30) + 1), 0);
	RUNS(2, PUT("1 file", "1 B", "1") ", 1 failed\n",
	     "kvcli: put-tree: large: it is longer than 1 GiB, the largest value\n", &cli_put_tree, "in");
	made_put("large", "");
	RUNS(2, SAME("1 file", "1 B", "1") ", 1 failed\n",
	     "kvcli: check-tree: large: it is longer than 1 GiB, the largest value\n", &cli_check_tree, "in");
}

static void names_are_quoted(void **state)
{
	(void)state;
	write_file("in/a\nb", "1");
	RUNS(1, SAME("0 files", "0 B", "0") ", 1 differ or are missing\n", "kvcli: check-tree: \"a\\nb\": not found\n",
	     &cli_check_tree, "in");
}

/* ------------------------------------------------------------------ get-tree */

static void keys_become_files(void **state)
{
	struct stat st;

	(void)state;
	made_put("t/b", "22");
	made_put("t/a/d e", "");
	made_put("u", "no");
	made_put("t/a/c", "1");
	RUNS(0, GOT("3 files", "3 B", "3") "\n", "", &cli_get_tree, "out --prefix t/");
	assert_string_equal(made.calls, "keys t/\nsubmit_get t/a/c\nsubmit_get t/a/d e\nsubmit_get t/b\n");
	folder_is(".", "./out/a/c=1\n./out/a/d e=\n./out/b=22\n");
	assert_int_equal(stat("out", &st), 0);
	assert_int_equal(st.st_mode & 07777, 0777);
	made_put("t/b", "333");
	RUNS(0, GOT("4 files", "6 B", "4") "\n", "", &cli_get_tree, "out");
	assert_memory_equal(made.calls, "keys \nsubmit_get t/a/c\n", 22);
	folder_is("out", "out/a/c=1\nout/a/d e=\nout/b=22\nout/t/a/c=1\nout/t/a/d e=\nout/t/b=333\nout/u=no\n");
	RUNS(0, GOT("0 files", "0 B", "0") "\n", "", &cli_get_tree, "more --prefix x");
	folder_is("more", "more/\n");
}

static void keys_that_would_lead_out(void **state)
{
	(void)state;
	made_put("../x", "1");
	made_put("/x", "2");
	made_put("a", "3");
	made_put("a/../b", "4");
	made_put("b/", "5");
	made_put("c", "6");
	RUNS(2, GOT("2 files", "2 B", "2") ", 4 failed\n",
	     "kvcli: get-tree: ../x: it is no path that stays in the folder\n"
	     "kvcli: get-tree: /x: it is no path that stays in the folder\n"
	     "kvcli: get-tree: a/../b: it is no path that stays in the folder\n"
	     "kvcli: get-tree: b/: it is no path that stays in the folder\n", &cli_get_tree, "out");
	assert_int_equal(count_calls("submit_get"), 2);
	folder_is(".", "./out/a=3\n./out/c=6\n");
}

static void what_is_in_the_way(void **state)
{
	(void)state;
	made_put("b/c", "1");
	made_put("d", "2");
	made_put("e/f", "3");
	made_put("g", "4");
	mkdir("out", 0777);
	assert_int_equal(symlink("/tmp", "out/b"), 0);
	assert_int_equal(mkdir("out/d", 0777), 0);
	write_file("out/e", "here");
	RUNS(2, GOT("1 file", "1 B", "1") ", 3 failed\n",
	     "kvcli: get-tree: b/c: a symbolic link is in the way, which could lead out of the folder: remove it first\n"
	     "kvcli: get-tree: d: File exists\nkvcli: get-tree: e/f: Not a directory\n", &cli_get_tree, "out");
	folder_is("out", "out/b?\nout/d/\nout/e=here\nout/g=4\n");
}

static void delete_b(void)
{
	assert_int_equal(made_del("b", 1), KVD_OK);
}

/* One that is gone is no trouble. */
static void keys_that_go_meanwhile(void **state)
{
	(void)state;
	made_put("a", "1");
	made_put("b", "2");
	meanwhile("submit_get b", delete_b);
	RUNS(0, GOT("1 file", "1 B", "1") "\n", "", &cli_get_tree, "out");
	folder_is("out", "out/a=1\n");
}

/* ------------------------------------------------------------------ check-tree */

static void bytes_are_compared(void **state)
{
	(void)state;
	write_file("in/a", "same");
	write_file("in/b", "1234");
	write_file("in/c", "1234");
	write_file("in/d", "1234");
	write_file("in/e", "here");
	write_file("in/f", "");
	made_put("p a", "same");
	made_put("p b", "1235");
	made_put("p c", "123");
	made_put("p d", "2000");
	made_put("p f", "");
	RUNS(1, SAME("2 files", "4 B", "2") ", 4 differ or are missing\n",
	     "kvcli: check-tree: b: the value's bytes differ\nkvcli: check-tree: c: the value's length differs\n"
	     "kvcli: check-tree: d: the value's bytes differ\nkvcli: check-tree: e: not found\n", &cli_check_tree,
	     "in --prefix \"p \"");
	assert_string_equal(made.calls, "submit_get p a\nsubmit_get p b\nsubmit_get p c\nsubmit_get p d\n"
					"submit_get p e\nsubmit_get p f\n");
	made_put("p b", "1234");
	made_put("p c", "1234");
	made_put("p d", "1234");
	made_put("p e", "here");
	RUNS(0, SAME("6 files", "20 B", "6") "\n", "", &cli_check_tree, "in --prefix \"p \"");
}

/* ------------------------------------------------------------------ trouble */

/* The worst counts, whichever comes first. */
static void a_status_is_the_worst(void **state)
{
	(void)state;
	write_file("in/a", "1");
	write_file("in/b", "");
	write_file("in/c", "1");
	assert_int_equal(truncate("in/b", (1 << 30) + 1), 0);
	made_put("b", "");
	assert_int_equal(run(&cli_check_tree, "in"), 2);
	assert_string_equal(printed_out, SAME("0 files", "0 B", "0") ", 2 differ or are missing, 1 failed\n");
}

static void many_are_only_counted(void **state)
{
	char want[2048] = "";

	(void)state;
	write_numbered("in/%02u", 24);
	for (unsigned i = 0; i < 20; i++)
		snprintf(want + strlen(want), 64, "kvcli: check-tree: %02u: not found\n", i);
	strcat(want, "kvcli: check-tree: more such files are only counted\n");
	RUNS(1, SAME("0 files", "0 B", "0") ", 24 differ or are missing\n", want, &cli_check_tree, "in");
	/* The server's are named. */
	fails("done", KVD_EBUSY);
	made.well = 1;
	made.once = true;
	strcat(want, "kvcli: check-tree: 22: done failed\n");
	RUNS(3, SAME("0 files", "0 B", "0") ", stopped early, 23 differ or are missing, 1 failed\n", want,
	     &cli_check_tree, "in");
}

/* Trouble with one key is passed over. */
static void some_fail(void **state)
{
	(void)state;
	write_numbered("in/%02u", 40);
	fails("submit_put", KVD_ETOOBIG);
	made.once = true;
	RUNS(2, PUT("39 files", "39 B", "39") ", 1 failed\n", "kvcli: put-tree: 00: submit_put failed\n",
	     &cli_put_tree, "in");
	assert_int_equal(made.items, 39);
	fails("submit_get", KVD_ETOOBIG);
	made.once = true;
	RUNS(2, GOT("38 files", "38 B", "38") ", 1 failed\n", "kvcli: get-tree: 01: submit_get failed\n",
	     &cli_get_tree, "out");
	fails("done", KVD_ETOOBIG);
	made.once = true;
	assert_int_equal(run(&cli_check_tree, "in"), 2);
	assert_string_equal(printed_out, SAME("38 files", "38 B", "38") ", 1 differ or are missing, 1 failed\n");
	assert_non_null(strstr(printed_err, ": done failed\n"));
}

/* Trouble with the server ends it: 32 are in flight as the first one's is told. */
static void a_server_fails(void **state)
{
	(void)state;
	write_numbered("in/%02u", 40);
	fails("submit_put", KVD_EDENIED);
	made.once = true;
	RUNS(3, PUT("32 files", "32 B", "32") ", stopped early, 1 failed\n",
	     "kvcli: put-tree: 00: submit_put failed\n", &cli_put_tree, "in");
	assert_int_equal(count_calls("submit_put"), 33);
	for (unsigned i = 0; i < 40; i++)
		made_put_bytes((char[]){ (char)('0' + i / 10), (char)('0' + i % 10) }, 2, "x", 1);
	fails("submit_get", KVD_EDENIED);
	made.once = true;
	RUNS(3, GOT("32 files", "32 B", "32") ", stopped early, 1 failed\n",
	     "kvcli: get-tree: 00: submit_get failed\n", &cli_get_tree, "out");
	fails("submit_get", KVD_EDENIED);
	made.once = true;
	RUNS(3, SAME("32 files", "32 B", "32") ", stopped early, 1 failed\n",
	     "kvcli: check-tree: 00: submit_get failed\n", &cli_check_tree, "in");
}

static void interrupt(void)
{
	raise(SIGINT);
}

/* What was sent is waited for. */
static void an_interrupt_ends_it(void **state)
{
	(void)state;
	cli_interrupt_catch();
	write_numbered("in/%02u", 9);
	meanwhile("submit_put 03", interrupt);
	RUNS(0, PUT("4 files", "4 B", "4") ", stopped early\n", "", &cli_put_tree, "in");
	assert_int_equal(count_calls("submit_put"), 4);
	cli_interrupt_forget();
	RUNS(0, PUT("9 files", "9 B", "9") "\n", "", &cli_put_tree, "in");
	signal(SIGINT, SIG_DFL);
}

/* Trouble is told where the bar was. */
static void a_bar_makes_room(void **state)
{
	(void)state;
	terminal = true;
	write_file("in/a", "1");
	write_file("in/b", "1");
	write_file("in/c", "1");
	write_file("in/d", "1");
	made_put("a", "1");
	made_put("b", "1");
	made_put("d", "1");
	assert_int_equal(run(&cli_check_tree, "in"), 1);
	assert_non_null(strstr(printed_err, "\rcheck-tree [########........]  50 %  2 of 4  2 B  "));
	assert_non_null(strstr(printed_err, "/s\033[K\r\033[Kkvcli: check-tree: c: not found\n\rcheck-tree [############....]"));
	assert_string_equal(printed_err + strlen(printed_err) - 4, "\r\033[K");
	assert_memory_equal(printed_out, "check-tree: 3 files, 3 B in ", 28);
	/* What is refused is no part of the whole. */
	made_put("../x", "123456");
	assert_int_equal(run(&cli_get_tree, "out"), 2);
	assert_non_null(strstr(printed_err, "\rget-tree [################] 100 %  3 of 3  3 B  "));
}

static void close_input(void)
{
	assert_int_equal(close(0), 0);
}

/* The folder that is written to is descriptor 0, if that is free. */
static void without_standard_input(void **state)
{
	int input = dup(0);

	(void)state;
	made_put("a", "1");
	meanwhile("keys", close_input);
	RUNS(0, GOT("1 file", "1 B", "1") "\n", "", &cli_get_tree, "out");
	folder_is("out", "out/a=1\n");
	assert_int_equal(fcntl(0, F_GETFD), -1);
	assert_int_equal(dup2(input, 0), 0);
	close(input);
}

static void nothing_is_kept(void **state)
{
	int open;

	(void)state;
	write_file("in/a", "1");
	write_file("in/b/c", "2");
	made_put("b/c", "2");
	made_put("../x", "3");
	in_shell = true;
	run(&cli_get_tree, "out");
	open = count_descriptors();
	keeps_nothing(&cli_put_tree, "in");
	keeps_nothing(&cli_put_tree, "none");
	keeps_nothing(&cli_check_tree, "in");
	keeps_nothing(&cli_get_tree, "out");
	keeps_nothing(&cli_get_tree, "in/a");
	keeps_nothing(&cli_get_tree, "\"\\x00\"");
	assert_int_equal(count_descriptors(), open);
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(files_become_keys),
		TEST(folders_that_are_none),
		TEST(no_server),
		TEST(keys_that_are_too_long),
		TEST(files_that_go_meanwhile),
		TEST(files_that_are_too_large),
		TEST(names_are_quoted),
		TEST(keys_become_files),
		TEST(keys_that_would_lead_out),
		TEST(what_is_in_the_way),
		TEST(keys_that_go_meanwhile),
		TEST(bytes_are_compared),
		TEST(a_status_is_the_worst),
		TEST(many_are_only_counted),
		TEST(some_fail),
		TEST(a_server_fails),
		TEST(an_interrupt_ends_it),
		TEST(a_bar_makes_room),
		TEST(without_standard_input),
		TEST(nothing_is_kept),
	};
	int rc;

	setenv("TERM", "dumb", 1);
	umask(0);
	if (!folder_begin())
		return 1;
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	return !folder_end() || rc;
}
