/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/fuzz/calls.h"

#include "tests/fuzz/fuzz.h"

#define CALLS 16u
#define VALUE_MAX 40000u

static uint8_t value[VALUE_MAX];
static uint64_t version;
static size_t got;

static int one_key(void *arg, const void *key, size_t key_bytes, uint64_t value_bytes)
{
	unsigned *told = arg;

	FUZZ_CHECK(key_bytes && key_bytes <= KVD_KEY_BYTES_MAX && *(const char *)key == 'k');
	FUZZ_CHECK(value_bytes <= KVD_VALUE_BYTES_MAX);
	return ++*told > 1000;
}

static int keep(void *arg, void *bytes, size_t *n)
{
	(void)arg, (void)bytes;
	*n = *n == SIZE_MAX ? 5 : *n;
	return 0;
}

static void locked(kvd_session *s)
{
	struct kvd_key keys[2] = { { "a", 1 }, { "b", 1 } };
	kvd_lock_t *lock;

	if (kvd_lock(s, keys, 2, 5, &lock))
		return;
	kvd_locked_put(lock, "a", 1, "value", 5, &version);
	kvd_locked_get(lock, "b", 1, value, sizeof value, &got, &version);
	kvd_unlock(&lock);
}

static void transaction(kvd_session *s)
{
	kvd_txn_t *txn;

	if (kvd_txn_new(s, &txn)) {
		kvd_txn_delete(&txn);
		return;
	}
	kvd_txn_get(txn, "a", 1, value, sizeof value, &got);
	kvd_txn_put(txn, "b", 1, "value", 5);
	kvd_txn_commit(&txn, &version);
}

static void many(kvd_session *s)
{
	struct kvd_item items[3];

	for (unsigned i = 0; i < 3; i++)
		items[i] = (struct kvd_item){ .key = &"abc"[i], .key_bytes = 1,
					      .value = value + 1000 * i, .value_bytes_max = 1000,
					      .value_bytes = 10 };
	kvd_mget(s, items, 3);
	for (unsigned i = 0; i < 3; i++)
		items[i].value_bytes = 10; /* a length that was too long may stand there */
	kvd_mput(s, items, 3, NULL);
}

void fuzz_call(kvd_client **client, kvd_session **session, unsigned which)
{
	kvd_session *s = *session;
	unsigned told = 0;
	void *allocated;
	int64_t number;
	uint64_t ns;
	char *json;

	(void)client;
	got = 0;
	switch (which % CALLS) {
	case 0:
		if (kvd_get(s, "key", 3, value, 1000, &got, &version) == KVD_OK)
			FUZZ_CHECK(got <= 1000);
		break;
	case 1:
		if (kvd_get_alloc(s, "key", 3, &allocated, &got, &version) == KVD_OK)
			free(allocated);
		break;
	case 2:
		kvd_put(s, "key", 3, value, 100, &version);
		break;
	case 3:
		kvd_put(s, "key", 3, value, sizeof value, &version);
		break;
	case 4:
		kvd_del(s, "key", 3);
		break;
	case 5:
		kvd_incr(s, "key", 3, 1, NULL, NULL, &number);
		break;
	case 6:
		kvd_keys(s, "k", 1, one_key, &told);
		break;
	case 7:
		if (kvd_stats(s, &json) == KVD_OK)
			free(json);
		break;
	case 8:
		kvd_flush(s);
		break;
	case 9:
		locked(s);
		break;
	case 10:
		transaction(s);
		break;
	case 11:
		many(s);
		break;
	case 12:
		kvd_update(s, "key", 3, keep, NULL, 1000, 5);
		break;
	case 13:
		kvd_backup(s, "/nowhere");
		break;
	case 14:
		kvd_ping(s, &ns);
		break;
	default:
		kvd_exists(s, "key", 3, &got);
	}
}
