/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The short way of a GET that waits, and of one behind a lock.
 *
 * Nothing else is in flight, and the mirror knows the item: its READ is posted and polled
 * for right here, into the memory of the operation that would be next, and what it brings
 * is verified and copied out.  That makes no operation, asks no clock and is less than
 * half of the ordinary way's instructions.
 *
 * Whatever isn't so goes the ordinary way: from the beginning, if nothing was posted; from
 * the READ, if it takes long, fails, or brings anything but the key's live item.
 */
#include <string.h>

#include "client/get/get.h"
#include "client/get/lookup.h"
#include "client/op/session.h"

/* Of both ways, and in each of them: the calls would be a tenth of it all. */
#define HOT static inline __attribute__((always_inline))

/* As long as a READ takes where it doesn't wait for anything. */
#define POLLS 256u

/* What is posted: the item's READ, and a compare-and-swap before it if `locks`. */
struct post {
	bool locks;
	uint64_t stripe, token;
	uint64_t word; /* of the index */
	uint64_t offset;
	uint32_t bytes;
	unsigned complete; /* of them */
};

HOT bool is_quiet(const struct kvd_session *s)
{
	const struct kvd_options *o = &s->client->options;

	return !s->in_flight && !s->done && !s->wr_count && s->connected && !s->broken &&
	       o->get != KVD_GET_MESSAGE && o->poll != KVD_POLL_EVENT;
}

/* Whether the mirror knows the key's item, and it is one to be READ as a whole and copied. */
HOT bool find(struct kvd_session *s, const void *key, size_t key_bytes, struct post *p)
{
	p->word = lookup_known(&s->table, key, key_bytes);
	if (!p->word)
		return false;
	uint64_t bytes = layout_len_decode(layout_word_len_code(p->word));
	p->offset = layout_word_offset(p->word, s->table.unit_mask);
	p->bytes = (uint32_t)bytes;
	if (bytes >= SCATTER_BYTES_MIN && buffers_any(s->registrar.buffers))
		return false; /* it may go straight into the caller's memory */
	return bytes >= sizeof(struct layout_item) && bytes <= OP_ITEM_BYTES &&
	       p->offset + bytes <= s->table.welcome.table_bytes;
}

/* The operations that these would be the work requests of. */
HOT struct op *lock_op(const struct kvd_session *s)
{
	return s->free_ops;
}

HOT struct op *read_op(const struct kvd_session *s, const struct post *p)
{
	return p->locks ? s->free_ops->next : s->free_ops;
}

HOT void fill_cas(struct kvd_session *s, const struct post *p, struct ibv_send_wr *wr,
		     struct ibv_sge *sge)
{
	*sge = (struct ibv_sge){ (uintptr_t)lock_op(s)->memory->small, 8, s->memory_mr->lkey };
	*wr = (struct ibv_send_wr){ .wr_id = flight_wr_id(s, lock_op(s), true), .sg_list = sge,
				    .num_sge = 1, .opcode = IBV_WR_ATOMIC_CMP_AND_SWP,
				    .send_flags = IBV_SEND_SIGNALED, .next = wr + 1 };
	wr->wr.atomic.remote_addr = s->table.welcome.lock_addr + p->stripe * 8;
	wr->wr.atomic.rkey = s->table.welcome.lock_rkey;
	wr->wr.atomic.swap = p->token;
	s->counters.atomics++;
}

HOT void fill_read(struct kvd_session *s, const struct post *p, struct ibv_send_wr *wr,
		      struct ibv_sge *sge)
{
	struct op *op = read_op(s, p);

	*sge = (struct ibv_sge){ (uintptr_t)op->memory->item, p->bytes, s->memory_mr->lkey };
	*wr = (struct ibv_send_wr){ .wr_id = flight_wr_id(s, op, true), .sg_list = sge,
				    .num_sge = 1, .opcode = IBV_WR_RDMA_READ,
				    .send_flags = IBV_SEND_SIGNALED };
	wr->wr.rdma.remote_addr = s->table.welcome.table_addr + p->offset;
	wr->wr.rdma.rkey = s->table.welcome.table_rkey;
	s->counters.gets++;
	s->counters.reads++;
	s->counters.round_trips++;
	s->counters.read_bytes += p->bytes;
}

/* False: the session is broken by that. */
HOT bool post(struct kvd_session *s, struct post *p)
{
	struct ibv_send_wr wr[2], *bad, *first = &wr[!p->locks];
	struct ibv_sge sge[2];

	if (p->locks)
		fill_cas(s, p, &wr[0], &sge[0]);
	fill_read(s, p, &wr[1], &sge[1]);
	s->unsignaled = 0;
	p->complete = 0;
	int rc = ibv_post_send(s->qp, first, &bad);
	if (rc)
		session_fail(s, KVD_ECONNECT, "posting to %s failed: %s", s->client->addr.text,
			     strerror(rc));
	return !rc;
}

