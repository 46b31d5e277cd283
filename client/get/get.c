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
 *   an item of a transaction under way         old or new, as the scratch says
 *   buckets of a later epoch                   the address of that epoch
 *   a bucket in the middle of an expansion     the old place, then the new one
 *   an overflow chain where it may be          its nodes, then the bucket again
 * "Not found" is decided only by complete samples of both buckets, READ after the
 * call began (protocols.md, 12), or by an item that says that it was deleted and
 * was reached by an entry READ after the call began: then the key was absent at
 * some time in between.  After too many lookups kvd is asked.
 * It answers with the value or, where that is long, with the item, which it pins: this is
 * READ, told by its version, and given back (release()).
 *
 * What is next the other files say, from the bytes; here the READs are posted.
 */
#include "client/get/get.h"

#include <stdlib.h>
#include <string.h>

#include "client/get/item.h"
#include "client/get/lookup.h"
#include "client/get/parts.h"
#include "client/get/pending.h"
#include "client/get/verify.h"
#include "client/op/engine.h"
#include "client/op/message.h"
#include "client/op/hints.h"
#include "client/op/look.h"
#include "client/op/operation.h"
#include "client/op/operation_impl.h"
#include "client/op/post.h"
#include "client/op/request.h"

static struct get *get_of(const struct op *op)
{
	return op->own;
}

/* --------------------------------------------------------------------- ask */

static void drop_allocated(struct op *op)
{
	if (!op->out.allocated)
		return;
	pieces_release(&op->value, op->engine->registrar.verbs);
	op->value.count = 0;
	op->value.bytes = 0;
	free(op->out.allocated);
	op->out.allocated = NULL;
}

/* `head`: for the version and the length only. */
static void send_get(struct op *op, bool head)
{
	struct wire_request request = { .op = WIRE_GET, .flags = head ? WIRE_HEAD : 0 };

	drop_allocated(op);
	get_of(op)->asked_head = head;
	request_send(op, &request, 0);
}

static bool wants_head(const struct op *op)
{
	return !get_of(op)->allocate && !op->value.bytes;
}

#define LOST_MAX 64u

static void ask(struct op *op)
{
	struct get *g = get_of(op);

	/* kvd keeps what it pinned for as long as there is room for that. */
	if (g->step == READ_PINNED && ++g->lost > LOST_MAX) {
		op_done(op, request_fail(op->engine, op->key_bytes, KVD_EBUSY,
					 "the value is replaced each time before it is READ: try "
					 "again, read it under its lock, or start kvd with more "
					 "--memory"));
		return;
	}
	op->engine->counters.fallbacks++;
	send_get(op, wants_head(op));
}

/* What kvd pinned has been READ, or is gone.  If all operations are in flight it ends by
 * itself, or with the next GET. */
static void release(struct engine *e, uint64_t version)
{
	request_tell(e, &(struct wire_request){ .op = WIRE_RELEASE, .version = version });
}

/* ----------------------------------------------------------------- deliver */

/* Memory for a value of up to `bytes`; false: the operation has ended. */
static bool allocate(struct op *op, uint64_t bytes)
{
	op->out.allocated = malloc(bytes + 1);
	if (!op->out.allocated) {
		op->out.bytes = bytes;
		op_done(op, KVD_ENOMEM);
		return false;
	}
	struct iovec all = { op->out.allocated, bytes };
	pieces_set(&op->value, &all, 1);
	return true;
}

static void tell_attributes(struct op *op, uint64_t lengths, uint64_t expiry)
{
	uint64_t expiry_ms = layout_expiry_ms(expiry);

	op->out.lengths = lengths;
	op->out.expiry = expiry;
	op->out.ttl_ms =
		expiry_ms ? clock_left_ms(&op->engine->table.clock, expiry_ms, clock_ns()) : 0;
}

/* The value is there, and longer than the caller's memory. */
static int no_room(const struct op *op)
{
	return get_of(op)->exists ? KVD_OK : KVD_ESPACE;
}

