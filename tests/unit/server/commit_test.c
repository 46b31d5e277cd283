/* SPDX-License-Identifier: BSD-2-Clause */
/* Changes that wait for the disk: each is answered when its record is there, and once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/hash.h"
#include "tests/unit/server/one_peer.h"

#define CREDITS 32u /* kvd's, where a client asks for none */
#define KEYS 1000u

static char data[128];

static int begin(void **state)
{
	(void)state;
	kvd_folder(&kvd);
	kvd_path(&kvd, "data", data, sizeof data);
	kvd_start(&kvd, (const char *const[]){ "--memory", "32M", "--workers", "1", "--data-dir", data,
					       "--durability", "sync", "--handshakes", "0",
					       "--log-level", "error", NULL });
	return 0;
}

static int leave(void **state)
{
	(void)state;
	peer_leave(&peer);
	return 0;
}

static void test_changes(void **state)
{
	struct wire_incr by = { 2, 40 };
	struct wire_request q = { .op = WIRE_INCR, .flags = WIRE_INITIAL, .key_bytes = 1,
				  .value_bytes = sizeof by };
	uint64_t commits = peer_stat(&peer, "durability.changes");

	(void)state;
	assert_int_equal(ask(PUT, "k", "one", 0), WIRE_OK);
	uint64_t version = peer.reply.version;
	assert_true(version && peer.reply.bucket != ~0ull);
	assert_int_equal(ask(PUT, "k", "two", .flags = WIRE_IF_ABSENT), WIRE_CONDITION);
	assert_int_equal(ask(APPEND, "k", "+", 0), WIRE_OK);
	assert_true(peer.reply.version > version);
	expect_text("k", "one+");
	assert_int_equal(peer_ask(&peer, &q, "n", &by), WIRE_OK);
	assert_int_equal(peer.reply.value_bytes, 42);
	expect_text("n", "42");
	assert_int_equal(ask(TOUCH, "k", NULL, .ttl_ms = 3600000), WIRE_OK);
	assert_int_equal(ask(DELETE, "k", NULL, 0), WIRE_OK);
	assert_int_equal(ask(GET, "k", NULL, 0), WIRE_NOT_FOUND);
	assert_int_equal(peer_stat(&peer, "durability.changes"), commits + 5);
}

static void test_txn(void **state)
{
	struct wire_txn head = { .version = WIRE_TXN_ABSENT, .key_bytes = 1, .value_bytes = 1,
				 .kind = WIRE_TXN_PUT };
	uint8_t text[2 * (sizeof head + 2)];
	struct wire_request q = { .op = WIRE_TXN, .version = 2, .value_bytes = sizeof text };

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		uint8_t *at = text + i * (sizeof head + 2);
		memcpy(at, &head, sizeof head);
		memcpy(at + sizeof head, i ? "b2" : "a1", 2);
	}
	assert_int_equal(peer_ask(&peer, &q, NULL, text), WIRE_OK);
	assert_true(peer.reply.version);
	expect_text("a", "1");
	expect_text("b", "2");
	assert_int_equal(peer_ask(&peer, &q, NULL, text), WIRE_CONDITION);
}

static void test_pull(void **state)
{
	uint8_t *value = peer.lent + LAYOUT_HELD_MAX * sizeof *peer.held;
	size_t bytes = 100000;
	struct wire_segment one = { .addr = (uintptr_t)value, .bytes = bytes,
				    .rkey = peer.lent_mr->rkey };
	struct wire_request q = { .op = WIRE_PUT, .flags = WIRE_PULL, .key_bytes = 4, .segments = 1,
				  .value_bytes = bytes };

	(void)state;
	memset(value, 'v', bytes);
	q.value_checksum = hash_bytes(value, bytes);
	assert_int_equal(peer_ask(&peer, &q, "long", &one), WIRE_OK);
	q.op = WIRE_APPEND;
	assert_int_equal(peer_ask(&peer, &q, "long", &one), WIRE_OK);
	assert_int_equal(ask(GET, "long", NULL, .flags = WIRE_HEAD), WIRE_OK);
	assert_int_equal(peer.reply.value_bytes, 2 * bytes);
}

/* As many as may be under way: one answer each. */
static void put_many(unsigned count)
{
	char key[16];

	for (unsigned i = 0; i < count; i += CREDITS) {
		bool seen[CREDITS] = { false };
		uint32_t first = peer.last_id + 1;
		for (unsigned n = 0; n < CREDITS; n++) {
			snprintf(key, sizeof key, "many-%05u", i + n);
			struct wire_request q = { .op = WIRE_PUT, .key_bytes = 10, .value_bytes = 5 };
			assert_true(peer_say(&peer, &q, key, "value"));
		}
		for (unsigned n = 0; n < CREDITS; n++) {
			assert_int_equal(peer_hear(&peer, PEER_PATIENCE_MS), WIRE_OK);
			unsigned which = peer.reply.request_id - first;
			assert_true(which < CREDITS && !seen[which]);
			seen[which] = true;
		}
	}
}

