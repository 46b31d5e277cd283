/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests that can't go on: how long until the next try, when they are given up, and answers of
 * another process that come late or make no sense.
 */
#include "common/softverbs/base/proc.h"
#include "common/softverbs/exec/exec.h"
#include "common/softverbs/exec/wait.h"
#include "common/softverbs/object/qp.h"
#include "kit.h"

#define MS 1000000ull
#define S IBV_SEND_SIGNALED

/* ---- the next try ---- */

/* That of a queue pair which has waited so long for its peer; 0: it gives up. */
static uint64_t try_once(struct sv_qp *qp, uint64_t waited_ns, bool answer)
{
	uint32_t status = IBV_WC_SUCCESS;
	uint64_t before = kit_now_ns(), at;

	qp->first_ns = waited_ns ? before - waited_ns : 0;
	if ((answer ? sv_wait_answer : sv_wait_peer)(qp, &status) == SV_DONE) {
		CHECK(status == IBV_WC_RETRY_EXC_ERR);
		return 0;
	}
	CHECK(!status && qp->block == SV_BLOCK_LINK && qp->first_ns);
	at = atomic_load(&qp->deadline_ns);
	CHECK(at > before);
	return at - before;
}

/* Measured without a pause of the machine. */
static uint64_t next_try(struct sv_qp *qp, uint64_t waited_ns, bool answer)
{
	uint64_t before, ns;

	do {
		before = kit_now_ns();
		ns = try_once(qp, waited_ns, answer);
	} while (kit_now_ns() - before > MS);
	return ns;
}

static bool is_about(uint64_t ns, uint64_t from_us, uint64_t to_us)
{
	return ns >= from_us * 1000 && ns < to_us * 1000;
}

/* A fourth of what it has waited, from 0.2 ms to 20 ms, and no longer than its patience. */
static void peer_waits(int sock)
{
	struct sv_qp *qp;
	struct kit k;

	(void)sock;
	kit_open_self(&k, &kit_defaults);
	qp = sv_qp_of(k.qp);
	sv_spin_lock(&qp->sq_lock);
	qp->budget_ns = 1000 * MS;
	CHECK(is_about(next_try(qp, 0, false), 200, 1200));
	CHECK(is_about(next_try(qp, 40 * MS, false), 10000, 11250));
	CHECK(is_about(next_try(qp, 500 * MS, false), 20000, 21000));
	CHECK(is_about(next_try(qp, 990 * MS, false), 8999, 10001));
	CHECK(next_try(qp, 1000 * MS, false) == 0);
	CHECK(is_about(next_try(qp, 4000 * MS, true), 20000, 21000));
	CHECK(next_try(qp, 5000 * MS, true) == 0);
	qp->awaits_link = true;
	CHECK(next_try(qp, 4000 * MS, false) != 0);
	CHECK(next_try(qp, 5000 * MS, false) == 0);
	qp->budget_ns = 8000 * MS;
	CHECK(next_try(qp, 7000 * MS, true) != 0);
	CHECK(next_try(qp, 8000 * MS, true) == 0);
	qp->awaits_link = false;
	sv_unblock_locked(qp);
	sv_spin_unlock(&qp->sq_lock);
	kit_close(&k);
}

/* A queue pair that waits is counted once. */
static void counts(int sock)
{
	struct sv_qp *qp;
	struct sv_cq *cq;
	struct kit k;

	(void)sock;
	kit_open_self(&k, &kit_defaults);
	qp = sv_qp_of(k.qp);
	cq = sv_cq_of(k.scq);
	sv_spin_lock(&qp->sq_lock);
	for (int i = 0; i < 2; i++) {
		CHECK(sv_wait(qp, SV_BLOCK_ROOM, 1000 * MS) == SV_WAIT);
		CHECK(atomic_load(&cq->nblocked) == 1 && qp->block == SV_BLOCK_ROOM);
		CHECK(atomic_load(&sv_proc->blocked[qp->index / 64]) == 1ull << qp->index % 64);
	}
	CHECK(sv_progress_blocked(NULL, NULL) == atomic_load(&qp->deadline_ns));
	qp->first_ns = 5;
	for (int i = 0; i < 2; i++) {
		sv_unblock_locked(qp);
		CHECK(!atomic_load(&cq->nblocked) && !qp->block && !qp->first_ns);
		CHECK(!atomic_load(&sv_proc->blocked[qp->index / 64]));
	}
	CHECK(sv_progress_blocked(NULL, NULL) == UINT64_MAX);
	sv_spin_unlock(&qp->sq_lock);
	kit_close(&k);
}

static void test_peer(void **state)
{
	(void)state;
	kit_run(peer_waits, counts);
}

