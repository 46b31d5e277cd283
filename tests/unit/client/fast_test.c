/* SPDX-License-Identifier: BSD-2-Clause */
/* client/get/fast.h: what the short way posts, to the last field, what it counts, which calls take it,
 * and where it is not taken. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "client/get/fast.h"
#include "client/get/get.h"
#include "client/op/hints.h"
#include "client/op/lockword.h"
#include "client/op/operation.h"
#include "client/op/poll.h"
#include "common/clock.h"
#include "tests/lib/end.h"

#define KEY "key"
#define KEY_BYTES (sizeof KEY - 1)
#define HEAD_BYTES (sizeof(struct layout_item) + KEY_BYTES)
#define UNIT 4000u
#define TOKEN 99u

static struct end *end;
static struct engine *e;
static uint8_t value[BYTES_ROOM];
static uint64_t *word; /* of the key's lock */
static struct hash hash;

static int (*post_send)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
static struct ibv_send_wr posted[2];
static struct ibv_sge sges[2];
static unsigned posts;
static int post_error;

static int note_post(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	posts = 0;
	for (const struct ibv_send_wr *w = wr; w && posts < 2; w = w->next) {
		sges[posts] = *w->sg_list;
		posted[posts++] = *w;
	}
	*bad = wr;
	return post_error ? post_error : post_send(qp, wr, bad);
}

/* The mirror knows the key's item, of so many bytes. */
static void store(size_t bytes, uint64_t expiry_ms)
{
	const struct bytes_item item = { .unit = UNIT, .key = KEY, .value = "value", .value_bytes = bytes,
					 .kind = LAYOUT_LIVE, .version = 7, .expiry_ms = expiry_ms };
	struct op *op = op_new(e, &get_class, KEY, KEY_BYTES);

	bytes_enter(end->bytes, layout_bucket_of(hash.a, 0), 3, bytes_item(end->bytes, &item));
	assert_int_equal(get_start(op, GET_PLAIN, &(struct iovec){ value, sizeof value }, 1), 0);
	assert_int_equal(end_run(end, op)->result, KVD_OK);
	memset(value, 0, sizeof value);
	memset(&e->counters, 0, sizeof e->counters);
	posts = 0;
}

static int set_up(void **state)
{
	(void)state;
	end = end_new();
	e = end->engine;
	post_error = 0;
	post_send = e->qp->context->ops.post_send;
	e->qp->context->ops.post_send = note_post;
	hash = hash_key(e->table.welcome.hash_seed, KEY, KEY_BYTES);
	word = &end->words[layout_stripe(hash.b, e->table.welcome.stripes)];
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	e->qp->context->ops.post_send = post_send;
	end_delete(end);
	return 0;
}

static enum fast get(size_t room, int *rc)
{
	struct got got;
	struct op *op = NULL;
	enum fast how = fast_get(e, KEY, KEY_BYTES, &(struct iovec){ value, room }, &got, &op, rc);

	if (op)
		end_run(end, op);
	return how;
}

static enum fast get_locked(struct fast_lock *f)
{
	return fast_lock_get(e, KEY, KEY_BYTES, hash, TOKEN, &(struct iovec){ value, 200 }, f);
}

static void is_read(unsigned i, uint64_t item_bytes)
{
	const struct wire_welcome *w = &e->table.welcome;

	assert_int_equal(posted[i].opcode, IBV_WR_RDMA_READ);
	assert_int_equal(posted[i].send_flags, IBV_SEND_SIGNALED);
	assert_int_equal(posted[i].num_sge, 1);
	assert_null(posted[i].next);
	assert_true(posted[i].wr.rdma.remote_addr == w->table_addr + UNIT * LAYOUT_UNIT_BYTES);
	assert_int_equal(posted[i].wr.rdma.rkey, w->table_rkey);
	assert_int_equal(sges[i].length, item_bytes);
	assert_int_equal(sges[i].lkey, e->memory_mr->lkey);
}

