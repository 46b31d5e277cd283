/* SPDX-License-Identifier: BSD-2-Clause */
/* ep_queues.c -- which queues the queue pair of an id gets: the owner's, the id's, or some that are made. */
#include "tests/unit/descriptors.h"
#include "tests/unit/softverbs/events.h"
#include "common/softverbs/base/limits.h"

#define SEND_WR 20
#define RECV_WR 70
#define MORE 64 /* a completion queue may be a bit larger than it was asked to be */

static struct rdma_cm_id *bound_id(void)
{
	struct sockaddr_in addr = loopback(0);
	struct rdma_cm_id *id;

	CHECK(!sv_create_id(NULL, &id, NULL, RDMA_PS_TCP));
	CHECK(!sv_bind_addr(id, (struct sockaddr *)&addr));
	return id;
}

static struct ibv_qp_init_attr attr_of(uint32_t send_wr, uint32_t recv_wr)
{
	return (struct ibv_qp_init_attr){ .qp_type = IBV_QPT_RC, .cap = { send_wr, recv_wr, 1, 1, 0 } };
}

/* What is made has room for each request, tells the id's own channel, and leads back to the id. */
static void expect_made(const struct rdma_cm_id *id, const struct ibv_cq *cq,
			const struct ibv_comp_channel *channel, int requests)
{
	CHECK(cq && channel && cq->channel == channel && cq->context == id->verbs);
	CHECK(cq->cq_context == id && cq->cqe >= requests && cq->cqe < requests + MORE);
}

static void made(int sock)
{
	struct rdma_cm_id *id = bound_id();
	struct ibv_qp_init_attr attr = attr_of(SEND_WR, RECV_WR);
	int before = count_descriptors();

	(void)sock;
	CHECK(!sv_rdma_create_qp(id, NULL, &attr));
	expect_made(id, id->send_cq, id->send_cq_channel, SEND_WR);
	expect_made(id, id->recv_cq, id->recv_cq_channel, RECV_WR);
	CHECK(id->qp->send_cq == id->send_cq && id->qp->recv_cq == id->recv_cq && !id->qp->srq);
	CHECK(attr.send_cq == id->send_cq && attr.recv_cq == id->recv_cq);
	sv_rdma_destroy_qp(id);
	CHECK(count_descriptors() == before);
	/* One that only receives, and one that only sends, have both as well. */
	attr = attr_of(0, RECV_WR);
	CHECK(!sv_rdma_create_qp(id, NULL, &attr));
	expect_made(id, id->send_cq, id->send_cq_channel, 1);
	sv_rdma_destroy_qp(id);
	attr = attr_of(SEND_WR, 0);
	CHECK(!sv_rdma_create_qp(id, NULL, &attr));
	expect_made(id, id->recv_cq, id->recv_cq_channel, 1);
	sv_rdma_destroy_qp(id);
	CHECK(count_descriptors() == before);
	CHECK(!sv_destroy_id(id));
}

/* With a shared receive queue more may complete than the queue pair itself has receives for. */
static void shared(int sock)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct rdma_cm_id *id = bound_id();
	struct ibv_qp_init_attr attr = attr_of(SEND_WR, RECV_WR);
	struct ibv_srq *other = sv_create_srq(id->pd, &init);

	(void)sock;
	CHECK(other && !sv_rdma_create_srq(id, NULL, &init));
	CHECK(!sv_rdma_create_qp(id, NULL, &attr) && id->qp->srq == id->srq);
	expect_made(id, id->send_cq, id->send_cq_channel, SEND_WR);
	expect_made(id, id->recv_cq, id->recv_cq_channel, SV_MAX_QP_WR);
	sv_rdma_destroy_qp(id);
	attr = attr_of(SEND_WR, RECV_WR);
	attr.srq = other; /* rather than the id's */
	CHECK(!sv_rdma_create_qp(id, NULL, &attr) && id->qp->srq == other);
	expect_made(id, id->recv_cq, id->recv_cq_channel, SV_MAX_QP_WR);
	sv_rdma_destroy_qp(id);
	CHECK(!sv_destroy_srq(other));
	sv_destroy_ep(id);
}

static void test_made(void **state)
{
	(void)state;
	kit_run(made, shared);
}

/* The owner's are used, and are the owner's still when the queue pair is gone. */
static void given(int sock)
{
	struct rdma_cm_id *id = bound_id();
	struct ibv_cq *cq = sv_create_cq(id->verbs, 8, NULL, NULL, 0);
	struct ibv_qp_init_attr attr;

	(void)sock;
	CHECK(cq);
	for (int which = 1; which <= 3; which++) {
		attr = attr_of(SEND_WR, RECV_WR);
		attr.send_cq = which & 1 ? cq : NULL;
		attr.recv_cq = which & 2 ? cq : NULL;
		CHECK(!sv_rdma_create_qp(id, NULL, &attr));
		CHECK(id->qp->send_cq == (which & 1 ? cq : id->send_cq));
		CHECK(id->qp->recv_cq == (which & 2 ? cq : id->recv_cq));
		CHECK(!id->send_cq == !!(which & 1) && !id->send_cq_channel == !!(which & 1));
		CHECK(!id->recv_cq == !!(which & 2) && !id->recv_cq_channel == !!(which & 2));
		CHECK(sv_destroy_cq(cq) == EBUSY);
		sv_rdma_destroy_qp(id);
		CHECK(!id->qp && !id->send_cq && !id->recv_cq);
	}
	sv_rdma_destroy_qp(id); /* there is none any more */
	CHECK(!sv_destroy_cq(cq) && !sv_destroy_id(id));
}

static void test_given(void **state)
{
	(void)state;
	kit_run(given, kit_nothing);
}

/* An endpoint's queue pairs are of its address's kind, whatever the attributes say; a listener's, too. */
static void kinds(int sock)
{
	struct rdma_event_channel *ch = sv_create_event_channel();
	struct sockaddr_in addr = loopback(0);
	struct rdma_addrinfo res = { .ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP,
				     .ai_qp_type = IBV_QPT_RC, .ai_src_addr = (struct sockaddr *)&addr };
	struct ibv_qp_init_attr attr = attr_of(4, 4);
	struct rdma_cm_id *listener, *id, *served;

	(void)sock;
	attr.qp_type = IBV_QPT_UD;
	CHECK(!sv_create_ep(&listener, &res, NULL, &attr) && !sv_listen(listener, 4));
	addr.sin_port = sv_get_src_port(listener);
	res = (struct rdma_addrinfo){ .ai_port_space = RDMA_PS_TCP, .ai_qp_type = IBV_QPT_RC,
				      .ai_dst_addr = (struct sockaddr *)&addr };
	CHECK(!sv_create_ep(&id, &res, NULL, &attr) && id->qp && id->qp->qp_type == IBV_QPT_RC);
	CHECK(!sv_migrate_id(id, ch)); /* so that it doesn't wait for the answer */
	CHECK(!sv_connect(id, NULL) && !sv_get_request(listener, &served));
	CHECK(served->qp && served->qp->qp_type == IBV_QPT_RC);
	sv_destroy_ep(served);
	expect_event(ch, RDMA_CM_EVENT_REJECTED, 28);
	sv_destroy_ep(id);
	sv_destroy_ep(listener);
	sv_destroy_event_channel(ch);
}

static void test_kinds(void **state)
{
	(void)state;
	kit_run(kinds, kit_nothing);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_made),
		cmocka_unit_test(test_given),
		cmocka_unit_test(test_kinds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
