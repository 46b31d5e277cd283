/* SPDX-License-Identifier: BSD-2-Clause */
/* What becomes of a lock as its holder dies, hangs or idles, or kvd ends. */
#include "tests/torture/locks.h"

/* ------------------------------------------------------------------- killed */

static void holds(unsigned i)
{
	kvd_client *client;
	kvd_session *s = connect_to(&client);

	(void)i;
	lock_key(s);
	stage->step = 1;
	for (;;)
		pause();
}

static void waits(unsigned i)
{
	kvd_client *client;
	kvd_session *s = connect_to(&client);

	(void)i;
	await(&stage->step, 1, "the holder");
	stage->step = 2;
	kvd_lock_t *lock = lock_key(s);
	stage->at_ns = now_ns();
	expect_result(s, kvd_unlock(&lock), KVD_OK, "unlock");
	hang_up(&s, &client);
}

#define KILLED_MIN 10u /* rounds */
#define KILLED_MAX 100u
#define FREE_NS 100000000u

/* Its words are free within 100 ms, and go to who waits. */
void case_killed(void)
{
	uint64_t took_ns[KILLED_MAX];

	size = size > KILLED_MAX ? KILLED_MAX : size < KILLED_MIN ? KILLED_MIN : size;
	for (unsigned round = 0; round < size; round++) {
		stage->step = 0;
		pid_t holder = start_process(holds, 0), waiter = start_process(waits, 1);
		await(&stage->step, 2, "the waiter");
		rest_ms(20); /* it is in the queue by now */
		uint64_t killed_ns = now_ns();
		kill_process(holder);
		finish(&waiter, 1);
		took_ns[round] = stage->at_ns - killed_ns;
	}
	qsort(took_ns, size, sizeof *took_ns, compare_times);
	printf("killed: the waiter had the lock after %.1f ms (median), %.1f ms at the most\n",
	       (double)took_ns[size / 2] / 1e6, (double)took_ns[size - 1] / 1e6);
	/* The greatest tells of the machine's other work too: one in ten may. */
	check(took_ns[size / 2] <= FREE_NS, "it took longer than 100 ms");
	check(took_ns[size - 1 - size / 10] <= FREE_NS, "more than one in ten took longer than 100 ms");
}

/* ------------------------------------------------------------------ stopped */

/* Puts ever greater numbers, and tells which was the last that kvd acknowledged. */
static void puts_numbers(unsigned i)
{
	kvd_client *client;
	kvd_session *s = connect_to(&client);
	kvd_lock_t *lock = lock_key(s);
	int rc;

	(void)i;
	for (uint64_t n = 1;; n++) {
		rc = kvd_locked_put(lock, key.data, key.bytes, &n, sizeof n, NULL);
		if (rc != KVD_OK)
			break;
		stage->count[0] = n;
		stage->step = 1;
	}
	expect_result(s, rc, KVD_ELOST, "put of the fenced one");
	expect_result(s, kvd_locked_del(lock, key.data, key.bytes), KVD_ELOST, "delete");
	expect_result(s, kvd_unlock(&lock), KVD_ELOST, "unlock of the fenced one");
	/* It may have another. */
	lock = lock_key(s);
	expect_result(s, kvd_unlock(&lock), KVD_OK, "unlock of a new lock");
	hang_up(&s, &client);
}

static void takes_over(unsigned i)
{
	kvd_client *client;
	kvd_session *s = connect_to(&client);
	uint64_t before = 0, mine = 1ull << 60, after;
	size_t bytes;
	kvd_lock_t *lock;

	(void)i;
	await(&stage->step, 2, "the stop");
	expect_result(s, kvd_lock_get(s, key.data, key.bytes, -1, &before, sizeof before, &bytes, NULL,
				      &lock), KVD_OK, "lock");
	stage->at_ns = now_ns();
	stage->count[1] = before;
	expect_result(s, kvd_locked_put(lock, key.data, key.bytes, &mine, sizeof mine, NULL), KVD_OK,
		      "put");
	stage->step = 3;
	/* The other wakes up now, and sends what it likes. */
	for (unsigned n = 0; n < 100; n++, rest_ms(1)) {
		expect_result(s, kvd_locked_get(lock, key.data, key.bytes, &after, sizeof after, &bytes,
						NULL), KVD_OK, "get");
		check(after == mine, "a fenced client's change took effect");
	}
	expect_result(s, kvd_unlock(&lock), KVD_OK, "unlock");
	hang_up(&s, &client);
}

#define STOPS 5u
#define BEYOND_LEASE_MS 50u

/* The lease is `size` ms: who waits has the lock then and 50 ms later, in most rounds; a
 * machine with other work may be late in some. */
