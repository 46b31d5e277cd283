/* SPDX-License-Identifier: BSD-2-Clause */
/* Each request of wire.h as kvd answers it, and what it ends a connection for. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/unit/server/one_peer.h"

#define CREDITS 32 /* kvd's, where a client asks for none */

static struct timespec still; /* what kvd's clock says while it stands still */
static atomic_bool is_still;

int clock_gettime(clockid_t clock, struct timespec *time)
{
	if (clock != CLOCK_MONOTONIC || !is_still)
		return (int)syscall(SYS_clock_gettime, clock, time);
	*time = still;
	return 0;
}

/* To kvd. */
static void stop_or_go_on(int number)
{
	(void)number;
	if (!is_still)
		syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &still);
	is_still = !is_still;
}

static int begin(void **state)
{
	(void)state;
	kvd_start(&kvd, (const char *const[]){ "--memory", "32M", "--workers", "2", "--slow", "1",
					       "--log-level", "error", "--handshakes", "0", NULL });
	return 0;
}

static void test_welcome(void **state)
{
	const struct wire_welcome *w = &peer.c.welcome;

	(void)state;
	assert_int_equal(w->workers, 2);
	assert_int_equal(w->credits, CREDITS);
	assert_int_equal(w->role, ROLE_ADMIN);
	assert_int_equal(w->message_bytes_max, WIRE_MESSAGE_BYTES_MAX);
	assert_int_equal(w->hints_every, 0);
	assert_true(w->table_rkey && w->lock_rkey && w->stripes && w->connection_id);
	/* And what it says is so. */
	assert_int_equal(raw_reach(&peer.c, IBV_WR_RDMA_READ, w->table_addr, w->table_rkey, 64),
			 IBV_WC_SUCCESS);
	assert_int_equal(peer_lock_word(&peer, w->stripes - 1), 0);
}

static void test_put_get(void **state)
{
	(void)state;
	assert_int_equal(ask(GET, "k", NULL, 0), WIRE_NOT_FOUND);
	assert_int_equal(ask(PUT, "k", "one", 0), WIRE_OK);
	uint64_t version = peer.reply.version;
	assert_true(version && peer.reply.bucket != ~0ull && peer.reply.word);
	assert_true(peer.reply.clock_ms && peer.reply.buckets);
	expect_text("k", "one");
	assert_int_equal(peer.reply.version, version);
	assert_int_equal(ask(PUT, "k", "two", 0), WIRE_OK);
	assert_true(peer.reply.version > version);
	expect_text("k", "two");
	assert_int_equal(ask(GET, "k", NULL, .flags = WIRE_HEAD), WIRE_OK);
	assert_int_equal(peer.reply.value_bytes, 3);
	assert_int_equal(ask(GET, "none", NULL, .flags = WIRE_HEAD), WIRE_NOT_FOUND);
	assert_int_equal(ask(DELETE, "k", NULL, 0), WIRE_OK);
	assert_int_equal(ask(DELETE, "k", NULL, 0), WIRE_NOT_FOUND);
	assert_int_equal(ask(GET, "k", NULL, 0), WIRE_NOT_FOUND);
}

static void test_conditions(void **state)
{
	(void)state;
	assert_int_equal(ask(PUT, "k", "a", .flags = WIRE_IF_PRESENT), WIRE_CONDITION);
	assert_int_equal(ask(PUT, "k", "a", .flags = WIRE_IF_ABSENT), WIRE_OK);
	uint64_t version = peer.reply.version;
	assert_int_equal(ask(PUT, "k", "b", .flags = WIRE_IF_ABSENT), WIRE_CONDITION);
	assert_int_equal(peer.reply.version, version);
	assert_int_equal(ask(PUT, "k", "b", .flags = WIRE_IF_VERSION, .version = version + 1),
			 WIRE_CONDITION);
	assert_int_equal(peer.reply.version, version);
	expect_text("k", "a");
	assert_int_equal(ask(PUT, "k", "b", .flags = WIRE_IF_VERSION, .version = version), WIRE_OK);
	assert_int_equal(ask(DELETE, "k", NULL, .flags = WIRE_IF_VERSION, .version = version),
			 WIRE_CONDITION);
	expect_text("k", "b");
}

