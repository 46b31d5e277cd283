/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * locks ADDR CASE [SIZE]
 *
 * Locks among processes that keep them, lose them, wait for them and leave them
 * alone, one case at a time.  Exits with 0 if all was as <kvd.h> says.
 */
#include <sched.h>

#include "tests/torture/kit.h"

#define PROCESSES_MAX 16
#define KEYS 20

/* What the processes of a case share. */
static struct stage {
	volatile unsigned step; /* how far the case is */
	volatile bool stop;
	volatile uint64_t at_ns;
	volatile uint64_t count[PROCESSES_MAX];
	volatile uint64_t other[PROCESSES_MAX];
} *stage;

static unsigned size; /* of the case */

static const struct kvd_key key = { "the key", 7 };

static kvd_lock_t *lock_key(kvd_session *s)
{
	kvd_lock_t *lock;

	expect_result(s, kvd_lock(s, &key, 1, -1, &lock), KVD_OK, "lock");
	return lock;
}

static void finish(pid_t *pid, unsigned count)
{
	bool ok = true;

	for (unsigned i = 0; i < count; i++)
		ok &= ended_well(pid[i]);
	check(ok, "a process failed");
}

static uint64_t reconnects(kvd_session *s)
{
	struct kvd_counters c;

	kvd_session_counters(s, &c);
	return c.reconnects;
}

