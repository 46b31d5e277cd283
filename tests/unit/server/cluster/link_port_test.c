/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * server/cluster/link/port.h and peer.h, completion by completion: what is posted, what ends a connection and
 * with which words, when there is room again, and when what ended is given back.  The device is made up.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "server/cluster/link/flow.h"
#include "server/cluster/link/impl.h"
#include "server/cluster/link/peer.h"
#include "server/cluster/link/port.h"

#define S 1000000000ull
#define ALL (LINK_PEERS_MAX + 1)
#define FLUSHED IBV_WC_WR_FLUSH_ERR

static struct link_peer peers[ALL];
static struct ibv_qp qps[ALL];
static uint8_t memory[LINK_BUFFERS * LINK_BYTES_MAX] __attribute__((aligned(8)));
static struct ibv_mr mr;
static struct link_port *port;
static struct link_door door;
static struct ibv_cq cq;
static struct ibv_wc there[8];
static unsigned there_count, receives, sends, qps_left, downs, rooms, heard, good, bad;
static int receive_error, send_error; /* of the next one */
static struct ibv_send_wr sent;       /* the last */
static char why[512];
static uint64_t now_ns;

/* --------------------------------------------------------------------- a device */

static int poll_cq(struct ibv_cq *of, int max, struct ibv_wc *wc)
{
	int n = (int)there_count;

	assert_true(of == &cq && n <= max);
	memcpy(wc, there, there_count * sizeof *wc);
	there_count = 0;
	return n;
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_one)
{
	(void)qp;
	*bad_one = wr;
	if (receive_error && receives == 1)
		return receive_error;
	receives++;
	return 0;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_one)
{
	(void)qp;
	*bad_one = wr;
	if (send_error)
		return send_error;
	sent = *wr;
	sends++;
	return 0;
}

static struct ibv_context context = { .ops = { .poll_cq = poll_cq, .post_recv = post_recv,
					       .post_send = post_send } };
static struct ibv_pd pd = { .context = &context };

static struct ibv_cq *create_cq(struct ibv_context *of, int places, void *arg,
				struct ibv_comp_channel *channel, int vector)
{
	(void)arg;
	(void)vector;
	errno = ENOMEM;
	/* One for whatever may be posted for each: those that find no place break them all. */
	assert_true(of == &context && places == (int)(LINK_PEERS_MAX * (LINK_RECEIVES + LINK_SEND_DEPTH)));
	return channel ? NULL : &cq;
}

static int destroy_cq(struct ibv_cq *of) { return of != &cq; }
static void ack_cq_events(struct ibv_cq *of, unsigned n) { assert_true(of == &cq && !n); }

static int modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	assert_int_equal(mask, IBV_QP_STATE);
	qp->state = attr->qp_state;
	return 0;
}

static int destroy_qp(struct ibv_qp *qp)
{
	assert_non_null(qp);
	qps_left--;
	return 0;
}

static const struct verbs verbs = { .create_cq = create_cq, .destroy_cq = destroy_cq,
				    .ack_cq_events = ack_cq_events, .modify_qp = modify_qp,
				    .destroy_qp = destroy_qp };
static const struct device device = { .verbs = &verbs };

/* ------------------------------------------------------------------------- kit */

static void is_down(void *arg, struct link_peer *p, const char *text)
{
	const char *at = strstr(text, "ended: ");

	assert_true(arg == &port && p && at);
	assert_int_equal(p->qp->state, IBV_QPS_ERR);
	snprintf(why, sizeof why, "%s", at + strlen("ended: "));
	downs++;
}

static void has_room(void *arg, struct link_peer *p)
{
	assert_true(arg == &port && p);
	rooms++;
}

static void is_said(void *arg, struct link_peer *p, struct link_reader *r)
{
	assert_true(arg == &port && p && r->header->kind == LINK_BEGUN);
	heard++;
}

static void is_read(void *arg, struct link_peer *p, uint64_t cookie, bool is_ok)
{
	assert_true(arg == &port && p && cookie == 42);
	*(is_ok ? &good : &bad) += 1;
}