/* Whose time has come and who can't go on is not looked at all the time. */
static void stuck(int sock)
{
	struct sv_qp *qp;
	uint64_t now, due;
	struct kit k;

	(void)sock;
	kit_open_self(&k, &kit_defaults);
	qp = sv_qp_of(k.qp);
	sv_spin_lock(&qp->sq_lock);
	sv_wait(qp, SV_BLOCK_ROOM, 0);
	now = kit_now_ns();
	due = sv_progress_blocked(NULL, NULL); /* busy: this thread is at it */
	CHECK(due >= now + 200000 && due <= kit_now_ns() + 200000);
	sv_spin_unlock(&qp->sq_lock);
	do { /* unless the control thread is just there */
		now = kit_now_ns();
		due = sv_progress_blocked(NULL, NULL);
		CHECK(due > now && due <= kit_now_ns() + SV_WAIT_PEER_MAX_NS);
	} while (due < now + SV_WAIT_PEER_MAX_NS);
	sv_spin_lock(&qp->sq_lock);
	sv_unblock_locked(qp);
	sv_spin_unlock(&qp->sq_lock);
	kit_close(&k);
}

/* ---- receivers that aren't ready ---- */

static uint64_t rnr_wait(struct sv_qp *qp, uint32_t timer, uint8_t tries)
{
	uint64_t before;

	atomic_store(&qp->ro->rnr_timer, timer);
	do { /* without a pause of the machine */
		before = kit_now_ns();
		sv_wqe_at(qp, qp->sq_head)->rnr_tries = tries;
		atomic_store(&qp->deadline_ns, 0);
		sv_progress_locked(qp);
	} while (kit_now_ns() - before > MS);
	CHECK(qp->block == SV_BLOCK_RNR);
	return atomic_load(&qp->deadline_ns) - before;
}

/* The timer as InfiniBand has it; from the seventeenth try on twice as long each time, up to 20 ms. */
static void rnr(int sock)
{
	static const uint64_t us[32] = {
		655360, 10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640, 960, 1280, 1920, 2560,
		3840, 5120, 7680, 10240, 15360, 20480, 30720, 40960, 61440, 81920, 122880, 163840,
		245760, 327680, 491520,
	};
	struct sv_qp *qp;
	struct kit k;

	(void)sock;
	kit_open_self(&k, &kit_defaults);
	qp = sv_qp_of(k.qp);
	CHECK(!kit_post(&k, IBV_WR_SEND, 0, 8, 0, 1, S));
	sv_spin_lock(&qp->sq_lock);
	for (uint32_t i = 0; i < 32; i++)
		CHECK(is_about(rnr_wait(qp, i, 0), us[i], us[i] + 1000));
	CHECK(is_about(rnr_wait(qp, 14, 15), 1280, 1280 + 1000));
	CHECK(is_about(rnr_wait(qp, 20, 15), 10240, 10240 + 1000));
	CHECK(is_about(rnr_wait(qp, 20, 16), 20480, 20480 + 1000));
	CHECK(is_about(rnr_wait(qp, 20, 17), 20480, 20480 + 1000));
	CHECK(is_about(rnr_wait(qp, 1, 18), 80, 80 + 1000));
	CHECK(is_about(rnr_wait(qp, 1, UINT8_MAX), 20480, 20480 + 1000));
	CHECK(sv_wqe_at(qp, qp->sq_head)->rnr_tries == UINT8_MAX);
	CHECK(is_about(rnr_wait(qp, 31, UINT8_MAX), 491520, 491520 + 1000));
	atomic_store(&qp->deadline_ns, 0);
	sv_spin_unlock(&qp->sq_lock);
	CHECK(!kit_post_recv(&k, 64, 8, 2));
	kit_expect(k.scq, 1, IBV_WC_SUCCESS);
	kit_expect(k.rcq, 2, IBV_WC_SUCCESS);
	kit_close(&k);
}

static void test_rnr(void **state)
{
	(void)state;
	kit_run(rnr, stuck);
}

/* ---- answers ---- */

static void target(int sock)
{
	struct kit_opts opts = kit_defaults;
	struct kit k;

	opts.mem_flags = -1;
	kit_open(&k, &opts, sock);
	kit_connect(&k);
	kit_hear(sock);
	kit_close(&k);
}

/* The other process is stopped with a READ before it that it has to answer itself. */
static void open_asker(struct kit *k, int sock, uint32_t bytes)
{
	kit_open(k, &kit_defaults, sock);
	kit_connect(k);
	CHECK(!kit_post(k, IBV_WR_RDMA_READ, 0, 8, 0, 1, S));
	kit_expect(k->scq, 1, IBV_WC_SUCCESS); /* the link is there */
	kit_stop(k->pid);
	CHECK(!kit_post(k, IBV_WR_RDMA_READ, 0, bytes, 0, 2, S));
	CHECK(sv_qp_of(k->qp)->block == SV_BLOCK_REPLY && sv_qp_of(k->qp)->slow_open == 1);
}

