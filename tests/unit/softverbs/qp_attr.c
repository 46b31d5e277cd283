/* SPDX-License-Identifier: BSD-2-Clause */
/* qp_attr.c -- queue pairs: what each transition takes, the values that may be, and what a query gives back. */
#include "tests/unit/softverbs/kit.h"
#include "common/softverbs/object/qp.h"

#define ACCESS IBV_QP_ACCESS_FLAGS
#define TIMER IBV_QP_MIN_RNR_TIMER
#define PATH (IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE)

/* All that a mask may have but the states, the capabilities, and what is of raw packets. */
#define ALL                                                                                   \
	(IBV_QP_EN_SQD_ASYNC_NOTIFY | ACCESS | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY |  \
	 IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |   \
	 IBV_QP_RQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC | PATH | TIMER | IBV_QP_SQ_PSN |               \
	 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_CAP | IBV_QP_DEST_QPN)

/* What ibv_modify_qp(3) requires, and what the device takes besides. */
struct step {
	enum ibv_qp_state to;
	int required, optional;
};

static const struct step rc_steps[] = {
	{ IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | ACCESS, 0 },
	{ IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | ACCESS },
	{ IBV_QPS_RTR,
	  IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | TIMER,
	  IBV_QP_PKEY_INDEX | ACCESS | PATH },
	{ IBV_QPS_RTS,
	  IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
	  ACCESS | TIMER | PATH },
	{ IBV_QPS_RTS, 0, ACCESS | TIMER | PATH },
	{ IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY },
	{ IBV_QPS_SQD, 0,
	  ACCESS | TIMER | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC |
		  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_AV | IBV_QP_PKEY_INDEX | PATH },
	{ IBV_QPS_RTS, 0, ACCESS | TIMER | PATH },
	{ IBV_QPS_ERR, 0, 0 },
	{ IBV_QPS_RESET, 0, 0 },
};

static const struct step uc_steps[] = {
	{ IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | ACCESS, 0 },
	{ IBV_QPS_RTR, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
	  IBV_QP_PKEY_INDEX | ACCESS | PATH },
	{ IBV_QPS_RTS, IBV_QP_SQ_PSN, ACCESS | PATH },
	{ IBV_QPS_RESET, 0, 0 },
};

/* XRC: a sender serves nobody, and a target asks for nothing. */
static const struct step xrc_sender_steps[] = {
	{ IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | ACCESS, 0 },
	{ IBV_QPS_RTR, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
	  IBV_QP_PKEY_INDEX | ACCESS | PATH },
	{ IBV_QPS_RTS,
	  IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
	  ACCESS | PATH },
	{ IBV_QPS_RESET, 0, 0 },
};

static const struct step xrc_target_steps[] = {
	{ IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | ACCESS, 0 },
	{ IBV_QPS_RTR,
	  IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | TIMER,
	  IBV_QP_PKEY_INDEX | ACCESS | PATH },
	{ IBV_QPS_RTS, IBV_QP_TIMEOUT | IBV_QP_SQ_PSN, ACCESS | TIMER | PATH },
	{ IBV_QPS_RESET, 0, 0 },
};

static const struct step ud_steps[] = {
	{ IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, 0 },
	{ IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY },
	{ IBV_QPS_RTR, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY },
	{ IBV_QPS_RTS, IBV_QP_SQ_PSN, IBV_QP_QKEY },
	{ IBV_QPS_RTS, 0, IBV_QP_QKEY },
	{ IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY },
	{ IBV_QPS_SQD, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY },
	{ IBV_QPS_RTS, 0, IBV_QP_QKEY },
	{ IBV_QPS_ERR, 0, 0 },
	{ IBV_QPS_RESET, 0, 0 },
};

static struct ibv_qp *new_qp(struct kit *k, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = { .send_cq = k->scq, .recv_cq = k->rcq, .qp_type = type,
					 .qp_context = k, .sq_sig_all = 1 };
	struct ibv_qp *qp = sv_create_qp(k->pd, &init);

	CHECK(qp);
	return qp;
}

