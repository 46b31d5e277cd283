/* SPDX-License-Identifier: BSD-2-Clause */
/* client/api/raw.h: what is posted, what it reads, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "client/api/raw.h"
#include "client/op/memory.h"
#include "tests/unit/client/one_answer.h"

#define UNIT 4096u
#define OFFSET (UNIT * LAYOUT_UNIT_BYTES)
#define OTHER "other", 5

static struct session_raw raw;
static struct verbs verbs; /* the session's, of which some count or fail */
static unsigned registered;
static uint8_t buffer[70000];

static struct ibv_mr *register_it(struct ibv_pd *pd, void *at, size_t bytes, int access)
{
	static struct ibv_mr mr = { .lkey = 77 };

	(void)pd;
	assert_ptr_equal(at, buffer);
	assert_true(bytes <= sizeof buffer);
	assert_true(access & IBV_ACCESS_LOCAL_WRITE);
	registered++;
	return &mr;
}

static struct ibv_mr *register_none(struct ibv_pd *pd, void *at, size_t bytes, int access)
{
	(void)pd, (void)at, (void)bytes, (void)access;
	return NULL;
}

static int deregister(struct ibv_mr *mr)
{
	(void)mr;
	registered--;
	return 0;
}

static struct hash hash_of_key(void) { return hash_key(e->table.welcome.hash_seed, KEY); }

static uint64_t *word_of_key(void)
{
	return end->words + layout_stripe(hash_of_key().b, BYTES_STRIPES);
}

/* An item of so many bytes in all, which the mirror knows. */
static void put_item(uint64_t bytes)
{
	const struct bytes_item item = { .unit = UNIT,
					 .key = "key",
					 .value = "a value of a prime number of bytes: 43 of it",
					 .value_bytes = bytes - layout_item_bytes(3, 0),
					 .kind = LAYOUT_LIVE,
					 .version = 1 };
	const struct layout_view v = layout_view(end->bytes->buckets);
	struct hash h = hash_of_key();
	uint64_t words[LAYOUT_BUCKET_WORDS] = { bytes_item(end->bytes, &item) };

	mirror_store(e->table.mirror, layout_bucket_of(h.a, layout_view_epoch(&v, h.a)), words);
}

static int begin_long(uint64_t bytes, size_t room)
{
	memset(&raw, 0xff, sizeof raw);
	memset(buffer, 0, sizeof buffer);
	return session_raw_read_long(s, KEY, bytes - layout_item_bytes(3, 0), buffer, room, &raw);
}

static int set_up_verbs(void **state)
{
	set_up(state);
	verbs = *e->registrar.verbs;
	verbs.reg_mr = register_it;
	verbs.dereg_mr = deregister;
	e->registrar.verbs = &verbs;
	registered = 0;
	return 0;
}

/* The READs cover an item, and nothing behind it. */
static void test_long_item(void **state)
{
	static const struct {
		uint64_t bytes, max;
		unsigned reads;
	} cases[] = {
		{ 9000, 4096, 3 }, { 8192, 4096, 2 }, { 8193, 4096, 3 },
		{ 4096, 4096, 1 }, { 100, 4096, 1 },  { SESSION_RAW_MAX * 128, 128, SESSION_RAW_MAX },
	};

	(void)state;
	for (unsigned i = 0; i < COUNT(cases); i++) {
		unsigned reads = end->reads;

		put_item(cases[i].bytes);
		e->message_bytes_max = (uint32_t)cases[i].max;
		assert_int_equal(begin_long(cases[i].bytes, cases[i].bytes), KVD_OK);
		assert_int_equal(registered, 1);
		assert_int_equal(raw.count, cases[i].reads);
		assert_int_equal(session_raw_run(&raw), KVD_OK);
		assert_int_equal(end->reads - reads, cases[i].reads);
		assert_memory_equal(buffer, end->bytes->base + OFFSET, cases[i].bytes);
		assert_int_equal(buffer[cases[i].bytes], 0);
		session_raw_end(&raw);
		assert_int_equal(registered, 0);
		session_raw_end(&raw); /* nothing is registered any more */
		assert_int_equal(registered, 0);
	}
	assert_int_equal(end->messages, 0);
}

