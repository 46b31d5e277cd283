/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * brancher.h -- an XRC sender whose links to other processes, control thread and memory are the test's.
 *
 * The program is linked with --wrap for all that is called here.  The sender's lock and that of its
 * receive side are looked at there; `meanwhile` runs, once, where the sender's lock was given up.
 */
#ifndef TESTS_UNIT_SOFTVERBS_BRANCHER_H
#define TESTS_UNIT_SOFTVERBS_BRANCHER_H

#include "kit.h"
#include "common/softverbs/base/proc.h"
#include "common/softverbs/object/branch.h"
#include "common/softverbs/peer/peer.h"

#define OWN_SLOT 11u
#define INDEX 9u
#define OWN_QPN (OWN_SLOT << 12 | INDEX)
#define LINKS 4u /* slots 1 to 3, and the process itself as the first */
#define TARGET 1u
#define TARGET_QPN (TARGET << 12 | 21u)
#define OWN_SRQ(n) (OWN_SLOT << 12 | (n))
#define SRQ(slot, n) ((slot) << 12 | (n))
#define GEN 0x4711u
#define DOMAIN_ID 0x8123456789abcdefull

static struct sv_proc proc;
static struct sv_ro ros[LINKS];
static struct sv_rw rws[LINKS];
static struct sv_peer links[LINKS];
static struct sv_qp qp;
static struct sv_cq rcq;
static struct sv_wire wires[3];

static int refs[LINKS], gets, pokes, blocks, unmapped[3], qp_refs, yields;
static long memory; /* after so many pieces one is not to be had; below 0: all are */
static bool no_links, deaf, no_qp;
static void (*meanwhile)(void), (*at_yield)(void);
static struct sv_spin *held_by_other;

static struct {
	int n;
	struct sv_peer *peer;
	struct sv_msg msg;
} asks;

static struct {
	int n;
	struct sv_peer *peer; /* NULL: the process itself */
	uint32_t index, flags;
} notices;

static struct {
	int n;
	uint32_t sender_qpn, index;
} parts;

/* ---- who is called ---- */

void *__real_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void __real_free(void *at);
void __wrap_free(void *at);
int __wrap_munmap(void *at, size_t bytes);
int __wrap_sched_yield(void);
struct sv_peer *__wrap_sv_peer_get(uint32_t slot);
void __wrap_sv_peer_put(struct sv_peer *peer);
void __wrap_sv_peer_poke(struct sv_peer *peer);
int __wrap_sv_peer_ask(struct sv_peer *peer, const struct sv_msg *msg);
void __wrap_sv_peer_attention(struct sv_peer *peer, uint32_t index, uint32_t flags);
void __wrap_sv_attention(uint32_t index, uint32_t flags);
struct sv_qp *__wrap_sv_qp_get(uint32_t index);
void __wrap_sv_qp_put(struct sv_qp *of);

/* Behind each piece is nothing that could be taken for an address. */
void *__wrap_calloc(size_t n, size_t bytes)
{
	uint8_t *at;

	if (memory-- == 0)
		return NULL;
	blocks++;
	at = __real_calloc(1, n * bytes + 64);
	assert_non_null(at);
	memset(at + n * bytes, 0xa5, 64);
	return at;
}

void __wrap_free(void *at)
{
	blocks -= at != NULL;
	__real_free(at);
}

int __wrap_munmap(void *at, size_t bytes)
{
	ptrdiff_t n = (struct sv_wire *)at - wires;

	assert_true(n >= 0 && n < 3 && bytes == SV_WIRE_BYTES && !qp.sq_lock.held);
	unmapped[n]++;
	return 0;
}

/* Who has the lock lets go of it. */
int __wrap_sched_yield(void)
{
	assert_non_null(held_by_other);
	if (at_yield)
		at_yield();
	yields++;
	sv_spin_unlock(held_by_other);
	held_by_other = NULL;
	return 0;
}

static inline void hold(struct sv_spin *lock)
{
	assert_true(sv_spin_trylock(lock));
	held_by_other = lock;
}

static inline uint32_t number_of(const struct sv_peer *peer)
{
	assert_true(peer >= links && peer < links + LINKS);
	return (uint32_t)(peer - links);
}

struct sv_peer *__wrap_sv_peer_get(uint32_t slot)
{
	uint32_t n = slot == OWN_SLOT ? 0 : slot;
	void (*run)(void) = meanwhile;

	assert_true(n < LINKS && !qp.sq_lock.held);
	meanwhile = NULL;
	if (run)
		run();
	gets++;
	if (no_links)
		return NULL;
	refs[n]++;
	return &links[n];
}

void __wrap_sv_peer_put(struct sv_peer *peer)
{
	assert_int_equal(qp.sq_lock.held, 0);
	refs[number_of(peer)]--;
}

void __wrap_sv_peer_poke(struct sv_peer *peer)
{
	number_of(peer);
	pokes++;
}

int __wrap_sv_peer_ask(struct sv_peer *peer, const struct sv_msg *msg)
{
	asks.n++;
	asks.peer = peer;
	asks.msg = *msg;
	return deaf ? EAGAIN : 0;
}

