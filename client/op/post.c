/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * wr_id: bit 0..15 the operation, 16 set if it waits for this (a GET's READ, a SEND
 * from the caller's memory), 17..63 how many work requests were posted up to this
 * one, which are all complete when this one is.
 */
#include "client/op/post.h"

#include <string.h>

#include "client/op/engine.h"
#include "client/op/operation.h"
#include "client/op/operation_impl.h"

#define SIGNAL_EVERY 16u

uint32_t engine_room(const struct engine *e)
{
	return e->sq_depth - (uint32_t)(e->sq_posted - e->sq_done);
}

static struct ibv_send_wr *new_wr(struct engine *e, uint32_t index, bool awaited, bool signal)
{
	struct ibv_send_wr *wr = &e->wr[e->wr_count];

	*wr = (struct ibv_send_wr){
		.wr_id = engine_wr_id(e, index, awaited),
		.sg_list = e->sge + (size_t)e->wr_count * e->sge_max,
		.num_sge = 1,
		.send_flags = signal ? IBV_SEND_SIGNALED : 0,
	};
	if (e->wr_count)
		e->wr[e->wr_count - 1].next = wr;
	e->wr_count++;
	e->unsignaled = signal ? 0 : e->unsignaled + 1;
	return wr;
}

static void new_read(struct op *op, uint64_t remote, uint32_t rkey, uint32_t bytes, bool last,
		     struct ibv_send_wr **wr)
{
	struct engine *e = op->engine;

	*wr = new_wr(e, op->index, true, last);
	(*wr)->opcode = IBV_WR_RDMA_READ;
	(*wr)->wr.rdma.remote_addr = remote;
	(*wr)->wr.rdma.rkey = rkey;
	e->counters.round_trips += last && !op->reads;
	op->reads += last;
	e->counters.reads++;
	e->counters.read_bytes += bytes;
}

void op_read(struct op *op, uint64_t remote, uint32_t rkey, void *to, uint32_t bytes, bool last)
{
	struct ibv_send_wr *wr;

	new_read(op, remote, rkey, bytes, last, &wr);
	wr->sg_list[0] = (struct ibv_sge){ (uintptr_t)to, bytes, op->engine->memory_mr->lkey };
}

void engine_read(struct engine *e, uint32_t index, uint64_t remote, void *to, uint32_t bytes)
{
	struct ibv_send_wr *wr = new_wr(e, index, false, true);

	wr->sg_list[0] = (struct ibv_sge){ (uintptr_t)to, bytes, e->memory_mr->lkey };
	wr->opcode = IBV_WR_RDMA_READ;
	wr->wr.rdma.remote_addr = remote;
	wr->wr.rdma.rkey = e->table.welcome.table_rkey;
	e->counters.reads++;
	e->counters.read_bytes += bytes;
}

void op_cas(struct op *op, uint64_t remote, uint32_t rkey, uint64_t expected, uint64_t desired)
{
	struct engine *e = op->engine;
	struct ibv_send_wr *wr = new_wr(e, op->index, true, true);

	wr->sg_list[0] = (struct ibv_sge){ (uintptr_t)op->memory->small, 8, e->memory_mr->lkey };
	wr->opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
	wr->wr.atomic.remote_addr = remote;
	wr->wr.atomic.rkey = rkey;
	wr->wr.atomic.compare_add = expected;
	wr->wr.atomic.swap = desired;
	op->reads++;
	e->counters.atomics++;
}

uint32_t op_read_item(struct op *op, uint64_t remote, uint32_t rkey, uint64_t from,
		      uint32_t head_bytes, uint32_t bytes)
{
	struct engine *e = op->engine;
	struct ibv_send_wr *wr;
	struct ibv_sge sge[SGE_MAX];
	uint32_t head = from < head_bytes ? head_bytes - (uint32_t)from : 0, covered = 0;
	unsigned n = 0;

	if (head > bytes)
		head = bytes;
	if (head)
		sge[n++] = (struct ibv_sge){ (uintptr_t)op->memory->item + from, head,
					     e->memory_mr->lkey };
	if (bytes > head)
		n += pieces_sge(&op->value, from + head - head_bytes, bytes - head, sge + n,
				e->sge_max - n, &covered);
	new_read(op, remote, rkey, head + covered, true, &wr);
	memcpy(wr->sg_list, sge, n * sizeof *sge);
	wr->num_sge = (int)n;
	return head + covered;
}

/*
 * A short value that stands in registered memory is gathered from there, and then
 * the operation ends only after the send has completed too: the memory is the
 * caller's again.
 */
void op_send(struct op *op, uint32_t bytes, bool gather)
{
	struct engine *e = op->engine;
	struct ibv_send_wr *wr = new_wr(e, op->index, gather,
					gather || e->unsignaled + 1 >= SIGNAL_EVERY);
	uint32_t covered = 0;

	wr->sg_list[0] =
		(struct ibv_sge){ (uintptr_t)op->memory->message, bytes, e->memory_mr->lkey };
	if (gather) {
		wr->num_sge += (int)pieces_sge(&op->value, 0, (uint32_t)op->value.bytes,
					       wr->sg_list + 1, e->sge_max - 1, &covered);
		op->reads++;
	}
	wr->opcode = IBV_WR_SEND;
	if (bytes + covered <= e->inline_bytes)
		wr->send_flags |= IBV_SEND_INLINE;
	e->counters.messages++;
	e->counters.message_bytes += bytes + covered;
}

int engine_flush(struct engine *e)
{
	struct ibv_send_wr *bad;

	if (!e->wr_count)
		return 0;
	e->wr_count = 0;
	if (e->health.broken || !e->health.connected)
		return e->health.broken_code;
	e->counters.doorbells++;
	int rc = ibv_post_send(e->qp, e->wr, &bad);
	return rc ? health_fail(&e->health, KVD_ECONNECT, "posting to %s failed: %s",
				e->health.peer, strerror(rc))
		  : 0;
}
