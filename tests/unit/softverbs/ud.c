/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ud.c -- datagrams: what the receiver is told, what is lost and counted, rdma_cm.
 *
 * The program is linked with --wrap=write: a sender is held as it tells of its completion.
 */
#include <arpa/inet.h>
#include <pthread.h>
#include "tests/unit/softverbs/ud.h"

ssize_t __real_write(int fd, const void *buf, size_t bytes);
ssize_t __wrap_write(int fd, const void *buf, size_t bytes);

/* Who writes there is held. */
static _Atomic int held_fd = -1;
static _Atomic bool held, released;

ssize_t __wrap_write(int fd, const void *buf, size_t bytes)
{
	if (fd == held_fd) {
		held = true;
		while (!released)
			sched_yield();
	}
	return __real_write(fd, buf, bytes);
}

/* ---- one sender ---- */

static void wait_drops(struct end *e, uint32_t n)
{
	uint64_t until = kit_now_ns() + LIMIT_NS;
	struct ibv_wc wc;

	while (sv_dropped(e->qp) < n) {
		CHECK(ibv_poll_cq(e->rcq, 1, &wc) == 0);
		CHECK(kit_now_ns() < until);
	}
	CHECK(sv_dropped(e->qp) == n);
}

static void wait_bad_qkey(struct end *e, uint32_t before)
{
	uint64_t until = kit_now_ns() + LIMIT_NS;
	struct ibv_port_attr port;
	struct ibv_wc wc;

	do {
		CHECK(ibv_poll_cq(e->rcq, 1, &wc) == 0);
		CHECK(!sv_query_port(e->ctx, 1, &port) && kit_now_ns() < until);
	} while (port.qkey_viol_cntr == before);
	CHECK(port.qkey_viol_cntr == before + 1);
}

/* Answers by what the completion and the first 40 bytes say. */
static void answer(struct end *e, struct ibv_wc *wc)
{
	struct ibv_grh *grh = (struct ibv_grh *)(void *)(e->mem + wc->wr_id * SLOT_BYTES);
	struct ibv_ah_attr attr;
	union ibv_gid gid;

	CHECK(!sv_init_ah_from_wc(e->ctx, 1, wc, grh, &attr));
	CHECK(!sv_query_gid(e->ctx, 1, 0, &gid));
	CHECK(attr.is_global && !attr.grh.sgid_index && !memcmp(&attr.grh.dgid, &gid, sizeof(gid)));
	CHECK(!sv_destroy_ah(e->ah));
	CHECK((e->ah = sv_create_ah_from_wc(e->pd, wc, grh, 1)) != NULL);
	send_one(e, 5, 8, wc->src_qp, QKEY);
}

static void receiver(int sock)
{
	struct end e;
	struct ibv_wc wc;

	open_end(&e);
	kit_say(sock, e.qp->qp_num);
	wait_drops(&e, 3); /* nobody had posted */
	post_recv(&e, 0, SLOT_BYTES);
	kit_say(sock, 1);
	wc = kit_wait(e.rcq);
	CHECK(wc.status == IBV_WC_SUCCESS && wc.byte_len == GRH + 4096 && wc.imm_data == 77);
	CHECK(wc.wc_flags == (IBV_WC_GRH | IBV_WC_WITH_IMM) && wc.opcode == IBV_WC_RECV);
	CHECK(e.mem[GRH] == 9 && e.mem[GRH + 4095] == 9);
	answer(&e, &wc);
	post_recv(&e, 1, SLOT_BYTES);
	kit_say(sock, 1);
	wait_bad_qkey(&e, 0);
	kit_say(sock, 1);
	kit_expect(e.rcq, 1, IBV_WC_SUCCESS); /* the receive is still there */
	post_recv(&e, 2, GRH + 15);
	kit_say(sock, 1);
	kit_expect(e.rcq, 2, IBV_WC_LOC_LEN_ERR);
	kit_wait_state(e.qp, IBV_QPS_ERR);
	CHECK(sv_dropped(e.qp) == 3);
	close_end(&e);
}

