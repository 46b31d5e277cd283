/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dgram.c -- datagrams: here is how they are sent, in dgram_recv.c how they are taken.
 *
 * Anybody sends to a UD queue pair, so its memory is no ring but a pool of chunks.
 *
 * Sender:	take the chunks that the datagram needs, each by a compare-and-swap of its
 *		owner; copy; draw a ticket; complete the request; set the bit of the first chunk
 *		in sv_pool.full; mark the queue pair ready in its receive CQ, and wake it if armed.
 * Receiver:	take those with a bit, the lowest ticket first; free their chunks.
 *
 * So no sender waits for another: one that is stopped in the middle holds its chunks and
 * nothing else, and those of one that died there are freed when its link ends
 * (sv_dgram_sender_gone()).  A sender's own datagrams stay in order, as tickets do.
 *
 * Completed first: no answer is there before the completion, as on a wire.  ib_send_lat -e has
 * one channel for both, and takes the first event for its completion's.
 *
 * A datagram is dropped, and counted by the receiver's sv_rw_qp.dropped, where no receive is
 * posted as it arrives, and where the receiver frees no chunk for ROOM_BUDGET_NS: until then
 * the sender waits, as on a lossless wire, and after ASK_AFTER_NS the receiver's control thread
 * is asked to take what is there.  One whose process can't be reached is dropped too.  The sender never
 * learns of it.
 *
 * A datagram for a multicast group goes to its members, one after the other (peer/group.c says who
 * they are).  Each is waited for as if it were the only one, and those before it see the datagram
 * meanwhile.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "common/softverbs/base/copy.h"
#include "common/softverbs/base/device.h"
#include "common/softverbs/base/proc.h"
#include "common/softverbs/exec/dgram.h"
#include "common/softverbs/exec/wire.h"
#include "common/softverbs/object/mr.h"
#include "common/softverbs/peer/group.h"
#include "common/softverbs/peer/peer.h"

#define DESTS_KEPT 64u
#define LINK_STEP_NS 200000u
#define LINK_BUDGET_NS 1000000000u
#define ROOM_STEP_NS 1000000u
#define ROOM_BUDGET_NS 1000000000u
/* A receiver that only lost its CPU takes them itself: taken for it, they would use up its
 * receives, and those behind them be dropped. */
#define ASK_AFTER_NS 100000000u
/* A list of a group's members is not believed for longer. */
#define LOOK_NS 1000000000u

struct sv_dest {
	struct sv_dest *next; /* sv_qp.dests */
	uint32_t qpn;
	struct sv_peer *peer;
	struct sv_pool *pool; /* NULL: not mapped yet */
	uint32_t next_chunk;
	/* No room in time: how many datagrams it had taken then.  Until it takes more, there is
	 * no waiting for it. */
	bool stuck;
	uint32_t stuck_at;
	bool late; /* no link in time: no waiting for it either */
	uint32_t filled; /* a datagram that nobody sees yet: its first chunk and 1; or 0 */
	bool solicited;	 /* it is */
	struct sv_group *group; /* NULL: it is one queue pair */
};

/* The members of a multicast group, as they were seen once: another list is another destination,
 * since requests may be at this one. */
struct sv_group {
	uint8_t gid[SV_GID_BYTES];
	uint32_t epoch;
	uint64_t looked_ns;
	bool over; /* there is a newer list */
	uint32_t n;
	struct sv_dest *member[];
};

/* ---- destinations; sq_lock held, except where said ---- */

/* gid: of a group; NULL: one queue pair. */
static struct sv_dest **find(struct sv_qp *qp, uint32_t qpn, const uint8_t *gid)
{
	struct sv_dest **at = &qp->dests;

	while (*at && ((*at)->qpn != qpn || !(*at)->group != !gid ||
		       (gid && memcmp((*at)->group->gid, gid, SV_GID_BYTES))))
		at = &(*at)->next;
	return at;
}

static bool is_gone(const struct sv_dest *dest)
{
	return dest->group ? dest->group->over : atomic_load(&dest->peer->state) == SV_PEER_GONE;
}

static struct sv_dest *take_out(struct sv_qp *qp, struct sv_dest **at)
{
	struct sv_dest *dest = *at;

