/* SPDX-License-Identifier: BSD-2-Clause */
/* The transactions and locks of <kvd.h>: what each call asks of kvd, what it makes of an answer, and
 * what it refuses without asking. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "tests/unit/client/one_answer.h"

/* ------------------------------------------------------------------- transactions */

static void test_txn(void **state)
{
	struct wire_txn w[2];
	uint64_t version = 0;
	uint8_t value[8];
	size_t bytes = 0;
	kvd_txn_t *t;

	(void)state;
	answer.version = 21;
	assert_int_equal(kvd_txn_new(s, &t), KVD_OK);
	assert_int_equal(kvd_txn_get(t, "a", 1, value, sizeof value, &bytes), KVD_NOT_FOUND);
	assert_int_equal(kvd_txn_put(t, "bb", 2, "xyz", 3), KVD_OK);
	/* It sees what it writes itself. */
	assert_int_equal(kvd_txn_get(t, "bb", 2, value, 2, &bytes), KVD_ESPACE);
	assert_int_equal(kvd_txn_get(t, "bb", 2, value, sizeof value, &bytes), KVD_OK);
	assert_int_equal(bytes, 3);
	assert_memory_equal(value, "xyz", 3);
	assert_int_equal(kvd_txn_del(t, "bb", 2), KVD_OK);
	assert_int_equal(kvd_txn_get(t, "bb", 2, value, sizeof value, &bytes), KVD_NOT_FOUND);
	assert_int_equal(end->messages, 0);
	assert_int_equal(kvd_txn_commit(&t, &version), KVD_OK);
	assert_null(t);
	assert_int_equal(version, 21);
	assert_int_equal(end->asked.op, WIRE_TXN);
	assert_int_equal(end->asked.version, 2);
	memcpy(&w[0], end->behind, sizeof w[0]);
	memcpy(&w[1], end->behind + sizeof w[0] + 1, sizeof w[1]);
	assert_int_equal(w[0].kind, WIRE_TXN_CHECK);
	assert_int_equal(w[0].version, WIRE_TXN_ABSENT);
	assert_int_equal(w[1].kind, WIRE_TXN_DELETE);
	assert_int_equal(w[1].version, WIRE_TXN_ANY);
	assert_int_equal(w[1].value_bytes, 0);
	assert_memory_equal(end->behind + 2 * sizeof w[0] + 1, "bb", 2);
}

static void test_txn_that_only_reads(void **state)
{
	uint8_t value[8];
	size_t bytes;
	kvd_txn_t *t;

	(void)state;
	assert_int_equal(kvd_txn_new(s, &t), KVD_OK);
	assert_int_equal(kvd_txn_get(t, "a", 1, value, sizeof value, &bytes), KVD_NOT_FOUND);
	assert_int_equal(kvd_txn_commit(&t, NULL), KVD_OK);
	assert_int_equal(end->messages, 0);
	/* Two that are absent can have come and gone in turn: kvd says so. */
	assert_int_equal(kvd_txn_new(s, &t), KVD_OK);
	assert_int_equal(kvd_txn_get(t, "a", 1, value, sizeof value, &bytes), KVD_NOT_FOUND);
	assert_int_equal(kvd_txn_get(t, "b", 1, value, sizeof value, &bytes), KVD_NOT_FOUND);
	answer.status = WIRE_CONDITION;
	assert_int_equal(kvd_txn_commit(&t, NULL), KVD_CONDITION);
	assert_int_equal(end->messages, 1);
}

static void test_txn_has_limits(void **state)
{
	static const uint8_t much[KVD_TXN_BYTES_MAX];
	char key[16];
	kvd_txn_t *t;

	(void)state;
	assert_int_equal(kvd_txn_new(s, &t), KVD_OK);
	assert_int_equal(kvd_txn_put(t, "", 0, "v", 1), KVD_EINVAL);
	assert_int_equal(kvd_txn_put(t, "a", 1, much, sizeof much), KVD_ETOOBIG);
	must_say("a transaction with changes has");
	assert_int_equal(kvd_txn_put(t, "a", 1, much, 100), KVD_OK);
	for (unsigned i = 0; i < KVD_TXN_KEYS_MAX; i++) {
		snprintf(key, sizeof key, "k%u", i);
		assert_int_equal(kvd_txn_del(t, key, strlen(key)), KVD_OK);
	}
	assert_int_equal(kvd_txn_commit(&t, NULL), KVD_ETOOBIG);
	assert_null(t);
	assert_int_equal(end->messages, 0);
	kvd_txn_delete(&t);
}

