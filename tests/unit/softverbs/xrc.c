/* SPDX-License-Identifier: BSD-2-Clause */
/* xrc.c -- XRC: one connection to all shared receive queues of a domain, also of other processes. */
#include "tests/unit/softverbs/xrc.h"
#include "common/softverbs/base/proc.h"
#include "common/softverbs/base/shm.h"
#include "common/softverbs/object/qp.h"

static int file = -1; /* the domain's, before any process is forked */

/* Both at one doorbell: the receivers sleep, and each is woken. */
static void send_both(struct kit *k, const uint32_t to[2])
{
	struct ibv_sge sge[2] = { kit_sge(k, 0, 16), kit_sge(k, 64, 16) };
	struct ibv_send_wr wr[2], *bad;

	for (int i = 0; i < 2; i++)
		wr[i] = request(&sge[i], to[i], IBV_WR_SEND, 10 + (uint64_t)i);
	wr[0].next = &wr[1];
	CHECK(!ibv_post_send(k->qp, wr, &bad));
	kit_expect(k->scq, 10, IBV_WC_SUCCESS);
	kit_expect(k->scq, 11, IBV_WC_SUCCESS);
}

static void send_ex(struct kit *k, uint32_t to)
{
	struct ibv_qp_ex *ex = sv_qp_to_qp_ex(k->qp);

	ibv_wr_start(ex);
	ex->wr_id = 20;
	ex->wr_flags = S;
	ibv_wr_send(ex);
	ibv_wr_set_xrc_srqn(ex, to);
	ibv_wr_set_sge(ex, k->mr->lkey, (uintptr_t)k->mem, 16);
	CHECK(!ibv_wr_complete(ex));
	kit_expect(k->scq, 20, IBV_WC_SUCCESS);
}

/* ---- two processes share a domain; a third one sends to both over one connection ---- */

static int mates[2]; /* between the two owners */

static void sender(int sock)
{
	uint32_t to[2], other;
	struct kit k;

	open_sender(&k, sock);
	kit_say(sock, k.qp->qp_num);
	to_rts(&k, k.qp, (uint32_t)kit_hear(sock));
	to[0] = (uint32_t)kit_hear(sock);
	other = (uint32_t)kit_hear(sock);
	to[1] = (uint32_t)kit_hear(sock);
	k.addr = kit_hear(sock);
	k.rkey = (uint32_t)kit_hear(sock);
	kit_meet(&k);
	send_both(&k, to);
	kit_meet(&k);
	send_both(&k, to); /* both are known now: nothing is waited for in between */
	kit_meet(&k);
	send_ex(&k, other);
	/* Long, and nobody posted yet; then a WRITE by the receive queue's domain. */
	memset(k.mem, 'x', BYTES);
	CHECK(!send_to(&k, to[1], 0, BYTES, IBV_WR_SEND, 30));
	kit_expect(k.scq, 30, IBV_WC_SUCCESS);
	strcpy((char *)k.mem, "written");
	CHECK(!send_to(&k, to[0], 0, 16, IBV_WR_RDMA_WRITE, 31));
	kit_expect(k.scq, 31, IBV_WC_SUCCESS);
	kit_meet(&k);
	/* Not of this domain: the request fails, and the target too. */
	CHECK(!send_to(&k, to[0] + 200, 0, 16, IBV_WR_SEND, 32));
	kit_expect(k.scq, 32, IBV_WC_REM_INV_REQ_ERR);
	CHECK(kit_state(k.qp) == IBV_QPS_ERR);
	kit_meet(&k);
	kit_close(&k);
}

/* Who finds no receive there waits as long as the target was told to have it wait. */
static void check_patience(void)
{
	unsigned int found = 0;

	for (uint32_t i = 1; i < SV_QPS; i++) {
		struct sv_qp_seat *seat = &sv_proc->seat[i];

		sv_spin_lock(&seat->lock);
		if (seat->qp && seat->qp->hidden) {
			CHECK(atomic_load(&seat->qp->ro->rnr_timer) == 1);
			found++;
		}
		sv_spin_unlock(&seat->lock);
	}
	CHECK(found == 2);
}

