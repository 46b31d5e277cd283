/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * GET: one-sided.
 *
 * Happy path: the mirror knows the key's entry; one READ of exactly the item;
 * it verifies; done.  Otherwise both of the key's buckets in one doorbell, then
 * the item.
 *
 * What a reader may meet, and what it does:
 *   another key's item (fingerprints collide)  the next entry
 *   a dead item, or memory used for another    the buckets, anew
 *   a torn item                                the same READ again
 *   an item that is being overwritten          the old one, in a worker's scratch
 *   a prepared item                            the old one, while that is live
 *   an item that is being inserted             the key is absent
 *   a copy that was made for another           the buckets, anew
 *   an item of a transaction under way         old or new, as the scratch says
 *   buckets of a later epoch                   the address of that epoch
 *   a bucket in the middle of an expansion     the old place, then the new one
 *   an overflow chain where it may be          its nodes, then the bucket again
 * "Not found" is decided only by complete samples of both buckets, READ after the
 * call began (protocols.md, 12), or by an item that says that it was deleted and
 * was reached by an entry READ after the call began: then the key was absent at
 * some time in between.  After ATTEMPTS_MAX the server is asked.
 */
#include <stdlib.h>
#include <string.h>

#include "client/get/get.h"

/* ---------------------------------------------------------------- fallback */

void get_drop_allocated(struct op *op)
{
	if (!op->allocated)
		return;
	pieces_release(&op->value, op->session->verbs);
	op->value.count = 0;
	op->value.bytes = 0;
	free(op->allocated);
	op->allocated = NULL;
}

/* `head`: for the version and the length only. */
static void send_get(struct op *op, bool head)
{
	struct wire_request request = { .op = WIRE_GET, .flags = head ? WIRE_HEAD : 0 };

	get_drop_allocated(op);
	op->asked_head = head;
	request_send(op, &request, 0);
}

static bool wants_head(const struct op *op)
{
	return !op->allocate && !op->value.bytes;
}

void get_ask_server(struct op *op)
{
	op->session->counters.fallbacks++;
	send_get(op, wants_head(op));
}

void get_again(struct op *op)
{
	op->session->counters.retries++;
	op->torn = 0;
	op->accept_prepared = false;
	if (++op->attempts > ATTEMPTS_MAX)
		get_ask_server(op);
	else
		lookup_read(op);
}

/* Anew from the index, with nothing taken for fresh. */
void get_start_over(struct op *op)
{
	bool hint = op->from_mirror;

	lookup_locate(op);
	if (hint) {
		op->torn = 0;
		op->session->counters.retries++;
		lookup_read(op);
	} else {
		get_again(op);
	}
}

/* ----------------------------------------------------------------- deliver */

/* Memory for a value of up to `bytes`; false: the operation has ended. */
bool get_allocate(struct op *op, uint64_t bytes)
{
	op->allocated = malloc(bytes + 1);
	if (!op->allocated) {
		op->result_bytes = bytes;
		op_done(op, KVD_ENOMEM);
		return false;
	}
	struct iovec all = { op->allocated, bytes };
	pieces_set(&op->value, &all, 1);
	return true;
}

/* `value`: NULL if it stands where it belongs. */
void get_deliver(struct op *op, const struct layout_item *item, const uint8_t *value)
{
	uint64_t bytes = layout_value_bytes(item->lengths);

	if (!op->index_read)
		op->session->counters.mirror_hits++;
	if (op->session->hints && op->phase != PHASE_REPLY)
		hints_note(op->session, op->word);
	op->result_bytes = bytes;
	op->result_version = layout_state_version(item->state);
	op->result_ttl_ms = item->expiry_ms ? clock_left_ms(&op->session->table.clock, item->expiry_ms,
							    clock_ns())
					    : 0;
	if (op->allocate && !op->allocated && !get_allocate(op, bytes))
		return;
	if (bytes > op->value.bytes) {
		op_done(op, KVD_ESPACE);
		return;
	}
	if (value)
		pieces_scatter(&op->value, value, bytes);
	if (op->allocated)
		op->allocated[bytes] = '\0';
	op_done(op, KVD_OK);
}

void get_not_found(struct op *op)
{
	op_done(op, KVD_NOT_FOUND);
}

/* No entry is the key's; unless one is that could not be told for another's. */
void get_no_entry(struct op *op)
{
	if (op->untold) {
		get_ask_server(op);
	} else if (op->doubt) {
		lookup_locate(op);
		get_again(op);
	} else {
		get_not_found(op);
	}
}

/* ------------------------------------------------------------------- drive */

