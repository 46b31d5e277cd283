/* SPDX-License-Identifier: BSD-2-Clause */
/* The calls of locks: tries, what is no lock, and every small depth. */
#include "tests/torture/locks.h"

/* ---------------------------------------------------------------------- try */

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

void case_try(void)
{
	pid_t pid[3] = { start_process(lets_try, 0), start_process(tries, 1),
			 start_process(misuses, 2) };

	finish(pid, 3);
}

/* -------------------------------------------------------------------- depth */

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

void case_depth(void)
{
	static const unsigned depths[] = { 1, 2, 3, 16, 17, 32 };
	bool ok = true;

	for (unsigned i = 0; i < sizeof depths / sizeof *depths; i++) {
		ok &= ended_well(start_process(uses_depth, depths[i]));
		ok &= ended_well(start_process(submits_between, depths[i]));
	}
	check(ok, "a process failed");
}
