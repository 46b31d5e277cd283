/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A poll of a completion queue: whose messages it takes, in which order and how many of each, what
 * it copies out, when it gives the CPU away.
 *
 * The program is linked with --wrap: the queue pairs' rings are numbers, and whoever is at work
 * meanwhile is the function that sched_yield() is.
 */
#include "kit.h"
#include "common/softverbs/base/proc.h"
#include "common/softverbs/exec/exec.h"
#include "common/softverbs/exec/poll.h"
#include "common/softverbs/exec/wire_recv.h"
#include "common/softverbs/object/cq.h"
#include "common/softverbs/object/qp.h"

#define RING 128u
#define TAKES_MAX 64u
#define SHARE 4	       /* of each queue pair at one turn, where others have messages too */
#define EMPTY_POLLS 64 /* after which the CPU is given away */
#define BESIDE 3u      /* index of a queue pair that has another receive CQ */
#define EMPTY 2u       /* of a seat that nobody has */

static struct sv_proc proc;
static struct sv_ro ro;
static struct sv_rw rw;
static struct sv_cqe ring[RING];
static struct sv_cq cq, other;
static struct sv_qp qps[SV_QPS];
static uint32_t messages[SV_QPS];
static bool lies; /* a ring that has nothing says there is more */

struct take {
	uint32_t index;
	int max;
};
static struct take takes[TAKES_MAX];
static uint32_t ntakes;
static int taken;
static int progressed, yields;
static void (*meanwhile)(void); /* what others do while the CPU is theirs, once */

/* ---- who is called ---- */

int __wrap_sched_yield(void);
uint64_t __wrap_sv_progress_blocked(struct sv_cq *of, struct sv_peer *peer);
int __wrap_sv_wire_drain_locked(struct sv_qp *qp, int max, bool *again);

int __wrap_sched_yield(void)
{
	void (*run)(void) = meanwhile;

	meanwhile = NULL;
	yields++;
	if (run)
		run();
	return 0;
}

static void push(uint64_t wr_id, struct sv_qp *qp, uint64_t sq_upto)
{
	struct sv_cqe *cqe = sv_cqe_at(&cq, cq.tail);

	*cqe = (struct sv_cqe){ .wc = { .wr_id = wr_id }, .qp = qp, .sq_upto = sq_upto };
	cq.tail++;
}

uint64_t __wrap_sv_progress_blocked(struct sv_cq *of, struct sv_peer *peer)
{
	assert_true(of == &cq && !peer && !cq.lock.held);
	progressed++;
	push(1000, &qps[1], 7);
	return UINT64_MAX;
}

int __wrap_sv_wire_drain_locked(struct sv_qp *qp, int max, bool *again)
{
	uint32_t index = qp->index;
	int n = messages[index] < (uint32_t)max ? (int)messages[index] : max;

	assert_true(max > 0 && ntakes < TAKES_MAX && cq.lock.held && !proc.seat[index].lock.held);
	takes[ntakes++] = (struct take){ index, max };
	for (int i = 0; i < n; i++)
		push(index, qp, 0);
	messages[index] -= (uint32_t)n;
	taken += n;
	*again = messages[index] || lies;
	return n;
}

static int begin(void **state)
{
	(void)state;
	memset(&proc, 0, sizeof(proc));
	memset(&rw, 0, sizeof(rw));
	memset(messages, 0, sizeof(messages));
	cq = (struct sv_cq){ .index = 5, .ring = ring, .mask = RING - 1 };
	proc.ro = &ro;
	proc.rw = &rw;
	sv_proc = &proc;
	for (uint32_t i = 1; i < SV_QPS; i++) {
		qps[i].index = i;
		qps[i].ib.recv_cq = i == BESIDE ? &other.ib : &cq.ib;
		proc.seat[i].qp = i == EMPTY ? NULL : &qps[i];
	}
	ntakes = 0;
	progressed = yields = 0;
	lies = false;
	meanwhile = NULL;
	return 0;
}