static struct link_port_options options = { .verbs = &verbs, .pd = &pd, .name = "anna",
	.events = { .message = is_said, .read = is_read, .room = has_room, .down = is_down, .arg = &port } };

static void poll_at(uint64_t ns)
{
	now_ns = ns;
	link_port_poll(port, now_ns);
}

/* It comes to the port; up, or it proves itself yet. */
static struct link_peer *come(unsigned i, enum link_state state)
{
	struct link_peer *p = &peers[i];

	*p = (struct link_peer){ .port = port, .door = &door, .qp = &qps[i], .mr = &mr, .memory = memory };
	qps[i] = (struct ibv_qp){ .context = &context };
	qps_left++;
	link_port_adopt(port, p);
	poll_at(now_ns);
	if (p->state == LINK_PROVING)
		p->state = state;
	return p;
}

/* A completion, which the port sees as it is polled. */
static struct ibv_wc *add(const struct link_peer *p, enum link_wr kind, unsigned index,
			  enum ibv_wc_status status)
{
	struct ibv_wc *wc = &there[there_count++];

	*wc = (struct ibv_wc){ .wr_id = link_wr_id(p, kind, index), .status = status, .opcode = IBV_WC_RECV,
			       .wc_flags = IBV_WC_WITH_IMM, .imm_data = htonl(p->granted) };
	return wc;
}

static void end(struct link_peer *p, enum link_wr kind, unsigned index, enum ibv_wc_status status)
{
	add(p, kind, index, status);
	poll_at(now_ns);
}

/* An empty message that says so many were taken in all. */
static void grant(struct link_peer *p, uint32_t taken)
{
	add(p, LINK_WR_RECEIVE, 0, IBV_WC_SUCCESS)->imm_data = htonl(taken);
	poll_at(now_ns);
}

static void expect_down(const char *text)
{
	assert_int_equal(downs, 1);
	assert_string_equal(why, text);
	downs = 0;
}

static void send_some(struct link_peer *p, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		assert_non_null(link_peer_reserve(p));
		link_peer_send(p, sizeof(struct link_header));
	}
}

static bool read_one(struct link_peer *p)
{
	return link_peer_read(p, &(struct link_read){ .to = memory, .bytes = 8, .cookie = 42 });
}

/* ---------------------------------------------------------------------- who comes */

static void test_no_port(void **state)
{
	static struct ibv_comp_channel channel;
	struct link_port_options with = options;
	struct link_port *none = NULL;
	char text[128];
	struct err err;

	(void)state;
	with.channel = &channel;
	assert_int_equal(link_port_new(&with, &none, &err), -1);
	assert_null(none);
	snprintf(text, sizeof text, "can't create a completion queue of %u places for other members: %s",
		 LINK_PEERS_MAX * (LINK_RECEIVES + LINK_SEND_DEPTH), strerror(ENOMEM));
	assert_string_equal(err.text, text);
}

/* As many as a port has places for; one more is given back at once, and nothing is posted for it. */
static void test_one_too_many(void **state)
{
	struct link_peer *p;

	(void)state;
	for (unsigned i = 0; i < LINK_PEERS_MAX; i++)
		come(i, LINK_UP);
	assert_int_equal(receives, LINK_PEERS_MAX * LINK_RECEIVES);
	assert_null(door.ended);
	p = come(LINK_PEERS_MAX, LINK_UP);
	expect_down("this thread has 16 connections already");
	assert_ptr_equal(door.ended, p);
	assert_int_equal(port->count, LINK_PEERS_MAX);
	assert_int_equal(receives, LINK_PEERS_MAX * LINK_RECEIVES);
	assert_int_equal(sends, 0);
}

static void test_no_receive(void **state)
{
	struct link_peer *p;

	(void)state;
	receive_error = ENOMEM;
	p = come(0, LINK_UP);
	expect_down("a receive could not be posted: Cannot allocate memory");
	assert_int_equal(p->receives, 1);
	assert_null(door.ended); /* one is posted */
	end(p, LINK_WR_RECEIVE, 0, FLUSHED);
	assert_ptr_equal(door.ended, p);
	assert_int_equal(qps_left, 0);
	assert_int_equal(downs, 0);
}