/* `value`: NULL if it stands where it belongs. */
static void deliver(struct op *op, const struct layout_item *item, const uint8_t *value)
{
	uint64_t bytes = layout_value_bytes(item->lengths);

	if (!get_of(op)->index_read)
		op->engine->counters.mirror_hits++;
	op->out.bytes = bytes;
	op->out.version = layout_state_version(item->state);
	tell_attributes(op, item->lengths, item->expiry);
	if (get_of(op)->allocate && !op->out.allocated && !allocate(op, bytes))
		return;
	if (bytes > op->value.bytes) {
		op_done(op, no_room(op));
		return;
	}
	if (value) {
		pieces_scatter(&op->value, value, bytes);
		op->engine->counters.copied_bytes += bytes;
	}
	if (op->out.allocated)
		op->out.allocated[bytes] = '\0';
	op_done(op, KVD_OK);
}

/* What a READ brought. */
static void deliver_item(struct op *op, const struct get *g)
{
	if (op->engine->hints)
		hints_note(op->engine, g->word);
	deliver(op, get_item(g), verify_value(g));
}

/* -------------------------------------------------------------------- post */

static void post_reads(struct op *op, struct get *g, enum step step)
{
	const struct wire_welcome *w = &g->table->welcome;

	g->step = step;
	for (unsigned i = 0; i < g->reads.count; i++)
		op_read(op, w->table_addr + g->reads.part[i].offset, w->table_rkey,
			g->reads.part[i].to, g->reads.part[i].bytes, i + 1 == g->reads.count);
	g->reads.count = 0;
}

/* A long item: its value straight into the caller's memory. */
static void post_long(struct op *op, struct get *g)
{
	struct engine *e = op->engine;
	uint64_t room = g->length - get_head_bytes(g);

	if (g->allocate && op->value.bytes < room) {
		drop_allocated(op);
		if (!allocate(op, room))
			return;
	}
	int rc = pieces_register(&op->value, &e->registrar, IBV_ACCESS_LOCAL_WRITE);
	if (rc) {
		op_done(op, err_set_errno(
				    &e->health.err, KVD_EDEVICE, rc,
				    "can't register a buffer of %zu bytes: the locked-memory limit "
				    "may be too low (see 'ulimit -l')",
				    op->value.bytes));
		return;
	}
	parts_begin(op->engine, g);
}

static void post_item(struct op *op, struct get *g, enum step step)
{
	const struct wire_welcome *w = &g->table->welcome;

	g->step = step;
	if (g->length > OP_ITEM_BYTES) {
		post_long(op, g);
	} else if (g->length >= SCATTER_BYTES_MIN && !g->allocate &&
		   op->value.bytes >= g->length - get_head_bytes(g) &&
		   pieces_find(&op->value, &op->engine->registrar)) {
		parts_begin(op->engine, g);
	} else {
		op_read(op, w->table_addr + get_offset(g, g->word), w->table_rkey, op->memory->item,
			(uint32_t)g->length, true);
	}
}

/* ------------------------------------------------------------------- drive */

/*
 * What kvd pinned is what it answered, by its own lease, for as long as it is the item of that
 * version.
 */
static bool counts(struct op *op, const struct get *g)
{
	bool is_answer = g->step == READ_PINNED &&
			 layout_state_version(get_item(g)->state) == g->held_version;

	return is_answer || look_counts(op->engine, g->reign);
}

/* What was READ says so: DELIVER or ABSENT. */
static void end(struct op *op, struct get *g, enum step step)
{
	if (g->table->grant.is_needed && !counts(op, g))
		ask(op);
	else if (step == DELIVER)
		deliver_item(op, g);
	else
		op_done(op, KVD_NOT_FOUND);
}