static void first_owner(int sock)
{
	struct owner o;
	struct kit link = { .sock = sock };

	open_owner(&o, file);
	CHECK(!open_domain(o.ctx, file, O_CREAT | O_EXCL) && errno == EEXIST);
	CHECK(!open_domain(o.ctx, -1, 0) && errno == EINVAL);
	o.target = new_target(&o);
	kit_say(sock, o.target->qp_num);
	connect_target(&o, (uint32_t)kit_hear(sock));
	kit_say(mates[0], o.target->qp_num);
	post(&o, 0, 64, 1);
	post(&o, 0, 64, 3);
	post(&o, 1, 64, 2);
	kit_say(sock, srqn(o.srq[0]));
	kit_say(sock, srqn(o.srq[1]));
	kit_say(sock, kit_hear(mates[0]));
	kit_say(sock, (uintptr_t)o.mem);
	kit_say(sock, o.mr->rkey);
	kit_meet(&link);
	take(&o, 0, o.target->qp_num, 1, "to the first");
	CHECK(kit_hear(mates[0]) == 1);
	kit_meet(&link);
	take(&o, 0, o.target->qp_num, 3, "to the first");
	CHECK(kit_hear(mates[0]) == 2);
	kit_meet(&link);
	take(&o, 1, o.target->qp_num, 2, "to the first");
	check_patience(); /* of both queues; no other is joined from here on */
	kit_meet(&link);
	CHECK(!strcmp((char *)o.mem, "written"));
	kit_meet(&link);
	kit_wait_state(o.target, IBV_QPS_ERR);
	kit_say(mates[0], 1);
	close_owner(&o);
}

static void second_owner(void)
{
	uint32_t target;
	struct owner o;

	open_owner(&o, file);
	target = (uint32_t)kit_hear(mates[1]);
	post(&o, 0, 64, 5);
	post(&o, 0, 64, 7);
	kit_say(mates[1], srqn(o.srq[0]));
	take(&o, 0, target, 5, "to the second");
	kit_say(mates[1], 1);
	take(&o, 0, target, 7, "to the second");
	kit_say(mates[1], 2);
	post(&o, 0, BYTES, 6);
	take(&o, 0, target, 6, NULL);
	for (uint32_t i = 0; i < BYTES; i++)
		CHECK(o.mem[i] == 'x');
	CHECK(kit_hear(mates[1]) == 1);
	close_owner(&o);
	exit(0);
}

static void test_shared(void **state)
{
	FILE *domain = tmpfile();
	pid_t pid;

	(void)state;
	assert_non_null(domain);
	file = fileno(domain);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, mates), 0);
	fflush(NULL);
	pid = fork();
	if (!pid) {
		alarm(KIT_LIMIT_S * 2);
		second_owner();
	}
	kit_run(sender, first_owner);
	assert_int_equal(kit_status(pid), 0);
	fclose(domain);
	close(mates[0]);
	close(mates[1]);
}

/* ---- all in one process; a sender that leaves before its message was polled ---- */

static void alone(int sock)
{
	struct owner o;
	struct kit k;

	open_owner(&o, -1);
	open_sender(&k, sock);
	o.target = new_target(&o);
	connect_target(&o, k.qp->qp_num);
	to_rts(&k, k.qp, o.target->qp_num);
	for (uint64_t i = 0; i < 3; i++) {
		post(&o, 0, 64, i);
		CHECK(!send_to(&k, srqn(o.srq[0]), 0, 16, IBV_WR_SEND, i));
		kit_expect(k.scq, i, IBV_WC_SUCCESS);
	}
	take(&o, 0, o.target->qp_num, 0, "to the first");
	kit_close(&k);
	take(&o, 0, o.target->qp_num, 1, "to the first");
	take(&o, 0, o.target->qp_num, 2, "to the first");
	close_owner(&o);
	(void)sock;
}

static void test_alone(void **state)
{
	(void)state;
	kit_run(alone, kit_nothing);
}

/* ---- the target's process dies ---- */

static void orphan(int sock)
{
	struct kit k;
	uint32_t to;

	open_sender(&k, sock);
	kit_say(sock, k.qp->qp_num);
	to_rts(&k, k.qp, (uint32_t)kit_hear(sock));
	to = (uint32_t)kit_hear(sock);
	CHECK(!send_to(&k, to, 0, 16, IBV_WR_SEND, 1));
	kit_expect(k.scq, 1, IBV_WC_SUCCESS);
	kit_say(sock, 1);
	CHECK(read(sock, &to, 1) == 0); /* it is dead */
	CHECK(!send_to(&k, to, 0, 16, IBV_WR_SEND, 2));
	kit_expect(k.scq, 2, IBV_WC_RETRY_EXC_ERR);
	kit_close(&k);
}

static void mortal(int sock)
{
	struct owner o;

	open_owner(&o, -1);
	o.target = new_target(&o);
	kit_say(sock, o.target->qp_num);
	connect_target(&o, (uint32_t)kit_hear(sock));
	post(&o, 0, 64, 1);
	kit_say(sock, srqn(o.srq[0]));
	take(&o, 0, o.target->qp_num, 1, "to the first");
	CHECK(kit_hear(sock) == 1);
	kill(getpid(), SIGKILL);
}

static void test_death(void **state)
{
	(void)state;
	kit_run_two(orphan, mortal, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shared),
		cmocka_unit_test(test_alone),
		cmocka_unit_test(test_death),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
