/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * server/worker/request/pull.h, READ by READ: what is asked for, how much at once, what becomes of a value that
 * is there, and of one that does not come.  The queue pair, the store's answers and the time are made up.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "common/hash.h"
#include "server/store/change/rmw.h"
#include "server/worker/context.h"
#include "server/worker/reply.h"
#include "server/worker/request/pull.h"
#include "server/worker/sendq.h"
#include "server/worker/stats.h"
#include "server/worker/timing.h"
#include "tests/lib/fixture.h"
#include "tests/unit/made_up.h"
#include "tests/unit/said.h"

#define S 1000000000ull
#define MIB (1u << 20)
#define WINDOW 4u
#define LKEY 0x55u
#define REIGN 6u
#define POSTED_MAX 80u
#define KEY "key"

static struct fixture f;
static struct pulls pulls;
static struct server server;
static struct rail rail;
static struct tx tx;
static struct txbuf *const buffer = (struct txbuf *)(void *)&tx;
static struct timings timings;
static struct worker_stats stats;
static struct membership membership;
static struct ibv_context context;
static struct ibv_qp qp = { .context = &context };
static struct sendq to, other;
static uint64_t now_ns;

static struct ibv_send_wr posted[POSTED_MAX];
static struct ibv_sge places[POSTED_MAX];
static unsigned post_count, post_that_fails, completed; /* post_that_fails: from 1 */
static uint8_t data[8 * MIB];

static int put_status;
static struct store_change change; /* the latest */
static unsigned put_count, deleted, answers, noted, owed, rewritten, reports;
static int answer;
static uint64_t answer_bucket, report_at_ns;
static bool no_items, may_rewrite;
static unsigned tries, tries_until, room_status;
static char closed[80];

/* -------------------------------------------------------------------- made up */

struct layout_item *__real_store_item_new(struct store_worker *w, const void *key, unsigned key_bytes,
					  uint64_t value_bytes, const struct layout_attributes *with);
void __real_store_item_delete(struct store_worker *w, struct layout_item *item);

static int post_send(struct ibv_qp *q, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	assert_true(q == &qp && !wr->next && wr->num_sge == 1 && bad);
	if (post_count + 1 == post_that_fails)
		return ENOMEM;
	assert_true(post_count < POSTED_MAX);
	places[post_count] = *wr->sg_list;
	posted[post_count++] = *wr;
	return 0;
}

MADE_UP(struct layout_item *, store_item_new, struct store_worker *w, const void *key, unsigned key_bytes,
	uint64_t value_bytes, const struct layout_attributes *with)
{
	return no_items ? NULL : __real_store_item_new(w, key, key_bytes, value_bytes, with);
}

MADE_UP(void, store_item_delete, struct store_worker *w, struct layout_item *item)
{
	deleted++;
	__real_store_item_delete(w, item);
}

MADE_UP(int, store_put, struct store_worker *w, struct store_change *c, struct store_result *r)
{
	assert_true(w == &f.worker[0] && w->blocked == STORE_NOT_BLOCKED);
	put_count++;
	change = *c;
	w->blocked = 33;
	r->bucket = 44;
	w->commit = (struct commit *)(void *)&change;
	return put_status;
}

MADE_UP(bool, store_make_room, struct store_worker *w, struct hash hash, unsigned n, int *status)
{
	(void)hash;
	assert_true(w == &f.worker[0] && n == tries);
	*status = (int)room_status;
	return ++tries < tries_until;
}

MADE_UP(void, reply_answer, struct tx *t, struct sendq *q, const struct wire_request *r, enum wire_status status)
{
	assert_true(t == &tx && q == &to && r->request_id == 12);
	answers++;
	answer = (int)status;
}

MADE_UP(void, reply_answer_result, struct tx *t, struct sendq *q, const struct wire_request *r,
	enum wire_status status, const struct store_result *result)
{
	assert_true(t == &tx && q == &to && r->request_id == 12);
	answers++;
	answer = (int)status;
	answer_bucket = result->bucket;
}

MADE_UP(void, timing_note, struct timings *t, const char *peer, const struct wire_request *r, const void *key,
	uint64_t since_ns)
{
	assert_true(t == &timings && !strcmp(peer, "anna") && r->request_id == 12 && since_ns == 7);
	noted += !memcmp(key, KEY, 3);
}

MADE_UP(struct owed *, owed_add, struct owed_list *list, struct commit *commit, struct sendq *q,
	const struct wire_request *r, const uint8_t *key, uint64_t begun_ns)
{
	assert_true(list == pulls.parts.owed && (void *)commit == &change && q == &to && r->request_id == 12);
	owed += !memcmp(key, KEY, 3) && begun_ns == 7;
	return NULL;
}

