/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How a worker's connection ends where its completion queue is never empty, and on devices
 * that tell less than they should; what a connection may have of its worker's buffers and pulls.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/clock.h"
#include "common/hash.h"
#include "common/log.h"
#include "server/worker/conn.h"
#include "server/worker/conn_impl.h"
#include "server/worker/context.h"
#include "server/worker/fate.h"
#include "server/worker/news.h"
#include "server/worker/worker.h"
#include "server/worker/worker_impl.h"
#include "tests/lib/fixture.h"

#define TXS 512u
#define CQ_ENTRIES 100
#define SECOND 1000000000ull

static struct fixture fixture;
static struct server server;
static struct worker worker;
static struct ibv_cq cq = { .cqe = CQ_ENTRIES };
static struct ibv_qp qp;
static struct conn conn;
static uint8_t *memory;
static struct ibv_send_wr posted; /* the last */
static unsigned posts, done;
static bool refuses;

static int post_send(struct ibv_qp *to, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	assert_ptr_equal(to, &qp);
	*bad = wr;
	if (refuses && to->state == IBV_QPS_ERR)
		return EINVAL;
	for (; wr; wr = wr->next, posts++) {
		posted = *wr;
		if (wr->opcode == IBV_WR_RDMA_READ)
			memset((void *)(uintptr_t)wr->sg_list[0].addr, 'v', wr->sg_list[0].length);
	}
	return 0;
}

static struct ibv_context context = { .ops = { .post_send = post_send } };

static int modify_qp(struct ibv_qp *to, struct ibv_qp_attr *attr, int mask)
{
	if (mask & IBV_QP_STATE)
		to->state = attr->qp_state;
	return 0;
}

static const struct verbs verbs_none = { .name = "none", .soft = true, .modify_qp = modify_qp };

static void count_done(struct conn *c)
{
	assert_ptr_equal(c, &conn);
	done++;
}

static int begin(void **state)
{
	const struct request_parts parts = { .server = &server, .rail = &server.rails[0], .store = &worker.store,
					  .tx = &worker.tx, .owed = &worker.owed,
					  .timings = &worker.timings, .stats = &worker.stats };

	(void)state;
	log_open("test", LOG_LEVEL_ERROR);
	fixture_new(&fixture, 16 << 20, 1);
	memset(&server, 0, sizeof server);
	server.verbs = &verbs_none;
	server.hooks.done = count_done;
	server.rails[0].limits.message_bytes_max = 1 << 20;
	server.table = fixture.table;
	server.store = fixture.store;
	memset(&worker, 0, sizeof worker);
	worker.server = &server;
	worker.tx.store = fixture.store;
	worker.tx.stats = &worker.stats;
	worker.store = fixture.worker[0];
	worker.queues.cq = &cq;
	memory = malloc(TXS * WIRE_MESSAGE_BYTES_MAX);
	assert_non_null(memory);
	assert_int_equal(tx_init(&worker.tx, TXS, memory, WIRE_MESSAGE_BYTES_MAX), 0);
	assert_int_equal(pulls_init(&worker.pulls, &parts), 0);
	assert_int_equal(deferred_init(&worker.deferred, 8), 0);
	qp = (struct ibv_qp){ .context = &context, .state = IBV_QPS_RTS, .qp_num = 7 };
	conn = (struct conn){ .server = &server, .set = &worker.conns, .qp = &qp, .qp_num = 7,
			      .credits = 32, .connection_id = 1, .state = CONN_READY,
			      .sendq = { .conn = &conn, .qp = &qp, .peer = "peer", .inline_bytes = 256,
					 .has_inline = true, .slots = sendq_slots(32) } };
	conn.sendq.fate = fate_ring_new(1, conn.credits);
	worker.tx.news = news_new();
	assert_true(conn.sendq.fate && worker.tx.news);
	worker_adopt(&worker, &conn);
	posts = done = 0;
	refuses = false;
	return 0;
}

static int end(void **state)
{
	(void)state;
	fate_ring_delete(&conn.sendq.fate);
	news_delete(&worker.tx.news);
	tx_fini(&worker.tx);
	pulls_fini(&worker.pulls);
	deferred_fini(&worker.deferred);
	free(memory);
	fixture.worker[0] = worker.store;
	fixture_delete(&fixture);
	return 0;
}

