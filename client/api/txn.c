/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Transactions: a list of keys with the versions that were read and the changes to
 * be made, sent to kvd as one message.
 *
 * Without changes no message is needed as long as at most one key was absent: a
 * version never comes back, so a present key whose version is the same in a second
 * pass had it all the while between the passes, and the absent one was absent at its
 * sample in between, the first of the second pass.  Two absent keys could
 * have come and gone in turn: kvd checks those.
 */
#include <stdlib.h>
#include <string.h>

#include "client/again/fate.h"
#include "client/again/ready.h"
#include "client/op/engine.h"
#include "client/op/operation.h"
#include "client/op/request.h"
#include "client/session/session.h"
#include "client/session/wait.h"

struct part {
	enum wire_txn_kind kind;
	uint64_t version; /* read, WIRE_TXN_ABSENT, or WIRE_TXN_ANY: not read */
	size_t key_bytes;
	size_t value_bytes;
	uint8_t *data; /* key, value to be written */
};

struct kvd_txn {
	struct kvd_session *session;
	unsigned count, room;
	unsigned changes;
	size_t bytes;
	struct part *part;
};

int kvd_txn_new(kvd_session *s, kvd_txn_t **txn)
{
	*txn = calloc(1, sizeof **txn);
	if (!*txn)
		return err_set(session_err(s), KVD_ENOMEM, "out of memory");
	(*txn)->session = s;
	return KVD_OK;
}

void kvd_txn_delete(kvd_txn_t **txn)
{
	if (!*txn)
		return;
	for (unsigned i = 0; i < (*txn)->count; i++)
		free((*txn)->part[i].data);
	free((*txn)->part);
	free(*txn);
	*txn = NULL;
}

static struct part *find(struct kvd_txn *t, const void *key, size_t key_bytes)
{
	for (unsigned i = 0; i < t->count; i++)
		if (t->part[i].key_bytes == key_bytes && !memcmp(t->part[i].data, key, key_bytes))
			return &t->part[i];
	return NULL;
}

static bool make_room(struct kvd_txn *t)
{
	if (t->count < t->room)
		return true;
	unsigned room = 2 * t->room + KVD_TXN_KEYS_MAX;
	struct part *part = realloc(t->part, room * sizeof *part);
	if (!part)
		return false;
	t->part = part;
	t->room = room;
	return true;
}

/* The part of a key, made if it is new. */
static int get_part(struct kvd_txn *t, const void *key, size_t key_bytes, struct part **part)
{
	struct kvd_session *s = t->session;
	int rc = check_key(session_err(s), key, key_bytes);

	if (rc)
		return rc;
	*part = find(t, key, key_bytes);
	if (*part)
		return 0;
	if (t->count == KVD_TXN_READS_MAX)
		return err_set(session_err(s), KVD_ETOOBIG,
			       "a transaction reads %d keys at the most", KVD_TXN_READS_MAX);
	uint8_t *data = make_room(t) ? malloc(key_bytes) : NULL;
	if (!data)
		return err_set(session_err(s), KVD_ENOMEM, "out of memory");
	memcpy(data, key, key_bytes);
	*part = &t->part[t->count++];
	**part = (struct part){ .kind = WIRE_TXN_CHECK,
				.version = WIRE_TXN_ANY,
				.key_bytes = key_bytes,
				.data = data };
	t->bytes += sizeof(struct wire_txn) + key_bytes;
	return 0;
}

/* What the transaction wrote itself. */
static int read_own(const struct part *p, void *value, size_t value_bytes_max, size_t *value_bytes)
{
	if (p->kind == WIRE_TXN_DELETE)
		return KVD_NOT_FOUND;
	*value_bytes = p->value_bytes;
	if (p->value_bytes > value_bytes_max)
		return KVD_ESPACE;
	memcpy(value, p->data + p->key_bytes, p->value_bytes);
	return KVD_OK;
}

int kvd_txn_get(kvd_txn_t *t, const void *key, size_t key_bytes, void *value,
		size_t value_bytes_max, size_t *value_bytes)
{
	struct part *p;
	uint64_t version = WIRE_TXN_ABSENT;
	int rc = get_part(t, key, key_bytes, &p);

	if (rc)
		return rc;
	if (p->kind != WIRE_TXN_CHECK)
		return read_own(p, value, value_bytes_max, value_bytes);
	rc = kvd_get(t->session, key, key_bytes, value, value_bytes_max, value_bytes, &version);
	if (rc != KVD_OK && rc != KVD_NOT_FOUND)
		return rc;
	if (p->version != WIRE_TXN_ANY && p->version != version)
		return KVD_CONDITION;
	p->version = version;
	return rc;
}

static int too_big(struct kvd_txn *t)
{
	return err_set(session_err(t->session), KVD_ETOOBIG,
		       "a transaction with changes has %d keys and %d bytes at the most",
		       KVD_TXN_KEYS_MAX, KVD_TXN_BYTES_MAX);
}

