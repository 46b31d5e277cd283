/* SPDX-License-Identifier: BSD-2-Clause */
/* made_held.c -- locks and transactions over the items of made_kvd.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/unit/client/made_kvd.h"

struct kvd_lock {
	kvd_session *session;
};

struct kvd_txn {
	kvd_session *session;
	struct made_item change[KVD_TXN_KEYS_MAX]; /* value NULL: deleted */
	unsigned changes;
};

/* ------------------------------------------------------------------ locks */

static int lock(kvd_session *s, const char *name, const void *key, size_t key_bytes, int timeout_ms,
		kvd_lock_t **held)
{
	int result = made_keyed(s, name, key, key_bytes);

	made_note(" %d\n", timeout_ms);
	*held = NULL;
	if (result)
		return result;
	*held = malloc(sizeof **held);
	assert_non_null(*held);
	(*held)->session = s;
	made.locks++;
	return KVD_OK;
}

int kvd_lock(kvd_session *s, const struct kvd_key *keys, size_t count, int timeout_ms, kvd_lock_t **held)
{
	assert_int_equal(count, 1);
	return lock(s, "lock", keys->data, keys->bytes, timeout_ms, held);
}

int kvd_lock_get(kvd_session *s, const void *key, size_t key_bytes, int timeout_ms, void *value,
		 size_t room, size_t *value_bytes, uint64_t *version, kvd_lock_t **held)
{
	int result = lock(s, "lock_get", key, key_bytes, timeout_ms, held);

	return result ? result : kvd_locked_get(*held, key, key_bytes, value, room, value_bytes, version);
}

int kvd_unlock(kvd_lock_t **held)
{
	made_note("unlock%s\n", *held ? "" : " nothing");
	made.locks -= *held != NULL;
	free(*held);
	*held = NULL;
	return KVD_OK;
}

int kvd_lock_check(kvd_lock_t *held)
{
	made_note("lock_check\n");
	return made_fate(held->session, "lock_check");
}

int kvd_locked_get(kvd_lock_t *held, const void *key, size_t key_bytes, void *value, size_t room,
		   size_t *value_bytes, uint64_t *version)
{
	struct kvd_info info = { 0 };
	int result = made_keyed(held->session, "locked_get", key, key_bytes);

	(void)version;
	made_note("\n");
	if (!result)
		result = made_get(held->session, key, key_bytes, value, room, &info);
	*value_bytes = info.value_bytes;
	return result;
}

int kvd_locked_put(kvd_lock_t *held, const void *key, size_t key_bytes, const void *value,
		   size_t value_bytes, uint64_t *version)
{
	return kvd_put_with(held->session, key, key_bytes, value, value_bytes, NULL, version);
}

/* ------------------------------------------------------------------ transactions */

int kvd_txn_new(kvd_session *s, kvd_txn_t **txn)
{
	int result = made_fate(s, "txn_new");

	if (result)
		return result;
	*txn = calloc(1, sizeof **txn);
	assert_non_null(*txn);
	(*txn)->session = s;
	made.txns++;
	return KVD_OK;
}

void kvd_txn_delete(kvd_txn_t **txn)
{
	for (unsigned i = 0; i < (*txn)->changes; i++) {
		free((*txn)->change[i].key);
		free((*txn)->change[i].value);
	}
	free(*txn);
	*txn = NULL;
	made.txns--;
}

int kvd_txn_get(kvd_txn_t *txn, const void *key, size_t key_bytes, void *value, size_t room,
		size_t *value_bytes)
{
	struct kvd_info info = { 0 };
	int result = made_keyed(txn->session, "txn_get", key, key_bytes);

	made_note(" %zu\n", room);
	for (unsigned i = txn->changes; i-- > 0 && !result;) {
		const struct made_item *c = &txn->change[i];
		if (c->key_bytes != key_bytes || memcmp(c->key, key, key_bytes))
			continue;
		assert_true(c->value_bytes <= room);
		memcpy(value, c->value ? c->value : "", c->value_bytes);
		*value_bytes = c->value_bytes;
		return c->value ? KVD_OK : KVD_NOT_FOUND;
	}
	if (!result) {
		result = made_get(txn->session, key, key_bytes, value, room, &info);
		*value_bytes = info.value_bytes;
	}
	return result;
}

static int txn_change(kvd_txn_t *txn, const void *key, size_t key_bytes, char *value, size_t bytes)
{
	assert_true(txn->changes < KVD_TXN_KEYS_MAX);
	txn->change[txn->changes++] = (struct made_item){ .key = made_copy(key, key_bytes), .value = value,
							  .key_bytes = key_bytes, .value_bytes = bytes };
	return KVD_OK;
}

int kvd_txn_put(kvd_txn_t *txn, const void *key, size_t key_bytes, const void *value,
		size_t value_bytes)
{
	int result = made_keyed(txn->session, "txn_put", key, key_bytes);

	made_note("\n");
	return result ? result :
			txn_change(txn, key, key_bytes, made_copy(value, value_bytes), value_bytes);
}

int kvd_txn_del(kvd_txn_t *txn, const void *key, size_t key_bytes)
{
	int result = made_keyed(txn->session, "txn_del", key, key_bytes);

	made_note("\n");
	return result ? result : txn_change(txn, key, key_bytes, NULL, 0);
}

int kvd_txn_commit(kvd_txn_t **txn, uint64_t *version)
{
	int result = made_fate((*txn)->session, "txn_commit");

	(void)version;
	made_note("txn_commit\n");
	if (!result && made.conflicts) {
		made.conflicts--;
		result = KVD_CONDITION;
	}
	for (unsigned i = 0; i < (*txn)->changes && !result; i++) {
		const struct made_item *c = &(*txn)->change[i];
		if (c->value)
			made_put_bytes(c->key, c->key_bytes, c->value, c->value_bytes);
		else
			made_del(c->key, c->key_bytes);
	}
	kvd_txn_delete(txn);
	return result;
}
