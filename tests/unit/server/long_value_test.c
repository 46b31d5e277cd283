/* SPDX-License-Identifier: BSD-2-Clause */
/* Values that are too long for a message: kvd READs them from its client, and pins them for it. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/hash.h"
#include "server/worker/request/pinned.h"
#include "server/worker/request/pull.h"
#include "tests/unit/server/one_peer.h"

#define PINNED_S (PINNED_NS / 1000000000 + 1)

static atomic_uint later_s; /* than it is, by kvd's clock */

int clock_gettime(clockid_t clock, struct timespec *time)
{
	int rc = (int)syscall(SYS_clock_gettime, clock, time);

	time->tv_sec += later_s;
	return rc;
}

/* To kvd: as long as a reader has a value for goes by. */
static void let_it_lapse(int number)
{
	(void)number;
	later_s += PINNED_S;
}

static int begin(void **state)
{
	(void)state;
	kvd_start(&kvd, (const char *const[]){ "--memory", "32M", "--workers", "2", "--slow", "1",
					       "--log-level", "error", "--handshakes", "0", NULL });
	return 0;
}

/* The setup of each test: it begins when nothing is left of the peers of those before it, whose end kvd
 * notices later. */
static int enter_alone(void **state)
{
	static uint64_t empty_bytes; /* used in the first test, of a table without a key */
	int rc = enter(state);

	if (!empty_bytes)
		empty_bytes = peer_stat(&peer, "memory.used_bytes");
	for (uint64_t end = raw_now_ms() + PEER_PATIENCE_MS;
	     peer_stat(&peer, "connections") > 1 || peer_stat(&peer, "memory.pinned_bytes") ||
	     peer_stat(&peer, "memory.used_bytes") > empty_bytes;)
		assert_true(raw_now_ms() < end);
	return rc;
}

/* What the peer lends for its values; kvd reads what it holds before that. */
static uint8_t *lent(void)
{
	return peer.lent + LAYOUT_HELD_MAX * sizeof *peer.held;
}

static void fill(size_t bytes, unsigned seed)
{
	for (size_t i = 0; i < bytes; i++)
		lent()[i] = (uint8_t)(i * 31 + i / 4096 + seed);
}

static struct wire_segment segment(size_t at, uint64_t bytes)
{
	return (struct wire_segment){ .addr = (uintptr_t)lent() + at, .bytes = bytes,
				      .rkey = peer.lent_mr->rkey };
}

static struct wire_request pull_of(enum wire_op op, const char *key, uint64_t bytes, unsigned count)
{
	return (struct wire_request){ .op = (uint8_t)op, .flags = WIRE_PULL,
				      .key_bytes = (uint16_t)strlen(key), .value_bytes = bytes,
				      .segments = count, .value_checksum = hash_bytes(lent(), bytes) };
}

/* The address of what the last reply's word names. */
static uint64_t place(void)
{
	const struct wire_welcome *w = &peer.c.welcome;

	return w->table_addr +
	       layout_word_offset(peer.reply.word, layout_unit_mask(w->table_bytes));
}

static void get_pinned(const char *key, size_t bytes)
{
	assert_int_equal(ask(GET, key, NULL, 0), WIRE_OK);
	assert_int_equal(peer.reply.value_bytes, bytes);
	assert_true(peer.reply.flags & WIRE_PINNED);
}

/* READs what was lent as the value of an item. */
static void expect_lent_at(uint64_t addr, const char *key, size_t bytes)
{
	uint64_t at = addr + offsetof(struct layout_item, data) + strlen(key);

	for (size_t done = 0; done < bytes;) {
		uint32_t n = bytes - done < RAW_REACH ? (uint32_t)(bytes - done) : RAW_REACH;
		assert_int_equal(raw_reach(&peer.c, IBV_WR_RDMA_READ, at + done,
					   peer.c.welcome.table_rkey, n),
				 IBV_WC_SUCCESS);
		assert_memory_equal(peer.raw.reach, lent() + done, n);
		done += n;
	}
}

/* A GET of a long value is told where it is, which is READ. */
static void expect_lent(const char *key, size_t bytes)
{
	get_pinned(key, bytes);
	expect_lent_at(place(), key, bytes);
	assert_int_equal(ask(RELEASE, NULL, NULL, .version = peer.reply.version), WIRE_OK);
}

/* The state word there. */
static uint64_t state_at(uint64_t addr)
{
	uint64_t word;

	assert_int_equal(raw_reach(&peer.c, IBV_WR_RDMA_READ, addr, peer.c.welcome.table_rkey,
				   sizeof word),
			 IBV_WC_SUCCESS);
	memcpy(&word, peer.raw.reach, sizeof word);
	return word;
}

