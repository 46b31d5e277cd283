/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/api/raw.h"

#include <string.h>

#include "client/again/ready.h"
#include "client/get/lookup.h"
#include "client/op/engine.h"
#include "client/op/operation.h"
#include "client/op/poll.h"
#include "client/op/request.h"
#include "client/session/session.h"
#include "client/session/wait.h"

#define LOOK_EVERY 65536u

/* Unlocks that nobody waits for end first: their cost is not the verb's. */
static int be_idle(struct kvd_session *s)
{
	const struct engine *e = session_engine(s);
	int rc = session_alone(s);

	while (!rc && e->in_flight) /* for no longer than their deadlines */
		session_poll(s, UINT64_MAX);
	return rc ? rc : session_ready(s);
}

/* A work request more, of `bytes` to or from `to`. */
static struct ibv_send_wr *add(struct session_raw *raw, enum ibv_wr_opcode opcode, void *to,
			       uint32_t bytes, uint32_t lkey)
{
	unsigned i = raw->count++;

	raw->sge[i] = (struct ibv_sge){ (uintptr_t)to, bytes, lkey };
	raw->wr[i] = (struct ibv_send_wr){ .num_sge = 1, .opcode = opcode };
	return &raw->wr[i];
}

static void add_read(struct session_raw *raw, uint64_t offset, void *to, uint32_t bytes,
		     uint32_t lkey)
{
	const struct wire_welcome *w = &session_engine(raw->session)->table.welcome;
	struct ibv_send_wr *wr = add(raw, IBV_WR_RDMA_READ, to, bytes, lkey);

	wr->wr.rdma.remote_addr = w->table_addr + offset;
	wr->wr.rdma.rkey = w->table_rkey;
}

static void begin(struct session_raw *raw, struct kvd_session *s)
{
	raw->session = s;
	raw->op = NULL;
	raw->mr = NULL;
	raw->count = 0;
}

static int add_item(struct session_raw *raw, const void *key, size_t key_bytes)
{
	struct engine *e = session_engine(raw->session);
	uint64_t word = lookup_known(&e->table, hash_key(e->table.welcome.hash_seed, key, key_bytes));

	if (!word)
		return KVD_NOT_FOUND;
	uint64_t offset = layout_word_offset(word, e->table.unit_mask);
	uint64_t bytes = layout_len_decode(layout_word_len_code(word));
	if (bytes > OP_ITEM_BYTES || offset + bytes > e->table.welcome.table_bytes)
		return KVD_ETOOBIG;
	add_read(raw, offset, ops_next_memory(e)->item, (uint32_t)bytes, e->memory_mr->lkey);
	return KVD_OK;
}

static void add_cas(struct session_raw *raw, const void *key, size_t key_bytes)
{
	struct engine *e = session_engine(raw->session);
	const struct wire_welcome *w = &e->table.welcome;
	uint64_t stripe = layout_stripe(hash_key(w->hash_seed, key, key_bytes).b, w->stripes);
	struct ibv_send_wr *wr = add(raw, IBV_WR_ATOMIC_CMP_AND_SWP, ops_next_memory(e)->small, 8,
				     e->memory_mr->lkey);

	wr->wr.atomic.remote_addr = w->lock_addr + stripe * 8;
	wr->wr.atomic.rkey = w->lock_rkey;
	wr->wr.atomic.compare_add = wr->wr.atomic.swap = 0;
}

int session_raw_read(kvd_session *s, const void *key, size_t key_bytes, struct session_raw *raw)
{
	int rc = be_idle(s);

	begin(raw, s);
	return rc ? rc : add_item(raw, key, key_bytes);
}

int session_raw_cas(kvd_session *s, const void *key, size_t key_bytes, struct session_raw *raw)
{
	int rc = be_idle(s);

	begin(raw, s);
	if (!rc)
		add_cas(raw, key, key_bytes);
	return rc;
}

int session_raw_lock_read(kvd_session *s, const void *key, size_t key_bytes,
			  struct session_raw *raw)
{
	int rc = session_raw_cas(s, key, key_bytes, raw);

	return rc ? rc : add_item(raw, key, key_bytes);
}