	*at = dest->next;
	qp->ndests--;
	return dest;
}

static void put_first(struct sv_qp *qp, struct sv_dest *dest)
{
	dest->next = qp->dests;
	qp->dests = dest;
	qp->ndests++;
}

/* One that is not needed: what is gone, or the last of too many.  NULL: there is none, or
 * requests wait. */
static struct sv_dest *surplus(struct sv_qp *qp)
{
	struct sv_dest **at = &qp->dests;

	if (qp->sq_count)
		return NULL;
	while (*at && !is_gone(*at) && ((*at)->next || qp->ndests <= DESTS_KEPT))
		at = &(*at)->next;
	return *at ? take_out(qp, at) : NULL;
}

/* No lock held. */
static void drop_one(struct sv_dest *dest)
{
	if (dest->pool)
		munmap(dest->pool, SV_WIRE_BYTES);
	sv_peer_put(dest->peer);
	free(dest);
}

static void drop_dest(struct sv_dest *dest)
{
	if (!dest->group) {
		drop_one(dest);
		return;
	}
	for (uint32_t i = 0; i < dest->group->n; i++)
		drop_one(dest->group->member[i]);
	free(dest->group);
	free(dest);
}

/* No lock held; NULL and errno. */
static struct sv_dest *new_dest(uint32_t qpn)
{
	struct sv_dest *dest = calloc(1, sizeof(*dest));

	if (!dest)
		return NULL;
	dest->qpn = qpn;
	dest->peer = sv_peer_get(sv_qpn_slot(qpn));
	dest->next_chunk = sv_proc->slot * 7 % SV_CHUNKS;
	if (dest->peer)
		return dest;
	free(dest);
	return NULL;
}

/* Gives the lock up for a moment. */
static void drop_surplus(struct sv_qp *qp)
{
	struct sv_dest *old;

	while ((old = surplus(qp))) {
		sv_spin_unlock(&qp->sq_lock);
		drop_dest(old);
		sv_spin_lock(&qp->sq_lock);
	}
}

static int add_dest(struct sv_qp *qp, uint32_t qpn)
{
	struct sv_dest *dest;
	int ret = 0;

	drop_surplus(qp);
	sv_spin_unlock(&qp->sq_lock);
	dest = new_dest(qpn);
	if (!dest)
		ret = errno;
	sv_spin_lock(&qp->sq_lock);
	if (dest)
		put_first(qp, dest); /* before one that another thread may have added */
	return ret;
}

static void come_first(struct sv_qp *qp, struct sv_dest **at)
{
	if (at != &qp->dests)
		put_first(qp, take_out(qp, at));
}

int sv_dest_find(struct sv_qp *qp, uint32_t qpn, struct sv_dest **out)
{
	struct sv_dest **at = find(qp, qpn, NULL);
	int ret;

	/* The process is gone: perhaps another has its place. */
	if (!*at || (is_gone(*at) && !qp->sq_count)) {
		ret = add_dest(qp, qpn);
		if (ret)
			return ret;
		at = find(qp, qpn, NULL);
	}
	come_first(qp, at);
	*out = qp->dests;
	return 0;
}

/* ---- groups; sq_lock held, except where said ---- */

/* No lock held; NULL: no memory. */
static struct sv_dest *new_group(const uint8_t *gid, const struct sv_group_look *look)
{
	struct sv_dest *dest = calloc(1, sizeof(*dest));
	struct sv_group *group = calloc(1, sizeof(*group) + look->n * sizeof(group->member[0]));

	if (!dest || !group) {
		free(dest);
		free(group);
		return NULL;
	}
	dest->qpn = SV_QPN_GROUP;
	dest->group = group;
	memcpy(group->gid, gid, SV_GID_BYTES);
	for (; group->n < look->n; group->n++) {
		group->member[group->n] = new_dest(look->qpn[group->n]);
		if (group->member[group->n])
			continue;
		drop_dest(dest);
		return NULL;
	}
	return dest;
}

static bool is_fresh(const struct sv_group *group)
{
	return group->epoch == sv_group_epoch() && sv_now_ns() - group->looked_ns < LOOK_NS;
}

