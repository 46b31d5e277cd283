/* SPDX-License-Identifier: BSD-2-Clause */
/* kvcli's bar and the line at its end, and large values under it.  The clock goes on only where a
 * test says so; standard error counts as a terminal. */
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/cli/session/large.h"
#include "client/cli/text/progress.h"
#include "client/kvd.h"
#include "tests/unit/said.h"

static uint64_t clock_ns;
static bool terminal = true;

int clock_gettime(clockid_t id, struct timespec *t)
{
	(void)id;
	t->tv_sec = (time_t)(clock_ns / 1000000000);
	t->tv_nsec = (long)(clock_ns % 1000000000);
	return 0;
}

int isatty(int fd)
{
	return terminal && fd == 2;
}

#define SECONDS 1000000000ull
#define MS 1000000ull

static int set_up(void **state)
{
	(void)state;
	clock_ns = 5000 * SECONDS;
	terminal = true;
	return 0;
}

/* ------------------------------------------------------------------ the bar */

static struct cli_progress bar;

static void shown(const char *text)
{
	assert_string_equal(said_end(), text);
	said_begin();
}

/* It is drawn ten times a second at the most. */
static void files_of_a_known_number(void **state)
{
	(void)state;
	said_begin();
	cli_progress_begin(&bar, "put", 2000, 4096000);
	assert_true(bar.bar && bar.to == stdout && !strcmp(bar.unit, "file"));
	clock_ns += 2 * SECONDS;
	cli_progress_add(&bar, 1024);
	shown("\rput [................]   0 %  1 of 2,000  1 KiB  512 B/s\033[K");
	clock_ns += 100 * MS - 1;
	cli_progress_add(&bar, 1024);
	shown("");
	clock_ns += 1;
	bar.count = 1500;
	cli_progress_add(&bar, 2045952);
	shown("\rput [########........]  50 %  1,501 of 2,000  2.0 MiB  952.4 KiB/s\033[K");
	clock_ns += 1 * SECONDS;
	cli_progress_add(&bar, 9000000);
	shown("\rput [################] 100 %  1,502 of 2,000  10.5 MiB  3.4 MiB/s\033[K");
	cli_progress_hide(&bar);
	shown("\r\033[K");
	cli_progress_hide(&bar);
	shown("");
	cli_progress_add(&bar, 0);
	shown("\rput [################] 100 %  1,503 of 2,000  10.5 MiB  3.4 MiB/s\033[K");
	said_end();
}

/* By what was read of the file, by what was done of so many, or not at all. */
static void other_totals(void **state)
{
	(void)state;
	said_begin();
	cli_progress_begin(&bar, "import", 0, 1000);
	bar.unit = "key";
	bar.bytes_read = 255;
	clock_ns += 1 * SECONDS;
	cli_progress_add(&bar, 10);
	shown("\rimport [####............]  25 %  1 keys  10 B  10 B/s\033[K");
	cli_progress_begin(&bar, "export", 4, 0);
	clock_ns += 1 * SECONDS;
	cli_progress_add(&bar, 10);
	shown("\rexport [####............]  25 %  1 of 4  10 B  10 B/s\033[K");
	cli_progress_begin(&bar, "export", 0, 0);
	bar.count = 1234566;
	clock_ns += 1 * SECONDS;
	cli_progress_add(&bar, 10);
	shown("\rexport  1,234,567 files  10 B  10 B/s\033[K");
	/* No line is longer than 79 columns. */
	cli_progress_begin(&bar, "01234567890123456789012345678901234567890123456789012345678901234567", 0, 0);
	clock_ns += 1 * SECONDS;
	cli_progress_add(&bar, 10);
	shown("\r01234567890123456789012345678901234567890123456789012345678901234567  1 files  \033[K");
	said_end();
}

static void one_value(void **state)
{
	(void)state;
	said_begin();
	cli_progress_begin(&bar, "get", 0, 8 << 20);
	clock_ns += 100 * MS - 1;
	cli_progress_value(&bar, 1 << 20);
	shown("");
	assert_int_equal(bar.bytes, 1 << 20);
	clock_ns += 1;
	cli_progress_value(&bar, 2 << 20);
	shown("\rget [####............]  25 %  2 MiB of 8 MiB\033[K");
	clock_ns += 100 * MS - 1;
	cli_progress_value(&bar, 4 << 20);
	shown("");
	clock_ns += 1;
	cli_progress_value(&bar, 4 << 20);
	shown("\rget [########........]  50 %  4 MiB of 8 MiB\033[K");
	cli_progress_begin(&bar, "put", 0, 0);
	clock_ns += 1500 * MS;
	cli_progress_value(&bar, 5 << 20);
	shown("\rput  5 MiB  1.5 s\033[K");
	said_end();
}

static void no_terminal_no_bar(void **state)
{
	(void)state;
	terminal = false;
	said_begin();
	cli_progress_begin(&bar, "get", 3, 100);
	clock_ns += 5 * SECONDS;
	cli_progress_add(&bar, 10);
	clock_ns += 5 * SECONDS;
	cli_progress_value(&bar, 50);
	cli_progress_hide(&bar);
	shown("");
	assert_int_equal(bar.count, 1);
	assert_int_equal(bar.bytes, 50);
	said_end();
}