static struct sv_set *ready(void)
{
	return &rw.cq[cq.index].ready;
}

static void have(uint32_t index, uint32_t n)
{
	messages[index] = n;
	sv_set_add(ready(), index);
}

/* The lock is free after it, and there are as many completions. */
static void poll_for(int n, int got)
{
	struct ibv_wc wc[RING];

	assert_int_equal(sv_poll_cq(&cq.ib, n, wc), got);
	assert_int_equal(cq.lock.held, 0);
}

/* A poll for n takes of these, in this order; an index of 0 ends them. */
static void check_turns(int n, const struct take *expected)
{
	struct ibv_wc wc[RING];
	uint32_t i;
	int got;

	ntakes = 0;
	taken = 0;
	got = sv_poll_cq(&cq.ib, n, wc);
	assert_int_equal(got, taken);
	assert_int_equal(cq.lock.held, 0);
	for (i = 0; expected[i].index && i < ntakes; i++) {
		assert_int_equal(takes[i].index, expected[i].index);
		assert_int_equal(takes[i].max, expected[i].max);
	}
	assert_int_equal(expected[i].index, 0);
	assert_int_equal(ntakes, i);
}

#define TURNS(n, ...) check_turns(n, (const struct take[]){ __VA_ARGS__, { 0, 0 } })

/* ---- turns ---- */

/* It has as many as are asked for, wherever its bit is, and whose turn it were. */
static void test_alone(void **state)
{
	static const uint32_t indices[] = { 1, 5, 63, 64, 100, 128, 4032, 4095 };
	static const uint32_t next[] = { 0, 1, 5, 6, 64, 101, 4095 };

	for (size_t i = 0; i < sizeof(indices) / sizeof(indices[0]); i++) {
		for (size_t k = 0; k < sizeof(next) / sizeof(next[0]); k++) {
			begin(state);
			cq.next = next[k];
			have(indices[i], 20);
			TURNS(16, { indices[i], 16 });
			TURNS(16, { indices[i], 16 }); /* the other four */
			poll_for(16, 0);
		}
	}
}

static void test_two_in_turn(void **state)
{
	(void)state;
	have(5, 100);
	have(9, 100);
	TURNS(16, { 5, SHARE }, { 9, SHARE }, { 5, SHARE }, { 9, SHARE });
	TURNS(9, { 5, SHARE }, { 9, SHARE }, { 5, 1 });
	TURNS(9, { 9, SHARE }, { 5, SHARE }, { 9, 1 });
	TURNS(6, { 5, SHARE }, { 9, 2 });
	TURNS(2, { 5, 2 });
	TURNS(4, { 9, SHARE });
}

static void test_neighbours(void **state)
{
	(void)state;
	for (uint32_t i = 62; i < 66; i++)
		have(i, 100);
	cq.next = 62;
	TURNS(SHARE, { 62, SHARE });
	TURNS(SHARE, { 63, SHARE });
	TURNS(3, { 64, 3 });
	TURNS(5, { 65, SHARE }, { 62, 1 });
}

static void test_words_in_turn(void **state)
{
	(void)state;
	have(5, 100);
	have(70, 100);
	have(4095, 100);
	cq.next = 70;
	TURNS(18, { 70, SHARE }, { 4095, SHARE }, { 5, SHARE }, { 70, SHARE }, { 4095, 2 });
	TURNS(6, { 5, SHARE }, { 70, 2 });
	TURNS(7, { 4095, SHARE }, { 5, 3 });
	cq.next = 71; /* that word has only one that had its turn */
	TURNS(13, { 4095, SHARE }, { 5, SHARE }, { 70, SHARE }, { 4095, 1 });
}

/* Before and behind whose turn it is, in the same word; others in the words around it. */
static void test_round(void **state)
{
	static const uint32_t indices[] = { 63, 128, 130, 131, 190, 191, 192 };
	const uint32_t n = sizeof(indices) / sizeof(indices[0]);

	for (uint32_t first = 0; first < n; first++) {
		struct take expected[8] = { { 0, 0 } };

		begin(state);
		for (uint32_t i = 0; i < n; i++) {
			have(indices[i], 1);
			expected[i] = (struct take){ indices[(first + i) % n], SHARE };
		}
		cq.next = indices[first];
		check_turns((int)RING, expected);
		assert_int_equal(ready()->top, 0);
	}
}