/* All of them to the last byte and key go through; one byte more, and nothing is sent. */
static void test_txn_that_is_full(void **state)
{
	static const size_t most = KVD_TXN_BYTES_MAX - sizeof(struct wire_txn) - 1;
	static uint8_t much[KVD_TXN_BYTES_MAX];
	uint8_t value[8];
	size_t bytes;
	char key[16];
	kvd_txn_t *t;

	(void)state;
	assert_int_equal(kvd_txn_new(s, &t), KVD_OK);
	assert_int_equal(kvd_txn_put(t, "a", 1, much, most + 1), KVD_ETOOBIG);
	assert_int_equal(kvd_txn_put(t, "a", 1, much, most), KVD_OK);
	assert_int_equal(kvd_txn_put(t, "a", 1, much, most), KVD_OK); /* in the place of the first */
	assert_int_equal(kvd_txn_commit(&t, NULL), KVD_OK);
	assert_int_equal(end->messages, 1);
	assert_int_equal(kvd_txn_new(s, &t), KVD_OK);
	for (unsigned i = 0; i < KVD_TXN_KEYS_MAX; i++) {
		snprintf(key, sizeof key, "k%u", i);
		assert_int_equal(kvd_txn_put(t, key, strlen(key), "vw", 2), KVD_OK);
	}
	assert_int_equal(kvd_txn_get(t, key, strlen(key), value, 2, &bytes), KVD_OK); /* there is just room */
	assert_int_equal(bytes, 2);
	assert_int_equal(kvd_txn_commit(&t, NULL), KVD_OK);
	assert_int_equal(end->messages, 2);
	assert_int_equal(end->asked.version, KVD_TXN_KEYS_MAX);
	/* The time of a call is over with it: the next one has its own. */
	assert_int_equal(e->time.end_ns, 0);
	assert_int_equal(kvd_put(s, KEY, "v", 1, NULL), KVD_OK);
	assert_int_equal(e->time.end_ns, 0);
}

/* It reads more than it may change, but not without end. */
static void test_txn_that_reads_all(void **state)
{
	kvd_txn_t *t;
	char key[16], value;
	size_t bytes;

	(void)state;
	assert_int_equal(kvd_txn_new(s, &t), KVD_OK);
	for (unsigned i = 0; i <= KVD_TXN_READS_MAX; i++) {
		snprintf(key, sizeof key, "k%u", i);
		assert_int_equal(kvd_txn_get(t, key, strlen(key), &value, 1, &bytes),
				 i < KVD_TXN_READS_MAX ? KVD_NOT_FOUND : KVD_ETOOBIG);
	}
	must_say("a transaction reads");
	assert_int_equal(kvd_txn_get(t, "k0", 2, &value, 1, &bytes), KVD_NOT_FOUND); /* it is in it */
	kvd_txn_delete(&t);
}

/* ------------------------------------------------------------------- locks */

static unsigned taken(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < BYTES_STRIPES; i++)
		n += end->words[i] != 0;
	return n;
}

static void test_locks(void **state)
{
	static const struct kvd_key keys[] = { { "a", 1 }, { "b", 1 }, { "a", 1 } };
	kvd_lock_t *lock, *again;
	uint64_t version = 0;

	(void)state;
	assert_int_equal(kvd_lock(s, keys, 3, 0, &lock), KVD_OK);
	assert_in_range(taken(), 1, 2);
	assert_int_equal(end->messages, 0);
	assert_int_equal(kvd_lock_check(lock), KVD_OK);
	answer.version = 8;
	assert_int_equal(kvd_locked_put(lock, "a", 1, "v", 1, &version), KVD_OK);
	assert_int_equal(version, 8);
	assert_true(end->asked.token != 0);
	assert_int_equal(kvd_locked_put(lock, "other than these", 16, "v", 1, &version), KVD_EINVAL);
	must_say("the key is not among those of the lock");
	assert_int_equal(kvd_lock(s, keys, 1, 0, &again), KVD_EINVAL);
	must_say("this session holds the lock of one of the keys already");
	assert_null(again);
	assert_int_equal(kvd_unlock(&lock), KVD_OK);
	assert_int_equal(kvd_unlock(&lock), KVD_OK);
	kvd_ping(s, &version); /* the unlock's completion */
	assert_int_equal(taken(), 0);
}

