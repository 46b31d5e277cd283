/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * server/worker/recv.c: which requests are executed, set aside, tried again and given up, and that each
 * buffer comes back once.  What a request does, and the end of a connection, are made up.
 */
#include <stdio.h>
#include <time.h>

#include "tests/unit/made_up.h"
#include "tests/unit/server/request_kit.h"

#define S 1000000000ull
#define QPN 7u
#define ASIDE_MAX 8u

static uint32_t free_buffers[64];
static uint8_t messages[64 * BUFFER_STRIDE_BYTES] __attribute__((aligned(64)));
static enum request_fate fate; /* of what is executed */
static bool may_be_busy;
static unsigned handled, busy;
static const char *why, *wrong;
static uint64_t now_ns;

MADE_UP(int, clock_gettime, clockid_t clock, struct timespec *time)
{
	(void)clock;
	*time = (struct timespec){ (time_t)(now_ns / S), (long)(now_ns % S) };
	return 0;
}

MADE_UP(enum request_fate, request_handle, struct worker *w, struct conn *c, const uint8_t *message,
	uint32_t bytes, const struct hash *hash)
{
	assert_true(w == &worker && c == &conn && message > messages && bytes == 99 && !hash);
	handled++;
	return fate;
}

MADE_UP(bool, request_answer_busy, struct worker *w, struct conn *c, const uint8_t *message)
{
	assert_true(w == &worker && c == &conn && message > messages);
	busy += may_be_busy;
	return may_be_busy;
}

MADE_UP(void, conn_close, struct conn *c, const char *text)
{
	assert_ptr_equal(c, &conn);
	why = text;
}

MADE_UP(void, conn_close_malformed, struct conn *c, const char *text)
{
	assert_ptr_equal(c, &conn);
	wrong = text;
}

/* A completion of that buffer. */
static void come(uint32_t buffer, enum ibv_wc_status status)
{
	const struct ibv_wc wc = { .wr_id = buffer, .qp_num = QPN, .status = status, .byte_len = 99 };
	uint32_t had = worker.rx.posted;

	handled = 0;
	why = wrong = NULL;
	intake_received(&worker, &wc, NULL);
	assert_int_equal(worker.rx.posted, had - 1);
}

/* So many buffers came back, that one last. */
static void expect_back(unsigned count, uint32_t buffer)
{
	assert_int_equal(worker.rx.free_count, count);
	assert_int_equal(free_buffers[count - 1], buffer);
}

static void retry(uint64_t ns)
{
	now_ns = ns;
	handled = busy = 0;
	intake_retry(&worker);
}

static void test_whose(void **state)
{
	(void)state;
	come(1, IBV_WC_SUCCESS); /* nobody's any more */
	assert_int_equal(handled, 0);
	expect_back(1, 1);
	/* It was handed over, and the worker has not looked yet. */
	assert_true(commands_post(&worker.commands, &(struct command){ .kind = CMD_ADOPT, .conn = &conn }));
	come(2, IBV_WC_SUCCESS);
	assert_int_equal(handled, 1);
	expect_back(2, 2);
	come(3, IBV_WC_WR_FLUSH_ERR);
	assert_true(!handled && !why);
	come(4, IBV_WC_LOC_LEN_ERR);
	assert_string_equal(why, ibv_wc_status_str(IBV_WC_LOC_LEN_ERR));
	assert_int_equal(handled, 0);
	conn.state = CONN_CLOSING;
	come(5, IBV_WC_SUCCESS);
	assert_true(!handled && !why && !wrong);
	expect_back(5, 5);
}

static void test_credits(void **state)
{
	(void)state;
	worker_adopt(&worker, &conn);
	conn.sendq.outstanding = CREDITS - 1;
	come(1, IBV_WC_SUCCESS);
	assert_true(handled == 1 && !wrong);
	come(2, IBV_WC_SUCCESS);
	assert_int_equal(handled, 0);
	assert_string_equal(wrong, "more requests than its credits");
	expect_back(2, 2);
}

