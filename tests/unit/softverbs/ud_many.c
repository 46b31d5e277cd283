/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ud_many.c -- datagrams of many senders to one queue pair, receivers that are stopped, and senders
 * that die.
 *
 * SOFTVERBS_DATAGRAMS: how many the many send in all (20,000).
 */
#include "common/softverbs/base/proc.h"
#include "common/softverbs/peer/peer.h"
#include "tests/unit/softverbs/ud.h"

#define SENDERS 8u

/* ---- many senders ---- */

struct head {
	uint32_t sender, number, bytes;
};

static unsigned long datagrams(void)
{
	const char *text = getenv("SOFTVERBS_DATAGRAMS");

	return text ? strtoul(text, NULL, 10) : 20000;
}

static uint32_t length_of(uint32_t sender, uint32_t number)
{
	return (uint32_t)sizeof(struct head) + (number * 2654435761u + sender * 97) % 4080;
}

static uint8_t pattern(const struct head *h, uint32_t at)
{
	return (uint8_t)(h->sender * 31 + h->number + at * 7);
}

static void fill(uint8_t *to, uint32_t sender_id, uint32_t number)
{
	struct head h = { sender_id, number, length_of(sender_id, number) };

	memcpy(to, &h, sizeof(h));
	for (uint32_t i = sizeof(h); i < h.bytes; i++)
		to[i] = pattern(&h, i);
}

static void send_many(uint32_t id, uint32_t qpn, int done)
{
	uint32_t n = (uint32_t)(datagrams() / SENDERS);
	struct end e;

	CHECK(nice(10) >= 0); /* all of them together take as much of a processor as who receives */
	open_end(&e);
	for (uint32_t i = 0; i < n; i++) {
		if (i >= 32)
			kit_expect(e.scq, i % 32, IBV_WC_SUCCESS);
		fill(e.mem + i % 32 * SLOT_BYTES, id, i);
		CHECK(!try_send(&e, i % 32, length_of(id, i), qpn, QKEY, IBV_WR_SEND));
	}
	for (uint32_t i = n < 32 ? 0 : n - 32; i < n; i++)
		kit_expect(e.scq, i % 32, IBV_WC_SUCCESS);
	kit_say(done, n);
	close_end(&e);
}

/* Whole, and later than all that came from this sender. */
static void check_one(const struct end *e, const struct ibv_wc *wc, uint32_t *next)
{
	const uint8_t *data = e->mem + wc->wr_id * SLOT_BYTES + GRH;
	struct head h;

	CHECK(wc->status == IBV_WC_SUCCESS);
	memcpy(&h, data, sizeof(h));
	CHECK(h.sender < SENDERS && h.number >= next[h.sender]);
	CHECK(h.bytes == length_of(h.sender, h.number) && wc->byte_len == GRH + h.bytes);
	for (uint32_t i = sizeof(h); i < h.bytes; i++)
		CHECK(data[i] == pattern(&h, i));
	next[h.sender] = h.number + 1;
}

/* How many were sent in all, as far as senders have said. */
static uint64_t hear_done(int done, unsigned int *said)
{
	struct pollfd pfd = { .fd = done, .events = POLLIN };
	uint64_t sent = 0;

	while (poll(&pfd, 1, 0) == 1 && pfd.revents & POLLIN) {
		sent += kit_hear(done);
		++*said;
	}
	return sent;
}

static void receive_many(struct end *e, int done)
{
	uint64_t until = kit_now_ns() + LIMIT_NS + datagrams() * 100000ull;
	uint64_t sent = 0, got = 0;
	uint32_t next[SENDERS] = { 0 };
	unsigned int said = 0;
	struct ibv_wc wc;

	while (said < SENDERS || got + sv_dropped(e->qp) < sent) {
		CHECK(kit_now_ns() < until);
		if (ibv_poll_cq(e->rcq, 1, &wc) == 1) {
			check_one(e, &wc, next);
			post_recv(e, (uint32_t)wc.wr_id, SLOT_BYTES);
			got++;
		} else {
			sent += hear_done(done, &said);
		}
	}
	CHECK(got + sv_dropped(e->qp) == sent);
	CHECK(!sv_dropped(e->qp) || got > sent / 2);
	printf("%lu of %lu datagrams, the others dropped\n", (unsigned long)got, (unsigned long)sent);
}

static void test_many(void **state)
{
	int done[2], number[2];
	pid_t pids[SENDERS + 1];
	uint32_t qpn;

	(void)state;
	fflush(NULL);
	assert_int_equal(pipe(done), 0);
	assert_int_equal(pipe(number), 0);
	pids[SENDERS] = fork();
	if (!pids[SENDERS]) {
		struct end e;

		open_end(&e);
		for (uint32_t i = 0; i < SLOTS; i++)
			post_recv(&e, i, SLOT_BYTES);
		kit_say(number[1], e.qp->qp_num);
		receive_many(&e, done[0]);
		close_end(&e);
		exit(0);
	}
	qpn = (uint32_t)kit_hear(number[0]);
	for (uint32_t i = 0; i < SENDERS; i++) {
		pids[i] = fork();
		if (!pids[i]) {
			send_many(i, qpn, done[1]);
			exit(0);
		}
	}
	for (uint32_t i = 0; i <= SENDERS; i++)
		assert_int_equal(kit_status(pids[i]), 0);
	for (int i = 0; i < 2; i++) {
		close(done[i]);
		close(number[i]);
	}
}