static void test_expiry(void **state)
{
	uint64_t end = raw_now_ms() + PEER_PATIENCE_MS;
	int status;

	(void)state;
	assert_int_equal(ask(PUT, "k", "a", .ttl_ms = 3600000), WIRE_OK);
	expect_text("k", "a");
	assert_int_equal(peer.reply.word - peer.reply.clock_ms <= 3600000, true);
	assert_int_equal(ask(TOUCH, "k", NULL, .ttl_ms = 1), WIRE_OK);
	while ((status = ask(GET, "k", NULL, 0)) == WIRE_OK && raw_now_ms() < end)
		;
	assert_int_equal(status, WIRE_NOT_FOUND);
	assert_int_equal(ask(TOUCH, "k", NULL, .ttl_ms = 1), WIRE_NOT_FOUND);
}

static int incr(const char *key, int64_t delta, int64_t initial, unsigned flags)
{
	struct wire_incr value = { delta, initial };
	struct wire_request q = { .op = WIRE_INCR, .flags = (uint8_t)flags,
				  .key_bytes = (uint16_t)strlen(key), .value_bytes = sizeof value };

	return peer_ask(&peer, &q, key, &value);
}

static void test_compute(void **state)
{
	(void)state;
	assert_int_equal(incr("n", 2, 40, 0), WIRE_NOT_FOUND);
	assert_int_equal(incr("n", 2, 40, WIRE_INITIAL), WIRE_OK);
	assert_int_equal(peer.reply.value_bytes, 42);
	assert_int_equal(incr("n", -43, 0, 0), WIRE_OK);
	assert_true((int64_t)peer.reply.value_bytes == -1);
	expect_text("n", "-1");
	assert_int_equal(incr("n", INT64_MIN, 0, 0), WIRE_ERANGE);
	expect_text("n", "-1");
	assert_int_equal(ask(APPEND, "n", "x", 0), WIRE_OK);
	expect_text("n", "-1x");
	assert_int_equal(incr("n", 1, 0, 0), WIRE_ENUMBER);
	assert_int_equal(ask(APPEND, "new", "y", 0), WIRE_OK);
	expect_text("new", "y");
	/* An operand of another length. */
	assert_int_equal(ask(INCR, "n", "short", 0), WIRE_EINVALID);
}

/* Builds a transaction; its length. */
static size_t add_txn(uint8_t *at, enum wire_txn_kind kind, uint64_t version, const char *key,
		      const char *value)
{
	struct wire_txn head = { .version = version, .kind = (uint8_t)kind,
				 .key_bytes = (uint16_t)strlen(key),
				 .value_bytes = (uint32_t)strlen(value) };

	memcpy(at, &head, sizeof head);
	memcpy(at + sizeof head, key, head.key_bytes);
	memcpy(at + sizeof head + head.key_bytes, value, head.value_bytes);
	return sizeof head + head.key_bytes + head.value_bytes;
}

static int txn(const uint8_t *text, size_t bytes, unsigned keys)
{
	struct wire_request q = { .op = WIRE_TXN, .version = keys, .value_bytes = bytes };

	return peer_ask(&peer, &q, NULL, text);
}

