/* SPDX-License-Identifier: BSD-2-Clause */
/* api_changes.c -- conditions, counters, append, expiry, and what is not allowed. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/integration/api.h"

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void sleep_ms(unsigned ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000L };

	nanosleep(&t, NULL);
}

/* ------------------------------------------------------------------ changes */

void case_conditions(void)
{
	struct kvd_change absent = { .size = sizeof absent, .condition = KVD_IF_ABSENT };
	struct kvd_change present = { .size = sizeof present, .condition = KVD_IF_PRESENT };
	struct kvd_change same = { .size = sizeof same, .condition = KVD_IF_VERSION };
	uint64_t first, second, version = 77;

	CHECK(kvd_put_with(KEY("k"), "no", 2, &present, &version) == KVD_CONDITION && version == 0);
	CHECK(kvd_put_with(KEY("k"), "1", 1, &absent, &first) == KVD_OK && first != 0);
	CHECK(kvd_put_with(KEY("k"), "no", 2, &absent, &version) == KVD_CONDITION);
	CHECK(version == first && is_value("k", "1"));
	CHECK(kvd_put_with(KEY("k"), "22", 2, &present, &second) == KVD_OK && second != first);
	same.version = first;
	CHECK(kvd_put_with(KEY("k"), "no", 2, &same, &version) == KVD_CONDITION && version == second);
	CHECK(kvd_del_with(KEY("k"), &same, &version) == KVD_CONDITION && version == second);
	CHECK(kvd_incr(KEY("k"), 1, NULL, &same, NULL) == KVD_CONDITION);
	CHECK(kvd_append(KEY("k"), "no", 2, &same, NULL) == KVD_CONDITION);
	CHECK(is_value("k", "22"));
	same.version = second;
	CHECK(kvd_put_with(KEY("k"), "333", 3, &same, &version) == KVD_OK && is_value("k", "333"));
	same.version = version;
	CHECK(kvd_del_with(KEY("k"), &same, NULL) == KVD_OK);
	CHECK(kvd_del_with(KEY("k"), &same, NULL) == KVD_NOT_FOUND);
	CHECK(kvd_put_with(KEY("k"), "no", 2, &same, NULL) == KVD_CONDITION);
	CHECK(kvd_del_with(KEY("k"), &absent, NULL) == KVD_NOT_FOUND);

	/* A long value, which kvd READs before it looks at the condition. */
	uint8_t *large = pattern(100000, 1);
	CHECK(kvd_put_with(KEY("k"), large, 100000, &present, NULL) == KVD_CONDITION);
	CHECK(kvd_put_with(KEY("k"), large, 100000, &absent, &first) == KVD_OK);
	CHECK(kvd_put_with(KEY("k"), large, 99999, &absent, &version) == KVD_CONDITION);
	CHECK(version == first && holds("k", large, 100000));
	free(large);

	struct kvd_change bad = { .size = sizeof bad - 1 };
	CHECK(kvd_put_with(KEY("k"), "no", 2, &bad, NULL) == KVD_EINVAL);
	bad = (struct kvd_change){ .size = sizeof bad, .condition = 4 };
	CHECK(kvd_put_with(KEY("k"), "no", 2, &bad, NULL) == KVD_EINVAL);
	bad = (struct kvd_change){ .size = sizeof bad, .ttl_ms = (uint64_t)-5000 };
	CHECK(kvd_put_with(KEY("k"), "no", 2, &bad, NULL) == KVD_EINVAL);
	CHECK(strstr(kvd_session_error(session), "ttl_ms"));
	bad = (struct kvd_change){ .size = sizeof bad, .ttl_ms = 5000 };
	CHECK(kvd_del_with(KEY("k"), &bad, NULL) == KVD_EINVAL);
}

static void put(const char *key, const char *value)
{
	CHECK(kvd_put(KEY(key), value, strlen(value), NULL) == KVD_OK);
}

