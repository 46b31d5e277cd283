/* SPDX-License-Identifier: BSD-2-Clause */
/* client/api: calls that wait, answered by messages: what they set, and when they ask again. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "client/op/operation.h"
#include "client/session/connect.h"
#include "client/session/teardown.h"
#include "tests/unit/client/dial.h"
#include "tests/unit/client/set_clock.h"

#define KEY "key"
#define VALUE "a value"
#define BYTES (sizeof VALUE - 1)

static struct kvd_session *s;
static struct engine *e;

/* What kvd answers, in turn; the last one again and again. */
static struct wire_reply replies[8];
static const char *payloads[8];
static unsigned count, asked;
static struct wire_request asks[128];
static bool breaks; /* the first question */

static void answer(struct end *end, const struct wire_request *q)
{
	unsigned i = asked < count ? asked : count - 1;
	const char *payload = payloads[i] ? payloads[i] : "";

	assert_true(asked < sizeof asks / sizeof asks[0]);
	asks[asked++] = *q;
	if (breaks) {
		breaks = false;
		health_fail(&e->health, KVD_ECONNECT, "it broke");
		return;
	}
	end_reply(end, replies[i], payload, strlen(payload));
}

static void say(struct wire_reply reply, const char *payload)
{
	reply.bucket = ~0ull;
	payloads[count] = payload;
	replies[count++] = reply;
}

static void forget(void)
{
	count = asked = 0;
	set_sleeps = 0;
	memset(replies, 0, sizeof replies);
	memset(payloads, 0, sizeof payloads);
}

static int set_up(void **state)
{
	(void)state;
	set_clock();
	s = dial_session();
	e = dial.end->engine;
	e->get = KVD_GET_MESSAGE;
	dial_connect(answer);
	breaks = false;
	forget();
	return 0;
}

/* -------------------------------------------------------------------------------- a backup */

static void must_fail(int rc, int code, const char *text)
{
	assert_int_equal(rc, code);
	assert_string_equal(e->health.err.text, text);
	assert_int_equal(e->in_flight, 0);
	forget();
}

static void test_backup(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 3; i++)
		say((struct wire_reply){ .version = WIRE_BACKUP_RUNNING }, NULL);
	say((struct wire_reply){ .version = WIRE_BACKUP_DONE }, NULL);
	assert_int_equal(kvd_backup(s, "/a/path"), KVD_OK);
	assert_int_equal(asked, 4);
	assert_int_equal(set_sleeps, 3);
	assert_int_equal(set_slept[2], 50);
	assert_int_equal(asks[3].op, WIRE_BACKUP);
	assert_int_equal(asks[3].key_bytes, 7);
	assert_memory_equal(dial.end->behind, "/a/path", 7);
}

static void test_backup_that_fails(void **state)
{
	char path[KVD_KEY_BYTES_MAX + 2];

	(void)state;
	say((struct wire_reply){ .version = WIRE_BACKUP_RUNNING }, NULL);
	say((struct wire_reply){ .version = WIRE_BACKUP_FAILED }, "no room there");
	must_fail(kvd_backup(s, "/p"), KVD_EDISK, "backup: no room there");
	say((struct wire_reply){ .status = WIRE_EUNSUPPORTED }, NULL);
	must_fail(kvd_backup(s, "/p"), KVD_EINVAL,
		  "kvd at 127.0.0.1:7000 has no data folder: it was started without --data-dir");
	say((struct wire_reply){ .status = WIRE_EDENIED }, NULL);
	must_fail(kvd_backup(s, "/p"), KVD_EINVAL, "kvd at 127.0.0.1:7000 takes no backup (status 12)");
	memset(path, 'x', sizeof path);
	path[KVD_KEY_BYTES_MAX] = '\0';
	say((struct wire_reply){ .version = WIRE_BACKUP_DONE }, NULL);
	assert_int_equal(kvd_backup(s, path), KVD_OK);
	assert_int_equal(asks[0].key_bytes, KVD_KEY_BYTES_MAX);
	path[KVD_KEY_BYTES_MAX] = 'x';
	path[KVD_KEY_BYTES_MAX + 1] = '\0';
	asked = 0;
	static const char text[] = "the path of the backup is empty or too long";
	must_fail(kvd_backup(s, path), KVD_EINVAL, text);
	must_fail(kvd_backup(s, ""), KVD_EINVAL, text);
	must_fail(kvd_backup(s, NULL), KVD_EINVAL, text);
	assert_int_equal(asked, 0);
}