/* As many of one connection as it leaves to others; then it is told so, or, if it takes no answer, ended. */
static void test_aside(void **state)
{
	(void)state;
	worker_adopt(&worker, &conn);
	fate = REQUEST_ASIDE;
	for (unsigned i = 1; i <= ASIDE_MAX / 2; i++) {
		come(i, IBV_WC_SUCCESS);
		assert_true(conn.sendq.aside == i && worker.deferred.count == i);
		assert_int_equal(worker.rx.free_count, 0);
	}
	busy = 0;
	come(9, IBV_WC_SUCCESS);
	assert_true(busy == 1 && !why && conn.sendq.aside == ASIDE_MAX / 2);
	expect_back(1, 9);
	may_be_busy = false;
	come(10, IBV_WC_SUCCESS);
	assert_string_equal(why, "it asks for more, and takes none of its replies");
	expect_back(2, 10);
	retry(now_ns);
	assert_true(handled == 4 && conn.sendq.aside == 4 && worker.deferred.count == 4);
	conn.sendq.used = conn.sendq.slots; /* no place for a reply: not even begun */
	retry(now_ns);
	assert_true(handled == 0 && conn.sendq.aside == 4 && worker.deferred.count == 4);
	conn.sendq.used = 0;
	fate = REQUEST_DONE;
	retry(now_ns);
	assert_true(handled == 4 && !conn.sendq.aside && !worker.deferred.count);
	expect_back(6, 4);
}

/* After 2 s it is answered "busy"; without room for that it is tried as before. */
static void test_for_how_long(void **state)
{
	uint64_t since_ns = now_ns;

	(void)state;
	worker_adopt(&worker, &conn);
	server.timed = true;
	fate = REQUEST_ASIDE;
	come(1, IBV_WC_SUCCESS);
	retry(since_ns + 2 * S);
	assert_true(handled == 1 && !busy && worker.timings.begun_ns == since_ns);
	may_be_busy = false;
	retry(since_ns + 2 * S + 1);
	assert_true(handled == 1 && !busy && conn.sendq.aside == 1);
	may_be_busy = true;
	server.timed = false;
	retry(since_ns + 2 * S + 1);
	assert_true(!handled && busy == 1 && !conn.sendq.aside && !worker.timings.begun_ns);
	expect_back(1, 1);
	/* The time is from when it came, not from when it was set aside. */
	worker.timings.begun_ns = since_ns;
	come(2, IBV_WC_SUCCESS);
	retry(since_ns + 2 * S + 1);
	assert_true(!handled && busy == 1);
	come(3, IBV_WC_SUCCESS);
	conn.sendq.closing = true;
	retry(now_ns + 9 * S);
	assert_true(!handled && !busy && !worker.deferred.count);
	expect_back(3, 3);
}

/* Of those that take long one has its turn at a time; others don't wait for it. */
static void test_slow(void **state)
{
	(void)state;
	worker_adopt(&worker, &conn);
	fate = REQUEST_ASIDE;
	for (uint32_t i = 1; i <= 3; i++) {
		((struct wire_request *)(void *)rx_buffer(&worker.rx, i))->op = i > 1 ? WIRE_KEYS : WIRE_GET;
		come(i, IBV_WC_SUCCESS);
	}
	fate = REQUEST_DONE;
	retry(now_ns);
	assert_true(handled == 2 && worker.deferred.count == 1 && conn.sendq.aside == 1);
	expect_back(2, 2);
	retry(now_ns);
	assert_true(handled == 1 && !worker.deferred.count);
	expect_back(3, 3);
}

static int begin(void **state)
{
	now_ns = 100 * S;
	fate = REQUEST_DONE;
	may_be_busy = true;
	if (request_kit_make(state) || deferred_init(&worker.deferred, ASIDE_MAX))
		return -1;
	worker.rx = (struct rx){ .memory = messages, .free = free_buffers, .count = 64, .posted = 32 };
	memset(messages, 0, sizeof messages);
	conn.qp_num = QPN;
	return 0;
}

static int end(void **state)
{
	deferred_fini(&worker.deferred);
	return request_kit_unmake(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
		TEST(test_whose), TEST(test_credits), TEST(test_aside), TEST(test_for_how_long),
		TEST(test_slow),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
