/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * common/rdma/link.h: what a queue pair is told on its way up, what a device is asked, and what goes wrong
 * with each.  The device and the connection manager are this file's.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "common/rdma/link.h"
#include "common/verbs/verbs.h"

#define REMOTE (IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

static struct ibv_device device = { .name = "made0" };
static struct ibv_context context = { .device = &device };
static struct rdma_cm_id id;
static struct ibv_qp queue_pair;

/* The transition that fails, of those that were asked for; what each of these was. */
enum { STEPS_MAX = 8 };
static int fails_at, asks;
static struct step {
	struct ibv_qp_attr attr;
	int mask;
} steps[STEPS_MAX];
static unsigned modified;

static void begin(int at)
{
	fails_at = at;
	asks = 0;
	modified = 0;
	memset(steps, 0, sizeof steps);
}

static int init_qp_attr(struct rdma_cm_id *of, struct ibv_qp_attr *attr, int *mask)
{
	static const struct ibv_qp_attr empty;
	struct ibv_qp_attr rest = *attr;

	assert_ptr_equal(of, &id);
	rest.qp_state = empty.qp_state;
	assert_memory_equal(&rest, &empty, sizeof rest);
	if (++asks == fails_at) {
		errno = ENETUNREACH;
		return -1;
	}
	attr->port_num = 3;
	attr->ah_attr.sl = 5;
	attr->ah_attr.grh.traffic_class = 96;
	*mask = IBV_QP_STATE | IBV_QP_PORT;
	return 0;
}

static int modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	assert_ptr_equal(qp, &queue_pair);
	assert_true(modified < STEPS_MAX);
	steps[modified++] = (struct step){ *attr, mask };
	return ++asks == fails_at ? EINVAL : 0;
}

static unsigned has_access;
static int query_qp_rc;

static int query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
	(void)init;
	assert_ptr_equal(qp, &queue_pair);
	assert_int_equal(mask, IBV_QP_ACCESS_FLAGS);
	attr->qp_access_flags = has_access;
	return query_qp_rc;
}

static struct ibv_device_attr about_device;
static int device_rc, port_rc;

static int query_device(struct ibv_context *ctx, struct ibv_device_attr *attr)
{
	assert_ptr_equal(ctx, &context);
	*attr = about_device;
	return device_rc;
}

static int query_port(struct ibv_context *ctx, uint8_t port, struct ibv_port_attr *attr)
{
	static const struct ibv_port_attr empty;

	assert_ptr_equal(ctx, &context);
	assert_int_equal(port, 2);
	assert_memory_equal(attr, &empty, sizeof empty);
	attr->max_msg_sz = 1u << 30;
	return port_rc;
}

static struct ibv_qp_init_attr made;

static struct ibv_qp *create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	(void)pd;
	made = *attr;
	return &queue_pair;
}

static const struct verbs table = {
	.init_qp_attr = init_qp_attr,
	.modify_qp = modify_qp,
	.query_qp = query_qp,
	.query_device = query_device,
	.query_port = query_port,
	.create_qp = create_qp,
};

/* READs and atomics under way: the less of both directions, in a byte. */
static void test_limits(void **state)
{
	static const struct {
		int either, other;
		uint8_t rd_atom;
	} cases[] = { { 16, 128, 16 }, { 128, 16, 16 }, { 255, 255, 255 }, { 256, 256, 255 }, { 256, 257, 255 },
		      { 254, 300, 254 }, { 100000, 1000, 255 }, { 0, 5, 0 } };
	struct link_limits limits;
	struct err err = { "" };

	(void)state;
	device_rc = port_rc = 0;
	for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
		about_device = (struct ibv_device_attr){
			.max_qp_wr = 11, .max_cqe = 12, .max_srq_wr = 13, .max_sge = 14,
			.max_qp_rd_atom = cases[i].either, .max_qp_init_rd_atom = cases[i].other,
			.atomic_cap = i % 2 ? IBV_ATOMIC_HCA : IBV_ATOMIC_NONE,
		};
		memset(&limits, 0xff, sizeof limits);
		assert_int_equal(link_query(&table, &context, 2, &limits, &err), 0);
		assert_int_equal(limits.rd_atom, cases[i].rd_atom);
		assert_int_equal(limits.atomics, i % 2);
		assert_int_equal(limits.message_bytes_max, 1u << 30);
		assert_true(limits.qp_wr_max == 11 && limits.cqe_max == 12 && limits.srq_wr_max == 13 &&
			    limits.sge_max == 14);
	}
	port_rc = EIO;
	assert_int_equal(link_query(&table, &context, 2, &limits, &err), -1);
	assert_string_equal(err.text, "can't query port 2 of made0: Input/output error");
	device_rc = ENODEV;
	assert_int_equal(link_query(&table, &context, 2, &limits, &err), -1);
	assert_string_equal(err.text, "can't query the device made0: No such device");
}