static void test_locks_that_others_hold(void **state)
{
	static const struct kvd_key key = { "a", 1 };
	kvd_lock_t *lock;

	(void)state;
	for (unsigned i = 0; i < BYTES_STRIPES; i++)
		end->words[i] = 12345;
	assert_int_equal(kvd_lock(s, &key, 1, 0, &lock), KVD_EBUSY);
	must_say("somebody else holds the lock");
	assert_null(lock);
	assert_int_equal(end->messages, 0);
	answer.status = WIRE_EBUSY;
	assert_int_equal(kvd_lock(s, &key, 1, 30, &lock), KVD_EBUSY);
	must_say("the lock was not free within");
	assert_int_equal(end->asked.op, WIRE_LOCK);
	assert_in_range(end->asked.ttl_ms, 1, 31);
	answer.status = WIRE_EUNSUPPORTED;
	assert_int_equal(kvd_lock(s, &key, 1, 30, &lock), KVD_EPROTOCOL);
	must_say("has no locks (its device has no atomics)");
	/* kvd hands it over. */
	answer.status = WIRE_OK;
	assert_int_equal(kvd_lock(s, &key, 1, 30, &lock), KVD_OK);
	/* But the word is another's: somebody wrote there. */
	assert_int_equal(kvd_lock_check(lock), KVD_ELOST);
	must_say("broke the lock by changing its word");
	assert_int_equal(kvd_unlock(&lock), KVD_OK);
}

/* By another device than the first of kvd's: it has no right to the words, and asks. */
static void test_locks_that_are_asked(void **state)
{
	static const struct kvd_key key = { "a", 1 };
	kvd_lock_t *lock;
	uint8_t value[8];
	uint64_t version;
	size_t bytes;

	(void)state;
	e->table.welcome.lock_rkey = 0;
	assert_int_equal(kvd_lock(s, &key, 1, 0, &lock), KVD_OK);
	assert_int_equal(end->asked.op, WIRE_LOCK);
	assert_int_equal(end->asked.ttl_ms, 1);
	assert_true(end->asked.token != 0);
	assert_int_equal(kvd_lock_check(lock), KVD_OK);
	assert_int_equal(end->asked.op, WIRE_LOCK);
	assert_int_equal(end->asked.ttl_ms, 0);
	answer.status = WIRE_EBUSY;
	assert_int_equal(kvd_lock_check(lock), KVD_ELOST);
	must_say("broke the lock by changing its word");
	answer.status = WIRE_OK;
	assert_int_equal(kvd_unlock(&lock), KVD_OK);
	assert_int_equal(end->asked.op, WIRE_UNLOCK);
	kvd_ping(s, &version); /* its answer */
	assert_int_equal(kvd_lock_get(s, "a", 1, 20, value, sizeof value, &bytes, NULL, &lock),
			 KVD_NOT_FOUND);
	assert_int_equal(end->asked.op, WIRE_LOCK);
	assert_non_null(lock);
	kvd_unlock(&lock);
	kvd_ping(s, &version);
	answer.status = WIRE_EBUSY;
	assert_int_equal(kvd_lock(s, &key, 1, 0, &lock), KVD_EBUSY);
	assert_null(lock);
	assert_int_equal(taken(), 0); /* no word was swapped by the client */
}

/* In a cluster: "busy" without a lease says nothing, and a lock is of the reign that gave it. */
static void test_locks_that_a_primary_is_asked_for(void **state)
{
	static const struct kvd_key key = { "a", 1 }, other = { "b", 1 };
	kvd_lock_t *lock;

	(void)state;
	e->table.welcome.lock_rkey = 0;
	e->table.grant.is_needed = true;
	e->reign = 3;
	e->connections = 7;
	answer = (struct wire_reply){ .status = WIRE_OK, .lease_ms = 40 };
	assert_int_equal(kvd_lock(s, &key, 1, 20, &lock), KVD_OK);
	assert_int_equal(kvd_lock_check(lock), KVD_OK);
	unsigned asked = end->messages;
	answer = (struct wire_reply){ .status = WIRE_EBUSY, .lease_ms = 40 };
	assert_int_equal(kvd_lock_check(lock), KVD_ELOST);
	must_say("broke the lock by changing its word");
	assert_int_equal(end->messages, asked + 1);
	answer.lease_ms = 0;
	assert_int_equal(kvd_lock_check(lock), KVD_ELOST);
	must_say("does not reach its backups");
	assert_true(end->messages > asked + 2);
	answer = (struct wire_reply){ .status = WIRE_OK, .lease_ms = 40 };
	kvd_unlock(&lock);
	assert_int_equal(kvd_lock(s, &other, 1, 20, &lock), KVD_OK);
	answer = (struct wire_reply){ .status = WIRE_EELSEWHERE };
	assert_int_equal(kvd_lock_check(lock), KVD_ELOST);
	must_say("the lock was lost with its connection");
	kvd_unlock(&lock);
}