/* Who isn't ready isn't looked at, and who is no receiver of this queue has nothing for it. */
static void test_not_ready(void **state)
{
	(void)state;
	cq.next = 64;
	have(200, 2);
	TURNS(16, { 200, 16 });
	have(BESIDE, 9);
	have(EMPTY, 9);
	have(7, 1);
	TURNS(16, { 7, SHARE });
	assert_int_equal(messages[BESIDE], 9);
	poll_for(16, 0);
	cq.next = 9;
	have(300, 3);
	have(7, 5);
	TURNS(16, { 300, SHARE }, { 7, SHARE }, { 7, 9 });
}

/* A ring that says it has more, and hasn't, is looked at once. */
static void test_lies(void **state)
{
	(void)state;
	lies = true;
	have(6, 0);
	TURNS(16, { 6, 16 });
	have(70, 0);
	TURNS(16, { 70, SHARE }, { 6, SHARE });
}

/* What is in the queue already is taken first, and counts. */
static void test_what_is_there(void **state)
{
	(void)state;
	push(1, &qps[1], 0);
	push(2, &qps[1], 0);
	have(6, 100);
	poll_for(2, 2);
	assert_int_equal(ntakes, 0);
	push(1, &qps[1], 0);
	poll_for(3, 3);
	assert_true(ntakes == 1 && takes[0].max == 2 && messages[6] == 98);
	assert_int_equal(cq.head, cq.tail);
}

/* ---- completions ---- */

/* In order; each frees the send slots that it says; none is overwritten behind the last. */
static void test_copied(void **state)
{
	struct ibv_wc wc[4] = { 0 };

	(void)state;
	for (uint64_t i = 1; i <= 5; i++)
		push(10 + i, &qps[i], i == 2 ? 0 : 20 + i);
	qps[2].polled = 9;
	wc[3].wr_id = 99;
	assert_int_equal(sv_poll_cq(&cq.ib, 3, wc), 3);
	assert_true(wc[0].wr_id == 11 && wc[1].wr_id == 12 && wc[2].wr_id == 13 && wc[3].wr_id == 99);
	assert_true(qps[1].polled == 21 && qps[2].polled == 9 && qps[3].polled == 23);
	assert_true(qps[4].polled == 0 && cq.head == 3 && cq.first == 0);
	assert_int_equal(sv_poll_cq(&cq.ib, 4, wc), 2);
	assert_true(wc[0].wr_id == 14 && wc[1].wr_id == 15 && wc[2].wr_id == 13);
	assert_true(qps[5].polled == 25 && cq.head == 5);
	push(16, &qps[1], 0);
	assert_ptr_equal(sv_cqe_at(&cq, cq.head), ring); /* it starts over when it is empty */
	assert_int_equal(sv_poll_cq(&cq.ib, 1, wc), 1);
	assert_int_equal(wc[0].wr_id, 16);
}

static void test_how_many(void **state)
{
	(void)state;
	have(6, 5);
	cq.nblocked = 1;
	poll_for(0, 0);
	poll_for(-1, -EINVAL);
	assert_true(ntakes == 0 && progressed == 0 && yields == 0);
}

/* Requests that wait go on before it looks, if there are any. */
static void test_blocked(void **state)
{
	struct ibv_wc wc;

	(void)state;
	poll_for(1, 0);
	assert_int_equal(progressed, 0);
	cq.nblocked = 2;
	assert_int_equal(sv_poll_cq(&cq.ib, 1, &wc), 1);
	assert_true(progressed == 1 && wc.wr_id == 1000 && qps[1].polled == 7);
}