static void put_lent(const char *key, size_t bytes)
{
	struct wire_request q = pull_of(WIRE_PUT, key, bytes, 1);
	struct wire_segment one = segment(0, bytes);

	assert_int_equal(peer_ask(&peer, &q, key, &one), WIRE_OK);
}

static void test_pull(void **state)
{
	size_t bytes = 3u << 20; /* several READs */
	struct wire_request q;
	struct wire_segment one;

	(void)state;
	fill(bytes, 0);
	q = pull_of(WIRE_PUT, "long", bytes, 1);
	one = segment(0, bytes);
	assert_int_equal(peer_ask(&peer, &q, "long", &one), WIRE_OK);
	assert_true(peer.reply.version);
	expect_lent("long", bytes);
	assert_true(peer_stat(&peer, "pulls") >= 1);
	assert_true(peer_stat(&peer, "pull_bytes") >= bytes);
}

/* A place that was used is used again: there are so many, and more values come one by one. */
static void test_pull_after_pull(void **state)
{
	(void)state;
	fill(10000, 4);
	for (unsigned i = 0; i < 2 * PULLS; i++)
		put_lent("again", 10000);
	expect_lent("again", 10000);
}

static void test_pull_pieces(void **state)
{
	struct wire_segment pieces[WIRE_SEGMENTS_MAX];
	size_t at = 0, lengths[3] = { 1, 10000, 77 };
	struct wire_request q;

	(void)state;
	fill(WIRE_SEGMENTS_MAX * 10000, 1);
	for (unsigned i = 0; i < WIRE_SEGMENTS_MAX; i++) {
		pieces[i] = segment(at, lengths[i % 3]);
		at += lengths[i % 3];
	}
	q = pull_of(WIRE_PUT, "pieces", at, WIRE_SEGMENTS_MAX);
	assert_int_equal(peer_ask(&peer, &q, "pieces", pieces), WIRE_OK);
	expect_lent("pieces", at);
}

static void test_pull_append(void **state)
{
	struct wire_segment half;
	struct wire_request q;

	(void)state;
	fill(20000, 2);
	q = pull_of(WIRE_APPEND, "log", 12000, 1);
	half = segment(0, 12000);
	assert_int_equal(peer_ask(&peer, &q, "log", &half), WIRE_OK);
	q = pull_of(WIRE_APPEND, "log", 8000, 1);
	q.value_checksum = hash_bytes(lent() + 12000, 8000);
	half = segment(12000, 8000);
	assert_int_equal(peer_ask(&peer, &q, "log", &half), WIRE_OK);
	expect_lent("log", 20000);
}

/* To a value that is too long for one go, and by one; the answer is as of any append. */
static void test_long_append(void **state)
{
	size_t bytes = 3u << 20;
	struct wire_segment one = segment(0, bytes);
	struct wire_request q;

	(void)state;
	fill(bytes, 0);
	q = pull_of(WIRE_APPEND, "long", bytes, 1);
	assert_int_equal(peer_ask(&peer, &q, "long", &one), WIRE_OK); /* a new key */
	assert_true(peer.reply.version && peer.reply.bucket != ~0ull && peer.reply.word);
	expect_lent("long", bytes);
	memcpy(lent() + bytes, "tail", 4);
	assert_int_equal(ask(APPEND, "long", "tail", 0), WIRE_OK);
	assert_int_equal(peer.reply.value_bytes, bytes + 4);
	uint64_t version = peer.reply.version;
	expect_lent("long", bytes + 4);
	assert_int_equal(ask(APPEND, "long", "x", .flags = WIRE_IF_VERSION, .version = version + 1),
			 WIRE_CONDITION);
	assert_int_equal(peer.reply.version, version);
	assert_int_equal(ask(TOUCH, "long", NULL, .ttl_ms = 3600000), WIRE_OK);
	assert_true(peer.reply.version > version);
	expect_lent("long", bytes + 4);
	assert_int_equal(ask(DELETE, "long", NULL, 0), WIRE_OK);
}

/* One that hangs up meanwhile is through with it. */
static void test_long_append_hang_up(void **state)
{
	struct wire_request q = { .op = WIRE_APPEND, .key_bytes = 4, .value_bytes = 1 };
	size_t bytes = 3u << 20;
	struct peer other;

	(void)state;
	fill(bytes, 0);
	put_lent("long", bytes);
	uint64_t used = peer_stat(&peer, "memory.used_bytes");
	for (unsigned i = 0; i < 10; i++) {
		peer_enter(&other, &kvd);
		assert_true(peer_say(&other, &q, "long", "x"));
		peer_leave(&other);
	}
	for (uint64_t end = raw_now_ms() + PEER_PATIENCE_MS; peer_stat(&peer, "connections") > 1;)
		assert_true(raw_now_ms() < end);
	assert_true(peer_stat(&peer, "memory.used_bytes") <= used + 2 * bytes);
}