static const struct wire_request page = { .request_id = 1, .op = WIRE_KEYS };

/* A reply that stays in its buffer. */
static void reply_long(void)
{
	conn.sendq.outstanding++;
	reply_send(&worker.tx, reply_new(&worker.tx, &conn.sendq, &page, WIRE_OK), 4000);
	reply_flush(&worker.tx);
}

/* What others' completions are to the worker: its queue is not empty. */
static struct conn *look(void)
{
	worker.polled++;
	return drain_collect(&worker, false);
}

static void complete(uint64_t wr_id)
{
	if (wr_kind(wr_id) == WR_MARKER)
		drain_marked(wr_ptr(wr_id));
	else
		reply_completed(&worker.tx, wr_ptr(wr_id));
}

static void test_marker(void **state)
{
	(void)state;
	reply_long();
	uint64_t reply = posted.wr_id;
	conn_close(&conn, "the test");
	assert_int_equal(qp.state, IBV_QPS_ERR);
	for (unsigned i = 0; i < 10 * CQ_ENTRIES; i++)
		assert_null(look());
	assert_int_equal(posts, 1); /* the device may take receives for it still */
	atomic_store(&conn.last_wqe, true);
	assert_null(look());
	assert_int_equal(posts, 2);
	assert_int_equal(wr_kind(posted.wr_id), WR_MARKER);
	assert_true(posted.send_flags & IBV_SEND_SIGNALED);
	uint64_t marker = posted.wr_id;
	for (unsigned i = 0; i < 10 * CQ_ENTRIES; i++)
		assert_null(look());
	complete(reply);
	assert_null(look());
	complete(marker);
	assert_ptr_equal(look(), &conn);
	assert_null(worker.conns.closing);
	assert_int_equal(worker.tx.free_count, TXS);
	drain_bury(&worker, &conn);
	assert_int_equal(done, 1);
	assert_null(worker_find(&worker, 7));
}

/* Its changes are through before somebody gets its locks. */
static void test_commits(void **state)
{
	(void)state;
	conn.sendq.commits = 1;
	conn_close(&conn, "the test");
	atomic_store(&conn.last_wqe, true);
	assert_null(look());
	complete(posted.wr_id);
	assert_null(look());
	conn.sendq.commits = 0;
	assert_ptr_equal(look(), &conn);
}

static void test_no_last_wqe(void **state)
{
	(void)state;
	conn_close(&conn, "the test");
	assert_null(look());
	assert_int_equal(posts, 0);
	conn.close_ns -= SECOND + 1;
	assert_null(look());
	assert_int_equal(posts, 1);
	complete(posted.wr_id);
	assert_ptr_equal(look(), &conn);
}

/* A device that takes no work request in error: as many completions as it can have. */
static void test_no_marker(void **state)
{
	(void)state;
	refuses = true;
	reply_long();
	uint64_t reply = posted.wr_id;
	conn_close(&conn, "the test");
	atomic_store(&conn.last_wqe, true);
	for (unsigned i = 0; i < 2 * CQ_ENTRIES; i++)
		assert_null(look()); /* the reply is still under way */
	complete(reply);
	assert_ptr_equal(look(), &conn);
}

static void test_no_marker_but_idle(void **state)
{
	(void)state;
	refuses = true;
	conn_close(&conn, "the test");
	atomic_store(&conn.last_wqe, true);
	assert_null(look());
	assert_null(look());
	assert_ptr_equal(drain_collect(&worker, true), &conn);
}

/* Nothing completes: its buffers are free only once its queue pair is gone. */
static void test_given_up(void **state)
{
	(void)state;
	reply_long();
	conn_close(&conn, "the test");
	atomic_store(&conn.last_wqe, true);
	assert_null(look());
	conn.close_ns -= 2 * SECOND + 1;
	assert_null(look());
	assert_int_equal(done, 1);
	assert_true(conn.is_given_up);
	assert_int_equal(worker.tx.free_count, TXS - 1);
	assert_null(worker_find(&worker, 7)); /* another may have the number soon */
	for (unsigned i = 0; i < 10; i++)
		assert_null(drain_collect(&worker, true));
	assert_int_equal(done, 1);
	atomic_store(&conn.is_cut_off, true);
	assert_ptr_equal(look(), &conn);
	assert_int_equal(worker.tx.free_count, TXS);
	assert_int_equal(conn.sendq.held, 0);
	drain_bury(&worker, &conn);
	assert_int_equal(done, 2);
	assert_null(worker.conns.first);
}

