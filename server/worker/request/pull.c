/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pulls: a value that is larger than a message is READ by kvd from the client's
 * memory, straight into the memory of its new item.
 *
 * Happy path: allocate the item, READ in chunks with a few in flight, hash each as
 * it comes, check the value's checksum, store_put.  While the stripe is in
 * somebody's way the pull waits, complete, and is tried again, for WAIT_NS_MAX at the
 * most: then it is answered "busy".  A connection may have as many pulls as it leaves to
 * others: a half if it is alone.  Failure: the
 * connection breaks (the READs are flushed) or the checksum is wrong: the item is
 * freed, nothing was changed.  The item's memory is freed only after every READ
 * into it has completed.
 */
#include "server/worker/request/pull.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log_limit.h"
#include "server/store/change/rmw.h"
#include "server/store/reclaim/room.h"
#include "server/store/put.h"
#include "server/worker/conn.h"
#include "server/worker/context.h"
#include "server/worker/request/deferred.h"
#include "server/worker/request/owed.h"
#include "server/worker/request/rewrites.h"
#include "server/worker/reply.h"
#include "server/worker/request/attributes.h"

#define CHUNK_BYTES_MAX (1ull << 20) /* hashed in one go, which all others of the worker wait for */
#define WINDOW 4u
#define WAIT_NS_MAX 2000000000ull /* as a small request, which is set aside: recv.c */

struct pull {
	struct pull *next;
	struct sendq *to; /* NULL: free */
	struct wire_request request;
	struct wire_segment segment[WIRE_SEGMENTS_MAX]; /* what is left of them */
	unsigned first; /* segment that is not wholly posted */
	struct layout_item *item;
	uint64_t posted, arrived;
	uint32_t chunk_bytes[WINDOW]; /* in flight, by their number */
	uint32_t chunks_posted, chunks_arrived;
	struct hash_stream hash;
	bool failed;
	bool complete;
	uint64_t begun_ns;
	uint8_t key[TIMING_KEY_BYTES]; /* the item may be gone by then */
	uint64_t report_ns; /* when to tell of a lock in its way */
	uint64_t complete_ns;
};

int pulls_init(struct pulls *s, const struct request_parts *parts)
{
	s->parts = *parts;
	s->free = NULL;
	s->free_count = PULLS;
	s->all = aligned_alloc(_Alignof(struct pull), PULLS * sizeof *s->all);
	if (!s->all)
		return ENOMEM;
	memset(s->all, 0, PULLS * sizeof *s->all);
	for (unsigned i = 0; i < PULLS; i++) {
		s->all[i].next = s->free;
		s->free = &s->all[i];
	}
	return 0;
}

void pulls_fini(struct pulls *s)
{
	free(s->all);
}

struct sendq *pull_sendq(const struct pull *p)
{
	return p->to;
}

static void pull_free(struct pulls *s, struct pull *p)
{
	p->to->pulls--;
	p->to = NULL;
	p->next = s->free;
	s->free = p;
	s->free_count++;
}

/* Answers and ends.  Caller: has seen that there is a tx buffer. */
static void finish(struct pulls *s, struct pull *p, enum wire_status status,
		   const struct store_result *r)
{
	reply_answer_result(s->parts.tx, p->to, &p->request, status, r);
	timing_note(s->parts.timings, p->to->peer, &p->request, p->key, p->begun_ns);
	pull_free(s, p);
}

static void abandon(struct pulls *s, struct pull *p)
{
	store_item_delete(s->parts.store, p->item);
	pull_free(s, p);
}

static uint8_t *value_of(const struct pull *p)
{
	return p->item->data + p->request.key_bytes;
}

/* It is in somebody's way: tried again, but not for ever. */
static void wait_more(struct pulls *s, struct pull *p, uint64_t now)
{
	if (now - p->complete_ns <= WAIT_NS_MAX) {
		deferred_report(s->parts.server->locker, s->parts.store->blocked, &p->report_ns, now);
		return;
	}
	store_item_delete(s->parts.store, p->item);
	finish(s, p, WIRE_EBUSY, &(struct store_result){ .bucket = ~0ull });
}

