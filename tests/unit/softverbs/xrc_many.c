/* SPDX-License-Identifier: BSD-2-Clause */
/* xrc_many.c -- XRC: domains, many senders, and receive queues that are not for them. */
#include "tests/unit/softverbs/xrc.h"

#define RTR_BITS                                                                              \
	(IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |         \
	 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define OTHERS 4200 /* more queue pairs than there may be */

/* ---- domains ---- */

static void expect_no_domain(struct ibv_context *ctx, uint32_t comp_mask, int fd, int oflags, int error)
{
	struct ibv_xrcd_init_attr attr = { .comp_mask = comp_mask, .fd = fd, .oflags = oflags };

	errno = 0;
	CHECK(!ibv_open_xrcd(ctx, &attr) && errno == error);
}

static void domains(int sock)
{
	const uint32_t both = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
	struct ibv_context *ctx = kit_open_device();
	struct ibv_xrcd *first, *second;
	FILE *domain = tmpfile();
	int fd;

	(void)sock;
	CHECK(domain);
	fd = fileno(domain);
	expect_no_domain(ctx, IBV_XRCD_INIT_ATTR_FD, fd, O_CREAT, EINVAL);
	expect_no_domain(ctx, IBV_XRCD_INIT_ATTR_OFLAGS, fd, O_CREAT, EINVAL);
	expect_no_domain(ctx, both | 1u << 30, fd, O_CREAT, EINVAL);
	expect_no_domain(ctx, both, fd, O_CREAT | O_TRUNC, EINVAL);
	expect_no_domain(ctx, both, -1, 0, EINVAL);
	expect_no_domain(ctx, both, 1 << 30, O_CREAT, EBADF);
	expect_no_domain(ctx, both, -2, O_CREAT, EBADF);
	expect_no_domain(ctx, both, fd, 0, ENOENT);
	CHECK((first = open_domain(ctx, fd, O_CREAT | O_EXCL)) != NULL);
	expect_no_domain(ctx, both, fd, O_CREAT | O_EXCL, EEXIST);
	expect_no_domain(ctx, both, fd, O_EXCL, EEXIST);
	CHECK(first->context == ctx && (second = open_domain(ctx, fd, 0)) != NULL);
	CHECK(!ibv_close_xrcd(first));
	expect_no_domain(ctx, both, fd, O_EXCL, EEXIST);
	CHECK(!ibv_close_xrcd(second));
	expect_no_domain(ctx, both, fd, 0, ENOENT);
	/* Without a file each is another. */
	CHECK((first = open_domain(ctx, -1, O_CREAT | O_EXCL)) != NULL);
	CHECK((second = open_domain(ctx, -1, O_CREAT | O_EXCL)) != NULL);
	CHECK(!ibv_close_xrcd(first) && !ibv_close_xrcd(second));
	CHECK(!sv_close_device(ctx));
	fclose(domain);
}

static void test_domains(void **state)
{
	(void)state;
	kit_run(domains, kit_nothing);
}

/* ---- receive queues ---- */

static void expect_no_srq(struct owner *o, struct ibv_srq_init_attr_ex attr, int error)
{
	errno = 0;
	CHECK(!ibv_create_srq_ex(o->ctx, &attr) && errno == error);
}

static void wrong_srqs(struct owner *o, const struct ibv_srq_init_attr_ex *right)
{
	struct ibv_srq_init_attr_ex wrong;

	for (uint32_t bit = 1; bit <= IBV_SRQ_INIT_ATTR_TM; bit *= 2) {
		wrong = *right;
		wrong.comp_mask ^= bit;
		expect_no_srq(o, wrong, EINVAL);
	}
	wrong = *right;
	wrong.pd = NULL;
	expect_no_srq(o, wrong, EINVAL);
	wrong = *right;
	wrong.xrcd = NULL;
	expect_no_srq(o, wrong, EINVAL);
	wrong = *right;
	wrong.cq = NULL;
	expect_no_srq(o, wrong, EINVAL);
	wrong = *right;
	wrong.srq_type = IBV_SRQT_BASIC;
	expect_no_srq(o, wrong, EINVAL);
	wrong.srq_type = IBV_SRQT_TM;
	expect_no_srq(o, wrong, EOPNOTSUPP);
	wrong.comp_mask &= ~(uint32_t)IBV_SRQ_INIT_ATTR_TYPE;
	expect_no_srq(o, wrong, EINVAL);
	wrong = *right;
	wrong.attr.max_wr = 0;
	expect_no_srq(o, wrong, EINVAL);
}

static void receive_queues(int sock)
{
	struct ibv_srq_init_attr_ex right = {
		.attr = { .max_wr = 64, .max_sge = 1 }, .srq_type = IBV_SRQT_XRC,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
			     IBV_SRQ_INIT_ATTR_CQ,
	};
	struct ibv_srq_init_attr plain = { .attr = { .max_wr = 1, .max_sge = 1 } };
	struct ibv_qp_init_attr rc = { .qp_type = IBV_QPT_RC };
	struct ibv_srq *other;
	uint32_t number;
	struct owner o;

	(void)sock;
	open_owner(&o, -1);
	CHECK(srqn(o.srq[0]) != srqn(o.srq[1]));
	CHECK((right.pd = sv_alloc_pd(o.ctx)) != NULL && (right.xrcd = open_domain(o.ctx, -1, O_CREAT)) != NULL);
	CHECK((right.cq = sv_create_cq(o.ctx, 1, NULL, NULL, 0)) != NULL);
	wrong_srqs(&o, &right);
	/* Nothing of those counts as its user. */
	CHECK(!ibv_close_xrcd(right.xrcd) && !sv_destroy_cq(right.cq) && !sv_dealloc_pd(right.pd));
	CHECK((other = sv_create_srq(o.pd, &plain)) != NULL);
	CHECK(ibv_get_srq_num(other, &number) == EINVAL);
	CHECK(!sv_destroy_srq(other));
	/* It is not for queue pairs of other types. */
	rc.send_cq = rc.recv_cq = o.cq[0];
	rc.srq = o.srq[0];
	errno = 0;
	CHECK(!sv_create_qp(o.pd, &rc) && errno == EINVAL);
	close_owner(&o);
}

static void test_receive_queues(void **state)
{
	(void)state;
	kit_run(receive_queues, kit_nothing);
}

/* ---- who is refused ---- */

static struct ibv_qp *connect_with(struct owner *o, uint32_t sender_qpn, unsigned int access)
{
	struct ibv_qp *target = new_target(o);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = access };

	CHECK(!sv_modify_qp(target, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR, .dest_qp_num = sender_qpn, .min_rnr_timer = 1,
				     .max_dest_rd_atomic = 1 };
	CHECK(!sv_modify_qp(target, &attr, RTR_BITS));
	return target;
}

static void expect_event(struct ibv_context *ctx, enum ibv_event_type type, struct ibv_qp *qp)
{
	struct pollfd pfd = { .fd = ctx->async_fd, .events = POLLIN };
	struct ibv_async_event event;

	CHECK(poll(&pfd, 1, KIT_LIMIT_S * 1000) == 1);
	CHECK(!sv_get_async_event(ctx, &event) && event.event_type == type && event.element.qp == qp);
	sv_ack_async_event(&event);
}

/* Both ends fail, and are told. */
static void expect_refused(struct owner *o, struct kit *k, uint32_t to, enum ibv_wr_opcode opcode,
			   enum ibv_wc_status status, enum ibv_event_type event)
{
	struct ibv_qp *target;

	k->qp = new_sender(k);
	target = connect_with(o, k->qp->qp_num, 0);
	to_rts(k, k->qp, target->qp_num);
	CHECK(!send_to(k, to, 0, 16, opcode, to));
	kit_expect(k->scq, to, status);
	CHECK(kit_state(k->qp) == IBV_QPS_ERR);
	expect_event(o->ctx, event, target);
	CHECK(kit_state(target) == IBV_QPS_ERR);
	CHECK(!sv_destroy_qp(k->qp) && !sv_destroy_qp(target));
}

static void refused_number(struct owner *o, struct kit *k, uint32_t to)
{
	expect_refused(o, k, to, IBV_WR_SEND, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
}

static void refused(int sock)
{
	struct ibv_srq_init_attr plain = { .attr = { .max_wr = 1, .max_sge = 1 } };
	struct ibv_xrcd *own;
	struct ibv_srq *other;
	struct owner o;
	struct kit k;

	open_owner(&o, -1);
	open_sender(&k, sock);
	CHECK(!sv_destroy_qp(k.qp));
	k.addr = (uintptr_t)o.mem;
	k.rkey = o.mr->rkey;
	refused_number(&o, &k, srqn(o.srq[0]) + 100); /* none is there */
	refused_number(&o, &k, srqn(o.srq[0]) | 0xfff); /* nor can it be */
	CHECK((other = sv_create_srq(o.pd, &plain)) != NULL);
	refused_number(&o, &k, (srqn(o.srq[0]) & ~0xfffu) | other->handle); /* it is no XRC's */
	CHECK(!sv_destroy_srq(other));
	own = o.xrcd;
	CHECK((o.xrcd = open_domain(o.ctx, -1, O_CREAT)) != NULL);
	refused_number(&o, &k, srqn(o.srq[0])); /* of another domain than the target */
	CHECK(!ibv_close_xrcd(o.xrcd));
	o.xrcd = own;
	/* The target's rights are the sender's. */
	expect_refused(&o, &k, srqn(o.srq[0]), IBV_WR_RDMA_WRITE, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
	k.qp = new_sender(&k);
	kit_close(&k);
	close_owner(&o);
}

static void test_refused(void **state)
{
	(void)state;
	kit_run(refused, kit_nothing);
}

/* ---- many senders ---- */

static struct ibv_qp *others[OTHERS];

/* All queue pairs that there is room for; how many. */
static int fill_seats(struct owner *o)
{
	struct ibv_qp_init_attr init = { .send_cq = o->cq[0], .recv_cq = o->cq[0], .qp_type = IBV_QPT_RC };
	int n = 0;

	while (n < OTHERS && (others[n] = sv_create_qp(o->pd, &init)) != NULL)
		n++;
	CHECK(n < OTHERS);
	return n;
}

static void empty_seats(int n)
{
	while (n)
		CHECK(!sv_destroy_qp(others[--n]));
}

/* Queue pairs that were made for senders show so. */
static int count_seats(struct owner *o)
{
	int n = fill_seats(o);

	empty_seats(n);
	return n;
}

static void expect_from(struct ibv_cq *cq, const struct ibv_qp *target)
{
	struct ibv_wc wc = kit_wait(cq);

	CHECK(wc.status == IBV_WC_SUCCESS && wc.qp_num == target->qp_num && wc.opcode == IBV_WC_RECV);
}

static void send_one(struct kit *k, struct owner *o, int i)
{
	post(o, i, 64, 1);
	CHECK(!send_to(k, srqn(o->srq[i]), 0, 16, IBV_WR_SEND, 9));
	kit_expect(k->scq, 9, IBV_WC_SUCCESS);
}

static struct ibv_qp *open_pair(struct owner *o, struct kit *k, int sock)
{
	struct ibv_qp *target;

	open_sender(k, sock);
	target = connect_with(o, k->qp->qp_num, 0);
	to_rts(k, k->qp, target->qp_num);
	return target;
}

static void open_two(struct owner *o, struct kit *a, struct kit *b, int sock, struct ibv_qp **first,
		     struct ibv_qp **second)
{
	open_owner(o, -1);
	*first = open_pair(o, a, sock);
	*second = open_pair(o, b, sock);
}

/* What was made for a sender stays until the sender has left and all of it was polled. */
static void leaving(int sock)
{
	struct ibv_qp *first, *second;
	struct kit a, b;
	struct owner o;
	int seats;

	open_two(&o, &a, &b, sock, &first, &second);
	seats = count_seats(&o);
	send_one(&b, &o, 0);
	send_one(&b, &o, 1);
	expect_from(o.cq[0], second);
	expect_from(o.cq[1], second);
	send_one(&a, &o, 0);
	CHECK(count_seats(&o) == seats - 3);
	kit_close(&a);
	CHECK(count_seats(&o) == seats - 2); /* it has left, and its message has not */
	expect_from(o.cq[0], first);
	send_one(&b, &o, 0);
	expect_from(o.cq[0], second);
	/* With the receive queue goes what was made for senders to it, and nothing else. */
	CHECK(!sv_destroy_srq(o.srq[0]));
	CHECK(count_seats(&o) == seats);
	send_one(&b, &o, 1);
	expect_from(o.cq[1], second);
	send_one(&b, &o, 1);
	kit_close(&b);
	CHECK(count_seats(&o) == seats + 1);
	expect_from(o.cq[1], second);
	CHECK(!sv_destroy_qp(first) && !sv_destroy_qp(second));
	o.srq[0] = new_srq(&o, o.cq[0]);
	first = open_pair(&o, &a, sock);
	send_one(&a, &o, 0);
	expect_from(o.cq[0], first);
	CHECK(count_seats(&o) == seats + 1); /* b's went as a's came */
	kit_close(&a);
	CHECK(!sv_destroy_qp(first) && count_seats(&o) == seats + 4);
	close_owner(&o);
}

static void test_leaving(void **state)
{
	(void)state;
	kit_run(leaving, kit_nothing);
}

/* ---- one of the senders dies ---- */

static void bereaved(int sock)
{
	uint64_t until = kit_now_ns() + KIT_LIMIT_S * 1000000000ull;
	struct ibv_qp *own, *other;
	struct owner o;
	struct kit k;
	pid_t pid;
	int seats;

	open_owner(&o, -1);
	own = open_pair(&o, &k, sock);
	pid = (pid_t)kit_hear(sock);
	other = connect_with(&o, (uint32_t)kit_hear(sock), 0);
	post(&o, 0, 64, 1);
	kit_say(sock, other->qp_num);
	kit_say(sock, srqn(o.srq[0]));
	expect_from(o.cq[0], other);
	send_one(&k, &o, 0);
	expect_from(o.cq[0], own);
	seats = count_seats(&o);
	kill(pid, SIGKILL);
	while (count_seats(&o) != seats + 1)
		CHECK(kit_now_ns() < until);
	/* What is this process's own stays. */
	send_one(&k, &o, 0);
	expect_from(o.cq[0], own);
	CHECK(count_seats(&o) == seats + 1);
	kit_close(&k);
	CHECK(!sv_destroy_qp(own) && !sv_destroy_qp(other));
	close_owner(&o);
}

static void mortal(int sock)
{
	struct kit k;

	open_sender(&k, sock);
	kit_say(sock, (uint64_t)getpid());
	kit_say(sock, k.qp->qp_num);
	to_rts(&k, k.qp, (uint32_t)kit_hear(sock));
	CHECK(!send_to(&k, (uint32_t)kit_hear(sock), 0, 16, IBV_WR_SEND, 1));
	kit_expect(k.scq, 1, IBV_WC_SUCCESS);
	for (;;)
		pause();
}

static void test_death(void **state)
{
	(void)state;
	kit_run_two(bereaved, mortal, true);
}

/* A sender for whom no queue pair can be made is refused, and others do not feel it. */
static void no_seat(int sock)
{
	struct ibv_qp *first, *second;
	struct kit a, b;
	struct owner o;
	int seats;

	open_two(&o, &a, &b, sock, &first, &second);
	send_one(&a, &o, 0);
	expect_from(o.cq[0], first);
	seats = fill_seats(&o);
	post(&o, 0, 64, 1);
	CHECK(!send_to(&b, srqn(o.srq[0]), 0, 16, IBV_WR_SEND, 9));
	kit_expect(b.scq, 9, IBV_WC_REM_INV_REQ_ERR);
	empty_seats(seats);
	kit_close(&b);
	CHECK(!sv_destroy_qp(second));
	second = open_pair(&o, &b, sock);
	send_one(&b, &o, 1); /* when it comes, those who left go */
	expect_from(o.cq[1], second);
	send_one(&a, &o, 0);
	expect_from(o.cq[0], first);
	kit_close(&a);
	kit_close(&b);
	CHECK(!sv_destroy_qp(first) && !sv_destroy_qp(second));
	close_owner(&o);
}

static void test_no_seat(void **state)
{
	(void)state;
	kit_run(no_seat, kit_nothing);
}

/* Completions of others on the same queue do not keep what was made for one that left. */
static void shared_cq(int sock)
{
	struct ibv_qp *target, *left, *rc;
	struct owner o;
	struct kit k;
	int seats;

	open_owner(&o, -1);
	target = open_pair(&o, &k, sock);
	CHECK(!sv_destroy_srq(o.srq[1]));
	o.srq[1] = new_srq(&o, k.scq);
	left = k.qp;
	rc = k.qp = kit_new_qp(&k);
	kit_to_init(&k, rc);
	kit_to_rts(&k, rc, rc->qp_num);
	k.addr = (uintptr_t)k.mem;
	k.rkey = k.mr->rkey;
	seats = count_seats(&o);
	k.qp = left;
	post(&o, 1, 64, 1);
	CHECK(!send_to(&k, srqn(o.srq[1]), 0, 16, IBV_WR_SEND, 9));
	for (int n = 0; n < 2; n++)
		CHECK(kit_wait(k.scq).status == IBV_WC_SUCCESS);
	CHECK(count_seats(&o) == seats - 1);
	k.qp = rc;
	kit_complete(&k);
	CHECK(!sv_destroy_qp(left));
	CHECK(count_seats(&o) == seats + 1);
	kit_expect(k.scq, 1, IBV_WC_SUCCESS);
	CHECK(!sv_destroy_qp(target) && !sv_destroy_srq(o.srq[1]));
	o.srq[1] = new_srq(&o, o.cq[1]);
	kit_close(&k);
	close_owner(&o);
}

static void test_shared_cq(void **state)
{
	(void)state;
	kit_run(shared_cq, kit_nothing);
}

/* As many places as a sender may know. */
static void places(int sock)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr, *bad = NULL;
	struct ibv_qp *target;
	uint32_t number;
	struct owner o;
	struct kit k;

	open_owner(&o, -1);
	target = open_pair(&o, &k, sock);
	sge = kit_sge(&k, 0, 16);
	number = srqn(o.srq[0]) & ~0xfffu;
	for (uint32_t i = 0; i < 256; i++) {
		wr = request(&sge, number + 300 + i, IBV_WR_SEND, i);
		CHECK(!ibv_post_send(k.qp, &wr, &bad));
		kit_expect(k.scq, i, i ? IBV_WC_WR_FLUSH_ERR : IBV_WC_REM_INV_REQ_ERR);
	}
	wr = request(&sge, number + 300 + 256, IBV_WR_SEND, 1);
	CHECK(ibv_post_send(k.qp, &wr, &bad) == ENOMEM && bad == &wr);
	wr = request(&sge, number + 300 + 255, IBV_WR_SEND, 2); /* one that it knows */
	CHECK(!ibv_post_send(k.qp, &wr, &bad));
	kit_expect(k.scq, 2, IBV_WC_WR_FLUSH_ERR);
	kit_close(&k);
	CHECK(!sv_destroy_qp(target));
	close_owner(&o);
}

static void test_places(void **state)
{
	(void)state;
	kit_run(places, kit_nothing);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_domains), cmocka_unit_test(test_receive_queues),
		cmocka_unit_test(test_refused), cmocka_unit_test(test_leaving),
		cmocka_unit_test(test_death), cmocka_unit_test(test_no_seat), cmocka_unit_test(test_shared_cq), cmocka_unit_test(test_places),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
