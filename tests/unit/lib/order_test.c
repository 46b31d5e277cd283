/* SPDX-License-Identifier: BSD-2-Clause */
/* The checker of episodes: explains what can be explained, and only that. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/lib/group.h"
#include "tests/lib/order.h"

#define MS 1000000ull
#define STATES_MAX 200000

static struct order *history;

static int begin(void **state)
{
	(void)state;
	history = order_new();
	return 0;
}

static int end(void **state)
{
	(void)state;
	order_delete(&history);
	return 0;
}

static uint32_t text(const char *s)
{
	return order_text(history, s, strlen(s));
}

/* An operation of one part, of key 0 unless it says otherwise, with `from` and `to` in ms. */
static struct order_part *op(uint64_t from, uint64_t to, struct order_part part)
{
	struct order_op *o = order_add(history, 1, from * MS, to * MS);

	assert_non_null(o);
	o->parts[o->count++] = part;
	return &o->parts[0];
}

/* A further part of the last operation. */
static void also(struct order_part *first, struct order_part part)
{
	struct order_op *o = (struct order_op *)((char *)first - offsetof(struct order_op, parts));

	o->parts[o->count++] = part;
}

static void unknown(uint64_t from, struct order_part part)
{
	struct order_op *o = order_add(history, 2, from * MS, ORDER_OPEN);

	o->is_unknown = true;
	part.result = ORDER_ANY;
	o->parts[o->count++] = part;
}

#define PART(k, r, ...) ((struct order_part){ .kind = (k), .result = (r), __VA_ARGS__ })
#define PUT(v, ...) PART(ORDER_PUT, ORDER_OK, .value = text(v), __VA_ARGS__)
#define GET(v, ...) PART(ORDER_GET, ORDER_OK, .value = text(v), __VA_ARGS__)
#define GET_NONE(...) PART(ORDER_GET, ORDER_NOT_FOUND, __VA_ARGS__)
#define DEL(...) PART(ORDER_DEL, ORDER_OK, __VA_ARGS__)
#define DEL_NONE(...) PART(ORDER_DEL, ORDER_NOT_FOUND, __VA_ARGS__)
#define INCR(d, n, ...) PART(ORDER_INCR, ORDER_OK, .delta = (d), .number = (n), __VA_ARGS__)
#define APPEND(v, ...) PART(ORDER_APPEND, ORDER_OK, .value = text(v), __VA_ARGS__)
#define TOLD(v) .tells = true, .version = (v)
#define REFUSED(v, told, ...) \
	PART(ORDER_PUT, ORDER_CONDITION, .value = text(v), TOLD(told), __VA_ARGS__)

static void expect(enum order_verdict want, int line)
{
	struct order_report report;
	enum order_verdict verdict = order_check(history, STATES_MAX, &report);

	if (verdict != want) {
		order_print(history, &report, stderr);
		fail_msg("line %d: %d where %d was expected", line, verdict, want);
	}
	order_clear(history);
}

#define GOOD() expect(ORDER_EXPLAINED, __LINE__)
#define BAD() expect(ORDER_BROKEN, __LINE__)

static void test_reads(void **state)
{
	(void)state;
	op(1, 2, GET_NONE());
	op(3, 4, PUT("a"));
	op(5, 6, GET("a"));
	op(7, 20, PUT("b"));
	op(8, 9, GET("a"));
	op(10, 11, GET("b"));
	GOOD();
	/* A stale read. */
	op(1, 2, PUT("a"));
	op(3, 4, PUT("b"));
	op(5, 6, GET("a"));
	BAD();
	/* The new value, and then the old one. */
	op(1, 2, PUT("a"));
	op(3, 20, PUT("b"));
	op(4, 5, GET("b"));
	op(6, 7, GET("a"));
	BAD();
	op(1, 2, PUT("a"));
	op(3, 4, GET_NONE());
	BAD();
	/* A value that nobody put. */
	op(1, 2, GET("a"));
	BAD();
}