void case_counters(void)
{
	static const char *const not_numbers[] = { "", "x", "1x", "+1", " 1", "1 ", "007", "-0", "-",
						   "1.5", "9223372036854775808",
						   "-9223372036854775809",
						   "99999999999999999999999999" };
	int64_t zero = 0, n = 5;

	CHECK(kvd_incr(KEY("n"), 1, NULL, NULL, &n) == KVD_NOT_FOUND && n == 5);
	CHECK(kvd_incr(KEY("n"), 1, &zero, NULL, &n) == KVD_OK && n == 1);
	CHECK(kvd_incr(KEY("n"), 41, &zero, NULL, &n) == KVD_OK && n == 42 && is_value("n", "42"));
	CHECK(kvd_incr(KEY("n"), -50, NULL, NULL, &n) == KVD_OK && n == -8 && is_value("n", "-8"));
	CHECK(kvd_incr(KEY("n"), 0, NULL, NULL, &n) == KVD_OK && n == -8);
	for (size_t i = 0; i < sizeof not_numbers / sizeof *not_numbers; i++) {
		put("n", not_numbers[i]);
		n = 5;
		CHECK(kvd_incr(KEY("n"), 1, &zero, NULL, &n) == KVD_ENUMBER && n == 5);
		CHECK(strstr(kvd_session_error(session), "number"));
		CHECK(is_value("n", not_numbers[i]));
	}
	put("n", "9223372036854775806");
	CHECK(kvd_incr(KEY("n"), 1, NULL, NULL, &n) == KVD_OK && n == INT64_MAX);
	CHECK(kvd_incr(KEY("n"), 1, NULL, NULL, &n) == KVD_ERANGE);
	CHECK(is_value("n", "9223372036854775807"));
	put("n", "-9223372036854775807");
	CHECK(kvd_incr(KEY("n"), -1, NULL, NULL, &n) == KVD_OK && n == INT64_MIN);
	CHECK(kvd_incr(KEY("n"), -1, NULL, NULL, &n) == KVD_ERANGE);
	CHECK(kvd_incr(KEY("n"), INT64_MAX, NULL, NULL, &n) == KVD_OK && n == -1);
	/* A long value is no number either, and the digits may grow over a length class. */
	uint8_t *large = pattern(50000, 2);
	CHECK(kvd_put(KEY("n"), large, 50000, NULL) == KVD_OK);
	CHECK(kvd_incr(KEY("n"), 1, NULL, NULL, &n) == KVD_ENUMBER && holds("n", large, 50000));
	free(large);
	put("n", "1");
	for (unsigned i = 0; i < 62; i++) {
		int64_t before = (int64_t)1 << i;
		CHECK(kvd_incr(KEY("n"), before, NULL, NULL, &n) == KVD_OK && n == before * 2);
	}
}

void case_append(void)
{
	size_t total = 0, expected = 0;
	uint8_t *all = pattern(400000, 3);

	CHECK(kvd_append(KEY("a"), "", 0, NULL, &total) == KVD_OK && total == 0);
	CHECK(is_value("a", ""));
	/* Over every way to store it: in place, elsewhere, pulled. */
	for (unsigned i = 0; expected < 300000; i++) {
		size_t n = i % 50 == 49 ? 20000 : i % 7 == 6 ? 5000 : 1 + i % 700;
		CHECK(kvd_append(KEY("a"), all + expected, n, NULL, &total) == KVD_OK);
		expected += n;
		CHECK(total == expected);
		if (i % 10 == 0 || n > 5000)
			CHECK(holds("a", all, expected));
	}
	CHECK(holds("a", all, expected));
	CHECK(kvd_append(KEY("new"), all, 100000, NULL, &total) == KVD_OK && total == 100000);
	CHECK(holds("new", all, 100000));
	free(all);
}

