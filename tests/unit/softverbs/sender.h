/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sender.h -- a UD queue pair that sends: the processes that it sends to, their groups, the clock
 * and memory are the test's.
 *
 * The program is linked with --wrap for all that is called here.  What gives the queue pair's lock
 * up runs `meanwhile` there, once, as another thread would.
 */
#ifndef TESTS_UNIT_SOFTVERBS_SENDER_H
#define TESTS_UNIT_SOFTVERBS_SENDER_H

#include "kit.h"
#include "common/softverbs/base/proc.h"
#include "common/softverbs/exec/dgram.h"
#include "common/softverbs/exec/wire.h"
#include "common/softverbs/object/mr.h"
#include "common/softverbs/peer/group.h"
#include "common/softverbs/peer/peer.h"

#define OWN_SLOT 11u
#define OWN_QPN 0xb005u
#define OWN_INCARNATION 0x123456789abcdefu
#define PROCESSES 4u /* slots 1 to 3 */
#define PD 77u
#define SECOND 1000000000ull

static struct sv_proc proc;
static struct sv_pd pd = { .id = PD };
static struct sv_qp qp;
static struct sv_ro ros[PROCESSES];
static struct sv_rw rws[PROCESSES];
static struct sv_peer peers[PROCESSES];
static struct sv_pool pools[PROCESSES];

static int refs[PROCESSES], mapped[PROCESSES], gets, looks, blocks, pokes, asked, yields;
static long memory; /* after so many pieces one is not to be had; below 0: all are */
static bool no_links, no_mappings, valid, comes_up;
static uint64_t now_ns;
static struct sv_group_look members;
static uint32_t epoch;
static void (*meanwhile)(void);
static void (*at_look)(void), (*at_put)(void);

static struct {
	int n;
	enum sv_block why;
	uint64_t for_ns;
} waits;

static struct {
	int n;
	struct sv_peer *peer;
	uint32_t index;
	bool solicited;
} wakes;

/* ---- who is called ---- */

void *__real_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void __real_free(void *at);
void __wrap_free(void *at);
int __wrap_munmap(void *at, size_t bytes);
int __wrap_sched_yield(void);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ts);
struct sv_peer *__wrap_sv_peer_get(uint32_t slot);
void __wrap_sv_peer_put(struct sv_peer *peer);
void __wrap_sv_peer_poke(struct sv_peer *peer);
struct sv_wire *__wrap_sv_peer_wire(struct sv_peer *peer, uint32_t index);
void __wrap_sv_peer_attention(struct sv_peer *peer, uint32_t index, uint32_t flags);
void __wrap_sv_group_look(const uint8_t *gid, struct sv_group_look *look);
uint32_t __wrap_sv_group_epoch(void);
bool __wrap_sv_sge_check(uint32_t of, const struct ibv_sge *sge, int nsge, uint32_t access);
enum sv_outcome __wrap_sv_wait(struct sv_qp *of, enum sv_block why, uint64_t for_ns);
void __wrap_sv_wake_peer(struct sv_peer *peer, uint32_t index, bool solicited);

void *__wrap_calloc(size_t n, size_t bytes)
{
	if (memory-- == 0) {
		errno = ENOMEM;
		return NULL;
	}
	blocks++;
	return __real_calloc(n, bytes);
}

void __wrap_free(void *at)
{
	blocks -= at != NULL;
	__real_free(at);
}

static inline uint32_t slot_of(const struct sv_peer *peer)
{
	assert_true(peer > peers && peer < peers + PROCESSES);
	return (uint32_t)(peer - peers);
}

int __wrap_munmap(void *at, size_t bytes)
{
	uint32_t slot = (uint32_t)((struct sv_pool *)at - pools);

	assert_true(at == &pools[slot] && bytes == SV_WIRE_BYTES && !qp.sq_lock.held);
	mapped[slot]--;
	return 0;
}

/* The lock is another's, who lets go of it. */
int __wrap_sched_yield(void)
{
	assert_int_equal(qp.sq_lock.held, 1);
	yields++;
	qp.sq_lock.held = 0;
	return 0;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
	assert_int_equal(clock, CLOCK_MONOTONIC);
	ts->tv_sec = (time_t)(now_ns / SECOND);
	ts->tv_nsec = (long)(now_ns % SECOND);
	return 0;
}

static inline void run_once(void (**what)(void))
{
	void (*run)(void) = *what;

	*what = NULL;
	if (run)
		run();
}