static void test_txn(void **state)
{
	uint8_t text[512];
	size_t n;

	(void)state;
	n = add_txn(text, WIRE_TXN_PUT, WIRE_TXN_ABSENT, "a", "1");
	n += add_txn(text + n, WIRE_TXN_PUT, WIRE_TXN_ANY, "b", "2");
	assert_int_equal(txn(text, n, 2), WIRE_OK);
	uint64_t version = peer.reply.version;
	expect_text("a", "1");
	expect_text("b", "2");
	/* One check fails: which, and nothing is done. */
	n = add_txn(text, WIRE_TXN_DELETE, WIRE_TXN_ANY, "a", "");
	n += add_txn(text + n, WIRE_TXN_CHECK, version, "b", "");
	assert_int_equal(txn(text, n, 2), WIRE_CONDITION);
	assert_int_equal(peer.reply.value_bytes, 1);
	expect_text("a", "1");
	n = add_txn(text, WIRE_TXN_DELETE, WIRE_TXN_ANY, "a", "");
	n += add_txn(text + n, WIRE_TXN_CHECK, version + 1, "b", "");
	assert_int_equal(txn(text, n, 2), WIRE_OK);
	assert_int_equal(ask(GET, "a", NULL, 0), WIRE_NOT_FOUND);
	/* What does not fit its message: more keys, fewer, none, too many. */
	assert_int_equal(txn(text, n, 3), WIRE_EINVALID);
	assert_int_equal(txn(text, n, 1), WIRE_EINVALID);
	assert_int_equal(txn(text, n, 0), WIRE_EINVALID);
	assert_int_equal(txn(text, n, LAYOUT_TXN_KEYS_MAX + 1), WIRE_EINVALID);
	n = add_txn(text, WIRE_TXN_DELETE, WIRE_TXN_ANY, "b", "value");
	assert_int_equal(txn(text, n, 1), WIRE_EINVALID);
	n = add_txn(text, WIRE_TXN_DELETE + 1, WIRE_TXN_ANY, "b", "");
	assert_int_equal(txn(text, n, 1), WIRE_EINVALID);
	expect_text("b", "2");
}

static void test_small_ones(void **state)
{
	uint32_t hints[2] = { 1, 2 };
	struct wire_request q = { .op = WIRE_HINTS, .value_bytes = sizeof hints };

	(void)state;
	assert_int_equal(ask(PING, NULL, NULL, 0), WIRE_OK);
	assert_int_equal(ask(PING, NULL, "some length", 0), WIRE_OK);
	assert_int_equal(ask(RELEASE, NULL, NULL, 0), WIRE_OK);
	assert_int_equal(ask(BACKUP, "/tmp/x", NULL, 0), WIRE_EUNSUPPORTED);
	/* Passed over where kvd is no cache. */
	assert_int_equal(peer_ask(&peer, &q, NULL, hints), WIRE_OK);
	uint64_t before = peer_stat(&peer, "failed");
	assert_int_equal(ask(BACKUP, "/tmp/x", NULL, 0), WIRE_EUNSUPPORTED);
	assert_int_equal(peer_stat(&peer, "failed"), before + 1);
}

/* ------------------------------------------------------------- pages of keys */

#define KEYS 3000u

static void put_many(void)
{
	char key[32];

	for (unsigned i = 0; i < KEYS; i++) {
		snprintf(key, sizeof key, "%s-%u", i % 3 ? "many" : "third", i);
		assert_int_equal(ask(PUT, key, "value", 0), WIRE_OK);
	}
}

/* Each key with the prefix once, in pages; how many pages. */
static unsigned list(const char *prefix, unsigned expected)
{
	struct wire_request q = { .op = WIRE_KEYS, .key_bytes = (uint16_t)strlen(prefix) };
	bool *seen = calloc(KEYS, sizeof *seen);
	unsigned pages = 0, count = 0;

	do {
		q.version = pages++ ? peer.reply.version : 0;
		assert_int_equal(peer_ask(&peer, &q, prefix, NULL), WIRE_OK);
		for (size_t at = 0; at < peer.reply.value_bytes;) {
			const struct wire_key *key = (const void *)(peer.payload + at);
			unsigned i;
			char text[32];
			assert_int_equal(key->value_bytes, 5);
			assert_in_range(key->key_bytes, strlen(prefix), sizeof text - 1);
			assert_memory_equal(key->key, prefix, strlen(prefix));
			snprintf(text, sizeof text, "%.*s", key->key_bytes, (const char *)key->key);
			assert_int_equal(sscanf(strchr(text, '-'), "-%u", &i), 1);
			assert_true(i < KEYS && !seen[i]);
			seen[i] = true;
			count++;
			at += sizeof *key + key->key_bytes;
		}
		assert_in_range(pages, 1, KEYS);
	} while (peer.reply.version);
	free(seen);
	assert_int_equal(count, expected);
	return pages;
}

