/* SPDX-License-Identifier: BSD-2-Clause */
/* limits.c -- how large and how many objects may be: what the device says of itself is so, and no more. */
#include <sys/stat.h>
#include "tests/unit/softverbs/kit.h"
#include "common/softverbs/base/proc.h"
#include "common/softverbs/base/shm.h"
#include "common/softverbs/object/qp.h"

struct limits {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_device_attr attr;
};

static void open_limits(struct limits *l)
{
	l->ctx = kit_open_device();
	CHECK(!sv_query_device(l->ctx, &l->attr));
	CHECK((l->pd = sv_alloc_pd(l->ctx)) != NULL);
	CHECK((l->cq = sv_create_cq(l->ctx, 1, NULL, NULL, 0)) != NULL);
}

/* What was refused left no user of anything. */
static void close_limits(struct limits *l)
{
	CHECK(!sv_destroy_cq(l->cq) && !sv_dealloc_pd(l->pd) && !sv_close_device(l->ctx));
}

/* ---- queue pairs ---- */

static struct ibv_qp_init_attr plain_init(struct limits *l)
{
	return (struct ibv_qp_init_attr){ .send_cq = l->cq, .recv_cq = l->cq, .qp_type = IBV_QPT_RC };
}

static void expect_qp(struct limits *l, struct ibv_qp_cap cap, int error)
{
	struct ibv_qp_init_attr init = plain_init(l), told;
	struct ibv_qp_attr attr;
	struct ibv_qp *qp;

	init.cap = cap;
	errno = 0;
	qp = sv_create_qp(l->pd, &init);
	CHECK(!qp == !!error && errno == error);
	if (!qp) {
		CHECK(!memcmp(&init.cap, &cap, sizeof(cap)));
		return;
	}
	CHECK(init.cap.max_send_wr >= cap.max_send_wr && init.cap.max_recv_wr >= cap.max_recv_wr);
	CHECK(init.cap.max_send_sge >= cap.max_send_sge && init.cap.max_recv_sge >= cap.max_recv_sge);
	CHECK(init.cap.max_inline_data >= cap.max_inline_data);
	CHECK(!sv_query_qp(qp, &attr, IBV_QP_CAP, &told));
	CHECK(!memcmp(&attr.cap, &init.cap, sizeof(cap)) && !memcmp(&told.cap, &init.cap, sizeof(cap)));
	CHECK(!sv_destroy_qp(qp));
}

static void sizes_of_queue_pairs(int sock)
{
	struct ibv_qp_cap most, cap;
	uint32_t *members[] = { &cap.max_send_wr, &cap.max_recv_wr, &cap.max_send_sge, &cap.max_recv_sge,
				&cap.max_inline_data };
	struct limits l;

	(void)sock;
	open_limits(&l);
	most = (struct ibv_qp_cap){ .max_send_wr = (uint32_t)l.attr.max_qp_wr,
				    .max_recv_wr = (uint32_t)l.attr.max_qp_wr,
				    .max_send_sge = (uint32_t)l.attr.max_sge,
				    .max_recv_sge = (uint32_t)l.attr.max_sge, .max_inline_data = 1024 };
	expect_qp(&l, most, 0);
	expect_qp(&l, (struct ibv_qp_cap){ 0 }, 0);
	for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
		cap = most;
		++*members[i];
		expect_qp(&l, cap, EINVAL);
	}
	close_limits(&l);
}

static void test_sizes_of_queue_pairs(void **state)
{
	(void)state;
	kit_run(sizes_of_queue_pairs, kit_nothing);
}

static void refused_qp(struct limits *l, const struct ibv_qp_init_attr *init, int error)
{
	struct ibv_qp_init_attr copy = *init;

	errno = 0;
	CHECK(!sv_create_qp(l->pd, &copy) && errno == error);
}