/* Who has come, and was not looked at yet, keeps a port from being empty, and is ended with it. */
static void test_the_end_of_who_has_come(void **state)
{
	struct link_peer *p = &peers[0];

	(void)state;
	assert_true(link_port_is_empty(port));
	*p = (struct link_peer){ .port = port, .door = &door, .qp = &qps[0], .mr = &mr, .memory = memory };
	qps[0] = (struct ibv_qp){ .context = &context };
	qps_left++;
	link_port_adopt(port, p);
	assert_false(link_port_is_empty(port));
	link_port_end(port, "kvd stops");
	expect_down("kvd stops");
	assert_false(link_port_is_empty(port));
}

/* ---------------------------------------------------------------------- what comes */

static void test_what_no_member_sends(void **state)
{
	static const char text[] = "it sent what no member sends: without a count of messages";
	const struct link_header answer = { .kind = LINK_ANSWER }, begun = { .kind = LINK_BEGUN };
	struct link_peer *p = come(0, LINK_UP);

	(void)state;
	memcpy(memory, &begun, sizeof begun);
	add(p, LINK_WR_RECEIVE, 0, IBV_WC_SUCCESS)->byte_len = sizeof begun;
	poll_at(now_ns);
	assert_int_equal(heard, 1);
	assert_int_equal(p->receives, LINK_RECEIVES); /* its receive is posted again */
	add(p, LINK_WR_RECEIVE, 0, IBV_WC_SUCCESS)->wc_flags = 0;
	poll_at(now_ns);
	expect_down(text);
	p = come(1, LINK_UP);
	add(p, LINK_WR_RECEIVE, 0, IBV_WC_SUCCESS)->opcode = IBV_WC_RECV_RDMA_WITH_IMM;
	poll_at(now_ns);
	expect_down(text);
	p = come(2, LINK_UP);
	memcpy(memory, &answer, sizeof answer);
	add(p, LINK_WR_RECEIVE, 0, IBV_WC_SUCCESS)->byte_len = sizeof answer;
	poll_at(now_ns);
	expect_down("it said hello again");
	assert_int_equal(p->receives, LINK_RECEIVES - 1); /* nothing is posted for what ends */
	assert_int_equal(heard, 1);
}

static void test_why_it_broke(void **state)
{
	static const char key[] = "it ended it before it had proved who it is: do both have the same "
				  "--cluster-key?";
	static const char failed[] = "its queue pair failed";
	static const struct {
		enum link_state state;
		bool is_asker, is_gone;
		const char *why;
	} all[] = {
		{ LINK_PROVING, true, true, key }, { LINK_PROVING, false, false, failed },
		{ LINK_UP, true, false, failed },
		{ LINK_UP, false, true, "it ended it, or its process is gone" },
	};

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		struct link_peer *p = come(i, all[i].state);
		p->is_asker = all[i].is_asker;
		p->is_gone = all[i].is_gone;
		end(p, LINK_WR_RECEIVE, 0, FLUSHED);
		expect_down(all[i].why);
	}
	end(come(4, LINK_UP), LINK_WR_RECEIVE, 0, IBV_WC_RETRY_EXC_ERR);
	expect_down(ibv_wc_status_str(IBV_WC_RETRY_EXC_ERR));
}

/* -------------------------------------------------------------------- what is sent */