static void test_locks_that_there_are_none(void **state)
{
	static struct kvd_key keys[KVD_LOCK_KEYS_MAX + 1];
	kvd_lock_t *lock;

	(void)state;
	for (unsigned i = 0; i < COUNT(keys); i++)
		keys[i] = (struct kvd_key){ "key", 3 };
	assert_int_equal(kvd_lock(s, keys, 0, 0, &lock), KVD_EINVAL);
	assert_int_equal(kvd_lock(s, keys, COUNT(keys), 0, &lock), KVD_EINVAL);
	must_say("a lock takes 1 to");
	e->table.welcome.lock_rkey = 0;
	answer.status = WIRE_EUNSUPPORTED;
	assert_int_equal(kvd_lock(s, keys, 1, 0, &lock), KVD_EDEVICE);
	must_say("kvd at here has no locks: its device has no atomic operations");
	e->table.welcome.role = ROLE_READ;
	assert_int_equal(kvd_lock(s, keys, 1, 0, &lock), KVD_EDENIED);
	assert_null(lock);
	assert_int_equal(taken(), 0);
}

/* The lock ends with the connection, and nothing is done under it. */
static void test_locks_that_are_lost(void **state)
{
	static const struct kvd_key key = { "a", 1 };
	uint8_t value[8];
	size_t bytes;
	kvd_lock_t *lock;

	(void)state;
	assert_int_equal(kvd_lock(s, &key, 1, 0, &lock), KVD_OK);
	health_fail(&e->health, KVD_ECONNECT, "gone");
	assert_int_equal(kvd_locked_put(lock, "a", 1, "v", 1, NULL), KVD_ELOST);
	must_say("the connection was lost, and the lock with it: nothing was done");
	assert_int_equal(kvd_locked_get(lock, "a", 1, value, sizeof value, &bytes, NULL), KVD_ELOST);
	assert_int_equal(kvd_locked_del(lock, "a", 1), KVD_ELOST);
	assert_int_equal(kvd_lock_check(lock), KVD_ELOST);
	assert_int_equal(kvd_unlock(&lock), KVD_ELOST);
	must_say("kvd gave it to others");
	assert_int_equal(end->messages, 0);
}

static int verdict;

static int grow(void *arg, void *value, size_t *bytes)
{
	assert_int_equal(*bytes, SIZE_MAX); /* there was none */
	*bytes = *(size_t *)arg;
	memset(value, 'x', 4);
	return verdict;
}

static void test_update(void **state)
{
	size_t bytes = 4;

	(void)state;
	verdict = 0;
	assert_int_equal(kvd_update(s, KEY, grow, &bytes, 8, 0), KVD_OK);
	assert_int_equal(end->asked.op, WIRE_PUT);
	assert_memory_equal(end->behind, "keyxxxx", 7);
	bytes = SIZE_MAX;
	answer.status = WIRE_NOT_FOUND;
	assert_int_equal(kvd_update(s, KEY, grow, &bytes, 8, 0), KVD_OK);
	assert_int_equal(end->asked.op, WIRE_DELETE);
	verdict = 1;
	unsigned messages = end->messages;
	assert_int_equal(kvd_update(s, KEY, grow, &bytes, 8, 0), KVD_CONDITION);
	assert_int_equal(end->messages, messages);
	uint64_t ns;
	kvd_ping(s, &ns);
	assert_int_equal(taken(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_txn),
		TEST(test_txn_that_only_reads),
		TEST(test_txn_has_limits),
		TEST(test_txn_that_is_full),
		TEST(test_txn_that_reads_all),
		TEST(test_locks),
		TEST(test_locks_that_others_hold),
		TEST(test_locks_that_a_primary_is_asked_for),
		TEST(test_locks_that_are_asked),
		TEST(test_locks_that_there_are_none),
		TEST(test_locks_that_are_lost),
		TEST(test_update),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
