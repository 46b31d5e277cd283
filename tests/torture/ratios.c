/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ratios ADDR ROUNDS RUNS [LONG_BYTES LONG_ROUNDS]
 *
 * What GET, PUT and lock cost next to the verbs that they are made of: each on the
 * verb's queue pair, of the same bytes at the same random addresses.  Each round draws a
 * key and does the operations and their verbs once, in an order drawn anew, so whatever
 * disturbs disturbs all of them: READ and GET in rounds of their own, because after a
 * message an emulated processor has forgotten its page tables.  ROUNDS are of what is
 * READ, messages get a fourth.  All of it RUNS times: a run has one ratio of two medians,
 * and fails the program only if the median of all runs is above its goal.  A run on a
 * machine with other work may be disturbed; most are not.
 */
#include "client/api/raw.h"
#include "tests/torture/kit.h"

const char *server;

#define KEYS 500u
#define KEY_BYTES 16u
#define LATE 100u /* rounds in hundredths: where p99 is */
#define RUNS_MAX 15u
#define READS_MAX 1.02 /* for each GET */
#define LONG_MIN 0.9   /* bandwidth of a long GET over that of a READ */

enum what { READ_64, GET_64, READ_1000, GET_1000, MESSAGE, PUT, CHAIN, LOCK_GET, KINDS };

static const struct kind {
	const char *name;
	size_t value_bytes;
	int against; /* -1: it is raw */
	double ratio_max;
} kinds[KINDS] = {
	[READ_64] = { "raw READ of a 64 B item", 64, -1, 0 },
	[GET_64] = { "GET of 64 B", 64, READ_64, 1.05 },
	[READ_1000] = { "raw READ of a 1,000 B item", 1000, -1, 0 },
	[GET_1000] = { "GET of 1,000 B", 1000, READ_1000, 1.08 },
	[MESSAGE] = { "raw SEND of a 64 B PUT, and its answer", 64, -1, 0 },
	[PUT] = { "PUT of 64 B", 64, MESSAGE, 1.25 },
	[CHAIN] = { "raw CAS and READ of 64 B, one doorbell", 64, -1, 0 },
	[LOCK_GET] = { "lock and GET of 64 B", 64, CHAIN, 1.1 },
};

struct times {
	uint64_t *ns;
	double p50_us, p99_us;
};

static struct times times[KINDS];
static unsigned runs;
static double ratio_of_run[KINDS][RUNS_MAX], long_of_run[RUNS_MAX];
static kvd_session *reads, *messages;
static uint64_t dice = 1;
static bool failed;

static unsigned roll(unsigned n)
{
	dice ^= dice << 13;
	dice ^= dice >> 7;
	dice ^= dice << 17;
	return (unsigned)(dice % n);
}

static void make_key(char key[KEY_BYTES + 1], size_t value_bytes, unsigned number)
{
	snprintf(key, KEY_BYTES + 1, "%05zu-%010u", value_bytes, number);
}

/* ------------------------------------------------------------------ one of each */

static uint64_t run_raw(kvd_session *s, enum what what, const char *key)
{
	static struct session_raw raw;
	int rc = what == MESSAGE ? session_raw_message(s, KEY_BYTES, kinds[what].value_bytes, &raw)
		 : what == CHAIN ? session_raw_lock_read(s, key, KEY_BYTES, &raw)
				 : session_raw_read(s, key, KEY_BYTES, &raw);

	expect_result(s, rc, KVD_OK, kinds[what].name);
	uint64_t start = now_ns();
	expect_result(s, session_raw_run(&raw), KVD_OK, kinds[what].name);
	return now_ns() - start;
}

static uint64_t run_store(kvd_session *s, enum what what, const char *key)
{
	static char value[4096];
	size_t got, bytes = kinds[what].value_bytes;
	kvd_lock_t *lock = NULL;
	uint64_t start = now_ns(), took;
	int rc = what == PUT ? kvd_put(s, key, KEY_BYTES, value, bytes, NULL)
		 : what == LOCK_GET ? kvd_lock_get(s, key, KEY_BYTES, 0, value, sizeof value, &got,
						   NULL, &lock)
				    : kvd_get(s, key, KEY_BYTES, value, sizeof value, &got, NULL);

	took = now_ns() - start;
	expect_result(s, rc, KVD_OK, kinds[what].name);
	check(what == PUT || got == bytes, "a value of another length");
	kvd_unlock(&lock);
	return took;
}

/* Until an unlock is complete: a READ behind it is not before it is. */
static void await_unlock(kvd_session *s, const char *key)
{
	expect_result(s, kvd_exists(s, key, KEY_BYTES, NULL), KVD_OK, "GET behind an unlock");
}