static void advance(struct op *op)
{
	if (op->reads)
		return;
	if (op->posted < op->length &&
	    (op->phase == PHASE_ITEM || op->phase == PHASE_OLD || op->phase == PHASE_TXN_OLD ||
	     op->phase == PHASE_COPY)) {
		item_read_more(op);
		return;
	}
	switch (op->phase) {
	case PHASE_DIR:
		lookup_got_directory(op);
		break;
	case PHASE_MARK:
		lookup_got_mark(op);
		break;
	case PHASE_BUCKETS:
		lookup_got_buckets(op);
		break;
	case PHASE_CHAIN:
		lookup_got_node(op);
		break;
	case PHASE_RECHECK:
		lookup_got_recheck(op);
		break;
	case PHASE_ITEM:
	case PHASE_COPY:
		item_got(op);
		break;
	case PHASE_UPDATING:
		scratch_got_updating(op);
		break;
	case PHASE_PREPARED:
		scratch_got_prepared(op);
		break;
	case PHASE_OLD:
		scratch_got_old(op);
		break;
	case PHASE_TXN:
		scratch_got_txn(op);
		break;
	case PHASE_TXN_OLD:
		scratch_got_txn_old(op);
		break;
	case PHASE_AHEAD:
	case PHASE_IDLE:
	case PHASE_REPLY:
	case PHASE_CAS:
		break;
	}
}

/*
 * The mirror's entry for the key, where its buckets are now or were before the
 * last expansion of their groups; or 0.
 */
static uint64_t look_in_mirror(struct op *op)
{
	const struct mirror *m = op->session->table.mirror;
	const uint64_t mask = op->session->table.unit_mask, fp = fp_of(op);
	uint64_t before[2], word = mirror_find(m, op->bucket, mask, fp);

	if (word)
		return word;
	for (unsigned i = 0; i < 2; i++)
		before[i] = op->epoch[i] ? layout_bucket_of(hash_of(op, i), op->epoch[i] - 1)
					 : op->bucket[i];
	return mirror_find(m, before, mask, fp);
}

static void begin(struct op *op)
{
	op->attempts = op->torn = op->tried_count = 0;
	op->index_read = op->accept_prepared = op->untold = false;
	op->other_count = 0;
	memset(op->cut, 0, sizeof op->cut);
	op->length = op->posted = 0;
}

void get_start(struct op *op)
{
	begin(op);
	op->session->counters.gets++;
	if (client_of(op)->options.get == KVD_GET_MESSAGE && !op->locked) {
		op->index_read = true; /* by kvd */
		send_get(op, wants_head(op));
		return;
	}
	lookup_locate(op);
	uint64_t word = look_in_mirror(op);
	if (word) {
		op->from_mirror = true;
		item_read(op, word, PHASE_ITEM);
	} else {
		lookup_read(op);
	}
}

void get_resume(struct op *op, uint64_t word, uint64_t bytes, bool complete)
{
	begin(op);
	lookup_locate(op);
	op->begun_ns = 0; /* somewhen before */
	op->from_mirror = true;
	op->word = word;
	op->phase = PHASE_ITEM;
	op->length = op->posted = bytes;
	if (complete)
		advance(op);
	else
		op->reads = 1;
}

static void reply(struct op *op, const uint8_t *payload)
{
	const struct wire_reply *r = &op->reply;
	struct layout_item item = { .state = layout_state(r->version, LAYOUT_LIVE, 0),
				    .lengths = layout_lengths(r->value_bytes, op->key_bytes),
				    .expiry_ms = r->word };

	if (r->status == WIRE_NOT_FOUND) {
		get_not_found(op);
	} else if (r->status == WIRE_OK && op->asked_head) {
		op->result_bytes = r->value_bytes;
		op->result_version = r->version;
		if (r->value_bytes && r->value_bytes <= op->value.bytes)
			send_get(op, false); /* it has become shorter */
		else
			op_done(op, r->value_bytes ? KVD_ESPACE : KVD_OK);
	} else if (r->status == WIRE_OK && (r->flags & WIRE_COPY)) {
		op->from_mirror = false;
		item_read(op, r->word, PHASE_COPY);
	} else if (r->status == WIRE_OK && r->value_bytes == op->payload_bytes) {
		get_deliver(op, &item, payload);
	} else {
		op_done(op, r->status == WIRE_OK
				    ? request_fail(op, KVD_EPROTOCOL,
						   "kvd answered with another length than it sent")
				    : request_result(op, r->status));
	}
}

const struct op_class get_class = { .advance = advance, .reply = reply };
