/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mcast.c -- multicast groups: who gets what is sent to one, who doesn't (any more), their limits,
 * members that die, rdma_cm.
 */
#include <arpa/inet.h>
#include "common/softverbs/base/limits.h"
#include "common/softverbs/peer/group.h"
#include "tests/unit/softverbs/ud.h"

#define GROUP_QPN 0xffffffu
#define ROUNDS 20
/* A stopped or dead member costs each sender a second at most, once. */
#define SOON_NS 10000000000ull

static const union ibv_gid group = { .raw = { 0xff, 0x0e, [15] = 7 } };

static struct ibv_ah *group_ah(struct end *e, uint8_t sgid_index)
{
	struct ibv_ah_attr attr = { .port_num = 1, .is_global = 1,
				    .grh = { .dgid = group, .sgid_index = sgid_index } };
	struct ibv_ah *ah = sv_create_ah(e->pd, &attr);

	CHECK(ah);
	return ah;
}

static void open_sender(struct end *e, uint8_t sgid_index)
{
	open_end(e);
	CHECK(!sv_destroy_ah(e->ah));
	e->ah = group_ah(e, sgid_index);
}

static void open_member(struct end *e)
{
	open_end(e);
	CHECK(!sv_attach_mcast(e->qp, &group, 0));
}

static void close_member(struct end *e)
{
	CHECK(sv_destroy_qp(e->qp) == EBUSY);
	CHECK(!sv_detach_mcast(e->qp, &group, 0));
	close_end(e);
}

static void expect_nothing(struct end *e)
{
	struct ibv_wc wc;

	CHECK(!ibv_poll_cq(e->rcq, 1, &wc));
}

/* What slot 1 was posted for has come, from that queue pair. */
static void expect_from(struct end *e, uint32_t qpn, uint8_t byte, int gid_index)
{
	struct ibv_grh *grh = (struct ibv_grh *)(void *)(e->mem + SLOT_BYTES);
	struct ibv_wc wc = kit_wait(e->rcq);
	union ibv_gid gid;

	CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == 1 && wc.byte_len == GRH + 100);
	CHECK(wc.src_qp == qpn && wc.qp_num == e->qp->qp_num && wc.wc_flags & IBV_WC_GRH);
	CHECK(!memcmp(&grh->dgid, &group, sizeof(group)));
	CHECK(!sv_query_gid(e->ctx, 1, gid_index, &gid) && !memcmp(&grh->sgid, &gid, sizeof(gid)));
	CHECK(e->mem[SLOT_BYTES + GRH] == byte && e->mem[SLOT_BYTES + GRH + 99] == byte);
}

static void send_byte(struct end *e, uint8_t byte, uint32_t qkey)
{
	memset(e->mem, byte, 100);
	send_one(e, 0, 100, GROUP_QPN, qkey);
}

static uint32_t bad_qkeys(struct end *e)
{
	struct ibv_port_attr port;

	CHECK(!sv_query_port(e->ctx, 1, &port));
	return port.qkey_viol_cntr;
}

/* ---- one process ---- */

static void test_members_get_it(void **state)
{
	struct end a, b, from;

	(void)state;
	open_member(&a);
	open_member(&b);
	open_sender(&from, 1);
	post_recv(&a, 1, SLOT_BYTES);
	post_recv(&b, 1, SLOT_BYTES);
	post_recv(&from, 1, SLOT_BYTES);
	send_byte(&from, 1, QKEY);
	expect_from(&a, from.qp->qp_num, 1, 1);
	expect_from(&b, from.qp->qp_num, 1, 1);
	expect_nothing(&from);
	/* A member has what it sends itself. */
	CHECK(!sv_attach_mcast(from.qp, &group, 0));
	post_recv(&a, 1, SLOT_BYTES);
	send_byte(&from, 2, QKEY);
	expect_from(&a, from.qp->qp_num, 2, 1);
	expect_from(&from, from.qp->qp_num, 2, 1);
	CHECK(sv_dropped(b.qp) == 1 && sv_dropped(a.qp) == 0); /* it had posted nothing */
	close_member(&from);
	close_member(&b);
	close_member(&a);
}