/* Of 100 bytes, with 35 before them. */
static void a_read_is_posted(void **state)
{
	int rc;

	(void)state;
	store(100, 0);
	e->table.welcome.table_rkey = 0x1234;
	e->unsignaled = 5;
	assert_int_equal(get(200, &rc), FAST_DONE);
	assert_int_equal(rc, KVD_OK);
	assert_memory_equal(value, "valuevalue", 10);
	assert_int_equal(posts, 1);
	is_read(0, 160);
	assert_int_equal(e->unsignaled, 0);
	assert_int_equal(e->sq_done, e->sq_posted);
	for (unsigned n = 1; n <= 2; n++) {
		assert_int_equal(e->counters.gets, n);
		assert_int_equal(e->counters.reads, n);
		assert_int_equal(e->counters.round_trips, n);
		assert_int_equal(e->counters.read_bytes, n * 160);
		assert_int_equal(e->counters.doorbells, n);
		assert_int_equal(e->counters.mirror_hits, n);
		assert_int_equal(e->counters.copied_bytes, 100); /* a value without room is not */
		assert_int_equal(e->counters.atomics, 0);
		assert_int_equal(n == 1 ? get(99, &rc) : FAST_DONE, FAST_DONE);
	}
	assert_int_equal(rc, KVD_ESPACE);
}

/* Whether a call went the short way, the only one that reads no clock.  Each is one READ, and no message. */
static bool was_short(int rc)
{
	bool is_short = !e->time.begun_ns;

	assert_int_equal(rc, KVD_OK);
	assert_int_equal(posts, 1);
	is_read(0, 160);
	assert_int_equal(e->counters.gets, 1);
	assert_int_equal(e->counters.reads, 1);
	assert_int_equal(end->messages, 0);
	memset(&e->counters, 0, sizeof e->counters);
	e->time.begun_ns = posts = 0;
	return is_short;
}

/* A call that waits takes it if the value goes into one piece; into several, or new memory, it does not. */
static void calls_that_take_it(void **state)
{
	struct kvd_session *s = &end->session;
	struct kvd_info info = { .size = sizeof info };
	const struct iovec whole = { value, 100 }, halves[] = { { value, 50 }, { value + 300, 50 } };
	uint64_t version = 0;
	size_t bytes = 0;
	void *made;

	(void)state;
	store(100, 0);
	e->time.begun_ns = 0;
	assert_true(was_short(kvd_get(s, KEY, KEY_BYTES, value, 100, &bytes, &version)));
	assert_int_equal(bytes, 100);
	assert_int_equal(version, 7);
	assert_memory_equal(value, "valuevalue", 10);
	assert_true(was_short(kvd_get_info(s, KEY, KEY_BYTES, value, 100, &info)));
	assert_int_equal(info.value_bytes, 100);
	assert_true(was_short(kvd_getv(s, KEY, KEY_BYTES, &whole, 1, &bytes, NULL)));
	memset(value, 0, sizeof value);
	assert_false(was_short(kvd_getv(s, KEY, KEY_BYTES, halves, 2, &bytes, NULL)));
	assert_int_equal(bytes, 100);
	assert_memory_equal(value + 45, "value\0\0\0\0\0", 10);
	assert_memory_equal(value + 345, "value\0\0\0\0\0", 10);
	assert_false(was_short(kvd_get_alloc(s, KEY, KEY_BYTES, &made, &bytes, NULL)));
	assert_memory_equal(made, "valuevalue", 10);
	free(made);
}

static void a_swap_is_posted_before_it(void **state)
{
	const struct wire_welcome *w = &e->table.welcome;
	struct fast_lock f;

	(void)state;
	store(100, 0);
	e->table.welcome.lock_rkey = 0x5678;
	assert_int_equal(get_locked(&f), FAST_DONE);
	assert_true(f.won && f.has_value);
	assert_int_equal(posts, 2);
	is_read(1, 160);
	assert_int_equal(posted[0].opcode, IBV_WR_ATOMIC_CMP_AND_SWP);
	assert_int_equal(posted[0].send_flags, IBV_SEND_SIGNALED);
	assert_int_equal(posted[0].num_sge, 1);
	assert_true(posted[0].wr.atomic.remote_addr == w->lock_addr + (uint64_t)(word - end->words) * 8);
	assert_int_equal(posted[0].wr.atomic.rkey, 0x5678);
	assert_int_equal(posted[0].wr.atomic.compare_add, 0);
	assert_int_equal(posted[0].wr.atomic.swap, TOKEN);
	assert_int_equal(sges[0].length, 8);
	assert_int_equal(sges[0].lkey, e->memory_mr->lkey);
	assert_int_equal(e->counters.atomics, 1);
	assert_int_equal(e->counters.gets, 1);
	assert_int_equal(e->counters.doorbells, 1);
	/* Somebody has it: there will be another GET. */
	assert_int_equal(get_locked(&f), FAST_DONE);
	assert_false(f.won);
	assert_int_equal(e->counters.gets, 1);
	assert_int_equal(e->counters.atomics, 2);
}