static void sender(int sock)
{
	uint32_t qpn = (uint32_t)kit_hear(sock);
	struct end e;

	open_end(&e);
	post_recv(&e, 6, SLOT_BYTES);
	memset(e.mem, 9, SLOT_BYTES);
	CHECK(try_send(&e, 0, 8, qpn, QKEY, IBV_WR_RDMA_WRITE) == EINVAL);
	CHECK(!try_send(&e, 0, 4096, qpn, QKEY, IBV_WR_SEND));
	kit_expect(e.scq, 0, IBV_WC_SUCCESS);
	send_one(&e, 1, 8, qpn, QKEY);
	send_one(&e, 2, 0, qpn, QKEY);
	kit_hear(sock);
	send_one(&e, 0, 4096, qpn, QKEY);
	kit_expect(e.rcq, 6, IBV_WC_SUCCESS);
	kit_hear(sock);
	send_one(&e, 3, 8, qpn, QKEY + 1);
	kit_hear(sock);
	send_one(&e, 3, 8, qpn, 1u << 31); /* the queue pair's own */
	kit_hear(sock);
	send_one(&e, 3, 16, qpn, QKEY);
	/* Longer than an MTU; and to nobody, which nobody tells. */
	CHECK(!try_send(&e, 4, 4097, qpn, QKEY, IBV_WR_SEND));
	kit_expect(e.scq, 4, IBV_WC_LOC_LEN_ERR);
	kit_wait_state(e.qp, IBV_QPS_ERR);
	close_end(&e);
}

static void test_pair(void **state)
{
	(void)state;
	kit_run(receiver, sender);
}

/* A number that is no queue pair's, a process that is not there, a receiver that is an RC queue
 * pair: sent, and lost. */
static void lonely(int sock)
{
	struct end e;

	open_end(&e);
	send_one(&e, 0, 64, e.qp->qp_num + 1, QKEY);
	send_one(&e, 1, 64, e.qp->qp_num ^ 0x123000, QKEY);
	/* To itself. */
	post_recv(&e, 2, SLOT_BYTES);
	send_one(&e, 3, 64, e.qp->qp_num, QKEY);
	kit_expect(e.rcq, 2, IBV_WC_SUCCESS);
	close_end(&e);
	kit_say(sock, 1);
}

static void witness(int sock)
{
	kit_hear(sock);
}

static void test_nobody(void **state)
{
	(void)state;
	kit_run(lonely, witness);
}

/* No datagram is there before its sender can know that it was sent: else an answer would be, and
 * its event before that of the completion. */

static void *send_to_itself(void *arg)
{
	struct end *e = arg;

	CHECK(!try_send(e, 3, 64, e->qp->qp_num, QKEY, IBV_WR_SEND));
	return NULL;
}

static void completed_first(int sock)
{
	uint64_t until = kit_now_ns() + LIMIT_NS;
	struct ibv_comp_channel *chan;
	pthread_t thread;
	struct ibv_wc wc;
	struct end e;

	open_end(&e);
	CHECK((chan = sv_create_comp_channel(e.ctx)) != NULL);
	CHECK(!sv_destroy_qp(e.qp) && !sv_destroy_cq(e.scq));
	CHECK((e.scq = sv_create_cq(e.ctx, 64, NULL, chan, 0)) != NULL);
	e.qp = new_qp(&e);
	post_recv(&e, 2, SLOT_BYTES);
	CHECK(!ibv_req_notify_cq(e.scq, 0));
	held_fd = chan->fd;
	CHECK(!pthread_create(&thread, NULL, send_to_itself, &e));
	while (!held)
		CHECK(kit_now_ns() < until);
	CHECK(ibv_poll_cq(e.rcq, 1, &wc) == 0);
	kit_expect(e.scq, 3, IBV_WC_SUCCESS);
	released = true;
	kit_expect(e.rcq, 2, IBV_WC_SUCCESS);
	CHECK(!pthread_join(thread, NULL));
	close_end(&e);
	CHECK(!sv_destroy_comp_channel(chan));
	kit_say(sock, 1);
}

static void test_completed_first(void **state)
{
	(void)state;
	kit_run(completed_first, witness);
}

/* ---- by connection management ---- */

static struct rdma_cm_event *next_event(struct rdma_event_channel *ch, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *ev;

	CHECK(!sv_get_cm_event(ch, &ev));
	CHECK(ev->event == type && !ev->status);
	return ev;
}

static struct rdma_cm_event *take_event(struct rdma_event_channel *ch, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *ev = next_event(ch, type);

	CHECK(!sv_ack_cm_event(ev));
	return ev;
}

/* A queue pair of an id: it needs no connection. */
static struct ibv_mr *equip(struct rdma_cm_id *id, uint8_t *mem)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
					 .cap = { .max_send_wr = 4, .max_recv_wr = 4,
						  .max_send_sge = 1, .max_recv_sge = 1 } };
	struct ibv_mr *mr;

	CHECK(sv_rdma_create_qp(id, NULL, &init) == -1 && errno == EINVAL);
	init.qp_type = IBV_QPT_UD;
	CHECK(!sv_rdma_create_qp(id, NULL, &init));
	CHECK(kit_state(id->qp) == IBV_QPS_RTS);
	CHECK((mr = sv_reg_mr(id->pd, mem, SLOT_BYTES, IBV_ACCESS_LOCAL_WRITE)) != NULL);
	return mr;
}