/* To the next READs, or the end. */
static void go_on(struct op *op, struct get *g, enum step step)
{
	for (;;) {
		switch (step) {
		case READ_ITEM:
		case READ_PINNED:
		case READ_OLD:
		case READ_TXN_OLD:
			if (item_plan(g)) {
				post_item(op, g, step);
				return;
			}
			step = START_OVER;
			break;
		case READ_UPDATING:
		case READ_PREPARED:
		case READ_TXN:
			if (pending_plan(g, step)) {
				post_reads(op, g, step);
				return;
			}
			step = item_again(g);
			break;
		case READ_DIRECTORY:
		case READ_MARK:
		case READ_BUCKETS:
		case READ_NODE:
		case READ_LINKS:
			post_reads(op, g, step);
			return;
		case NEXT_ENTRY:
			step = lookup_next(g);
			break;
		case START_OVER:
			step = lookup_restart(g);
			break;
		case ASK:
			ask(op);
			return;
		case DELIVER:
		case ABSENT:
			end(op, g, step);
			return;
		}
	}
}

/* What follows from the bytes that the READs brought. */
static enum step (*const look_at[])(struct get *g) = {
	[READ_DIRECTORY] = lookup_got_directory,
	[READ_MARK] = lookup_got_mark,
	[READ_BUCKETS] = lookup_got_buckets,
	[READ_NODE] = lookup_got_node,
	[READ_LINKS] = lookup_got_links,
	[READ_UPDATING] = pending_got_updating,
	[READ_PREPARED] = pending_got_prepared,
	[READ_TXN] = pending_got_txn,
	[READ_ITEM] = item_got,
	[READ_PINNED] = item_got_pinned,
	[READ_OLD] = pending_got_old,
	[READ_TXN_OLD] = pending_got_txn_old,
};

static void advance(struct op *op)
{
	struct get *g = get_of(op);

	if (g->direct && step_reads_item(g->step))
		parts_arrived(op->engine, g);
	if (op->reads)
		return;
	enum step step = look_at[g->step](g);
	if (g->step == READ_PINNED && step != READ_PINNED)
		release(op->engine, g->held_version);
	if (step == DELIVER) /* as nearly always: straight */
		end(op, g, step);
	else
		go_on(op, g, step);
}

static inline struct get *begin(struct op *op, unsigned how)
{
	struct get *g = get_of(op);

	g->key_bytes = op->key_bytes;
	/* By the seed of the kvd that it is connected to: each start of one has its own. */
	g->hash = hash_key(g->table->welcome.hash_seed, op->key, op->key_bytes);
	g->begun_ns = op->begun_ns;
	g->reign = grant_reign(&g->table->grant);
	g->allocate = how & GET_ALLOCATES;
	g->locked = how & GET_LOCKED;
	g->exists = how & GET_EXISTS;
	g->mark_clear = g->from_mirror = g->index_read = g->accept_prepared = g->untold = false;
	g->attempts = g->torn = g->lost = g->tried_count = g->other_count = 0;
	memset(g->cut, 0, sizeof g->cut);
	g->length = 0;
	g->direct = false;
	return g;
}

static void start(struct op *op, unsigned how)
{
	struct get *g = begin(op, how);

	op->engine->counters.gets++;
	if (op->engine->get == KVD_GET_MESSAGE && !g->locked) {
		g->index_read = true; /* by kvd */
		send_get(op, wants_head(op));
		return;
	}
	lookup_locate(g);
	g->word = lookup_in_mirror(g);
	g->from_mirror = g->word;
	go_on(op, g, g->from_mirror ? READ_ITEM : lookup_read(g));
}

int get_start(struct op *op, unsigned how, const struct iovec *iov, int count)
{
	int rc = op_set_value(op, iov, count);

	if (rc)
		op_free(op);
	else
		start(op, how);
	return rc;
}

void get_resume(struct op *op, unsigned how, uint64_t word, uint64_t bytes, uint64_t reign,
		bool complete)
{
	struct get *g = begin(op, how);

	g->reign = reign;
	lookup_locate(g);
	g->begun_ns = 0; /* the call began earlier; when is not known */
	g->from_mirror = true;
	g->direct = false;
	g->word = word;
	g->step = READ_ITEM;
	g->length = bytes;
	if (complete)
		advance(op);
	else
		op->reads = 1;
}

/* ------------------------------------------------------------------- reply */

/* The header of the item that a reply tells of. */
static struct layout_item told_item(const struct op *op, const struct wire_reply *r)
{
	const struct layout_attributes with = { layout_expiry_ms(r->word), r->item_flags,
						r->item_signs & LAYOUT_SIGNS };

