/* SPDX-License-Identifier: BSD-2-Clause */
/* cqs.c -- completion queues' rings: order, overrun, sizes that change, completions of a queue pair that ends. */
#include "bare_ctx.h"
#include "common/softverbs/base/limits.h"
#include "common/softverbs/object/cq.h"

#define SIZE 16 /* the least */

/* Only told apart. */
static char pairs[2];
#define QP(n) ((struct sv_qp *)(void *)&pairs[n])

static struct sv_cq *new_cq(void)
{
	struct ibv_cq *cq = sv_create_cq(CONTEXT, 1, NULL, NULL, 0);

	assert_true(cq && cq->cqe == SIZE);
	return sv_cq_of(cq);
}

static void end(struct sv_cq *cq)
{
	assert_int_equal(sv_destroy_cq(&cq->ib), 0);
}

static bool push(struct sv_cq *cq, uint64_t wr_id, int qp)
{
	static const struct ibv_wc none;
	struct ibv_wc *wc = sv_cq_slot_locked(cq, QP(qp), wr_id + 1);

	if (!wc)
		return false;
	assert_memory_equal(wc, &none, sizeof(none));
	memset(wc, 0xff, sizeof(*wc));
	wc->wr_id = wr_id;
	sv_cq_push_locked(cq);
	return true;
}

static uint32_t held_by(struct sv_cq *cq)
{
	return cq->tail - cq->head;
}

/* The oldest, which is polled. */
static void expect(struct sv_cq *cq, uint64_t wr_id, int qp)
{
	struct sv_cqe *cqe = sv_cqe_at(cq, cq->head);

	assert_true(held_by(cq) && cqe->wc.wr_id == wr_id && cqe->sq_upto == wr_id + 1 && cqe->qp == QP(qp));
	cq->head++;
}

static void test_sizes(void **state)
{
	static const int asked[][2] = { { 1, 16 }, { 16, 16 }, { 17, 32 }, { 32, 32 }, { 33, 64 }, { 5000, 8192 } };
	static const int refused[] = { 0, -1, SV_MAX_CQE + 1 };
	struct ibv_cq *cq;

	(void)state;
	for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
		cq = sv_create_cq(CONTEXT, asked[i][0], pairs, NULL, 0);
		assert_true(cq && cq->cqe == asked[i][1] && cq->cq_context == pairs && !cq->channel);
		assert_ptr_equal(cq->context, CONTEXT);
		assert_int_equal(sv_destroy_cq(cq), 0);
	}
	cq = &new_cq()->ib;
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		errno = 0;
		assert_null(sv_create_cq(CONTEXT, refused[i], NULL, NULL, 0));
		assert_int_equal(errno, EINVAL);
		assert_int_equal(sv_resize_cq(cq, refused[i]), EINVAL);
		assert_int_equal(cq->cqe, SIZE);
	}
	for (int vector = -1; vector < 2; vector += 2) {
		errno = 0;
		assert_null(sv_create_cq(CONTEXT, 1, NULL, NULL, vector));
		assert_int_equal(errno, EINVAL);
	}
	end(sv_cq_of(cq));
}

/* Each has a place, and in the shared tables nothing is left there of an earlier one. */
static void test_places(void **state)
{
	struct sv_cq *all[SV_CQS];
	struct sv_rw_cq *rw = &bare_rw.cq[7];

	(void)state;
	for (uint32_t i = 0; i < SV_CQS; i++) {
		all[i] = new_cq();
		assert_true(all[i]->index == i && all[i]->ib.handle == i && bare_proc.cq[i] == all[i]);
	}
	errno = 0;
	assert_null(sv_create_cq(CONTEXT, 1, NULL, NULL, 0));
	assert_int_equal(errno, ENOMEM);
	all[7]->users = 1;
	assert_int_equal(sv_destroy_cq(&all[7]->ib), EBUSY);
	all[7]->users = 0;
	for (int late = 0; late < 2; late++) { /* a peer that is late writes there after its end */
		if (late)
			end(all[7]);
		rw->armed = SV_ARMED_ANY;
		rw->pending = rw->rung = bare_ro.cq[7].channel = 3;
		for (uint32_t n = 0; n < 4096; n += 63)
			sv_set_add(&rw->ready, n);
		if (!late)
			end(all[7]);
		else
			all[7] = new_cq();
		assert_true(!rw->armed && !rw->pending && !rw->rung && !bare_ro.cq[7].channel && !rw->ready.top);
		for (int i = 0; i < 64; i++)
			assert_int_equal(rw->ready.word[i], 0);
		if (!late)
			all[7] = new_cq();
		assert_int_equal(all[7]->index, 7);
	}
	for (uint32_t i = 0; i < SV_CQS; i++)
		end(all[i]);
}