static int set_part(kvd_txn_t *t, enum wire_txn_kind kind, const void *key, size_t key_bytes,
		    const void *value, size_t value_bytes)
{
	struct part *p;
	int rc = get_part(t, key, key_bytes, &p);

	if (rc)
		return rc;
	size_t bytes = t->bytes - p->value_bytes;
	if (value_bytes > KVD_TXN_BYTES_MAX || bytes + value_bytes > KVD_TXN_BYTES_MAX)
		return too_big(t);
	uint8_t *data = realloc(p->data, key_bytes + value_bytes);
	if (!data)
		return err_set(session_err(t->session), KVD_ENOMEM, "out of memory");
	if (value_bytes)
		memcpy(data + key_bytes, value, value_bytes);
	p->data = data;
	t->changes += p->kind == WIRE_TXN_CHECK;
	p->kind = kind;
	p->value_bytes = value_bytes;
	t->bytes = bytes + value_bytes;
	return KVD_OK;
}

int kvd_txn_put(kvd_txn_t *t, const void *key, size_t key_bytes, const void *value,
		size_t value_bytes)
{
	return set_part(t, WIRE_TXN_PUT, key, key_bytes, value, value_bytes);
}

int kvd_txn_del(kvd_txn_t *t, const void *key, size_t key_bytes)
{
	return set_part(t, WIRE_TXN_DELETE, key, key_bytes, NULL, 0);
}

/* Whether READs alone can tell that all was there at once. */
static bool is_read_only(const struct kvd_txn *t)
{
	unsigned absent = 0;

	for (unsigned i = 0; i < t->count; i++)
		absent += t->part[i].version == WIRE_TXN_ABSENT;
	return !t->changes && absent <= 1;
}

/* The version of a key now; a long value is not READ for it. */
static int look_again(struct kvd_session *s, const struct part *p)
{
	uint64_t version = WIRE_TXN_ABSENT;
	void *value;
	size_t bytes;
	int rc = kvd_get_alloc(s, p->data, p->key_bytes, &value, &bytes, &version);

	if (rc == KVD_OK)
		free(value);
	if (rc < 0)
		return rc;
	return version == p->version ? KVD_OK : KVD_CONDITION;
}

/* Those that were absent, or those that were there. */
static int look_again_at(struct kvd_txn *t, bool absent)
{
	int rc = KVD_OK;

	for (unsigned i = 0; i < t->count && rc == KVD_OK; i++) {
		const struct part *p = &t->part[i];
		if (p->version != WIRE_TXN_ANY && (p->version == WIRE_TXN_ABSENT) == absent)
			rc = look_again(t->session, p);
	}
	return rc;
}

/* The absent one first, while all others are known to be there still. */
static int second_pass(struct kvd_txn *t)
{
	if (t->count < 2)
		return KVD_OK; /* its READ was an instant */
	int rc = look_again_at(t, true);
	return rc ? rc : look_again_at(t, false);
}

static size_t build(const struct kvd_txn *t, uint8_t *to)
{
	uint8_t *at = to;

	for (unsigned i = 0; i < t->count; i++) {
		const struct part *p = &t->part[i];
		struct wire_txn w = { .version = p->version,
				      .value_bytes = (uint32_t)p->value_bytes,
				      .key_bytes = (uint16_t)p->key_bytes,
				      .kind = (uint8_t)p->kind };
		memcpy(at, &w, sizeof w);
		memcpy(at + sizeof w, p->data, p->key_bytes + p->value_bytes);
		at += sizeof w + p->key_bytes + p->value_bytes;
	}
	return (size_t)(at - to);
}

static int send_once(struct kvd_txn *t, const struct iovec *payload, struct changed *done,
		     struct sent *sent)
{
	struct kvd_session *s = t->session;
	const struct wire_request ask = { .op = WIRE_TXN, .version = t->count };
	const struct outcome *out;
	int rc = session_ready_alone(s);

	if (rc)
		return rc;
	struct op *op = op_new(session_engine(s), &change_class, NULL, 0);
	rc = request_start(op, &ask, payload, 1);
	if (rc)
		return rc;
	rc = session_run(s, op, &out);
	*done = (struct changed){ .version = out->version };
	*sent = out->sent;
	return rc;
}

static int send_all(struct kvd_txn *t, uint64_t *version)
{
	struct call_time *time = &session_engine(t->session)->time;
	uint8_t bytes[KVD_TXN_BYTES_MAX];
	const struct iovec payload = { bytes, build(t, bytes) };
	bool outermost = call_begin(time);
	struct changed done;
	struct sent sent;
	int rc;

	do {
		rc = send_once(t, &payload, &done, &sent);
	} while (fate_again(t->session, &sent, time->end_ns, &rc, &done));
	call_end(time, outermost);
	if (rc == KVD_OK && version)
		*version = done.version;
	return rc;
}

int kvd_txn_commit(kvd_txn_t **txn, uint64_t *version)
{
	struct kvd_txn *t = *txn;
	int rc = KVD_OK;

	if (is_read_only(t))
		rc = second_pass(t);
	else if (t->bytes > KVD_TXN_BYTES_MAX || t->count > KVD_TXN_KEYS_MAX)
		rc = too_big(t);
	else
		rc = send_all(t, version);
	kvd_txn_delete(txn);
	return rc;
}