MADE_UP(bool, rewrites_may_begin, const struct rewrites *r, const struct sendq *q)
{
	return r == pulls.parts.rewrites && q == &to && may_rewrite;
}

MADE_UP(void, rewrites_begin, struct rewrites *r, struct sendq *q, const struct wire_request *request,
	struct layout_item *input, uint64_t begun_ns)
{
	assert_true(r == pulls.parts.rewrites && q == &to && request->request_id == 12 && begun_ns == 7);
	__real_store_item_delete(&f.worker[0], input);
	rewritten++;
}

MADE_UP(void, conn_close, struct conn *conn, const char *reason)
{
	assert_ptr_equal(conn, to.conn);
	snprintf(closed, sizeof closed, "%s", reason);
}

MADE_UP(void, deferred_report, struct locker *locker, uint64_t blocked, uint64_t *report_ns, uint64_t ns)
{
	assert_true(locker == server.locker && blocked == 33 && ns == now_ns);
	report_at_ns = *report_ns;
	reports++;
}

MADE_UP(int, clock_gettime, clockid_t clock, struct timespec *ts)
{
	(void)clock;
	*ts = (struct timespec){ (time_t)(now_ns / S), (long)(now_ns % S) };
	return 0;
}

/* ------------------------------------------------------------------------- kit */

static struct wire_request request_of(enum wire_op op, uint32_t bytes)
{
	return (struct wire_request){ .op = (uint8_t)op, .request_id = 12, .segments = 1, .key_bytes = 3,
				      .value_bytes = bytes, .flags = WIRE_PULL, .token = 5, .version = 9,
				      .item_flags = 0xabcdef12, .value_checksum = hash_bytes(data, bytes) };
}

static enum request_fate start_with(const struct wire_request *q, const struct wire_segment *segments)
{
	uint8_t unaligned[1 + WIRE_SEGMENTS_MAX * sizeof *segments];

	timings.begun_ns = 7;
	memcpy(unaligned + 1, segments, q->segments * sizeof *segments);
	return pull_start(&pulls, &to, q, (const uint8_t *)KEY, unaligned + 1);
}

static enum request_fate start(enum wire_op op, uint32_t bytes)
{
	const struct wire_segment all = { .addr = 0x10000, .bytes = bytes, .rkey = 0x77 };
	struct wire_request q = request_of(op, bytes);

	return start_with(&q, &all);
}

/* The next one that was posted ends so. */
static void complete_as(enum ibv_wc_status status)
{
	const struct ibv_sge *at = &places[completed];
	const struct ibv_send_wr *wr = &posted[completed++];
	const struct ibv_wc wc = { .status = status, .vendor_err = 0x99 };

	assert_true(completed <= post_count);
	if (status == IBV_WC_SUCCESS)
		memcpy((void *)(uintptr_t)at->addr, data + (wr->wr.rdma.remote_addr - 0x10000), at->length);
	pull_completed(&pulls, wr_ptr(wr->wr_id), &wc);
}

static void complete_all(void)
{
	while (completed < post_count)
		complete_as(IBV_WC_SUCCESS);
}

/* Nothing is under way, and so many items were given back. */
static void expect_over(unsigned items_deleted)
{
	assert_int_equal(pulls.free_count, PULLS);
	assert_true(!to.pulls && !to.reads && !to.waited);
	assert_false(pulls_waiting(&pulls));
	assert_int_equal(deleted, items_deleted);
}

static void expect_answer(int status, uint64_t bucket)
{
	assert_true(answers == 1 && noted == 1);
	assert_int_equal(answer, status);
	assert_int_equal(answer_bucket, bucket);
	answers = noted = 0;
}

/* ------------------------------------------------------------------------- READs */

