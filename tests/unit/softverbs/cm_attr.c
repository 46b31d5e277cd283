/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cm_attr.c -- connection management: what the queue pair of an id needs for its next state, when it is
 * known, and what the event of a multicast group says.
 */
#include "tests/unit/softverbs/events.h"
#include "common/softverbs/cm/id.h"

#define ACCESS_STATE (IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
#define TOS 0x28

static struct rdma_cm_id *new_id(struct rdma_event_channel *ch, enum rdma_port_space ps)
{
	struct rdma_cm_id *id;
	uint8_t tos = TOS;

	CHECK(ch && !sv_create_id(ch, &id, NULL, ps));
	CHECK(!sv_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, 1));
	return id;
}

static struct rdma_cm_id *bound_id(struct rdma_event_channel *ch, enum rdma_port_space ps)
{
	struct rdma_cm_id *id = new_id(ch, ps);
	struct sockaddr_in addr = loopback(0);

	CHECK(!sv_bind_addr(id, (struct sockaddr *)&addr));
	return id;
}

static void set_state(struct rdma_cm_id *id, enum sv_cm_state state)
{
	pthread_mutex_lock(&sv_cm.lock);
	sv_id_of(id)->state = state;
	pthread_mutex_unlock(&sv_cm.lock);
}

/* Of what was in it only the state counts. */
static struct ibv_qp_attr attr_for(struct rdma_cm_id *id, enum ibv_qp_state state, int mask)
{
	struct ibv_qp_attr attr;
	int got = 0;

	memset(&attr, 0xff, sizeof(attr));
	attr.qp_state = state;
	CHECK(!sv_init_qp_attr(id, &attr, &got));
	CHECK(attr.qp_state == state && got == mask);
	return attr;
}

static void expect_refused(struct rdma_cm_id *id, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };
	int mask;

	errno = 0;
	CHECK(sv_init_qp_attr(id, &attr, &mask) == -1 && errno == EINVAL);
}

/* ---- connections ---- */

/* The peer's rights are known once it is asked, or has asked: READ and atomics if they are answered. */
static void check_init(struct rdma_cm_id *id)
{
	const unsigned int all = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	struct ibv_qp_attr attr;

	sv_id_of(id)->responder_resources = 1;
	for (int state = SV_CM_BOUND; state <= SV_CM_CONNECTED; state++) {
		set_state(id, (enum sv_cm_state)state);
		attr = attr_for(id, IBV_QPS_INIT, ACCESS_STATE);
		CHECK(attr.port_num == 1 && !attr.pkey_index);
		CHECK(attr.qp_access_flags == (state < SV_CM_CONNECTING ? 0 : all));
	}
	sv_id_of(id)->responder_resources = 0;
	attr = attr_for(id, IBV_QPS_INIT, ACCESS_STATE);
	CHECK(attr.qp_access_flags == IBV_ACCESS_REMOTE_WRITE);
}

static void check_rtr(struct rdma_cm_id *id)
{
	const uint8_t *gid;
	struct ibv_qp_attr attr = attr_for(id, IBV_QPS_RTR,
					   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
						   IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
						   IBV_QP_MIN_RNR_TIMER);

	gid = attr.ah_attr.grh.dgid.raw;
	CHECK(attr.path_mtu == IBV_MTU_4096 && attr.dest_qp_num == 0x123 && attr.rq_psn == 0x456);
	CHECK(attr.max_dest_rd_atomic == 3 && !attr.min_rnr_timer);
	CHECK(attr.ah_attr.is_global == 1 && attr.ah_attr.port_num == 1 && !attr.ah_attr.dlid);
	CHECK(attr.ah_attr.grh.hop_limit == 64 && attr.ah_attr.grh.traffic_class == TOS);
	CHECK(gid[15] == 1 && !gid[0] && !gid[14] && !attr.ah_attr.grh.sgid_index);
}

static void check_rts(struct rdma_cm_id *id)
{
	struct ibv_qp_attr attr = attr_for(id, IBV_QPS_RTS,
					   IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
						   IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
						   IBV_QP_MAX_QP_RD_ATOMIC);

	CHECK(attr.timeout == 17 && attr.retry_cnt == 5 && attr.rnr_retry == 6 && attr.sq_psn == 0x789);
	CHECK(attr.max_rd_atomic == 4);
}