static void test_keys(void **state)
{
	(void)state;
	put_many();
	assert_true(list("", KEYS) > 5);
	list("third", KEYS / 3);
	list("none", 0);
	assert_int_equal(peer_stat(&peer, "keys"), KEYS);
}

/* Pages of keys wait for other requests, and are executed one at a time: of pings that come behind
 * several of them, the last is answered before the last page.  A worker may have executed all
 * pages before it saw a ping, so of many rounds. */
static void test_keys_wait(void **state)
{
	struct wire_request keys = { .op = WIRE_KEYS }, ping = { .op = WIRE_PING };
	unsigned overtaken = 0, each = CREDITS / 2;

	(void)state;
	put_many();
	for (unsigned round = 0; round < 20; round++) {
		uint32_t first = peer.last_id + 1, last = 0;
		for (unsigned i = 0; i < each; i++)
			assert_true(peer_say(&peer, &keys, NULL, NULL));
		for (unsigned i = 0; i < each; i++)
			assert_true(peer_say(&peer, &ping, NULL, NULL));
		for (unsigned i = 0; i < 2 * each; i++) {
			assert_int_equal(peer_hear(&peer, PEER_PATIENCE_MS), WIRE_OK);
			last = peer.reply.request_id - first;
		}
		overtaken += last < each;
	}
	assert_in_range(overtaken, 1, 20);
}

static void test_flush(void **state)
{
	struct wire_request q = { .op = WIRE_FLUSH };
	unsigned pages = 0;

	(void)state;
	put_many();
	do {
		q.version = pages++ ? peer.reply.version : 0;
		assert_int_equal(peer_ask(&peer, &q, NULL, NULL), WIRE_OK);
	} while (peer.reply.version);
	assert_true(pages > 5);
	assert_int_equal(peer_stat(&peer, "keys"), 0);
	list("", 0);
}

/* --------------------------------------------------------------- others' news */

static void test_news(void **state)
{
	struct wire_news news;
	struct peer other;

	(void)state;
	peer_enter(&other, &kvd);
	assert_int_equal(ask(PUT, "own", "1", 0), WIRE_OK);
	assert_int_equal(peer_ask_text(&other, (struct wire_request){ .op = WIRE_PUT }, "k", "1"),
			 WIRE_OK);
	uint64_t place = other.reply.bucket << 8 | (other.reply.flags & WIRE_SLOT_MASK);
	assert_int_equal(ask(DELETE, "own", NULL, 0), WIRE_OK);
	memcpy(&news, peer.payload, sizeof news);
	assert_int_equal(news.place, place);
	assert_int_equal(news.word, other.reply.word);
	peer_leave(&other);
}

/* ------------------------------------------- what became of the last requests */

static int fate_of(const struct peer *former, uint64_t secret, uint32_t request)
{
	return ask(FATE, NULL, NULL, .version = former->c.welcome.connection_id,
		   .value_checksum = secret, .value_bytes = request);
}