	return (struct layout_item){ .state = layout_state(r->version, LAYOUT_LIVE, 0),
				     .lengths = layout_lengths(r->value_bytes, op->key_bytes) |
						layout_flags_high(with.flags),
				     .expiry = layout_expiry(&with) };
}

/* All but the value. */
static void got_head(struct op *op, const struct wire_reply *r)
{
	const struct layout_item item = told_item(op, r);

	op->out.bytes = r->value_bytes;
	op->out.version = r->version;
	tell_attributes(op, item.lengths, item.expiry);
	if (r->value_bytes && r->value_bytes <= op->value.bytes)
		send_get(op, false); /* it has become shorter */
	else
		op_done(op, r->value_bytes ? no_room(op) : KVD_OK);
}

static void got_value(struct op *op, const struct wire_reply *r, const uint8_t *value)
{
	const struct layout_item item = told_item(op, r);

	deliver(op, &item, value);
}

static void reply(struct op *op, const uint8_t *payload)
{
	const struct wire_reply *r = &op->out.reply;
	struct get *g = get_of(op);

	/* A primary that found its lease over says so, too. */
	if (r->status == WIRE_EBUSY && message_put_off(op))
		return;
	if (request_is_moved(op))
		return;
	if (r->status != WIRE_OK) {
		op_done(op, request_result(op->engine, op->key_bytes, r->status));
	} else if (g->asked_head) {
		got_head(op, r);
	} else if (r->flags & WIRE_PINNED) {
		g->from_mirror = false;
		g->torn = 0;
		g->word = r->word;
		g->held_version = r->version;
		go_on(op, g, READ_PINNED);
	} else if (r->value_bytes == op->out.payload_bytes) {
		got_value(op, r, payload);
	} else {
		op_done(op, request_fail(op->engine, op->key_bytes, KVD_EPROTOCOL,
					 "kvd answered with another length than it sent"));
	}
}

/* On another connection, from the beginning. */
static void resume(struct op *op)
{
	const struct get *g = get_of(op);
	unsigned how = (g->allocate ? GET_ALLOCATES : 0) | (g->exists ? GET_EXISTS : 0);

	pieces_release(&op->value, op->engine->registrar.verbs);
	drop_allocated(op);
	start(op, how);
}

const struct op_class get_class = { .advance = advance, .reply = reply, .resume = resume };

/* The touch is answered, or the GET that follows it. */
static void reply_touched(struct op *op, const uint8_t *payload)
{
	const struct wire_reply *r = &op->out.reply;

	if (r->op != WIRE_TOUCH) {
		reply(op, payload);
		return;
	}
	request_learn(op, payload);
	if (r->status == WIRE_EBUSY && message_put_off(op))
		return;
	op->out.version = r->version;
	if (r->status == WIRE_OK)
		start(op, GET_PLAIN);
	else
		op_done(op, request_result(op->engine, op->key_bytes, r->status));
}

const struct op_class touch_get_class = {
	.advance = advance, .reply = reply_touched, .changes = true
};

int get_start_touched(struct op *op, const struct wire_request *touch, const struct iovec *iov,
		      int count)
{
	int rc = op_set_value(op, iov, count);

	if (!rc)
		rc = request_send(op, touch, 0);
	if (rc)
		op_free(op);
	else
		op->engine->counters.changes++;
	return rc;
}

struct get *gets_new(struct engine *e)
{
	struct get *gets = aligned_alloc(_Alignof(struct get), e->depth * sizeof *gets);

	if (gets)
		memset(gets, 0, e->depth * sizeof *gets);
	for (unsigned i = 0; gets && i < e->depth; i++) {
		struct op *op = &e->ops[i];
		op->own = &gets[i];
		gets[i].op = op;
		gets[i].table = &e->table;
		gets[i].memory = op->memory;
		gets[i].value = &op->value;
		gets[i].key = op->key;
		gets[i].counters = &e->counters;
		gets[i].hasher = e->hasher;
	}
	return gets;
}

void gets_stop(struct get *gets, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		value_hash_drop(&gets[i].sum);
}