/* `count` kinds from `first` on, in random order. */
static void run_round(kvd_session *s, enum what first, unsigned count, unsigned round)
{
	unsigned order[KINDS], number = roll(KEYS);
	char key[KEY_BYTES + 1];

	for (unsigned i = 0; i < count; i++) {
		unsigned j = roll(i + 1);
		order[i] = order[j];
		order[j] = first + i;
	}
	for (unsigned i = 0; i < count; i++) {
		enum what what = order[i];
		make_key(key, kinds[what].value_bytes, number);
		times[what].ns[round] = kinds[what].against < 0 ? run_raw(s, what, key)
								: run_store(s, what, key);
		if (what == LOCK_GET || what == CHAIN)
			await_unlock(s, key);
	}
}

/* ---------------------------------------------------------------------- figures */

static int compare_ratios(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* The middle one of the runs', which are sorted. */
static double median(double *of_run)
{
	qsort(of_run, runs, sizeof *of_run, compare_ratios);
	return of_run[runs / 2];
}

static void judge(const char *name, double *of_run, double goal, bool at_least)
{
	double ratio = median(of_run);
	bool missed = !(at_least ? ratio >= goal : ratio <= goal);

	printf("%-40s %.3f, %s %.2f%s (%u runs: %.3f to %.3f)\n", name, ratio,
	       at_least ? "at least" : "at most", goal, missed ? ": MISSED" : "", runs, of_run[0],
	       of_run[runs - 1]);
	failed |= missed;
}

static void show(unsigned run, unsigned rounds)
{
	for (unsigned i = 0; i < KINDS; i++) {
		struct times *t = &times[i];
		unsigned n = i == MESSAGE || i == PUT ? (rounds + 3) / 4 : rounds;
		qsort(t->ns, n, sizeof *t->ns, compare_times);
		t->p50_us = (double)t->ns[n / 2] / 1e3;
		t->p99_us = (double)t->ns[(uint64_t)n * 99 / LATE] / 1e3;
		printf("%-40s p50 %8.2f us  p99 %9.2f us", kinds[i].name, t->p50_us, t->p99_us);
		if (kinds[i].against >= 0) {
			ratio_of_run[i][run] = t->p50_us / times[kinds[i].against].p50_us;
			printf("  %.3f", ratio_of_run[i][run]);
		}
		putchar('\n');
		free(t->ns);
	}
}

/* ------------------------------------------------------------------- long values */

static char long_key[KEY_BYTES + 1];

static uint64_t long_raw(kvd_session *s, size_t bytes, char *buffer)
{
	static struct session_raw raw;

	expect_result(s, session_raw_read_long(s, long_key, KEY_BYTES, bytes, buffer, bytes + 4096,
					       &raw), KVD_OK, "raw READ of the long item");
	uint64_t start = now_ns(), took;
	expect_result(s, session_raw_run(&raw), KVD_OK, "raw READ of the long item");
	took = now_ns() - start;
	session_raw_end(&raw);
	return took;
}

static uint64_t long_get(kvd_session *s, size_t bytes, char *buffer)
{
	size_t got;
	uint64_t start = now_ns(), took;

	expect_result(s, kvd_get(s, long_key, KEY_BYTES, buffer, bytes, &got, NULL), KVD_OK,
		      "GET of the long value");
	took = now_ns() - start;
	check(got == bytes, "a long value of another length");
	return took;
}

static void run_long(kvd_session *s, unsigned run, size_t bytes, unsigned rounds)
{
	struct kvd_counters before, after;
	char *buffer = malloc(bytes + 4096);
	uint64_t *raw = calloc(rounds, sizeof *raw), *get = calloc(rounds, sizeof *get);

	if (!buffer || !raw || !get)
		die("memory", strerror(errno));
	memset(buffer, 'v', bytes + 4096);
	make_key(long_key, bytes % 100000, 0);
	expect_result(s, kvd_put(s, long_key, KEY_BYTES, buffer, bytes, NULL), KVD_OK, "long PUT");
	long_get(s, bytes, buffer);
	kvd_session_counters(s, &before);
	for (unsigned i = 0; i < rounds; i++) {
		bool first = roll(2);
		if (first)
			raw[i] = long_raw(s, bytes, buffer);
		get[i] = long_get(s, bytes, buffer);
		if (!first)
			raw[i] = long_raw(s, bytes, buffer);
	}
	kvd_session_counters(s, &after);
	qsort(raw, rounds, sizeof *raw, compare_times);
	qsort(get, rounds, sizeof *get, compare_times);
	double raw_mb = (double)bytes * 1e3 / (double)raw[rounds / 2];
	double get_mb = (double)bytes * 1e3 / (double)get[rounds / 2];
	printf("%-40s p50 %8.1f MB/s\n", "raw READ of the long item", raw_mb);
	long_of_run[run] = get_mb / raw_mb;
	printf("GET of %-9zu B, %4.1f READs each        p50 %8.1f MB/s  %.3f\n", bytes,
	       (double)(after.reads - before.reads) / rounds, get_mb, long_of_run[run]);
	free(buffer);
	free(raw);
	free(get);
}

/* ------------------------------------------------------------------------- main */

static const size_t sizes[] = { 64, 1000 };

static void load(kvd_session *s)
{
	static const char value[1000];
	char key[KEY_BYTES + 1];

	for (unsigned i = 0; i < KEYS * 2; i++) {
		make_key(key, sizes[i % 2], i / 2);
		expect_result(s, kvd_put(s, key, KEY_BYTES, value, sizes[i % 2], NULL), KVD_OK, "PUT");
	}
}

/* The mirror learns where everything is. */
static void warm(kvd_session *s)
{
	char key[KEY_BYTES + 1], value[1000];
	size_t got;

	for (unsigned i = 0; i < KEYS * 2; i++) {
		make_key(key, sizes[i % 2], i / 2);
		expect_result(s, kvd_get(s, key, KEY_BYTES, value, sizeof value, &got, NULL), KVD_OK,
			      "GET");
	}
}

static void run_once(unsigned run, unsigned rounds)
{
	struct kvd_counters before, after;
	double reads_each;

	for (int i = 0; i < KINDS; i++)
		if (!(times[i].ns = calloc(rounds, sizeof *times[i].ns)))
			die("memory", strerror(errno));
	kvd_session_counters(reads, &before);
	for (unsigned round = 0; round < rounds; round++)
		run_round(reads, READ_64, 4, round);
	kvd_session_counters(reads, &after);
	for (unsigned round = 0; round < (rounds + 3) / 4; round++)
		run_round(messages, MESSAGE, 2, round);
	for (unsigned round = 0; round < rounds; round++)
		run_round(reads, CHAIN, 2, round);
	show(run, rounds);
	reached("GETs in a run", after.gets - before.gets, 1);
	/* The raw READs and the locks' are not among them. */
	reads_each = (double)(after.reads - before.reads) / (double)(after.gets - before.gets);
	printf("READs per GET: %.3f, at most %.2f\n", reads_each, READS_MAX);
	failed |= reads_each > READS_MAX;
}

static void judge_all(bool with_long)
{
	for (unsigned i = 0; i < KINDS; i++)
		if (kinds[i].against >= 0)
			judge(kinds[i].name, ratio_of_run[i], kinds[i].ratio_max, false);
	if (with_long)
		judge("long GET over READ, bandwidth", long_of_run, LONG_MIN, true);
}

static kvd_session *connect_polling(kvd_client **client, int poll)
{
	struct kvd_options options = { .size = sizeof options, .timeout_ms = 30000, .poll = poll };
	kvd_session *session;

	if (kvd_client_new(server, &options, client) < 0 || kvd_session_new(*client, &session) < 0)
		die("connect", kvd_client_error(*client));
	return session;
}

int main(int argc, char **argv)
{
	kvd_client *client, *other;

	runs = argc > 3 ? (unsigned)atoi(argv[3]) : 0;
	if ((argc != 4 && argc != 6) || atoi(argv[2]) < 1 || runs < 1 || runs > RUNS_MAX ||
	    (argc == 6 && atoi(argv[5]) < 1)) {
		fprintf(stderr, "usage: ratios ADDR ROUNDS RUNS [LONG_BYTES LONG_ROUNDS]\n");
		return 2;
	}
	server = argv[1];
	setvbuf(stdout, NULL, _IOLBF, 0);
	dice = now_ns() | 1;
	/* What is READ is awaited by spinning, as the verb alone is; who waits for the
	 * server's CPU leaves it one. */
	reads = connect_polling(&client, KVD_POLL_BUSY);
	messages = connect_polling(&other, KVD_POLL_ADAPTIVE);
	printf("%s\n", kvd_client_device(client));
	load(messages);
	warm(reads);
	for (unsigned i = 0; i < runs; i++) {
		run_once(i, (unsigned)atoi(argv[2]));
		if (argc == 6)
			run_long(reads, i, (size_t)atoll(argv[4]), (unsigned)atoi(argv[5]));
	}
	judge_all(argc == 6);
	hang_up(&reads, &client);
	hang_up(&messages, &other);
	return failed;
}
