/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * common/rdma/link.h: how many READs and atomics a connection has under way at once, where the two
 * ends' devices differ, and how much a queue pair takes inline.  The device and the connection manager
 * are this file's.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "common/bootstrap/path.h"
#include "common/wire.h"
#include "common/rdma/link.h"
#include "common/verbs/verbs.h"

/* What the connection manager knows of both ends; iWARP's fills in neither. */
static struct rdma_conn_param agreed;
static bool tells;
static struct ibv_qp_attr has;

static int init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	(void)id;
	*mask = IBV_QP_STATE;
	if (!tells)
		return 0;
	if (attr->qp_state == IBV_QPS_RTR) {
		attr->max_dest_rd_atomic = agreed.responder_resources;
		*mask |= IBV_QP_MAX_DEST_RD_ATOMIC;
	} else if (attr->qp_state == IBV_QPS_RTS) {
		attr->max_rd_atomic = agreed.initiator_depth;
		*mask |= IBV_QP_MAX_QP_RD_ATOMIC;
	}
	return 0;
}

static int modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	(void)qp;
	if (mask & IBV_QP_MAX_DEST_RD_ATOMIC)
		has.max_dest_rd_atomic = attr->max_dest_rd_atomic;
	if (mask & IBV_QP_MAX_QP_RD_ATOMIC)
		has.max_rd_atomic = attr->max_rd_atomic;
	return 0;
}

/* It takes so much inline; how often it was asked. */
static uint32_t inline_most;
static bool has_queue_pairs;
static unsigned asked_for;
static struct ibv_qp_cap cap;

static struct ibv_qp *create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	static struct ibv_qp qp;

	(void)pd;
	asked_for++;
	cap = attr->cap;
	errno = has_queue_pairs ? EINVAL : ENOMEM;
	return has_queue_pairs && attr->cap.max_inline_data <= inline_most ? &qp : NULL;
}

static const struct verbs table = { .init_qp_attr = init_qp_attr, .modify_qp = modify_qp,
				    .create_qp = create_qp };

static void make_ready(uint8_t issues, uint8_t answers)
{
	struct rdma_cm_id id = { 0 };
	struct ibv_qp qp = { 0 };
	struct err err = { "" };

	has = (struct ibv_qp_attr){ 0 };
	assert_int_equal(link_qp_ready(&table, &id, &qp, 0, issues, answers, &err), 0);
}

/* Who is asked answers what the other issues, and issues what the other answers. */
static void test_asked(void **state)
{
	const struct rdma_conn_param asked = { .responder_resources = 4, .initiator_depth = 2 };
	struct link_depths d = link_depths(&asked, 16);

	(void)state;
	assert_int_equal(d.answers, 4);
	assert_int_equal(d.issues, 2);
	d = link_depths(&asked, 3);
	assert_int_equal(d.answers, 3);
	assert_int_equal(d.issues, 2);
	d = link_depths(&asked, 1);
	assert_int_equal(d.answers, 1);
	assert_int_equal(d.issues, 1);
}

/* A device that is asked for more READs than the other end answers breaks the connection. */
static void test_no_more_than_agreed(void **state)
{
	(void)state;
	tells = true;
	agreed = (struct rdma_conn_param){ .responder_resources = 4, .initiator_depth = 2 };
	make_ready(16, 16);
	assert_int_equal(has.max_dest_rd_atomic, 4);
	assert_int_equal(has.max_rd_atomic, 2);
	make_ready(1, 3);
	assert_int_equal(has.max_dest_rd_atomic, 3);
	assert_int_equal(has.max_rd_atomic, 1);
}

static void test_nothing_is_told(void **state)
{
	(void)state;
	tells = false;
	make_ready(16, 8);
	assert_int_equal(has.max_dest_rd_atomic, 8);
	assert_int_equal(has.max_rd_atomic, 16);
}

/* Over TCP the ends' messages say it. */
static void test_bootstrap(void **state)
{
	const struct wire_bootstrap peer = { .initiator_depth = 4, .responder_resources = 2,
					     .mtu = IBV_MTU_1024 };
	struct bootstrap_path path = { .port = 1 };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR };
	int mask = 0;

	(void)state;
	assert_int_equal(bootstrap_path_attr(&path, &peer, &attr, &mask), 0);
	assert_true(mask & IBV_QP_MAX_DEST_RD_ATOMIC);
	assert_int_equal(attr.max_dest_rd_atomic, 4);
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS };
	assert_int_equal(bootstrap_path_attr(&path, &peer, &attr, &mask), 0);
	assert_true(mask & IBV_QP_MAX_QP_RD_ATOMIC);
	assert_int_equal(attr.max_rd_atomic, 2);
}

/* A device says by refusing how much it takes inline: it is asked for less, and in the end for none. */
static void test_inline(void **state)
{
	static const struct {
		uint32_t most, gets;
		unsigned asked;
	} cases[] = { { 256, 256, 1 }, { 255, 128, 2 }, { 100, 64, 3 }, { 60, 0, 4 }, { 0, 0, 4 } };
	/* Where what was wanted is little already. */
	static const struct {
		uint32_t wanted;
		unsigned asked;
	} none[] = { { 16, 2 }, { 64, 2 }, { 65, 3 } };
	struct ibv_srq srq;
	struct link_config config = { .send_depth = 7, .recv_depth = 5, .send_sge = 3, .inline_bytes = 256 };
	struct err err = { "" };
	uint32_t bytes;

	(void)state;
	has_queue_pairs = true;
	for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		inline_most = cases[i].most;
		asked_for = 0;
		bytes = 99;
		assert_non_null(link_qp_new(&table, &config, &bytes, &err));
		assert_int_equal(bytes, cases[i].gets);
		assert_int_equal(asked_for, cases[i].asked);
	}
	for (unsigned i = 0; i < sizeof none / sizeof none[0]; i++) {
		inline_most = 0;
		asked_for = 0;
		config.inline_bytes = none[i].wanted;
		assert_non_null(link_qp_new(&table, &config, &bytes, &err));
		assert_int_equal(bytes, 0);
		assert_int_equal(asked_for, none[i].asked);
	}
	config.inline_bytes = 256;
	assert_int_equal(cap.max_send_wr, 7);
	assert_int_equal(cap.max_recv_wr, 5);
	assert_int_equal(cap.max_send_sge, 3);
	assert_int_equal(cap.max_recv_sge, 1);
	config.srq = &srq;
	assert_non_null(link_qp_new(&table, &config, &bytes, &err));
	assert_int_equal(cap.max_recv_wr, 0);
	assert_int_equal(cap.max_recv_sge, 0);
	/* One that has none left is not asked for ever. */
	has_queue_pairs = false;
	asked_for = 0;
	assert_null(link_qp_new(&table, &config, &bytes, &err));
	assert_int_equal(asked_for, 4);
	assert_string_equal(err.text, "can't create a queue pair (7 sends, 0 receives): Cannot allocate memory");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_asked),
		cmocka_unit_test(test_no_more_than_agreed),
		cmocka_unit_test(test_nothing_is_told),
		cmocka_unit_test(test_bootstrap),
		cmocka_unit_test(test_inline),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