/* Whether all is complete; others' completions are taken on the way. */
HOT bool await(struct kvd_session *s, struct post *p)
{
	struct ibv_wc wc;
	uint64_t before = s->sq_posted - 1 - p->locks;

	for (unsigned i = 0; i < POLLS && !s->broken; i++) {
		int n = ibv_poll_cq(s->cq, 1, &wc);
		if (n == 0)
			continue;
		if (n < 0)
			return false; /* the ordinary way meets the same, and says it */
		if (wc.status != IBV_WC_SUCCESS || wc.wr_id >> 17 <= before) {
			flight_completed(s, &wc, 1);
			continue;
		}
		s->sq_done = wc.wr_id >> 17;
		p->complete++;
		if (s->sq_done == s->sq_posted)
			return true;
	}
	return false;
}

/* As verify_item(), of the one kind that is of use here. */
HOT bool is_live(const struct layout_item *item, const struct post *p, const void *key,
		    size_t key_bytes)
{
	uint64_t bytes = layout_item_bytes(key_bytes, layout_value_bytes(item->lengths));

	return layout_state_kind(item->state) == LAYOUT_LIVE &&
	       !(p->locks && (item->state & LAYOUT_PENDING)) &&
	       layout_key_bytes(item->lengths) == key_bytes && bytes <= p->bytes &&
	       !memcmp(item->data, key, key_bytes) &&
	       hash_item(item, bytes, layout_state_version(item->state), p->offset) ==
		       item->checksum;
}

/* When the call began, nobody has looked: an item is surely alive, or not known to be. */
HOT bool is_in_time(const struct kvd_session *s, const struct layout_item *item)
{
	return !item->expiry_ms ||
	       clock_judge(&s->table.clock, item->expiry_ms, 0, clock_ns()) == CLOCK_LIVE;
}

HOT int deliver(struct kvd_session *s, const struct layout_item *item, const struct post *p,
		   size_t key_bytes, const struct iovec *to, struct got *got)
{
	uint64_t bytes = layout_value_bytes(item->lengths);

	s->counters.mirror_hits++;
	*got = (struct got){ .bytes = bytes, .version = layout_state_version(item->state) };
	if (bytes <= to->iov_len)
		memcpy(to->iov_base, item->data + key_bytes, bytes);
	if (s->hints)
		hints_note(s, p->word);
	if (s->wr_count)
		flight_flush(s); /* it has told them */
	return bytes <= to->iov_len ? KVD_OK : KVD_ESPACE;
}

static struct op *make_get(struct kvd_session *s, const void *key, size_t key_bytes,
			   const struct iovec *to)
{
	struct op *op = op_new(s, &get_class, key, key_bytes);

	pieces_set(&op->value, to, 1);
	return op;
}

enum quick quick_get(struct kvd_session *s, const void *key, size_t key_bytes,
		     const struct iovec *to, struct got *got, struct op **op, int *result)
{
	struct post p = { .locks = false };

	if (!is_quiet(s) || !key || !key_bytes || key_bytes > LAYOUT_KEY_BYTES_MAX ||
	    !to->iov_len || !find(s, key, key_bytes, &p) || !post(s, &p))
		return QUICK_NOT;
	bool complete = await(s, &p);
	const struct layout_item *item = (const struct layout_item *)read_op(s, &p)->memory->item;
	if (!complete || !is_live(item, &p, key, key_bytes)) {
		*op = make_get(s, key, key_bytes, to);
		get_resume(*op, GET_PLAIN, p.word, p.bytes, complete);
		return QUICK_BEGUN;
	}
	if (!is_in_time(s, item)) {
		s->counters.gets--;
		return QUICK_NOT;
	}
	*result = deliver(s, item, &p, key_bytes, to, got);
	return QUICK_DONE;
}

enum quick quick_lock_get(struct kvd_session *s, const void *key, size_t key_bytes,
			  uint64_t stripe, uint64_t token, const struct iovec *to,
			  struct quick_lock *q)
{
	struct post p = { .locks = true, .stripe = stripe, .token = token };

	if (!is_quiet(s) || !to->iov_len || !find(s, key, key_bytes, &p) || !post(s, &p))
		return QUICK_NOT;
	if (!await(s, &p)) {
		q->cas = stripe_resume(s, stripe, token, p.complete);
		q->read = make_get(s, key, key_bytes, to);
		get_resume(q->read, GET_LOCKED, p.word, p.bytes, false);
		return QUICK_BEGUN;
	}
	const struct layout_item *item = (const struct layout_item *)read_op(s, &p)->memory->item;
	q->won = lock_op(s)->memory->small[0] == 0;
	q->has_value = q->won && is_live(item, &p, key, key_bytes) && is_in_time(s, item);
	if (q->has_value)
		q->result = deliver(s, item, &p, key_bytes, to, &q->got);
	else
		s->counters.gets--; /* there will be another */
	return QUICK_DONE;
}