static void test_many(void **state)
{
	(void)state;
	put_many(KEYS);
	assert_true(peer_stat(&peer, "keys") >= KEYS);
	assert_int_equal(peer_stat(&peer, "durability.pending"), 0);
}

/* A page is answered when the last of its keys is gone; "busy" where two of them share a
 * stripe, whose mark stays up meanwhile. */
static void test_flush(void **state)
{
	struct wire_request q = { .op = WIRE_FLUSH };
	unsigned pages = 0;
	int status;

	(void)state;
	put_many(KEYS);
	do {
		q.version = pages++ ? peer.reply.version : 0;
		status = peer_ask(&peer, &q, NULL, NULL);
		assert_true(status == WIRE_OK || status == WIRE_EBUSY);
		if (status == WIRE_EBUSY)
			assert_int_equal(peer.reply.version, q.version);
		assert_in_range(pages, 1, KEYS);
	} while (status == WIRE_EBUSY || peer.reply.version);
	assert_int_equal(peer_stat(&peer, "keys"), 0);
}

/* Who goes before the answer: kvd knows what became of the change. */
static void test_hang_up(void **state)
{
	struct wire_request q = { .op = WIRE_PUT, .key_bytes = 4, .value_bytes = 5 };
	uint64_t end_ms = raw_now_ms() + PEER_PATIENCE_MS;
	struct peer other;
	int status;

	(void)state;
	peer_enter(&other, &kvd);
	for (unsigned i = 0; i < CREDITS; i++)
		assert_true(peer_say(&other, &q, "gone", "value"));
	uint64_t id = other.c.welcome.connection_id;
	uint32_t last = other.last_id;
	peer_leave(&other);
	while ((status = ask(FATE, NULL, NULL, .version = id, .value_checksum = PEER_SECRET,
			     .value_bytes = last)) == WIRE_EBUSY && raw_now_ms() < end_ms)
		;
	assert_true(status == WIRE_OK || status == WIRE_NOT_FOUND);
	if (status == WIRE_OK)
		assert_int_equal(peer.reply.word, WIRE_OK);
	assert_int_equal(ask(PING, NULL, NULL, 0), WIRE_OK);
}

static int backup(const char *path)
{
	uint64_t end_ms = raw_now_ms() + PEER_PATIENCE_MS;

	do
		assert_int_equal(ask(BACKUP, path, NULL, 0), WIRE_OK);
	while (peer.reply.version == WIRE_BACKUP_RUNNING && raw_now_ms() < end_ms);
	assert_true(peer.reply.value_bytes > 0);
	return (int)peer.reply.version;
}

static void test_backup(void **state)
{
	char path[128];

	(void)state;
	kvd_path(&kvd, "backup", path, sizeof path);
	assert_int_equal(backup(path), WIRE_BACKUP_DONE);
	/* A folder that is there, and a name that is none. */
	assert_int_equal(backup(data), WIRE_BACKUP_FAILED);
	struct wire_request q = { .op = WIRE_BACKUP, .key_bytes = 3 };
	assert_int_equal(peer_ask(&peer, &q, "a\0b", NULL), WIRE_EINVALID);
}

static uint64_t ask_backup(const char *path)
{
	assert_int_equal(ask(BACKUP, path, NULL, 0), WIRE_OK);
	return peer.reply.version;
}

/* One at a time, and each asker is told of their own: while one is made, another is refused. */
static void test_two_backups(void **state)
{
	uint64_t end_ms = raw_now_ms() + PEER_PATIENCE_MS;
	char first[128], second[128], name[32];
	bool refused = false;

	(void)state;
	for (unsigned i = 0; !refused && raw_now_ms() < end_ms; i++) {
		snprintf(name, sizeof name, "first.%u", i);
		kvd_path(&kvd, name, first, sizeof first);
		snprintf(name, sizeof name, "second.%u", i);
		kvd_path(&kvd, name, second, sizeof second);
		assert_int_equal(ask_backup(first), WIRE_BACKUP_RUNNING);
		/* Or the first is made already, and the second begins. */
		refused = ask_backup(second) == WIRE_BACKUP_FAILED;
		assert_int_equal(backup(refused ? first : second), WIRE_BACKUP_DONE);
		assert_int_equal(access(first, F_OK), 0);
		assert_int_equal(access(second, F_OK), refused ? -1 : 0);
	}
	assert_true(refused);
	assert_int_equal(backup(second), WIRE_BACKUP_DONE);
}

int main(int argc, char **argv)
{
	kvd_be(argc, argv);
#define TEST(name) cmocka_unit_test_setup_teardown(name, enter, leave)
	const struct CMUnitTest tests[] = {
		TEST(test_changes), TEST(test_txn), TEST(test_pull), TEST(test_many),
		TEST(test_flush), TEST(test_hang_up), TEST(test_backup),
		TEST(test_two_backups),
	};

	return GROUP_RUN(tests, begin, end);
}
