/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * credit.c -- receive credits: as many are claimed as receives are posted, each is counted for
 * whom it is, by the claimant or by the next one, and no claim twice; and where the numbers wrap.
 * Those that will not be used are given back, of a seat that was left only to a shared queue.
 */
#include "bare.h"
#include <stdlib.h>
#include "common/softverbs/base/limits.h"
#include "common/softverbs/exec/credit.h"

#define RQ 5u
#define SEAT 71u
#define NEIGHBOUR 72u
#define POSTED 20u
#define NUMBERS 0x100000u /* claims of one queue pair, until their numbers come again */

static struct sv_ro *ro;
static struct sv_rw *rw;

static int set_up(void **state)
{
	(void)state;
	ro = aligned_alloc(SV_CACHE_LINE, sizeof(*ro) + SV_CACHE_LINE - sizeof(*ro) % SV_CACHE_LINE);
	rw = aligned_alloc(SV_CACHE_LINE, sizeof(*rw) + SV_CACHE_LINE - sizeof(*rw) % SV_CACHE_LINE);
	if (!ro || !rw)
		return -1;
	memset(ro, 0, sizeof(*ro));
	memset(rw, 0, sizeof(*rw));
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	free(ro);
	free(rw);
	return 0;
}

static uint32_t claimed_of(uint32_t index)
{
	return atomic_load(&rw->qp[index].claimed);
}

/* The next claim is number n of its queue. */
static void set_claims(uint32_t n)
{
	atomic_store(&rw->rq[RQ].claim, (uint64_t)n << 32);
	atomic_store(&ro->rq[RQ].posted, n);
}

static void post(uint32_t n)
{
	atomic_fetch_add(&ro->rq[RQ].posted, n);
}

static void check_last(uint32_t claims, uint32_t claimant, uint32_t number)
{
	uint64_t word = atomic_load(&rw->rq[RQ].claim);

	assert_int_equal(word >> 32, claims);
	assert_int_equal(word >> 20 & 0xfff, claimant);
	assert_int_equal(word & 0xfffff, number);
}

static void test_as_many_as_posted(void **state)
{
	(void)state;
	assert_false(sv_credit_claim(ro, rw, RQ, 7));
	check_last(0, 0, 0);
	post(3);
	assert_true(sv_credit_claim(ro, rw, RQ, 7));
	check_last(1, 7, 1);
	assert_true(sv_credit_claim(ro, rw, RQ, 4095));
	check_last(2, 4095, 1);
	assert_true(sv_credit_claim(ro, rw, RQ, 7));
	check_last(3, 7, 2);
	assert_false(sv_credit_claim(ro, rw, RQ, 7));
	assert_false(sv_credit_claim(ro, rw, RQ, 4095));
	check_last(3, 7, 2);
	assert_int_equal(claimed_of(7), 2);
	assert_int_equal(claimed_of(4095), 1);
	assert_false(sv_credit_claim(ro, rw, RQ + 1, 7)); /* there, nothing is posted */
}

static void test_counts_of_claims_wrap(void **state)
{
	(void)state;
	set_claims(UINT32_MAX);
	assert_false(sv_credit_claim(ro, rw, RQ, 9));
	post(2); /* to 1 */
	assert_true(sv_credit_claim(ro, rw, RQ, 9));
	assert_true(sv_credit_claim(ro, rw, RQ, 9));
	assert_false(sv_credit_claim(ro, rw, RQ, 9));
	check_last(1, 9, 2);
	assert_int_equal(claimed_of(9), 2);
}

/* One who stops between its claim and its count is counted by the next one, and by itself no more. */
static void test_counted_by_the_next(void **state)
{
	uint64_t word;

	(void)state;
	post(3);
	assert_true(sv_credit_claim(ro, rw, RQ, 7));
	word = atomic_load(&rw->rq[RQ].claim);
	atomic_store(&rw->qp[7].claimed, 0);
	assert_true(sv_credit_claim(ro, rw, RQ, 8));
	assert_int_equal(claimed_of(7), 1);
	assert_int_equal(claimed_of(8), 1);
	sv_credit_count(rw, word);
	assert_int_equal(claimed_of(7), 1);
	/* Its own next claim counts that one first, too: its number is the second. */
	assert_true(sv_credit_claim(ro, rw, RQ, 7));
	check_last(3, 7, 2);
	assert_int_equal(claimed_of(7), 2);
}

static void test_claims_that_are_not_the_next(void **state)
{
	(void)state;
	atomic_store(&rw->qp[7].claimed, 10);
	for (uint32_t number = 14; number > 7; number--) {
		sv_credit_count(rw, 7 << 20 | number);
		assert_int_equal(claimed_of(7), number > 11 ? 10 : 11);
	}
	sv_credit_count(rw, 1); /* of nobody */
	assert_int_equal(claimed_of(0), 0);
}