static void apply(struct pulls *s, struct pull *p)
{
	const struct wire_request *q = &p->request;
	bool joins = compute_joins((enum wire_op)q->op);
	struct store_result r = { 0 };
	struct compute x;
	struct store_change c = {
		.hash = hash_key(s->parts.server->table->hash_seed, p->item->data, q->key_bytes),
		.key = p->item->data,
		.key_bytes = q->key_bytes,
		.value = value_of(p),
		.value_bytes = q->value_bytes,
		.item = joins ? NULL : p->item,
		.token = q->token,
		.with = item_attributes(p->item),
		.version = q->version,
		.flags = q->flags,
		.compute = joins ? &x : NULL,
	};

	if (!server_is_in_reign(s->parts.server, p->to->reign)) {
		store_item_delete(s->parts.store, p->item);
		finish(s, p, WIRE_EELSEWHERE, &(struct store_result){ .bucket = ~0ull });
		return;
	}
	compute_init(&x, q, NULL);
	s->parts.store->blocked = STORE_NOT_BLOCKED;
	int status = store_put(s->parts.store, &c, &r);
	if (status == STORE_ASIDE) {
		wait_more(s, p, clock_ns());
		return;
	}
	if (status == STORE_LONG) {
		if (!rewrites_may_begin(s->parts.rewrites, p->to))
			return; /* after those that are under way */
		rewrites_begin(s->parts.rewrites, p->to, q, p->item, p->begun_ns);
		pull_free(s, p);
		return;
	}
	if (status == STORE_COMMIT) {
		/* The commit has what it needs of the value, and answers. */
		owed_add(s->parts.owed, s->parts.store->commit, p->to, q, p->key, p->begun_ns);
		if (joins)
			store_item_delete(s->parts.store, p->item);
		pull_free(s, p);
		return;
	}
	if (status != WIRE_OK || joins)
		store_item_delete(s->parts.store, p->item);
	finish(s, p, (enum wire_status)status, &r);
}

static uint32_t in_flight(const struct pull *p)
{
	return p->chunks_posted - p->chunks_arrived;
}

static bool post_chunk(struct pulls *s, struct pull *p)
{
	struct sendq *c = p->to;
	struct wire_segment *from = &p->segment[p->first];
	uint64_t max = s->parts.rail->limits.message_bytes_max;
	uint64_t bytes = max < CHUNK_BYTES_MAX ? max : CHUNK_BYTES_MAX;
	struct ibv_send_wr *bad;

	bytes = from->bytes < bytes ? from->bytes : bytes;
	struct ibv_sge sge = { .addr = (uintptr_t)(value_of(p) + p->posted),
			       .length = (uint32_t)bytes,
			       .lkey = atomic_load(&s->parts.server->table->lkey[s->parts.rail->number]) };
	struct ibv_send_wr wr = {
		.wr_id = wr_pack(p, WR_PULL, c->unsignaled + 1),
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_READ,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = from->addr, .rkey = from->rkey },
	};
	if (ibv_post_send(c->qp, &wr, &bad)) {
		p->failed = true;
		return false;
	}
	c->unsignaled = 0;
	c->reads++;
	sendq_wait(c);
	p->posted += bytes;
	p->chunk_bytes[p->chunks_posted++ % WINDOW] = (uint32_t)bytes;
	from->addr += bytes;
	from->bytes -= bytes;
	p->first += !from->bytes;
	return true;
}

static bool may_post(const struct pull *p)
{
	const struct sendq *c = p->to;

	return !p->failed && !c->closing && p->posted < p->request.value_bytes &&
	       in_flight(p) < WINDOW && c->reads < SENDQ_PULL_READS;
}

static void advance(struct pulls *s, struct pull *p)
{
	while (may_post(p))
		if (!post_chunk(s, p))
			break;
	if (in_flight(p))
		return;
	if (p->to->closing) {
		abandon(s, p);
		return;
	}
	if (p->failed) {
		conn_close(p->to->conn, "reading the value of a PUT from its memory failed");
		abandon(s, p);
		return;
	}
	if (p->posted < p->request.value_bytes || !s->parts.tx->free)
		return; /* no room to go on: pulls_retry() */
	if (!p->complete) {
		if (hash_bytes_end(&p->hash) != p->request.value_checksum) {
			store_item_delete(s->parts.store, p->item);
			finish(s, p, WIRE_EPULL, &(struct store_result){ .bucket = ~0ull });
			return;
		}
		store_item_hash_value(p->item, p->request.value_checksum);
		p->complete = true;
		p->complete_ns = clock_ns();
		p->report_ns = p->complete_ns + REPORT_FIRST_NS;
	}
	apply(s, p);
}