/* The list that is there has the same members, and all are alive. */
static bool says_the_same(const struct sv_group *group, const struct sv_group_look *look)
{
	if (group->n != look->n)
		return false;
	for (uint32_t i = 0; i < group->n; i++) {
		if (group->member[i]->qpn != look->qpn[i] || is_gone(group->member[i]))
			return false;
	}
	return true;
}

static void set_look(struct sv_group *group, const struct sv_group_look *look, uint64_t now)
{
	group->epoch = look->epoch;
	group->looked_ns = now;
}

/* Looks who is in the group, and makes a list if that is news.  Gives the lock up for that. */
static int look_again(struct sv_qp *qp, const uint8_t *gid)
{
	uint64_t now = sv_now_ns();
	struct sv_group_look look;
	struct sv_dest *dest, *old;

	drop_surplus(qp);
	sv_spin_unlock(&qp->sq_lock);
	sv_group_look(gid, &look);
	sv_spin_lock(&qp->sq_lock);
	old = *find(qp, SV_QPN_GROUP, gid);
	if (old && says_the_same(old->group, &look)) {
		set_look(old->group, &look, now);
		return 0;
	}
	sv_spin_unlock(&qp->sq_lock);
	dest = new_group(gid, &look);
	sv_spin_lock(&qp->sq_lock);
	if (!dest)
		return ENOMEM;
	set_look(dest->group, &look, now);
	old = *find(qp, SV_QPN_GROUP, gid);
	if (old)
		old->group->over = true;
	put_first(qp, dest);
	return 0;
}

int sv_dest_find_group(struct sv_qp *qp, const uint8_t *gid, struct sv_dest **out)
{
	struct sv_dest **at = find(qp, SV_QPN_GROUP, gid);
	int ret;

	if (!*at || !is_fresh((*at)->group)) {
		ret = look_again(qp, gid);
		if (ret)
			return ret;
		at = find(qp, SV_QPN_GROUP, gid);
	}
	come_first(qp, at);
	*out = qp->dests;
	return 0;
}

void sv_dest_forget(struct sv_qp *qp)
{
	while (qp->dests)
		drop_dest(take_out(qp, &qp->dests));
}

/* ---- chunks ---- */

static bool take_run(struct sv_pool *pool, uint32_t at, uint32_t n, uint64_t owner)
{
	for (uint32_t i = 0; i < n; i++) {
		uint64_t none = 0;

		if (atomic_load_explicit(&pool->owner[at + i], memory_order_relaxed) == 0 &&
		    atomic_compare_exchange_strong(&pool->owner[at + i], &none, owner))
			continue;
		while (i--)
			atomic_store(&pool->owner[at + i], 0);
		return false;
	}
	return true;
}

/* The first of n chunks, which are the sender's now; -1: there are none. */
static int32_t take_chunks(struct sv_qp *qp, struct sv_dest *dest, uint32_t n)
{
	uint64_t owner = sv_proc->incarnation << 24 | qp->qpn;

	for (uint32_t k = 0; k < SV_CHUNKS; k++) {
		uint32_t at = (dest->next_chunk + k) % SV_CHUNKS;

		if (at + n > SV_CHUNKS || !take_run(dest->pool, at, n, owner))
			continue;
		dest->next_chunk = at + n;
		return (int32_t)at;
	}
	return -1;
}

/* ---- sending ---- */

static uint32_t check(struct sv_qp *qp, const struct sv_wqe *wqe)
{
	if (wqe->len > SV_DGRAM_BYTES)
		return IBV_WC_LOC_LEN_ERR;
	return sv_sge_check(sv_pd_of(qp->ib.pd)->id, wqe->sge, wqe->nsge, 0) ? IBV_WC_SUCCESS :
									      IBV_WC_LOC_PROT_ERR;
}

static void count_drop(struct sv_dest *dest)
{
	atomic_fetch_add(&dest->peer->rw->qp[sv_qpn_index(dest->qpn)].dropped, 1);
}

/* The link is being made.  SV_DONE: it is there, or there will be none. */
static enum sv_outcome wait_link(struct sv_qp *qp, struct sv_dest *dest)
{
	uint64_t now = sv_now_ns();