static void test_long_item_refused(void **state)
{
	(void)state;
	put_item(9000);
	e->message_bytes_max = 4096;
	assert_int_equal(begin_long(9000, 8999), KVD_ETOOBIG);
	e->message_bytes_max = 128;
	assert_int_equal(begin_long(SESSION_RAW_MAX * 128 + 1, sizeof buffer), KVD_ETOOBIG);
	e->message_bytes_max = 4096;
	e->table.welcome.table_bytes = OFFSET + 8999;
	assert_int_equal(begin_long(9000, sizeof buffer), KVD_ETOOBIG);
	session_raw_end(&raw);
	assert_int_equal(registered, 0);
	e->table.welcome.table_bytes = OFFSET + 9000;
	assert_int_equal(begin_long(9000, sizeof buffer), KVD_OK);
	session_raw_end(&raw);
	assert_int_equal(session_raw_read_long(s, OTHER, 1, buffer, sizeof buffer, &raw), KVD_NOT_FOUND);
	verbs.reg_mr = register_none;
	assert_int_equal(begin_long(9000, sizeof buffer), KVD_EDEVICE);
	must_say("can't register 70000 bytes");
	session_raw_end(&raw);
	assert_int_equal(registered, 0);
	assert_int_equal(end->reads, 0);
}

/* One READ of the item's units, up to what an operation has room for. */
static void test_item(void **state)
{
	(void)state;
	put_item(OP_ITEM_BYTES);
	memset(&raw, 0xff, sizeof raw);
	assert_int_equal(session_raw_read(s, KEY, &raw), KVD_OK);
	session_raw_end(&raw);
	assert_int_equal(raw.count, 1);
	assert_int_equal(raw.sge[0].length, OP_ITEM_BYTES);
	assert_int_equal(session_raw_run(&raw), KVD_OK);
	assert_memory_equal((void *)(uintptr_t)raw.sge[0].addr, end->bytes->base + OFFSET, OP_ITEM_BYTES);
	e->table.welcome.table_bytes = OFFSET + OP_ITEM_BYTES;
	assert_int_equal(session_raw_read(s, KEY, &raw), KVD_OK);
	e->table.welcome.table_bytes--;
	assert_int_equal(session_raw_read(s, KEY, &raw), KVD_ETOOBIG);
	e->table.welcome.table_bytes = LAYOUT_TABLE_BYTES_MAX;
	put_item(OP_ITEM_BYTES + 1);
	assert_int_equal(session_raw_read(s, KEY, &raw), KVD_ETOOBIG);
	assert_int_equal(session_raw_read(s, OTHER, &raw), KVD_NOT_FOUND);
	assert_int_equal(end->reads, 1);
}

/* The lock's word is read, and stays: a free one and one that somebody has. */
static void test_lock_and_item(void **state)
{
	(void)state;
	put_item(100);
	e->table.welcome.table_rkey = 9;
	for (uint64_t word = 0; word < 2; word++) {
		*word_of_key() = word;
		memset(&raw, 0xff, sizeof raw);
		assert_int_equal(session_raw_cas(s, KEY, &raw), KVD_OK);
		assert_int_equal(raw.count, 1);
		assert_int_equal(session_raw_run(&raw), KVD_OK);
		memset(&raw, 0xff, sizeof raw);
		assert_int_equal(session_raw_lock_read(s, KEY, &raw), KVD_OK);
		assert_int_equal(raw.count, 2);
		assert_int_equal(raw.wr[0].opcode, IBV_WR_ATOMIC_CMP_AND_SWP);
		assert_int_equal(raw.wr[0].wr.atomic.rkey, 1);
		assert_int_equal(raw.sge[0].length, 8);
		assert_int_equal(raw.wr[1].wr.rdma.rkey, 9);
		*(uint64_t *)(uintptr_t)raw.sge[0].addr = 99;
		assert_int_equal(session_raw_run(&raw), KVD_OK);
		assert_int_equal(*(uint64_t *)(uintptr_t)raw.sge[0].addr, word);
		assert_int_equal(*word_of_key(), word);
		assert_memory_equal((void *)(uintptr_t)raw.sge[1].addr, end->bytes->base + OFFSET, 100);
	}
	assert_int_equal(end->reads, 2);
	assert_int_equal(session_raw_lock_read(s, OTHER, &raw), KVD_NOT_FOUND);
}