static void test_deletes(void **state)
{
	(void)state;
	op(1, 2, PUT("a"));
	op(3, 9, DEL());
	op(3, 9, DEL_NONE());
	op(10, 11, GET_NONE());
	GOOD();
	op(1, 2, PUT("a"));
	op(3, 9, DEL());
	op(3, 9, DEL());
	BAD();
	op(1, 2, PUT("a"));
	op(3, 4, DEL());
	op(5, 6, GET("a"));
	BAD();
	/* Nobody told whether it was there. */
	op(1, 9, PART(ORDER_DEL, ORDER_ANY));
	op(2, 3, PUT("a"));
	op(4, 5, GET_NONE());
	GOOD();
	/* Of an absent key the condition is not asked. */
	op(1, 2, DEL_NONE(.condition = ORDER_IF_VERSION, .if_version = 7));
	GOOD();
	op(1, 2, PUT("a", TOLD(5)));
	op(3, 4, DEL(.condition = ORDER_IF_VERSION, .if_version = 4, TOLD(5)));
	BAD();
}

static void test_versions(void **state)
{
	(void)state;
	op(1, 2, PUT("a", TOLD(5)));
	op(3, 4, GET("a", TOLD(5)));
	op(5, 6, APPEND("b"));
	op(7, 8, GET("ab", TOLD(9)));
	op(9, 10, GET("ab", TOLD(9)));
	GOOD();
	op(1, 2, PUT("a", TOLD(5)));
	op(3, 4, PUT("b", TOLD(4)));
	BAD();
	op(1, 2, PUT("a", TOLD(5)));
	op(3, 4, GET("a", TOLD(6)));
	BAD();
	op(1, 2, PUT("a", TOLD(5)));
	op(3, 4, APPEND("b"));
	op(5, 6, GET("ab", TOLD(5)));
	BAD();
	/* Also over a delete. */
	op(1, 2, PUT("a", TOLD(5)));
	op(3, 4, DEL());
	op(5, 6, PUT("b", TOLD(3)));
	BAD();
}

static void test_conditions(void **state)
{
	(void)state;
	op(1, 9, PUT("a", .condition = ORDER_IF_ABSENT, TOLD(5)));
	op(1, 9, REFUSED("b", 5, .condition = ORDER_IF_ABSENT));
	op(10, 11, PUT("c", .condition = ORDER_IF_VERSION, .if_version = 5, TOLD(6)));
	op(12, 13, REFUSED("d", 6, .condition = ORDER_IF_VERSION, .if_version = 5));
	op(14, 15, GET("c"));
	GOOD();
	/* Both were the first. */
	op(1, 9, PUT("a", .condition = ORDER_IF_ABSENT));
	op(1, 9, PUT("b", .condition = ORDER_IF_ABSENT));
	BAD();
	/* A lost update: both had read version 5. */
	op(1, 2, PUT("a", TOLD(5)));
	op(3, 9, PUT("b", .condition = ORDER_IF_VERSION, .if_version = 5, TOLD(6)));
	op(3, 9, PUT("c", .condition = ORDER_IF_VERSION, .if_version = 5, TOLD(7)));
	BAD();
	/* It was true. */
	op(1, 2, PUT("a", TOLD(5)));
	op(3, 4, REFUSED("b", 5, .condition = ORDER_IF_VERSION, .if_version = 5));
	BAD();
	op(1, 2, REFUSED("a", 0, .condition = ORDER_IF_ABSENT));
	BAD();
	op(1, 2, REFUSED("a", 0, .condition = ORDER_IF_PRESENT));
	GOOD();
	/* What was refused was done. */
	op(1, 2, PUT("a", TOLD(5)));
	op(3, 4, REFUSED("b", 5, .condition = ORDER_IF_ABSENT));
	op(5, 6, GET("b"));
	BAD();
}