static void test_key_and_detach(void **state)
{
	struct end a, b, from;

	(void)state;
	open_member(&a);
	open_member(&b);
	open_sender(&from, 0);
	post_recv(&a, 1, SLOT_BYTES);
	post_recv(&b, 1, SLOT_BYTES);
	send_byte(&from, 3, QKEY + 1);
	expect_nothing(&a);
	expect_nothing(&b);
	CHECK(bad_qkeys(&a) >= 2);
	CHECK(!sv_detach_mcast(b.qp, &group, 0));
	send_byte(&from, 4, QKEY);
	expect_from(&a, from.qp->qp_num, 4, 0);
	expect_nothing(&b);
	CHECK(!sv_attach_mcast(b.qp, &group, 0));
	CHECK(!sv_attach_mcast(b.qp, &group, 0)); /* again says nothing new */
	send_byte(&from, 5, QKEY);
	expect_from(&b, from.qp->qp_num, 5, 0);
	close_member(&b);
	close_member(&a);
	close_end(&from);
}

/* What else happens to groups between two datagrams: members get each once, others none. */
static void test_news_of_groups(void **state)
{
	const union ibv_gid another = { .raw = { 0xff, 0x0e, [15] = 8 } };
	struct end a, b, c, from;
	struct ibv_ah *to_group;

	(void)state;
	open_member(&a);
	open_member(&b);
	open_end(&c);
	open_sender(&from, 0);
	for (uint8_t i = 0; i < 4; i++) {
		post_recv(&a, 1, SLOT_BYTES);
		post_recv(&b, 1, SLOT_BYTES);
		send_byte(&from, i, QKEY);
		expect_from(&a, from.qp->qp_num, i, 0);
		expect_from(&b, from.qp->qp_num, i, 0);
		CHECK(!(i % 2 ? sv_detach_mcast : sv_attach_mcast)(c.qp, &another, 0));
	}
	/* As many members, but not the same. */
	CHECK(!sv_detach_mcast(b.qp, &group, 0));
	post_recv(&a, 1, SLOT_BYTES);
	send_byte(&from, 8, QKEY);
	expect_from(&a, from.qp->qp_num, 8, 0);
	CHECK(!sv_detach_mcast(a.qp, &group, 0));
	CHECK(!sv_attach_mcast(c.qp, &group, 0));
	post_recv(&a, 1, SLOT_BYTES);
	post_recv(&b, 1, SLOT_BYTES);
	post_recv(&c, 1, SLOT_BYTES);
	send_byte(&from, 9, QKEY);
	expect_from(&c, from.qp->qp_num, 9, 0);
	expect_nothing(&a);
	expect_nothing(&b);
	/* One to b alone in between. */
	to_group = from.ah;
	from.ah = new_ah(&from);
	send_one(&from, 0, 100, b.qp->qp_num, QKEY);
	CHECK(kit_wait(b.rcq).status == IBV_WC_SUCCESS);
	CHECK(!sv_destroy_ah(from.ah));
	from.ah = to_group;
	post_recv(&c, 1, SLOT_BYTES);
	send_byte(&from, 10, QKEY);
	expect_from(&c, from.qp->qp_num, 10, 0);
	close_end(&from);
	close_member(&c);
	close_end(&a);
	close_end(&b);
}