static void test_one(void **state)
{
	(void)state;
	to.unsignaled = 3;
	assert_int_equal(start(WIRE_PUT, 10000), REQUEST_DONE);
	assert_int_equal(post_count, 1);
	assert_true(posted[0].opcode == IBV_WR_RDMA_READ && posted[0].send_flags == IBV_SEND_SIGNALED);
	assert_true(posted[0].wr.rdma.remote_addr == 0x10000 && posted[0].wr.rdma.rkey == 0x77);
	assert_true(wr_kind(posted[0].wr_id) == WR_PULL && wr_count(posted[0].wr_id) == 4 && !to.unsignaled);
	assert_true(places[0].length == 10000 && places[0].lkey == LKEY);
	assert_ptr_equal(pull_sendq(wr_ptr(posted[0].wr_id)), &to);
	assert_true(to.pulls == 1 && to.reads == 1 && to.waited == 1 && pulls.free_count == PULLS - 1);
	assert_true(stats.pulls == 1 && stats.pull_bytes == 10000);
	assert_int_equal(timings.begun_ns, 0);
	assert_false(pulls_waiting(&pulls));
	pulls_retry(&pulls);
	assert_int_equal(put_count, 0);
	complete_all();
	assert_int_equal(put_count, 1);
	assert_true(change.key_bytes == 3 && change.value_bytes == 10000 && change.token == 5 && change.version == 9);
	assert_true(change.flags == WIRE_PULL && change.item && !change.compute);
	assert_memory_equal(change.key, KEY, 3);
	assert_memory_equal(change.value, data, 10000);
	assert_ptr_equal(change.value, change.item->data + 3);
	assert_int_equal(change.with.flags, 0xabcdef12);
	const struct hash hash = hash_key(server.table->hash_seed, KEY, 3);
	assert_memory_equal(&change.hash, &hash, sizeof hash);
	expect_answer(WIRE_OK, 44);
	expect_over(0); /* it is the store's */
}

/* Piece by piece, of what one message may have, and of each segment. */
static void test_pieces(void **state)
{
	const struct wire_segment segments[] = { { .addr = 0x10000, .bytes = 10000, .rkey = 1 },
						 { .addr = 0x10000 + 10000, .bytes = 1, .rkey = 2 },
						 { .addr = 0x10000 + 10001, .bytes = 4096, .rkey = 3 } };
	static const uint32_t lengths[] = { 4096, 4096, 1808, 1, 4096 };
	struct wire_request q = request_of(WIRE_PUT, 14097);
	uint64_t at = 0;

	(void)state;
	q.segments = 3;
	rail.limits.message_bytes_max = 4096;
	assert_int_equal(start_with(&q, segments), REQUEST_DONE);
	assert_int_equal(post_count, WINDOW);
	complete_as(IBV_WC_SUCCESS);
	assert_int_equal(post_count, 5);
	complete_all();
	assert_int_equal(post_count, 5);
	for (unsigned i = 0; i < 5; at += lengths[i++]) {
		assert_int_equal(places[i].length, lengths[i]);
		assert_int_equal(places[i].addr, (uintptr_t)change.value + at);
		assert_int_equal(posted[i].wr.rdma.remote_addr, 0x10000 + at);
		assert_int_equal(posted[i].wr.rdma.rkey, i < 3 ? 1 : i - 1);
	}
	assert_memory_equal(change.value, data, 14097);
	expect_answer(WIRE_OK, 44);
}

/* Others of the worker don't wait for long. */
static void test_chunks(void **state)
{
	(void)state;
	assert_int_equal(start(WIRE_PUT, 6 * MIB + 5), REQUEST_DONE);
	assert_int_equal(post_count, WINDOW);
	for (unsigned i = 0; i < 6; i++)
		complete_as(IBV_WC_SUCCESS);
	assert_int_equal(post_count, 7);
	complete_all();
	for (unsigned i = 0; i < 7; i++)
		assert_int_equal(places[i].length, i < 6 ? MIB : 5);
	expect_answer(WIRE_OK, 44);
	expect_over(0);
}

static void test_so_many_at_once(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(start(WIRE_PUT, 5 * MIB), REQUEST_DONE);
	assert_int_equal(post_count, SENDQ_PULL_READS);
	assert_true(pulls_waiting(&pulls)); /* the third */
	complete_as(IBV_WC_SUCCESS);
	assert_int_equal(post_count, SENDQ_PULL_READS + 1);
	for (unsigned i = 0; i < 4 * 15 && completed < post_count; i++) {
		complete_as(IBV_WC_SUCCESS);
		pulls_retry(&pulls);
		assert_true(to.reads <= SENDQ_PULL_READS);
	}
	assert_int_equal(answers, 3);
	assert_int_equal(post_count, 15);
	expect_over(0);
}

/* As many as it leaves to others. */
static void test_a_half(void **state)
{
	(void)state;
	tx.free = NULL;
	assert_int_equal(start(WIRE_PUT, 100), REQUEST_ASIDE);
	tx.free = buffer;
	for (unsigned i = 0; i < PULLS / 2; i++)
		assert_int_equal(start(WIRE_PUT, 100), REQUEST_DONE);
	assert_int_equal(start(WIRE_PUT, 100), REQUEST_ASIDE);
	assert_int_equal(answers, 0);
	other = to;
	other.pulls = 3;
	pulls_forget(&pulls, &other);
	assert_int_equal(deleted, 0);
	pulls_forget(&pulls, &to);
	assert_true(deleted == PULLS / 2 && pulls.free_count == PULLS && !to.pulls);
}

