/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * server/worker/obey.c: what other threads ask of a worker is done, for the connection that is meant and in
 * the state that it has by then.  The queue pair, the end of a connection and the locker are made up.
 */
#include "server/lock/locker.h"
#include "server/table/heap.h"
#include "server/worker/worker_impl.h"
#include "tests/unit/made_up.h"
#include "tests/unit/server/request_kit.h"

static struct ibv_qp qp;
static struct ibv_mr mr = { .lkey = 77 };
static unsigned posts, helds, trims;
static int post_error;
static struct ibv_send_wr posted; /* the last */
static struct wire_reply told;    /* by it */
static const char *why;           /* the connection ended */

static int post_send(struct ibv_qp *to, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	assert_ptr_equal(to, &qp);
	*bad = wr;
	for (; wr && !post_error; wr = wr->next, posts++) {
		posted = *wr;
		if (wr->opcode == IBV_WR_SEND)
			memcpy(&told, (const void *)(uintptr_t)wr->sg_list[0].addr, sizeof told);
	}
	return post_error;
}

static struct ibv_context context = { .ops = { .post_send = post_send } };

MADE_UP(void, conn_close, struct conn *c, const char *text)
{
	assert_ptr_equal(c, &conn);
	why = text;
}

MADE_UP(void, locker_held, struct locker *l, uint64_t connection, uint64_t look,
	const struct layout_held *held)
{
	assert_null(l);
	assert_true(connection == CONNECTION && look == 9);
	assert_non_null(held);
	helds++;
}

MADE_UP(void, heap_trim, struct heap *heap)
{
	assert_ptr_equal(heap, worker.store.heap);
	trims++;
}

/* The worker does it, and sends what it has to say; how much it sent. */
static unsigned obey(struct command command)
{
	unsigned had = posts;

	why = NULL;
	told = (struct wire_reply){ 0 };
	assert_true(commands_post(&worker.commands, &command));
	worker_take_commands(&worker);
	assert_null(commands_take(&worker.commands));
	reply_flush(&worker.tx);
	return posts - had;
}

static void expect_told(uint32_t request_id, unsigned op, unsigned status)
{
	assert_int_equal(told.request_id, request_id);
	assert_int_equal(told.op, op);
	assert_int_equal(told.status, status);
}

static const struct command answer = { .kind = CMD_ANSWER, .conn = &conn, .status = WIRE_CONDITION,
				       .request = { .request_id = 31, .op = WIRE_LOCK } };

static void test_answer(void **state)
{
	(void)state;
	conn.sendq.outstanding = 2;
	assert_int_equal(obey(answer), 1);
	expect_told(31, WIRE_LOCK, WIRE_CONDITION);
	assert_int_equal(conn.sendq.outstanding, 1);
	conn.state = CONN_CLOSING;
	assert_int_equal(obey(answer), 0);
	assert_null(why);
}

/* Replies of the same round have all buffers: they are sent first.  If others have them it ends. */
static void test_no_buffer(void **state)
{
	const struct wire_request ping = { .request_id = 1, .op = WIRE_PING };
	struct sendq other = { .conn = &conn };
	struct txbuf *all[256];
	unsigned n = 0;

	(void)state;
	while (worker.tx.free) {
		reply_send(&worker.tx, reply_new(&worker.tx, &conn.sendq, &ping, WIRE_OK), 0);
		n++;
	}
	conn.sendq.used = 0;
	conn.sendq.unsignaled = 0;
	posts = 0;
	/* Only those that are signalled are kept. */
	assert_int_equal(obey(answer), n + 1);
	expect_told(31, WIRE_LOCK, WIRE_CONDITION);
	assert_null(why);
	for (n = 0; worker.tx.free; n++)
		all[n] = tx_take(&worker.tx, &other);
	assert_int_equal(obey(answer), 0);
	assert_string_equal(why, "no buffer for the answer to a lock request");
	while (n)
		tx_release(&worker.tx, all[--n]);
	reply_forget(&worker.tx, &conn.sendq);
}

static void test_deny(void **state)
{
	const struct command deny = { .kind = CMD_DENY, .connection = conn.number };

	(void)state;
	conn.hello_id = 41;
	conn.denial = WIRE_EBUSY;
	assert_int_equal(obey(deny), 0); /* it was let in */
	conn.state = CONN_DENIED;
	assert_int_equal(obey((struct command){ .kind = CMD_DENY, .connection = conn.number + 1 }), 0);
	assert_int_equal(obey(deny), 1);
	expect_told(41, WIRE_HELLO, WIRE_EBUSY);
	conn.state = CONN_CLOSING;
	assert_int_equal(obey(deny), 0);
}