static int modify(struct ibv_qp *qp, enum ibv_qp_state to, int mask)
{
	struct ibv_qp_attr attr = { .qp_state = to, .port_num = 1, .dest_qp_num = qp->qp_num,
				    .path_mtu = IBV_MTU_1024 };

	return sv_modify_qp(qp, &attr, mask | IBV_QP_STATE);
}

/* ---- transitions ---- */

/* Each bit by itself: one that is required and not there, one that is there and unknown. */
static void take_step(struct ibv_qp *qp, const struct step *step)
{
	enum ibv_qp_state from = kit_state(qp);

	for (int bit = 1; bit <= ALL; bit *= 2) {
		if (!(bit & ALL))
			continue;
		if (step->required & bit)
			CHECK(modify(qp, step->to, step->required & ~bit) == EINVAL);
		else if (!(step->optional & bit))
			CHECK(modify(qp, step->to, step->required | bit) == EINVAL);
		CHECK(kit_state(qp) == from);
	}
	CHECK(!modify(qp, step->to, step->required | step->optional));
	CHECK(kit_state(qp) == step->to);
}

#define WALK(qp, steps) walk(qp, steps, sizeof(steps) / sizeof((steps)[0]))

static void walk(struct ibv_qp *qp, const struct step *steps, size_t n)
{
	for (size_t i = 0; i < n; i++)
		take_step(qp, &steps[i]);
	CHECK(!sv_destroy_qp(qp));
}

static void walks(int sock)
{
	struct kit k;

	kit_open(&k, &kit_defaults, sock);
	WALK(new_qp(&k, IBV_QPT_RC), rc_steps);
	WALK(new_qp(&k, IBV_QPT_UC), uc_steps);
	WALK(new_qp(&k, IBV_QPT_UD), ud_steps);
	kit_close(&k);
}

static void test_transitions(void **state)
{
	(void)state;
	kit_run(walks, kit_nothing);
}

static void xrc_walks(int sock)
{
	struct ibv_xrcd_init_attr domain = { .fd = -1, .oflags = O_CREAT,
					     .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS };
	struct ibv_qp_init_attr_ex init = { .qp_type = IBV_QPT_XRC_RECV,
					    .comp_mask = IBV_QP_INIT_ATTR_XRCD };
	struct ibv_qp *target;
	struct kit k;

	kit_open(&k, &kit_defaults, sock);
	CHECK((init.xrcd = ibv_open_xrcd(k.ctx, &domain)) != NULL);
	CHECK((target = ibv_create_qp_ex(k.ctx, &init)) != NULL);
	WALK(new_qp(&k, IBV_QPT_XRC_SEND), xrc_sender_steps);
	WALK(target, xrc_target_steps);
	CHECK(!ibv_close_xrcd(init.xrcd));
	kit_close(&k);
}

static void test_transitions_xrc(void **state)
{
	(void)state;
	kit_run(xrc_walks, kit_nothing);
}

/* Where no way leads. */
static void no_ways(int sock)
{
	static const enum ibv_qp_state from_init[] = { IBV_QPS_RTS, IBV_QPS_SQD, IBV_QPS_SQE };
	struct kit k;

	kit_open(&k, &kit_defaults, sock); /* its queue pair is in INIT */
	for (size_t i = 0; i < sizeof(from_init) / sizeof(from_init[0]); i++)
		CHECK(modify(k.qp, from_init[i], 0) == EINVAL);
	kit_to_rts(&k, k.qp, k.qp->qp_num);
	CHECK(modify(k.qp, IBV_QPS_INIT, ACCESS) == EINVAL && modify(k.qp, IBV_QPS_RTR, ACCESS) == EINVAL);
	CHECK(!modify(k.qp, IBV_QPS_ERR, 0));
	CHECK(modify(k.qp, IBV_QPS_RTS, 0) == EINVAL && kit_state(k.qp) == IBV_QPS_ERR);
	kit_close(&k);
}