/* What is taken is told of by an empty message for each half of the credits, as far as one may be posted. */
static void test_empty_ones(void **state)
{
	struct link_peer *p = come(0, LINK_UP);

	(void)state;
	for (unsigned i = 0; i < LINK_EMPTY_POSTED; i++) {
		p->taken += LINK_CREDITS / 2 - 1;
		poll_at(now_ns);
		assert_int_equal(sends, i);
		p->taken++;
		poll_at(now_ns);
		assert_int_equal(sends, i + 1);
		assert_int_equal(ntohl(sent.imm_data), p->taken);
		assert_true(sent.send_flags & IBV_SEND_SIGNALED && !sent.num_sge);
	}
	p->taken += LINK_CREDITS;
	poll_at(now_ns);
	assert_int_equal(sends, LINK_EMPTY_POSTED); /* the queue has no place for more */
	end(p, LINK_WR_EMPTY, 0, IBV_WC_SUCCESS);
	assert_int_equal(sends, LINK_EMPTY_POSTED + 1);
	end(p, LINK_WR_EMPTY, 0, IBV_WC_SUCCESS);
	p->taken += LINK_CREDITS;
	p->sent = p->granted + LINK_RECEIVES; /* the other end has no receive for it */
	poll_at(now_ns);
	assert_int_equal(sends, LINK_EMPTY_POSTED + 1);
	assert_int_equal(downs, 0);
}

/* Who found no room is told once there is a half of it: of messages, and of READs. */
static void test_room(void **state)
{
	struct link_peer *p = come(0, LINK_UP);

	(void)state;
	send_some(p, LINK_SENDS);
	assert_null(link_peer_reserve(p));
	end(p, LINK_WR_SEND, LINK_SIGNAL_EACH, IBV_WC_SUCCESS);
	assert_int_equal(rooms, 0);
	end(p, LINK_WR_SEND, LINK_SENDS / 2, IBV_WC_SUCCESS);
	assert_int_equal(rooms, 1);
	end(p, LINK_WR_SEND, LINK_SENDS - LINK_SIGNAL_EACH, IBV_WC_SUCCESS);
	end(p, LINK_WR_SEND, LINK_SENDS, IBV_WC_SUCCESS);
	assert_int_equal(rooms, 1); /* nobody found none since */
	for (unsigned i = 0; i < LINK_READS; i++)
		assert_true(read_one(p));
	assert_false(read_one(p));
	for (unsigned i = 0; i < LINK_READS / 2; i++) {
		assert_int_equal(rooms, 1);
		end(p, LINK_WR_READ, i, IBV_WC_SUCCESS);
	}
	assert_int_equal(rooms, 2);
	assert_int_equal(good, LINK_READS / 2);
	port->options.events.room = NULL; /* nobody wants to know */
	port->options.events.read = NULL;
	p->is_crowded = true;
	end(p, LINK_WR_READ, LINK_READS / 2, IBV_WC_SUCCESS);
	assert_int_equal(p->reads, LINK_READS / 2 - 1);
	assert_false(p->is_crowded);
	assert_int_equal(downs, 0);
}

static void test_not_posted(void **state)
{
	struct link_peer *p = come(0, LINK_UP);

	(void)state;
	send_error = ENOMEM;
	send_some(p, 1);
	expect_down("a message could not be posted: Cannot allocate memory");
	assert_null(link_peer_reserve(p)); /* it is over */
	link_peer_send(p, 8);
	assert_int_equal(p->queued, 1);
	p = come(1, LINK_UP);
	assert_false(read_one(p));
	expect_down("a READ could not be posted: Cannot allocate memory");
	assert_true(!p->reads && !p->reading);
	send_error = 0;
	assert_false(read_one(p));
	assert_int_equal(sends, 0);
}

/* -------------------------------------------------------------------------- limits */

static void test_proves_nothing(void **state)
{
	(void)state;
	come(0, LINK_PROVING);
	poll_at(now_ns + LINK_PROVE_NS - 1);
	assert_int_equal(downs, 0);
	poll_at(now_ns + 1);
	expect_down("it has not proved who it is within 1000 ms");
}

/* From then on it is given up if nothing that was sent is taken, to the nanosecond. */
static void expect_stall(void)
{
	poll_at(now_ns + LINK_STALL_NS - 1);
	assert_int_equal(downs, 0);
	poll_at(now_ns + 1);
	expect_down("it has taken nothing for 2000 ms: it is frozen, or can't be reached");
}

