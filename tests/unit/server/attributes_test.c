/* SPDX-License-Identifier: BSD-2-Clause */
/* What is kept beside a value: flags, signs, when it expires; and what it is computed by. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "common/hash.h"
#include "tests/unit/server/one_peer.h"

#define FLAGS 0xfedcba98u
#define HOUR_MS 3600000u

static int begin(void **state)
{
	(void)state;
	kvd_start(&kvd, (const char *const[]){ "--memory", "32M", "--workers", "2", "--log-level",
					       "error", "--handshakes", "0", NULL });
	return 0;
}

static int leave(void **state)
{
	(void)state;
	peer_leave(&peer);
	return 0;
}

/* What a GET by message tells, of the value and of the head alone. */
static void expect_with(const char *key, uint32_t flags, unsigned signs, bool expires)
{
	static const uint32_t how[] = { 0, WIRE_HEAD };

	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(ask(GET, key, NULL, .flags = how[i]), WIRE_OK);
		assert_int_equal(peer.reply.item_flags, flags);
		assert_int_equal(peer.reply.item_signs, signs);
		assert_int_equal(peer.reply.word != 0, expires);
	}
}

static uint64_t unix_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static void test_flags(void **state)
{
	(void)state;
	assert_int_equal(ask(PUT, "f", "a", .item_flags = FLAGS, .ttl_ms = HOUR_MS), WIRE_OK);
	expect_with("f", FLAGS, 0, true);
	expect_text("f", "a");
	/* What is computed from the old value keeps them. */
	assert_int_equal(ask(APPEND, "f", "b", .item_flags = 7), WIRE_OK);
	assert_int_equal(ask(PREPEND, "f", "0", .item_flags = 7), WIRE_OK);
	expect_text("f", "0ab");
	expect_with("f", FLAGS, 0, true);
	assert_int_equal(ask(TOUCH, "f", NULL, 0), WIRE_OK);
	expect_with("f", FLAGS, 0, false);
	/* A put gives its own, in place and elsewhere. */
	assert_int_equal(ask(PUT, "f", "0ac", .item_flags = 1), WIRE_OK);
	expect_with("f", 1, 0, false);
	assert_int_equal(ask(PUT, "f", "a much longer value, which stands elsewhere", 0), WIRE_OK);
	expect_with("f", 0, 0, false);
	/* A new key has those of what makes it. */
	assert_int_equal(ask(PREPEND, "new", "x", .item_flags = FLAGS), WIRE_OK);
	expect_with("new", FLAGS, 0, false);
}

static void test_signs(void **state)
{
	uint64_t version;

	(void)state;
	assert_int_equal(ask(PUT, "s", "old", .item_flags = FLAGS, .ttl_ms = HOUR_MS), WIRE_OK);
	assert_int_equal(ask(TOUCH, "s", NULL, .flags = WIRE_SIGNS | WIRE_STALE | WIRE_KEEP_TTL),
			 WIRE_OK);
	version = peer.reply.version;
	expect_with("s", FLAGS, LAYOUT_STALE, true);
	expect_text("s", "old");
	/* Of two who claim it one wins. */
	assert_int_equal(ask(TOUCH, "s", NULL, .version = version,
			     .flags = WIRE_IF_VERSION | WIRE_SIGNS | WIRE_STALE | WIRE_CLAIMED |
				      WIRE_KEEP_TTL), WIRE_OK);
	uint64_t claim = peer.reply.version;
	assert_true(claim > version);
	assert_int_equal(ask(TOUCH, "s", NULL, .version = version,
			     .flags = WIRE_IF_VERSION | WIRE_SIGNS | WIRE_STALE | WIRE_CLAIMED |
				      WIRE_KEEP_TTL), WIRE_CONDITION);
	assert_int_equal(peer.reply.version, claim);
	expect_with("s", FLAGS, LAYOUT_STALE | LAYOUT_CLAIMED, true);
	/* A touch without WIRE_SIGNS leaves them. */
	assert_int_equal(ask(TOUCH, "s", NULL, 0), WIRE_OK);
	expect_with("s", FLAGS, LAYOUT_STALE | LAYOUT_CLAIMED, false);
	assert_int_equal(ask(PUT, "s", "new", .version = peer.reply.version,
			     .flags = WIRE_IF_VERSION), WIRE_OK);
	expect_with("s", 0, 0, false);
	assert_int_equal(ask(PUT, "s", "", .flags = WIRE_CLAIMED), WIRE_OK);
	expect_with("s", 0, LAYOUT_CLAIMED, false);
}

