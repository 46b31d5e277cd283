/* SPDX-License-Identifier: BSD-2-Clause */
/* srqs.c -- receive queues: what is posted and taken, what peers see of it, limits, sizes, places in the table. */
#include "bare_ctx.h"
#include "common/softverbs/base/limits.h"
#include "common/softverbs/object/rq.h"

#define DEPTH 5u
#define CLAIMED 0xfffffffdu /* receives that an earlier queue of the place had */

/* An element with so many pieces. */
#define ROOM_FOR(name, pieces) \
	_Alignas(struct sv_rwqe) uint8_t name##_room[sizeof(struct sv_rwqe) + (pieces) * sizeof(struct ibv_sge)]; \
	struct sv_rwqe *name = (struct sv_rwqe *)(void *)name##_room

static struct ibv_srq *new_srq(uint32_t depth, uint32_t max_sge)
{
	struct ibv_srq_init_attr init = { .srq_context = &init, .attr = { .max_wr = depth, .max_sge = max_sge } };
	struct ibv_srq *srq = sv_create_srq(&pd.ib, &init);

	if (!srq)
		return NULL;
	assert_true(srq->pd == &pd.ib && srq->context == CONTEXT && srq->srq_context == &init);
	assert_true(init.attr.max_wr == depth && init.attr.max_sge == (max_sge ? max_sge : 1));
	return srq;
}

static struct sv_rq *rq_of(struct ibv_srq *srq)
{
	return &sv_srq_of(srq)->rq;
}

static struct sv_ro_rq *ro_of(struct ibv_srq *srq)
{
	return &bare_ro.rq[SV_QPS + srq->handle];
}

/* One of so many elements; the first of these bytes, the others of one each. */
static int post_of(struct ibv_srq *srq, uint64_t wr_id, int nsge, uint32_t bytes)
{
	struct ibv_sge sge[SV_MAX_SGE + 1];
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = sge, .num_sge = nsge }, *bad = NULL;
	int ret;

	for (int i = 0; i < nsge; i++)
		sge[i] = (struct ibv_sge){ .addr = wr_id + (uint64_t)i, .length = i ? 1 : bytes, .lkey = (uint32_t)i };
	ret = sv_post_srq_recv(srq, &wr, &bad);
	assert_ptr_equal(bad, ret ? &wr : NULL);
	return ret;
}

static void post(struct ibv_srq *srq, uint64_t wr_id)
{
	assert_int_equal(post_of(srq, wr_id, 1, 8), 0);
}

/* The next receive; 0: none. */
static uint64_t pop(struct ibv_srq *srq)
{
	ROOM_FOR(out, SV_MAX_SGE);

	return sv_rq_pop(rq_of(srq), out) ? out->wr_id : 0;
}

static void expect_limits(unsigned n)
{
	struct ibv_async_event event;

	for (; n; n--) {
		assert_int_equal(sv_get_async_event(CONTEXT, &event), 0);
		assert_int_equal(event.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
		sv_ack_async_event(&event);
	}
	assert_int_equal(written(CONTEXT->async_fd), 0);
}

static void expect_attr(struct ibv_srq *srq, uint32_t max_wr, uint32_t limit)
{
	struct ibv_srq_attr attr;

	assert_int_equal(sv_query_srq(srq, &attr), 0);
	assert_true(attr.max_wr == max_wr && attr.max_sge == 2 && attr.srq_limit == limit);
}

/* ---- making them ---- */

static void test_sizes(void **state)
{
	static const uint32_t bad[][2] = { { 0, 1 }, { SV_MAX_SRQ_WR + 1, 1 }, { 1, SV_MAX_SGE + 1 } };
	struct ibv_srq *srq;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		errno = 0;
		assert_null(new_srq(bad[i][0], bad[i][1]));
		assert_int_equal(errno, EINVAL);
	}
	srq = new_srq(SV_MAX_SRQ_WR, SV_MAX_SGE);
	assert_non_null(srq);
	assert_int_equal(post_of(srq, 1, SV_MAX_SGE, 1), 0);
	assert_int_equal(sv_destroy_srq(srq), 0);
	srq = new_srq(1, 0);
	assert_non_null(srq);
	assert_int_equal(post_of(srq, 1, 2, 1), EINVAL);
	assert_int_equal(post_of(srq, 1, 1, 1), 0);
	assert_int_equal(sv_destroy_srq(srq), 0);
}