static void test_counters(void **state)
{
	(void)state;
	op(1, 9, INCR(2, 12, .has_initial = true, .initial = 10));
	op(1, 9, INCR(1, 13, .has_initial = true, .initial = 10));
	op(10, 11, GET("13"));
	GOOD();
	/* Applied twice. */
	op(1, 2, PUT("10"));
	op(3, 4, INCR(1, 11));
	op(5, 6, GET("12"));
	BAD();
	/* Two at once that both had the same. */
	op(1, 2, PUT("10"));
	op(3, 9, INCR(1, 11));
	op(3, 9, INCR(1, 11));
	BAD();
	op(1, 2, PUT("ten"));
	op(3, 4, PART(ORDER_INCR, ORDER_ENUMBER, .delta = 1));
	op(5, 6, GET("ten"));
	GOOD();
	op(1, 2, PUT("10"));
	op(3, 4, PART(ORDER_INCR, ORDER_ENUMBER, .delta = 1));
	BAD();
	op(1, 2, PART(ORDER_INCR, ORDER_NOT_FOUND, .delta = 1));
	GOOD();
}

static void test_appends(void **state)
{
	(void)state;
	op(1, 9, APPEND("a", .bytes = 1));
	op(1, 9, APPEND("b", .bytes = 2));
	op(10, 11, PART(ORDER_PREPEND, ORDER_OK, .value = text("c"), .bytes = 3));
	op(12, 13, GET("cab"));
	GOOD();
	/* Twice. */
	op(1, 2, PUT("a"));
	op(3, 4, APPEND("b"));
	op(5, 6, GET("abb"));
	BAD();
	/* One of two is lost. */
	op(1, 2, PUT("a"));
	op(3, 9, APPEND("b"));
	op(3, 9, APPEND("c"));
	op(10, 11, GET("ac"));
	BAD();
	/* At the wrong end. */
	op(1, 2, PUT("a"));
	op(3, 4, APPEND("b"));
	op(5, 6, GET("ba"));
	BAD();
	op(1, 2, PUT("a"));
	op(3, 4, APPEND("b", .bytes = 3));
	BAD();
}

static void test_expiry(void **state)
{
	(void)state;
	/* It may be a millisecond short, and is over at the latest so long after the answer. */
	op(10, 12, PUT("a", .ttl_ms = 20));
	op(13, 30, GET("a"));
	op(29, 29, GET_NONE());
	GOOD();
	op(10, 12, PUT("a", .ttl_ms = 20));
	op(32, 33, GET("a"));
	GOOD();
	op(10, 12, PUT("a", .ttl_ms = 20));
	op(33, 34, GET("a"));
	BAD();
	op(10, 12, PUT("a", .ttl_ms = 20));
	op(20, 28, GET_NONE());
	BAD();
	/* Once it is over it stays so. */
	op(10, 12, PUT("a", .ttl_ms = 20));
	op(29, 30, GET_NONE());
	op(31, 32, GET("a"));
	BAD();
	/* A put without a time to live takes it away, a touch gives another. */
	op(10, 12, PUT("a", .ttl_ms = 20));
	op(13, 14, PUT("b"));
	op(50, 51, GET("b"));
	GOOD();
	op(10, 12, PUT("a", .ttl_ms = 20));
	op(13, 14, PART(ORDER_TOUCH, ORDER_OK, .ttl_ms = 50));
	op(50, 51, GET("a"));
	op(65, 66, GET_NONE());
	GOOD();
	op(10, 12, PUT("a", .ttl_ms = 20));
	op(13, 14, PART(ORDER_TOUCH, ORDER_OK, .ttl_ms = 50));
	op(40, 41, GET_NONE());
	BAD();
	op(10, 12, PUT("a", .ttl_ms = 20));
	op(9, 30, PART(ORDER_TOUCH, ORDER_OK));
	op(5, 8, PUT("a"));
	op(50, 51, GET("a"));
	GOOD();
	/* What is computed from the old value keeps its expiry, and so does who says so. */
	op(10, 12, PUT("a", .ttl_ms = 20));
	op(13, 14, APPEND("b", .ttl_ms = 100));
	op(40, 41, GET("ab"));
	BAD();
	op(10, 12, PUT("a", .ttl_ms = 20));
	op(13, 14, PUT("b", .keeps_ttl = true, .ttl_ms = 100));
	op(40, 41, GET("b"));
	BAD();
	op(1, 2, PART(ORDER_TOUCH, ORDER_NOT_FOUND, .ttl_ms = 100));
	op(3, 4, GET_NONE());
	GOOD();
	op(1, 2, PUT("a"));
	op(3, 4, PART(ORDER_TOUCH, ORDER_NOT_FOUND, .ttl_ms = 100));
	BAD();
}