/* It is lost with the connection, and goes on: who asks tells. */
static void test_backup_without_kvd(void **state)
{
	(void)state;
	dial.place[0].is_dead = true;
	health_fail(&e->health, KVD_ECONNECT, "gone");
	assert_int_equal(kvd_backup(s, "/p"), KVD_ECONNECT);
	assert_int_equal(asked, 0);
}

/* ----------------------------------------------------------------------------------- GETs */

static const struct wire_reply found = { .version = 9, .value_bytes = BYTES, .item_flags = 77,
					 .item_signs = 2 };

static void test_get(void **state)
{
	char value[BYTES + 1] = "";
	size_t bytes = 0;
	uint64_t version = 0;

	(void)state;
	say(found, VALUE);
	assert_int_equal(kvd_get(s, KEY, 3, value, BYTES, &bytes, &version), KVD_OK);
	assert_int_equal(bytes, BYTES);
	assert_int_equal(version, 9);
	assert_memory_equal(value, VALUE, BYTES);
	assert_int_equal(kvd_get(s, KEY, 3, value, BYTES, &bytes, NULL), KVD_OK);
	must_fail(kvd_get(s, KEY, 3, value, BYTES - 1, &bytes, &version), KVD_ESPACE,
		  "the value has 7 bytes: the buffer is too short");
	say((struct wire_reply){ .status = WIRE_NOT_FOUND }, NULL);
	bytes = 1234;
	version = 4321;
	assert_int_equal(kvd_get(s, KEY, 3, value, BYTES, &bytes, &version), KVD_NOT_FOUND);
	assert_int_equal(bytes, 1234);
	assert_int_equal(version, 4321);
}

static void test_get_into_pieces(void **state)
{
	char a[3], b[10];
	const struct iovec iov[] = { { a, 3 }, { b, 10 } };
	size_t bytes;
	uint64_t version;

	(void)state;
	say(found, VALUE);
	assert_int_equal(kvd_getv(s, KEY, 3, iov, 2, &bytes, &version), KVD_OK);
	assert_memory_equal(a, "a v", 3);
	assert_memory_equal(b, "alue", 4);
	assert_int_equal(bytes, BYTES);
	assert_int_equal(kvd_getv(s, KEY, 3, iov, 17, &bytes, &version), KVD_EINVAL);
	assert_int_equal(e->in_flight, 0);
}

static void test_get_allocated(void **state)
{
	void *value = NULL;
	size_t bytes;
	uint64_t version = 0;

	(void)state;
	say(found, VALUE);
	assert_int_equal(kvd_get_alloc(s, KEY, 3, &value, &bytes, &version), KVD_OK);
	assert_int_equal(bytes, BYTES);
	assert_int_equal(version, 9);
	assert_string_equal(value, VALUE);
	free(value);
	assert_int_equal(kvd_get_alloc(s, KEY, 3, &value, &bytes, NULL), KVD_OK);
	free(value);
	forget();
	value = NULL;
	say((struct wire_reply){ .status = WIRE_NOT_FOUND }, NULL);
	assert_int_equal(kvd_get_alloc(s, KEY, 3, &value, &bytes, &version), KVD_NOT_FOUND);
	assert_null(value);
}

static void test_exists(void **state)
{
	size_t bytes = 0;

	(void)state;
	say(found, NULL);
	assert_int_equal(kvd_exists(s, KEY, 3, &bytes), KVD_OK);
	assert_int_equal(bytes, BYTES);
	assert_int_equal(asks[0].flags & WIRE_HEAD, WIRE_HEAD);
	assert_int_equal(kvd_exists(s, KEY, 3, NULL), KVD_OK);
	forget();
	say((struct wire_reply){ .status = WIRE_NOT_FOUND }, NULL);
	bytes = 5;
	assert_int_equal(kvd_exists(s, KEY, 3, &bytes), KVD_NOT_FOUND);
	assert_int_equal(bytes, 5);
	assert_int_equal(kvd_exists(s, KEY, 0, &bytes), KVD_EINVAL);
}