static void test_pull_refused(void **state)
{
	struct wire_request q;
	struct wire_segment one;

	(void)state;
	fill(10000, 3);
	one = segment(0, 10000);
	q = pull_of(WIRE_PUT, "k", 10000, 1);
	q.value_checksum++;
	assert_int_equal(peer_ask(&peer, &q, "k", &one), WIRE_EPULL);
	/* Pieces that are shorter, longer, or empty. */
	q = pull_of(WIRE_PUT, "k", 10000, 1);
	one.bytes = 9999;
	assert_int_equal(peer_ask(&peer, &q, "k", &one), WIRE_EINVALID);
	one.bytes = 10001;
	assert_int_equal(peer_ask(&peer, &q, "k", &one), WIRE_EINVALID);
	one.bytes = 0;
	assert_int_equal(peer_ask(&peer, &q, "k", &one), WIRE_EINVALID);
	/* Two whose sum is right, of 64 bits. */
	struct wire_segment two[2] = { segment(0, 10001), segment(0, ~0ull) };
	q.segments = 2;
	assert_int_equal(peer_ask(&peer, &q, "k", two), WIRE_EINVALID);
	q.segments = 1;
	/* More than any value, more than there is memory. */
	q.value_bytes = LAYOUT_VALUE_BYTES_MAX + 1;
	assert_int_equal(peer_ask(&peer, &q, "k", &one), WIRE_ETOOBIG);
	q.op = WIRE_APPEND;
	assert_int_equal(peer_ask(&peer, &q, "k", &one), WIRE_ETOOBIG);
	q.op = WIRE_PUT;
	q.value_bytes = 64 << 20;
	assert_int_equal(peer_ask(&peer, &q, "k", &one), WIRE_EMEMORY);
	assert_int_equal(ask(GET, "k", NULL, 0), WIRE_NOT_FOUND);
	/* The conditions are looked at when it is there. */
	assert_int_equal(ask(PUT, "k", "short", 0), WIRE_OK);
	q = pull_of(WIRE_PUT, "k", 10000, 1);
	q.flags |= WIRE_IF_ABSENT;
	one = segment(0, 10000);
	assert_int_equal(peer_ask(&peer, &q, "k", &one), WIRE_CONDITION);
	expect_text("k", "short");
}

/* kvd's READ of what is not lent breaks the connection, and changes nothing. */
static void test_pull_not_lent(void **state)
{
	struct wire_request q = pull_of(WIRE_PUT, "k", 10000, 1);
	struct wire_segment one = segment(0, 10000);
	struct peer other;

	(void)state;
	one.rkey ^= 0x5555;
	assert_true(peer_say(&peer, &q, "k", &one));
	assert_true(peer_is_ended(&peer));
	peer_enter(&other, &kvd);
	assert_int_equal(peer_ask_text(&other, (struct wire_request){ .op = WIRE_GET }, "k", NULL),
			 WIRE_NOT_FOUND);
	peer_leave(&other);
}

/* Who goes while kvd READs: nothing is left of it, and kvd goes on. */
static void test_pull_hang_up(void **state)
{
	size_t bytes = 3u << 20;

	(void)state;
	for (int i = 0; i < 5; i++) {
		struct wire_request q = pull_of(WIRE_PUT, "k", bytes, 1);
		struct wire_segment one = segment(0, bytes);
		assert_true(peer_say(&peer, &q, "k", &one));
		uint64_t id = peer.c.welcome.connection_id;
		peer_leave(&peer);
		peer_enter(&peer, &kvd);
		assert_true(peer.c.welcome.connection_id > id);
	}
	fill(bytes, 4);
	struct wire_request q = pull_of(WIRE_PUT, "k", bytes, 1);
	struct wire_segment one = segment(0, bytes);
	assert_int_equal(peer_ask(&peer, &q, "k", &one), WIRE_OK);
	expect_lent("k", bytes);
}

/* The copy of a GET is its own: a change does not change it. */
static void test_pinned(void **state)
{
	char *text = malloc(8001);

	(void)state;
	memset(text, 'a', 8000);
	text[8000] = '\0';
	assert_int_equal(ask(PUT, "k", text, 0), WIRE_OK);
	expect_text("k", text); /* fits a message */
	memcpy(lent(), text, 8000);
	struct wire_request q = pull_of(WIRE_APPEND, "k", 8000, 1);
	struct wire_segment one = segment(0, 8000);
	assert_int_equal(peer_ask(&peer, &q, "k", &one), WIRE_OK);
	memcpy(lent() + 8000, text, 8000);
	expect_lent("k", 16000);
	/* A GET costs no memory, however many of them there are. */
	uint64_t used = peer_stat(&peer, "memory.used_bytes");
	for (int i = 0; i < 4000; i++)
		get_pinned("k", 16000);
	assert_int_equal(peer_stat(&peer, "memory.used_bytes"), used);
	free(text);
}