/* To who takes notices, has said a good hello and has room for one; it answers nothing. */
static void test_notice(void **state)
{
	const struct command notice = { .kind = CMD_NOTICE, .notice = WIRE_NOTICE_PORT_UP };

	(void)state;
	assert_int_equal(obey(notice), 0);
	conn.takes_notices = true;
	conn.state = CONN_NEW;
	assert_int_equal(obey(notice), 0);
	conn.state = CONN_READY;
	conn.sendq.outstanding = 3;
	assert_int_equal(obey(notice), 1);
	expect_told(WIRE_NOTICE_ID, 0, WIRE_NOTICE_PORT_UP);
	assert_int_equal(conn.sendq.outstanding, 3);
	conn.sendq.used = conn.sendq.slots;
	assert_int_equal(obey(notice), 0);
	assert_int_equal(conn.sendq.outstanding, 3);
	assert_null(why);
}

static void test_fence(void **state)
{
	const struct command its = { .kind = CMD_FENCE, .connection = CONNECTION, .secret = SECRET };
	const struct command anothers = { .kind = CMD_FENCE, .connection = CONNECTION, .secret = SECRET + 1 };
	const struct command lease = { .kind = CMD_FENCE, .connection = CONNECTION };

	(void)state;
	obey(its);
	assert_string_equal(why, "its client has another connection now");
	obey(anothers);
	assert_null(why);
	obey(lease);
	assert_string_equal(why, "it held a lock for longer than its lease");
	obey((struct command){ .kind = CMD_FENCE, .connection = CONNECTION + 1 });
	assert_null(why);
	conn.state = CONN_CLOSING;
	obey(lease);
	assert_null(why);
}

/* What a client says it holds is READ from where its hello said, one READ at a time. */
static void test_held(void **state)
{
	const struct command look = { .kind = CMD_READ_HELD, .connection = CONNECTION, .look = 9 };
	struct ibv_wc wc = { .status = IBV_WC_SUCCESS };

	(void)state;
	assert_int_equal(obey(look), 0); /* it told of no such memory */
	conn.held_rkey = 5;
	conn.held_addr = 4096;
	for (unsigned i = 0; i < 2; i++) {
		conn.sendq.unsignaled = 3;
		assert_int_equal(obey(look), 1);
		assert_int_equal(posted.opcode, IBV_WR_RDMA_READ);
		assert_true(posted.wr.rdma.remote_addr == 4096 && posted.wr.rdma.rkey == 5);
		assert_true(posted.send_flags & IBV_SEND_SIGNALED);
		assert_int_equal(wr_kind(posted.wr_id), WR_HELD);
		assert_int_equal(wr_count(posted.wr_id), 4); /* with the replies before it */
		assert_int_equal(conn.sendq.unsignaled, 0);
		assert_int_equal(conn.sendq.waited, 1);
		assert_int_equal(obey(look), 0); /* it is under way */
		worker_got_held(&worker, wr_ptr(posted.wr_id), &wc);
		assert_int_equal(conn.sendq.waited, 0);
		assert_int_equal(helds, 1); /* what was not READ is not told */
		wc.status = IBV_WC_WR_FLUSH_ERR;
	}
	post_error = ENOMEM;
	assert_int_equal(obey(look), 0);
	assert_false(conn.reads_held);
	assert_int_equal(conn.sendq.waited, 0);
}

static void test_trim(void **state)
{
	(void)state;
	obey(answer);
	assert_int_equal(trims, 0);
	worker.commands.trim = true;
	obey(answer);
	obey(answer);
	assert_int_equal(trims, 1);
}

static int begin(void **state)
{
	posts = helds = trims = 0;
	post_error = 0;
	qp = (struct ibv_qp){ .context = &context };
	if (request_kit_make(state))
		return -1;
	worker.tx.lkey = mr.lkey;
	conn.qp = conn.sendq.qp = &qp;
	conn.sendq.inline_bytes = 256;
	worker_adopt(&worker, &conn);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, request_kit_unmake)
		TEST(test_answer), TEST(test_no_buffer), TEST(test_deny), TEST(test_notice), TEST(test_fence),
		TEST(test_held), TEST(test_trim),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