static void test_info(void **state)
{
	struct kvd_info info = { .size = sizeof info - 1 };
	char value[BYTES];

	(void)state;
	must_fail(kvd_get_info(s, KEY, 3, value, BYTES, &info), KVD_EINVAL,
		  "info.size is 39: set it to sizeof(struct kvd_info)");
	info.size = sizeof info;
	say(found, VALUE);
	assert_int_equal(kvd_get_info(s, KEY, 3, value, BYTES, &info), KVD_OK);
	assert_int_equal(info.size, sizeof info);
	assert_int_equal(info.value_bytes, BYTES);
	assert_int_equal(info.version, 9);
	assert_int_equal(info.ttl_ms, 0);
	assert_int_equal(info.flags, 77);
	assert_int_equal(info.signs, 2);
	assert_memory_equal(value, VALUE, BYTES);
	info.version = 0;
	assert_int_equal(kvd_get_info(s, KEY, 3, value, 2, &info), KVD_ESPACE);
	assert_int_equal(info.value_bytes, BYTES);
	assert_int_equal(info.version, 9);
	forget();
	say((struct wire_reply){ .status = WIRE_NOT_FOUND }, NULL);
	info.version = 55;
	assert_int_equal(kvd_get_info(s, KEY, 3, value, BYTES, &info), KVD_NOT_FOUND);
	assert_int_equal(info.version, 55);
}

static void test_touched(void **state)
{
	const struct kvd_change change = { .size = sizeof change, .ttl_ms = 60000 };
	struct kvd_info info = { .size = sizeof info };
	char value[BYTES];

	(void)state;
	say((struct wire_reply){ .version = 9 }, NULL);
	say(found, VALUE);
	assert_int_equal(kvd_get_touch(s, KEY, 3, &change, value, BYTES, &info), KVD_OK);
	assert_int_equal(asked, 2);
	assert_int_equal(asks[0].op, WIRE_TOUCH);
	assert_int_equal(asks[0].ttl_ms, 60000);
	assert_int_equal(asks[1].op, WIRE_GET);
	assert_int_equal(info.value_bytes, BYTES);
	assert_int_equal(e->time.end_ns, 0);
	forget();
	say((struct wire_reply){ .status = WIRE_NOT_FOUND }, NULL);
	assert_int_equal(kvd_get_touch(s, KEY, 3, &change, value, BYTES, &info), KVD_NOT_FOUND);
	assert_int_equal(asked, 1);
	info.size--;
	asked = 0;
	assert_int_equal(kvd_get_touch(s, KEY, 3, &change, value, BYTES, &info), KVD_EINVAL);
	assert_int_equal(asked, 0);
	assert_int_equal(e->time.end_ns, 0);
}

/* A GET that loses its connection is asked again on another one, for as long as a call may take. */
static void test_lost_as_it_is_asked(void **state)
{
	size_t bytes;
	char value[BYTES];

	(void)state;
	say(found, VALUE);
	breaks = true;
	assert_int_equal(kvd_get(s, KEY, 3, value, BYTES, &bytes, NULL), KVD_OK);
	assert_int_equal(asked, 2);
	assert_int_equal(e->counters.reconnects, 1);
	assert_int_equal(e->time.end_ns, 0);
	health_fail(&e->health, KVD_ECONNECT, "gone");
	dial.place[0].is_dead = true;
	uint64_t begun_ns = set_ns;
	dial.dials = set_sleeps = 0;
	assert_int_equal(kvd_get(s, KEY, 3, value, BYTES, &bytes, NULL), KVD_ECONNECT);
	assert_in_range(set_ns - begun_ns, 4400 * SET_MS, 5010 * SET_MS);
	/* With pauses that double to the end: nothing begins anew for what is left of the time. */
	assert_in_range(dial.dials, 10, 30);
	assert_int_equal(e->time.end_ns, 0);
}