/* ---- receivers that are stopped, senders that die ---- */

static void stopped(int sock)
{
	uint32_t got = 0;
	struct end e;

	open_end(&e);
	for (uint32_t i = 0; i < SLOTS; i++)
		post_recv(&e, i, SLOT_BYTES);
	kit_say(sock, e.qp->qp_num);
	kit_say(sock, (uint64_t)getpid());
	CHECK(kit_wait(e.rcq).status == IBV_WC_SUCCESS);
	raise(SIGSTOP);
	kit_hear(sock);
	/* Some 15 of 4,096 bytes are all that its memory holds while it takes none. */
	while (got + sv_dropped(e.qp) < 40) {
		CHECK(kit_wait(e.rcq).status == IBV_WC_SUCCESS);
		got++;
	}
	CHECK(got >= 10 && got <= 15);
	close_end(&e);
}

static void beside_stopped(int sock)
{
	uint32_t qpn = (uint32_t)kit_hear(sock);
	pid_t pid = (pid_t)kit_hear(sock);
	uint64_t begin = kit_now_ns();
	struct end e;

	open_end(&e);
	send_one(&e, 0, 8, qpn, QKEY);
	kit_wait_stopped(pid);
	for (uint32_t i = 0; i < 40; i++)
		send_one(&e, i, 4096, qpn, QKEY);
	/* It waited once, not for each of them. */
	CHECK(kit_now_ns() - begin < 20000000000ull);
	CHECK(!kill(pid, SIGCONT));
	kit_say(sock, 1);
	close_end(&e);
}

static void test_stopped(void **state)
{
	(void)state;
	kit_run(stopped, beside_stopped);
}

/* Sends until it is killed. */
static void send_forever(uint32_t qpn)
{
	struct end e;

	open_end(&e);
	for (uint32_t i = 0;; i++) {
		fill(e.mem, 0, 1);
		send_one(&e, 0, 4096, qpn, QKEY);
	}
}

static void survivor(int sock)
{
	uint64_t got = 0, victims = 0;
	struct ibv_wc wc;
	struct end e;

	open_end(&e);
	for (uint32_t i = 0; i < SLOTS; i++)
		post_recv(&e, i, SLOT_BYTES);
	kit_say(sock, e.qp->qp_num);
	/* Each victim dies when a hundred more have come. */
	while (victims < 10) {
		wc = kit_wait(e.rcq);
		CHECK(wc.status == IBV_WC_SUCCESS && wc.byte_len == SLOT_BYTES);
		post_recv(&e, (uint32_t)wc.wr_id, SLOT_BYTES);
		if (++got % 100 == 0)
			kit_say(sock, ++victims);
	}
	close_end(&e);
}

static void murderer(int sock)
{
	uint32_t qpn = (uint32_t)kit_hear(sock);

	for (uint64_t n = 1; n <= 10; n++) {
		pid_t pid = fork();

		if (!pid)
			send_forever(qpn);
		CHECK(kit_hear(sock) == n);
		CHECK(!kill(pid, SIGKILL) && waitpid(pid, NULL, 0) == pid);
	}
}

static void test_killed(void **state)
{
	(void)state;
	kit_run(survivor, murderer);
}

/* Takes all of the receiver's chunks, as a sender does before it fills them, and dies. */
static void die_midway(uint32_t qpn)
{
	struct sv_peer *peer;
	struct sv_pool *pool;
	struct end e;

	open_end(&e);
	send_one(&e, 0, 64, qpn, QKEY);
	CHECK((peer = sv_peer_get(sv_qpn_slot(qpn))) != NULL);
	CHECK((pool = (void *)sv_peer_wire(peer, sv_qpn_index(qpn))) != NULL);
	for (uint32_t i = 0; i < SV_CHUNKS; i++) {
		uint64_t none = 0;

		while (!atomic_compare_exchange_weak(&pool->owner[i], &none,
						     sv_proc->incarnation << 24 | e.qp->qp_num))
			none = 0;
	}
	raise(SIGKILL);
}

static void heir(int sock)
{
	struct end e;

	open_end(&e);
	for (uint32_t i = 0; i < SLOTS; i++)
		post_recv(&e, i, SLOT_BYTES);
	kit_say(sock, e.qp->qp_num);
	for (int i = 0; i < 21; i++)
		CHECK(kit_wait(e.rcq).status == IBV_WC_SUCCESS);
	CHECK(!sv_dropped(e.qp));
	close_end(&e);
}

static void beside_the_dead(int sock)
{
	uint32_t qpn = (uint32_t)kit_hear(sock);
	pid_t pid = fork();
	struct end e;
	int status;

	if (!pid)
		die_midway(qpn);
	CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	open_end(&e);
	for (uint32_t i = 0; i < 20; i++)
		send_one(&e, i, 4096, qpn, QKEY);
	close_end(&e);
}

static void test_killed_midway(void **state)
{
	(void)state;
	kit_run(heir, beside_the_dead);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_stopped),
		cmocka_unit_test(test_killed),
		cmocka_unit_test(test_killed_midway),
	};

	return cmocka_run_group_tests_name("ud_many", tests, NULL, NULL);
}
