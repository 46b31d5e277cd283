/* SPDX-License-Identifier: BSD-2-Clause */
/* server/worker/request/scan.c: pages of keys, each once, and pages of keys that go. */
#include <stdio.h>

#include "common/hash.h"
#include "server/store/reclaim/clear.h"
#include "tests/unit/server/request_kit.h"

#define KEYS 4000u
#define LONG_KEYS 1200u
#define LONG_BYTES 900u
#define PAGES_MAX 20000u

static unsigned seen[KEYS], listed, pages;
static size_t key_bytes_min;

/* With digits in front. */
static const char *name_of(unsigned i)
{
	static char name[LAYOUT_KEY_BYTES_MAX + 1];
	size_t n = (size_t)snprintf(name, sizeof name, "%05u", i);

	while (n < key_bytes_min)
		name[n++] = 'x';
	name[n] = '\0';
	return name;
}

static void put(const char *key, size_t value_bytes)
{
	static const char value[1000];

	assert_int_equal(fixture_put(&worker.store, key, strlen(key), value, value_bytes, 0, NULL), WIRE_OK);
}

static void put_all(unsigned n)
{
	memset(seen, 0, sizeof seen);
	for (unsigned i = 0; i < n; i++)
		put(name_of(i), i % 7);
}

static struct store_change change_of(const char *key)
{
	return (struct store_change){ .hash = hash_key(fixture.table->hash_seed, key, strlen(key)),
				      .key = key, .key_bytes = (unsigned)strlen(key) };
}

static void put_over(const char *key)
{
	struct store_change c = change_of(key);
	struct store_result r;

	c.value = "";
	c.with.expiry_ms = 1;
	assert_int_equal(store_put(&worker.store, &c, &r), WIRE_OK);
}

static void lock(const char *key, uint64_t token)
{
	atomic_store(&fixture.table->locks[layout_stripe(change_of(key).hash.b, fixture.table->stripes)], token);
}

/* --------------------------------------------------------------------- to list */

static void see(const struct wire_key *k)
{
	unsigned i = (unsigned)strtoul((const char *)k->key, NULL, 10);

	assert_true(i < KEYS);
	assert_int_equal(k->key_bytes, strlen(name_of(i)));
	assert_memory_equal(k->key, name_of(i), k->key_bytes);
	assert_int_equal(k->value_bytes, i % 7);
	seen[i]++;
	listed++;
}

/* A page from there on: the next one's cursor. */
static uint64_t list_page(const char *prefix, uint64_t cursor)
{
	const struct wire_request q = { .op = WIRE_KEYS, .version = cursor,
					.key_bytes = (uint16_t)strlen(prefix) };

	assert_int_equal(status_of(&q, prefix, NULL), WIRE_OK);
	assert_int_equal(reply.value_bytes, payload_bytes);
	for (size_t at = 0; at < payload_bytes;) {
		const struct wire_key *k = (const struct wire_key *)(payload + at);
		at += sizeof *k + k->key_bytes;
		assert_true(at <= payload_bytes);
		see(k);
	}
	assert_true(++pages < PAGES_MAX);
	return reply.version;
}

static void list(const char *prefix)
{
	uint64_t cursor = 0;

	listed = pages = 0;
	do
		cursor = list_page(prefix, cursor);
	while (cursor);
}

static void test_list(void **state)
{
	(void)state;
	list("");
	assert_int_equal(listed, 0);
	put_all(KEYS);
	list("");
	assert_int_equal(listed, KEYS);
	for (unsigned i = 0; i < KEYS; i++)
		assert_int_equal(seen[i], 1);
	/* Others have their turn in between. */
	assert_true(pages >= index_buckets(fixture.store->index) / 64);
	assert_true(pages <= index_buckets(fixture.store->index) / 8);
}

static void test_prefix(void **state)
{
	(void)state;
	put_all(200);
	put("0010", 0); /* shorter than some */
	fixture_remove(&worker.store, "0010", 4);
	list("001");
	assert_int_equal(listed, 100);
	list("0012");
	assert_int_equal(listed, 10);
	list("00123");
	assert_int_equal(listed, 1);
	assert_int_equal(seen[123], 3);
	assert_int_equal(seen[124], 2);
	list("00123x");
	assert_int_equal(listed, 0);
	list("1");
	assert_int_equal(listed, 0);
}

/* What is over is not there. */
static void test_over(void **state)
{
	(void)state;
	put_all(10);
	put_over("00003");
	list("");
	assert_int_equal(listed, 9);
	assert_int_equal(seen[3], 0);
}

