/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * api -- <kvd.h> against a kvd, one case at a time.
 *
 *	api ADDR:PORT CASE [SIZE [SHARED-FILE]]
 *
 * Exits with 0 if all is as <kvd.h> says, 1 with the line that is not.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "client/kvd.h"

static kvd_client *client;
static kvd_session *session;
static const char *kvd_address;
static uint64_t size = 1;

#define CHECK(x)                                                                                   \
	do {                                                                                       \
		if (!(x)) {                                                                        \
			fprintf(stderr, "api.c:%d: not so: %s (last error: %s)\n", __LINE__, #x,   \
				session ? kvd_session_error(session) : "");                        \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

#define KEY(text) session, text, strlen(text)

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

static bool is_value(const char *key, const char *want)
{
	char value[256];
	size_t bytes;

	return kvd_get(KEY(key), value, sizeof value, &bytes, NULL) == KVD_OK &&
	       bytes == strlen(want) && !memcmp(value, want, bytes);
}

static uint8_t *pattern(size_t bytes, unsigned seed)
{
	uint8_t *p = malloc(bytes + 1);
	uint64_t x = seed * 0x9e3779b97f4a7c15ull + 1;

	CHECK(p != NULL);
	for (size_t i = 0; i < bytes; i++) {
		x ^= x << 13, x ^= x >> 7, x ^= x << 17;
		p[i] = (uint8_t)x;
	}
	return p;
}

static bool holds(const char *key, const uint8_t *want, size_t want_bytes)
{
	void *value;
	size_t bytes;

	if (kvd_get_alloc(KEY(key), &value, &bytes, NULL) != KVD_OK)
		return false;
	bool same = bytes == want_bytes && !memcmp(value, want, bytes);
	free(value);
	return same;
}

/* ------------------------------------------------------------------- changes */

static void case_conditions(void)
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

static void case_counters(void)
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

static void case_append(void)
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
static void case_append_limit(void)
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

/* -------------------------------------------------------------------- expiry */

/* Until the key is gone; how long that took. */
static uint64_t gone_after_ms(const char *key, uint64_t since_ms)
{
	char value[16];
	size_t bytes;
	int rc;

	while ((rc = kvd_get(KEY(key), value, sizeof value, &bytes, NULL)) == KVD_OK ||
	       rc == KVD_ESPACE)
		CHECK(now_ms() - since_ms < 60000);
	CHECK(rc == KVD_NOT_FOUND);
	return now_ms() - since_ms;
}

static void case_expiry(void)
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
		CHECK(gone_after_ms("k", start) + 1 >= ttl.ttl_ms);
		CHECK(kvd_exists(KEY("k"), NULL) == KVD_NOT_FOUND);
		CHECK(kvd_del(KEY("k")) == KVD_NOT_FOUND);
	}
	free(value);
	/* Gone for changes as well, and a new one begins anew. */
	struct kvd_change present = { .size = sizeof present, .condition = KVD_IF_PRESENT };
	struct kvd_change absent = { .size = sizeof absent, .condition = KVD_IF_ABSENT };
	CHECK(kvd_put_with(KEY("k"), "7", 1, &ttl, NULL) == KVD_OK);
	CHECK(kvd_put_with(KEY("k"), "8", 1, &absent, NULL) == KVD_CONDITION);
	gone_after_ms("k", now_ms());
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
	CHECK(gone_after_ms("n", start) < 4000);
}

static void case_touch(void)
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
		gone_after_ms(name, now_ms());
	}
	CHECK(holds("k0", value, lengths[0]) && holds("k6", value, lengths[6]));
	CHECK(kvd_touch(KEY("k0"), KVD_TTL_MS_MAX + 1) == KVD_EINVAL);
	free(value);
}

/* `size` keys that expire, and one that does not, for the test to look at stats. */
static void case_expire_many(void)
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
static void case_bad_input(void)
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

/* -------------------------------------------------------------------- pieces */

/* Cuts `bytes` of memory into n pieces of odd lengths, some of them empty. */
static int cut(uint8_t *memory, size_t bytes, int n, struct iovec *iov)
{
	size_t at = 0;

	for (int i = 0; i < n; i++) {
		size_t left = bytes - at, length = i == n - 1 ? left : left / 3 + (size_t)i % 2;
		if (i % 5 == 3 && i < n - 1)
			length = 0;
		if (length > left)
			length = left;
		iov[i] = (struct iovec){ memory + at, length };
		at += length;
	}
	return n;
}