/* Of which kind it is; it says which of its requests tell of their end. */
static void test_made(void **state)
{
	struct ibv_pd pd;
	struct ibv_cq send, recv;
	struct link_config config = { .pd = &pd, .send_cq = &send, .recv_cq = &recv, .context = &config };
	struct err err = { "" };
	uint32_t bytes;

	(void)state;
	assert_non_null(link_qp_new(&table, &config, &bytes, &err));
	assert_int_equal(made.qp_type, IBV_QPT_RC);
	assert_int_equal(made.sq_sig_all, 0);
	assert_ptr_equal(made.send_cq, &send);
	assert_ptr_equal(made.recv_cq, &recv);
	assert_ptr_equal(made.qp_context, &config);
	config.type = IBV_QPT_UD;
	assert_non_null(link_qp_new(&table, &config, &bytes, &err));
	assert_int_equal(made.qp_type, IBV_QPT_UD);
}

static void test_init(void **state)
{
	struct err err = { "" };

	(void)state;
	begin(0);
	assert_int_equal(link_qp_init(&table, &id, &queue_pair, REMOTE, &err), 0);
	assert_int_equal(modified, 1);
	assert_int_equal(steps[0].attr.qp_state, IBV_QPS_INIT);
	assert_int_equal(steps[0].attr.qp_access_flags, REMOTE);
	assert_int_equal(steps[0].attr.port_num, 3);
	assert_int_equal(steps[0].mask, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	begin(1);
	assert_int_equal(link_qp_init(&table, &id, &queue_pair, REMOTE, &err), -1);
	assert_int_equal(modified, 0);
	assert_string_equal(err.text, "rdma_init_qp_attr for INIT failed: Network is unreachable");
	begin(2);
	assert_int_equal(link_qp_init(&table, &id, &queue_pair, REMOTE, &err), -1);
	assert_string_equal(err.text, "can't bring the queue pair to INIT: Invalid argument");
}

static void check_ready(const struct device_tuning *tuning, int sl, int traffic_class, int timeout, int retries)
{
	const struct ibv_qp_attr *rtr = &steps[0].attr, *rts = &steps[1].attr;
	struct err err = { "" };

	begin(0);
	assert_int_equal(link_qp_ready_tuned(&table, &id, &queue_pair, REMOTE, 7, 9, tuning, &err), 0);
	assert_int_equal(modified, 2);
	assert_int_equal(rtr->qp_state, IBV_QPS_RTR);
	assert_int_equal(rtr->qp_access_flags, REMOTE);
	assert_int_equal(rtr->ah_attr.sl, sl);
	assert_int_equal(rtr->ah_attr.grh.traffic_class, traffic_class);
	assert_int_equal(rtr->min_rnr_timer, 12); /* 0.64 ms */
	assert_int_equal(rtr->max_dest_rd_atomic, 9);
	assert_int_equal(steps[0].mask, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_MIN_RNR_TIMER |
						IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_ACCESS_FLAGS);
	assert_int_equal(rts->qp_state, IBV_QPS_RTS);
	assert_int_equal(rts->qp_access_flags, REMOTE);
	assert_int_equal(rts->timeout, timeout);
	assert_int_equal(rts->retry_cnt, retries);
	assert_int_equal(rts->rnr_retry, 7); /* without end */
	assert_int_equal(rts->max_rd_atomic, 7);
	assert_int_equal(steps[1].mask, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
						IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_ACCESS_FLAGS);
}

/* What the user wants of it, and otherwise what the connection manager says; 67 ms, 6 times. */
static void test_ready(void **state)
{
	static const struct device_tuning wanted = { .ack_timeout = 20, .retries = 2, .traffic_class = 8,
						     .service_level = 1 };
	static const struct device_tuning zeros;
	static const struct device_tuning unset = { DEVICE_UNSET, DEVICE_UNSET, DEVICE_UNSET, DEVICE_UNSET };
	static const char *const wrong[] = {
		"the connection ended as it began: rdma_init_qp_attr for RTR: Network is unreachable",
		"can't bring the queue pair to RTR: Invalid argument",
		"the connection ended as it began: rdma_init_qp_attr for RTS: Network is unreachable",
		"can't bring the queue pair to RTS: Invalid argument",
	};
	struct err err = { "" };

	(void)state;
	check_ready(NULL, 5, 96, 14, 6);
	check_ready(&unset, 5, 96, 14, 6);
	check_ready(&wanted, 1, 8, 20, 2);
	check_ready(&zeros, 0, 0, 0, 0);
	for (int at = 1; at <= 4; at++) {
		begin(at);
		assert_int_equal(link_qp_ready(&table, &id, &queue_pair, REMOTE, 7, 9, &err),
				 at % 2 ? LINK_ENDED : -1);
		assert_string_equal(err.text, wrong[at - 1]);
		assert_int_equal(asks, at);
	}
}

static void test_access(void **state)
{
	(void)state;
	begin(0);
	assert_int_equal(link_qp_set_access(&table, &queue_pair, REMOTE), 0);
	assert_int_equal(steps[0].attr.qp_access_flags, REMOTE);
	assert_int_equal(steps[0].mask, IBV_QP_ACCESS_FLAGS);
	assert_int_equal(link_qp_set_error(&table, &queue_pair), 0);
	assert_int_equal(steps[1].attr.qp_state, IBV_QPS_ERR);
	assert_int_equal(steps[1].mask, IBV_QP_STATE);
	begin(1);
	assert_int_equal(link_qp_set_access(&table, &queue_pair, REMOTE), EINVAL);
	begin(1);
	assert_int_equal(link_qp_set_error(&table, &queue_pair), EINVAL);
	query_qp_rc = 0;
	has_access = IBV_ACCESS_LOCAL_WRITE | REMOTE;
	assert_int_equal(link_qp_access(&table, &queue_pair), REMOTE);
	query_qp_rc = EIO;
	assert_int_equal(link_qp_access(&table, &queue_pair), -1);
}

static void test_conn_param(void **state)
{
	struct ibv_srq srq;
	struct ibv_qp qp = { .qp_num = 77 };
	struct rdma_conn_param p;

	(void)state;
	memset(&p, 0xff, sizeof p);
	link_conn_param(&p, &qp, "words", 5, 7, 9);
	assert_string_equal(p.private_data, "words");
	assert_int_equal(p.private_data_len, 5);
	assert_int_equal(p.responder_resources, 9);
	assert_int_equal(p.initiator_depth, 7);
	assert_int_equal(p.flow_control, 0);
	assert_int_equal(p.retry_count, 6);
	assert_int_equal(p.rnr_retry_count, 7);
	assert_int_equal(p.qp_num, 77);
	assert_int_equal(p.srq, 0);
	qp.srq = &srq;
	link_conn_param(&p, &qp, NULL, 0, 7, 9);
	assert_int_equal(p.srq, 1);
}

static void test_event_words(void **state)
{
	static const struct {
		enum rdma_cm_event_type event;
		int status;
		const char *words;
	} cases[] = {
		{ RDMA_CM_EVENT_ADDR_ERROR, -ENODEV, "no route to the address through an RDMA device "
						     "(RDMA_CM_EVENT_ADDR_ERROR, No such device)" },
		{ RDMA_CM_EVENT_ROUTE_ERROR, -ETIMEDOUT, "the address has no RDMA route "
							 "(RDMA_CM_EVENT_ROUTE_ERROR, Connection timed out)" },
		{ RDMA_CM_EVENT_UNREACHABLE, -ECONNREFUSED, "nothing listens on that port: is kvd running? "
							    "(RDMA_CM_EVENT_UNREACHABLE, Connection refused)" },
		{ RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, "the host does not answer "
							 "(RDMA_CM_EVENT_UNREACHABLE, Connection timed out)" },
		{ RDMA_CM_EVENT_REJECTED, 8, "nothing listens on that port: is kvd running? "
					     "(RDMA_CM_EVENT_REJECTED, status 8)" },
		{ RDMA_CM_EVENT_REJECTED, 28, "the peer refused it (RDMA_CM_EVENT_REJECTED, status 28)" },
		{ RDMA_CM_EVENT_REJECTED, 9, "the peer refused it (RDMA_CM_EVENT_REJECTED, status 9)" },
		{ RDMA_CM_EVENT_CONNECT_ERROR, 1, "the connection failed while it was made "
						  "(RDMA_CM_EVENT_CONNECT_ERROR, status 1)" },
		{ RDMA_CM_EVENT_DEVICE_REMOVAL, 0, "the RDMA device was taken away "
						   "(RDMA_CM_EVENT_DEVICE_REMOVAL, status 0)" },
		{ RDMA_CM_EVENT_DISCONNECTED, -EPERM, "RDMA_CM_EVENT_DISCONNECTED, Operation not permitted" },
		{ RDMA_CM_EVENT_ESTABLISHED, 0, "RDMA_CM_EVENT_ESTABLISHED, status 0" },
	};
	char words[256];

	(void)state;
	for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct rdma_cm_event event = { .event = cases[i].event, .status = cases[i].status };
		assert_ptr_equal(link_event_words(&event, words, sizeof words), words);
		assert_string_equal(words, cases[i].words);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_made),
		cmocka_unit_test(test_init),
		cmocka_unit_test(test_ready),
		cmocka_unit_test(test_access),
		cmocka_unit_test(test_conn_param),
		cmocka_unit_test(test_event_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