static void test_places(void **state)
{
	struct ibv_srq *srqs[SV_SRQS];

	(void)state;
	for (uint32_t i = 0; i < SV_SRQS; i++) {
		srqs[i] = new_srq(1, 1);
		assert_true(srqs[i] && srqs[i]->handle == i && bare_proc.srq[i] == sv_srq_of(srqs[i]));
	}
	assert_int_equal(pd.users, SV_SRQS);
	errno = 0;
	assert_null(new_srq(1, 1));
	assert_int_equal(errno, ENOMEM);
	assert_int_equal(sv_destroy_srq(srqs[7]), 0);
	srqs[7] = new_srq(1, 1);
	assert_true(srqs[7] && srqs[7]->handle == 7);
	for (uint32_t i = 0; i < SV_SRQS; i++)
		assert_int_equal(sv_destroy_srq(srqs[i]), 0);
}

static void ended(struct sv_srq *srq)
{
	srq->closed = true;
}

/* Events that nobody took go with it, and nothing of somebody else's. */
static void test_end(void **state)
{
	struct ibv_srq *srq = new_srq(DEPTH, 2), *other = new_srq(DEPTH, 2);
	struct ibv_srq_attr attr = { .srq_limit = 1 };

	(void)state;
	assert_true(srq && other);
	sv_srq_of(srq)->ended = ended;
	sv_srq_of(srq)->users = 1;
	assert_int_equal(sv_destroy_srq(srq), EBUSY);
	assert_true(sv_srq_of(srq)->closed && bare_proc.srq[srq->handle] && pd.users == 2);
	sv_srq_of(srq)->users = 0;
	assert_int_equal(sv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), 0);
	assert_int_equal(sv_modify_srq(other, &attr, IBV_SRQ_LIMIT), 0);
	assert_int_equal(sv_destroy_srq(srq), 0);
	assert_int_equal(pd.users, 1);
	expect_limits(1);
	assert_int_equal(sv_destroy_srq(other), 0);
}

/* ---- receives ---- */

static void test_order(void **state)
{
	struct ibv_srq *srq;
	uint64_t next = 1;

	(void)state;
	bare_rw.rq[SV_QPS].claim = (uint64_t)CLAIMED << 32 | 77;
	srq = new_srq(DEPTH, 2);
	assert_non_null(srq);
	assert_true(ro_of(srq)->posted == CLAIMED && !ro_of(srq)->min_len && !pop(srq));
	for (uint32_t i = 0; i < DEPTH; i++)
		post(srq, i + 1);
	for (uint32_t i = 0; i < 2 * DEPTH; i++) {
		assert_int_equal(ro_of(srq)->posted, CLAIMED + DEPTH + i);
		assert_int_equal(post_of(srq, 99, 1, 1), ENOMEM);
		assert_int_equal(ro_of(srq)->posted, CLAIMED + DEPTH + i);
		assert_int_equal(pop(srq), next++);
		post(srq, DEPTH + next - 1);
	}
	while (next <= 3 * DEPTH)
		assert_int_equal(pop(srq), next++);
	assert_int_equal(pop(srq), 0);
	assert_int_equal(sv_destroy_srq(srq), 0);
}

/* A list is posted up to the one that can't be, which is told. */
static void test_lists(void **state)
{
	struct ibv_srq *srq = new_srq(DEPTH, 2);
	struct ibv_recv_wr wrs[DEPTH + 1], *bad = NULL;
	static const int wrong[] = { -1, 3, INT32_MIN, INT32_MAX };

	(void)state;
	assert_non_null(srq);
	for (uint32_t i = 0; i <= DEPTH; i++)
		wrs[i] = (struct ibv_recv_wr){ .wr_id = i + 1, .next = i < DEPTH ? &wrs[i + 1] : NULL };
	assert_int_equal(sv_post_srq_recv(srq, wrs, &bad), ENOMEM);
	assert_ptr_equal(bad, &wrs[DEPTH]);
	assert_int_equal(ro_of(srq)->posted, DEPTH);
	for (uint32_t i = 0; i < DEPTH; i++)
		assert_int_equal(pop(srq), i + 1);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		wrs[2].num_sge = wrong[i];
		assert_int_equal(sv_post_srq_recv(srq, wrs, &bad), EINVAL);
		assert_ptr_equal(bad, &wrs[2]);
		assert_true(pop(srq) == 1 && pop(srq) == 2 && !pop(srq));
	}
	assert_int_equal(sv_destroy_srq(srq), 0);
}