	sv_peer_poke(dest->peer);
	if (sv_peer_up(dest->peer) || atomic_load(&dest->peer->state) == SV_PEER_GONE)
		return SV_DONE;
	if (!qp->first_ns)
		qp->first_ns = now;
	dest->late |= now - qp->first_ns > LINK_BUDGET_NS;
	return dest->late ? SV_DONE : sv_wait(qp, SV_BLOCK_LINK, LINK_STEP_NS);
}

/* A UD queue pair that takes datagrams, and its generation; 0. */
static uint32_t receiver(const struct sv_dest *dest)
{
	const struct sv_ro_qp *ro = &dest->peer->ro->qp[sv_qpn_index(dest->qpn)];
	uint32_t gen = atomic_load_explicit(&ro->gen, memory_order_acquire);
	uint32_t state = atomic_load_explicit(&ro->state, memory_order_acquire);

	if (state < IBV_QPS_RTR || state > IBV_QPS_SQE ||
	    atomic_load_explicit(&ro->type, memory_order_relaxed) != IBV_QPT_UD)
		return 0;
	return gen;
}

/* More receives are posted than datagrams wait for them. */
static bool has_receive(const struct sv_dest *dest)
{
	uint32_t rq = atomic_load_explicit(&dest->peer->ro->qp[sv_qpn_index(dest->qpn)].rq,
					   memory_order_relaxed);
	uint32_t claimed, posted;
	int waiting;

	if (rq >= SV_RQS)
		return false;
	/* seq_cst, in this order: the receiver clears the bit, then claims.  So one that is just
	 * taken is counted once or not at all; counted twice, it would cost another its receive. */
	claimed = (uint32_t)(atomic_load(&dest->peer->rw->rq[rq].claim) >> 32);
	waiting = __builtin_popcountll(atomic_load(&dest->pool->full));
	posted = atomic_load_explicit(&dest->peer->ro->rq[rq].posted, memory_order_acquire);
	return (int32_t)(posted - claimed) > waiting;
}

/* SV_DONE: there is no waiting (any more). */
static enum sv_outcome wait_room(struct sv_qp *qp, struct sv_dest *dest)
{
	uint32_t index = sv_qpn_index(dest->qpn);
	struct sv_rw_qp *rw = &dest->peer->rw->qp[index];
	uint32_t taken = atomic_load(&rw->head);
	uint64_t now = sv_now_ns();

	if (dest->stuck && dest->stuck_at == taken)
		return SV_DONE;
	dest->stuck = false;
	if (!qp->first_ns)
		qp->first_ns = now;
	if (now - qp->first_ns > ROOM_BUDGET_NS) {
		dest->stuck = true;
		dest->stuck_at = taken;
		return SV_DONE;
	}
	if (now - qp->first_ns > ASK_AFTER_NS && !(atomic_load(&rw->attention) & SV_ATTN_DRAIN))
		sv_peer_attention(dest->peer, index, SV_ATTN_DRAIN);
	return sv_wait(qp, SV_BLOCK_ROOM, ROOM_STEP_NS);
}

static void describe(struct sv_qp *qp, const struct sv_wqe *wqe, struct sv_dgram *dgram, uint32_t gen)
{
	atomic_store_explicit(&dgram->gen, gen, memory_order_relaxed);
	atomic_store_explicit(&dgram->len, (uint32_t)wqe->len, memory_order_relaxed);
	atomic_store_explicit(&dgram->src_qpn, qp->qpn, memory_order_relaxed);
	/* The highest bit: not this one, the queue pair's own. */
	atomic_store_explicit(&dgram->qkey, wqe->rkey >> 31 ? qp->attr.qkey : wqe->rkey,
			      memory_order_relaxed);
	atomic_store_explicit(&dgram->imm, wqe->imm, memory_order_relaxed);
	atomic_store_explicit(&dgram->flags,
			      (wqe->opcode == IBV_WR_SEND_WITH_IMM ? SV_DGRAM_IMM : 0u) |
				      (wqe->flags & SV_SEND_GID1 ? SV_DGRAM_GID1 : 0u),
			      memory_order_relaxed);
	atomic_store_explicit(&dgram->dgid[0], wqe->compare_add, memory_order_relaxed);
	atomic_store_explicit(&dgram->dgid[1], wqe->swap, memory_order_relaxed);
}