/* A member that doesn't want to hear itself. */
static void test_not_to_self(void **state)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_UD, .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS,
		.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB, .cap = { 4, 4, 1, 1, 0 } };
	struct end a, from;

	(void)state;
	open_member(&a);
	open_sender(&from, 0);
	CHECK(!sv_destroy_qp(from.qp));
	init.pd = from.pd;
	init.send_cq = from.scq;
	init.recv_cq = from.rcq;
	init.qp_type = IBV_QPT_RC;
	CHECK(!sv_create_qp_ex(from.ctx, &init) && errno == EOPNOTSUPP);
	init.qp_type = IBV_QPT_UD;
	CHECK((from.qp = sv_create_qp_ex(from.ctx, &init)) != NULL);
	to_rts(from.qp);
	CHECK(!sv_attach_mcast(from.qp, &group, 0));
	post_recv(&a, 1, SLOT_BYTES);
	post_recv(&from, 1, SLOT_BYTES);
	send_byte(&from, 6, QKEY);
	expect_from(&a, from.qp->qp_num, 6, 0);
	expect_nothing(&from);
	close_member(&from);
	close_member(&a);
}

static void test_refused(void **state)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC };
	union ibv_gid one = { .raw = { [15] = 1 } };
	struct ibv_qp *rc;
	struct end e;

	(void)state;
	open_end(&e);
	init.send_cq = init.recv_cq = e.scq;
	CHECK((rc = sv_create_qp(e.pd, &init)) != NULL);
	CHECK(sv_attach_mcast(rc, &group, 0) == EINVAL);
	CHECK(sv_attach_mcast(e.qp, &one, 0) == EINVAL);
	CHECK(sv_detach_mcast(e.qp, &group, 0) == EINVAL);
	CHECK(!sv_destroy_qp(rc));
	close_end(&e);
}

/* ---- limits ---- */

static void test_groups_of_a_queue_pair(void **state)
{
	union ibv_gid gid = group;
	struct end e;

	(void)state;
	open_end(&e);
	for (int i = 0; i < SV_MAX_QP_GROUPS; i++) {
		gid.raw[14] = (uint8_t)i;
		CHECK(!sv_attach_mcast(e.qp, &gid, 0));
	}
	gid.raw[13] = 1;
	CHECK(sv_attach_mcast(e.qp, &gid, 0) == ENOMEM);
	gid.raw[13] = 0;
	for (int i = 0; i < SV_MAX_QP_GROUPS; i++) {
		gid.raw[14] = (uint8_t)i;
		CHECK(!sv_detach_mcast(e.qp, &gid, 0));
	}
	close_end(&e);
}

static void test_full_group(void **state)
{
	static struct ibv_qp *qp[SV_GROUP_MEMBERS + 1];
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_UD };
	struct ibv_device_attr attr;
	struct end e;

	(void)state;
	open_end(&e);
	CHECK(!sv_query_device(e.ctx, &attr) && attr.max_mcast_qp_attach == SV_GROUP_MEMBERS);
	init.send_cq = init.recv_cq = e.scq;
	for (uint32_t i = 0; i <= SV_GROUP_MEMBERS; i++) {
		CHECK((qp[i] = sv_create_qp(e.pd, &init)) != NULL);
		CHECK(sv_attach_mcast(qp[i], &group, 0) == (i < SV_GROUP_MEMBERS ? 0 : ENOMEM));
	}
	CHECK(!sv_detach_mcast(qp[0], &group, 0));
	CHECK(!sv_attach_mcast(qp[SV_GROUP_MEMBERS], &group, 0));
	CHECK(!sv_destroy_qp(qp[0]));
	for (uint32_t i = 1; i <= SV_GROUP_MEMBERS; i++)
		CHECK(!sv_detach_mcast(qp[i], &group, 0) && !sv_destroy_qp(qp[i]));
	close_end(&e);
}

/* ---- several processes ---- */

/* Each time it is in the group, it gets what is sent from then on; else nothing. */
static void comes_and_goes(int sock)
{
	struct end e;

	open_end(&e);
	post_recv(&e, 1, SLOT_BYTES);
	CHECK(kit_hear(sock) == 4); /* what is sent first is for nobody */
	for (int i = 0; i < ROUNDS; i++) {
		CHECK(!sv_attach_mcast(e.qp, &group, 0));
		kit_say(sock, 1);
		expect_from(&e, (uint32_t)kit_hear(sock), (uint8_t)(2 * i), 0);
		CHECK(!sv_detach_mcast(e.qp, &group, 0));
		post_recv(&e, 1, SLOT_BYTES);
		kit_say(sock, 2);
		CHECK(kit_hear(sock) == 3);
		expect_nothing(&e);
	}
	close_end(&e);
}

