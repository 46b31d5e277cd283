/* SPDX-License-Identifier: BSD-2-Clause */
/* The option table: command line, config file, sizes, error sentences; log and err. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/err.h"
#include "common/log.h"
#include "common/opt.h"

static bool verbose, quiet;
static const char *listen_at;
static int workers, polling;
static uint64_t memory;
static const char *const polls[] = { "adaptive", "busy", "event", NULL };

static const struct opt table[] = {
	{ .name = "", .help = "Options:" },
	{ "listen", 'l', OPT_STRING, &listen_at, 0, 0, NULL, "ADDR[:PORT]", "where to listen" },
	{ "workers", 'w', OPT_INT, &workers, 1, 64, NULL, "N", "worker threads" },
	{ "memory", 'm', OPT_SIZE, &memory, 1 << 20, INT64_C(1) << 40, NULL, "SIZE",
	  "memory of the table, which takes a long line to tell and therefore wraps" },
	{ "poll", 0, OPT_CHOICE, &polling, 0, 0, polls, "adaptive|busy|event", "how to wait" },
	{ "verbose", 'v', OPT_FLAG, &verbose, 0, 0, NULL, NULL, "say more" },
	{ "quiet", 'q', OPT_FLAG, &quiet, 0, 0, NULL, NULL, "say less" },
	{ .name = NULL },
};

static char error[256];

static int parse(const char *a, const char *b, const char *c)
{
	char *argv[] = { (char *)(uintptr_t)"prog", (char *)(uintptr_t)a, (char *)(uintptr_t)b,
			 (char *)(uintptr_t)c, NULL };
	int argc = 1;

	while (argv[argc] != NULL)
		argc++;
	error[0] = '\0';
	return opt_parse(table, argc, argv, error, sizeof error);
}

static void fails_with(const char *sentence, const char *a, const char *b)
{
	assert_int_equal(parse(a, b, NULL), -1);
	assert_string_equal(error, sentence);
}

static void test_forms(void **state)
{
	(void)state;
	assert_int_equal(parse("--workers", "3", "operand"), 3);
	assert_int_equal(workers, 3);
	assert_int_equal(parse("--workers=5", "--", "-x"), 3);
	assert_int_equal(workers, 5);
	assert_int_equal(parse("-w7", "-", "-q"), 2);
	assert_int_equal(workers, 7);
	assert_false(quiet);
	assert_int_equal(parse("-vqw", "9", NULL), 3);
	assert_true(verbose && quiet);
	assert_int_equal(workers, 9);
	assert_int_equal(parse("--verbose=no", "--poll", "event"), 4);
	assert_false(verbose);
	assert_int_equal(polling, 2);
	assert_int_equal(parse("-l", "", NULL), 3);
	assert_string_equal(listen_at, "");
	assert_int_equal(parse("--memory", "1.5g", NULL), 3);
	assert_int_equal(memory, 3ull << 29);
	assert_int_equal(parse("get", "-v", NULL), 1);
	assert_int_equal(parse(NULL, NULL, NULL), 1);
}

static void test_errors(void **state)
{
	(void)state;
	workers = 4;
	fails_with("--workers: 'many' is not a whole number from 1 to 64", "--workers", "many");
	fails_with("--workers: '0' is not a whole number from 1 to 64", "-w", "0");
	fails_with("--workers: '' is not a whole number from 1 to 64", "--workers=", NULL);
	fails_with("--workers: '99999999999999999999' is not a whole number from 1 to 64",
		   "-w99999999999999999999", NULL);
	assert_int_equal(workers, 4);
	fails_with("--workers needs a value (N)", "--workers", NULL);
	fails_with("--memory: '12q' is not a size such as 512M or 1.5GiB", "--memory", "12q");
	fails_with("--memory: '1k' is not a size from 1 MiB to 1 TiB", "--memory", "1k");
	fails_with("--poll: 'fast' is none of adaptive, busy, event", "--poll", "fast");
	fails_with("--verbose: 'x' is not yes or no", "--verbose=x", NULL);
	fails_with("unknown option --worker; did you mean --workers?", "--worker", "3");
	fails_with("unknown option --mem; did you mean --memory?", "--mem=3", NULL);
	fails_with("unknown option --zzzzzzzz; --help lists them", "--zzzzzzzz", NULL);
	fails_with("unknown option -z; --help lists them", "-vz", NULL);
	fails_with("unknown option --; --help lists them", "--=3", NULL);
}

static void test_long_names_do_not_overflow(void **state)
{
	char name[300];

	(void)state;
	memset(name, 'x', sizeof name);
	name[0] = name[1] = '-';
	name[sizeof name - 1] = '\0';
	assert_int_equal(parse(name, NULL, NULL), -1);
	assert_int_equal(parse("--workers", name, NULL), -1);
	assert_int_equal(strlen(error), sizeof error - 1);
}

static void test_sizes(void **state)
{
	static const struct { const char *text; uint64_t bytes; } good[] = {
		{ "0", 0 }, { "1", 1 }, { "64M", 64 << 20 }, { "1GiB", 1 << 30 }, { "1 KiB", 1024 },
		{ "1.5g", 3ull << 29 }, { "2kb", 2048 }, { "7B", 7 }, { ".5k", 512 },
		{ "1T", 1ull << 40 }, { "18446744073709551615", UINT64_MAX },
		{ "15.999e", 18445591152204944769ull },
	};
	static const char *const bad[] = { "", "M", "-1", "1.5", "1x", "1.2.3k", "16e", "0x10",
		"18446744073709551616", "1kk", ".", "1ib", "99999999999999999999999999999999k" };
	uint64_t bytes;

	(void)state;
	for (unsigned i = 0; i < sizeof good / sizeof *good; i++) {
		assert_true(opt_parse_size(good[i].text, &bytes));
		assert_int_equal(bytes, good[i].bytes);
	}
	bytes = 42;
	for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_false(opt_parse_size(bad[i], &bytes));
	assert_int_equal(bytes, 42);
}

static void test_times(void **state)
{
	double seconds = 42;
	const struct opt times[] = {
		{ "for", 0, OPT_TIME, &seconds, 0, 3600, NULL, "TIME", "how long" },
		{ .name = NULL },
	};
	static const struct { const char *text; double seconds; } good[] = {
		{ "60", 60 }, { "1.5s", 1.5 }, { "500ms", 0.5 }, { "2m", 120 }, { "1h", 3600 },
	};
	static const char *const bad[] = { "", "s", "0", "-1", "nan", "inf", "1x", "1 s", "61m",
		"1e300" };

	(void)state;
	for (unsigned i = 0; i < sizeof bad / sizeof *bad + sizeof good / sizeof *good; i++) {
		bool well = i < sizeof good / sizeof *good;
		const char *text = well ? good[i].text : bad[i - sizeof good / sizeof *good];
		char *argv[] = { (char *)(uintptr_t)"prog", (char *)(uintptr_t)"--for",
				 (char *)(uintptr_t)text, NULL };
		double before = seconds;
		assert_int_equal(opt_parse(times, 3, argv, error, sizeof error), well ? 3 : -1);
		assert_true(seconds - (well ? good[i].seconds : before) == 0);
	}
	assert_string_equal(error, "--for: '1e300' is more than 3600 seconds");
}

static void test_format_size(void **state)
{
	static const struct { uint64_t bytes; const char *text; } cases[] = {
		{ 0, "0 B" }, { 1000, "1000 B" }, { 1024, "1 KiB" }, { 3ull << 29, "1.5 GiB" },
		{ 64 << 20, "64 MiB" }, { UINT64_MAX, "16.0 EiB" },
	};
	char buf[32];

	(void)state;
	for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++)
		assert_string_equal(opt_format_size(cases[i].bytes, buf, sizeof buf),
				    cases[i].text);
}

static char path[] = "/tmp/opt_test.XXXXXX";

static int read_text(const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
	return opt_read_file(table, path, error, sizeof error);
}

static void file_fails_with(const char *sentence, const char *text)
{
	assert_int_equal(read_text(text), -1);
	assert_memory_equal(error, path, strlen(path));
	assert_string_equal(error + strlen(path), sentence);
}

static void test_file(void **state)
{
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(read_text("# a comment\n\n workers = 11 \nlisten=/x#y\nverbose = yes\n"
				   "memory = 2 GiB\npoll=busy"), 0);
	assert_int_equal(workers, 11);
	assert_string_equal(listen_at, "/x#y");
	assert_true(verbose);
	assert_int_equal(memory, 2ull << 30);
	assert_int_equal(polling, 1);
	/* The command line, parsed afterwards, wins. */
	assert_int_equal(parse("--listen", "here", NULL), 3);
	assert_string_equal(listen_at, "here");

	file_fails_with(":2: workers: 'x' is not a whole number from 1 to 64",
			"verbose=no\nworkers = x\n");
	file_fails_with(":1: 'verbose' is not of the form NAME = VALUE", "verbose\n");
	file_fails_with(":1: unknown option 'wrkers'; did you mean 'workers'?", "wrkers = 3\n");
	file_fails_with(":1: unknown option ''", " = 3\n");
	unlink(path);
	assert_int_equal(opt_read_file(table, path, error, sizeof error), -1);
	assert_non_null(strstr(error, "No such file"));
}