static void test_numbers_of_claims_wrap(void **state)
{
	(void)state;
	post(2);
	atomic_store(&rw->qp[7].claimed, 3 * NUMBERS - 2);
	assert_true(sv_credit_claim(ro, rw, RQ, 7));
	check_last(1, 7, NUMBERS - 1);
	assert_true(sv_credit_claim(ro, rw, RQ, 7));
	check_last(2, 7, 0);
	assert_int_equal(claimed_of(7), 3 * NUMBERS);
}

/* ---- what will not be used ---- */

static struct sv_srq shared[2]; /* the first and the last place */
static const uint32_t place[2] = { 0, SV_SRQS - 1 };

/* Nobody sits there any more.  So many of the credits that were claimed for it are lost: their messages
 * never came, and they were not given back. */
static void leave(uint32_t rq, uint32_t lost)
{
	bare_proc.seats[SEAT / 64] = ~(1ull << SEAT % 64);
	bare_proc.seat[SEAT] = (struct sv_qp_seat){ .received = 40, .reclaimed = UINT32_MAX, .rq = rq };
	atomic_store(&rw->qp[SEAT].claimed, 39 + lost);
}

static int set_up_seats(void **state)
{
	int ret = bare_begin(state);

	ro = &bare_ro;
	rw = &bare_rw;
	memset(shared, 0, sizeof(shared));
	for (int i = 0; i < 2; i++) {
		shared[i].rq = (struct sv_rq){ .index = SV_QPS + place[i], .posted = POSTED };
		atomic_store(&ro->rq[SV_QPS + place[i]].posted, POSTED);
		bare_proc.srq[place[i]] = &shared[i];
	}
	return ret;
}

/* So many were given to each of the two queues. */
static void check_given(uint32_t first, uint32_t last)
{
	const uint32_t given[2] = { first, last };

	for (int i = 0; i < 2; i++) {
		assert_int_equal(shared[i].rq.posted, POSTED + given[i]);
		assert_int_equal(ro->rq[SV_QPS + place[i]].posted, POSTED + given[i]);
	}
}

/* That seat gives back nothing, and nothing of it changes. */
static void keeps(uint32_t seat)
{
	struct sv_qp_seat before = bare_proc.seat[seat];
	uint32_t claimed = claimed_of(seat), first = shared[0].rq.posted, last = shared[1].rq.posted;

	sv_seat_reclaim(seat);
	assert_int_equal(bare_proc.seat[seat].received, before.received);
	assert_int_equal(bare_proc.seat[seat].reclaimed, before.reclaimed);
	assert_int_equal(claimed_of(seat), claimed);
	check_given(first - POSTED, last - POSTED);
}

/* To the queue that the one who left had, and once; what a peer loses later is given back then. */
static void test_left_seat_gives_back(void **state)
{
	(void)state;
	leave(SV_QPS, 3);
	sv_seat_reclaim(SEAT);
	check_given(3, 0);
	assert_int_equal(bare_proc.seat[SEAT].reclaimed, 2);
	assert_int_equal(bare_proc.seat[SEAT].received, 40);
	keeps(SEAT);
	atomic_fetch_add(&rw->qp[SEAT].claimed, 1);
	sv_seat_reclaim(SEAT);
	check_given(4, 0);
	leave(SV_QPS + SV_SRQS - 1, 2);
	sv_seat_reclaim(SEAT);
	check_given(4, 2);
	keeps(SEAT);
}

/* The last claim of the queue counts, though its claimant died before it could count it. */
static void test_left_seat_counts_the_last_claim(void **state)
{
	_Atomic uint64_t *claim = &rw->rq[SV_QPS].claim;

	(void)state;
	leave(SV_QPS, 0);
	atomic_store(claim, 9ull << 32 | NEIGHBOUR << 20 | 40); /* of another seat */
	keeps(SEAT);
	atomic_store(claim, 9ull << 32 | SEAT << 20 | 39); /* counted */
	keeps(SEAT);
	atomic_store(claim, 9ull << 32 | SEAT << 20 | 41); /* not the next */
	keeps(SEAT);
	atomic_store(claim, 9ull << 32 | SEAT << 20 | 40);
	sv_seat_reclaim(SEAT);
	check_given(1, 0);
	assert_int_equal(claimed_of(SEAT), 40);
	keeps(SEAT);
	/* Where the numbers wrap. */
	atomic_store(&rw->qp[SEAT].claimed, 5 * NUMBERS - 1);
	bare_proc.seat[SEAT].received = 5 * NUMBERS - 1 - bare_proc.seat[SEAT].reclaimed;
	atomic_store(claim, 10ull << 32 | SEAT << 20);
	sv_seat_reclaim(SEAT);
	check_given(2, 0);
	assert_int_equal(claimed_of(SEAT), 5 * NUMBERS);
}

/* The peer writes its counter itself: more than there can be, or fewer than were used, is not believed. */
static void test_counts_that_are_not_believed(void **state)
{
	(void)state;
	leave(SV_QPS, SV_MAX_SRQ_WR + 1);
	keeps(SEAT);
	leave(SV_QPS, UINT32_MAX);
	keeps(SEAT);
	leave(SV_QPS, SV_MAX_SRQ_WR);
	sv_seat_reclaim(SEAT);
	check_given(SV_MAX_SRQ_WR, 0);
}