/* No posted receive is shorter than what peers are told. */
static void test_shortest(void **state)
{
	struct ibv_srq *srq = new_srq(DEPTH, 2);

	(void)state;
	assert_non_null(srq);
	assert_int_equal(post_of(srq, 1, 1, 100), 0);
	assert_int_equal(ro_of(srq)->min_len, 100);
	assert_int_equal(post_of(srq, 2, 2, 98), 0);
	assert_int_equal(ro_of(srq)->min_len, 99);
	assert_int_equal(post_of(srq, 3, 1, 200), 0);
	assert_int_equal(ro_of(srq)->min_len, 99);
	while (pop(srq))
		;
	assert_int_equal(post_of(srq, 4, 2, UINT32_MAX), 0); /* more than a length can be */
	assert_int_equal(ro_of(srq)->min_len, UINT32_MAX);
	assert_int_equal(post_of(srq, 5, 0, 0), 0);
	assert_int_equal(ro_of(srq)->min_len, 0);
	assert_int_equal(sv_destroy_srq(srq), 0);
}

static void test_elements(void **state)
{
	struct ibv_srq *srq = new_srq(2, 2);
	ROOM_FOR(out, 3);

	(void)state;
	assert_non_null(srq);
	for (uint64_t i = 0; i < 3; i++) {
		memset(out_room, 0x5a, sizeof(out_room));
		assert_int_equal(post_of(srq, 0x100 + i, 2, 10), 0);
		assert_true(sv_rq_pop(rq_of(srq), out));
		assert_true(out->wr_id == 0x100 + i && out->len == 11 && out->nsge == 2);
		assert_true(out->sge[0].addr == 0x100 + i && out->sge[0].length == 10);
		assert_true(out->sge[1].addr == 0x101 + i && out->sge[1].length == 1);
		assert_true(out->sge[1].lkey == 1 && out->sge[2].length == 0x5a5a5a5a);
	}
	assert_int_equal(sv_destroy_srq(srq), 0);
}

/* Credits are given back; all is forgotten, as of who has claimed what. */
static void test_credits(void **state)
{
	struct ibv_srq *srq = new_srq(DEPTH, 2);

	(void)state;
	assert_non_null(srq);
	post(srq, 1);
	sv_rq_give_credits(rq_of(srq), 3);
	assert_int_equal(ro_of(srq)->posted, 4);
	post(srq, 2);
	assert_int_equal(ro_of(srq)->posted, 5);
	bare_rw.rq[SV_QPS + srq->handle].claim = 11ull << 32 | 9;
	sv_rq_clear(rq_of(srq));
	assert_true(ro_of(srq)->posted == 11 && !pop(srq));
	for (uint32_t i = 0; i < DEPTH; i++)
		post(srq, 3 + i);
	assert_true(ro_of(srq)->posted == 11 + DEPTH && pop(srq) == 3);
	assert_int_equal(sv_destroy_srq(srq), 0);
}

/* ---- limits and sizes that change ---- */

static int modify(struct ibv_srq *srq, uint32_t max_wr, uint32_t limit, int mask)
{
	struct ibv_srq_attr attr = { .max_wr = max_wr, .srq_limit = limit };

	return sv_modify_srq(srq, &attr, mask);
}