struct sv_peer *__wrap_sv_peer_get(uint32_t slot)
{
	assert_true(slot && slot < PROCESSES && !qp.sq_lock.held);
	run_once(&meanwhile);
	gets++;
	if (no_links) {
		errno = ENOBUFS;
		return NULL;
	}
	refs[slot]++;
	return &peers[slot];
}

void __wrap_sv_peer_put(struct sv_peer *peer)
{
	assert_false(qp.sq_lock.held);
	refs[slot_of(peer)]--;
	run_once(&at_put);
}

void __wrap_sv_peer_poke(struct sv_peer *peer)
{
	pokes++;
	if (comes_up)
		peer->state = SV_PEER_UP;
}

struct sv_wire *__wrap_sv_peer_wire(struct sv_peer *peer, uint32_t index)
{
	assert_true(index > 0 && peer->state == SV_PEER_UP);
	if (no_mappings)
		return NULL;
	mapped[slot_of(peer)]++;
	return (struct sv_wire *)(void *)&pools[slot_of(peer)];
}

void __wrap_sv_peer_attention(struct sv_peer *peer, uint32_t index, uint32_t flags)
{
	assert_int_equal(flags, SV_ATTN_DRAIN);
	atomic_fetch_or(&peer->rw->qp[index].attention, flags);
	asked++;
}

void __wrap_sv_group_look(const uint8_t *gid, struct sv_group_look *look)
{
	assert_true(gid[0] == 0xff && !qp.sq_lock.held);
	looks++;
	*look = members;
	look->epoch = epoch;
	run_once(&at_look);
}

uint32_t __wrap_sv_group_epoch(void)
{
	return epoch;
}

bool __wrap_sv_sge_check(uint32_t of, const struct ibv_sge *sge, int nsge, uint32_t access)
{
	assert_true(of == PD && sge && nsge == 1 && access == 0);
	return valid;
}

enum sv_outcome __wrap_sv_wait(struct sv_qp *of, enum sv_block why, uint64_t for_ns)
{
	assert_ptr_equal(of, &qp);
	waits.n++;
	waits.why = why;
	waits.for_ns = for_ns;
	return SV_WAIT;
}

void __wrap_sv_wake_peer(struct sv_peer *peer, uint32_t index, bool solicited)
{
	wakes.n++;
	wakes.peer = peer;
	wakes.index = index;
	wakes.solicited = solicited;
}

/* ---- the queue pair ---- */

static inline int sender_begin(void **state)
{
	(void)state;
	memset(&qp, 0, sizeof(qp));
	memset(peers, 0, sizeof(peers));
	memset(pools, 0, sizeof(pools));
	for (uint32_t i = 1; i < PROCESSES; i++)
		peers[i] = (struct sv_peer){ .state = SV_PEER_UP, .ro = &ros[i], .rw = &rws[i] };
	proc.slot = OWN_SLOT;
	proc.incarnation = OWN_INCARNATION;
	sv_proc = &proc;
	qp.qpn = OWN_QPN;
	qp.ib.pd = &pd.ib;
	qp.sq_lock.held = 1;
	gets = looks = pokes = asked = yields = waits.n = wakes.n = 0;
	memory = -1;
	no_links = no_mappings = comes_up = false;
	valid = true;
	now_ns = 1000 * SECOND;
	epoch = 5;
	meanwhile = at_look = at_put = NULL;
	return 0;
}

/* All that it had of destinations is given back. */
static inline int sender_end(void **state)
{
	(void)state;
	qp.sq_lock.held = 0;
	sv_dest_forget(&qp);
	assert_true(!qp.dests && !qp.ndests);
	for (uint32_t i = 1; i < PROCESSES; i++) {
		assert_int_equal(refs[i], 0);
		assert_int_equal(mapped[i], 0);
	}
	assert_int_equal(blocks, 0);
	return 0;
}

static inline struct sv_dest *to(uint32_t qpn)
{
	struct sv_dest *dest = NULL;

	assert_int_equal(sv_dest_find(&qp, qpn, &dest), 0);
	assert_true(dest && dest == qp.dests && qp.sq_lock.held);
	return dest;
}

static inline struct sv_dest *to_group(const uint8_t *gid)
{
	struct sv_dest *dest = NULL;

	assert_int_equal(sv_dest_find_group(&qp, gid, &dest), 0);
	assert_true(dest && dest == qp.dests && qp.sq_lock.held);
	return dest;
}

static inline void set_members(uint32_t n, const uint32_t *qpns)
{
	members.n = n;
	for (uint32_t i = 0; i < n; i++)
		members.qpn[i] = qpns[i];
}

#endif