static void test_fate(void **state)
{
	uint64_t end = raw_now_ms() + PEER_PATIENCE_MS;
	struct peer former;
	int status;

	(void)state;
	peer_enter(&former, &kvd);
	assert_int_equal(peer_ask_text(&former, (struct wire_request){ .op = WIRE_PUT }, "k", "1"),
			 WIRE_OK);
	uint32_t id = former.last_id;
	uint64_t version = former.reply.version;
	/* Another's: nothing is said, and nothing is done to it. */
	assert_int_equal(fate_of(&former, PEER_SECRET + 1, id), WIRE_EBUSY);
	assert_int_equal(peer_ask_text(&former, (struct wire_request){ .op = WIRE_PING }, NULL, NULL),
			 WIRE_OK);
	/* One's own is cut off first. */
	while ((status = fate_of(&former, PEER_SECRET, id)) == WIRE_EBUSY && raw_now_ms() < end)
		;
	assert_int_equal(status, WIRE_OK);
	assert_int_equal(peer.reply.word, WIRE_OK);
	assert_int_equal(peer.reply.version, version);
	assert_true(peer_is_ended(&former));
	assert_int_equal(fate_of(&former, PEER_SECRET, id + 1), WIRE_NOT_FOUND);
	assert_int_equal(fate_of(&former, PEER_SECRET + 1, id), WIRE_EUNSUPPORTED);
	/* Its own of this connection, and of one that never was. */
	assert_int_equal(fate_of(&peer, PEER_SECRET, 1), WIRE_EUNSUPPORTED);
	peer_leave(&former);
}

/* --------------------------------------------------------- malformed messages */

static const struct {
	const char *what;
	struct wire_request q;
	unsigned behind; /* bytes */
} malformed[] = {
	{ "no operation", { .op = 0 }, 0 },
	{ "none such", { .op = WIRE_OPS }, 0 },
	{ "a second hello", { .op = WIRE_HELLO }, 0 },
	{ "a key where none is", { .op = WIRE_PING, .key_bytes = 1 }, 1 },
	{ "no key where one is", { .op = WIRE_GET }, 0 },
	{ "too long a key", { .op = WIRE_GET, .key_bytes = LAYOUT_KEY_BYTES_MAX + 1 },
	  LAYOUT_KEY_BYTES_MAX + 1 },
	{ "a key behind the end", { .op = WIRE_GET, .key_bytes = 9 }, 8 },
	{ "more than is said", { .op = WIRE_GET, .key_bytes = 1 }, 2 },
	{ "a value behind the end", { .op = WIRE_PUT, .key_bytes = 1, .value_bytes = 9 }, 9 },
	{ "a huge value", { .op = WIRE_PUT, .key_bytes = 1, .value_bytes = UINT32_MAX }, 1 },
	{ "a long life", { .op = WIRE_PUT, .key_bytes = 1, .ttl_ms = WIRE_TTL_MS_MAX + 1 }, 1 },
	{ "a long wait", { .op = WIRE_LOCK, .flags = WIRE_UNIX, .ttl_ms = WIRE_UNIX_MS_MAX }, 0 },
	{ "a Unix time too late", { .op = WIRE_PUT, .key_bytes = 1, .flags = WIRE_UNIX,
				    .ttl_ms = WIRE_UNIX_MS_MAX + 1 }, 1 },
	{ "a foreign token", { .op = WIRE_PUT, .key_bytes = 1, .token = 5 }, 1 },
	{ "a pull of a GET", { .op = WIRE_GET, .flags = WIRE_PULL, .key_bytes = 1, .segments = 1,
			       .value_bytes = 1 }, 25 },
	{ "a pull of nothing", { .op = WIRE_PUT, .flags = WIRE_PULL, .key_bytes = 1, .segments = 1 },
	  25 },
	{ "no segments", { .op = WIRE_PUT, .flags = WIRE_PULL, .key_bytes = 1, .value_bytes = 9 }, 1 },
	{ "too many segments", { .op = WIRE_PUT, .flags = WIRE_PULL, .key_bytes = 1, .value_bytes = 99,
				 .segments = WIRE_SEGMENTS_MAX + 1 }, 1 + 17 * 24 },
	{ "half a segment", { .op = WIRE_PUT, .flags = WIRE_PULL, .key_bytes = 1, .value_bytes = 9,
			      .segments = 1 }, 13 },
};