/* A key whose time is over under a change that looked at it goes behind that change. */
static void test_expiry_under_a_change(void **state)
{
	(void)state;
	/* Keys 0 and 1 change together if key 1 is there; who asks for key 0 meanwhile finds the old. */
	op(1, 2, PUT("a"));
	op(3, 4, PUT("t", .key = 1, .ttl_ms = 20));
	also(op(10, 60, PUT("b")), GET("t", .key = 1));
	op(50, 51, GET("a"));
	op(52, 61, GET_NONE(.key = 1)); /* and for key 1 waits */
	op(62, 63, GET("b"));
	GOOD();
	/* It began too late for that. */
	op(1, 2, PUT("a"));
	op(3, 4, PUT("t", .key = 1, .ttl_ms = 20));
	also(op(30, 60, PUT("b")), GET("t", .key = 1));
	BAD();
	/* Nobody else sees it when its time is over. */
	op(1, 2, PUT("a"));
	op(3, 4, PUT("t", .key = 1, .ttl_ms = 20));
	also(op(10, 60, PUT("b")), GET("t", .key = 1));
	op(50, 51, GET("t", .key = 1));
	BAD();
	/* Nor is it there behind the change. */
	op(1, 2, PUT("a"));
	op(3, 4, PUT("t", .key = 1, .ttl_ms = 20));
	also(op(10, 60, PUT("b")), GET("t", .key = 1));
	op(61, 62, GET("t", .key = 1));
	BAD();
	/* A reader that finds none is behind it. */
	op(1, 2, PUT("a"));
	op(3, 4, PUT("t", .key = 1, .ttl_ms = 20));
	also(op(10, 60, PUT("b")), GET("t", .key = 1));
	op(50, 51, GET_NONE(.key = 1));
	op(52, 53, GET("a"));
	BAD();
}

/* Two keys expire in the order of time, whoever looks. */
static void test_time_passes_for_all(void **state)
{
	struct order_part *both;

	(void)state;
	op(10, 11, PUT("a", .ttl_ms = 20));
	op(10, 11, PUT("b", .key = 2, .ttl_ms = 40));
	both = op(20, 60, GET("a"));
	also(both, GET_NONE(.key = 2));
	BAD();
	op(10, 11, PUT("a", .ttl_ms = 20));
	op(10, 11, PUT("b", .key = 2, .ttl_ms = 40));
	both = op(20, 60, GET_NONE());
	also(both, GET("b", .key = 2));
	GOOD();
}

static void test_transactions(void **state)
{
	struct order_part *txn;

	(void)state;
	txn = op(1, 9, PUT("a", TOLD(5)));
	also(txn, PUT("b", .key = 2, TOLD(6)));
	op(2, 3, GET_NONE(.key = 2));
	op(4, 5, GET("a"));
	op(6, 7, GET("b", .key = 2));
	GOOD();
	/* Torn: the second key is seen before the first. */
	txn = op(1, 9, PUT("a"));
	also(txn, PUT("b", .key = 2));
	op(2, 3, GET("b", .key = 2));
	op(4, 5, GET_NONE());
	BAD();
	/* A reader of both has half of it. */
	txn = op(1, 9, PUT("a"));
	also(txn, PUT("b", .key = 2));
	txn = op(2, 20, GET("a"));
	also(txn, GET_NONE(.key = 2));
	BAD();
	/* Write skew: each read what the other wrote. */
	txn = op(1, 9, GET_NONE(.key = 2));
	also(txn, PUT("a"));
	txn = op(1, 9, GET_NONE());
	also(txn, PUT("b", .key = 2));
	BAD();
	/* A lost update. */
	op(1, 2, PUT("10"));
	txn = op(3, 9, GET("10"));
	also(txn, PUT("11"));
	txn = op(3, 9, GET("10"));
	also(txn, PUT("12"));
	BAD();
}