/* With a shared receive queue, what is asked for of an own one does not matter, and there is none. */
static void queues_of_queue_pairs(int sock)
{
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_recv_wr wr = { .num_sge = 0 }, *bad = NULL;
	struct ibv_qp_init_attr init;
	struct limits l;
	struct ibv_qp *qp;

	(void)sock;
	open_limits(&l);
	init = plain_init(&l);
	init.send_cq = NULL;
	refused_qp(&l, &init, EINVAL);
	init = plain_init(&l);
	init.recv_cq = NULL;
	refused_qp(&l, &init, EINVAL);
	init = plain_init(&l);
	init.qp_type = IBV_QPT_RAW_PACKET;
	refused_qp(&l, &init, EOPNOTSUPP);
	init = plain_init(&l);
	CHECK((init.srq = sv_create_srq(l.pd, &srq)) != NULL);
	init.cap.max_recv_wr = init.cap.max_recv_sge = UINT32_MAX;
	CHECK((qp = sv_create_qp(l.pd, &init)) != NULL);
	CHECK(!init.cap.max_recv_wr && !init.cap.max_recv_sge && init.cap.max_send_wr);
	CHECK(ibv_post_recv(qp, &wr, &bad) == EINVAL && bad == &wr);
	CHECK(sv_destroy_srq(init.srq) == EBUSY && sv_destroy_cq(l.cq) == EBUSY && sv_dealloc_pd(l.pd) == EBUSY);
	CHECK(!sv_destroy_qp(qp) && !sv_destroy_srq(init.srq));
	close_limits(&l);
}

static void test_queues_of_queue_pairs(void **state)
{
	(void)state;
	kit_run(queues_of_queue_pairs, kit_nothing);
}

/* ---- completion queues ---- */

static void expect_cq(struct limits *l, int cqe, int vector, int error)
{
	struct ibv_cq *cq;

	errno = 0;
	cq = sv_create_cq(l->ctx, cqe, l, NULL, vector);
	CHECK(!cq == !!error && errno == error);
	if (!cq)
		return;
	CHECK(cq->cqe >= cqe && cq->cq_context == l && cq->context == l->ctx && !cq->channel);
	CHECK(!sv_destroy_cq(cq));
}

static void expect_resized(struct ibv_cq *cq, int cqe, int error)
{
	int before = cq->cqe;

	CHECK(sv_resize_cq(cq, cqe) == error);
	CHECK(error ? cq->cqe == before : cq->cqe >= cqe);
}

static void sizes_of_cqs(int sock)
{
	struct limits l;

	(void)sock;
	open_limits(&l);
	expect_cq(&l, 0, 0, EINVAL);
	expect_cq(&l, -1, 0, EINVAL);
	expect_cq(&l, 1, -1, EINVAL);
	expect_cq(&l, 1, l.ctx->num_comp_vectors, EINVAL);
	expect_cq(&l, 1, l.ctx->num_comp_vectors - 1, 0);
	expect_cq(&l, 17, 0, 0);
	expect_cq(&l, l.attr.max_cqe, 0, 0);
	expect_cq(&l, l.attr.max_cqe + 1, 0, EINVAL);
	expect_resized(l.cq, 0, EINVAL);
	expect_resized(l.cq, -1, EINVAL);
	expect_resized(l.cq, 33, 0);
	expect_resized(l.cq, l.attr.max_cqe, 0);
	expect_resized(l.cq, l.attr.max_cqe + 1, EINVAL);
	expect_resized(l.cq, 1, 0);
	close_limits(&l);
}

static void test_sizes_of_cqs(void **state)
{
	(void)state;
	kit_run(sizes_of_cqs, kit_nothing);
}

static void expect_cq_ex(struct limits *l, struct ibv_cq_init_attr_ex init, int error)
{
	struct ibv_cq_ex *cq;

	errno = 0;
	cq = ibv_create_cq_ex(l->ctx, &init);
	CHECK(!cq == !!error && errno == error);
	if (cq)
		CHECK(!sv_destroy_cq(ibv_cq_ex_to_cq(cq)));
}

static void kinds_of_extended_cqs(int sock)
{
	struct ibv_cq_init_attr_ex init = { .cqe = 1 };
	struct limits l;

	(void)sock;
	open_limits(&l);
	expect_cq_ex(&l, init, 0);
	init.flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
	expect_cq_ex(&l, init, 0); /* not said to be there */
	init.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
	expect_cq_ex(&l, init, EOPNOTSUPP);
	init.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
	expect_cq_ex(&l, init, 0);
	init.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
	expect_cq_ex(&l, init, EOPNOTSUPP);
	init.comp_mask = 0;
	init.wc_flags = IBV_WC_EX_WITH_FLOW_TAG;
	expect_cq_ex(&l, init, EOPNOTSUPP);
	init.wc_flags = 0;
	init.cqe = (uint32_t)l.attr.max_cqe + 1;
	expect_cq_ex(&l, init, EINVAL);
	init.cqe = UINT32_MAX;
	expect_cq_ex(&l, init, EINVAL);
	close_limits(&l);
}

static void test_kinds_of_extended_cqs(void **state)
{
	(void)state;
	kit_run(kinds_of_extended_cqs, kit_nothing);
}

/* ---- the memory of queue pairs that are gone ---- */