/* Whether both are complete as it ends to wait, one, or none. */
static void some_of_it_is_complete(void **state)
{
	unsigned begun = 0;
	struct fast_lock f;

	(void)state;
	store(100, 0);
	for (unsigned delay = 0; delay < 400; delay++) {
		end->delay = delay;
		*word = 0;
		if (get_locked(&f) == FAST_DONE) {
			assert_true(f.won && f.has_value);
			continue;
		}
		begun++;
		end->delay = 0; /* nothing wakes who sleeps */
		assert_int_equal(engine_await(e, f.cas, f.read), 0);
		assert_true(stripe_was_free(f.cas));
		assert_int_equal(op_outcome(f.read)->result, KVD_OK);
		op_free(f.cas);
		op_free(f.read);
		assert_int_equal(e->in_flight, 0);
	}
	assert_in_range(begun, 1, 399);
}

static void a_post_fails(void **state)
{
	int rc;

	(void)state;
	store(100, 0);
	post_error = ENOMEM;
	assert_int_equal(get(200, &rc), FAST_NOT);
	assert_false(health_is_good(&e->health));
	assert_non_null(strstr(e->health.err.text, "posting to "));
	assert_non_null(strstr(e->health.err.text, " failed: Cannot allocate memory"));
}

/* An item that fills its units, and the largest that an operation has room for. */
static void items_of_any_length(void **state)
{
	static const size_t lengths[] = { 5 * LAYOUT_UNIT_BYTES - HEAD_BYTES, OP_ITEM_BYTES - HEAD_BYTES };
	int rc;

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		store(lengths[i], 0);
		assert_int_equal(get(sizeof value, &rc), FAST_DONE);
		assert_int_equal(rc, KVD_OK);
		is_read(0, HEAD_BYTES + lengths[i]);
		assert_int_equal(value[lengths[i] - 1], "value"[(lengths[i] - 1) % 5]);
	}
	store(OP_ITEM_BYTES - HEAD_BYTES + 1, 0);
	assert_int_equal(get(sizeof value, &rc), FAST_NOT);
	assert_int_equal(posts, 0);
}

/* Who stays away from home is sent the ordinary way now and then, to look. */
static void who_is_not_at_home(void **state)
{
	unsigned fast = 0;
	int rc;

	(void)state;
	store(100, 0);
	e->home_ns = 1;
	for (unsigned i = 0; i < 2048; i++)
		fast += get(200, &rc) == FAST_DONE;
	assert_int_equal(fast, 2046);
}

static void ok(struct end *to, const struct wire_request *request)
{
	(void)request;
	end_reply(to, (struct wire_reply){ .status = WIRE_OK }, NULL, 0);
}

/* kvd is told which keys are read: at once, as nothing else is posted that it could go with. */
static void what_was_read_is_told(void **state)
{
	int rc;

	(void)state;
	store(100, 0);
	e->table.welcome.hints_every = 1;
	e->table.welcome.connection_id = 5;
	hints_begin(e);
	end->answer = ok;
	for (unsigned i = 0; i < 2 * WIRE_HINTS_MAX && !end->messages; i++) {
		assert_int_equal(get(200, &rc), FAST_DONE);
		assert_int_equal(e->wr_count, 0);
	}
	assert_int_equal(end->messages, 1);
	assert_int_equal(end->asked.op, WIRE_HINTS);
	engine_take(e);
	assert_int_equal(e->in_flight, 0);
}

/* Then there is another GET, which counts. */
static void nobody_knows_whether_it_is_over(void **state)
{
	const uint64_t now_ms = clock_ns() / 1000000;
	int rc;

	(void)state;
	clock_learn(&e->table.clock, now_ms, clock_ns(), clock_ns());
	store(100, now_ms + 100000);
	assert_int_equal(get(200, &rc), FAST_DONE);
	e->table.clock.known = false;
	assert_int_equal(get(200, &rc), FAST_NOT);
	assert_int_equal(e->counters.gets, 1);
	assert_int_equal(e->counters.mirror_hits, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_read_is_posted),
		TEST(calls_that_take_it),
		TEST(a_swap_is_posted_before_it),
		TEST(some_of_it_is_complete),
		TEST(a_post_fails),
		TEST(items_of_any_length),
		TEST(who_is_not_at_home),
		TEST(what_was_read_is_told),
		TEST(nobody_knows_whether_it_is_over),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