/* Polls fail after the last good one, and at once. */
static void test_overrun(void **state)
{
	(void)state;
	push(1, &qps[1], 0);
	push(2, &qps[1], 0);
	cq.overrun = true;
	poll_for(1, 1);
	poll_for(3, 1);
	for (int i = 0; i < 2 * EMPTY_POLLS; i++)
		poll_for(1, -EIO);
	have(6, 1);
	poll_for(2, 1);
	poll_for(2, -EIO);
	assert_int_equal(yields, 0);
}

/* ---- nothing there ---- */

static void another_completes(void)
{
	push(77, &qps[1], 0);
}

/* Until there was nothing so often it keeps the CPU; then it gives it away and looks again. */
static void test_yield(void **state)
{
	struct ibv_wc wc;

	(void)state;
	for (int i = 1; i < EMPTY_POLLS; i++)
		poll_for(1, 0);
	assert_int_equal(yields, 0);
	meanwhile = another_completes;
	assert_int_equal(sv_poll_cq(&cq.ib, 2, &wc), 1);
	assert_true(wc.wr_id == 77 && yields == 1);
	for (int i = 1; i < EMPTY_POLLS; i++) /* anew after that one */
		poll_for(1, 0);
	push(1, &qps[1], 0);
	poll_for(1, 1);
	for (int i = 1; i < EMPTY_POLLS; i++)
		poll_for(1, 0);
	assert_int_equal(yields, 1);
	poll_for(1, 0); /* its second look is the first of the next */
	assert_int_equal(yields, 2);
	for (int i = 2; i < EMPTY_POLLS; i++)
		poll_for(1, 0);
	assert_int_equal(yields, 2);
	poll_for(1, 0);
	assert_int_equal(yields, 3);
}

/* Also where queue pairs say that they are ready, and have nothing. */
static void test_yield_if_ready(void **state)
{
	(void)state;
	for (int i = 1; i <= EMPTY_POLLS; i++) {
		assert_int_equal(yields, 0);
		have(6, 0);
		poll_for(1, 0);
	}
	assert_int_equal(yields, 1);
}

/* Who can sleep does that. */
static void test_channel(void **state)
{
	struct ibv_comp_channel channel = { .fd = -1 };

	(void)state;
	cq.ib.channel = &channel;
	for (int i = 0; i < 3 * EMPTY_POLLS; i++)
		poll_for(1, 0);
	assert_int_equal(yields, 0);
}

/* ---- others ---- */

static void cleaned(void)
{
	assert_int_equal(cq.lock.held, 1);
	cq.head++;
	cq.lock.held = 0;
}

/* Who takes completions out has the lock, and a poll waits for it. */
static void test_other_cleans(void **state)
{
	struct ibv_wc wc;

	(void)state;
	push(1, &qps[1], 0);
	push(2, &qps[1], 0);
	cq.lock.held = 1;
	meanwhile = cleaned;
	assert_int_equal(sv_poll_cq(&cq.ib, 2, &wc), 1);
	assert_true(yields == 1 && wc.wr_id == 2 && !cq.lock.held);
}

static void left(void)
{
	assert_true(proc.seat[6].lock.held && !ntakes);
	proc.seat[6].qp = NULL;
	proc.seat[6].lock.held = 0;
}

/* A queue pair that is leaving its seat: when the seat's lock is free it is gone. */
static void test_other_leaves(void **state)
{
	(void)state;
	have(6, 1);
	proc.seat[6].lock.held = 1;
	meanwhile = left;
	poll_for(1, 0);
	assert_true(yields == 1 && !ntakes && !proc.seat[6].lock.held);
}

#define TEST(name) cmocka_unit_test_setup(test_##name, begin)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(alone),	      TEST(two_in_turn), TEST(words_in_turn), TEST(neighbours),
		TEST(round),	      TEST(not_ready),	 TEST(lies),	      TEST(what_is_there),
		TEST(copied),	      TEST(how_many),	 TEST(blocked),	      TEST(overrun),
		TEST(yield),	      TEST(yield_if_ready), TEST(channel),    TEST(other_cleans),
		TEST(other_leaves),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
