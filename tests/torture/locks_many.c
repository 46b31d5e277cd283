/* SPDX-License-Identifier: BSD-2-Clause */
/* Many clients at the same keys: each has its turn, two are never in, and all or nothing. */
#include <sched.h>

#include "tests/torture/locks.h"

#define KEYS 20
#define TURNS_MIN 20u   /* of each client */
#define CHANGES_MIN 50u /* of each client */

/* --------------------------------------------------------------------- fair */

static void locks_and_unlocks(unsigned i)
{
	kvd_client *client;
	kvd_session *s = connect_to(&client);
	char value[8];
	size_t bytes;
	kvd_lock_t *lock;

	__atomic_fetch_add(&stage->step, 1, __ATOMIC_SEQ_CST);
	await(&stage->step, LOCKS_PROCESSES_MAX, "the start");
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
void case_fair(void)
{
	enum { CLIENTS = 8 };
	pid_t pid[CLIENTS];
	uint64_t least = UINT64_MAX, most = 0;

	for (unsigned i = 0; i < CLIENTS; i++)
		pid[i] = start_process(locks_and_unlocks, i);
	await(&stage->step, CLIENTS, "the clients");
	stage->step = LOCKS_PROCESSES_MAX;
	rest_until_done(100 * size, stage->count, CLIENTS, TURNS_MIN);
	stage->stop = true;
	finish(pid, CLIENTS);
	for (unsigned i = 0; i < CLIENTS; i++) {
		least = stage->count[i] < least ? stage->count[i] : least;
		most = stage->count[i] > most ? stage->count[i] : most;
	}
	printf("fair: the slowest of 8 got the lock %llu times, the fastest %llu\n",
	       (unsigned long long)least, (unsigned long long)most);
	reached("locks of the slowest client", least, TURNS_MIN);
	check(4 * least >= most, "the slowest got less than a quarter");
}

/* -------------------------------------------------------------------- turns */

static void puts_plainly(unsigned i)
{
	kvd_client *client;
	kvd_session *s = connect_to(&client);

	await(&stage->step, LOCKS_PROCESSES_MAX, "the start");
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
void case_turns(void)
{
	enum { CLIENTS = 6 };
	pid_t pid[CLIENTS + 1];

	for (unsigned i = 0; i < CLIENTS; i++)
		pid[i] = start_process(locks_and_unlocks, i);
	pid[CLIENTS] = start_process(puts_plainly, CLIENTS);
	await(&stage->step, CLIENTS, "the clients");
	stage->step = LOCKS_PROCESSES_MAX;
	rest_until_done(100 * size, stage->count, CLIENTS, TURNS_MIN);
	stage->stop = true;
	finish(pid, CLIENTS + 1);
	printf("turns: %llu changes among %llu locks of each other client, the slowest took %.0f ms\n",
	       (unsigned long long)stage->count[CLIENTS], (unsigned long long)stage->count[0],
	       (double)stage->other[CLIENTS] / 1e6);
	for (unsigned i = 0; i < CLIENTS; i++)
		reached("locks of a client", stage->count[i], TURNS_MIN);
	check(stage->count[CLIENTS] > 2 * size, "changes don't have their turn");
}

/* ---------------------------------------------------------------- exclusion */

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
void case_exclusion(void)
{
	enum { LOCKERS = 3, OTHERS = 3 };
	pid_t pid[LOCKERS + OTHERS];

	for (unsigned i = 0; i < LOCKERS + OTHERS; i++)
		pid[i] = start_process(i < LOCKERS ? changes_locked : changes_unlocked, i);
	rest_until_done(100 * size, stage->count, LOCKERS + OTHERS, CHANGES_MIN);
	stage->stop = true;
	finish(pid, LOCKERS + OTHERS);
	for (unsigned i = 0; i < LOCKERS + OTHERS; i++) {
		printf("exclusion: %s client: %llu changes, %llu times busy\n",
		       i < LOCKERS ? "locking" : "plain", (unsigned long long)stage->count[i],
		       (unsigned long long)stage->other[i]);
		reached("changes of a client", stage->count[i], CHANGES_MIN);
	}
}

/* --------------------------------------------------------------------- many */

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
void case_many(void)
{
	enum { CLIENTS = 6 };
	pid_t pid[CLIENTS];

	for (unsigned i = 0; i < CLIENTS; i++)
		pid[i] = start_process(locks_many, i);
	finish(pid, CLIENTS);
	pid[0] = start_process(sums_up, 0);
	finish(pid, 1);
}