static bool may(bool is_long)
{
	conn.sendq.outstanding++;
	bool yes = reply_may(&worker.tx, &conn.sendq, is_long);
	conn.sendq.outstanding--;
	return yes;
}

/* Whoever takes no reply has an eighth of what is left, and others their answers. */
static void test_share(void **state)
{
	struct sendq other = { .slots = sendq_slots(32), .has_inline = true, .outstanding = 1 };
	unsigned n = 0;

	(void)state;
	conn.sendq.slots = 1000;
	for (; may(true); n++)
		reply_long();
	assert_in_range(n, TXS / 16, TXS / 8);
	assert_true(may(false));
	assert_true(reply_may(&worker.tx, &other, true));
	assert_true(conn.sendq.held == n && conn.sendq.waited == n);
}

/* A request is begun only with a place for its reply, however many it has posted. */
static void test_places(void **state)
{
	unsigned n = 0;

	(void)state;
	for (; may(false); n++) {
		conn.sendq.outstanding++;
		reply_answer(&worker.tx, &conn.sendq, &page, WIRE_OK);
		reply_flush(&worker.tx);
	}
	assert_int_equal(n, sendq_slots(32));
	assert_int_equal(posts, n);
	/* What it may post all in all has a completion each. */
	assert_int_equal(sendq_depth(32), n + SENDQ_PULL_READS + SENDQ_HELD_READS + SENDQ_MARKERS);
	conn.sendq.used -= 16;
	assert_true(may(false));
	conn.sendq.outstanding = 16; /* under way, as those that wait for the disk */
	assert_false(may(false));
	conn.sendq.aside = 1;
	assert_true(may(false));
}

#define LONG_BYTES 20000u

static enum request_fate pull(struct sendq *to)
{
	static uint8_t value[LONG_BYTES];
	const struct wire_segment segment = { .bytes = LONG_BYTES };
	struct wire_request q = { .request_id = 1, .op = WIRE_PUT, .flags = WIRE_PULL,
				  .key_bytes = 1, .value_bytes = LONG_BYTES, .segments = 1 };
	struct hash_stream hash;

	memset(value, 'v', sizeof value);
	hash_bytes_begin(&hash);
	hash_add(&hash, value, sizeof value);
	q.value_checksum = hash_bytes_end(&hash);
	to->outstanding++;
	return pull_start(&worker.pulls, to, &q, (const uint8_t *)"k", &segment);
}

/* One connection's pulls leave some to others, and READs of them places to its replies. */
static void test_pull_share(void **state)
{
	struct sendq other = { .conn = &conn, .qp = &qp, .peer = "another" };
	unsigned n = 0;

	(void)state;
	while (n <= PULLS && pull(&conn.sendq) == REQUEST_DONE)
		n++;
	assert_int_equal(n, PULLS / 2);
	assert_int_equal(posts, SENDQ_PULL_READS);
	assert_int_equal(pull(&other), REQUEST_DONE);
	pulls_forget(&worker.pulls, &other);
	pulls_forget(&worker.pulls, &conn.sendq);
	assert_int_equal(worker.pulls.free_count, PULLS);
}

/* What a lock keeps waiting is told so after 2 s. */
static void test_pull_wait(void **state)
{
	struct hash hash = hash_key(fixture.table->hash_seed, "k", 1);
	struct ibv_wc wc = { .status = IBV_WC_SUCCESS };
	uint64_t begin_ns = clock_ns();

	(void)state;
	fixture.table->locks[layout_stripe(hash.b, fixture.table->stripes)] = 1 << 20;
	assert_int_equal(pull(&conn.sendq), REQUEST_DONE);
	pull_completed(&worker.pulls, wr_ptr(posted.wr_id), &wc);
	assert_int_equal(conn.sendq.waited, 0);
	assert_null(conn.sendq.chain);
	while (conn.sendq.pulls && clock_ns() - begin_ns < 10 * SECOND)
		pulls_retry(&worker.pulls);
	assert_int_equal(conn.sendq.pulls, 0);
	assert_true(clock_ns() - begin_ns >= 2 * SECOND);
	assert_int_equal(reply_head(conn.sendq.chain)->status, WIRE_EBUSY);
	reply_flush(&worker.tx);
}