static void check_pieces(uint8_t *from, uint8_t *to, size_t bytes, int n)
{
	struct iovec iov[KVD_IOV_MAX];
	size_t got;
	uint64_t version, read;

	CHECK(kvd_putv(KEY("v"), iov, cut(from, bytes, n, iov), NULL, &version) == KVD_OK);
	CHECK(holds("v", from, bytes));
	memset(to, 0xee, bytes + 1);
	CHECK(kvd_getv(KEY("v"), iov, cut(to, bytes, n, iov), &got, &read) == KVD_OK);
	CHECK(got == bytes && read == version && !memcmp(from, to, bytes) && to[bytes] == 0xee);
	memset(to, 0xee, bytes + 1);
	CHECK(kvd_get(KEY("v"), to, bytes, &got, NULL) == KVD_OK && !memcmp(from, to, bytes));
	CHECK(to[bytes] == 0xee);
	/* One byte too few is told with the length. */
	if (bytes > 0) {
		got = 0;
		CHECK(kvd_getv(KEY("v"), iov, cut(to, bytes - 1, n, iov), &got, NULL) == KVD_ESPACE);
		CHECK(got == bytes);
		CHECK(kvd_getv(KEY("v"), iov, cut(to, bytes / 2, n, iov), &got, NULL) == KVD_ESPACE);
		CHECK(got == bytes);
	}
	size_t exists;
	CHECK(kvd_exists(KEY("v"), &exists) == KVD_OK && exists == bytes);
}

static const size_t piece_lengths[] = { 0,    1,     31,	 100,   511,    1000,  2000,
					4063, 4064,  4065,  8000,  8128,   8191,  8192,
					8193, 16000, 16351, 16352, 16384, 20000, 1000000,
					5000003 };

static void case_pieces(void)
{
	uint8_t *from = pattern(5000003, 7), *to = malloc(5000004);
	struct iovec iov[KVD_IOV_MAX + 1] = { { from, 1 } };
	size_t got;

	CHECK(to != NULL);
	for (size_t i = 0; i < sizeof piece_lengths / sizeof *piece_lengths; i++) {
		check_pieces(from, to, piece_lengths[i], 1);
		check_pieces(from, to, piece_lengths[i], 7);
		check_pieces(from, to, piece_lengths[i], KVD_IOV_MAX);
	}
	CHECK(kvd_putv(KEY("v"), iov, KVD_IOV_MAX + 1, NULL, NULL) == KVD_EINVAL);
	CHECK(kvd_getv(KEY("v"), iov, -1, &got, NULL) == KVD_EINVAL);
	iov[1] = (struct iovec){ from, KVD_VALUE_BYTES_MAX };
	CHECK(kvd_putv(KEY("v"), iov, 2, NULL, NULL) == KVD_ETOOBIG);
	iov[0] = iov[1] = (struct iovec){ from, SIZE_MAX / 2 + 1 };
	CHECK(kvd_putv(KEY("v"), iov, 2, NULL, NULL) == KVD_EINVAL);
	free(from);
	free(to);
}