/* ---------------------------------------------------------------------------------- others */

/* The version is that of what is there: it was stored now, or stands in the way. */
static void test_version(void **state)
{
	static const struct {
		unsigned status;
		int result;
		uint64_t version;
	} cases[] = { { WIRE_OK, KVD_OK, 8 }, { WIRE_CONDITION, KVD_CONDITION, 8 },
		      { WIRE_EDISK, KVD_EDISK, 5 }, { WIRE_EMEMORY, KVD_EFULL, 5 } };
	const struct iovec piece = { (char[]){ "v" }, 1 };

	(void)state;
	for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		uint64_t version = 5;

		forget();
		say((struct wire_reply){ .status = (uint8_t)cases[i].status, .version = 8 }, NULL);
		assert_int_equal(kvd_putv(s, KEY, 3, &piece, 1, NULL, &version), cases[i].result);
		assert_int_equal(version, cases[i].version);
		assert_int_equal(kvd_putv(s, KEY, 3, &piece, 1, NULL, NULL), cases[i].result);
	}
}

static void test_fate(void **state)
{
	const struct kvd_receipt receipt = { 100, 50, 7, 3 };
	uint64_t version = 0;
	int result = -1;

	(void)state;
	say((struct wire_reply){ .word = WIRE_CONDITION, .version = 12 }, NULL);
	assert_int_equal(kvd_fate(s, &receipt, &result, &version), KVD_OK);
	assert_int_equal(result, KVD_CONDITION);
	assert_int_equal(version, 12);
	assert_int_equal(asks[0].version, 50);
	assert_int_equal(asks[0].value_checksum, 7);
	assert_int_equal(kvd_fate(s, &receipt, &result, NULL), KVD_OK);
	assert_int_equal(e->time.end_ns, 0);
	forget();
	version = 5;
	say((struct wire_reply){ .status = WIRE_NOT_FOUND }, NULL);
	assert_int_equal(kvd_fate(s, &receipt, &result, &version), KVD_NOT_FOUND);
	assert_int_equal(version, 5);
	forget();
	say((struct wire_reply){ .status = WIRE_EBUSY }, NULL);
	e->time.limit_ns = 20 * SET_MS;
	assert_int_equal(kvd_fate(s, &receipt, &result, &version), KVD_EUNKNOWN);
	assert_in_range(asked, 15, 25);
	e->time.limit_ns = 5000 * SET_MS;
	end_change(dial.end, KEY, NULL);
	asked = 0;
	assert_int_equal(kvd_fate(s, &receipt, &result, &version), KVD_EINVAL);
	assert_int_equal(asked, 0);
}

/* Page by page; one that is busy is asked again, until nothing has gone on for a call's time. */
static void test_flush(void **state)
{
	(void)state;
	say((struct wire_reply){ .version = 5ull << 20 }, NULL);
	say((struct wire_reply){ .status = WIRE_EBUSY, .version = 5ull << 20 }, NULL);
	say((struct wire_reply){ .version = 8ull << 20 }, NULL);
	say((struct wire_reply){ .version = 0 }, NULL);
	assert_int_equal(kvd_flush(s), KVD_OK);
	assert_int_equal(asked, 4);
	assert_int_equal(asks[0].version, 0);
	assert_int_equal(asks[1].version, 5ull << 20);
	assert_int_equal(asks[2].version, 5ull << 20);
	assert_int_equal(asks[3].version, 8ull << 20);
	assert_int_equal(set_sleeps, 1);
	forget();
	e->time.limit_ns = 30 * SET_MS;
	say((struct wire_reply){ .status = WIRE_EBUSY }, NULL);
	assert_int_equal(kvd_flush(s), KVD_EBUSY);
	assert_string_equal(e->health.err.text, "a key stayed locked: not all keys were deleted");
	assert_in_range(asked, 28, 34);
}