/* A put of who was overtaken. */
static void late(const char *value)
{
	uint64_t version;

	assert_int_equal(ask(PUT, "late", "1", 0), WIRE_OK);
	version = peer.reply.version;
	assert_int_equal(ask(PUT, "late", "2", .ttl_ms = HOUR_MS, .flags = WIRE_CLAIMED), WIRE_OK);
	assert_int_equal(ask(PUT, "late", value, .version = version, .flags = WIRE_IF_VERSION),
			 WIRE_CONDITION);
	assert_int_equal(ask(PUT, "late", value, .version = peer.reply.version + 1000,
			     .flags = WIRE_IF_VERSION | WIRE_OR_STALE), WIRE_CONDITION);
	assert_int_equal(ask(PUT, "late", value, .version = version, .item_flags = FLAGS,
			     .flags = WIRE_IF_VERSION | WIRE_OR_STALE), WIRE_OK);
	expect_text("late", value);
	expect_with("late", FLAGS, LAYOUT_STALE | LAYOUT_CLAIMED, true);
	version = peer.reply.version;
	assert_int_equal(ask(PUT, "late", value, .version = version, .ttl_ms = 0,
			     .flags = WIRE_IF_VERSION | WIRE_OR_STALE), WIRE_OK);
	expect_with("late", 0, 0, false);
	assert_int_equal(ask(DELETE, "late", NULL, 0), WIRE_OK);
	assert_int_equal(ask(PUT, "late", value, .version = version,
			     .flags = WIRE_IF_VERSION | WIRE_OR_STALE), WIRE_CONDITION);
}

static void test_late(void **state)
{
	(void)state;
	late("3");
	late("a value that is so long that it does not fit into the place of the old one");
}

/* A long value, whose item was made, and hashed, before the old one was looked at. */
static void test_late_pulled(void **state)
{
	enum { BYTES = 100000 };
	struct wire_segment segment = { (uintptr_t)peer.lent, BYTES, peer.lent_mr->rkey, 0 };
	struct wire_request q = { .op = WIRE_PUT, .key_bytes = 4, .value_bytes = BYTES,
				  .item_flags = FLAGS, .segments = 1, .version = 1,
				  .flags = WIRE_PULL | WIRE_IF_VERSION | WIRE_OR_STALE };

	(void)state;
	memset(peer.lent, 'x', BYTES);
	q.value_checksum = hash_bytes(peer.lent, BYTES);
	assert_int_equal(ask(PUT, "pull", "1", .ttl_ms = HOUR_MS), WIRE_OK);
	assert_int_equal(peer_ask(&peer, &q, "pull", &segment), WIRE_OK);
	assert_int_equal(ask(GET, "pull", NULL, .flags = WIRE_HEAD), WIRE_OK);
	assert_int_equal(peer.reply.value_bytes, BYTES);
	assert_int_equal(peer.reply.item_flags, FLAGS);
	assert_int_equal(peer.reply.item_signs, LAYOUT_STALE);
	assert_true(peer.reply.word);
	/* A put that keeps the expiry, and finds nothing to keep. */
	q.flags = WIRE_PULL | WIRE_KEEP_TTL;
	assert_int_equal(ask(DELETE, "pull", NULL, 0), WIRE_OK);
	assert_int_equal(peer_ask(&peer, &q, "pull", &segment), WIRE_OK);
	assert_int_equal(ask(GET, "pull", NULL, .flags = WIRE_HEAD), WIRE_OK);
	assert_int_equal(peer.reply.word, 0);
}

static void test_unix_time(void **state)
{
	uint64_t now = unix_ms();

	(void)state;
	assert_int_equal(ask(PUT, "u", "a", .ttl_ms = now + HOUR_MS, .flags = WIRE_UNIX), WIRE_OK);
	assert_int_equal(ask(GET, "u", NULL, 0), WIRE_OK);
	assert_in_range(peer.reply.word - peer.reply.clock_ms, HOUR_MS - 60000, HOUR_MS);
	assert_int_equal(ask(TOUCH, "u", NULL, .ttl_ms = now + 2 * HOUR_MS, .flags = WIRE_UNIX),
			 WIRE_OK);
	assert_int_equal(ask(GET, "u", NULL, 0), WIRE_OK);
	assert_in_range(peer.reply.word - peer.reply.clock_ms, 2 * HOUR_MS - 60000, 2 * HOUR_MS);
	/* A put keeps it if it says so. */
	assert_int_equal(ask(PUT, "u", "b", .flags = WIRE_KEEP_TTL), WIRE_OK);
	expect_with("u", 0, 0, true);
	/* One that is over: the key is absent then. */
	assert_int_equal(ask(PUT, "u", "c", .ttl_ms = now - 1, .flags = WIRE_UNIX), WIRE_OK);
	assert_int_equal(ask(GET, "u", NULL, 0), WIRE_NOT_FOUND);
	assert_int_equal(ask(PUT, "u", "d", 0), WIRE_OK);
	assert_int_equal(ask(TOUCH, "u", NULL, .ttl_ms = 0, .flags = WIRE_UNIX), WIRE_OK);
	assert_int_equal(ask(GET, "u", NULL, 0), WIRE_NOT_FOUND);
	/* However late, it is no more than a hundred years. */
	assert_int_equal(ask(PUT, "u", "e", .ttl_ms = WIRE_UNIX_MS_MAX, .flags = WIRE_UNIX), WIRE_OK);
	assert_int_equal(ask(GET, "u", NULL, 0), WIRE_OK);
	assert_in_range(peer.reply.word - peer.reply.clock_ms, WIRE_TTL_MS_MAX - 60000,
			WIRE_TTL_MS_MAX);
}