static void test_no_ways(void **state)
{
	(void)state;
	kit_run(no_ways, kit_nothing);
}

/* The state that the caller believes in is looked at, if it says so. */
static void believed(int sock)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD, .cur_qp_state = IBV_QPS_SQD };
	struct kit k;

	(void)sock;
	kit_open_self(&k, &kit_defaults);
	CHECK(sv_modify_qp(k.qp, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE) == EINVAL);
	CHECK(kit_state(k.qp) == IBV_QPS_RTS);
	attr.cur_qp_state = IBV_QPS_RTS;
	CHECK(!sv_modify_qp(k.qp, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE));
	CHECK(kit_state(k.qp) == IBV_QPS_SQD);
	kit_close(&k);
}

static void test_believed(void **state)
{
	(void)state;
	kit_run(believed, kit_nothing);
}

/* ---- values ---- */

static void try_value(struct ibv_qp *qp, struct ibv_qp_attr attr, int mask, int error)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr before, after;

	CHECK(!sv_query_qp(qp, &before, ALL, &init));
	CHECK(sv_modify_qp(qp, &attr, mask) == error);
	CHECK(!sv_query_qp(qp, &after, ALL, &init));
	if (error)
		CHECK(!memcmp(&before, &after, sizeof(after)));
}

static void values(int sock)
{
	struct ibv_qp_attr none = { .port_num = 2 }, attr;
	struct kit k;

	kit_open(&k, &kit_defaults, sock);
	try_value(k.qp, none, IBV_QP_PORT, EINVAL);
	none.port_num = 0;
	try_value(k.qp, none, IBV_QP_PORT, EINVAL);
	none.pkey_index = 1;
	try_value(k.qp, none, IBV_QP_PKEY_INDEX, EINVAL);
	kit_to_rts(&k, k.qp, k.qp->qp_num);
	CHECK(!modify(k.qp, IBV_QPS_SQD, 0));
#define LIMIT(member, bit, most)                                                              \
	attr = (struct ibv_qp_attr){ .member = (most) };                                        \
	try_value(k.qp, attr, bit, 0);                                                          \
	attr.member = (most) + 1;                                                               \
	try_value(k.qp, attr, bit, EINVAL)
	LIMIT(max_rd_atomic, IBV_QP_MAX_QP_RD_ATOMIC, 16);
	LIMIT(max_dest_rd_atomic, IBV_QP_MAX_DEST_RD_ATOMIC, 16);
	LIMIT(min_rnr_timer, TIMER, 31);
	LIMIT(timeout, IBV_QP_TIMEOUT, 31);
	LIMIT(retry_cnt, IBV_QP_RETRY_CNT, 7);
	LIMIT(rnr_retry, IBV_QP_RNR_RETRY, 7);
	CHECK(!modify(k.qp, IBV_QPS_RTS, 0));
	kit_close(&k);
}

static void test_values(void **state)
{
	(void)state;
	kit_run(values, kit_nothing);
}

/* How long an answer is waited for: 4.096 us times 2 to the timeout, for each try, and a minute at most. */
static void patience(int sock)
{
	static const struct {
		uint8_t timeout, retry_cnt;
		uint64_t ns;
	} all[] = {
		{ 1, 0, 8192 },		     { 14, 7, 536870912 },	     { 22, 2, 51539607552 },
		{ 22, 3, 60000000000 },	     { 31, 0, 60000000000 },	     { 31, 7, 60000000000 },
		{ 0, 0, 60000000000 },	     { 0, 7, 60000000000 },
	};
	struct ibv_qp_attr attr = { .port_num = 1 };
	struct kit k;

	(void)sock;
	kit_open_self(&k, &kit_defaults);
	CHECK(!modify(k.qp, IBV_QPS_SQD, 0));
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		attr.timeout = all[i].timeout;
		attr.retry_cnt = all[i].retry_cnt;
		CHECK(!sv_modify_qp(k.qp, &attr, IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT));
		CHECK(sv_qp_of(k.qp)->budget_ns == all[i].ns);
	}
	kit_close(&k);
}

