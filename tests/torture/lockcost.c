/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lockcost ADDR ROUNDS [BYTES]
 *
 * What a lock costs where nobody else wants it, next to the verbs that it is made of:
 * each round does everything once, so that whatever disturbs disturbs all of it.
 * Fails if a lock with its GET takes more than one round trip in any round, or if an unlock
 * is waited for, which shows only where a request takes SLOW_US or longer: it is said there.
 * Status 3: a locked update takes more than three times a compare-and-swap and a message.
 */
#include "client/api/raw.h"
#include "tests/torture/kit.h"

const char *server;

#define SLOW_US 500.0
#define STATUS_SLOW 3

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

/* An atomic and a READ that are posted together, and nothing else. */
static void check_requests(const struct kvd_counters *before, const struct kvd_counters *after)
{
	check(after->atomics - before->atomics == 1 && after->reads - before->reads == 1 &&
		      after->messages == before->messages &&
		      after->round_trips - before->round_trips == 1,
	      "a lock with its GET takes more than a round trip");
}

static void run_round(kvd_session *s, unsigned round)
{
	struct kvd_counters before, after;
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
	kvd_session_counters(s, &before);
	start = since = now_ns();
	expect_result(s, kvd_lock_get(s, key.data, key.bytes, 0, buffer, sizeof buffer, &got, NULL,
				      &lock), KVD_OK, "lock and get");
	note(LOCK_GET, round, &since);
	kvd_session_counters(s, &after);
	check_requests(&before, &after);
	expect_result(s, kvd_locked_put(lock, key.data, key.bytes, value, bytes, NULL), KVD_OK,
		      "put under the lock");
	since = now_ns();
	expect_result(s, kvd_unlock(&lock), KVD_OK, "unlock");
	note(UNLOCK, round, &since);
	note(UPDATE, round, &start);
}

static bool is_unlock_waited_for(const double *p50)
{
	if (p50[CAS] < SLOW_US)
		return false;
	printf("unlock: %.0f us, where its request takes %.0f\n", p50[UNLOCK], p50[CAS]);
	return p50[UNLOCK] > p50[CAS] / 2;
}

static void show(unsigned rounds, double *p50)
{
	for (int i = 0; i < KINDS; i++) {
		qsort(times_ns[i], rounds, sizeof **times_ns, compare_times);
		p50[i] = (double)times_ns[i][rounds / 2] / 1e3;
		printf("%-45s p50 %7.2f us  p99 %8.2f us\n", names[i], p50[i],
		       (double)times_ns[i][rounds / 100 * 99] / 1e3);
		free(times_ns[i]);
	}
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
	show(rounds, p50);
	struct kvd_counters c;
	kvd_session_counters(s, &c);
	/* An unlock whose end nobody notices is one, 20 s later. */
	check(c.reconnects == 0, "the connection was lost");
	check(!is_unlock_waited_for(p50), "an unlock is waited for");
	double ratio = p50[UPDATE] / (p50[CAS] + p50[MESSAGE]);
	printf("locked update: %.2f times compare-and-swap and message\n", ratio);
	hang_up(&s, &client);
	return ratio <= 3 ? 0 : STATUS_SLOW;
}
