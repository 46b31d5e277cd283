/* SPDX-License-Identifier: BSD-2-Clause */
/* The checker of histories: explains what can be explained, and only that. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/lib/linear.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

#define OP(k, r, v, from, to) \
	{ .key = 1, .kind = (k), .result = (r), .value = (v), .invoke_ns = (from), .return_ns = (to) }
#define PUT(v, from, to) OP(LINEAR_PUT, LINEAR_DONE, v, from, to)
#define PUT_UNKNOWN(v, from) OP(LINEAR_PUT, LINEAR_UNKNOWN, v, from, LINEAR_OPEN)
#define PUT_FAILED(v, from, to) OP(LINEAR_PUT, LINEAR_NOTHING, v, from, to)
#define GET(v, from, to) OP(LINEAR_GET, LINEAR_DONE, v, from, to)
#define GET_NONE(from, to) OP(LINEAR_GET, LINEAR_NOT_FOUND, 0, from, to)
#define GET_FAILED(from, to) OP(LINEAR_GET, LINEAR_NOTHING, 0, from, to)
#define DEL(from, to) OP(LINEAR_DEL, LINEAR_DONE, 0, from, to)
#define DEL_NONE(from, to) OP(LINEAR_DEL, LINEAR_NOT_FOUND, 0, from, to)
#define DEL_UNKNOWN(from) OP(LINEAR_DEL, LINEAR_UNKNOWN, 0, from, LINEAR_OPEN)

static void expect(enum linear_verdict want, const struct linear_op *ops, size_t n, int line)
{
	struct linear_op copy[32];
	struct linear_report report = { .why = "" };

	memcpy(copy, ops, n * sizeof *ops);
	enum linear_verdict got = linear_check(copy, n, &report);
	if (got != want)
		fail_msg("line %d: verdict %d, not %d: %s", line, got, want, report.why);
}

#define GOOD(...) \
	do { \
		const struct linear_op h[] = { __VA_ARGS__ }; \
		expect(LINEAR_OK, h, COUNT(h), __LINE__); \
	} while (0)
#define BAD(...) \
	do { \
		const struct linear_op h[] = { __VA_ARGS__ }; \
		expect(LINEAR_VIOLATION, h, COUNT(h), __LINE__); \
	} while (0)

static void test_one_after_another(void **state)
{
	(void)state;
	GOOD(GET_NONE(1, 2), PUT(7, 3, 4), GET(7, 5, 6), DEL(7, 8), GET_NONE(9, 10));
	GOOD(DEL_NONE(1, 2), PUT(7, 3, 4), PUT(8, 5, 6), GET(8, 7, 8), GET(8, 9, 10));
	BAD(PUT(7, 1, 2), GET_NONE(3, 4));
	BAD(GET(7, 1, 2), PUT(7, 3, 4));
	BAD(PUT(7, 1, 2), PUT(8, 3, 4), GET(7, 5, 6));
	BAD(PUT(7, 1, 2), DEL(3, 4), GET(7, 5, 6));
	BAD(PUT(7, 1, 2), DEL(3, 4), DEL(5, 6));
	BAD(PUT(7, 1, 2), DEL_NONE(3, 4));
	BAD(DEL(1, 2));
	BAD(GET(7, 1, 2));
}

static void test_at_the_same_time(void **state)
{
	(void)state;
	GOOD(PUT(7, 1, 10), GET_NONE(2, 3), GET(7, 4, 5));
	GOOD(PUT(7, 1, 10), PUT(8, 1, 10), GET(7, 2, 3), GET(8, 4, 5));
	GOOD(PUT(7, 1, 10), PUT(8, 1, 10), GET(8, 2, 3), GET(7, 4, 5), GET(7, 11, 12));
	GOOD(PUT(7, 1, 10), DEL(2, 9), GET(7, 3, 4), GET_NONE(5, 6));
	GOOD(PUT(7, 1, 2), PUT(8, 3, 20), DEL(4, 19), GET(7, 5, 6), GET_NONE(7, 8), GET(8, 9, 10));
	/* The new value, then the old one again. */
	BAD(PUT(7, 1, 2), PUT(8, 3, 20), GET(8, 4, 5), GET(7, 6, 7));
	BAD(PUT(7, 1, 20), GET(7, 2, 3), GET_NONE(4, 5));
	BAD(PUT(7, 1, 10), PUT(8, 1, 10), GET(7, 2, 3), GET(8, 4, 5), GET(7, 6, 7));
	BAD(PUT(7, 1, 10), PUT(8, 1, 10), GET(8, 2, 3), GET(7, 4, 5), GET(8, 11, 12));
	/* Two deletes of what was there once. */
	BAD(PUT(7, 1, 2), DEL(3, 10), DEL(3, 10));
	GOOD(PUT(7, 1, 2), DEL(3, 10), DEL_NONE(3, 10));
	/* Overlapping reads don't bind each other; one after the other do. */
	GOOD(PUT(7, 1, 2), PUT(8, 3, 20), GET(8, 4, 9), GET(7, 5, 10));
	BAD(PUT(7, 1, 2), PUT(8, 3, 20), GET(8, 4, 6), GET(7, 7, 10), GET(8, 8, 9));
}