static void test_patience(void **state)
{
	(void)state;
	kit_run(patience, kit_nothing);
}

/* ---- queries ---- */

static void check_init_attr(struct kit *k, const struct ibv_qp_init_attr *init, enum ibv_qp_type type)
{
	CHECK(init->qp_context == k && init->send_cq == k->scq && init->recv_cq == k->rcq && !init->srq);
	CHECK(init->qp_type == type && init->sq_sig_all == 1);
}

static void put_members(struct ibv_qp_attr *to, const struct ibv_qp_attr *from, int mask)
{
#define MEMBER(bit, member)                                                                   \
	if (mask & (bit))                                                                       \
	to->member = from->member
	MEMBER(ACCESS, qp_access_flags);
	MEMBER(TIMER, min_rnr_timer);
	MEMBER(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic);
	MEMBER(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic);
	MEMBER(IBV_QP_TIMEOUT, timeout);
	MEMBER(IBV_QP_RETRY_CNT, retry_cnt);
	MEMBER(IBV_QP_RNR_RETRY, rnr_retry);
	MEMBER(IBV_QP_PORT, port_num);
	MEMBER(IBV_QP_PKEY_INDEX, pkey_index);
	MEMBER(IBV_QP_QKEY, qkey);
	MEMBER(IBV_QP_AV, ah_attr);
	MEMBER(IBV_QP_PATH_MTU, path_mtu);
	MEMBER(IBV_QP_RQ_PSN, rq_psn);
	MEMBER(IBV_QP_SQ_PSN, sq_psn);
	MEMBER(IBV_QP_DEST_QPN, dest_qp_num);
}

/* With the values of these bits only: what other members say is not to be taken. */
static int modify_with(struct ibv_qp *qp, const struct ibv_qp_attr *values, enum ibv_qp_state to, int mask)
{
	struct ibv_qp_attr attr;

	memset(&attr, 0x15, sizeof(attr));
	put_members(&attr, values, mask);
	attr.qp_state = to;
	return sv_modify_qp(qp, &attr, mask | IBV_QP_STATE);
}

static void set_all(struct ibv_qp *qp, const struct ibv_qp_attr *values)
{
	CHECK(!modify_with(qp, values, IBV_QPS_INIT, rc_steps[0].required));
	CHECK(!modify_with(qp, values, IBV_QPS_RTR, rc_steps[2].required));
	CHECK(!modify_with(qp, values, IBV_QPS_RTS, rc_steps[3].required));
}

/* Each bit alone changes its own member. */
static void change_each(struct ibv_qp *qp, const struct ibv_qp_attr *values, enum ibv_qp_state to, int bits)
{
	struct ibv_qp_attr want, got;
	struct ibv_qp_init_attr init;

	for (int bit = 1; bit <= bits; bit *= 2) {
		if (!(bit & bits))
			continue;
		CHECK(!sv_query_qp(qp, &want, ALL, &init));
		put_members(&want, values, bit);
		CHECK(!modify_with(qp, values, to, bit));
		CHECK(!sv_query_qp(qp, &got, ALL, &init) && !memcmp(&want, &got, sizeof(got)));
	}
}