/* It is as long as a PUT's, and not counted. */
static void test_message(void **state)
{
	const struct kvd_counters before = e->counters;
	const size_t most = WIRE_MESSAGE_BYTES_MAX - sizeof(struct wire_request);

	(void)state;
	assert_int_equal(session_raw_message(s, 3, most - 3, &raw), KVD_OK);
	assert_memory_equal(&e->counters, &before, sizeof before);
	assert_int_equal(session_raw_run(&raw), KVD_OK);
	assert_int_equal(end->asked.op, WIRE_PING);
	assert_int_equal(end->asked.value_bytes, most);
	assert_int_equal(session_raw_message(s, 3, most - 2, &raw), KVD_ETOOBIG);
	assert_int_equal(end->messages, 1);
	assert_int_equal(e->in_flight, 0);
}

/* Nothing else is under way with it. */
static void test_operations_in_flight(void **state)
{
	static char tag;

	(void)state;
	put_item(100);
	end->answer = NULL;
	assert_int_equal(kvd_submit_put(s, KEY, "v", 1, &tag), KVD_OK);
	assert_int_equal(session_raw_read(s, KEY, &raw), KVD_EINVAL);
	assert_int_equal(session_raw_cas(s, KEY, &raw), KVD_EINVAL);
	assert_int_equal(session_raw_lock_read(s, KEY, &raw), KVD_EINVAL);
	assert_int_equal(session_raw_message(s, 3, 1, &raw), KVD_EINVAL);
	assert_int_equal(begin_long(100, sizeof buffer), KVD_EINVAL);
	session_raw_end(&raw);
	assert_int_equal(registered, 0);
	assert_int_equal(e->in_flight, 1);
}

/* A completion may take long, but not longer than a call. */
static void test_waits(void **state)
{
	(void)state;
	put_item(100);
	end->delay = 70000;
	assert_int_equal(session_raw_read(s, KEY, &raw), KVD_OK);
	assert_int_equal(session_raw_run(&raw), KVD_OK);
	end->delay = 0;
	end->is_hung = true;
	e->time.limit_ns = 1000000;
	assert_int_equal(session_raw_read(s, KEY, &raw), KVD_OK);
	assert_int_equal(session_raw_run(&raw), KVD_ETIMEDOUT);
	must_say("here did not answer a raw request");
	assert_false(health_is_usable(&e->health));
}

static void test_failed(void **state)
{
	(void)state;
	put_item(100);
	assert_int_equal(session_raw_read(s, KEY, &raw), KVD_OK);
	end->status = IBV_WC_RETRY_EXC_ERR;
	assert_int_equal(session_raw_run(&raw), KVD_ECONNECT);
	must_say("a raw request to here failed");
	assert_false(health_is_usable(&e->health));
}

#define WITH_VERBS(name) cmocka_unit_test_setup_teardown(name, set_up_verbs, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_VERBS(test_long_item),
		WITH_VERBS(test_long_item_refused),
		TEST(test_item),
		TEST(test_lock_and_item),
		TEST(test_message),
		WITH_VERBS(test_operations_in_flight),
		TEST(test_waits),
		TEST(test_failed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