/* What a function prints on a descriptor. */
static void capture(int fd, void (*print)(void), char *buf, size_t buf_bytes)
{
	FILE *file = tmpfile();
	int saved = dup(fd);

	assert_non_null(file);
	fflush(stdout);
	dup2(fileno(file), fd);
	print();
	fflush(stdout);
	dup2(saved, fd);
	close(saved);
	rewind(file);
	buf[fread(buf, 1, buf_bytes - 1, file)] = '\0';
	fclose(file);
}

static void print_help(void)
{
	opt_print_help(table);
}

static void test_help(void **state)
{
	char text[2048];

	(void)state;
	capture(STDOUT_FILENO, print_help, text, sizeof text);
	assert_string_equal(text,
		"Options:\n"
		"  -l, --listen ADDR[:PORT]  where to listen\n"
		"  -w, --workers N           worker threads\n"
		"  -m, --memory SIZE         memory of the table, which takes a long line to tell\n"
		"                            and therefore wraps\n"
		"      --poll adaptive|busy|event\n"
		"                            how to wait\n"
		"  -v, --verbose             say more\n"
		"  -q, --quiet               say less\n");
}

static bool unused;

/* What is meant is the nearest of all, by letters that are missing, wrong or too many, wherever it stands. */
static void test_nearest(void **state)
{
	static const struct opt names[] = {
		{ .name = "pots", .kind = OPT_FLAG, .target = &unused },
		{ .name = "port", .kind = OPT_FLAG, .target = &unused },
		{ .name = "poem", .kind = OPT_FLAG, .target = &unused },
		{ .name = NULL },
	};
	static struct {
		char given[8];
		const char *wrong;
	} cases[] = {
		{ "--porx", "unknown option --porx; did you mean --port?" },
		{ "--poty", "unknown option --poty; did you mean --pots?" },
		{ "--prt", "unknown option --prt; did you mean --port?" },
		{ "--pem", "unknown option --pem; did you mean --poem?" },
		{ "--porrt", "unknown option --porrt; did you mean --port?" },
		{ "--x", "unknown option --x; --help lists them" },
		{ "--pt", "unknown option --pt; --help lists them" },
		{ "--wxyz", "unknown option --wxyz; --help lists them" },
	};

	(void)state;
	for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		char program[] = "program", *argv[] = { program, cases[i].given, NULL };
		assert_int_equal(opt_parse(names, 2, argv, error, sizeof error), -1);
		assert_string_equal(error, cases[i].wrong);
	}
}