/* Key "k", of so many bytes, is being READ: where it is, and its version. */
static uint64_t pin(size_t bytes, uint64_t *version)
{
	fill(bytes, 0);
	put_lent("k", bytes);
	get_pinned("k", bytes);
	*version = peer.reply.version;
	return place();
}

/* What was pinned stays while it is READ, whatever becomes of the key. */
static void test_pinned_and_replaced(void **state)
{
	const size_t bytes = 1u << 20;
	uint64_t version, at = pin(bytes, &version);

	(void)state;
	assert_int_equal(ask(PUT, "k", "another", 0), WIRE_OK);
	assert_int_equal(ask(DELETE, "k", NULL, 0), WIRE_OK);
	if (layout_state_version(state_at(at)) != version)
		fail_msg("an item was freed while it was pinned");
	expect_lent_at(at, "k", bytes);
	assert_true(peer_stat(&peer, "memory.pinned_bytes") >= bytes);
	/* Of another GET: it is not given back by that. */
	assert_int_equal(ask(RELEASE, NULL, NULL, .version = version + 1), WIRE_OK);
	assert_int_equal(layout_state_version(state_at(at)), version);
	assert_int_equal(ask(RELEASE, NULL, NULL, .version = version), WIRE_OK);
	assert_int_equal(peer_stat(&peer, "memory.pinned_bytes"), 0);
	assert_int_equal(layout_state_version(state_at(at)), 0);
}

/* A sixteenth of the table for what nobody has any more but readers. */
static void test_pinned_have_a_limit(void **state)
{
	const size_t bytes = 3u << 20;
	uint64_t version, at = pin(bytes, &version);
	struct peer other;

	(void)state;
	assert_int_equal(ask(DELETE, "k", NULL, 0), WIRE_OK);
	assert_int_equal(peer_stat(&peer, "memory.pinned_bytes"), 0);
	assert_int_not_equal(layout_state_version(state_at(at)), version);
	/* One whose connection ends is given back, too. */
	put_lent("k", bytes / 3);
	peer_enter(&other, &kvd);
	assert_int_equal(peer_ask_text(&other, (struct wire_request){ .op = WIRE_GET }, "k", NULL),
			 WIRE_OK);
	assert_int_equal(ask(DELETE, "k", NULL, 0), WIRE_OK);
	assert_true(peer_stat(&peer, "memory.pinned_bytes") > bytes / 3);
	peer_leave(&other);
	for (uint64_t end = raw_now_ms() + PEER_PATIENCE_MS; peer_stat(&peer, "memory.pinned_bytes");)
		assert_true(raw_now_ms() < end);
}

/* Who takes for ever to READ it has it for so long: then the memory is for others. */
static void test_pinned_lapse(void **state)
{
	const size_t bytes = 1u << 20;
	uint64_t version, at = pin(bytes, &version);

	(void)state;
	assert_int_equal(ask(DELETE, "k", NULL, 0), WIRE_OK);
	assert_true(peer_stat(&peer, "memory.pinned_bytes") >= bytes);
	assert_int_equal(layout_state_version(state_at(at)), version);
	assert_int_equal(kill(kvd.pid, SIGUSR1), 0);
	for (uint64_t end = raw_now_ms() + PINNED_NS / 2000000; peer_stat(&peer, "memory.pinned_bytes");)
		assert_true(raw_now_ms() < end);
	assert_int_not_equal(layout_state_version(state_at(at)), version);
}

int main(int argc, char **argv)
{
	signal(SIGUSR1, let_it_lapse);
	kvd_be(argc, argv);
#define TEST(name) cmocka_unit_test_setup_teardown(name, enter_alone, leave_empty)
	const struct CMUnitTest tests[] = {
		TEST(test_pull), TEST(test_pull_pieces), TEST(test_pull_append), TEST(test_long_append),
		TEST(test_long_append_hang_up), TEST(test_pull_refused), TEST(test_pull_not_lent),
		TEST(test_pull_hang_up), TEST(test_pinned), TEST(test_pinned_and_replaced),
		TEST(test_pinned_have_a_limit), TEST(test_pinned_lapse), TEST(test_pull_after_pull),
	};

	return GROUP_RUN(tests, begin, end);
}