/* Each ends the connection, counts, and does not harm others. */
static void test_malformed(void **state)
{
	uint8_t message[WIRE_MESSAGE_BYTES_MAX];
	uint64_t errors = peer_stat(&peer, "protocol_errors");
	struct peer bad;

	(void)state;
	for (unsigned i = 0; i < sizeof malformed / sizeof *malformed; i++) {
		memset(message, 'x', sizeof message);
		memcpy(message, &malformed[i].q, sizeof malformed[i].q);
		peer_enter(&bad, &kvd);
		assert_true(raw_send(&bad.c, message,
				     (uint32_t)sizeof malformed[i].q + malformed[i].behind));
		if (!peer_is_ended(&bad))
			fail_msg("%s is taken", malformed[i].what);
		peer_leave(&bad);
		assert_int_equal(peer_stat(&peer, "protocol_errors"), ++errors);
	}
}

static void test_too_short(void **state)
{
	uint64_t errors = peer_stat(&peer, "protocol_errors");
	struct wire_request q = { .op = WIRE_PING };
	struct peer bad;

	(void)state;
	for (uint32_t bytes = 0; bytes < sizeof q; bytes += 21) {
		peer_enter(&bad, &kvd);
		assert_true(raw_send(&bad.c, &q, bytes));
		assert_true(peer_is_ended(&bad));
		peer_leave(&bad);
		assert_int_equal(peer_stat(&peer, "protocol_errors"), ++errors);
	}
}

static void test_no_hello(void **state)
{
	uint64_t errors = peer_stat(&peer, "protocol_errors");
	struct wire_request q = { .op = WIRE_PING };
	struct peer bad;

	(void)state;
	peer_connect(&bad, &kvd);
	assert_true(peer_say(&bad, &q, NULL, NULL));
	assert_true(peer_is_ended(&bad));
	peer_leave(&bad);
	assert_int_equal(peer_stat(&peer, "protocol_errors"), errors + 1);
}

/* As many at once as are allowed, again and again; the replies come in their order. */
static void test_credits(void **state)
{
	struct wire_request q = { .op = WIRE_PING };

	(void)state;
	for (unsigned round = 0; round < 20; round++) {
		uint32_t first = peer.last_id + 1;
		for (unsigned i = 0; i < CREDITS; i++)
			assert_true(peer_say(&peer, &q, NULL, NULL));
		for (unsigned i = 0; i < CREDITS; i++) {
			assert_int_equal(peer_hear(&peer, PEER_PATIENCE_MS), WIRE_OK);
			assert_in_range(peer.reply.request_id, first, first + CREDITS - 1);
		}
	}
}

/* A worker that never sleeps looks for requests until there are some, or something is due: where no time
 * goes by it answers each all the same. */
static void test_busy(void **state)
{
	enum { ASKS = 200 };
	static struct kvd busy;
	static struct peer other;
	struct wire_request ping = { .op = WIRE_PING };
	unsigned answers = 0;

	(void)state;
	kvd_start(&busy, (const char *const[]){ "--memory", "32M", "--workers", "1", "--poll", "busy",
						"--log-level", "error", "--handshakes", "0", NULL });
	peer_enter(&other, &busy);
	assert_int_equal(kill(busy.pid, SIGUSR1), 0);
	while (answers < ASKS && peer_ask(&other, &ping, NULL, NULL) == WIRE_OK)
		answers++;
	assert_int_equal(kill(busy.pid, SIGUSR1), 0);
	peer_leave(&other);
	kvd_stop(&busy);
	assert_int_equal(answers, ASKS);
}

int main(int argc, char **argv)
{
	signal(SIGUSR1, stop_or_go_on);
	kvd_be(argc, argv);
#define TEST(name) cmocka_unit_test_setup_teardown(name, enter, leave_empty)
	const struct CMUnitTest tests[] = {
		TEST(test_welcome), TEST(test_put_get), TEST(test_conditions), TEST(test_expiry),
		TEST(test_compute), TEST(test_txn), TEST(test_small_ones), TEST(test_keys),
		TEST(test_keys_wait), TEST(test_flush), TEST(test_news), TEST(test_fate),
		TEST(test_malformed), TEST(test_too_short), TEST(test_no_hello), TEST(test_credits),
		cmocka_unit_test(test_busy),
	};

	return GROUP_RUN(tests, begin, end);
}