/* Takes the segments, which are not aligned; false if they don't add up. */
static bool take_segments(struct pull *p, const void *segments)
{
	uint64_t left = p->request.value_bytes;

	memcpy(p->segment, segments, p->request.segments * sizeof p->segment[0]);
	for (uint32_t i = 0; i < p->request.segments; i++) {
		if (!p->segment[i].bytes || p->segment[i].bytes > left)
			return false;
		left -= p->segment[i].bytes;
	}
	return left == 0;
}

static enum request_fate refuse(struct pulls *s, struct sendq *to, const struct wire_request *q,
				enum wire_status status)
{
	reply_answer(s->parts.tx, to, q, status);
	return REQUEST_DONE;
}

static int make_item(struct pulls *s, struct pull *p, const uint8_t *key)
{
	const struct wire_request *q = &p->request;
	struct layout_attributes with = request_attributes(s->parts.server->store, q);
	int status = WIRE_EMEMORY;
	unsigned tries = 0;

	do
		p->item = store_item_new(s->parts.store, key, q->key_bytes, q->value_bytes, &with);
	while (!p->item && store_make_room(s->parts.store, (struct hash){ 0 }, tries++, &status));
	return p->item ? WIRE_OK : status;
}

enum request_fate pull_start(struct pulls *s, struct sendq *to,
			     const struct wire_request *q, const uint8_t *key,
			     const void *segments)
{
	struct pull *p = s->free;

	if (to->pulls >= s->free_count || !s->parts.tx->free)
		return REQUEST_ASIDE;
	p->request = *q;
	if (!take_segments(p, segments))
		return refuse(s, to, q, WIRE_EINVALID);
	int status = make_item(s, p, key);
	if (status != WIRE_OK)
		return status == STORE_ASIDE ? REQUEST_ASIDE
					     : refuse(s, to, q, (enum wire_status)status);
	s->free = p->next;
	s->free_count--;
	p->to = to;
	p->begun_ns = timing_take(s->parts.timings);
	if (p->begun_ns)
		memcpy(p->key, key, q->key_bytes < sizeof p->key ? q->key_bytes : sizeof p->key);
	p->first = 0;
	p->posted = p->arrived = 0;
	p->chunks_posted = p->chunks_arrived = 0;
	p->failed = p->complete = false;
	hash_bytes_begin(&p->hash);
	to->pulls++;
	stats_add(&s->parts.stats->pulls, 1);
	stats_add(&s->parts.stats->pull_bytes, q->value_bytes);
	advance(s, p);
	return REQUEST_DONE;
}

/* READs of one queue pair complete in the order in which they were posted. */
static void arrived(struct pull *p)
{
	uint32_t bytes = p->chunk_bytes[p->chunks_arrived % WINDOW];

	hash_add(&p->hash, value_of(p) + p->arrived, bytes);
	p->arrived += bytes;
}

void pull_completed(struct pulls *s, struct pull *p, const struct ibv_wc *wc)
{
	if (wc->status == IBV_WC_SUCCESS) {
		arrived(p);
	} else {
		if (wc->status != IBV_WC_WR_FLUSH_ERR)
			log_limited(LOG_LEVEL_WARN, "READ of a value from a client failed",
				    "READ of a value from %s failed: %s (vendor error 0x%x)",
				    p->to->peer, ibv_wc_status_str(wc->status), wc->vendor_err);
		p->failed = true;
	}
	p->chunks_arrived++;
	p->to->reads--;
	sendq_waited(p->to);
	advance(s, p);
}

void pulls_forget(struct pulls *s, const struct sendq *to)
{
	for (unsigned i = 0; i < PULLS; i++)
		if (s->all[i].to == to)
			abandon(s, &s->all[i]);
}

/* A worker asks in each round: where nothing is pulled that is one look. */
static bool pulls_any(const struct pulls *s)
{
	return s->free_count < PULLS;
}

void pulls_retry(struct pulls *s)
{
	for (unsigned i = 0; pulls_any(s) && i < PULLS; i++)
		if (s->all[i].to && !in_flight(&s->all[i]))
			advance(s, &s->all[i]);
}

bool pulls_waiting(const struct pulls *s)
{
	for (unsigned i = 0; pulls_any(s) && i < PULLS; i++)
		if (s->all[i].to && !in_flight(&s->all[i]))
			return true;
	return false;
}