/* A member that was deposed while it READ the value, and is primary again, does not store it. */
static void test_pull_of_another_reign(void **state)
{
	static struct membership membership;
	struct ibv_wc wc = { .status = IBV_WC_SUCCESS };

	(void)state;
	server.membership = &membership;
	conn.sendq.reign = 3;
	for (uint64_t reign = 3; reign <= 5; reign += 2) {
		membership.reign = 3;
		assert_int_equal(pull(&conn.sendq), REQUEST_DONE);
		membership.reign = reign;
		pull_completed(&worker.pulls, wr_ptr(posted.wr_id), &wc);
		assert_int_equal(conn.sendq.pulls, 0);
		assert_int_equal(reply_head(conn.sendq.chain)->status,
				 reign == 3 ? WIRE_OK : WIRE_EELSEWHERE);
		reply_flush(&worker.tx);
	}
	assert_int_equal(worker.pulls.free_count, PULLS);
}

/* A connection is of one reign, and ends with it; who asked for nothing yet is of none. */
static void test_end_of_a_reign(void **state)
{
	static struct membership membership = { .reign = 3 };

	(void)state;
	server.membership = &membership;
	worker_close_former(&worker);
	membership.reign = 0;
	worker_close_former(&worker);
	assert_int_equal(qp.state, IBV_QPS_RTS);
	conn.sendq.reign = 3;
	membership.reign = 3;
	worker_close_former(&worker);
	assert_int_equal(qp.state, IBV_QPS_RTS);
	membership.reign = 5;
	worker_close_former(&worker);
	assert_int_equal(qp.state, IBV_QPS_ERR);
}

static int poll_nothing(struct ibv_cq *of, int max, struct ibv_wc *wc)
{
	(void)of, (void)max, (void)wc;
	return 0;
}

static int notify(struct ibv_cq *of, int solicited)
{
	(void)of, (void)solicited;
	return 0;
}

/* A device that is gone has its channel say so for ever; the worker rests all the same. */
static void test_gone(void **state)
{
	struct ibv_comp_channel channel;
	int ends[2];
	struct err err;

	(void)state;
	assert_int_equal(pipe(ends), 0);
	close(ends[0]);
	channel.fd = ends[1]; /* an error, and nothing to read */
	context.ops.poll_cq = poll_nothing;
	context.ops.req_notify_cq = notify;
	cq.context = &context;
	worker.queues.channel = &channel;
	spin_init(&worker.spin);
	worker.committed_end = &worker.committed;
	assert_int_equal(commands_init(&worker.commands), 0);
	assert_int_equal(worker_start(&worker, &err), 0);
	uint64_t until_ns = clock_ns() + 10 * SECOND, beats, since_ns;
	do { /* a second in which it was about as often awake as it has reasons to be */
		beats = atomic_load(&worker.beat);
		since_ns = clock_ns();
		usleep(500000);
		beats = atomic_load(&worker.beat) - beats;
	} while (beats > 1000 && clock_ns() < until_ns);
	assert_true(beats <= 1000);
	assert_true(clock_ns() - since_ns >= SECOND / 2);
	worker_stop(&worker);
	commands_fini(&worker.commands);
	close(ends[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_marker, begin, end),
		cmocka_unit_test_setup_teardown(test_commits, begin, end),
		cmocka_unit_test_setup_teardown(test_no_last_wqe, begin, end),
		cmocka_unit_test_setup_teardown(test_no_marker, begin, end),
		cmocka_unit_test_setup_teardown(test_no_marker_but_idle, begin, end),
		cmocka_unit_test_setup_teardown(test_given_up, begin, end),
		cmocka_unit_test_setup_teardown(test_share, begin, end),
		cmocka_unit_test_setup_teardown(test_places, begin, end),
		cmocka_unit_test_setup_teardown(test_pull_share, begin, end),
		cmocka_unit_test_setup_teardown(test_pull_wait, begin, end),
		cmocka_unit_test_setup_teardown(test_pull_of_another_reign, begin, end),
		cmocka_unit_test_setup_teardown(test_end_of_a_reign, begin, end),
		cmocka_unit_test_setup_teardown(test_gone, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
