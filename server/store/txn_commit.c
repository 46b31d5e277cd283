/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A transaction with a database: its records are written first, all in one batch, while
 * its marks stay up; when they come back it takes effect, or is as if it had never been.
 *
 * Failure: refused records undo it.  Of those that may be on the disk or not the client is
 * told so, and the old values are written behind them.  New keys' places are promised before:
 * nothing fails behind the records.
 */
#include "server/store/txn_commit.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "server/store/change/commit.h"
#include "server/store/txn_effect.h"
#include "server/table/index.h"

struct txn_commit {
	struct commit base; /* first */
	struct txn txn;
	struct txn_key key[LAYOUT_TXN_KEYS_MAX];
	struct durable_record record[LAYOUT_TXN_KEYS_MAX];
};

static struct durable_record record_of(const struct txn_key *k, const struct layout_item *item)
{
	if (item)
		return item_record(item);
	return (struct durable_record){ .key = k->item->data,
					.key_bytes = layout_key_bytes(k->item->lengths) };
}

/* The keys as they are to be, or, to undo that, as they were. */
static void set_records(struct txn_commit *m, bool as_before)
{
	struct durable_op *op = &m->base.op;

	op->records = m->record;
	op->count = 0;
	for (unsigned i = 0; i < m->txn.count; i++) {
		const struct txn_key *k = &m->key[i];
		if (!txn_key_changes(k))
			continue;
		struct durable_record *r = &m->record[op->count++];
		*r = record_of(k, as_before ? k->old : k->item ? k->item : k->old);
		if (!as_before && k->kind == WIRE_TXN_DELETE)
			r->version = r->value_bytes = 0;
	}
}

static void take_back(struct txn_commit *m)
{
	m->base.op.is_undo = true;
	set_records(m, true);
	commit_submit(m->txn.worker, &m->base);
}

static int leave(struct store_worker *w, struct txn_commit *m, int answer)
{
	w->commits--;
	index_promises_end(w->store->index, m->txn.promised);
	free(m);
	return answer;
}

/* What to answer where nothing was written; WIRE_OK: something was. */
static int unwritten(const struct txn_commit *m)
{
	if (m->base.op.is_undo)
		return STORE_SILENT; /* it was answered */
	if (m->base.op.result == DURABLE_REFUSED)
		return WIRE_EDISK;
	return m->base.op.result == DURABLE_ELSEWHERE ? WIRE_EELSEWHERE : WIRE_OK;
}

/* The records came back. */
static int end(struct store_worker *w, struct commit *base, struct store_result *r)
{
	struct txn_commit *m = (struct txn_commit *)base;
	struct txn *t = &m->txn;

	int answer = unwritten(m);

	if (base->op.is_undo || answer != WIRE_OK) {
		txn_undo(t);
		return leave(w, m, answer);
	}
	if (base->op.result == DURABLE_UNKNOWN) {
		take_back(m);
		return WIRE_EUNKNOWN;
	}
	bool published = txn_publish(t);
	assert(published);
	(void)published;
	txn_finish(t);
	txn_account(t);
	r->version = t->version;
	return leave(w, m, WIRE_OK);
}

/* A place for each key that is new. */
static bool promise_places(struct txn *t)
{
	struct index *x = t->store->index;
	struct index_entry entry;
	struct index_spot spot;
	bool ok = true;

	for (unsigned i = 0; i < t->count && ok; i++) {
		const struct txn_key *k = &t->key[i];
		if (!k->item || k->old)
			continue;
		txn_find(t, &k->change, &spot, &entry);
		ok = index_promise(x, &spot);
		index_unlock(x, &spot);
		t->promised += ok;
	}
	if (!ok)
		index_promises_end(x, t->promised);
	return ok;
}

int txn_commit_begin(struct txn *t)
{
	struct txn_commit *m = calloc(1, sizeof *m);

	if (!m || !promise_places(t)) {
		free(m);
		return WIRE_EMEMORY;
	}
	m->txn = *t;
	m->txn.key = m->key;
	memcpy(m->key, t->key, t->count * sizeof *t->key);
	for (unsigned i = 0; i < t->count; i++) {
		/* The request's memory is gone by then. */
		const struct layout_item *item = m->key[i].item ? m->key[i].item : m->key[i].old;
		m->key[i].change.key = item ? item->data : NULL;
		m->key[i].change.value = NULL;
	}
	m->base.end = end;
	m->base.op.fate.version = t->version;
	set_records(m, false);
	if (m->base.op.count)
		return commit_begin(t->worker, &m->base);
	free(m);
	return WIRE_OK;
}