/* How many keys there are that expire, as the figures tell: each counts once, while it has a time. */
static void test_keys_that_expire(void **state)
{
	uint64_t before = peer_stat(&peer, "expiry.keys");

	(void)state;
	assert_int_equal(ask(PUT, "x1", "a", .ttl_ms = HOUR_MS), WIRE_OK);
	assert_int_equal(ask(PUT, "x2", "a", 0), WIRE_OK);
	assert_int_equal(peer_stat(&peer, "expiry.keys"), before + 1);
	assert_int_equal(ask(TOUCH, "x2", NULL, .ttl_ms = HOUR_MS), WIRE_OK);
	assert_int_equal(ask(PUT, "x1", "b", .ttl_ms = 2 * HOUR_MS), WIRE_OK);
	assert_int_equal(peer_stat(&peer, "expiry.keys"), before + 2);
	assert_int_equal(ask(TOUCH, "x1", NULL, 0), WIRE_OK);
	assert_int_equal(peer_stat(&peer, "expiry.keys"), before + 1);
	assert_int_equal(ask(DELETE, "x2", NULL, 0), WIRE_OK);
	assert_int_equal(ask(DELETE, "x1", NULL, 0), WIRE_OK);
	assert_int_equal(peer_stat(&peer, "expiry.keys"), before);
}

static int count(uint32_t flags, uint64_t delta, uint64_t initial)
{
	struct wire_incr value = { (int64_t)delta, (int64_t)initial };
	struct wire_request q = { .op = WIRE_INCR, .flags = WIRE_UNSIGNED | flags, .key_bytes = 1,
				  .value_bytes = sizeof value, .item_flags = 5 };

	return peer_ask(&peer, &q, "n", &value);
}

static void test_unsigned(void **state)
{
	static const char *const not_numbers[] = { "", "x", "1x", "+1", "-1", " 1", "1 1", " ",
						   "18446744073709551616", "1\t" };

	(void)state;
	assert_int_equal(count(0, 1, 1), WIRE_NOT_FOUND);
	assert_int_equal(count(WIRE_INITIAL, 3, 98), WIRE_OK);
	assert_int_equal(peer.reply.value_bytes, 98); /* itself, whatever the delta */
	assert_int_equal(count(0, 3, 0), WIRE_OK);
	assert_int_equal(peer.reply.value_bytes, 101);
	expect_text("n", "101");
	expect_with("n", 5, 0, false);
	assert_int_equal(count(WIRE_DOWN, 95, 0), WIRE_OK);
	assert_int_equal(peer.reply.value_bytes, 6);
	expect_text("n", "6  ");
	assert_int_equal(count(0, 7, 0), WIRE_OK);
	expect_text("n", "13 ");
	assert_int_equal(count(WIRE_DOWN, 14, 0), WIRE_OK);
	assert_int_equal(peer.reply.value_bytes, 0);
	expect_text("n", "0  ");
	assert_int_equal(count(0, UINT64_MAX, 0), WIRE_OK);
	expect_text("n", "18446744073709551615");
	assert_int_equal(count(0, 10, 0), WIRE_OK);
	assert_int_equal(peer.reply.value_bytes, 9);
	expect_text("n", "9                   ");
	assert_int_equal(ask(PUT, "n", "007", 0), WIRE_OK);
	assert_int_equal(count(0, 1, 0), WIRE_OK);
	expect_text("n", "8  ");
	for (unsigned i = 0; i < sizeof not_numbers / sizeof not_numbers[0]; i++) {
		assert_int_equal(ask(PUT, "n", not_numbers[i], 0), WIRE_OK);
		assert_int_equal(count(0, 1, 0), WIRE_ENUMBER);
		expect_text("n", not_numbers[i]);
	}
}

int main(int argc, char **argv)
{
	kvd_be(argc, argv);
#define TEST(name) cmocka_unit_test_setup_teardown(name, enter, leave)
	const struct CMUnitTest tests[] = {
		TEST(test_flags), TEST(test_signs), TEST(test_late), TEST(test_late_pulled),
		TEST(test_unix_time), TEST(test_keys_that_expire), TEST(test_unsigned),
	};

	return GROUP_RUN(tests, begin, end);
}