static void fill(struct sv_qp *qp, const struct sv_wqe *wqe, struct sv_dest *dest, uint32_t at,
		 uint32_t gen)
{
	uint8_t *to = dest->pool->payload + (size_t)at * SV_CHUNK_BYTES;
	struct sv_pool *pool = dest->pool;

	if (wqe->flags & IBV_SEND_INLINE)
		memcpy(to, wqe->data, (size_t)wqe->len);
	else
		sv_gather(wqe->sge, wqe->nsge, 0, to, (size_t)wqe->len, sv_copy_plain);
	describe(qp, wqe, &pool->dgram[at], gen);
	atomic_store_explicit(&pool->dgram[at].ticket, atomic_fetch_add(&pool->ticket, 1),
			      memory_order_relaxed);
	dest->filled = at + 1;
	dest->solicited = wqe->flags & IBV_SEND_SOLICITED;
}

static void tell(struct sv_dest *dest)
{
	uint32_t index = sv_qpn_index(dest->qpn);
	uint32_t cq = atomic_load_explicit(&dest->peer->ro->qp[index].cq, memory_order_relaxed);

	if (cq >= SV_CQS)
		return;
	sv_set_add(&dest->peer->rw->cq[cq].ready, index);
	sv_wake_peer(dest->peer, index, dest->solicited);
}

static void show_one(struct sv_dest *dest)
{
	if (!dest->filled)
		return;
	/* seq_cst, release: all of it; partner sv_dgram_drain_locked(). */
	atomic_fetch_or(&dest->pool->full, 1ull << (dest->filled - 1));
	dest->filled = 0;
	tell(dest);
}

void sv_dgram_show(struct sv_dest *dest)
{
	if (!dest->group) {
		show_one(dest);
		return;
	}
	for (uint32_t i = 0; i < dest->group->n; i++)
		show_one(dest->group->member[i]);
}

static enum sv_outcome send_to(struct sv_qp *qp, struct sv_wqe *wqe, struct sv_dest *dest)
{
	uint32_t gen;
	int32_t at;

	if (!sv_peer_up(dest->peer) && wait_link(qp, dest) == SV_WAIT)
		return SV_WAIT;
	if (!sv_peer_up(dest->peer) || !(gen = receiver(dest)))
		return SV_DONE; /* as on a wire: lost */
	if (!dest->pool)
		dest->pool = (struct sv_pool *)(void *)sv_peer_wire(dest->peer, sv_qpn_index(dest->qpn));
	if (!dest->pool || !has_receive(dest)) {
		count_drop(dest);
		return SV_DONE;
	}
	at = take_chunks(qp, dest, sv_chunks((uint32_t)wqe->len));
	if (at < 0) {
		if (wait_room(qp, dest) == SV_WAIT)
			return SV_WAIT;
		count_drop(dest);
		return SV_DONE;
	}
	fill(qp, wqe, dest, (uint32_t)at, gen);
	return SV_DONE;
}

/* wqe->done members have it. */
static enum sv_outcome send_to_all(struct sv_qp *qp, struct sv_wqe *wqe, struct sv_dest *dest)
{
	struct sv_group *group = dest->group;

	for (; wqe->done < group->n; wqe->done++) {
		if (qp->not_to_self && group->member[wqe->done]->qpn == qp->qpn)
			continue;
		if (send_to(qp, wqe, group->member[wqe->done]) == SV_WAIT) {
			sv_dgram_show(dest);
			return SV_WAIT;
		}
		qp->first_ns = 0;
	}
	return SV_DONE;
}

enum sv_outcome sv_exec_dgram(struct sv_qp *qp, struct sv_wqe *wqe, uint32_t *status)
{
	struct sv_dest *dest = (struct sv_dest *)(uintptr_t)wqe->remote_addr;

	*status = check(qp, wqe);
	if (*status)
		return SV_DONE;
	return dest->group ? send_to_all(qp, wqe, dest) : send_to(qp, wqe, dest);
}