/* --------------------------------------------------------------------- refused */

static void test_refused(void **state)
{
	static const uint64_t lengths[][2] = { { 50, 49 }, { 50, 51 }, { 100, 0 }, { 0, 100 }, { 101, ~0ull }, { 60, 60 } };
	struct wire_request q = request_of(WIRE_PUT, 100);
	struct wire_segment segments[2];

	(void)state;
	q.segments = 2;
	for (unsigned i = 0; i < 6; i++) {
		for (unsigned k = 0; k < 2; k++)
			segments[k] = (struct wire_segment){ .addr = 0x10000, .bytes = lengths[i][k] };
		assert_int_equal(start_with(&q, segments), REQUEST_DONE);
		assert_true(answers == i + 1 && answer == WIRE_EINVALID);
	}
	expect_over(0);
	assert_int_equal(post_count, 0);
}

static void test_no_memory(void **state)
{
	(void)state;
	no_items = true;
	tries_until = 3;
	room_status = WIRE_ECROWDED;
	assert_int_equal(start(WIRE_PUT, 100), REQUEST_DONE);
	assert_true(tries == 3 && answers == 1 && answer == WIRE_ECROWDED);
	tries = 0;
	room_status = (unsigned)STORE_ASIDE;
	assert_int_equal(start(WIRE_PUT, 100), REQUEST_ASIDE);
	assert_int_equal(answers, 1);
	expect_over(0);
	assert_int_equal(stats.pulls, 0);
}

static void test_another_value(void **state)
{
	(void)state;
	assert_int_equal(start(WIRE_PUT, 100), REQUEST_DONE);
	data[50]++;
	complete_all();
	data[50]--;
	expect_answer(WIRE_EPULL, ~0ull);
	assert_int_equal(put_count, 0);
	expect_over(1);
}

static void test_another_reign(void **state)
{
	(void)state;
	server.membership = &membership;
	to.reign = REIGN;
	membership.reign = REIGN;
	assert_int_equal(start(WIRE_PUT, 100), REQUEST_DONE);
	complete_all();
	expect_answer(WIRE_OK, 44);
	assert_int_equal(start(WIRE_PUT, 100), REQUEST_DONE);
	membership.reign++;
	complete_all();
	expect_answer(WIRE_EELSEWHERE, ~0ull);
	assert_int_equal(put_count, 1);
	expect_over(1);
}

/* ------------------------------------------------------------------- not READ */

static void test_not_posted(void **state)
{
	(void)state;
	post_that_fails = 3;
	assert_int_equal(start(WIRE_PUT, 5 * MIB), REQUEST_DONE);
	assert_true(post_count == 2 && !closed[0]);
	complete_as(IBV_WC_SUCCESS);
	assert_int_equal(deleted, 0); /* the device may write to it still */
	complete_as(IBV_WC_SUCCESS);
	assert_string_equal(closed, "reading the value of a PUT from its memory failed");
	expect_over(1);
	assert_int_equal(answers + put_count, 0);
}

static void fail_read(enum ibv_wc_status status, unsigned lines)
{
	closed[0] = '\0';
	deleted = 0;
	said_begin();
	assert_int_equal(start(WIRE_PUT, 2 * MIB), REQUEST_DONE);
	complete_as(status);
	assert_int_equal(deleted, 0);
	complete_as(IBV_WC_WR_FLUSH_ERR);
	said_end();
	assert_int_equal(said_lines("READ of a value from anna failed: remote access error (vendor error 0x99)"), lines);
	assert_int_equal(said_lines("READ of a value"), lines);
	assert_string_equal(closed, "reading the value of a PUT from its memory failed");
	expect_over(1);
	assert_int_equal(answers, 0);
}

static void test_read_fails(void **state)
{
	(void)state;
	fail_read(IBV_WC_WR_FLUSH_ERR, 0);
	fail_read(IBV_WC_REM_ACCESS_ERR, 1);
}

/* Its connection ends anyway. */
static void test_closing(void **state)
{
	(void)state;
	assert_int_equal(start(WIRE_PUT, 5 * MIB), REQUEST_DONE);
	to.closing = true;
	complete_all();
	assert_int_equal(post_count, WINDOW);
	expect_over(1);
	assert_true(!closed[0] && !answers && !put_count);
}

/* ------------------------------------------------------------- what is there */