/* Both sides know each other from the answer on until the connection ends. */
static void connected(int sock)
{
	struct rdma_event_channel *ch = sv_create_event_channel();
	struct rdma_cm_id *id = bound_id(ch, RDMA_PS_TCP), *nowhere = new_id(ch, RDMA_PS_TCP);
	struct sv_id *sv = sv_id_of(id);

	(void)sock;
	expect_refused(nowhere, IBV_QPS_INIT); /* of no device yet */
	check_init(id);
	sv->remote_qpn = 0x123;
	sv->remote_psn = 0x456;
	sv->psn = 0x789;
	sv->responder_resources = 3;
	sv->initiator_depth = 4;
	sv->ack_timeout = 17;
	sv->retry_count = 5;
	sv->rnr_retry_count = 6;
	for (int state = SV_CM_BOUND; state <= SV_CM_OVER; state++) {
		set_state(id, (enum sv_cm_state)state);
		if (state >= SV_CM_RESPONDED && state <= SV_CM_CONNECTED) {
			check_rtr(id);
			check_rts(id);
		} else {
			expect_refused(id, IBV_QPS_RTR);
			expect_refused(id, IBV_QPS_RTS);
		}
		expect_refused(id, IBV_QPS_RESET);
		expect_refused(id, IBV_QPS_SQD);
		expect_refused(id, IBV_QPS_ERR);
	}
	CHECK(!sv_destroy_id(id) && !sv_destroy_id(nowhere));
	sv_destroy_event_channel(ch);
}

/* ---- datagrams ---- */

/* There is nobody to wait for. */
static void datagrams(int sock)
{
	struct rdma_event_channel *ch = sv_create_event_channel();
	struct rdma_cm_id *id = bound_id(ch, RDMA_PS_UDP), *nowhere = new_id(ch, RDMA_PS_UDP);
	struct ibv_qp_attr attr;

	(void)sock;
	expect_refused(nowhere, IBV_QPS_INIT);
	attr = attr_for(id, IBV_QPS_INIT, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
	CHECK(attr.port_num == 1 && !attr.pkey_index && attr.qkey == RDMA_UDP_QKEY);
	attr_for(id, IBV_QPS_RTR, IBV_QP_STATE);
	attr = attr_for(id, IBV_QPS_RTS, IBV_QP_STATE | IBV_QP_SQ_PSN);
	CHECK(!attr.sq_psn);
	expect_refused(id, IBV_QPS_RESET);
	expect_refused(id, IBV_QPS_ERR);
	CHECK(!sv_destroy_id(id) && !sv_destroy_id(nowhere));
	sv_destroy_event_channel(ch);
}

static void test_attributes(void **state)
{
	(void)state;
	kit_run(connected, datagrams);
}

/* ---- options ---- */

static int set(struct rdma_cm_id *id, int option, const void *value, size_t bytes)
{
	uint8_t copy[8];

	memcpy(copy, value, bytes);
	errno = 0;
	return sv_set_option(id, RDMA_OPTION_ID, option, copy, bytes);
}

static void expect_unset(struct rdma_cm_id *id, int option, const void *value, size_t bytes, int error)
{
	CHECK(set(id, option, value, bytes) == -1 && errno == error);
}

/* Each has its length and its values; what is refused changes nothing, and each changes its own only. */
static void options(int sock)
{
	static const uint8_t bytes[8] = { 31, 31, 31, 31, 31, 31, 31, 31 }, more = 32;
	struct rdma_event_channel *ch = sv_create_event_channel();
	struct rdma_cm_id *id = new_id(ch, RDMA_PS_TCP);
	const struct sv_id *sv = sv_id_of(id);
	const int yes = 1, no = 0;

	(void)sock;
	for (size_t n = 0; n <= sizeof(bytes); n++) {
		if (n != 1) {
			expect_unset(id, RDMA_OPTION_ID_TOS, bytes, n, EINVAL);
			expect_unset(id, RDMA_OPTION_ID_ACK_TIMEOUT, bytes, n, EINVAL);
		}
		if (n != sizeof(int)) {
			expect_unset(id, RDMA_OPTION_ID_AFONLY, bytes, n, EINVAL);
			expect_unset(id, RDMA_OPTION_ID_REUSEADDR, bytes, n, EINVAL);
		}
	}
	expect_unset(id, RDMA_OPTION_ID_ACK_TIMEOUT, &more, 1, EINVAL);
	expect_unset(id, RDMA_OPTION_ID_ACK_TIMEOUT + 1, bytes, 1, ENOSYS);
	CHECK(sv_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_ID_TOS, (void *)(uintptr_t)bytes, 1) == -1);
	CHECK(errno == ENOSYS && sv->tos == TOS && sv->ack_timeout == 14 && !sv->af_only);
	CHECK(!set(id, RDMA_OPTION_ID_REUSEADDR, &yes, sizeof(yes)) && !sv->af_only);
	CHECK(!set(id, RDMA_OPTION_ID_AFONLY, &yes, sizeof(yes)) && sv->af_only);
	CHECK(!set(id, RDMA_OPTION_ID_REUSEADDR, &no, sizeof(no)) && sv->af_only);
	CHECK(!set(id, RDMA_OPTION_ID_AFONLY, &no, sizeof(no)) && !sv->af_only);
	CHECK(!set(id, RDMA_OPTION_ID_ACK_TIMEOUT, bytes, 1) && sv->ack_timeout == 31 && sv->tos == TOS);
	CHECK(!sv_destroy_id(id));
	sv_destroy_event_channel(ch);
}

