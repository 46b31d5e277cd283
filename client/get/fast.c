/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The short way of a GET that waits, and of one behind a lock.
 *
 * Nothing else is in flight, and the mirror knows the item: its READ is posted and polled
 * for right here, into the memory of the operation that would be next, and what it brings
 * is verified and copied out.  That makes no operation, asks no clock (but in a cluster) and is
 * less than half of the ordinary way's instructions.
 *
 * Whatever isn't so goes the ordinary way: from the beginning, if nothing was posted; from
 * the READ, if it takes long, fails, or brings anything but the key's live item.
 */
#include "client/get/fast.h"

#include <string.h>

#include "client/get/get.h"
#include "client/get/lookup.h"
#include "client/op/engine.h"
#include "client/op/hints.h"
#include "client/op/lockword.h"
#include "client/op/look.h"
#include "client/op/operation.h"
#include "client/op/operation_impl.h"
#include "client/op/poll.h"
#include "client/op/post.h"

/* Of both ways, and in each of them: the calls would be a tenth of it all. */
#define HOT static inline __attribute__((always_inline))

/* As long as a READ takes where it doesn't wait for anything. */
#define POLLS 256u
#define AWAY_GETS 1024u

/* What is posted: the item's READ, and a compare-and-swap before it if `locks`. */
struct post {
	bool locks;
	uint64_t stripe, token;
	uint64_t word; /* of the index */
	uint64_t offset;
	uint32_t bytes;
	uint64_t reign;    /* in which alone it counts */
	unsigned complete; /* of them */
};

/* Not where it belongs: now and then the ordinary way looks whether it may go there. */
static __attribute__((noinline)) bool stays_away(struct engine *e)
{
	return ++e->away_gets % AWAY_GETS;
}

HOT bool is_quiet(struct engine *e)
{
	const struct kvd_options *o = e->options;

	return !e->in_flight && !e->done && !e->wr_count && health_is_good(&e->health) &&
	       e->get != KVD_GET_MESSAGE && o->poll != KVD_POLL_EVENT &&
	       (!e->home_ns || stays_away(e));
}

/* Whether the mirror knows the key's item, and it is one to be READ as a whole and copied. */
HOT bool find(struct engine *e, struct hash hash, struct post *p)
{
	p->word = lookup_known(&e->table, hash);
	if (!p->word)
		return false;
	uint64_t bytes = layout_len_decode(layout_word_len_code(p->word));
	p->offset = layout_word_offset(p->word, e->table.unit_mask);
	p->bytes = (uint32_t)bytes;
	if (bytes >= SCATTER_BYTES_MIN && buffers_any(e->registrar.buffers))
		return false; /* it may go straight into the caller's memory */
	return bytes >= sizeof(struct layout_item) && bytes <= OP_ITEM_BYTES &&
	       p->offset + bytes <= e->table.welcome.table_bytes;
}

/* The operations that these would be the work requests of. */
HOT struct op *lock_op(const struct engine *e)
{
	return e->free_ops;
}

HOT struct op *read_op(const struct engine *e, const struct post *p)
{
	return p->locks ? e->free_ops->next : e->free_ops;
}

HOT void fill_cas(struct engine *e, const struct post *p, struct ibv_send_wr *wr,
		  struct ibv_sge *sge)
{
	*sge = (struct ibv_sge){ (uintptr_t)lock_op(e)->memory->small, 8, e->memory_mr->lkey };
	*wr = (struct ibv_send_wr){ .wr_id = engine_wr_id(e, lock_op(e)->index, true),
				    .sg_list = sge,
				    .num_sge = 1,
				    .opcode = IBV_WR_ATOMIC_CMP_AND_SWP,
				    .send_flags = IBV_SEND_SIGNALED,
				    .next = wr + 1 };
	wr->wr.atomic.remote_addr = e->table.welcome.lock_addr + p->stripe * 8;
	wr->wr.atomic.rkey = e->table.welcome.lock_rkey;
	wr->wr.atomic.swap = p->token;
	e->counters.atomics++;
}

HOT void fill_read(struct engine *e, const struct post *p, struct ibv_send_wr *wr,
		   struct ibv_sge *sge)
{
	struct op *op = read_op(e, p);

	*sge = (struct ibv_sge){ (uintptr_t)op->memory->item, p->bytes, e->memory_mr->lkey };
	*wr = (struct ibv_send_wr){ .wr_id = engine_wr_id(e, op->index, true),
				    .sg_list = sge,
				    .num_sge = 1,
				    .opcode = IBV_WR_RDMA_READ,
				    .send_flags = IBV_SEND_SIGNALED };
	wr->wr.rdma.remote_addr = e->table.welcome.table_addr + p->offset;
	wr->wr.rdma.rkey = e->table.welcome.table_rkey;
	e->counters.gets++;
	e->counters.reads++;
	e->counters.round_trips++;
	e->counters.read_bytes += p->bytes;
}