static void case_buffers(void)
{
	size_t bytes = 6000000;
	uint8_t *from = pattern(bytes, 8), *to = malloc(bytes);
	kvd_buffer *a, *b, *c, *many[KVD_BUFFERS_MAX];
	struct kvd_counters before, after;

	CHECK(kvd_buffer_new(client, from, bytes, &a) == KVD_OK);
	CHECK(kvd_buffer_new(client, to, bytes / 2, &b) == KVD_OK);
	CHECK(kvd_buffer_new(client, to + 100, 10, &c) == KVD_EINVAL && c == NULL);
	CHECK(kvd_buffer_new(client, to + bytes / 2 - 1, 10, &c) == KVD_EINVAL);
	CHECK(kvd_buffer_new(client, from - 1, 2, &c) == KVD_EINVAL);
	CHECK(kvd_buffer_new(client, NULL, 2, &c) == KVD_EINVAL);
	CHECK(kvd_buffer_new(client, to, 0, &c) == KVD_EINVAL);
	CHECK(strstr(kvd_client_error(client), "length"));
	kvd_session_counters(session, &before);
	for (size_t i = 0; i < sizeof piece_lengths / sizeof *piece_lengths; i++) {
		check_pieces(from + 1, to + 1, piece_lengths[i] < bytes / 2 - 2 ? piece_lengths[i]
										 : bytes / 2 - 2, 7);
		/* In the buffer, over its end, and beyond. */
		check_pieces(from + i, to + bytes / 2 - 50, piece_lengths[i] < bytes / 2
								    ? piece_lengths[i] : 0, 3);
		check_pieces(to + bytes / 2, from + 3, piece_lengths[i] < bytes / 2 - 4
							       ? piece_lengths[i] : 0, 3);
	}
	kvd_session_counters(session, &after);
	CHECK(after.messages > before.messages);
	kvd_buffer_delete(&b);
	CHECK(b == NULL);
	check_pieces(from, to, 1000000, 5);
	CHECK(kvd_buffer_new(client, to, bytes, &b) == KVD_OK);
	check_pieces(from, to, 1000000, 5);
	kvd_buffer_delete(&a);
	check_pieces(from, to, 1000000, 5);
	kvd_buffer_delete(&b);
	kvd_buffer_delete(&b);
	for (unsigned i = 0; i < KVD_BUFFERS_MAX; i++)
		CHECK(kvd_buffer_new(client, to + (i * 389 % KVD_BUFFERS_MAX) * 5000, 5000, &many[i]) ==
		      KVD_OK);
	CHECK(kvd_buffer_new(client, from, 1, &c) == KVD_ETOOBIG);
	check_pieces(from, to, 100000, 9);
	for (unsigned i = 0; i < KVD_BUFFERS_MAX; i++)
		kvd_buffer_delete(&many[i]);
	free(from);
	free(to);
}

/* A value of `size` bytes there and back, one way and the other. */
static void case_large(void)
{
	uint8_t *from = pattern(size, 9), *to;
	struct iovec iov[KVD_IOV_MAX];
	void *value;
	size_t got;

	CHECK(kvd_put(KEY("large"), from, size, NULL) == KVD_OK);
	CHECK(kvd_get_alloc(KEY("large"), &value, &got, NULL) == KVD_OK);
	CHECK(got == size && !memcmp(from, value, size) && ((char *)value)[size] == 0);
	free(value);
	to = malloc(size);
	CHECK(to != NULL);
	/* A second one may be too much for the table: replace it. */
	CHECK(kvd_del(KEY("large")) == KVD_OK);
	from[0] ^= 1;
	CHECK(kvd_putv(KEY("large"), iov, cut(from, size, 9, iov), NULL, NULL) == KVD_OK);
	CHECK(kvd_getv(KEY("large"), iov, cut(to, size, 5, iov), &got, NULL) == KVD_OK);
	CHECK(got == size && !memcmp(from, to, size));
	CHECK(kvd_exists(KEY("large"), &got) == KVD_OK && got == size);
	free(from);
	free(to);
}

/* ---------------------------------------------------------------------- many */

enum { MANY = 1000 };

static void case_many(void)
{
	static struct kvd_item items[MANY];
	static char keys[MANY][16], values[MANY][64], back[MANY][64];
	struct kvd_change absent = { .size = sizeof absent, .condition = KVD_IF_ABSENT };

	for (int i = 0; i < MANY; i++) {
		size_t n = (size_t)snprintf(keys[i], sizeof keys[i], "key%d", i);
		size_t v = (size_t)snprintf(values[i], sizeof values[i], "value %d", i * 7);
		items[i] = (struct kvd_item){ .key = keys[i], .key_bytes = n, .value = values[i],
					      .value_bytes = v, .result = 99 };
	}
	CHECK(kvd_mput(session, items, MANY, NULL) == KVD_OK);
	for (int i = 0; i < MANY; i++)
		CHECK(items[i].result == KVD_OK && items[i].version != 0);
	CHECK(kvd_mput(session, items, MANY, &absent) == KVD_OK);
	for (int i = 0; i < MANY; i++)
		CHECK(items[i].result == KVD_CONDITION);
	CHECK(kvd_del(session, keys[5], items[5].key_bytes) == KVD_OK);
	for (int i = 0; i < MANY; i++) {
		items[i].value = back[i];
		items[i].value_bytes_max = i == 7 ? 3 : sizeof back[i];
		items[i].value_bytes = 0;
	}
	CHECK(kvd_mget(session, items, MANY) == KVD_ESPACE);
	for (int i = 0; i < MANY; i++) {
		CHECK(items[i].result == (i == 5 ? KVD_NOT_FOUND : i == 7 ? KVD_ESPACE : KVD_OK));
		if (i != 5)
			CHECK(items[i].value_bytes == strlen(values[i]));
		if (items[i].result == KVD_OK)
			CHECK(!memcmp(back[i], values[i], strlen(values[i])));
	}
	items[3].key_bytes = 0;
	items[7].value_bytes_max = 64;
	CHECK(kvd_mget(session, items, MANY) == KVD_EINVAL);
	CHECK(items[3].result == KVD_EINVAL && items[4].result == KVD_OK);
	CHECK(kvd_mget(session, items, 0) == KVD_OK);
}