/* Told once, when fewer are left. */
static void test_limit(void **state)
{
	struct ibv_srq *srq = new_srq(DEPTH, 2);

	(void)state;
	assert_non_null(srq);
	for (uint64_t i = 1; i <= 4; i++)
		post(srq, i);
	assert_int_equal(modify(srq, 0, DEPTH + 1, IBV_SRQ_LIMIT), EINVAL);
	expect_attr(srq, DEPTH, 0);
	assert_int_equal(modify(srq, 0, 3, IBV_SRQ_LIMIT), 0);
	expect_attr(srq, DEPTH, 3);
	pop(srq);
	expect_limits(0);
	pop(srq);
	expect_limits(1);
	expect_attr(srq, DEPTH, 0);
	pop(srq);
	expect_limits(0);
	assert_int_equal(modify(srq, 0, 1, IBV_SRQ_LIMIT), 0); /* as many as there are */
	expect_limits(0);
	expect_attr(srq, DEPTH, 1);
	assert_int_equal(modify(srq, 0, DEPTH, IBV_SRQ_LIMIT), 0); /* fewer already */
	expect_limits(1);
	expect_attr(srq, DEPTH, 0);
	assert_int_equal(modify(srq, 0, 1, 0), 0);
	expect_attr(srq, DEPTH, 0);
	assert_int_equal(sv_destroy_srq(srq), 0);
}

/* What is posted stays, in order, wherever the ring's end was. */
static void test_resized(void **state)
{
	static const uint32_t sizes[] = { 8, 3, SV_MAX_SRQ_WR, 4, 3 };
	struct ibv_srq *srq = new_srq(DEPTH, 2);
	uint64_t next = 1, posted = 1;

	(void)state;
	assert_non_null(srq);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		while (posted < next + 3)
			post(srq, posted++);
		assert_int_equal(modify(srq, 2, 0, IBV_SRQ_MAX_WR), EINVAL); /* there are three */
		assert_int_equal(modify(srq, 0, 0, IBV_SRQ_MAX_WR), EINVAL);
		assert_int_equal(modify(srq, SV_MAX_SRQ_WR + 1, 0, IBV_SRQ_MAX_WR), EINVAL);
		assert_int_equal(modify(srq, sizes[i], 0, IBV_SRQ_MAX_WR), 0);
		expect_attr(srq, sizes[i], 0);
		while (sizes[i] < 10 && posted < next + sizes[i])
			post(srq, posted++);
		assert_int_equal(post_of(srq, posted, 1, 8), sizes[i] < 10 ? ENOMEM : 0);
		posted += sizes[i] >= 10;
		while (next < posted)
			assert_int_equal(pop(srq), next++);
		assert_int_equal(pop(srq), 0);
	}
	assert_int_equal(sv_destroy_srq(srq), 0);
}

/* Both, or neither. */
static void test_both(void **state)
{
	struct ibv_srq *srq = new_srq(DEPTH, 2);

	(void)state;
	assert_non_null(srq);
	for (uint64_t i = 1; i <= 4; i++)
		post(srq, i);
	assert_int_equal(modify(srq, 4, 5, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT), EINVAL);
	expect_attr(srq, DEPTH, 0);
	assert_int_equal(modify(srq, 3, 2, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT), EINVAL);
	expect_attr(srq, DEPTH, 0);
	assert_int_equal(modify(srq, 7, 3, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT), 0);
	expect_attr(srq, 7, 3);
	assert_int_equal(modify(srq, 4, 4, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT), 0);
	expect_attr(srq, 4, 4);
	expect_limits(0);
	assert_int_equal(sv_destroy_srq(srq), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_sizes, ctx_begin, ctx_end),
		cmocka_unit_test_setup_teardown(test_places, ctx_begin, ctx_end),
		cmocka_unit_test_setup_teardown(test_end, ctx_begin, ctx_end),
		cmocka_unit_test_setup_teardown(test_order, ctx_begin, ctx_end),
		cmocka_unit_test_setup_teardown(test_lists, ctx_begin, ctx_end),
		cmocka_unit_test_setup_teardown(test_shortest, ctx_begin, ctx_end),
		cmocka_unit_test_setup_teardown(test_elements, ctx_begin, ctx_end),
		cmocka_unit_test_setup_teardown(test_credits, ctx_begin, ctx_end),
		cmocka_unit_test_setup_teardown(test_limit, ctx_begin, ctx_end),
		cmocka_unit_test_setup_teardown(test_resized, ctx_begin, ctx_end),
		cmocka_unit_test_setup_teardown(test_both, ctx_begin, ctx_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