/* False: the session is broken by that. */
HOT bool post(struct engine *e, struct post *p)
{
	struct ibv_send_wr wr[2], *bad, *first = &wr[!p->locks];
	struct ibv_sge sge[2];

	if (p->locks)
		fill_cas(e, p, &wr[0], &sge[0]);
	fill_read(e, p, &wr[1], &sge[1]);
	e->unsignaled = 0;
	p->complete = 0;
	p->reign = grant_reign(&e->table.grant);
	e->counters.doorbells++;
	int rc = ibv_post_send(e->qp, first, &bad);
	if (rc)
		health_fail(&e->health, KVD_ECONNECT, "posting to %s failed: %s", e->health.peer,
			    strerror(rc));
	return !rc;
}

/* Whether all is complete; others' completions are taken on the way. */
HOT bool await(struct engine *e, struct post *p)
{
	struct ibv_wc wc;
	uint64_t before = e->sq_posted - 1 - p->locks;

	for (unsigned i = 0; i < POLLS && !e->health.broken; i++) {
		int n = ibv_poll_cq(e->cq, 1, &wc);
		if (n == 0)
			continue;
		if (n < 0)
			return false; /* the ordinary way meets the same, and says it */
		if (wc.status != IBV_WC_SUCCESS || wc.wr_id >> 17 <= before) {
			engine_completed(e, &wc, 1);
			continue;
		}
		e->sq_done = wc.wr_id >> 17;
		p->complete++;
		if (e->sq_done == e->sq_posted)
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
HOT bool is_in_time(const struct engine *e, const struct layout_item *item)
{
	uint64_t expiry_ms = layout_expiry_ms(item->expiry);

	if (!expiry_ms)
		return true;
	uint64_t boot_ns = clock_read_ns(CLOCK_BOOTTIME), now_ns = clock_ns();
	return !clock_slept(&e->table.clock, boot_ns, now_ns) &&
	       clock_judge(&e->table.clock, expiry_ms, 0, now_ns) == CLOCK_LIVE;
}

HOT bool counts(struct engine *e, const struct post *p)
{
	return !e->table.grant.is_needed || look_counts(e, p->reign);
}

HOT int deliver(struct engine *e, const struct layout_item *item, const struct post *p,
		size_t key_bytes, const struct iovec *to, struct got *got)
{
	uint64_t bytes = layout_value_bytes(item->lengths);

	e->counters.mirror_hits++;
	*got = (struct got){ .bytes = bytes,
			     .version = layout_state_version(item->state),
			     .lengths = item->lengths,
			     .expiry = item->expiry };
	if (bytes <= to->iov_len) {
		memcpy(to->iov_base, item->data + key_bytes, bytes);
		e->counters.copied_bytes += bytes;
	}
	if (e->hints)
		hints_note(e, p->word);
	if (e->wr_count)
		engine_flush(e); /* it has told them */
	return bytes <= to->iov_len ? KVD_OK : KVD_ESPACE;
}

static struct op *make_get(struct engine *e, const void *key, size_t key_bytes,
			   const struct iovec *to)
{
	struct op *op = op_new(e, &get_class, key, key_bytes);

	op_set_value(op, to, 1);
	return op;
}

enum fast fast_get(struct engine *e, const void *key, size_t key_bytes, const struct iovec *to,
		   struct got *got, struct op **op, int *result)
{
	struct post p = { .locks = false };

	if (!is_quiet(e) || !key || !key_bytes || key_bytes > LAYOUT_KEY_BYTES_MAX ||
	    !to->iov_len || !find(e, hash_key(e->table.welcome.hash_seed, key, key_bytes), &p) ||
	    !post(e, &p))
		return FAST_NOT;
	bool complete = await(e, &p);
	const struct layout_item *item = (const struct layout_item *)read_op(e, &p)->memory->item;
	if (!complete || !is_live(item, &p, key, key_bytes) || !counts(e, &p)) {
		*op = make_get(e, key, key_bytes, to);
		get_resume(*op, GET_PLAIN, p.word, p.bytes, p.reign, complete);
		return FAST_BEGUN;
	}
	if (!is_in_time(e, item)) {
		e->counters.gets--;
		return FAST_NOT;
	}
	*result = deliver(e, item, &p, key_bytes, to, got);
	return FAST_DONE;
}

enum fast fast_lock_get(struct engine *e, const void *key, size_t key_bytes, struct hash hash,
			uint64_t token, const struct iovec *to, struct fast_lock *q)
{
	struct post p = { .locks = true, .token = token,
			  .stripe = layout_stripe(hash.b, e->table.welcome.stripes) };

	if (!is_quiet(e) || !to->iov_len || !find(e, hash, &p) || !post(e, &p))
		return FAST_NOT;
	if (!await(e, &p)) {
		q->cas = stripe_resume(e, p.complete);
		q->read = make_get(e, key, key_bytes, to);
		get_resume(q->read, GET_LOCKED, p.word, p.bytes, p.reign, false);
		return FAST_BEGUN;
	}
	const struct layout_item *item = (const struct layout_item *)read_op(e, &p)->memory->item;
	q->was_free = lock_op(e)->memory->small[0] == 0;
	q->won = q->was_free && counts(e, &p);
	q->has_value = q->won && is_live(item, &p, key, key_bytes) && is_in_time(e, item);
	if (q->has_value)
		q->result = deliver(e, item, &p, key_bytes, to, &q->got);
	else
		e->counters.gets--; /* there will be another */
	return FAST_DONE;
}
