/* SPDX-License-Identifier: BSD-2-Clause */
/* branch.c -- where an XRC queue pair sends: to shared receive queues, each by its number. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "common/softverbs/base/proc.h"
#include "common/softverbs/object/branch.h"
#include "common/softverbs/peer/peer.h"

/* From peer_gen on: the sender's half of a connection, while the queue pair is elsewhere. */
struct sv_branch {
	uint32_t number;
	uint32_t srqn;
	struct sv_peer *peer;
	enum sv_branch_state state;
	uint32_t qpn; /* of the queue pair that was made for it */
	uint32_t peer_gen;
	struct sv_wire *tx;
	uint32_t tx_tail, tx_head, pay_tail, pay_head;
	uint32_t pay_end[SV_DESCS];
};

struct sv_branches {
	struct sv_peer *target;
	uint32_t target_qpn;
	uint32_t target_gen;
	struct sv_branch *at; /* NULL: at the target */
	uint32_t n;
	struct sv_branch *all[SV_BRANCHES];
};

uint32_t sv_branch_number(const struct sv_branch *branch)
{
	return branch->number;
}

/* ---- finding ---- */

static struct sv_branch *known(const struct sv_qp *qp, uint32_t srqn)
{
	const struct sv_branches *b = qp->branches;

	for (uint32_t i = 0; b && i < b->n; i++) {
		if (b->all[i]->srqn == srqn)
			return b->all[i];
	}
	return NULL;
}

/* No lock held. */
static void drop(struct sv_branch *branch)
{
	if (branch->tx)
		munmap(branch->tx, SV_WIRE_BYTES);
	sv_peer_put(branch->peer);
	free(branch);
}

static int add(struct sv_qp *qp, uint32_t srqn)
{
	struct sv_branch *branch;
	int ret = 0;

	if (!qp->branches)
		qp->branches = calloc(1, sizeof(*qp->branches));
	if (!qp->branches || qp->branches->n == SV_BRANCHES)
		return ENOMEM;
	sv_spin_unlock(&qp->sq_lock);
	branch = calloc(1, sizeof(*branch));
	if (branch)
		branch->peer = sv_peer_get(sv_qpn_slot(srqn));
	if (branch && !branch->peer) {
		free(branch);
		branch = NULL;
	}
	sv_spin_lock(&qp->sq_lock);
	if (!branch || qp->branches->n == SV_BRANCHES)
		ret = ENOMEM;
	if (ret || known(qp, srqn)) { /* another thread was first */
		sv_spin_unlock(&qp->sq_lock);
		if (branch)
			drop(branch);
		sv_spin_lock(&qp->sq_lock);
		return ret;
	}
	branch->srqn = srqn;
	branch->number = qp->branches->n++;
	qp->branches->all[branch->number] = branch;
	return 0;
}

int sv_branch_find(struct sv_qp *qp, uint32_t srqn, struct sv_branch **branch)
{
	int ret = 0;

	if (!known(qp, srqn))
		ret = add(qp, srqn);
	if (!ret)
		*branch = known(qp, srqn);
	return ret;
}

/* ---- being at one ---- */

static void set_peer(struct sv_qp *qp, struct sv_peer *peer, uint32_t qpn)
{
	sv_qp_lock_receive(qp);
	qp->peer = peer;
	qp->peer_qpn = qpn;
	sv_qp_unlock_receive(qp);
	memset(qp->hint, 0, sizeof(qp->hint));
	qp->awaits_link = false;
}

static void put_away(struct sv_qp *qp, struct sv_branch *branch)
{
	branch->peer_gen = qp->peer_gen;
	branch->tx = qp->tx;
	branch->tx_tail = qp->tx_tail;
	branch->tx_head = qp->tx_head;
	branch->pay_tail = qp->pay_tail;
	branch->pay_head = qp->pay_head;
	memcpy(branch->pay_end, qp->pay_end, sizeof(qp->pay_end));
}