/* The first sessions of a client, several at once: one of them opens the device. */
enum { FIRST_SESSIONS = 4, FIRST_ROUNDS = 20 };

static pthread_barrier_t first_begin;

static void *begin_session(void *arg)
{
	struct kvd_session *s;
	char value[8];
	size_t bytes;

	pthread_barrier_wait(&first_begin);
	CHECK(kvd_session_new(arg, &s) == KVD_OK);
	CHECK(kvd_put(s, "key", 3, "value", 5, NULL) == KVD_OK);
	CHECK(kvd_get(s, "key", 3, value, sizeof value, &bytes, NULL) == KVD_OK && bytes == 5);
	kvd_session_delete(&s);
	return NULL;
}

static void case_sessions(void)
{
	struct kvd_options options = { .size = sizeof options, .timeout_ms = 60000 };

	for (int round = 0; round < FIRST_ROUNDS; round++) {
		pthread_t thread[FIRST_SESSIONS];
		struct kvd_client *c;
		CHECK(kvd_client_new(kvd_address, &options, &c) == KVD_OK);
		CHECK(!pthread_barrier_init(&first_begin, NULL, FIRST_SESSIONS));
		for (int i = 0; i < FIRST_SESSIONS; i++)
			CHECK(!pthread_create(&thread[i], NULL, begin_session, c));
		for (int i = 0; i < FIRST_SESSIONS; i++)
			CHECK(!pthread_join(thread[i], NULL));
		pthread_barrier_destroy(&first_begin);
		kvd_client_delete(&c);
	}
}

/* Many in flight from an event loop, that never calls kvd_poll but when told to. */
static void case_events(void)
{
	struct pollfd fd = { .fd = kvd_fd(session), .events = POLLIN };
	struct kvd_completion c[8];
	uint64_t submitted = 0, done = 0, slept = 0;
	char value[32];

	CHECK(fd.fd >= 0 && kvd_fd(session) == fd.fd);
	CHECK(kvd_arm(session) == 0);
	/* On, if need be, until it had to wait for the descriptor once. */
	for (uint64_t all = size; done < all; all += done == all && !slept && all < 1000 * size) {
		while (submitted < all) {
			int rc = submitted % 3 ? kvd_submit_get(KEY("k"), value, sizeof value, NULL)
					       : kvd_submit_put(KEY("k"), "v", 1, NULL);
			if (rc == KVD_EBUSY)
				break;
			CHECK(rc == KVD_OK);
			submitted++;
		}
		if (kvd_arm(session) == 0) {
			CHECK(poll(&fd, 1, 30000) == 1);
			slept++;
		}
		int n = kvd_poll(session, c, 8, 0);
		for (int i = 0; i < n; i++)
			CHECK(c[i].result == KVD_OK || c[i].result == KVD_NOT_FOUND);
		done += (uint64_t)n;
	}
	CHECK(slept > 0);
	CHECK(kvd_arm(session) == 0 && poll(&fd, 1, 0) == 0);
}

