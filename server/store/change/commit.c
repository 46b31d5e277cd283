/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Changes of one key that wait for the disk (commit.h).
 *
 * Happy path: the new item is made beside, complete with its version, where nobody can
 * find it, or, if it is to overwrite the old one in place, an image of it; the buckets
 * are let go, the stripe stays marked, and the old item shows PENDING; the record is
 * handed in.  When it comes back the change is made as without a database.
 *
 * Why the mark stays: it is the order of a key's changes, in the table and on disk
 * alike; a lock that is granted meanwhile waits for PENDING to go (protocols.md, 4), a
 * reader takes the old item.  So a key has one change for each commit, others of its
 * stripe are set aside.
 *
 * Refused: as if the request had not come.  Unknown: it is answered at once; the old
 * item's record, or that there is none, is handed in as an undo, and only then is the
 * stripe free.  A new key's place is promised before its record is handed in: nothing fails
 * behind that, as backups could not be told.
 */
#include "server/store/change/commit.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "server/store/change/effect.h"
#include "server/store/item/item.h"
#include "server/store/item/stripe.h"
#include "server/table/index.h"

struct commit_put {
	struct commit base; /* first */
	struct durable_record record;
	struct store_change change;
	struct work work;
	struct store_result result; /* of a removal */
	bool is_image, is_eviction;
	size_t image_bytes;
	uint8_t image[] __attribute__((aligned(8)));
};

void commit_submit(struct store_worker *w, struct commit *m)
{
	if (w->others)
		w->others->submit(w->others->arg, &m->op);
	else
		durable_submit(w->store->durable, &m->op);
}

int commit_begin(struct store_worker *w, struct commit *m)
{
	m->op.port = &w->port;
	w->commit = m;
	w->commits++;
	commit_submit(w, m);
	return STORE_COMMIT;
}

static void commit_free(struct store_worker *w, struct commit_put *m)
{
	w->commits--;
	w->commit_bytes -= m->image_bytes;
	w->evictions -= m->is_eviction;
	if (m->work.is_promised)
		index_promises_end(w->store->index, 1);
	free(m);
}

int commit_end(struct store_worker *w, struct commit *m, struct store_result *r)
{
	*r = (struct store_result){ .bucket = ~0ull };
	return m->end(w, m, r);
}

static void set_record(struct commit_put *m, const struct layout_item *item, const void *value,
		       uint64_t version)
{
	m->record = (struct durable_record){
		.key = item->data,
		.key_bytes = layout_key_bytes(item->lengths),
		.value = value,
		.value_bytes = layout_value_bytes(item->lengths),
		.version = version,
		.with = item_attributes(item),
	};
}

/* The key as the table has it. */
static void set_undo(struct commit_put *m)
{
	const struct layout_item *old = m->work.old;

	m->base.op.is_undo = true;
	if (old)
		set_record(m, old, old->data + layout_key_bytes(old->lengths),
			   layout_state_version(old->state));
	else
		m->record.version = 0;
}

/* It came to nothing, in the table and on disk. */
static void revert(struct store_worker *w, struct commit_put *m)
{
	struct work *k = &m->work;

	if (k->old)
		state_store(k->old, k->old->state & ~LAYOUT_PENDING);
	stripe_unmark(w->store, k->stripe);
	if (m->change.item)
		store_item_delete(w, m->change.item);
	commit_free(w, m);
}

static void undo(struct store_worker *w, struct commit_put *m)
{
	set_undo(m);
	commit_submit(w, &m->base);
}

/* What it is if its record was not written; WIRE_OK: it was. */
static int end_unwritten(struct store_worker *w, struct commit_put *m)
{
	if (m->base.op.is_undo) {
		revert(w, m);
		return STORE_SILENT; /* it was answered */
	}
	switch (m->base.op.result) {
	case DURABLE_WRITTEN:
		return WIRE_OK;
	case DURABLE_REFUSED:
		revert(w, m);
		return WIRE_EDISK;
	case DURABLE_ELSEWHERE:
		revert(w, m);
		return WIRE_EELSEWHERE;
	case DURABLE_UNKNOWN:
		break;
	}
	undo(w, m);
	return WIRE_EUNKNOWN;
}

static int end_put(struct store_worker *w, struct commit *base, struct store_result *r)
{
	struct commit_put *m = (struct commit_put *)base;
	int status = end_unwritten(w, m);

	if (status != WIRE_OK)
		return status;
	work_lock(w, &m->work);
	status = work_put(w, &m->change, m->is_image ? (struct layout_item *)m->image : NULL,
			  &m->work, r);
	assert(status == WIRE_OK); /* its item and its place are there */
	commit_free(w, m);
	return status;
}

/* A header that is to replace the old item's, whose value stays where it is. */
static struct commit_put *stage_header(const struct store_change *c, const struct work *k)
{
	size_t bytes = sizeof *c->head + c->key_bytes;
	struct commit_put *m = malloc(sizeof *m + bytes);