static void arrive(enum wire_op op, int status)
{
	put_status = status;
	answers = noted = deleted = put_count = 0;
	assert_int_equal(start(op, 100), REQUEST_DONE);
	complete_all();
	assert_int_equal(put_count, 1);
}

static void test_results(void **state)
{
	(void)state;
	arrive(WIRE_PUT, WIRE_CONDITION);
	expect_answer(WIRE_CONDITION, 44);
	expect_over(1);
	arrive(WIRE_APPEND, WIRE_OK);
	assert_true(!change.item && change.compute);
	expect_answer(WIRE_OK, 44);
	expect_over(1);
	arrive(WIRE_PREPEND, WIRE_EMEMORY);
	assert_true(!change.item && change.compute);
	expect_answer(WIRE_EMEMORY, 44);
	expect_over(1);
	arrive(WIRE_PUT, STORE_COMMIT);
	expect_over(0);
	arrive(WIRE_APPEND, STORE_COMMIT);
	expect_over(1);
	assert_true(owed == 2 && !answers);
}

static void test_in_the_way(void **state)
{
	(void)state;
	arrive(WIRE_PUT, STORE_ASIDE);
	assert_int_equal(reports, 1);
	assert_int_equal(report_at_ns, now_ns + REPORT_FIRST_NS);
	assert_true(pulls_waiting(&pulls));
	now_ns += 2 * S;
	pulls_retry(&pulls);
	assert_true(put_count == 2 && reports == 2 && !answers && !deleted);
	now_ns++;
	pulls_retry(&pulls);
	expect_answer(WIRE_EBUSY, ~0ull);
	expect_over(1);
	arrive(WIRE_PUT, STORE_ASIDE);
	put_status = WIRE_OK;
	pulls_retry(&pulls);
	expect_answer(WIRE_OK, 44);
	expect_over(0);
	assert_int_equal(post_count, 2); /* it is READ once */
}

static void test_rewritten(void **state)
{
	(void)state;
	arrive(WIRE_APPEND, STORE_LONG);
	assert_int_equal(rewritten, 0);
	assert_true(pulls_waiting(&pulls));
	may_rewrite = true;
	pulls_retry(&pulls);
	assert_true(rewritten == 1 && !answers);
	expect_over(0);
}

/* A reply needs a buffer. */
static void test_no_buffer(void **state)
{
	(void)state;
	assert_int_equal(start(WIRE_PUT, 100), REQUEST_DONE);
	tx.free = NULL;
	complete_all();
	assert_true(pulls_waiting(&pulls) && !put_count);
	pulls_retry(&pulls);
	assert_int_equal(put_count, 0);
	tx.free = buffer;
	pulls_retry(&pulls);
	expect_answer(WIRE_OK, 44);
	expect_over(0);
}

/* -------------------------------------------------------------------------- group */

static int set_up(void **state)
{
	(void)state;
	fixture_new(&f, 64 << 20, 1);
	for (size_t i = 0; i < sizeof data; i++)
		data[i] = (uint8_t)(i * 31 + i / 4096);
	context.ops.post_send = post_send;
	server = (struct server){ .table = f.table, .store = f.store, .locker = (struct locker *)(void *)&rail };
	f.table->lkey[0] = LKEY;
	rail = (struct rail){ .number = 0 };
	rail.limits.message_bytes_max = 1u << 30;
	tx = (struct tx){ .free = buffer };
	timings = (struct timings){ .worker = 0 };
	memset(&stats, 0, sizeof stats);
	to = (struct sendq){ .conn = (struct conn *)(void *)&to, .qp = &qp, .peer = "anna" };
	now_ns = 1000 * S;
	post_count = post_that_fails = completed = put_count = deleted = answers = noted = owed = rewritten = reports = 0;
	tries = tries_until = 0;
	no_items = may_rewrite = false;
	closed[0] = '\0';
	put_status = WIRE_OK;
	const struct request_parts parts = { &server, &rail, &f.worker[0], &tx, (struct owed_list *)(void *)&owed,
					     &timings, &stats, (struct rewrites *)(void *)&rewritten };
	return pulls_init(&pulls, &parts);
}

static int tear_down(void **state)
{
	(void)state;
	pulls_fini(&pulls);
	fixture_delete(&f);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
		TEST(test_one), TEST(test_pieces), TEST(test_chunks), TEST(test_so_many_at_once), TEST(test_a_half),
		TEST(test_refused), TEST(test_no_memory), TEST(test_another_value), TEST(test_another_reign),
		TEST(test_not_posted), TEST(test_read_fails), TEST(test_closing), TEST(test_results),
		TEST(test_in_the_way), TEST(test_rewritten), TEST(test_no_buffer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