/* ------------------------------------------------------------------ the line at the end */

static void ends_with(const char *text)
{
	char *line = NULL;
	size_t bytes;

	bar.to = open_memstream(&line, &bytes);
	cli_progress_end(&bar);
	fclose(bar.to);
	assert_string_equal(line, text);
	free(line);
}

static void the_line_at_the_end(void **state)
{
	static const struct {
		size_t count;
		const char *text;
	} cases[] = {
		{ 0, "get: 0 files, 0 B in 2.00 s (0 B/s, 0 files/s)" },
		{ 1, "get: 1 file, 0 B in 2.00 s (0 B/s, 0 files/s)" },
		{ 2, "get: 2 files, 0 B in 2.00 s (0 B/s, 1 files/s)" },
		{ 999, "get: 999 files, 0 B in 2.00 s (0 B/s, 499 files/s)" },
		{ 1000, "get: 1,000 files, 0 B in 2.00 s (0 B/s, 500 files/s)" },
		{ 2002, "get: 2,002 files, 0 B in 2.00 s (0 B/s, 1,001 files/s)" },
		{ 999999, "get: 999,999 files, 0 B in 2.00 s (0 B/s, 499,999 files/s)" },
		{ 1000000, "get: 1,000,000 files, 0 B in 2.00 s (0 B/s, 500,000 files/s)" },
		{ 12003040, "get: 12,003,040 files, 0 B in 2.00 s (0 B/s, 6,001,520 files/s)" },
		{ 999999999, "get: 999,999,999 files, 0 B in 2.00 s (0 B/s, 499,999,999 files/s)" },
		{ 2000000000, "get: 2,000,000,000 files, 0 B in 2.00 s (0 B/s, 1,000,000,000 files/s)" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		cli_progress_begin(&bar, "get", 0, 0);
		bar.count = cases[i].count;
		clock_ns += 2 * SECONDS;
		ends_with(cases[i].text);
	}
	cli_progress_begin(&bar, "import", 0, 0);
	bar.unit = "key";
	bar.bytes = 3 << 20;
	bar.count = 3;
	clock_ns += 1500 * MS;
	ends_with("import: 3 keys, 3 MiB in 1.50 s (2 MiB/s, 2 keys/s)");
	/* No time at all is none to divide by. */
	cli_progress_begin(&bar, "import", 0, 0);
	ends_with("import: 0 files, 0 B in 0.00 s (0 B/s, 0 files/s)");
}

/* ------------------------------------------------------------------ large values */

#define LARGE (4u << 20)

static struct {
	char calls[256];
	int submitted, result; /* of a submit, and of its completion */
	int polls, poll_fails; /* so many find nothing yet */
	int fate, fate_result;
	size_t exists, bytes; /* what is there, and what is got */
	uint64_t read;
} kvd;

static void called(const char *call)
{
	strcat(kvd.calls, call);
}

int kvd_submit_put_with(kvd_session *session, const void *key, size_t key_bytes, const void *value,
			size_t value_bytes, const struct kvd_change *change, void *tag)
{
	(void)session, (void)key, (void)key_bytes, (void)value, (void)value_bytes, (void)change, (void)tag;
	called("submit ");
	return kvd.submitted;
}

int kvd_submit_get(kvd_session *session, const void *key, size_t key_bytes, void *value,
		   size_t value_bytes_max, void *tag)
{
	(void)session, (void)key, (void)key_bytes, (void)value, (void)tag;
	assert_int_equal(value_bytes_max, kvd.exists);
	called("submit ");
	return kvd.submitted;
}

int kvd_poll(kvd_session *session, struct kvd_completion *completions, int max, int timeout_ms)
{
	(void)session;
	assert_int_equal(max, 1);
	clock_ns += (uint64_t)timeout_ms * MS;
	kvd.read += 1 << 20;
	if (kvd.polls-- > 0)
		return 0;
	memset(completions, 0, sizeof *completions);
	completions->result = kvd.result;
	completions->version = 7;
	completions->value_bytes = kvd.bytes;
	return kvd.poll_fails ? kvd.poll_fails : 1;
}

void kvd_session_counters(const kvd_session *session, struct kvd_counters *counters)
{
	(void)session;
	memset(counters, 0, sizeof *counters);
	counters->read_bytes = kvd.read;
}

void kvd_session_receipt(kvd_session *session, struct kvd_receipt *receipt)
{
	(void)session;
	called(receipt ? "receipt " : "none ");
	if (receipt)
		memset(receipt, 0, sizeof *receipt);
}

int kvd_fate(kvd_session *session, const struct kvd_receipt *receipt, int *result, uint64_t *version)
{
	(void)session, (void)receipt;
	called("fate ");
	*result = kvd.fate_result;
	*version = 9;
	return kvd.fate;
}

int kvd_put_with(kvd_session *session, const void *key, size_t key_bytes, const void *value, size_t value_bytes,
		 const struct kvd_change *change, uint64_t *version)
{
	(void)session, (void)key, (void)key_bytes, (void)value, (void)value_bytes, (void)change;
	called("put ");
	*version = 11;
	return KVD_OK;
}

int kvd_exists(kvd_session *session, const void *key, size_t key_bytes, size_t *value_bytes)
{
	(void)session, (void)key, (void)key_bytes;
	called("exists ");
	*value_bytes = kvd.exists;
	return kvd.exists ? KVD_OK : KVD_NOT_FOUND;
}

int kvd_get_alloc(kvd_session *session, const void *key, size_t key_bytes, void **value, size_t *value_bytes,
		  uint64_t *version)
{
	(void)session, (void)key, (void)key_bytes, (void)version;
	called("get ");
	*value = strdup("x");
	*value_bytes = 1;
	return KVD_OK;
}

static void stored(size_t bytes, int result, uint64_t version, const char *calls)
{
	struct kvd_change change = { .size = sizeof change };
	uint64_t is = 0;

	kvd.calls[0] = '\0';
	assert_int_equal(cli_large_put(NULL, "k", 1, "v", bytes, &change, &is), result);
	assert_int_equal(is, version);
	assert_string_equal(kvd.calls, calls);
}

static void large_values_are_stored(void **state)
{
	(void)state;
	memset(&kvd, 0, sizeof kvd);
	said_begin();
	stored(LARGE - 1, KVD_OK, 11, "put ");
	terminal = false;
	stored(LARGE, KVD_OK, 11, "put ");
	terminal = true;
	stored(LARGE, KVD_OK, 7, "receipt submit none ");
	shown("");
	kvd.polls = 5;
	stored(LARGE, KVD_OK, 7, "receipt submit none ");
	shown("\rput  4 MiB  0.1 s\033[K\rput  4 MiB  0.2 s\033[K\r\033[K");
	kvd.result = KVD_ETOOBIG;
	stored(LARGE, KVD_ETOOBIG, 7, "receipt submit none ");
	kvd.submitted = KVD_EINVAL;
	stored(LARGE, KVD_EINVAL, 0, "receipt submit none ");
	shown("");
	said_end();
}

/* The answer was lost: kvd says what became of it, and what it never had is sent again. */
static void large_values_whose_answer_is_lost(void **state)
{
	(void)state;
	memset(&kvd, 0, sizeof kvd);
	kvd.result = KVD_EUNKNOWN;
	stored(LARGE, KVD_OK, 9, "receipt submit none fate ");
	kvd.fate_result = KVD_CONDITION;
	stored(LARGE, KVD_CONDITION, 9, "receipt submit none fate ");
	kvd.fate = KVD_NOT_FOUND;
	stored(LARGE, KVD_OK, 11, "receipt submit none fate put ");
	kvd.fate = KVD_ECONNECT;
	stored(LARGE, KVD_EUNKNOWN, 9, "receipt submit none fate ");
	kvd.poll_fails = KVD_EUNKNOWN;
	kvd.result = KVD_OK;
	stored(LARGE, KVD_EUNKNOWN, 9, "receipt submit none fate ");
}

static size_t memory_used(void)
{
	struct mallinfo2 now = mallinfo2();

	return now.uordblks + now.hblkhd;
}

/* Whether it goes well or not, the room for a large value is not kept. */
static void got(size_t bytes, const char *calls)
{
	void *value;
	size_t is, used = memory_used();

	kvd.calls[0] = '\0';
	assert_int_equal(cli_large_get(NULL, "k", 1, &value, &is), KVD_OK);
	assert_int_equal(is, bytes);
	assert_string_equal(kvd.calls, calls);
	free(value);
	assert_true(memory_used() < used + LARGE);
}

static void large_values_are_got(void **state)
{
	(void)state;
	memset(&kvd, 0, sizeof kvd);
	said_begin();
	got(1, "exists get ");
	kvd.exists = LARGE - 1;
	got(1, "exists get ");
	kvd.exists = LARGE;
	kvd.bytes = LARGE - 5;
	got(LARGE - 5, "exists submit ");
	shown("");
	kvd.polls = 3;
	got(LARGE - 5, "exists submit ");
	shown("\rget [########........]  50 %  2 MiB of 4 MiB\033[K\r\033[K");
	kvd.result = KVD_ESPACE;
	got(1, "exists submit get ");
	kvd.submitted = KVD_EBUSY;
	got(1, "exists submit get ");
	kvd.submitted = kvd.result = KVD_OK;
	kvd.poll_fails = KVD_ECONNECT;
	got(1, "exists submit get ");
	terminal = false;
	got(1, "get ");
	shown("");
	said_end();
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(files_of_a_known_number),
		TEST(other_totals),
		TEST(one_value),
		TEST(no_terminal_no_bar),
		TEST(the_line_at_the_end),
		TEST(large_values_are_stored),
		TEST(large_values_whose_answer_is_lost),
		TEST(large_values_are_got),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