/* Over the limit: nothing is lost.  Needs a kvd of some GiB. */
void case_append_limit(void)
{
	size_t bytes = KVD_VALUE_BYTES_MAX - 10, total = 5, got;
	uint8_t *value = calloc(1, bytes);
	uint64_t version, after;

	CHECK(value && kvd_put(KEY("a"), value, bytes, &version) == KVD_OK);
	free(value);
	CHECK(kvd_append(KEY("a"), "12345678901", 11, NULL, &total) == KVD_ETOOBIG && total == 5);
	CHECK(strstr(kvd_session_error(session), "1 GiB"));
	CHECK(kvd_exists(KEY("a"), &got) == KVD_OK && got == bytes);
	CHECK(kvd_append(KEY("a"), "1234567890", 10, NULL, &total) == KVD_OK);
	CHECK(total == KVD_VALUE_BYTES_MAX);
	CHECK(kvd_get_alloc(KEY("a"), (void **)&value, &got, &after) == KVD_OK && after != version);
	CHECK(got == KVD_VALUE_BYTES_MAX && !memcmp(value + bytes, "1234567890", 10));
	free(value);
	CHECK(kvd_touch(KEY("a"), 100000) == KVD_OK);
	CHECK(kvd_get_alloc(KEY("a"), (void **)&value, &got, &version) == KVD_OK && after != version);
	free(value);
}

/* ------------------------------------------------------------------- expiry */

/* A key is gone when its time is over, and a second later on a machine that is busy. */
#define LATE_MS 1000u

/* Until the key is gone, which has to be within ttl_ms; how long that took. */
static uint64_t gone_after_ms(const char *key, uint64_t since_ms, uint64_t ttl_ms)
{
	char value[16];
	size_t bytes;
	int rc;

	while ((rc = kvd_get(KEY(key), value, sizeof value, &bytes, NULL)) == KVD_OK ||
	       rc == KVD_ESPACE)
		CHECK(now_ms() - since_ms <= ttl_ms + LATE_MS);
	CHECK(rc == KVD_NOT_FOUND);
	return now_ms() - since_ms;
}

void case_expiry(void)
{
	struct kvd_change ttl = { .size = sizeof ttl, .ttl_ms = 300 };
	static const size_t lengths[] = { 0, 5, 3000, 9000, 100000 };
	uint8_t *value = pattern(100000, 4);
	uint64_t start;

	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		start = now_ms();
		CHECK(kvd_put_with(KEY("k"), value, lengths[i], &ttl, NULL) == KVD_OK);
		CHECK(holds("k", value, lengths[i]));
		/* kvd's clock counts whole milliseconds. */
		CHECK(gone_after_ms("k", start, ttl.ttl_ms) + 1 >= ttl.ttl_ms);
		CHECK(kvd_exists(KEY("k"), NULL) == KVD_NOT_FOUND);
		CHECK(kvd_del(KEY("k")) == KVD_NOT_FOUND);
	}
	free(value);
	/* Gone for changes as well, and a new one begins anew. */
	struct kvd_change present = { .size = sizeof present, .condition = KVD_IF_PRESENT };
	struct kvd_change absent = { .size = sizeof absent, .condition = KVD_IF_ABSENT };
	CHECK(kvd_put_with(KEY("k"), "7", 1, &ttl, NULL) == KVD_OK);
	CHECK(kvd_put_with(KEY("k"), "8", 1, &absent, NULL) == KVD_CONDITION);
	gone_after_ms("k", now_ms(), ttl.ttl_ms);
	CHECK(kvd_incr(KEY("k"), 1, NULL, NULL, NULL) == KVD_NOT_FOUND);
	CHECK(kvd_touch(KEY("k"), 1000) == KVD_NOT_FOUND);
	CHECK(kvd_put_with(KEY("k"), "8", 1, &present, NULL) == KVD_CONDITION);
	CHECK(kvd_put_with(KEY("k"), "8", 1, &absent, NULL) == KVD_OK);
	sleep_ms(400);
	CHECK(is_value("k", "8"));
	/* A put without a time to live ends one that was; incr and append keep it. */
	CHECK(kvd_put_with(KEY("k"), "7", 1, &ttl, NULL) == KVD_OK);
	put("k", "9");
	sleep_ms(400);
	CHECK(is_value("k", "9"));
	int64_t zero = 0;
	start = now_ms();
	CHECK(kvd_incr(KEY("n"), 3, &zero, &ttl, NULL) == KVD_OK);
	ttl.ttl_ms = 5000;
	CHECK(kvd_incr(KEY("n"), 3, &zero, &ttl, NULL) == KVD_OK && is_value("n", "6"));
	CHECK(kvd_append(KEY("n"), "0", 1, &ttl, NULL) == KVD_OK && is_value("n", "60"));
	gone_after_ms("n", start, 300);
}