static void take_up(struct sv_qp *qp, const struct sv_branch *branch)
{
	set_peer(qp, branch->peer, branch->qpn);
	qp->peer_gen = branch->peer_gen;
	qp->tx = branch->tx;
	qp->tx_tail = branch->tx_tail;
	qp->tx_head = branch->tx_head;
	qp->pay_tail = branch->pay_tail;
	qp->pay_head = branch->pay_head;
	memcpy(qp->pay_end, branch->pay_end, sizeof(qp->pay_end));
}

static void go_to(struct sv_qp *qp, struct sv_branch *branch)
{
	struct sv_branches *b = qp->branches;

	if (b->at == branch)
		return;
	if (b->at)
		put_away(qp, b->at);
	take_up(qp, branch);
	b->at = branch;
}

void sv_branch_leave(struct sv_qp *qp)
{
	struct sv_branches *b = qp->branches;

	if (!b || !b->target)
		return;
	if (b->at)
		put_away(qp, b->at);
	b->at = NULL;
	qp->tx = NULL;
	set_peer(qp, b->target, b->target_qpn);
	b->target = NULL;
}

/* ---- the way there ---- */

static enum sv_branch_way look_at_process(struct sv_peer *peer)
{
	if (sv_peer_up(peer))
		return SV_WAY_OPEN;
	sv_peer_poke(peer);
	return atomic_load(&peer->state) == SV_PEER_GONE ? SV_WAY_DOWN : SV_WAY_ASKED;
}

static const struct sv_ro_qp *target_of(const struct sv_branches *b)
{
	return &b->target->ro->qp[sv_qpn_index(b->target_qpn)];
}

/* The same target as ever, connected to this queue pair. */
static enum sv_branch_way look_at_target(struct sv_qp *qp)
{
	struct sv_branches *b = qp->branches;
	enum sv_branch_way way;
	uint32_t state, gen;

	if (!b->target) {
		b->target = qp->peer;
		b->target_qpn = qp->peer_qpn;
		b->target_gen = 0;
	}
	way = look_at_process(b->target);
	if (way != SV_WAY_OPEN)
		return way;
	state = atomic_load(&target_of(b)->state);
	gen = atomic_load(&target_of(b)->gen);
	if (state < IBV_QPS_RTR || state > IBV_QPS_SQE || !gen ||
	    atomic_load(&target_of(b)->dest_qpn) != qp->qpn || (b->target_gen && b->target_gen != gen))
		return SV_WAY_DOWN;
	b->target_gen = gen;
	return SV_WAY_OPEN;
}

static void fill_request(const struct sv_qp *qp, const struct sv_branch *branch, struct sv_msg *msg)
{
	const struct sv_ro_qp *target = target_of(qp->branches);

	*msg = (struct sv_msg){ .type = SV_MSG_JOIN, .src_qpn = qp->qpn,
				.serial = branch->number, .index = sv_qpn_index(branch->srqn),
				.mem = qp->branches->target_qpn,
				.write = atomic_load(&target->access),
				.stage = atomic_load(&target->rnr_timer),
				.bytes = atomic_load(&target->rd_atomic),
				.addr = atomic_load(&target->domain) };
}

static enum sv_branch_way ask(struct sv_qp *qp, struct sv_branch *branch)
{
	enum sv_branch_way way = look_at_process(branch->peer);
	struct sv_msg msg;

	if (way != SV_WAY_OPEN)
		return way;
	branch->state = SV_BRANCH_ASKED;
	if (branch->peer->self) {
		sv_attention(qp->index, SV_ATTN_JOIN);
		return SV_WAY_ASKED;
	}
	fill_request(qp, branch, &msg);
	if (sv_peer_ask(branch->peer, &msg))
		branch->state = SV_BRANCH_NEW; /* its socket is full: later */
	return SV_WAY_ASKED;
}