static void sends_always(int sock)
{
	struct end e;

	open_sender(&e, 0);
	send_byte(&e, 99, QKEY); /* to nobody */
	kit_say(sock, 4);
	for (int i = 0; i < ROUNDS; i++) {
		CHECK(kit_hear(sock) == 1);
		send_byte(&e, (uint8_t)(2 * i), QKEY);
		kit_say(sock, e.qp->qp_num);
		CHECK(kit_hear(sock) == 2);
		send_byte(&e, (uint8_t)(2 * i + 1), QKEY);
		kit_say(sock, 3);
	}
	close_end(&e);
}

static void test_comes_and_goes(void **state)
{
	(void)state;
	kit_run(sends_always, comes_and_goes);
}

static void hears_one(int sock)
{
	struct end e;

	open_member(&e);
	post_recv(&e, 1, SLOT_BYTES);
	kit_say(sock, 1);
	expect_from(&e, (uint32_t)kit_hear(sock), 8, 0);
	close_member(&e);
}

/* What was posted arrives, though there was no link yet and the queue pair ends at once. */
static void sends_and_goes(int sock)
{
	uint32_t qpn;
	struct end e;

	CHECK(kit_hear(sock) == 1);
	open_sender(&e, 0);
	qpn = e.qp->qp_num;
	memset(e.mem, 8, 100);
	CHECK(!try_send(&e, 0, 100, GROUP_QPN, QKEY, IBV_WR_SEND));
	close_end(&e);
	kit_say(sock, qpn);
}

static void test_sends_and_goes(void **state)
{
	(void)state;
	kit_run(sends_and_goes, hears_one);
}

static void member_to_be_killed(int sock)
{
	struct end e;

	open_member(&e);
	post_recv(&e, 1, SLOT_BYTES);
	kit_say(sock, (uint64_t)getpid());
	kit_wait(e.rcq);
	kit_say(sock, 1);
	pause();
}

/* Another member has all of it, before, while and after a process dies. */
static void goes_on(int sock)
{
	pid_t pid = (pid_t)kit_hear(sock);
	uint64_t start = kit_now_ns();
	struct end e;

	open_sender(&e, 0);
	CHECK(!sv_attach_mcast(e.qp, &group, 0));
	for (int i = 0; i < 200; i++) {
		post_recv(&e, 1, SLOT_BYTES);
		send_byte(&e, (uint8_t)i, QKEY);
		expect_from(&e, e.qp->qp_num, (uint8_t)i, 0);
		if (i == 0)
			CHECK(kit_hear(sock) == 1);
		if (i == 100)
			CHECK(!kill(pid, SIGKILL));
	}
	CHECK(kit_now_ns() - start < SOON_NS);
	close_member(&e);
}

static void test_member_dies(void **state)
{
	(void)state;
	kit_run_two(goes_on, member_to_be_killed, true);
}

/* ---- rdma_cm ---- */

struct id {
	struct rdma_event_channel *ch;
	struct rdma_cm_id *id;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	uint8_t mem[2 * GRH];
};

static struct sockaddr_in group_addr = { .sin_family = AF_INET };

static struct rdma_cm_event *next_event(struct id *i, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *ev;

	CHECK(!sv_get_cm_event(i->ch, &ev));
	CHECK(ev->event == type && ev->id == i->id && !ev->status);
	return ev;
}