/* Somebody else sits there, or the queue is gone, or it was not a shared one: nothing is given back, nor
 * counted.  When that is over, it is. */
static void test_seats_that_keep_all(void **state)
{
	static const uint32_t own[] = { 0, SEAT, SV_QPS - 1 };

	(void)state;
	leave(SV_QPS, 3);
	atomic_store(&rw->rq[SV_QPS].claim, 9ull << 32 | SEAT << 20 | 43);
	bare_proc.seats[SEAT / 64] = 1ull << SEAT % 64;
	keeps(SEAT);
	bare_proc.seats[SEAT / 64] = 0;
	bare_proc.srq[0] = NULL;
	keeps(SEAT);
	bare_proc.srq[0] = &shared[0];
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
		bare_proc.seat[SEAT].rq = own[i];
		atomic_store(&rw->rq[own[i]].claim, 9ull << 32 | SEAT << 20 | 43);
		keeps(SEAT);
	}
	bare_proc.seat[SEAT].rq = SV_QPS;
	sv_seat_reclaim(SEAT);
	check_given(4, 0);
}

/* A queue pair that is there gives back to its own queue, or to the one that it shares. */
static void test_queue_pair_gives_back(void **state)
{
	struct sv_rq own = { .index = SEAT, .posted = 7 };
	struct sv_qp *qp = calloc(1, sizeof(*qp));

	(void)state;
	assert_non_null(qp);
	qp->index = SEAT;
	qp->rq = &own;
	leave(SEAT, 5);
	bare_proc.seats[SEAT / 64] = 1ull << SEAT % 64;
	sv_qp_reclaim_locked(qp);
	sv_qp_reclaim_locked(qp);
	assert_int_equal(own.posted, 12);
	assert_int_equal(ro->rq[SEAT].posted, 12);
	check_given(0, 0);
	qp->rq = &shared[1].rq;
	leave(SV_QPS + SV_SRQS - 1, 6);
	sv_qp_reclaim_locked(qp);
	check_given(0, 6);
	assert_int_equal(own.posted, 12);
	free(qp);
}

/* Who sits down where another left, or is reset, begins anew: nothing that was counted there before is
 * given back to its queue, and nothing of the ring, of what went wrong, or of who waited is left. */
static void test_seat_is_taken_anew(void **state)
{
	struct sv_rq own = { .index = SEAT, .posted = 7 };
	struct sv_qp *qp = calloc(1, sizeof(*qp));
	struct sv_rw_qp *shown = &rw->qp[SEAT];

	(void)state;
	assert_non_null(qp);
	*qp = (struct sv_qp){ .index = SEAT, .ro = &ro->qp[SEAT], .rw = shown, .rq = &own, .rx_head = 3,
			      .rx_closed = true, .rx_partial = true };
	leave(SV_QPS, 5);
	bare_proc.seats[SEAT / 64] = 1ull << SEAT % 64;
	atomic_store(&shown->tail, 4);
	atomic_store(&shown->head, 3);
	atomic_store(&shown->tx_wait, 1);
	atomic_store(&shown->fault, SV_FAULT_NONE + 1);
	atomic_store(&ro->qp[SEAT].nak, SV_NAK_LOCAL);
	sv_qp_reset_shared(qp);
	assert_true(!shown->tail && !shown->head && !shown->tx_wait && shown->fault == SV_FAULT_NONE);
	assert_int_equal(ro->qp[SEAT].nak, SV_NAK_NONE);
	assert_true(!qp->rx_head && !qp->rx_closed && !qp->rx_partial);
	sv_qp_reclaim_locked(qp);
	assert_int_equal(own.posted, 7);
	/* What is lost from then on is its own, and is found at its own queue. */
	atomic_fetch_add(&shown->claimed, 2);
	atomic_store(&rw->rq[SEAT].claim, 9ull << 32 | SEAT << 20 | (claimed_of(SEAT) + 1));
	sv_qp_reclaim_locked(qp);
	assert_int_equal(own.posted, 10);
	assert_int_equal(ro->rq[SEAT].posted, 10);
	check_given(0, 0);
	free(qp);
}

int main(void)
{
#define OF_SEATS(test) cmocka_unit_test_setup_teardown(test, set_up_seats, bare_end)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_as_many_as_posted, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_counts_of_claims_wrap, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_counted_by_the_next, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_claims_that_are_not_the_next, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_numbers_of_claims_wrap, set_up, tear_down),
		OF_SEATS(test_left_seat_gives_back),
		OF_SEATS(test_left_seat_counts_the_last_claim),
		OF_SEATS(test_counts_that_are_not_believed),
		OF_SEATS(test_seats_that_keep_all),
		OF_SEATS(test_queue_pair_gives_back),
		OF_SEATS(test_seat_is_taken_anew),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