static void each_alone(int sock)
{
	const struct ibv_qp_attr values = { .max_dest_rd_atomic = 7, .max_rd_atomic = 9, .min_rnr_timer = 3,
					    .timeout = 17, .retry_cnt = 5, .rnr_retry = 4, .port_num = 1,
					    .qp_access_flags = IBV_ACCESS_REMOTE_WRITE, .qkey = 0x4321,
					    .ah_attr = { .port_num = 1, .sl = 6 } };
	struct ibv_qp *dgram;
	struct kit k;

	kit_open(&k, &kit_defaults, sock);
	change_each(k.qp, &values, IBV_QPS_INIT, rc_steps[1].optional);
	kit_to_rts(&k, k.qp, k.qp->qp_num);
	CHECK(!modify(k.qp, IBV_QPS_SQD, 0));
	change_each(k.qp, &values, IBV_QPS_SQD, rc_steps[6].optional & ~PATH);
	dgram = new_qp(&k, IBV_QPT_UD);
	CHECK(!modify(dgram, IBV_QPS_INIT, ud_steps[0].required));
	change_each(dgram, &values, IBV_QPS_INIT, ud_steps[1].optional);
	CHECK(!sv_destroy_qp(dgram));
	kit_close(&k);
}

static void test_alone(void **state)
{
	(void)state;
	kit_run(each_alone, kit_nothing);
}

static void queries(int sock)
{
	struct ibv_qp_attr set = { .port_num = 1, .path_mtu = IBV_MTU_2048, .rq_psn = 11, .sq_psn = 12,
				   .max_dest_rd_atomic = 3, .max_rd_atomic = 4, .min_rnr_timer = 5,
				   .timeout = 6, .retry_cnt = 2, .rnr_retry = 1,
				   .qp_access_flags = IBV_ACCESS_REMOTE_READ,
				   .ah_attr = { .port_num = 1, .sl = 3, .is_global = 1 } };
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr got;
	struct ibv_qp *qp;
	struct kit k;

	kit_open(&k, &kit_defaults, sock);
	qp = new_qp(&k, IBV_QPT_RC);
	set.dest_qp_num = qp->qp_num;
	set_all(qp, &set);
	memset(&init, 0xff, sizeof(init));
	memset(&got, 0xff, sizeof(got));
	CHECK(!sv_query_qp(qp, &got, ALL, &init));
	check_init_attr(&k, &init, IBV_QPT_RC);
	CHECK(got.qp_state == IBV_QPS_RTS && got.cur_qp_state == IBV_QPS_RTS && !got.sq_draining);
	CHECK(got.port_num == 1 && got.path_mtu == IBV_MTU_2048 && got.rq_psn == 11 && got.sq_psn == 12);
	CHECK(got.max_dest_rd_atomic == 3 && got.max_rd_atomic == 4 && got.min_rnr_timer == 5);
	CHECK(got.timeout == 6 && got.retry_cnt == 2 && got.rnr_retry == 1 && got.pkey_index == 0);
	CHECK(got.qp_access_flags == IBV_ACCESS_REMOTE_READ && got.dest_qp_num == qp->qp_num);
	CHECK(got.ah_attr.sl == 3 && got.ah_attr.is_global == 1);
	/* Nothing of it is left in RESET. */
	CHECK(!modify(qp, IBV_QPS_RESET, 0) && !sv_query_qp(qp, &got, ALL, &init));
	CHECK(got.qp_state == IBV_QPS_RESET && !got.timeout && !got.dest_qp_num && !got.qp_access_flags);
	CHECK(!sv_destroy_qp(qp));
	qp = new_qp(&k, IBV_QPT_UD);
	set.qkey = 0x1234;
	CHECK(!modify_with(qp, &set, IBV_QPS_INIT, ud_steps[0].required));
	CHECK(!sv_query_qp(qp, &got, ALL, &init) && got.qkey == 0x1234);
	check_init_attr(&k, &init, IBV_QPT_UD);
	CHECK(!sv_destroy_qp(qp));
	kit_close(&k);
}

static void test_queries(void **state)
{
	(void)state;
	kit_run(queries, kit_nothing);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_transitions), cmocka_unit_test(test_transitions_xrc),
		cmocka_unit_test(test_no_ways),     cmocka_unit_test(test_believed),
		cmocka_unit_test(test_values),      cmocka_unit_test(test_alone),
		cmocka_unit_test(test_patience),    cmocka_unit_test(test_queries),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