/* Each page has that time of its own. */
static void test_flush_that_goes_on(void **state)
{
	(void)state;
	e->time.limit_ns = 3 * SET_MS;
	for (unsigned i = 0; i < 3; i++)
		say((struct wire_reply){ .status = WIRE_EBUSY, .version = i / 2 << 20 }, NULL);
	say((struct wire_reply){ .version = 1ull << 20 }, NULL);
	for (unsigned i = 0; i < 3; i++)
		say((struct wire_reply){ .status = WIRE_EBUSY, .version = 1ull << 20 }, NULL);
	say((struct wire_reply){ .version = 0 }, NULL);
	assert_int_equal(kvd_flush(s), KVD_OK);
	assert_int_equal(asked, 8);
}

static void test_ping_and_counters(void **state)
{
	struct kvd_counters counters = { 0 };
	uint64_t ns = 0;

	(void)state;
	say((struct wire_reply){ .version = 0 }, NULL);
	uint64_t begun_ns = set_ns;
	assert_int_equal(kvd_ping(s, &ns), KVD_OK);
	assert_in_range(ns, 1, set_ns - begun_ns);
	assert_int_equal(asks[0].op, WIRE_PING);
	assert_int_equal(asks[0].version, 0);
	assert_int_equal(e->time.end_ns, 0);
	kvd_session_counters(s, &counters);
	assert_int_equal(counters.messages, 2); /* and the hello */
	assert_memory_equal(&counters, &e->counters, sizeof counters);
}

/* A kvd that is too busy to answer is asked again, after a pause. */
static void test_stats(void **state)
{
	char *json = NULL;

	(void)state;
	for (unsigned i = 0; i < 3; i++)
		say((struct wire_reply){ .status = WIRE_EBUSY }, NULL);
	say((struct wire_reply){ .version = 0 }, "{\"a\":1}");
	assert_int_equal(kvd_stats(s, &json), KVD_OK);
	assert_string_equal(json, "{\"a\":1}");
	free(json);
	assert_int_equal(asked, 4);
	assert_int_equal(set_sleeps, 3);
	assert_int_equal(set_slept[1], 1);
	assert_int_equal(asks[3].op, WIRE_STATS);
	assert_int_equal(asks[3].version, 0);
	assert_int_equal(asks[3].key_bytes, 0);
	assert_int_equal(e->time.end_ns, 0);
}

static void refuse_here(struct end *end, const struct wire_request *q)
{
	if (dial.port[dial.dials - 1] == DIAL_PORT)
		end_reply(end, (struct wire_reply){ .status = WIRE_EELSEWHERE, .bucket = ~0ull }, NULL, 0);
	else
		answer(end, q);
}

/* One that does not serve says so: the primary is asked. */
static void test_asked_elsewhere(void **state)
{
	char *json = NULL;

	(void)state;
	session_disconnect(s);
	dial_as_cluster();
	assert_int_equal(session_attempt(s, 1000), 0);
	for (unsigned i = 0; i < DIAL_PLACES; i++) {
		dial.place[i].where = "127.0.0.1:7001\n127.0.0.1:7000\n";
		dial.place[i].epoch = 10;
		dial.place[i].welcome.reign = i == 1 ? 4 : 0;
	}
	dial.answer = refuse_here;
	say((struct wire_reply){ .version = 0 }, "{}");
	assert_int_equal(kvd_stats(s, &json), KVD_OK);
	assert_string_equal(json, "{}");
	free(json);
	assert_int_equal(e->reign, 4);
	/* Nobody serves: it is told when the call's time is over. */
	dial.place[1].welcome.reign = 0;
	forget();
	say((struct wire_reply){ .status = WIRE_EELSEWHERE }, NULL);
	e->time.limit_ns = 100 * SET_MS;
	uint64_t begun_ns = set_ns;
	assert_int_equal(kvd_stats(s, &json), KVD_ECONNECT);
	assert_in_range(set_ns - begun_ns, 90 * SET_MS, 110 * SET_MS);
}

/* -------------------------------------------------------------------------------- buffers */

static size_t allocated;
static int mem_error;

static int mem_alloc(size_t bytes, int kind, void **addr)
{
	assert_int_equal(kind, VERBS_MEM_READ);
	if (mem_error)
		return mem_error;
	allocated += bytes;
	*addr = calloc(1, bytes);
	assert_non_null(*addr);
	return 0;
}