/* The other submits, each completion with what belongs to it. */
static void case_submits(void)
{
	struct kvd_change ttl = { .size = sizeof ttl, .ttl_ms = 60000, .condition = KVD_IF_ABSENT };
	int64_t ten = 10;
	char value[32];
	struct iovec iov[2] = { { value, 2 }, { value + 10, 20 } };
	struct kvd_completion c;

#define ONE(x, want)                                                                               \
	do {                                                                                       \
		CHECK((x) == KVD_OK);                                                              \
		CHECK(kvd_poll(session, &c, 1, -1) == 1 && c.tag == value && c.result == (want));  \
	} while (0)
	ONE(kvd_submit_incr(KEY("n"), 5, &ten, &ttl, value), KVD_OK);
	CHECK(c.number == 15);
	ONE(kvd_submit_incr(KEY("n"), 5, &ten, &ttl, value), KVD_CONDITION);
	ONE(kvd_submit_append(KEY("n"), "00", 2, NULL, value), KVD_OK);
	CHECK(c.value_bytes == 4);
	ONE(kvd_submit_incr(KEY("n"), -1, NULL, NULL, value), KVD_OK);
	CHECK(c.number == 1499);
	ONE(kvd_submit_touch(KEY("n"), 0, value), KVD_OK);
	ONE(kvd_submit_touch(KEY("none"), 0, value), KVD_NOT_FOUND);
	ONE(kvd_submit_getv(KEY("n"), iov, 2, value), KVD_OK);
	CHECK(c.value_bytes == 4 && !memcmp(value, "14", 2) && !memcmp(value + 10, "99", 2));
	ONE(kvd_submit_putv(KEY("n"), iov, 1, NULL, value), KVD_OK);
	CHECK(is_value("n", "14"));
	ONE(kvd_submit_put_with(KEY("n"), "x", 1, &ttl, value), KVD_CONDITION);
	ttl = (struct kvd_change){ .size = sizeof ttl, .condition = KVD_IF_VERSION, .version = 1 };
	ONE(kvd_submit_del_with(KEY("n"), &ttl, value), KVD_CONDITION);
	ttl.version = c.version;
	ONE(kvd_submit_del_with(KEY("n"), &ttl, value), KVD_OK);
	CHECK(kvd_exists(KEY("n"), NULL) == KVD_NOT_FOUND);
}

/* -------------------------------------------------- READs and bytes of a GET */

static const char *shared_file;
static size_t value_length = 100;

static uint64_t draw(uint64_t *x)
{
	*x ^= *x << 13, *x ^= *x >> 7, *x ^= *x << 17;
	return *x;
}

/* A key of 16 bytes. */
static void name_key(char *key, uint64_t n)
{
	snprintf(key, 17, "%016" PRIx64, (uint64_t)((n + 1) * 0x9e3779b97f4a7c15ull));
}

static void submit_and_reap(int (*submit)(uint64_t n, void *tag), uint64_t count)
{
	struct kvd_completion c[32];
	uint64_t done = 0;

	for (uint64_t n = 0; done < count;) {
		while (n < count && submit(n, &size) == KVD_OK)
			n++;
		int got = kvd_poll(session, c, 32, -1);
		for (int i = 0; i < got; i++)
			CHECK(c[i].result == KVD_OK && c[i].tag == &size);
		done += (uint64_t)got;
	}
}

static char some_value[16384];

static int load_one(uint64_t n, void *tag)
{
	char key[17];

	name_key(key, n);
	return kvd_submit_put(session, key, 16, some_value, value_length, tag);
}

static int get_one(uint64_t n, void *tag)
{
	char key[17];

	name_key(key, n % size);
	return kvd_submit_get(session, key, 16, some_value, sizeof some_value, tag);
}

static void tell(const char *what, const struct kvd_counters *a, const struct kvd_counters *b,
		 double reads_max, double bytes_max)
{
	double gets = (double)(b->gets - a->gets), reads = (double)(b->reads - a->reads) / gets;
	double bytes = (double)(b->read_bytes - a->read_bytes) / gets;

	fprintf(stderr, "%s: %.0f GETs, %.4f READs, %.1f bytes READ, %.4f mirror hits, "
		"%.4f retries a GET; %llu fallbacks\n", what, gets, reads, bytes,
		(double)(b->mirror_hits - a->mirror_hits) / gets,
		(double)(b->retries - a->retries) / gets,
		(unsigned long long)(b->fallbacks - a->fallbacks));
	CHECK(reads <= reads_max);
	CHECK(bytes <= bytes_max);
}

static void renew(bool ahead)
{
	struct kvd_options options = { .size = sizeof options, .timeout_ms = 60000,
				       .mirror_ahead = ahead };
	char address[128];

	snprintf(address, sizeof address, "%s", shared_file);
	kvd_session_delete(&session);
	kvd_client_delete(&client);
	CHECK(kvd_client_new(address, &options, &client) == KVD_OK);
	CHECK(kvd_session_new(client, &session) == KVD_OK);
}