static inline void note(struct sv_peer *peer, uint32_t index, uint32_t flags)
{
	notices.n++;
	notices.peer = peer;
	notices.index = index;
	notices.flags = flags;
}

void __wrap_sv_peer_attention(struct sv_peer *peer, uint32_t index, uint32_t flags)
{
	note(peer, index, flags);
}

void __wrap_sv_attention(uint32_t index, uint32_t flags)
{
	note(NULL, index, flags);
}

struct sv_qp *__wrap_sv_qp_get(uint32_t index)
{
	assert_int_equal(index, INDEX);
	if (no_qp)
		return NULL;
	qp_refs++;
	return &qp;
}

void __wrap_sv_qp_put(struct sv_qp *of)
{
	assert_true(of == &qp && !qp.sq_lock.held);
	qp_refs--;
}

static inline void on_part(uint32_t sender_qpn, uint32_t index)
{
	assert_int_equal(qp.sq_lock.held, 0);
	parts.n++;
	parts.sender_qpn = sender_qpn;
	parts.index = index;
}

/* ---- the sender ---- */

/* The connection's other end, as it is there for senders. */
static inline void set_target(uint32_t link, uint32_t qpn, uint32_t gen)
{
	struct sv_ro_qp *target = &ros[link].qp[sv_qpn_index(qpn)];

	atomic_store(&target->state, IBV_QPS_RTR);
	atomic_store(&target->gen, gen);
	atomic_store(&target->dest_qpn, OWN_QPN);
	atomic_store(&target->access, 5);
	atomic_store(&target->rnr_timer, 6);
	atomic_store(&target->rd_atomic, 7);
	atomic_store(&target->domain, DOMAIN_ID);
	qp.peer = &links[link];
	qp.peer_qpn = qpn;
}

static inline int begin(void **state)
{
	(void)state;
	memset(&qp, 0, sizeof(qp));
	memset(&rcq, 0, sizeof(rcq));
	memset(ros, 0, sizeof(ros));
	memset(rws, 0, sizeof(rws));
	for (uint32_t i = 0; i < LINKS; i++)
		links[i] = (struct sv_peer){ .slot = i ? i : OWN_SLOT, .self = !i, .state = SV_PEER_UP,
					     .ro = &ros[i], .rw = &rws[i] };
	sv_proc = &proc;
	proc.slot = OWN_SLOT;
	qp.index = INDEX;
	qp.qpn = OWN_QPN;
	qp.ib.qp_type = IBV_QPT_XRC_SEND;
	qp.ib.recv_cq = &rcq.ib;
	qp.sq_lock.held = 1;
	set_target(TARGET, TARGET_QPN, GEN);
	memory = -1;
	no_links = deaf = no_qp = false;
	meanwhile = at_yield = NULL;
	held_by_other = NULL;
	gets = pokes = yields = qp_refs = 0;
	memset(unmapped, 0, sizeof(unmapped));
	memset(&asks, 0, sizeof(asks));
	memset(&notices, 0, sizeof(notices));
	memset(&parts, 0, sizeof(parts));
	sv_branch_on_part(on_part);
	return 0;
}

/* All that it had of branches is given back. */
static inline int end(void **state)
{
	(void)state;
	assert_int_equal(qp.sq_lock.held, 1);
	qp.sq_lock.held = 0;
	sv_branch_forget(&qp);
	assert_null(qp.branches);
	assert_true(!qp.sq_lock.held && !rcq.lock.held && !held_by_other);
	for (uint32_t i = 0; i < LINKS; i++)
		assert_int_equal(refs[i], 0);
	assert_int_equal(blocks, 0);
	assert_int_equal(qp_refs, 0);
	return 0;
}

static inline uint32_t find(uint32_t srqn)
{
	struct sv_branch *branch = NULL;

	assert_int_equal(sv_branch_find(&qp, srqn, &branch), 0);
	assert_true(branch && qp.sq_lock.held);
	return sv_branch_number(branch);
}

static inline void find_none(uint32_t srqn)
{
	struct sv_branch *branch = (void *)&qp;

	assert_int_equal(sv_branch_find(&qp, srqn, &branch), ENOMEM);
	assert_true(branch == (void *)&qp && qp.sq_lock.held);
}

static inline void answer(uint32_t number, uint32_t index, uint32_t status)
{
	struct sv_msg msg = { .type = SV_MSG_JOIN_OK, .src_qpn = OWN_QPN, .serial = number, .index = index,
			      .status = status };

	qp.sq_lock.held = 0;
	sv_branch_answered(&msg);
	assert_int_equal(qp.sq_lock.held, 0);
	qp.sq_lock.held = 1;
}

/* One that was asked for and made. */
static inline uint32_t join(uint32_t srqn, uint32_t index)
{
	uint32_t number = find(srqn);

	assert_int_equal(sv_branch_select(&qp, number), SV_WAY_ASKED);
	answer(number, index, 0);
	return number;
}

static inline void expect_notice(struct sv_peer *peer, uint32_t index, uint32_t flags)
{
	assert_int_equal(notices.n, 1);
	assert_true(notices.peer == peer && notices.index == index && notices.flags == flags);
	notices.n = 0;
}

#endif