void case_touch(void)
{
	static const size_t lengths[] = { 0, 5, 4000, 4050, 12000, 17000, 3000000 };
	uint8_t *value = pattern(3000000, 5);
	char name[16];

	CHECK(kvd_touch(KEY("k"), 1000) == KVD_NOT_FOUND);
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		snprintf(name, sizeof name, "k%zu", i);
		CHECK(kvd_put(KEY(name), value, lengths[i], NULL) == KVD_OK);
		CHECK(kvd_touch(KEY(name), 600) == KVD_OK && holds(name, value, lengths[i]));
	}
	CHECK(kvd_touch(KEY("k0"), 0) == KVD_OK);
	CHECK(kvd_touch(KEY("k6"), 0) == KVD_OK);
	for (size_t i = 1; i < 6; i++) {
		snprintf(name, sizeof name, "k%zu", i);
		gone_after_ms(name, now_ms(), 600);
	}
	CHECK(holds("k0", value, lengths[0]) && holds("k6", value, lengths[6]));
	CHECK(kvd_touch(KEY("k0"), KVD_TTL_MS_MAX + 1) == KVD_EINVAL);
	free(value);
}

/* `size` keys that expire, and one that does not, for the test to look at stats. */
void case_expire_many(void)
{
	struct kvd_change ttl = { .size = sizeof ttl, .ttl_ms = 500 };
	char key[32], value[100];

	memset(value, 'v', sizeof value);
	put("stays", "here");
	for (uint64_t i = 0; i < size; i++) {
		snprintf(key, sizeof key, "key%" PRIu64, i);
		CHECK(kvd_put_with(KEY(key), value, sizeof value, &ttl, NULL) == KVD_OK);
	}
}

/* Bad input over and over: the test measures kvd's memory before and after. */
void case_bad_input(void)
{
	struct kvd_change present = { .size = sizeof present, .condition = KVD_IF_PRESENT };
	struct kvd_change old = { .size = sizeof old, .condition = KVD_IF_VERSION, .version = 1 };
	uint8_t *large = pattern(20000, 6);

	put("text", "text");
	put("max", "9223372036854775807");
	for (uint64_t i = 0; i < size; i++) {
		CHECK(kvd_incr(KEY("text"), 1, NULL, NULL, NULL) == KVD_ENUMBER);
		CHECK(kvd_incr(KEY("max"), 1, NULL, NULL, NULL) == KVD_ERANGE);
		CHECK(kvd_incr(KEY("none"), 1, NULL, NULL, NULL) == KVD_NOT_FOUND);
		CHECK(kvd_append(KEY("text"), large, i % 5000, &old, NULL) == KVD_CONDITION);
		CHECK(kvd_put_with(KEY("none"), "x", 1, &present, NULL) == KVD_CONDITION);
		CHECK(kvd_touch(KEY("none"), 1) == KVD_NOT_FOUND);
		if (i % 100 == 0) {
			CHECK(kvd_put_with(KEY("none"), large, 20000, &present, NULL) == KVD_CONDITION);
			CHECK(kvd_append(KEY("text"), large, 20000, &old, NULL) == KVD_CONDITION);
		}
	}
	CHECK(is_value("text", "text") && is_value("max", "9223372036854775807"));
	free(large);
}