static void open_id(struct id *i)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_UD, .cap = { 4, 4, 1, 1, 0 } };

	group_addr.sin_addr.s_addr = htonl(0xef010203);
	CHECK((i->ch = sv_create_event_channel()) != NULL);
	CHECK(!sv_create_id(i->ch, &i->id, NULL, RDMA_PS_UDP));
	CHECK(!sv_resolve_addr(i->id, NULL, (struct sockaddr *)&group_addr, 1000));
	CHECK(!sv_ack_cm_event(next_event(i, RDMA_CM_EVENT_ADDR_RESOLVED)));
	CHECK(i->id->route.addr.src_sin.sin_addr.s_addr == htonl(INADDR_LOOPBACK));
	CHECK((i->cq = sv_create_cq(i->id->verbs, 16, NULL, NULL, 0)) != NULL);
	init.send_cq = init.recv_cq = i->cq;
	CHECK(!sv_rdma_create_qp(i->id, i->id->pd, &init));
	CHECK((i->mr = sv_reg_mr(i->id->pd, i->mem, sizeof(i->mem), IBV_ACCESS_LOCAL_WRITE)) != NULL);
}

static void close_id(struct id *i)
{
	sv_rdma_destroy_qp(i->id);
	CHECK(!i->id->qp && !sv_dereg_mr(i->mr) && !sv_destroy_cq(i->cq));
	CHECK(!sv_destroy_id(i->id));
	sv_destroy_event_channel(i->ch);
}

/* Joined, the event says where to send to. */
static struct ibv_ah *join(struct id *i, uint32_t flags)
{
	struct rdma_cm_join_mc_attr_ex attr = {
		.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
		.join_flags = flags, .addr = (struct sockaddr *)&group_addr };
	struct rdma_cm_event *ev;
	struct ibv_ah *ah;

	CHECK(!sv_join_multicast_ex(i->id, &attr, i));
	ev = next_event(i, RDMA_CM_EVENT_MULTICAST_JOIN);
	CHECK(ev->param.ud.private_data == i && ev->param.ud.qp_num == GROUP_QPN);
	CHECK(ev->param.ud.qkey == RDMA_UDP_QKEY && ev->param.ud.ah_attr.is_global);
	CHECK(!memcmp(ev->param.ud.ah_attr.grh.dgid.raw + 10, "\xff\xff\xef\1\2\3", 6));
	CHECK((ah = sv_create_ah(i->id->pd, &ev->param.ud.ah_attr)) != NULL);
	CHECK(!sv_ack_cm_event(ev));
	CHECK(sv_join_multicast(i->id, attr.addr, NULL) == -1 && errno == EADDRINUSE);
	return ah;
}

static void id_recv(struct id *i)
{
	struct ibv_sge sge = { (uintptr_t)i->mem, sizeof(i->mem), i->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = 1, .sg_list = &sge, .num_sge = 1 }, *bad;

	CHECK(!ibv_post_recv(i->id->qp, &wr, &bad));
}

static void id_send(struct id *i, struct ibv_ah *ah)
{
	struct ibv_sge sge = { (uintptr_t)i->mem, 8, i->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = 2, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED }, *bad;

	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = GROUP_QPN;
	wr.wr.ud.remote_qkey = RDMA_UDP_QKEY;
	CHECK(!ibv_post_send(i->id->qp, &wr, &bad));
	kit_expect(i->cq, 2, IBV_WC_SUCCESS);
}

static void test_join(void **state)
{
	struct sockaddr *addr = (struct sockaddr *)&group_addr;
	struct ibv_ah *to_all, *ah;
	struct id member, from;
	struct ibv_wc wc;

	(void)state;
	open_id(&member);
	open_id(&from);
	ah = join(&member, RDMA_MC_JOIN_FLAG_FULLMEMBER);
	to_all = join(&from, RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER);
	id_recv(&member);
	id_recv(&from);
	id_send(&from, to_all);
	kit_expect(member.cq, 1, IBV_WC_SUCCESS);
	CHECK(!ibv_poll_cq(from.cq, 1, &wc)); /* sends only */
	CHECK(!sv_leave_multicast(member.id, addr));
	CHECK(sv_leave_multicast(member.id, addr) == -1 && errno == EADDRNOTAVAIL);
	id_recv(&member);
	id_send(&from, to_all);
	CHECK(!ibv_poll_cq(member.cq, 1, &wc));
	CHECK(!sv_leave_multicast(from.id, addr));
	CHECK(!sv_destroy_ah(to_all) && !sv_destroy_ah(ah));
	close_id(&from);
	close_id(&member);
}

