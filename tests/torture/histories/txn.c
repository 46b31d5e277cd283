/* SPDX-License-Identifier: BSD-2-Clause */
/* A transaction: all that it reads, and all that it writes, is one operation. */
#include "tests/torture/histories/client.h"

#define TXN_KEYS 3

static char value[VALUE_BYTES_MAX];

struct txn {
	kvd_txn_t *txn;
	struct note reads; /* parts of what it read, before it is known whether that was all at once */
	uint64_t start_ns;
};

/* A transaction reads as a GET does; the value is of the last one that was there. */
static int txn_read(struct me *me, struct txn *t, unsigned key)
{
	struct note *n = note_begin(me, ORDER_GET, key);
	char name[KEY_BYTES];
	size_t bytes = 0, name_bytes = key_name(me, key, name);
	int rc = kvd_txn_get(t->txn, name, name_bytes, value, VALUE_BYTES_MAX, &bytes);

	if (!note_settle(me, n, rc) || rc == KVD_CONDITION) {
		n->is_nothing = true;
		return rc < 0 ? rc : KVD_CONDITION;
	}
	n->op.parts[0].result = result_of(rc);
	if (rc == KVD_OK)
		note_keep(me, n, 0, value, bytes);
	struct order_part *part = note_add(&t->reads, ORDER_GET, key);
	*part = n->op.parts[0];
	t->reads.from[t->reads.op.count - 1] = n->from[0];
	t->reads.bytes[t->reads.op.count - 1] = n->bytes[0];
	note_end(n, n->op.end_ns);
	return KVD_OK;
}

/* Into the transaction, and into its note. */
static void txn_write(struct me *me, struct txn *t, struct note *n, unsigned key)
{
	char name[KEY_BYTES];
	size_t name_bytes = key_name(me, key, name);
	bool is_put = roll(me, 5);
	struct order_part *part = note_add(n, is_put ? ORDER_PUT : ORDER_DEL, key);
	size_t bytes = is_put ? make_value(me, value, 1500) : 0;

	part->result = is_put ? ORDER_OK : ORDER_ANY;
	if (is_put)
		note_keep(me, n, n->op.count - 1u, value, bytes);
	if ((is_put ? kvd_txn_put(t->txn, name, name_bytes, value, bytes)
		    : kvd_txn_del(t->txn, name, name_bytes)) != KVD_OK)
		die("write in a transaction", kvd_session_error(me->session));
}

/* The puts' versions follow one by one. */
static void txn_committed(struct me *me, struct note *n, uint64_t version)
{
	for (unsigned i = 0; i < n->op.count; i++) {
		struct order_part *part = &n->op.parts[i];
		if (part->kind != ORDER_PUT)
			continue;
		part->tells = true;
		part->version = version++;
		me->version[part->key] = part->version;
	}
}

/* What it read is all there at the commit; of one that only reads, at some time since its begin. */
static void txn_commit(struct me *me, struct txn *t, unsigned first, unsigned writes)
{
	struct note *n = note_begin(me, ORDER_GET, 0);
	uint64_t version = 0, start_ns = n->op.start_ns;

	*n = t->reads;
	for (unsigned i = 0; i < writes; i++)
		txn_write(me, t, n, (first + i) % me->board->keys);
	n->op.start_ns = writes ? start_ns : t->start_ns;
	int rc = kvd_txn_commit(&t->txn, &version);
	if (!note_settle(me, n, rc))
		return;
	if (rc == KVD_CONDITION) {
		n->is_nothing = true;
		me->desk->counts[COUNT_TXN_LATE]++;
		return;
	}
	me->desk->counts[writes ? COUNT_TXN : COUNT_TXN_READS]++;
	if (writes)
		txn_committed(me, n, version);
	note_end(n, n->op.end_ns);
}

void do_transaction(struct me *me)
{
	unsigned keys = me->board->keys, first = (unsigned)roll(me, keys);
	unsigned reads = (unsigned)roll(me, TXN_KEYS + 1), writes = (unsigned)roll(me, TXN_KEYS);
	struct txn t = { .start_ns = now_ns() };

	t.reads.op = (struct order_op){ .client = me->number, .is_unknown = true,
					.end_ns = ORDER_OPEN };
	if (!reads && !writes)
		reads = 2;
	if (is_error(me, kvd_txn_new(me->session, &t.txn)))
		return;
	for (unsigned i = 0; i < reads; i++) {
		if (txn_read(me, &t, (first + i) % keys) != KVD_OK) {
			me->desk->counts[COUNT_TXN_LATE]++;
			kvd_txn_delete(&t.txn);
			return;
		}
	}
	txn_commit(me, &t, first, writes);
}