enum sv_branch_way sv_branch_select(struct sv_qp *qp, uint32_t number)
{
	struct sv_branch *branch = qp->branches->all[number];
	enum sv_branch_way way = look_at_target(qp);

	if (way != SV_WAY_OPEN)
		return way;
	switch (branch->state) {
	case SV_BRANCH_NEW:
		return ask(qp, branch);
	case SV_BRANCH_ASKED:
		return atomic_load(&branch->peer->state) == SV_PEER_GONE ? SV_WAY_DOWN : SV_WAY_ASKED;
	case SV_BRANCH_REFUSED:
		return SV_WAY_REFUSED;
	default:
		go_to(qp, branch);
		return SV_WAY_OPEN;
	}
}

void sv_branch_accuse(struct sv_qp *qp, uint32_t status)
{
	struct sv_branches *b = qp->branches;
	uint32_t none = SV_FAULT_NONE, index, code;

	if (!b || !b->target || !sv_peer_up(b->target))
		return;
	index = sv_qpn_index(b->target_qpn);
	code = status == IBV_WC_REM_ACCESS_ERR ? SV_FAULT_ACCESS : SV_FAULT_REQUEST;
	atomic_compare_exchange_strong(&b->target->rw->qp[index].fault, &none, code);
	sv_peer_attention(b->target, index, SV_ATTN_FAULT);
}

/* ---- answers ---- */

void sv_branch_answered(const struct sv_msg *msg)
{
	struct sv_qp *qp = sv_qp_get(sv_qpn_index(msg->src_qpn));
	struct sv_branch *branch = NULL;

	if (!qp)
		return;
	sv_spin_lock(&qp->sq_lock);
	if (qp->branches && msg->serial < qp->branches->n)
		branch = qp->branches->all[msg->serial];
	if (branch && branch->state == SV_BRANCH_ASKED) {
		branch->qpn = sv_qpn(branch->peer->slot, msg->index);
		branch->state = msg->status ? SV_BRANCH_REFUSED : SV_BRANCH_JOINED;
	}
	sv_spin_unlock(&qp->sq_lock);
	sv_attention(qp->index, SV_ATTN_PROGRESS);
	sv_qp_put(qp);
}

bool sv_branch_own_request(struct sv_qp *qp, struct sv_msg *msg)
{
	bool found = false;

	sv_spin_lock(&qp->sq_lock);
	for (uint32_t i = 0; !found && qp->branches && qp->branches->target && i < qp->branches->n; i++) {
		const struct sv_branch *branch = qp->branches->all[i];

		found = branch->peer->self && branch->state == SV_BRANCH_ASKED;
		if (found)
			fill_request(qp, branch, msg);
	}
	sv_spin_unlock(&qp->sq_lock);
	return found;
}

/* ---- end ---- */

static void (*own_part)(uint32_t sender_qpn, uint32_t index);

void sv_branch_on_part(void (*part)(uint32_t sender_qpn, uint32_t index))
{
	own_part = part;
}

static void tell_end(const struct sv_qp *qp, const struct sv_branch *branch)
{
	struct sv_msg msg = { .type = SV_MSG_PART, .src_qpn = qp->qpn,
			      .index = sv_qpn_index(branch->qpn) };

	if (branch->peer->self)
		own_part(qp->qpn, sv_qpn_index(branch->qpn));
	else if (sv_peer_up(branch->peer))
		sv_peer_ask(branch->peer, &msg); /* unheard, it ends with the link */
}

void sv_branch_forget(struct sv_qp *qp)
{
	struct sv_branches *b;

	sv_spin_lock(&qp->sq_lock);
	b = qp->branches;
	qp->branches = NULL;
	sv_spin_unlock(&qp->sq_lock);
	for (uint32_t i = 0; b && i < b->n; i++) {
		if (b->all[i]->state == SV_BRANCH_JOINED)
			tell_end(qp, b->all[i]);
		drop(b->all[i]);
	}
	free(b);
}