static void test_join_refused(void **state)
{
	struct sockaddr_in one = { .sin_family = AF_INET };
	struct rdma_cm_id *id;
	struct id i;

	(void)state;
	open_id(&i);
	one.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(sv_join_multicast(i.id, (struct sockaddr *)&one, NULL) == -1 && errno == EINVAL);
	CHECK(!sv_create_id(i.ch, &id, NULL, RDMA_PS_TCP));
	CHECK(!sv_bind_addr(id, (struct sockaddr *)&one));
	CHECK(sv_join_multicast(id, (struct sockaddr *)&group_addr, NULL) == -1 && errno == EINVAL);
	CHECK(!sv_destroy_id(id));
	close_id(&i);
}

/* Nobody's memory is kept by a join that was not ended. */
static void test_join_and_go(void **state)
{
	struct rdma_cm_event *ev;
	struct id i;

	(void)state;
	open_id(&i);
	CHECK(!sv_join_multicast(i.id, (struct sockaddr *)&group_addr, NULL));
	CHECK(!sv_leave_multicast(i.id, (struct sockaddr *)&group_addr));
	CHECK(!sv_get_cm_event(i.ch, &ev)); /* left before its event was taken */
	CHECK(ev->event == RDMA_CM_EVENT_MULTICAST_ERROR && ev->status == -ECANCELED);
	CHECK(!sv_ack_cm_event(ev));
	CHECK(!sv_join_multicast(i.id, (struct sockaddr *)&group_addr, NULL));
	close_id(&i);
}

/* An id's groups are apart: one of IPv4, and one of IPv6, whose address is the group's. */
static void test_groups_of_an_id(void **state)
{
	struct sockaddr_in6 six = { .sin6_family = AF_INET6 };
	struct sockaddr *addrs[] = { (struct sockaddr *)&six, (struct sockaddr *)&group_addr };
	struct rdma_cm_event *ev;
	struct id i;

	(void)state;
	memcpy(&six.sin6_addr, &group, sizeof(group));
	open_id(&i);
	CHECK(!sv_join_multicast(i.id, addrs[0], NULL));
	ev = next_event(&i, RDMA_CM_EVENT_MULTICAST_JOIN);
	CHECK(!memcmp(&ev->param.ud.ah_attr.grh.dgid, &group, sizeof(group)));
	CHECK(!sv_ack_cm_event(ev));
	CHECK(!sv_destroy_ah(join(&i, RDMA_MC_JOIN_FLAG_FULLMEMBER)));
	for (int n = 0; n < 2; n++)
		CHECK(sv_join_multicast(i.id, addrs[n], NULL) == -1 && errno == EADDRINUSE);
	for (int n = 0; n < 2; n++) {
		CHECK(!sv_leave_multicast(i.id, addrs[n]));
		CHECK(sv_leave_multicast(i.id, addrs[n]) == -1 && errno == EADDRNOTAVAIL);
	}
	close_id(&i);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_comes_and_goes),
		cmocka_unit_test(test_sends_and_goes),
		cmocka_unit_test(test_member_dies),
		cmocka_unit_test(test_members_get_it),
		cmocka_unit_test(test_key_and_detach),
		cmocka_unit_test(test_news_of_groups),
		cmocka_unit_test(test_not_to_self),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_groups_of_a_queue_pair),
		cmocka_unit_test(test_full_group),
		cmocka_unit_test(test_join),
		cmocka_unit_test(test_join_refused),
		cmocka_unit_test(test_join_and_go),
		cmocka_unit_test(test_groups_of_an_id),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