static void test_order(void **state)
{
	struct sv_cq *cq = new_cq();
	uint64_t next = 0, pushed = 0;

	(void)state;
	for (int round = 0; round < 3; round++) {
		while (pushed < next + SIZE)
			assert_true(push(cq, pushed++, 0));
		while (next < pushed - 3)
			expect(cq, next++, 0);
	}
	end(cq);
}

/* The one that finds no room is lost, and all behind it. */
static void test_overrun(void **state)
{
	struct sv_cq *cq = new_cq();

	(void)state;
	for (uint64_t i = 0; i < SIZE; i++)
		assert_true(push(cq, i, 0));
	assert_true(!cq->overrun && !push(cq, 99, 0) && cq->overrun);
	assert_int_equal(written(CONTEXT->async_fd), 1);
	for (uint64_t i = 0; i < SIZE; i++)
		expect(cq, i, 0);
	assert_true(!push(cq, 99, 0) && !held_by(cq));
	assert_int_equal(written(CONTEXT->async_fd), 1);
	end(cq);
	assert_int_equal(written(CONTEXT->async_fd), 0);
}

/* What is there stays, in order, wherever the ring's end was. */
static void test_resized(void **state)
{
	static const int sizes[] = { 17, 16, 100, 33, 16 };
	struct sv_cq *cq = new_cq();
	uint64_t next = 0, pushed = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		int before = cq->ib.cqe, size = sizes[i] > 64 ? 128 : sizes[i] > 32 ? 64 : sizes[i] > 16 ? 32 : 16;

		while (pushed < next + SIZE)
			assert_true(push(cq, pushed++, 0));
		if (before > SIZE) {
			assert_true(push(cq, pushed++, 0));
			assert_int_equal(sv_resize_cq(&cq->ib, SIZE), EINVAL); /* there is one more */
			assert_int_equal(cq->ib.cqe, before);
			expect(cq, next++, 0);
		}
		assert_int_equal(sv_resize_cq(&cq->ib, sizes[i]), 0);
		assert_true(cq->ib.cqe == size && held_by(cq) == SIZE);
		while (pushed < next + (uint64_t)size)
			assert_true(push(cq, pushed++, 0));
		while (next + 5 < pushed)
			expect(cq, next++, 0);
	}
	end(cq);
}

/* A queue pair's go, the others' stay in their order. */
static void test_cleaned(void **state)
{
	struct sv_cq *cq = new_cq();

	(void)state;
	for (int round = 0; round < 3; round++) {
		for (uint64_t i = 0; i < 10; i++)
			assert_true(push(cq, i, i % 3 == 1));
		assert_true(sv_cq_holds_locked(cq, QP(0)) && sv_cq_holds_locked(cq, QP(1)));
		sv_cq_clean(cq, QP(1));
		assert_true(held_by(cq) == 7 && !sv_cq_holds_locked(cq, QP(1)) && sv_cq_holds_locked(cq, QP(0)));
		for (uint64_t i = 0; i < 10; i++) {
			if (i % 3 != 1)
				expect(cq, i, 0);
		}
		assert_true(!held_by(cq) && !sv_cq_holds_locked(cq, QP(0)));
		assert_true(push(cq, 1, 1) && push(cq, 2, 0));
		assert_true(sv_cq_holds_locked(cq, QP(1)) && sv_cq_holds_locked(cq, QP(0)));
		sv_cq_clean(cq, QP(0));
		expect(cq, 1, 1);
	}
	end(cq);
}

#define ON_CONTEXT(test) cmocka_unit_test_setup_teardown(test, ctx_begin, ctx_end)

int main(void)
{
	const struct CMUnitTest tests[] = { ON_CONTEXT(test_sizes), ON_CONTEXT(test_places), ON_CONTEXT(test_order),
					    ON_CONTEXT(test_overrun), ON_CONTEXT(test_resized),
					    ON_CONTEXT(test_cleaned) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