static blkcnt_t blocks(void)
{
	struct stat st;

	CHECK(!fstat(sv_proc->rw_fd, &st));
	return st.st_blocks;
}

/* What peers have written into a queue pair's ring is given back with it. */
static void given_back(int sock)
{
	struct ibv_qp_init_attr init;
	struct limits l;
	struct ibv_qp *qp;
	blkcnt_t before;

	(void)sock;
	open_limits(&l);
	init = plain_init(&l);
	CHECK((qp = sv_create_qp(l.pd, &init)) != NULL && !sv_destroy_qp(qp));
	before = blocks();
	for (int i = 0; i < 3; i++) {
		CHECK((qp = sv_create_qp(l.pd, &init)) != NULL);
		memset(sv_qp_of(qp)->rx, 1, SV_WIRE_BYTES);
		CHECK(blocks() > before);
		CHECK(!sv_destroy_qp(qp));
		CHECK(blocks() <= before + 8); /* a page of the tables may be new */
	}
	close_limits(&l);
}

static void test_given_back(void **state)
{
	(void)state;
	kit_run(given_back, kit_nothing);
}

/* ---- shared receive queues ---- */

static void expect_srq(struct limits *l, uint32_t wr, uint32_t sge, int error)
{
	struct ibv_srq_init_attr init = { .srq_context = l, .attr = { .max_wr = wr, .max_sge = sge } };
	struct ibv_srq_attr attr;
	struct ibv_srq *srq;

	errno = 0;
	srq = sv_create_srq(l->pd, &init);
	CHECK(!srq == !!error && errno == error);
	if (!srq)
		return;
	CHECK(srq->srq_context == l && srq->pd == l->pd && srq->context == l->ctx);
	CHECK(init.attr.max_wr == wr && init.attr.max_sge == (sge ? sge : 1));
	memset(&attr, 0xff, sizeof(attr));
	CHECK(!sv_query_srq(srq, &attr) && attr.max_wr == wr && attr.max_sge == init.attr.max_sge);
	CHECK(!attr.srq_limit && sv_dealloc_pd(l->pd) == EBUSY);
	CHECK(!sv_destroy_srq(srq));
}

static void sizes_of_srqs(int sock)
{
	struct limits l;
	uint32_t wr, sge;

	(void)sock;
	open_limits(&l);
	wr = (uint32_t)l.attr.max_srq_wr;
	sge = (uint32_t)l.attr.max_srq_sge;
	expect_srq(&l, 0, 1, EINVAL);
	expect_srq(&l, 1, 0, 0);
	expect_srq(&l, wr, sge, 0);
	expect_srq(&l, wr + 1, sge, EINVAL);
	expect_srq(&l, wr, sge + 1, EINVAL);
	close_limits(&l);
}

static void test_sizes_of_srqs(void **state)
{
	(void)state;
	kit_run(sizes_of_srqs, kit_nothing);
}

static void expect_modified(struct ibv_srq *srq, int mask, uint32_t wr, uint32_t limit, int error)
{
	struct ibv_srq_attr attr = { .max_wr = wr, .srq_limit = limit }, before, after;

	CHECK(!sv_query_srq(srq, &before));
	CHECK(sv_modify_srq(srq, &attr, mask) == error);
	CHECK(!sv_query_srq(srq, &after) && after.max_sge == before.max_sge);
	CHECK(after.max_wr == (!error && mask & IBV_SRQ_MAX_WR ? wr : before.max_wr));
	CHECK(after.srq_limit == (!error && mask & IBV_SRQ_LIMIT ? limit : before.srq_limit));
}

static bool has_event(struct limits *l)
{
	struct pollfd pfd = { .fd = l->ctx->async_fd, .events = POLLIN };

	return poll(&pfd, 1, 0) == 1;
}