static void end_id(struct rdma_cm_id *id, struct ibv_mr *mr)
{
	CHECK(!sv_dereg_mr(mr));
	sv_rdma_destroy_qp(id);
	CHECK(!sv_destroy_id(id));
}

static void service(int sock)
{
	struct sockaddr_in addr = { .sin_family = AF_INET };
	struct rdma_event_channel *ch = sv_create_event_channel();
	struct rdma_conn_param param = { .private_data = "here", .private_data_len = 5 };
	struct rdma_cm_id *listener, *id;
	struct rdma_cm_event *ev;
	static uint8_t mem[SLOT_BYTES];
	struct ibv_mr *mr;
	struct ibv_sge sge;
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(!sv_create_id(ch, &listener, NULL, RDMA_PS_UDP));
	CHECK(!sv_bind_addr(listener, (struct sockaddr *)&addr) && !sv_listen(listener, 1));
	kit_say(sock, ntohs(sv_get_src_port(listener)));
	ev = next_event(ch, RDMA_CM_EVENT_CONNECT_REQUEST);
	id = ev->id;
	CHECK(!strcmp(ev->param.ud.private_data, "who?") && ev->param.ud.private_data_len == 180);
	CHECK(id->ps == RDMA_PS_UDP && id->qp_type == IBV_QPT_UD);
	CHECK(!sv_ack_cm_event(ev));
	mr = equip(id, mem);
	sge = (struct ibv_sge){ (uintptr_t)mem, SLOT_BYTES, mr->lkey };
	CHECK(!ibv_post_recv(id->qp, &wr, &bad));
	param.qp_num = id->qp->qp_num;
	CHECK(!sv_accept(id, &param));
	CHECK(kit_wait(id->recv_cq).byte_len == GRH + 64);
	kit_say(sock, 1);
	kit_hear(sock); /* it is gone, and nobody is told */
	end_id(id, mr);
	CHECK(!sv_destroy_id(listener));
	CHECK(!fcntl(ch->fd, F_SETFL, O_NONBLOCK));
	CHECK(sv_get_cm_event(ch, &ev) == -1 && errno == EAGAIN);
	sv_destroy_event_channel(ch);
}

static void customer(int sock)
{
	struct sockaddr_in addr = { .sin_family = AF_INET };
	struct rdma_event_channel *ch = sv_create_event_channel();
	struct rdma_conn_param param = { .private_data = "who?", .private_data_len = 5 };
	static uint8_t mem[SLOT_BYTES];
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id;
	struct ibv_mr *mr;
	struct end e = { .mem = mem };

	addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	addr.sin_port = htons((uint16_t)kit_hear(sock));
	CHECK(!sv_create_id(ch, &id, NULL, RDMA_PS_UDP));
	CHECK(!sv_resolve_addr(id, NULL, (struct sockaddr *)&addr, 1000));
	take_event(ch, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(!sv_resolve_route(id, 1000));
	take_event(ch, RDMA_CM_EVENT_ROUTE_RESOLVED);
	mr = equip(id, mem);
	CHECK(!sv_connect(id, &param));
	ev = next_event(ch, RDMA_CM_EVENT_ESTABLISHED);
	CHECK(!strcmp(ev->param.ud.private_data, "here") && ev->param.ud.private_data_len == 136);
	e.mr = mr;
	e.qp = id->qp;
	e.scq = id->send_cq;
	CHECK((e.ah = sv_create_ah(id->pd, &ev->param.ud.ah_attr)) != NULL);
	send_one(&e, 0, 64, ev->param.ud.qp_num, ev->param.ud.qkey);
	CHECK(!sv_ack_cm_event(ev));
	kit_hear(sock);
	CHECK(!sv_destroy_ah(e.ah));
	end_id(id, mr);
	sv_destroy_event_channel(ch);
	kit_say(sock, 1);
}

static void test_cm(void **state)
{
	(void)state;
	kit_run(service, customer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pair),
		cmocka_unit_test(test_nobody),
		cmocka_unit_test(test_cm),
		cmocka_unit_test(test_completed_first),
	};

	return cmocka_run_group_tests_name("ud", tests, NULL, NULL);
}
