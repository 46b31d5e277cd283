/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lockcost ADDR ROUNDS [BYTES]
 *
 * What a lock costs where nobody else wants it, next to the verbs that it is made of:
 * each round does everything once, so that whatever disturbs disturbs all of it.
 * Fails if a lock with its GET takes more than one round trip, or a locked update more
 * than three times a compare-and-swap and a message.
 */
#include "client/api/raw.h"
#include "tests/torture/kit.h"

const char *server;

enum what { CAS, MESSAGE, READ, GET, PUT, LOCK_GET, UNLOCK, UPDATE, KINDS };

static const char *const names[KINDS] = {
	"raw compare-and-swap", "raw message of a PUT, and reply", "raw READ of the item", "GET",
	"PUT", "lock and GET", "unlock", "locked update: lock and GET, PUT, unlock",
};

static const struct kvd_key key = { "the key", 7 };
static uint64_t *times_ns[KINDS];
static char value[4096];
static size_t bytes = 100;

static void note(enum what what, unsigned round, uint64_t *since)
{
	uint64_t now = now_ns();

	times_ns[what][round] = now - *since;
	*since = now;
}

static void run_raw(kvd_session *s, enum what what, unsigned round)
{
	struct session_raw raw;
	int rc = what == CAS ? session_raw_cas(s, key.data, key.bytes, &raw)
		 : what == READ ? session_raw_read(s, key.data, key.bytes, &raw)
				: session_raw_message(s, key.bytes, bytes, &raw);

	expect_result(s, rc, KVD_OK, "raw request");
	uint64_t since = now_ns();
	expect_result(s, session_raw_run(&raw), KVD_OK, "raw request");
	note(what, round, &since);
}

static void run_round(kvd_session *s, unsigned round)
{
	char buffer[sizeof value];
	size_t got;
	kvd_lock_t *lock;

	run_raw(s, CAS, round);
	run_raw(s, MESSAGE, round);
	run_raw(s, READ, round);
	uint64_t since = now_ns(), start;
	expect_result(s, kvd_get(s, key.data, key.bytes, buffer, sizeof buffer, &got, NULL), KVD_OK,
		      "get");
	note(GET, round, &since);
	expect_result(s, kvd_put(s, key.data, key.bytes, value, bytes, NULL), KVD_OK, "put");
	note(PUT, round, &since);
	start = since;
	expect_result(s, kvd_lock_get(s, key.data, key.bytes, 0, buffer, sizeof buffer, &got, NULL,
				      &lock), KVD_OK, "lock and get");
	note(LOCK_GET, round, &since);
	expect_result(s, kvd_locked_put(lock, key.data, key.bytes, value, bytes, NULL), KVD_OK,
		      "put under the lock");
	since = now_ns();
	expect_result(s, kvd_unlock(&lock), KVD_OK, "unlock");
	note(UNLOCK, round, &since);
	note(UPDATE, round, &start);
}

/* The requests of one lock with its GET; an atomic and a READ posted together. */
static void count_requests(kvd_session *s)
{
	struct kvd_counters before, after;
	char buffer[sizeof value];
	size_t got;
	kvd_lock_t *lock;

	kvd_session_counters(s, &before);
	expect_result(s, kvd_lock_get(s, key.data, key.bytes, 0, buffer, sizeof buffer, &got, NULL,
				      &lock), KVD_OK, "lock and get");
	kvd_session_counters(s, &after);
	kvd_unlock(&lock);
	printf("lock and GET: %llu compare-and-swap, %llu READ, %llu messages\n",
	       (unsigned long long)(after.atomics - before.atomics),
	       (unsigned long long)(after.reads - before.reads),
	       (unsigned long long)(after.messages - before.messages));
	check(after.atomics - before.atomics == 1 && after.reads - before.reads == 1 &&
		      after.messages == before.messages,
	      "a lock with its GET takes more than a round trip");
	/* An unlock whose end nobody notices is one, 20 s later. */
	check(after.reconnects == 0, "the connection was lost");
}

static int compare_times(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

int main(int argc, char **argv)
{
	double p50[KINDS];
	kvd_client *client;

	if (argc < 3 || argc > 4 || atoi(argv[2]) < 1) {
		fprintf(stderr, "usage: lockcost ADDR ROUNDS [BYTES]\n");
		return 2;
	}
	server = argv[1];
	unsigned rounds = (unsigned)atoi(argv[2]);
	if (argc > 3)
		bytes = (size_t)atoi(argv[3]) < sizeof value ? (size_t)atoi(argv[3]) : sizeof value;
	kvd_session *s = connect_to(&client);
	expect_result(s, kvd_put(s, key.data, key.bytes, value, bytes, NULL), KVD_OK, "put");
	char buffer[sizeof value];
	size_t got;
	expect_result(s, kvd_get(s, key.data, key.bytes, buffer, sizeof buffer, &got, NULL), KVD_OK,
		      "get"); /* the mirror learns where it is */
	for (int i = 0; i < KINDS; i++)
		if (!(times_ns[i] = calloc(rounds, sizeof **times_ns)))
			die("memory", strerror(errno));
	for (unsigned round = 0; round < rounds; round++)
		run_round(s, round);
	for (int i = 0; i < KINDS; i++) {
		qsort(times_ns[i], rounds, sizeof **times_ns, compare_times);
		p50[i] = (double)times_ns[i][rounds / 2] / 1e3;
		printf("%-45s p50 %7.2f us  p99 %8.2f us\n", names[i], p50[i],
		       (double)times_ns[i][rounds / 100 * 99] / 1e3);
		free(times_ns[i]);
	}
	count_requests(s);
	double ratio = p50[UPDATE] / (p50[CAS] + p50[MESSAGE]);
	printf("locked update: %.2f times compare-and-swap and message\n", ratio);
	hang_up(&s, &client);
	return ratio <= 3 ? 0 : 1;
}