static void test_unknown_results(void **state)
{
	(void)state;
	GOOD(PUT_UNKNOWN(7, 1), GET_NONE(2, 3), GET(7, 10, 11), GET(7, 12, 13));
	GOOD(PUT_UNKNOWN(7, 1), GET_NONE(2, 3), GET_NONE(10, 11));
	GOOD(PUT(7, 1, 2), DEL_UNKNOWN(3), GET(7, 4, 5), GET_NONE(6, 7), DEL_NONE(8, 9));
	GOOD(PUT_UNKNOWN(7, 1), DEL(2, 3), GET_NONE(4, 5));
	GOOD(PUT(6, 1, 2), PUT_UNKNOWN(7, 3), DEL(4, 5), DEL(6, 7));
	/* Once, and not before its call. */
	BAD(PUT_UNKNOWN(7, 1), GET(7, 2, 3), PUT(8, 4, 5), GET(7, 6, 7));
	BAD(PUT_UNKNOWN(7, 1), GET(7, 2, 3), DEL(4, 5), DEL(6, 7));
	BAD(PUT_UNKNOWN(7, 1), DEL(2, 3), DEL(4, 5));
	BAD(GET(7, 1, 2), PUT_UNKNOWN(7, 3));
	BAD(DEL(1, 2), PUT_UNKNOWN(7, 3));
	BAD(PUT(7, 1, 2), GET_NONE(3, 4), DEL_UNKNOWN(5));
	BAD(PUT(7, 1, 2), DEL_UNKNOWN(3), GET_NONE(4, 5), GET(7, 6, 7));
	BAD(PUT(7, 1, 2), DEL_UNKNOWN(3), GET_NONE(4, 5), PUT(8, 6, 7), GET_NONE(8, 9));
}

static void test_known_failures(void **state)
{
	(void)state;
	GOOD(PUT(7, 1, 2), PUT_FAILED(8, 3, 4), GET_FAILED(5, 6), GET(7, 7, 8));
	BAD(PUT(7, 1, 2), PUT_FAILED(8, 3, 4), GET(8, 5, 6));
}

static void test_versions(void **state)
{
	struct linear_op good[] = { PUT(7, 1, 10), PUT(8, 1, 10), GET(8, 11, 12) };
	struct linear_op two[] = { PUT(7, 1, 2), GET(7, 3, 4) };
	struct linear_op back[] = { PUT(7, 1, 2), PUT(8, 3, 4) };

	(void)state;
	good[0].version = 3;
	good[1].version = good[2].version = 5;
	expect(LINEAR_OK, good, COUNT(good), __LINE__);
	two[0].version = 3;
	two[1].version = 4;
	expect(LINEAR_VIOLATION, two, COUNT(two), __LINE__);
	back[0].version = 4;
	back[1].version = 3;
	expect(LINEAR_VIOLATION, back, COUNT(back), __LINE__);
}

static void test_keys_are_independent(void **state)
{
	struct linear_op ops[] = { PUT(7, 1, 2), GET_NONE(3, 4), PUT(9, 1, 2), GET(9, 3, 4) };

	(void)state;
	ops[1].key = 2;
	expect(LINEAR_OK, ops, COUNT(ops), __LINE__);
	ops[1].key = 1;
	ops[2].key = ops[3].key = 2;
	expect(LINEAR_VIOLATION, ops, COUNT(ops), __LINE__);
}

static void test_same_value_twice_is_refused(void **state)
{
	const struct linear_op ops[] = { PUT(7, 1, 2), PUT(7, 3, 4) };

	(void)state;
	expect(LINEAR_UNDECIDED, ops, COUNT(ops), __LINE__);
}

/* ------------------------------------------------------------ a made-up store */

struct maker {
	uint64_t random;
	uint64_t now_ns;
	uint64_t values;
	uint64_t value[8]; /* of each key */
	uint64_t free_ns[16]; /* of each client */
};