static void test_stalled(void **state)
{
	struct link_peer *p = come(0, LINK_UP);

	(void)state;
	poll_at(now_ns + 9 * S); /* nothing is awaited: that is no time of its */
	send_some(p, LINK_SIGNAL_EACH);
	poll_at(now_ns + S);
	grant(p, LINK_SIGNAL_EACH); /* taken, but its completion does not come */
	expect_stall();
	p = come(1, LINK_UP);
	poll_at(now_ns + 9 * S);
	assert_true(read_one(p) && read_one(p));
	poll_at(now_ns + S);
	end(p, LINK_WR_READ, 0, IBV_WC_SUCCESS); /* the time begins anew */
	expect_stall();
	p = come(2, LINK_UP);
	send_some(p, LINK_CREDITS);
	poll_at(now_ns + S);
	end(p, LINK_WR_SEND, LINK_SIGNAL_EACH, IBV_WC_SUCCESS);
	expect_stall();
}

/* Who speaks and takes nothing is frozen nevertheless: what it says again moves nothing. */
static void test_says_the_same(void **state)
{
	struct link_peer *p = come(0, LINK_UP);

	(void)state;
	send_some(p, LINK_CREDITS);
	grant(p, 3);
	poll_at(now_ns + LINK_STALL_NS - 1);
	grant(p, 3);
	assert_int_equal(downs, 0);
	poll_at(now_ns + 1);
	expect_down("it has taken nothing for 2000 ms: it is frozen, or can't be reached");
}

/* --------------------------------------------------------------------- who goes */

/* A device that flushes nothing: all is given back after a time that begins as it ends. */
static void test_not_flushed(void **state)
{
	struct link_peer *p = come(0, LINK_UP);

	(void)state;
	assert_true(read_one(p) && read_one(p));
	poll_at(now_ns + S);
	link_peer_close(p, "enough");
	link_peer_close(p, "more than that");
	expect_down("enough");
	assert_int_equal(sends, 2); /* no message was posted that an empty one would be behind */
	poll_at(now_ns + LINK_DRAIN_NS - 1);
	assert_null(door.ended);
	poll_at(now_ns + 1);
	assert_ptr_equal(door.ended, p);
	assert_int_equal(bad, 2);
	assert_int_equal(qps_left, 0);
	assert_true(link_port_is_empty(port));
}

/* Several that end at once; a message that is not signalled is flushed before the empty one behind it. */
static void test_all_flushed(void **state)
{
	struct link_peer *p = come(0, LINK_UP), *other = come(1, LINK_UP), *last = come(2, LINK_UP);

	(void)state;
	send_some(p, 1);
	link_port_end(port, "kvd stops");
	assert_int_equal(downs, 3);
	assert_int_equal(sends, 2);
	assert_int_equal(sent.wr_id, link_wr_id(p, LINK_WR_EMPTY, 1));
	assert_true(sent.send_flags & IBV_SEND_SIGNALED);
	other->receives = last->receives = p->receives = 0;
	poll_at(now_ns);
	assert_int_equal(port->count, 1);
	assert_ptr_equal(port->peers[0], p);
	end(p, LINK_WR_EMPTY, 1, FLUSHED);
	assert_int_equal(port->count, 0);
	assert_int_equal(qps_left, 0);
	assert_int_equal(downs, 3);
}

static int set_up(void **state)
{
	struct err err;

	(void)state;
	there_count = receives = sends = qps_left = downs = rooms = heard = good = bad = 0;
	receive_error = send_error = 0;
	now_ns = S;
	cq = (struct ibv_cq){ .context = &context };
	door = (struct link_door){ .options = { .device = &device } };
	pthread_mutex_init(&door.lock, NULL);
	return link_port_new(&options, &port, &err);
}

static int tear_down(void **state)
{
	(void)state;
	link_port_delete(&port);
	return pthread_mutex_destroy(&door.lock);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
		TEST(test_no_port), TEST(test_one_too_many), TEST(test_no_receive),
		TEST(test_the_end_of_who_has_come), TEST(test_what_no_member_sends), TEST(test_why_it_broke),
		TEST(test_empty_ones), TEST(test_room), TEST(test_not_posted), TEST(test_proves_nothing),
		TEST(test_stalled), TEST(test_says_the_same), TEST(test_not_flushed), TEST(test_all_flushed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