/* More than there is room for in a page, of one bucket or several. */
static void test_long(void **state)
{
	(void)state;
	key_bytes_min = LONG_BYTES;
	put_all(LONG_KEYS);
	list("");
	assert_int_equal(listed, LONG_KEYS);
	for (unsigned i = 0; i < LONG_KEYS; i++)
		assert_int_equal(seen[i], 1);
	assert_true(pages <= LONG_KEYS);
}

/* The index grows meanwhile: what was there all the time is listed. */
static void test_growth(void **state)
{
	unsigned more = 1000;
	uint64_t cursor = 0;

	(void)state;
	put_all(more);
	listed = pages = 0;
	do {
		cursor = list_page("", cursor);
		for (unsigned i = 0; i < 500 && more < KEYS; i++, more++)
			put(name_of(more), more % 7);
	} while (cursor);
	for (unsigned i = 0; i < 1000; i++)
		assert_true(seen[i]);
	list("");
	assert_int_equal(listed, more);
}

/* -------------------------------------------------------------------- to delete */

static unsigned keys_there(void)
{
	return (unsigned)index_keys(fixture.store->index);
}

static int flush_page(uint64_t cursor)
{
	const struct wire_request q = { .op = WIRE_FLUSH, .version = cursor };

	assert_true(++pages < PAGES_MAX);
	int status = status_of(&q, NULL, NULL);
	assert_int_equal(payload_bytes, 0);
	return status;
}

static void flush(void)
{
	uint64_t cursor = 0;

	pages = 0;
	do {
		atomic_store(&worker.commands.trim, false);
		assert_int_equal(flush_page(cursor), WIRE_OK);
		cursor = reply.version;
		/* At its end no worker keeps memory of what went. */
		assert_int_equal(atomic_load(&worker.commands.trim), !cursor);
	} while (cursor);
	assert_int_equal(keys_there(), 0);
}

static void test_flush(void **state)
{
	(void)state;
	put_all(KEYS);
	flush();
	assert_true(pages > 10);
	key_bytes_min = LONG_BYTES;
	put_all(LONG_KEYS);
	flush();
	list("");
	assert_int_equal(listed, 0);
}

/* A locked one stays: it is asked for again, from the same cursor. */
static void test_flush_locked(void **state)
{
	uint64_t cursor = 0, before;

	(void)state;
	put_all(KEYS);
	lock("00007", 5);
	for (pages = 0; flush_page(cursor) == WIRE_OK; cursor = reply.version) {
		before = reply.version;
		assert_true(before > 0);
	}
	assert_int_equal(reply.status, WIRE_EBUSY);
	assert_int_equal(reply.version, cursor);
	assert_false(atomic_load(&worker.commands.trim));
	before = keys_there();
	assert_true(before < KEYS);
	assert_int_equal(flush_page(cursor), WIRE_EBUSY);
	assert_int_equal(reply.version, cursor);
	assert_true(keys_there() <= before);
	lock("00007", 0);
	while (cursor || pages == 0 || keys_there()) {
		assert_int_equal(flush_page(cursor), WIRE_OK);
		cursor = reply.version;
	}
}

/* At a time: what is there then goes, and requests see to it. */
static void test_flush_then(void **state)
{
	struct wire_request q = { .op = WIRE_FLUSH, .flags = WIRE_UNIX, .ttl_ms = 1 };
	const struct wire_request get = { .op = WIRE_GET, .key_bytes = 5 };

	(void)state;
	put_all(3);
	q.ttl_ms = 4102444800000; /* 2100 */
	assert_int_equal(status_of(&q, NULL, NULL), WIRE_OK);
	assert_false(clear_is_due(fixture.store));
	assert_int_equal(status_of(&get, "00001", NULL), WIRE_OK);
	q.ttl_ms = 1;
	assert_int_equal(status_of(&q, NULL, NULL), WIRE_OK);
	assert_true(clear_is_due(fixture.store));
	q.ttl_ms = 0; /* none, after all */
	assert_int_equal(status_of(&q, NULL, NULL), WIRE_OK);
	assert_false(clear_is_due(fixture.store));
	q.ttl_ms = 1;
	assert_int_equal(status_of(&q, NULL, NULL), WIRE_OK);
	assert_int_equal(keys_there(), 3);
	assert_int_equal(status_of(&get, "00001", NULL), WIRE_NOT_FOUND);
	assert_int_equal(keys_there(), 2);
}

static int make(void **state)
{
	key_bytes_min = 0;
	return request_kit_make(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, make, request_kit_unmake)
		CASE(test_list), CASE(test_prefix), CASE(test_over), CASE(test_long), CASE(test_growth),
		CASE(test_flush), CASE(test_flush_locked), CASE(test_flush_then),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
