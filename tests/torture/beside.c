/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * beside -- what a client has of kvd while others do what they do.
 *
 *	beside ADDR:PORT puts MS [FILE]	puts one at a time for so long: how long the slowest of a
 *					hundred took; each has to succeed.  With a file: the
 *					times are added to those in it, all_p99_us is of all
 *	beside ADDR:PORT killed N	N holders of a lock killed: when the next had it
 *
 * A line of words and numbers; FAILED: and status 1 if a call fails.
 */
#include "tests/torture/kit.h"

#define PUTS_MAX 4000000u
#define RUNS_MAX 16u /* in a file of times */
#define KILLS_MAX 100u

const char *server;

static struct stage {
	volatile unsigned step;
	volatile uint64_t at_ns;
} *stage;

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static double p99_us(uint64_t *took, size_t n)
{
	qsort(took, n, sizeof *took, compare);
	return (double)took[n * 99 / 100] / 1e3;
}

/* One run meets the machine's other threads, the next one does not: all runs tell of both. */
static double p99_of_all(const char *file, const uint64_t *took, size_t n)
{
	uint64_t *all = malloc(RUNS_MAX * PUTS_MAX * sizeof *all);
	FILE *f = fopen(file, "a+");

	check(f && all, "no file of times");
	check(fwrite(took, sizeof *took, n, f) == n && !fflush(f), "can't write times");
	rewind(f);
	size_t count = fread(all, sizeof *all, RUNS_MAX * PUTS_MAX, f);
	check(count >= n && fgetc(f) == EOF, "a file of more times than it may have");
	fclose(f);
	double p99 = p99_us(all, count);
	free(all);
	return p99;
}

static void puts_for(unsigned ms, const char *file)
{
	uint64_t *took = malloc(PUTS_MAX * sizeof *took), start = now_ns();
	kvd_client *client;
	kvd_session *s = connect_to(&client);
	unsigned n = 0;
	char value[100];

	memset(value, 'v', sizeof value);
	check(took != NULL, "no memory");
	for (uint64_t now = start; now - start < ms * 1000000ull && n < PUTS_MAX; n++) {
		uint64_t begin = now;
		expect_result(s, kvd_put(s, "beside", 6, value, sizeof value, NULL), KVD_OK, "put");
		now = now_ns();
		took[n] = now - begin;
	}
	double p99 = p99_us(took, n);
	printf("puts %u p50_us %.1f p99_us %.1f max_us %.1f", n, (double)took[n / 2] / 1e3, p99,
	       (double)took[n - 1] / 1e3);
	if (file)
		printf(" all_p99_us %.1f", p99_of_all(file, took, n));
	printf("\n");
	hang_up(&s, &client);
	free(took);
}

static kvd_lock_t *lock(kvd_session *s)
{
	struct kvd_key key = { "locked", 6 };
	kvd_lock_t *l;

	expect_result(s, kvd_lock(s, &key, 1, -1, &l), KVD_OK, "lock");
	return l;
}

static void holds(unsigned i)
{
	kvd_client *client;
	kvd_session *s = connect_to(&client);

	(void)i;
	lock(s);
	stage->step = 1;
	for (;;)
		pause();
}

/* It asks while the holder lives, and is answered after it was killed. */
static void follows(unsigned i)
{
	kvd_client *client;
	kvd_session *s = connect_to(&client);

	(void)i;
	await(&stage->step, 1, "the holder");
	stage->step = 2;
	kvd_lock_t *l = lock(s);
	stage->at_ns = now_ns();
	expect_result(s, kvd_unlock(&l), KVD_OK, "unlock");
	hang_up(&s, &client);
}

static void kills(unsigned count)
{
	uint64_t took[KILLS_MAX];

	count = count > KILLS_MAX ? KILLS_MAX : count;
	for (unsigned round = 0; round < count; round++) {
		stage->step = 0;
		pid_t holder = start_process(holds, 0), next = start_process(follows, 1);
		await(&stage->step, 2, "who waits for the lock");
		rest_ms(20); /* it is in the queue by now */
		uint64_t killed_ns = now_ns();
		kill_process(holder);
		check(ended_well(next), "who waited did not get the lock");
		took[round] = stage->at_ns - killed_ns;
	}
	qsort(took, count, sizeof *took, compare);
	printf("killed %u median_ms %.1f max_ms %.1f\n", count, (double)took[count / 2] / 1e6,
	       (double)took[count - 1] / 1e6);
}

int main(int argc, char **argv)
{
	unsigned n = argc == 4 || argc == 5 ? (unsigned)atoi(argv[3]) : 0;

	if (!n)
		return 2;
	server = argv[1];
	stage = shared_new(sizeof *stage);
	if (!strcmp(argv[2], "puts"))
		puts_for(n, argv[4]);
	else
		kills(n);
	return 0;
}