static int mem_free(void *addr, size_t bytes)
{
	allocated -= bytes;
	free(addr);
	return 0;
}

static void test_buffers(void **state)
{
	struct kvd_client *c = &dial.end->client;
	kvd_buffer *buffer;
	void *addr = NULL;

	(void)state;
	dial.verbs.mem_alloc = mem_alloc;
	dial.verbs.mem_free = mem_free;
	mem_error = 0;
	assert_int_equal(kvd_buffer_alloc(c, 5000, &addr, &buffer), KVD_OK);
	assert_non_null(addr);
	assert_int_equal(allocated, 5000);
	assert_true(buffers_any(c->buffers));
	kvd_buffer_delete(&buffer);
	assert_null(buffer);
	assert_int_equal(allocated, 0);
	assert_false(buffers_any(c->buffers));
	addr = NULL;
	buffer = (kvd_buffer *)&addr;
	assert_int_equal(kvd_buffer_alloc(c, 0, &addr, &buffer), KVD_EINVAL);
	assert_null(buffer);
	buffer = (kvd_buffer *)&addr;
	assert_int_equal(kvd_buffer_new(c, NULL, 1, &buffer), KVD_EINVAL);
	assert_null(buffer);
	assert_int_equal(kvd_buffer_alloc(c, 0, &addr, &buffer), KVD_EINVAL);
	assert_string_equal(c->err.text, "a buffer needs a length");
	mem_error = ENOMEM;
	assert_int_equal(kvd_buffer_alloc(c, 5000, &addr, &buffer), KVD_ENOMEM);
	assert_string_equal(c->err.text, "can't get a buffer of 5000 bytes: Cannot allocate memory");
	mem_error = 0;
	dial.fails = DIAL_MEMORY;
	assert_int_equal(kvd_buffer_alloc(c, 5000, &addr, &buffer), KVD_EDEVICE);
	assert_non_null(strstr(c->err.text, "can't register a buffer of 5000 bytes"));
	assert_null(addr);
	assert_null(buffer);
	assert_int_equal(allocated, 0);
	dial.fails = DIAL_NONE;
	/* One that is the user's stays theirs. */
	static char mine[4096];
	assert_int_equal(kvd_buffer_new(c, mine, sizeof mine, &buffer), KVD_OK);
	kvd_buffer_delete(&buffer);
	kvd_buffer_delete(&buffer);
}

/* A command is known by its number, which is odd, until it is done; it names a member of 1,024 bytes at most. */
static void test_cluster(void **state)
{
	char member[KVD_KEY_BYTES_MAX + 2];

	(void)state;
	memset(member, 'm', sizeof member);
	member[KVD_KEY_BYTES_MAX] = '\0';
	for (unsigned i = 0; i < 20; i++) {
		for (unsigned n = 0; n < 3; n++)
			say((struct wire_reply){ .version = WIRE_BACKUP_RUNNING }, NULL);
		say((struct wire_reply){ .version = WIRE_BACKUP_DONE }, NULL);
		assert_int_equal(kvd_cluster(s, KVD_CLUSTER_FORCE, member, 0, NULL), KVD_OK);
		assert_int_equal(asked, 4);
		assert_int_equal(asks[3].key_bytes, KVD_KEY_BYTES_MAX);
		assert_int_equal(asks[0].value_checksum % 2, 1);
		assert_true(asks[3].value_checksum == asks[0].value_checksum);
		assert_int_equal(set_sleeps, 3);
		assert_int_equal(set_slept[2], 5);
		assert_int_equal(e->time.end_ns, 0);
		forget();
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, dial_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_backup), TEST(test_backup_that_fails), TEST(test_backup_without_kvd),
		TEST(test_get), TEST(test_get_into_pieces), TEST(test_get_allocated),
		TEST(test_exists), TEST(test_info), TEST(test_touched),
		TEST(test_lost_as_it_is_asked), TEST(test_version), TEST(test_fate), TEST(test_flush),
		TEST(test_flush_that_goes_on), TEST(test_ping_and_counters), TEST(test_stats),
		TEST(test_asked_elsewhere), TEST(test_buffers), TEST(test_cluster),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