static void test_options(void **state)
{
	(void)state;
	kit_run(options, kit_nothing);
}

/* ---- multicast groups ---- */

/* What the event says is enough to send there, and with what the owner chose for the id. */
static void joined(int sock)
{
	struct sockaddr_in6 addr = { .sin6_family = AF_INET6, .sin6_addr.s6_addr = { 0xff, 0x0e, [15] = 9 } };
	struct rdma_event_channel *ch = sv_create_event_channel();
	struct rdma_cm_id *id = bound_id(ch, RDMA_PS_UDP);
	const struct rdma_ud_param *ud;
	struct rdma_cm_event *ev;

	(void)sock;
	CHECK(!sv_join_multicast(id, (struct sockaddr *)&addr, ch));
	ev = take_event(ch, RDMA_CM_EVENT_MULTICAST_JOIN);
	ud = &ev->param.ud;
	CHECK(ev->id == id && !ev->status && ud->private_data == ch && !ud->private_data_len);
	CHECK(ud->qp_num == 0xffffff && ud->qkey == RDMA_UDP_QKEY);
	CHECK(ud->ah_attr.is_global == 1 && ud->ah_attr.port_num == 1 && !ud->ah_attr.dlid);
	CHECK(!memcmp(&ud->ah_attr.grh.dgid, &addr.sin6_addr, sizeof(addr.sin6_addr)));
	CHECK(ud->ah_attr.grh.hop_limit == 64 && ud->ah_attr.grh.traffic_class == TOS);
	CHECK(!ud->ah_attr.grh.sgid_index);
	CHECK(!sv_ack_cm_event(ev));
	CHECK(!sv_leave_multicast(id, (struct sockaddr *)&addr));
	errno = 0;
	CHECK(sv_leave_multicast(id, (struct sockaddr *)&addr) == -1 && errno == EADDRNOTAVAIL);
	CHECK(!sv_destroy_id(id));
	sv_destroy_event_channel(ch);
}

/* Who joined to send only has not entered with its queue pair, and doesn't take it out: that of its owner
 * stays in the group that the owner put it in. */
static void send_only(int sock)
{
	struct sockaddr_in6 addr = { .sin6_family = AF_INET6, .sin6_addr.s6_addr = { 0xff, 0x0e, [15] = 8 } };
	struct rdma_cm_join_mc_attr_ex join = {
		.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
		.join_flags = RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER, .addr = (struct sockaddr *)&addr };
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_UD, .cap = { 4, 4, 1, 1, 0 } };
	struct rdma_event_channel *ch = sv_create_event_channel();
	struct rdma_cm_id *id = bound_id(ch, RDMA_PS_UDP);
	union ibv_gid gid;

	(void)sock;
	memcpy(&gid, &addr.sin6_addr, sizeof(gid));
	CHECK(!sv_rdma_create_qp(id, NULL, &init));
	CHECK(!sv_join_multicast_ex(id, &join, NULL));
	expect_event(ch, RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	CHECK(sv_detach_mcast(id->qp, &gid, 0) == EINVAL && !sv_attach_mcast(id->qp, &gid, 0));
	CHECK(!sv_leave_multicast(id, (struct sockaddr *)&addr));
	CHECK(!sv_detach_mcast(id->qp, &gid, 0));
	sv_rdma_destroy_qp(id);
	CHECK(!sv_destroy_id(id));
	sv_destroy_event_channel(ch);
}

static void test_joined(void **state)
{
	(void)state;
	kit_run(joined, send_only);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_attributes),
		cmocka_unit_test(test_options),
		cmocka_unit_test(test_joined),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