static int compare_times(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* -------------------------------------------------------------------- fair */

static void locks_and_unlocks(unsigned i)
{
	kvd_client *client;
	kvd_session *s = connect_to(&client);
	char value[8];
	size_t bytes;
	kvd_lock_t *lock;

	__atomic_fetch_add(&stage->step, 1, __ATOMIC_SEQ_CST);
	await(&stage->step, PROCESSES_MAX, "the start");
	while (!stage->stop) {
		int rc = kvd_lock_get(s, key.data, key.bytes, -1, value, sizeof value, &bytes, NULL,
				      &lock);
		if (rc != KVD_OK && rc != KVD_NOT_FOUND)
			expect_result(s, rc, KVD_OK, "lock");
		expect_result(s, kvd_locked_put(lock, key.data, key.bytes, &i, sizeof i, NULL), KVD_OK,
			      "put");
		expect_result(s, kvd_unlock(&lock), KVD_OK, "unlock");
		stage->count[i]++;
	}
	hang_up(&s, &client);
}

/* 8 clients on one key for `size` tenths of a second. */
static void case_fair(void)
{
	enum { CLIENTS = 8 };
	pid_t pid[CLIENTS];
	uint64_t least = UINT64_MAX, most = 0;

	for (unsigned i = 0; i < CLIENTS; i++)
		pid[i] = start_process(locks_and_unlocks, i);
	await(&stage->step, CLIENTS, "the clients");
	stage->step = PROCESSES_MAX;
	rest_ms(100 * size);
	stage->stop = true;
	finish(pid, CLIENTS);
	for (unsigned i = 0; i < CLIENTS; i++) {
		least = stage->count[i] < least ? stage->count[i] : least;
		most = stage->count[i] > most ? stage->count[i] : most;
	}
	printf("fair: the slowest of 8 got the lock %llu times, the fastest %llu\n",
	       (unsigned long long)least, (unsigned long long)most);
	check(least > 0 && 4 * least >= most, "the slowest got less than a quarter");
}

/* ------------------------------------------------------------------- turns */

static void puts_plainly(unsigned i)
{
	kvd_client *client;
	kvd_session *s = connect_to(&client);

	await(&stage->step, PROCESSES_MAX, "the start");
	while (!stage->stop) {
		uint64_t start = now_ns();
		expect_result(s, kvd_put(s, key.data, key.bytes, "plain", 5, NULL), KVD_OK,
			      "a change among locks");
		uint64_t took = now_ns() - start;
		stage->other[i] = took > stage->other[i] ? took : stage->other[i];
		stage->count[i]++;
	}
	hang_up(&s, &client);
}

/* A change without a lock has its turn, though there is always one who waits for it. */
static void case_turns(void)
{
	enum { CLIENTS = 6 };
	pid_t pid[CLIENTS + 1];

	for (unsigned i = 0; i < CLIENTS; i++)
		pid[i] = start_process(locks_and_unlocks, i);
	pid[CLIENTS] = start_process(puts_plainly, CLIENTS);
	await(&stage->step, CLIENTS, "the clients");
	stage->step = PROCESSES_MAX;
	rest_ms(100 * size);
	stage->stop = true;
	finish(pid, CLIENTS + 1);
	printf("turns: %llu changes among %llu locks of each other client, the slowest took %.0f ms\n",
	       (unsigned long long)stage->count[CLIENTS], (unsigned long long)stage->count[0],
	       (double)stage->other[CLIENTS] / 1e6);
	check(stage->count[CLIENTS] > 2 * size, "changes don't have their turn");
}

/* ------------------------------------------------------------------ killed */

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

/* Its words are free within 100 ms, and go to who waits. */
static void case_killed(void)
{
	uint64_t took_ns[100];

	size = size > 100 ? 100 : size;
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
	/* The greatest tells of the machine's other work too. */
	check(took_ns[size / 2] < 100000000, "it took longer than 100 ms");
}

/* ----------------------------------------------------------------- stopped */

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

/* The lease is `size` ms. */
static void case_stopped(void)
{
	for (unsigned round = 0; round < 5; round++) {
		stage->step = 0;
		pid_t pid[2] = { start_process(puts_numbers, 0), start_process(takes_over, 1) };
		await(&stage->step, 1, "the holder");
		nanosleep(&(struct timespec){ .tv_nsec = rand() % 3000000 }, NULL);
		kill(pid[0], SIGSTOP);
		uint64_t stopped_ns = now_ns();
		stage->step = 2;
		await(&stage->step, 3, "who takes over");
		double ms = (double)(stage->at_ns - stopped_ns) / 1e6;
		kill(pid[0], SIGCONT);
		finish(pid, 2);
		printf("stopped: the next one had the lock after %.0f ms\n", ms);
		check(ms > 0.9 * size, "it was fenced before its lease was over");
		check(ms < 2.0 * size + 200, "it was fenced long after its lease was over");
		/* It learnt the fate of what was under way: exactly that was there. */
		check(stage->count[0] == stage->count[1], "the fenced one's last change");
	}
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

static void case_stopped_plain(void)
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

/* -------------------------------------------------------------------- idle */

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

static void case_idle(void)
{
	pid_t pid[2] = { start_process(unlocks_and_idles, 0), start_process(follows, 1) };

	finish(pid, 2);
	double ms = (double)(stage->at_ns - stage->other[0]) / 1e6;
	printf("idle: the waiter had the lock after %.1f ms\n", ms);
	check(ms < 1000, "who unlocked and was idle kept others waiting");
}

/* --------------------------------------------------------------- exclusion */

/* Keys of few stripes, present and absent in turn, short and long. */
static size_t key_name(char *name, unsigned i)
{
	return (size_t)sprintf(name, "key %u", i % 3);
}

static size_t random_value(char *value, size_t room)
{
	size_t bytes = (size_t)rand() % 3 ? 20 + (size_t)rand() % 50 : (size_t)rand() % room;

	memset(value, 'a' + rand() % 26, bytes);
	return bytes;
}

/* What a lock's holder finds: 0 if there is nothing. */
static uint64_t version_of(kvd_session *s, kvd_lock_t *lock, const char *name, size_t name_bytes)
{
	char value[6000];
	uint64_t version = 0;
	size_t bytes;
	int rc = kvd_locked_get(lock, name, name_bytes, value, sizeof value, &bytes, &version);

	if (rc != KVD_OK && rc != KVD_NOT_FOUND)
		expect_result(s, rc, KVD_OK, "get under the lock");
	for (size_t i = 1; rc == KVD_OK && i < bytes; i++)
		check(value[i] == value[0], "a value of two");
	return rc == KVD_OK ? version : 0;
}

static void look_for_changes(kvd_session *s, kvd_lock_t *lock, const char *name, size_t n,
			     uint64_t version)
{
	/* At times for as long as it takes a worker to go on that was just interrupted. */
	bool patient = rand() % 8 == 0;

	for (int looks = patient ? 30 : rand() % 4; looks > 0; looks--) {
		check(version_of(s, lock, name, n) == version,
		      "somebody's change took effect under the lock");
		if (patient)
			sched_yield();
	}
}

/* One that carries the lock's token: it takes effect, and nothing but it. */
static void change_locked(kvd_session *s, kvd_lock_t *lock, const char *name, size_t n,
			  uint64_t *version)
{
	char value[6000];
	size_t bytes = random_value(value, sizeof value);
	bool deletes = rand() % 2;
	int rc = deletes ? kvd_locked_del(lock, name, n)
			 : kvd_locked_put(lock, name, n, value, bytes, version);

	if (rc == KVD_NOT_FOUND)
		check(deletes && *version == 0, "the key vanished under the lock");
	else if (rc != KVD_EBUSY) /* then nothing was done */
		expect_result(s, rc, KVD_OK, "change under the lock");
	if (rc == KVD_OK && deletes)
		*version = 0;
	check(version_of(s, lock, name, n) == *version, "another version under the lock");
}

static void changes_locked(unsigned i)
{
	char name[16], value[6000];
	kvd_client *client;
	kvd_session *s = connect_to(&client);
	uint64_t version;
	size_t bytes;

	srand(i);
	while (!stage->stop) {
		size_t n = key_name(name, (unsigned)rand());
		kvd_lock_t *lock;
		version = 0;
		int rc = kvd_lock_get(s, name, n, -1, value, sizeof value, &bytes, &version, &lock);
		if (rc == KVD_NOT_FOUND)
			version = 0;
		else
			expect_result(s, rc, KVD_OK, "lock and get");
		look_for_changes(s, lock, name, n, version);
		for (int changes = rand() % 3; changes > 0; changes--) {
			change_locked(s, lock, name, n, &version);
			look_for_changes(s, lock, name, n, version);
		}
		expect_result(s, kvd_unlock(&lock), KVD_OK, "unlock");
		stage->count[i]++;
	}
	hang_up(&s, &client);
}

static int change_in_a_txn(kvd_session *s, const char *value, size_t bytes)
{
	char name[16];
	kvd_txn_t *txn;

	expect_result(s, kvd_txn_new(s, &txn), KVD_OK, "transaction");
	for (unsigned k = 0; k < 2; k++) {
		size_t n = key_name(name, (unsigned)rand());
		if (rand() % 3)
			kvd_txn_put(txn, name, n, value, bytes);
		else
			kvd_txn_del(txn, name, n);
	}
	return kvd_txn_commit(&txn, NULL);
}

static void changes_unlocked(unsigned i)
{
	char name[16], value[3000];
	kvd_client *client;
	kvd_session *s = connect_to(&client);

	srand(i);
	while (!stage->stop) {
		size_t n = key_name(name, (unsigned)rand()), bytes = random_value(value, sizeof value);
		int rc, how = rand() % 5;
		if (how == 0)
			rc = change_in_a_txn(s, value, bytes);
		else if (how < 3)
			rc = kvd_put(s, name, n, value, bytes, NULL);
		else
			rc = kvd_del(s, name, n);
		if (rc == KVD_OK || rc == KVD_NOT_FOUND)
			stage->count[i]++;
		else if (rc == KVD_EBUSY)
			stage->other[i]++;
		else
			expect_result(s, rc, KVD_OK, "plain change");
	}
	hang_up(&s, &client);
}

/* Lock holders and others change the same keys, for `size` tenths of a second. */
static void case_exclusion(void)
{
	enum { LOCKERS = 3, OTHERS = 3 };
	pid_t pid[LOCKERS + OTHERS];

	for (unsigned i = 0; i < LOCKERS + OTHERS; i++)
		pid[i] = start_process(i < LOCKERS ? changes_locked : changes_unlocked, i);
	rest_while_running(100 * size);
	stage->stop = true;
	finish(pid, LOCKERS + OTHERS);
	for (unsigned i = 0; i < LOCKERS + OTHERS; i++) {
		printf("exclusion: %s client: %llu changes, %llu times busy\n",
		       i < LOCKERS ? "locking" : "plain", (unsigned long long)stage->count[i],
		       (unsigned long long)stage->other[i]);
		check(stage->count[i] > 0, "a client got nothing done");
	}
}

/* --------------------------------------------------------------------- try */

static void tries(unsigned i)
{
	kvd_client *client;
	kvd_session *s = connect_to(&client);
	static const int waits_ms[] = { 0, 1, 50, 300 };
	kvd_lock_t *lock;

	(void)i;
	await(&stage->step, 1, "the holder");
	for (unsigned t = 0; t < sizeof waits_ms / sizeof *waits_ms; t++) {
		uint64_t start = now_ns();
		expect_result(s, kvd_lock(s, &key, 1, waits_ms[t], &lock), KVD_EBUSY, "try");
		double ms = (double)(now_ns() - start) / 1e6;
		check(!lock, "a lock that was not got");
		check(ms >= waits_ms[t], "it did not wait as long as it was told to");
		check(ms < waits_ms[t] + 1000, "it waited longer than it was told to");
	}
	stage->step = 2;
	await(&stage->step, 3, "the unlock");
	for (uint64_t end = now_ns() + PATIENCE_NS; kvd_lock(s, &key, 1, 0, &lock) == KVD_EBUSY;)
		check(now_ns() < end, "a free lock is not to be had");
	check(lock != NULL, "a free lock is not to be had");
	expect_result(s, kvd_unlock(&lock), KVD_OK, "unlock");
	check(reconnects(s) == 0, "a try cost the connection");
	hang_up(&s, &client);
}

static void lets_try(unsigned i)
{
	kvd_client *client;
	kvd_session *s = connect_to(&client);
	kvd_lock_t *lock = lock_key(s);
	char value[1];
	size_t bytes;

	(void)i;
	stage->step = 1;
	await(&stage->step, 2, "the tries");
	expect_result(s, kvd_unlock(&lock), KVD_OK, "unlock");
	/* It looked at the lock's completion, unlike the one who idles. */
	expect_result(s, kvd_get(s, "none", 4, value, 1, &bytes, NULL), KVD_NOT_FOUND, "get");
	stage->step = 3;
	hang_up(&s, &client);
}

static void misuses(unsigned i)
{
	kvd_client *client;
	kvd_session *s = connect_to(&client);
	struct kvd_key keys[KVD_LOCK_KEYS_MAX + 1];
	kvd_lock_t *lock, *second = NULL;

	(void)i;
	for (unsigned k = 0; k <= KVD_LOCK_KEYS_MAX; k++)
		keys[k] = (struct kvd_key){ "same", 4 };
	expect_result(s, kvd_unlock(&second), KVD_OK, "unlock of nothing");
	expect_result(s, kvd_lock(s, keys, 0, -1, &lock), KVD_EINVAL, "no key");
	expect_result(s, kvd_lock(s, keys, KVD_LOCK_KEYS_MAX + 1, -1, &lock), KVD_EINVAL, "17 keys");
	keys[1].bytes = 0;
	expect_result(s, kvd_lock(s, keys, 2, -1, &lock), KVD_EINVAL, "an empty key");
	keys[1].bytes = 4;
	expect_result(s, kvd_lock(s, keys, KVD_LOCK_KEYS_MAX, -1, &lock), KVD_OK, "one key 16 times");
	expect_result(s, kvd_lock(s, keys, 1, -1, &second), KVD_EINVAL, "a lock that it has");
	check(!second, "a second lock of the same key");
	expect_result(s, kvd_locked_put(lock, "other", 5, "v", 1, NULL), KVD_EINVAL,
		      "a key that is not locked");
	expect_result(s, kvd_locked_put(lock, "same", 4, "v", 1, NULL), KVD_OK, "put");
	expect_result(s, kvd_unlock(&lock), KVD_OK, "unlock");
	check(!lock, "a handle that is left");
	hang_up(&s, &client);
}

static void case_try(void)
{
	pid_t pid[3] = { start_process(lets_try, 0), start_process(tries, 1),
			 start_process(misuses, 2) };

	finish(pid, 3);
}

/* ---------------------------------------------------------------- deadlock */

static void set_number(kvd_session *s, kvd_lock_t *lock, const struct kvd_key *k, int64_t n)
{
	expect_result(s, kvd_locked_put(lock, k->data, k->bytes, &n, sizeof n, NULL), KVD_OK, "put");
}

static int64_t get_number(kvd_session *s, kvd_lock_t *lock, const struct kvd_key *k)
{
	int64_t n = 0;
	size_t bytes;
	int rc = kvd_locked_get(lock, k->data, k->bytes, &n, sizeof n, &bytes, NULL);

	if (rc != KVD_NOT_FOUND)
		expect_result(s, rc, KVD_OK, "get");
	return n;
}

/* Moves one from the first of some random keys to the last. */
static void locks_many(unsigned i)
{
	char names[KEYS][8];
	struct kvd_key keys[KVD_LOCK_KEYS_MAX];
	kvd_client *client;
	kvd_session *s = connect_with(&client, 0, i % 2 ? 0 : 2);
	kvd_lock_t *lock;

	srand(i);
	for (unsigned k = 0; k < KEYS; k++)
		snprintf(names[k], sizeof names[k], "n%u", k);
	for (unsigned n = 0; n < size; n++) {
		unsigned count = 1 + (unsigned)rand() % KVD_LOCK_KEYS_MAX;
		for (unsigned k = 0; k < count; k++) {
			const char *name = names[rand() % KEYS];
			keys[k] = (struct kvd_key){ name, strlen(name) };
		}
		expect_result(s, kvd_lock(s, keys, count, -1, &lock), KVD_OK, "lock");
		set_number(s, lock, &keys[0], get_number(s, lock, &keys[0]) - 1);
		set_number(s, lock, &keys[count - 1], get_number(s, lock, &keys[count - 1]) + 1);
		expect_result(s, kvd_unlock(&lock), KVD_OK, "unlock");
	}
	hang_up(&s, &client);
}

static void sums_up(unsigned i)
{
	kvd_client *client;
	kvd_session *s = connect_to(&client);
	int64_t sum = 0, n;

	(void)i;
	for (unsigned k = 0; k < KEYS; k++) {
		char name[8];
		size_t bytes;
		int rc = kvd_get(s, name, (size_t)snprintf(name, sizeof name, "n%u", k), &n, sizeof n,
				 &bytes, NULL);
		if (rc == KVD_OK)
			sum += n;
	}
	check(sum == 0, "a change was lost");
	hang_up(&s, &client);
}

/* `size` locks each, of up to 16 keys in any order. */
static void case_many(void)
{
	enum { CLIENTS = 6 };
	pid_t pid[CLIENTS];

	for (unsigned i = 0; i < CLIENTS; i++)
		pid[i] = start_process(locks_many, i);
	finish(pid, CLIENTS);
	pid[0] = start_process(sums_up, 0);
	finish(pid, 1);
}

/* ------------------------------------------------------------------- depth */

/* Locks, unlocks that nobody waited for, and other requests, at every small depth. */
static void uses_depth(unsigned depth)
{
	kvd_client *client;
	kvd_session *s = connect_with(&client, 0, (int)depth);
	char names[KVD_LOCK_KEYS_MAX][8], value[8];
	struct kvd_key keys[KVD_LOCK_KEYS_MAX];
	kvd_lock_t *lock;
	size_t bytes;

	for (unsigned k = 0; k < KVD_LOCK_KEYS_MAX; k++)
		keys[k] = (struct kvd_key){ names[k], (size_t)sprintf(names[k], "d%u", k) };
	for (unsigned n = 0; n < 50; n++) {
		expect_result(s, kvd_lock_get(s, "d", 1, -1, value, sizeof value, &bytes, NULL, &lock),
			      n ? KVD_OK : KVD_NOT_FOUND, "lock and get");
		expect_result(s, kvd_locked_put(lock, "d", 1, "v", 1, NULL), KVD_OK, "put");
		expect_result(s, kvd_unlock(&lock), KVD_OK, "unlock");
		expect_result(s, kvd_lock(s, keys, 1 + n % KVD_LOCK_KEYS_MAX, -1, &lock), KVD_OK,
			      "lock");
		expect_result(s, kvd_unlock(&lock), KVD_OK, "unlock");
		expect_result(s, kvd_get(s, "d", 1, value, sizeof value, &bytes, NULL), KVD_OK, "get");
	}
	expect_result(s, kvd_del(s, "d", 1), KVD_OK, "delete");
	hang_up(&s, &client);
}

/* An unlock between submitted operations whose completions nobody took yet. */
static void submits_between(unsigned depth)
{
	struct kvd_completion done[8];
	kvd_client *client;
	kvd_session *s = connect_with(&client, 0, (int)depth);
	kvd_lock_t *lock = lock_key(s);
	unsigned submitted = 0, taken = 0;
	char value[8];

	for (unsigned i = 0; i < 2 * depth; i++) {
		int rc = kvd_submit_get(s, "none", 4, value, sizeof value, &value);
		submitted += rc == KVD_OK;
		check(rc == KVD_OK || rc == KVD_EBUSY, "submit");
	}
	expect_result(s, kvd_unlock(&lock), KVD_OK, "unlock");
	while (taken < submitted) {
		int n = kvd_poll(s, done, 8, -1);
		check(n > 0, "a completion is missing");
		for (int i = 0; i < n; i++)
			expect_result(s, done[i].result, KVD_NOT_FOUND, "get");
		taken += (unsigned)n;
	}
	lock = lock_key(s);
	expect_result(s, kvd_unlock(&lock), KVD_OK, "unlock");
	hang_up(&s, &client);
}

static void case_depth(void)
{
	static const unsigned depths[] = { 1, 2, 3, 16, 17, 32 };
	bool ok = true;

	for (unsigned i = 0; i < sizeof depths / sizeof *depths; i++) {
		ok &= ended_well(start_process(uses_depth, depths[i]));
		ok &= ended_well(start_process(submits_between, depths[i]));
	}
	check(ok, "a process failed");
}

/* ----------------------------------------------------------------- restart */

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

static void case_restart(void)
{
	pid_t pid = start_process(holds_over_restart, 0);

	finish(&pid, 1);
}

/* -------------------------------------------------------------------- main */

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{ "fair", case_fair },
	{ "turns", case_turns },
	{ "killed", case_killed },
	{ "stopped", case_stopped },
	{ "stopped_plain", case_stopped_plain },
	{ "idle", case_idle },
	{ "exclusion", case_exclusion },
	{ "try", case_try },
	{ "many", case_many },
	{ "depth", case_depth },
	{ "restart", case_restart },
};

int main(int argc, char **argv)
{
	if (argc < 3) {
		fprintf(stderr, "usage: locks ADDR CASE [SIZE]\n");
		return 2;
	}
	server = argv[1];
	size = argc > 3 ? (unsigned)atoi(argv[3]) : 1;
	stage = shared_new(sizeof *stage);
	for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
		if (strcmp(cases[i].name, argv[2]) != 0)
			continue;
		cases[i].run();
		return 0;
	}
	fprintf(stderr, "locks: no case %s\n", argv[2]);
	return 2;
}