static uint64_t roll(struct maker *m, uint64_t n)
{
	m->random ^= m->random << 13;
	m->random ^= m->random >> 7;
	m->random ^= m->random << 17;
	return m->random % n;
}

/* An operation that takes effect now, called some time before, returning later. */
static struct linear_op make(struct maker *m, unsigned kill_percent)
{
	unsigned client = (unsigned)roll(m, 16);
	struct linear_op op = { .key = roll(m, 8), .client = client };
	uint64_t kind = roll(m, 10), *value = &m->value[op.key];

	m->now_ns += 1 + roll(m, 20);
	if (m->now_ns <= m->free_ns[client])
		m->now_ns = m->free_ns[client] + 1;
	uint64_t earliest = m->free_ns[client] + 1;
	uint64_t back = m->now_ns - earliest < 100 ? m->now_ns - earliest : 100;
	op.invoke_ns = m->now_ns - roll(m, back + 1);
	op.return_ns = m->now_ns + roll(m, 100);
	m->free_ns[client] = op.return_ns;
	op.kind = kind < 5 ? LINEAR_GET : kind < 9 ? LINEAR_PUT : LINEAR_DEL;
	op.result = *value || op.kind == LINEAR_PUT ? LINEAR_DONE : LINEAR_NOT_FOUND;
	bool killed = op.kind != LINEAR_GET && roll(m, 100) < kill_percent;
	if (op.kind == LINEAR_GET)
		op.value = *value;
	if (op.kind == LINEAR_PUT)
		op.value = ++m->values;
	if (op.kind != LINEAR_GET && (!killed || roll(m, 2)))
		*value = op.value;
	if (killed) {
		op.result = LINEAR_UNKNOWN;
		op.return_ns = LINEAR_OPEN;
	}
	return op;
}

static struct linear_op *make_history(uint64_t seed, size_t n, unsigned kill_percent)
{
	struct maker m = { .random = seed * 0x9e3779b97f4a7c15ull + 1, .now_ns = 1000 };
	struct linear_op *ops = calloc(n, sizeof *ops);

	assert_non_null(ops);
	for (size_t i = 0; i < n; i++)
		ops[i] = make(&m, kill_percent);
	return ops;
}

static void test_made_up_stores_are_right(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 40; seed++) {
		struct linear_report report = { .why = "" };
		struct linear_op *ops = make_history(seed, 5000, seed % 4 * 2);
		if (linear_check(ops, 5000, &report) != LINEAR_OK)
			fail_msg("seed %d: %s", (int)seed, report.why);
		free(ops);
	}
}

/* One read has the value before, long after it was replaced. */
static bool spoil(struct linear_op *ops, size_t n)
{
	for (size_t i = n / 2; i < n; i++) {
		uint64_t newer = 0, old = 0;
		if (ops[i].kind != LINEAR_GET || ops[i].result != LINEAR_DONE)
			continue;
		for (size_t k = i; k-- > 0 && !old;) {
			if (ops[k].key != ops[i].key || ops[k].kind != LINEAR_PUT ||
			    ops[k].result != LINEAR_DONE || ops[k].return_ns >= ops[i].invoke_ns)
				continue;
			if (!newer)
				newer = ops[k].invoke_ns;
			else if (ops[k].return_ns < newer)
				old = ops[k].value;
		}
		if (old && old != ops[i].value) {
			ops[i].value = old;
			return true;
		}
	}
	return false;
}

static void test_made_up_stores_that_are_wrong(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 40; seed++) {
		struct linear_report report = { .why = "" };
		struct linear_op *ops = make_history(seed, 5000, seed % 4 * 2);
		assert_true(spoil(ops, 5000));
		assert_int_equal(linear_check(ops, 5000, &report), LINEAR_VIOLATION);
		assert_int_equal(report.op.kind, LINEAR_GET);
		free(ops);
	}
}

static void test_a_million_operations(void **state)
{
	struct linear_report report = { .why = "" };
	struct linear_op *ops = make_history(99, 1000000, 1);

	(void)state;
	assert_int_equal(linear_check(ops, 1000000, &report), LINEAR_OK);
	free(ops);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_after_another),
		cmocka_unit_test(test_at_the_same_time),
		cmocka_unit_test(test_unknown_results),
		cmocka_unit_test(test_known_failures),
		cmocka_unit_test(test_versions),
		cmocka_unit_test(test_keys_are_independent),
		cmocka_unit_test(test_same_value_twice_is_refused),
		cmocka_unit_test(test_made_up_stores_are_right),
		cmocka_unit_test(test_made_up_stores_that_are_wrong),
		cmocka_unit_test(test_a_million_operations),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