int session_raw_read_long(kvd_session *s, const void *key, size_t key_bytes, size_t value_bytes,
			  void *buffer, size_t buffer_bytes, struct session_raw *raw)
{
	struct engine *e = session_engine(s);
	uint64_t bytes = layout_item_bytes((unsigned)key_bytes, value_bytes), at = 0, max, word;
	int rc = be_idle(s);

	begin(raw, s);
	if (rc)
		return rc;
	word = lookup_known(&e->table, hash_key(e->table.welcome.hash_seed, key, key_bytes));
	if (!word)
		return KVD_NOT_FOUND;
	max = e->message_bytes_max;
	if (bytes > buffer_bytes || (bytes + max - 1) / max > SESSION_RAW_MAX ||
	    layout_word_offset(word, e->table.unit_mask) + bytes > e->table.welcome.table_bytes)
		return KVD_ETOOBIG;
	raw->mr = e->registrar.verbs->reg_mr(e->registrar.pd, buffer, buffer_bytes,
					     IBV_ACCESS_LOCAL_WRITE);
	if (!raw->mr)
		return err_set(&e->health.err, KVD_EDEVICE, "can't register %zu bytes",
			       buffer_bytes);
	for (; at < bytes; at += max)
		add_read(raw, layout_word_offset(word, e->table.unit_mask) + at,
			 (char *)buffer + at, (uint32_t)(bytes - at < max ? bytes - at : max),
			 raw->mr->lkey);
	return KVD_OK;
}

void session_raw_end(struct session_raw *raw)
{
	if (raw->mr)
		session_engine(raw->session)->registrar.verbs->dereg_mr(raw->mr);
	raw->mr = NULL;
}

int session_raw_message(kvd_session *s, size_t key_bytes, size_t value_bytes,
			struct session_raw *raw)
{
	struct engine *e = session_engine(s);
	size_t bytes = key_bytes + value_bytes;
	int rc = be_idle(s);

	if (rc)
		return rc;
	if (sizeof(struct wire_request) + bytes > WIRE_MESSAGE_BYTES_MAX)
		return KVD_ETOOBIG;
	begin(raw, s);
	const struct iovec value = { ops_next_memory(e)->item, bytes };
	const struct kvd_counters counters = e->counters;
	raw->op = op_new(e, &call_class, NULL, 0);
	rc = request_start(raw->op, &(struct wire_request){ .op = WIRE_PING }, &value, 1);
	e->counters = counters;
	return rc;
}

/* Polls until the READ or atomic, which is the last work request, is complete. */
static int await_read(struct engine *e)
{
	uint64_t deadline = clock_ns() + e->time.limit_ns;
	struct ibv_wc wc;

	for (unsigned polls = 1; e->sq_done != e->sq_posted; polls++) {
		int n = ibv_poll_cq(e->cq, 1, &wc);
		if (n < 0 || (n > 0 && wc.status != IBV_WC_SUCCESS))
			return health_fail(&e->health, KVD_ECONNECT, "a raw request to %s failed",
					   e->health.peer);
		if (n > 0)
			engine_completed(e, &wc, 1); /* or it is a notice of kvd's */
		if (e->health.broken)
			return e->health.broken_code;
		if (n == 0 && polls % LOOK_EVERY == 0 && clock_ns() > deadline)
			return health_fail(&e->health, KVD_ETIMEDOUT,
					   "%s did not answer a raw request", e->health.peer);
	}
	return KVD_OK;
}

int session_raw_run(struct session_raw *raw)
{
	struct engine *e = session_engine(raw->session);
	const struct outcome *out;
	struct ibv_send_wr *bad;

	if (raw->op)
		return session_run(raw->session, raw->op, &out);
	e->unsignaled = 0;
	for (unsigned i = 0; i < raw->count; i++) {
		raw->wr[i].sg_list = &raw->sge[i];
		raw->wr[i].wr_id = engine_wr_id(e, 0, false);
		raw->wr[i].next = i + 1 < raw->count ? &raw->wr[i + 1] : NULL;
	}
	raw->wr[raw->count - 1].send_flags = IBV_SEND_SIGNALED;
	if (ibv_post_send(e->qp, raw->wr, &bad))
		return health_fail(&e->health, KVD_ECONNECT, "posting a raw request to %s failed",
				   e->health.peer);
	return await_read(e);
}