	if (!m)
		return NULL;
	*m = (struct commit_put){ .change = *c, .work = *k, .image_bytes = bytes };
	memcpy(m->image, c->head, bytes);
	m->change.head = (const struct layout_item *)m->image;
	set_record(m, m->change.head, k->old->data + c->key_bytes,
		   layout_state_version(c->head->state));
	return m;
}

static struct commit_put *stage_image(struct store_worker *w, const struct store_change *c,
				      const struct work *k)
{
	size_t bytes = layout_item_bytes(c->key_bytes, c->value_bytes);
	struct commit_put *m = malloc(sizeof *m + bytes);
	uint64_t version = next_version(w->store);

	if (!m)
		return NULL;
	*m = (struct commit_put){ .change = *c, .work = *k, .is_image = true,
				  .image_bytes = bytes };
	struct layout_item *image = (struct layout_item *)m->image;
	item_set_head(image, c->key_bytes, c->value_bytes, &c->with);
	memcpy(image->data, c->key, c->key_bytes);
	memcpy(image->data + c->key_bytes, c->value, c->value_bytes);
	image->checksum = hash_item(image, bytes, version, table_offset(w->store->table, k->old));
	image->state = layout_state(version, LAYOUT_LIVE, 0);
	set_record(m, image, image->data + c->key_bytes, version);
	return m;
}

static struct commit_put *stage_item(struct store_worker *w, const struct store_change *c,
				     const struct work *k)
{
	struct commit_put *m = malloc(sizeof *m);
	struct layout_item *item = c->item;

	if (!m)
		return NULL;
	if (!item) {
		item = store_item_new(w, c->key, c->key_bytes, c->value_bytes, &c->with);
		if (!item) {
			free(m);
			return NULL;
		}
		memcpy(item->data + c->key_bytes, c->value, c->value_bytes);
	}
	store_item_seal(w, item);
	*m = (struct commit_put){ .change = *c, .work = *k };
	m->change.item = item;
	set_record(m, item, item->data + c->key_bytes, layout_state_version(item->state));
	return m;
}

static int submit(struct store_worker *w, struct commit_put *m,
		  int (*end)(struct store_worker *, struct commit *, struct store_result *))
{
	m->base.end = end;
	m->base.op.records = &m->record;
	m->base.op.count = 1;
	m->base.op.fate.version = m->record.version ? m->record.version : m->result.version;
	m->base.op.fate.value_bytes = m->record.version ? m->record.value_bytes
							: m->result.value_bytes;
	m->change.key = m->record.key;
	m->change.compute = NULL;
	w->commit_bytes += m->image_bytes;
	return commit_begin(w, &m->base);
}

int commit_put(struct store_worker *w, const struct store_change *c, struct work *k)
{
	bool in_place = !c->head && k->old && work_fits_in_place(w, c, k);
	struct commit_put *m;

	k->is_promised = !k->old && index_promise(w->store->index, &k->spot);
	if (!k->old && !k->is_promised) {
		w->missing_bytes = LAYOUT_NODE_BYTES;
		return WIRE_EMEMORY;
	}
	/* What follows may take long: the mark is enough. */
	index_unlock(w->store->index, &k->spot);
	m = c->head ? stage_header(c, k) : in_place ? stage_image(w, c, k) : stage_item(w, c, k);
	if (m)
		return submit(w, m, end_put);
	if (k->is_promised)
		index_promises_end(w->store->index, 1);
	work_lock(w, k);
	return WIRE_EMEMORY;
}

static int end_remove(struct store_worker *w, struct commit *base, struct store_result *r)
{
	struct commit_put *m = (struct commit_put *)base;
	int status = end_unwritten(w, m);

	if (status != WIRE_OK)
		return status;
	*r = m->result;
	work_lock(w, &m->work);
	work_remove(w, &m->work);
	commit_free(w, m);
	return WIRE_OK;
}

static int begin_remove(struct store_worker *w, struct work *k, const struct store_result *r,
			bool is_eviction)
{
	struct commit_put *m = malloc(sizeof *m);

	if (!m) {
		work_leave_unchanged(w, k);
		return WIRE_EMEMORY;
	}
	index_unlock(w->store->index, &k->spot);
	*m = (struct commit_put){ .work = *k, .result = *r, .is_eviction = is_eviction };
	w->evictions += is_eviction;
	set_record(m, k->old, NULL, 0);
	m->record.value_bytes = 0;
	return submit(w, m, end_remove);
}

int commit_remove(struct store_worker *w, struct work *k, const struct store_result *r)
{
	return begin_remove(w, k, r, false);
}

int commit_evict(struct store_worker *w, struct work *k)
{
	return begin_remove(w, k, &(struct store_result){ .bucket = ~0ull }, true);
}