void case_stopped(void)
{
	uint64_t took_ns[STOPS];

	for (unsigned round = 0; round < STOPS; round++) {
		stage->step = 0;
		pid_t pid[2] = { start_process(puts_numbers, 0), start_process(takes_over, 1) };
		await(&stage->step, 1, "the holder");
		nanosleep(&(struct timespec){ .tv_nsec = rand() % 3000000 }, NULL);
		kill(pid[0], SIGSTOP);
		uint64_t stopped_ns = now_ns();
		stage->step = 2;
		await(&stage->step, 3, "who takes over");
		took_ns[round] = stage->at_ns - stopped_ns;
		kill(pid[0], SIGCONT);
		finish(pid, 2);
		printf("stopped: the next one had the lock after %.0f ms\n", (double)took_ns[round] / 1e6);
		check(took_ns[round] > 900000ull * size, "it was fenced before its lease was over");
		/* It learnt the fate of what was under way: exactly that was there. */
		check(stage->count[0] == stage->count[1], "the fenced one's last change");
	}
	qsort(took_ns, STOPS, sizeof *took_ns, compare_times);
	check(took_ns[STOPS / 2] <= (size + BEYOND_LEASE_MS) * 1000000ull,
	      "it was fenced more than 50 ms after its lease was over");
}

/* Changes that need no lock wait for a holder that hangs no longer than a lock does. */
static void changes_plainly(unsigned i)
{
	kvd_client *client;
	kvd_session *s = connect_to(&client);
	int rc;

	(void)i;
	await(&stage->step, 2, "the stop");
	uint64_t end = now_ns() + 10000000ull * size + 5000000000ull;
	do {
		rc = kvd_put(s, key.data, key.bytes, "plain", 5, NULL);
	} while (rc == KVD_EBUSY && now_ns() < end);
	expect_result(s, rc, KVD_OK, "a change, with the lock's holder stopped");
	hang_up(&s, &client);
}

void case_stopped_plain(void)
{
	pid_t pid[2] = { start_process(puts_numbers, 0), start_process(changes_plainly, 1) };

	await(&stage->step, 1, "the holder");
	kill(pid[0], SIGSTOP);
	stage->step = 2;
	bool ok = ended_well(pid[1]);
	kill(pid[0], SIGCONT);
	check(ok, "a hanging holder keeps changes away for ever");
	finish(pid, 1);
}

/* --------------------------------------------------------------------- idle */

/* Unlocks while another waits, and then does nothing: not even look. */
static void unlocks_and_idles(unsigned i)
{
	kvd_client *client;
	kvd_session *s = connect_with(&client, 300, 0);
	kvd_lock_t *lock = lock_key(s);
	uint64_t value = 0;

	(void)i;
	stage->step = 1;
	await(&stage->step, 2, "the waiter");
	rest_ms(20); /* it is in the queue by now */
	stage->other[0] = now_ns();
	expect_result(s, kvd_unlock(&lock), KVD_OK, "unlock");
	await(&stage->step, 3, "who waited");
	rest_ms(400); /* longer than any call may take */
	expect_result(s, kvd_put(s, key.data, key.bytes, &value, sizeof value, NULL), KVD_OK,
		      "put of who was idle");
	lock = lock_key(s);
	expect_result(s, kvd_unlock(&lock), KVD_OK, "unlock of who was idle");
	check(reconnects(s) == 0, "who was idle lost its connection");
	hang_up(&s, &client);
}

static void follows(unsigned i)
{
	waits(i);
	stage->step = 3;
}

void case_idle(void)
{
	pid_t pid[2] = { start_process(unlocks_and_idles, 0), start_process(follows, 1) };

	finish(pid, 2);
	double ms = (double)(stage->at_ns - stage->other[0]) / 1e6;
	printf("idle: the waiter had the lock after %.1f ms\n", ms);
	check(ms < 1000, "who unlocked and was idle kept others waiting");
}

/* ------------------------------------------------------------------ restart */

/* Holds a lock until a line comes, in which time kvd was started again. */
static void holds_over_restart(unsigned i)
{
	kvd_client *client;
	kvd_session *s = connect_to(&client);
	kvd_lock_t *lock = lock_key(s);
	char line[8], value[8];
	size_t bytes;

	(void)i;
	expect_result(s, kvd_locked_put(lock, key.data, key.bytes, "old", 3, NULL), KVD_OK, "put");
	puts("held");
	fflush(stdout);
	check(read(0, line, sizeof line) > 0, "no line on standard input");
	expect_result(s, kvd_locked_get(lock, key.data, key.bytes, value, sizeof value, &bytes, NULL),
		      KVD_ELOST, "get under a lost lock");
	expect_result(s, kvd_locked_put(lock, key.data, key.bytes, "new", 3, NULL), KVD_ELOST,
		      "put under a lost lock");
	expect_result(s, kvd_unlock(&lock), KVD_ELOST, "unlock of a lost lock");
	lock = lock_key(s);
	expect_result(s, kvd_locked_get(lock, key.data, key.bytes, value, sizeof value, &bytes, NULL),
		      KVD_NOT_FOUND, "get of what went with kvd");
	expect_result(s, kvd_unlock(&lock), KVD_OK, "unlock");
	hang_up(&s, &client);
}

void case_restart(void)
{
	pid_t pid = start_process(holds_over_restart, 0);

	finish(&pid, 1);
}