/* `size` keys: each read once to warm the mirror, then again. */
static void case_reads(void)
{
	static const size_t lengths[] = { 100, 1000 };
	struct kvd_counters a, b;
	char key[17], value[8];
	size_t bytes;

	for (unsigned i = 0; i < 2; i++) {
		value_length = lengths[i];
		submit_and_reap(load_one, size);
		renew(false);
		submit_and_reap(get_one, size);
		kvd_session_counters(session, &a);
		submit_and_reap(get_one, size);
		kvd_session_counters(session, &b);
		tell(i ? "warm, 1,000 B" : "warm, 100 B", &a, &b, 1.02,
		     16 + (double)value_length + 64);
	}
	renew(true);
	kvd_session_counters(session, &a);
	submit_and_reap(get_one, size);
	kvd_session_counters(session, &b);
	tell("first GET, index READ ahead", &a, &b, 1.10, 1e9);
	kvd_session_counters(session, &a);
	for (unsigned i = 0; i < 1000; i++) {
		name_key(key, size + i);
		CHECK(kvd_get(session, key, 16, value, sizeof value, &bytes, NULL) == KVD_NOT_FOUND);
	}
	kvd_session_counters(session, &b);
	/* Two buckets; more where one of them has an overflow node of the key's class. */
	tell("absent", &a, &b, 2.1, 1e9);
	CHECK((double)(b.round_trips - a.round_trips) <= 1.1 * 1000);
}

static uint64_t *map_shared(void)
{
	int fd = open(shared_file, O_RDWR | O_CREAT, 0600);

	CHECK(fd >= 0 && ftruncate(fd, 4096) == 0);
	uint64_t *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(shared != MAP_FAILED);
	close(fd);
	return shared;
}

/*
 * One of several processes: 5 % of its operations insert the next key of all, the
 * rest read keys that any of them inserted, the latest most often.
 */
static void case_latest(void)
{
	uint64_t *shared = map_shared(), x = (uint64_t)getpid() * 0x9e3779b97f4a7c15ull;
	struct kvd_counters a, b;
	char key[17], value[128] = "";
	size_t bytes;

	kvd_session_counters(session, &a);
	for (uint64_t i = 0; i < size; i++) {
		uint64_t known = __atomic_load_n(&shared[1], __ATOMIC_ACQUIRE);
		if (draw(&x) % 20 == 0 || !known) {
			uint64_t n = __atomic_fetch_add(&shared[0], 1, __ATOMIC_RELAXED);
			name_key(key, n);
			CHECK(kvd_put(session, key, 16, value, 100, NULL) == KVD_OK);
			/* In order: all before it are there. */
			while (__atomic_load_n(&shared[1], __ATOMIC_ACQUIRE) != n)
				sched_yield();
			__atomic_store_n(&shared[1], n + 1, __ATOMIC_RELEASE);
			continue;
		}
		/* Zipf-like: a power law of the age. */
		double u = (double)(draw(&x) >> 11) / 9007199254740992.0;
		uint64_t age = (uint64_t)(pow((double)known, u) - 1);
		name_key(key, known - 1 - (age < known ? age : known - 1));
		CHECK(kvd_get(session, key, 16, value, sizeof value, &bytes, NULL) == KVD_OK);
	}
	kvd_session_counters(session, &b);
	tell("latest", &a, &b, 1.20, 1e9);
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{ "conditions", case_conditions }, { "counters", case_counters },
	{ "append", case_append },	   { "append_limit", case_append_limit },
	{ "expiry", case_expiry },	   { "touch", case_touch },
	{ "expire_many", case_expire_many }, { "bad_input", case_bad_input },
	{ "pieces", case_pieces },	   { "buffers", case_buffers },
	{ "large", case_large },	   { "many", case_many },
	{ "events", case_events },	   { "submits", case_submits },
	{ "reads", case_reads },	   { "latest", case_latest },
	{ "sessions", case_sessions },
};

int main(int argc, char **argv)
{
	struct kvd_options options = { .size = sizeof options, .timeout_ms = 60000 };

	if (argc < 3)
		return 2;
	kvd_address = argv[1];
	if (argc > 3)
		size = strtoull(argv[3], NULL, 10);
	shared_file = argc > 4 ? argv[4] : argv[1];
	if (kvd_client_new(argv[1], &options, &client) < 0 ||
	    kvd_session_new(client, &session) < 0) {
		fprintf(stderr, "api: %s\n", kvd_client_error(client));
		return 2;
	}
	for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
		if (strcmp(cases[i].name, argv[2]) != 0)
			continue;
		cases[i].run();
		kvd_session_delete(&session);
		kvd_client_delete(&client);
		return 0;
	}
	fprintf(stderr, "api: no case %s\n", argv[2]);
	return 2;
}