/* A limit that is not reached from the start is told of at once, and is over. */
static void modified_srq(int sock)
{
	const int both = IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT;
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 4, .max_sge = 2 } };
	struct ibv_srq_attr attr = { .srq_limit = 4 };
	struct ibv_recv_wr wr = { .num_sge = 0 }, *bad = NULL;
	struct ibv_async_event event;
	struct ibv_srq *srq;
	struct limits l;

	(void)sock;
	open_limits(&l);
	CHECK((srq = sv_create_srq(l.pd, &init)) != NULL);
	for (int i = 0; i < 3; i++)
		CHECK(!ibv_post_srq_recv(srq, &wr, &bad));
	expect_modified(srq, 0, 9, 9, 0);
	expect_modified(srq, IBV_SRQ_LIMIT, 0, 5, EINVAL);
	expect_modified(srq, IBV_SRQ_LIMIT, 0, 3, 0);
	expect_modified(srq, IBV_SRQ_MAX_WR, 0, 0, EINVAL);
	expect_modified(srq, IBV_SRQ_MAX_WR, 2, 0, EINVAL);
	expect_modified(srq, IBV_SRQ_MAX_WR, (uint32_t)l.attr.max_srq_wr + 1, 0, EINVAL);
	expect_modified(srq, both, 3, 4, EINVAL);
	expect_modified(srq, both, 3, 3, 0);
	CHECK(ibv_post_srq_recv(srq, &wr, &bad) == ENOMEM && bad == &wr);
	expect_modified(srq, IBV_SRQ_MAX_WR, (uint32_t)l.attr.max_srq_wr, 0, 0);
	CHECK(!has_event(&l));
	CHECK(!sv_modify_srq(srq, &attr, IBV_SRQ_LIMIT));
	CHECK(has_event(&l) && !sv_get_async_event(l.ctx, &event));
	CHECK(event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED && event.element.srq == srq);
	sv_ack_async_event(&event);
	CHECK(!sv_query_srq(srq, &attr) && !attr.srq_limit);
	CHECK(!has_event(&l));
	CHECK(!sv_destroy_srq(srq));
	close_limits(&l);
}

static void test_modified_srq(void **state)
{
	(void)state;
	kit_run(modified_srq, kit_nothing);
}

/* ---- as many as there may be; one that goes makes room for another ---- */

#define MANY 20000

static void *objects[MANY];

static void *new_object(struct limits *l, char kind)
{
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = 1, .max_sge = 1 } };
	struct ibv_qp_init_attr qp = plain_init(l);

	switch (kind) {
	case 'c':
		return sv_create_cq(l->ctx, 1, NULL, NULL, 0);
	case 's':
		return sv_create_srq(l->pd, &srq);
	case 'q':
		return sv_create_qp(l->pd, &qp);
	case 'r':
		return sv_reg_mr(l->pd, l, sizeof(*l), 0);
	default:
		return sv_alloc_mw(l->pd, IBV_MW_TYPE_2);
	}
}

static void end_object(void *object, char kind)
{
	switch (kind) {
	case 'c':
		CHECK(!sv_destroy_cq(object));
		break;
	case 's':
		CHECK(!sv_destroy_srq(object));
		break;
	case 'q':
		CHECK(!sv_destroy_qp(object));
		break;
	case 'r':
		CHECK(!sv_dereg_mr(object));
		break;
	default:
		CHECK(!sv_dealloc_mw(object));
	}
}

/* Until there is no more: how many. */
static int fill_up(struct limits *l, char kind)
{
	int n = 0;

	errno = 0;
	while (n < MANY && (objects[n] = new_object(l, kind)) != NULL)
		n++;
	CHECK(n < MANY && errno == ENOMEM);
	return n;
}

static void fill_and_empty(struct limits *l, char kind, int least, int most)
{
	int n = fill_up(l, kind);

	CHECK(n >= least && n <= most);
	if (least == most) {
		end_object(objects[n / 2], kind);
		CHECK((objects[n / 2] = new_object(l, kind)) != NULL && !new_object(l, kind));
		CHECK(errno == ENOMEM);
	}
	while (n)
		end_object(objects[--n], kind);
}

static void as_many(int sock)
{
	struct limits l;

	(void)sock;
	open_limits(&l);
	fill_and_empty(&l, 'c', l.attr.max_cq - 1, l.attr.max_cq - 1); /* and the first */
	fill_and_empty(&l, 's', l.attr.max_srq, l.attr.max_srq);
	fill_and_empty(&l, 'q', l.attr.max_qp, l.attr.max_qp);
	/* Both have their keys of one table. */
	fill_and_empty(&l, 'r', l.attr.max_mr, l.attr.max_mr + 1);
	fill_and_empty(&l, 'w', l.attr.max_mw, l.attr.max_mw + 1);
	fill_and_empty(&l, 'r', l.attr.max_mr, l.attr.max_mr + 1);
	close_limits(&l);
}

static void test_as_many(void **state)
{
	(void)state;
	kit_run(as_many, kit_nothing);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes_of_queue_pairs),
		cmocka_unit_test(test_queues_of_queue_pairs),
		cmocka_unit_test(test_sizes_of_cqs),
		cmocka_unit_test(test_kinds_of_extended_cqs),
		cmocka_unit_test(test_given_back),
		cmocka_unit_test(test_sizes_of_srqs),
		cmocka_unit_test(test_modified_srq),
		cmocka_unit_test(test_as_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