static void test_locks(void **state)
{
	(void)state;
	op(1, 2, PART(ORDER_LOCK, ORDER_OK, .lock = 1));
	op(3, 20, PUT("b"));
	op(4, 5, GET_NONE());
	op(6, 7, PUT("a", .lock = 1));
	unknown(8, PART(ORDER_UNLOCK, ORDER_OK, .lock = 1));
	op(9, 10, GET("a"));
	op(21, 22, GET("b"));
	GOOD();
	/* Somebody's change took effect under it. */
	op(1, 2, PART(ORDER_LOCK, ORDER_OK, .lock = 1));
	op(3, 4, PUT("b"));
	op(6, 7, PUT("a", .lock = 1));
	unknown(8, PART(ORDER_UNLOCK, ORDER_OK, .lock = 1));
	BAD();
	/* Two hold it. */
	op(1, 2, PART(ORDER_LOCK, ORDER_OK, .lock = 1));
	op(3, 4, PART(ORDER_LOCK, ORDER_OK, .lock = 2));
	unknown(8, PART(ORDER_UNLOCK, ORDER_OK, .lock = 1));
	BAD();
	/* The key may expire under it. */
	op(1, 2, PUT("a", .ttl_ms = 10));
	op(3, 4, PART(ORDER_LOCK, ORDER_OK, .lock = 1));
	op(5, 6, GET("a", .lock = 1));
	op(13, 14, GET_NONE(.lock = 1));
	GOOD();
}

static void test_unknown_outcomes(void **state)
{
	(void)state;
	unknown(1, PUT("a"));
	op(2, 3, GET_NONE());
	op(9, 10, GET("a"));
	GOOD();
	unknown(1, PUT("a"));
	op(2, 3, GET_NONE());
	GOOD();
	/* Once, and not before its call. */
	op(1, 2, PUT("10"));
	unknown(3, INCR(1, 0));
	op(4, 5, GET("11"));
	op(6, 7, GET("12"));
	BAD();
	op(1, 2, GET("a"));
	unknown(3, PUT("a"));
	BAD();
	unknown(1, PUT("a"));
	op(2, 3, GET("a"));
	op(4, 5, PUT("b"));
	op(6, 7, GET("a"));
	BAD();
}

/* Twelve appends at once have more orders than may be looked at: no pass, and no failure. */
static void test_too_much_is_not_decided(void **state)
{
	char name[2] = "a";

	(void)state;
	for (unsigned i = 0; i < 12; i++, name[0]++)
		op(1, 9, APPEND(name));
	op(10, 11, GET("nobody's"));
	expect(ORDER_UNDECIDED, __LINE__);
}

/* The story of a failure, as order_print() tells it. */
static void test_story(void **state)
{
	struct order_report report;
	char *story;
	size_t bytes;
	FILE *to = open_memstream(&story, &bytes);

	(void)state;
	op(5, 6, GET("a"));
	op(1, 2, PUT("a", TOLD(7)));
	op(3, 4, PUT("b", .ttl_ms = 50));
	op(7, 8, GET_NONE(.key = 2));
	assert_int_equal(order_check(history, STATES_MAX, &report), ORDER_BROKEN);
	order_print(history, &report, to);
	fclose(to);
	assert_non_null(strstr(story, "+        0.0     1000.0 us  client 1: PUT k0 \"a\" -> OK, version 7"));
	assert_non_null(strstr(story, "PUT k0 \"b\" for 50 ms -> OK"));
	assert_non_null(strstr(story, "*     4000.0     5000.0 us  client 1: GET k0 -> OK \"a\""));
	assert_null(strstr(story, "k2"));
	free(story);
	order_clear(history);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reads),
		cmocka_unit_test(test_deletes),
		cmocka_unit_test(test_versions),
		cmocka_unit_test(test_conditions),
		cmocka_unit_test(test_counters),
		cmocka_unit_test(test_appends),
		cmocka_unit_test(test_expiry),
		cmocka_unit_test(test_expiry_under_a_change),
		cmocka_unit_test(test_time_passes_for_all),
		cmocka_unit_test(test_transactions),
		cmocka_unit_test(test_locks),
		cmocka_unit_test(test_unknown_outcomes),
		cmocka_unit_test(test_too_much_is_not_decided),
		cmocka_unit_test(test_story),
	};

	return GROUP_RUN(tests, begin, end);
}