static void print_wide(void)
{
	static const struct opt wide[] = {
		{ .name = "as-wide-as", .argument = "MAY_STAND_X", .kind = OPT_STRING,
		  .help = "A_WORD_THAT_HAS_NO_ROOM_IN_ITS_LINE_BUT_HAS_NONE_IN_THE_NEXT_EITHER then" },
		{ .name = "of-one-more", .argument = "LETTER_XXXX", .kind = OPT_STRING, .help = "below" },
		{ .name = NULL },
	};

	opt_print_help(wide);
}

/* The column of the sentences is at 32 at most. */
static void test_wide_help(void **state)
{
	char text[1024];

	(void)state;
	capture(STDOUT_FILENO, print_wide, text, sizeof text);
	assert_string_equal(text,
		"      --as-wide-as MAY_STAND_X  "
		"A_WORD_THAT_HAS_NO_ROOM_IN_ITS_LINE_BUT_HAS_NONE_IN_THE_NEXT_EITHER\n"
		"                                then\n"
		"      --of-one-more LETTER_XXXX\n"
		"                                below\n");
}

static void print_log(void)
{
	char text[3000];

	memset(text, 'x', sizeof text);
	text[sizeof text - 1] = '\0';
	log_open("prog", LOG_LEVEL_WARN);
	log_error("code %d", 3);
	log_warn("careful");
	log_info("not shown");
	log_set_level(LOG_LEVEL_DEBUG);
	log_debug("shown");
	log_error("%s", text);
}

static void test_log(void **state)
{
	static const char start[] = "prog: error: code 3\nprog: warning: careful\n"
				    "prog: debug: shown\nprog: error: xxx";
	char text[4096];

	(void)state;
	errno = EAGAIN;
	capture(STDERR_FILENO, print_log, text, sizeof text);
	assert_memory_equal(text, start, sizeof start - 1);
	/* The long line is cut, but it is a line. */
	assert_true(strlen(text) < 1200);
	assert_int_equal(text[strlen(text) - 1], '\n');
}

static void test_err(void **state)
{
	struct err e;
	char text[2 * ERR_BYTES];

	(void)state;
	assert_int_equal(err_set(&e, -3, "can't %s %d", "do", 1), -3);
	assert_string_equal(e.text, "can't do 1");
	assert_int_equal(err_set_errno(&e, -2, ENOENT, "open %s", "x"), -2);
	assert_string_equal(e.text, "open x: No such file or directory");
	memset(text, 'y', sizeof text);
	text[sizeof text - 1] = '\0';
	errno = EAGAIN;
	err_set_errno(&e, -1, ENOENT, "%s", text);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(strlen(e.text), ERR_BYTES - 1);
	assert_int_equal(strspn(e.text, "y"), ERR_BYTES - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_forms),
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_long_names_do_not_overflow),
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_times),
		cmocka_unit_test(test_format_size),
		cmocka_unit_test(test_file),
		cmocka_unit_test(test_help),
		cmocka_unit_test(test_nearest),
		cmocka_unit_test(test_wide_help),
		cmocka_unit_test(test_log),
		cmocka_unit_test(test_err),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