static void close_asker(struct kit *k)
{
	CHECK(!kill(k->pid, SIGCONT));
	kit_say(k->sock, 1);
	kit_close(k);
}

static void answer(struct kit *k, uint32_t serial, uint32_t status, uint64_t offset, uint32_t bytes)
{
	static uint8_t data[4096];

	memset(data, 0x77, sizeof(data));
	sv_slow_answer(sv_qp_of(k->qp)->index, serial, status, offset, 0, data, bytes);
}

static bool is_done(struct kit *k)
{
	struct ibv_wc wc;

	return ibv_poll_cq(k->scq, 1, &wc);
}

/* Of another request, of none: they change nothing; then that of this one. */
static void late(int sock)
{
	struct sv_qp *qp;
	uint32_t serial;
	struct kit k;

	open_asker(&k, sock, 64);
	qp = sv_qp_of(k.qp);
	serial = qp->slow_serial;
	answer(&k, serial - 1, IBV_WC_SUCCESS, 0, 64);
	answer(&k, serial + 1, IBV_WC_REM_ACCESS_ERR, 0, 64);
	CHECK(!is_done(&k) && qp->slow_open == 1 && k.mem[0] == 0);
	answer(&k, serial, IBV_WC_SUCCESS, 0, 64);
	kit_expect(k.scq, 2, IBV_WC_SUCCESS);
	CHECK(k.mem[0] == 0x77 && k.mem[63] == 0x77 && k.mem[64] == 0 && qp->slow_open == 0);
	answer(&k, serial, IBV_WC_REM_ACCESS_ERR, 0, 64);
	CHECK(!is_done(&k) && kit_state(k.qp) == IBV_QPS_RTS);
	close_asker(&k);
}

/* Beyond the end of the request, or longer than it is. */
static void bad_answer(int sock, uint64_t offset, uint32_t bytes, uint32_t status, enum ibv_wc_status expected)
{
	struct kit k;

	open_asker(&k, sock, 64);
	answer(&k, sv_qp_of(k.qp)->slow_serial, status, offset, bytes);
	kit_expect(k.scq, 2, expected);
	CHECK(k.mem[0] == 0 && k.mem[64] == 0 && k.mem[4096] == 0);
	CHECK(kit_state(k.qp) == IBV_QPS_ERR);
	close_asker(&k);
}

static void beyond(int sock)
{
	bad_answer(sock, 1, 64, 0, IBV_WC_BAD_RESP_ERR);
}

static void longer(int sock)
{
	bad_answer(sock, 0, 65, 0, IBV_WC_BAD_RESP_ERR);
}

static void refused(int sock)
{
	bad_answer(sock, 0, 64, IBV_WC_REM_ACCESS_ERR, IBV_WC_REM_ACCESS_ERR);
}

/* No answer in its time; one that comes then is too late. */
static void none(int sock)
{
	struct sv_qp *qp;
	uint64_t left;
	struct kit k;

	open_asker(&k, sock, 64);
	qp = sv_qp_of(k.qp);
	left = atomic_load(&qp->deadline_ns) - kit_now_ns();
	CHECK(left > 5000 * MS && left <= 10000 * MS);
	CHECK(!is_done(&k));
	atomic_store(&qp->deadline_ns, 1);
	kit_expect(k.scq, 2, IBV_WC_RETRY_EXC_ERR);
	CHECK(kit_state(k.qp) == IBV_QPS_ERR);
	close_asker(&k);
}

/* Through the other process too: applied, and nobody learns what was there. */
static void lost(int sock)
{
	struct kit k;

	kit_open(&k, &kit_defaults, sock);
	kit_connect(&k);
	CHECK(!kit_post_atomic(&k, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 0, 5, 0, 1));
	kit_expect(k.scq, 1, IBV_WC_SUCCESS);
	CHECK(!sv_fault_set("ack_lost=1000"));
	CHECK(!kit_post(&k, IBV_WR_RDMA_READ, 0, 8, 0, 2, S));
	kit_expect(k.scq, 2, IBV_WC_SUCCESS);
	CHECK(k.mem[0] == 5);
	CHECK(!kit_post_atomic(&k, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 0, 5, 0, 3));
	kit_expect(k.scq, 3, IBV_WC_RETRY_EXC_ERR);
	kit_say(sock, 1);
	kit_close(&k);
}

static void test_answers(void **state)
{
	(void)state;
	kit_run(late, target);
	kit_run(beyond, target);
	kit_run(longer, target);
	kit_run(refused, target);
	kit_run(none, target);
	kit_run(lost, target);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_peer),
		cmocka_unit_test(test_rnr),
		cmocka_unit_test(test_answers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
