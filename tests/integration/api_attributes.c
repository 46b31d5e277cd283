/* SPDX-License-Identifier: BSD-2-Clause */
/* api_attributes.c -- what is kept beside a value, by READ and by message. */
#include <time.h>

#include "tests/integration/api.h"

#define FLAGS 0x80010203u

static struct kvd_info look(const char *key, size_t room)
{
	static uint8_t value[3000000];
	struct kvd_info info = { .size = sizeof info };
	int rc = kvd_get_info(KEY(key), value, room, &info);

	CHECK(rc == KVD_OK || rc == KVD_ESPACE);
	CHECK((rc == KVD_OK) == (info.value_bytes <= room));
	return info;
}

/* Of all lengths, which go different ways; twice, as the mirror knows the key then. */
void case_attributes(void)
{
	static const size_t lengths[] = { 0, 5, 4000, 9000, 20000, 2000000 };
	struct kvd_change change = { .size = sizeof change, .flags = FLAGS, .ttl_ms = 3600000,
				     .signs = KVD_STALE | KVD_CLAIMED };
	uint8_t *value = pattern(2000000, 7);
	struct kvd_info info, bad = { .size = 1 };

	for (size_t i = 0; i < 2 * sizeof lengths / sizeof *lengths; i++) {
		size_t bytes = lengths[i / 2];
		uint64_t version;
		CHECK(kvd_put_with(KEY("a"), value, bytes, &change, &version) == KVD_OK);
		for (size_t room = i % 2 ? bytes : 0;; room = bytes) {
			info = look("a", room);
			CHECK(info.value_bytes == bytes && info.version == version);
			CHECK(info.flags == FLAGS && info.signs == (KVD_STALE | KVD_CLAIMED));
			CHECK(info.ttl_ms > 3000000 && info.ttl_ms <= 3660000);
			if (room == bytes)
				break;
		}
		CHECK(holds("a", value, bytes));
	}
	CHECK(kvd_touch(KEY("a"), 0) == KVD_OK);
	info = look("a", 0);
	CHECK(info.flags == FLAGS && info.ttl_ms == 0);
	CHECK(kvd_put(KEY("a"), "x", 1, NULL) == KVD_OK);
	info = look("a", 1);
	CHECK(info.flags == 0 && info.signs == 0);
	CHECK(kvd_get_info(KEY("a"), NULL, 0, &bad) == KVD_EINVAL);
	info.size = sizeof info;
	CHECK(kvd_get_info(KEY("none"), NULL, 0, &info) == KVD_NOT_FOUND);
	free(value);
}

/* Of all lengths, again: the touch by message, the value by READ. */
void case_get_touch(void)
{
	static const size_t lengths[] = { 0, 5, 4000, 9000, 20000, 2000000 };
	struct kvd_change ttl = { .size = sizeof ttl, .ttl_ms = 3600000 };
	uint8_t *value = pattern(2000000, 9), *got = malloc(2000000);
	struct kvd_info info = { .size = sizeof info }, bad = { .size = 1 };

	CHECK(kvd_get_touch(KEY("g"), &ttl, got, 1, &info) == KVD_NOT_FOUND);
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		CHECK(kvd_put(KEY("g"), value, lengths[i], NULL) == KVD_OK);
		CHECK(kvd_get_touch(KEY("g"), &ttl, got, lengths[i], &info) == KVD_OK);
		CHECK(info.value_bytes == lengths[i] && !memcmp(got, value, lengths[i]));
		CHECK(info.ttl_ms > 3000000);
	}
	ttl.ttl_ms = 0;
	CHECK(kvd_get_touch(KEY("g"), &ttl, got, 2000000, &bad) == KVD_EINVAL);
	CHECK(look("g", 0).ttl_ms > 3000000); /* and not touched */
	ttl.condition = KVD_IF_VERSION;
	ttl.version = info.version - 1;
	CHECK(kvd_get_touch(KEY("g"), &ttl, got, 2000000, &info) == KVD_CONDITION);
	free(got);
	free(value);
}

/* The recipes of <kvd.h>. */
void case_signs(void)
{
	const struct kvd_change invalidate = { .size = sizeof invalidate, .signs = KVD_STALE,
					       .options = KVD_KEEP_TTL | KVD_SET_SIGNS };
	const struct kvd_change make = { .size = sizeof make, .condition = KVD_IF_ABSENT,
					 .signs = KVD_CLAIMED, .ttl_ms = 30000 };
	struct kvd_change claim = { .size = sizeof claim, .condition = KVD_IF_VERSION,
				    .options = KVD_KEEP_TTL | KVD_SET_SIGNS };
	struct kvd_change store = { .size = sizeof store, .condition = KVD_IF_VERSION };
	uint64_t version, won;

	CHECK(kvd_put(KEY("s"), "old", 3, &version) == KVD_OK);
	CHECK(kvd_touch_with(KEY("s"), &invalidate, &won) == KVD_OK && won > version);
	struct kvd_info info = look("s", 10);
	CHECK(info.signs == KVD_STALE && info.version == won && is_value("s", "old"));
	claim.version = info.version;
	claim.signs = info.signs | KVD_CLAIMED;
	CHECK(kvd_touch_with(KEY("s"), &claim, &won) == KVD_OK);
	CHECK(kvd_touch_with(KEY("s"), &claim, &version) == KVD_CONDITION && version == won);
	CHECK(look("s", 0).signs == (KVD_STALE | KVD_CLAIMED));
	store.version = won;
	CHECK(kvd_put_with(KEY("s"), "new", 3, &store, &version) == KVD_OK);
	CHECK(look("s", 0).signs == 0);
	/* Who was overtaken. */
	CHECK(kvd_put_with(KEY("s"), "late", 4, &store, NULL) == KVD_CONDITION);
	store.options = KVD_OR_STALE;
	CHECK(kvd_put_with(KEY("s"), "late", 4, &store, NULL) == KVD_OK);
	CHECK(look("s", 0).signs == KVD_STALE && is_value("s", "late"));
	CHECK(kvd_put_with(KEY("m"), "", 0, &make, &won) == KVD_OK);
	CHECK(kvd_put_with(KEY("m"), "", 0, &make, &version) == KVD_CONDITION && version == won);
	CHECK(look("m", 0).signs == KVD_CLAIMED);

	/* What makes no sense. */
	struct kvd_change bad = { .size = sizeof bad, .options = KVD_OR_STALE };
	CHECK(kvd_put_with(KEY("s"), "", 0, &bad, NULL) == KVD_EINVAL);
	bad = (struct kvd_change){ .size = sizeof bad, .signs = 4 };
	CHECK(kvd_put_with(KEY("s"), "", 0, &bad, NULL) == KVD_EINVAL);
	bad = (struct kvd_change){ .size = sizeof bad, .signs = KVD_STALE };
	CHECK(kvd_touch_with(KEY("s"), &bad, NULL) == KVD_EINVAL);
	CHECK(kvd_del_with(KEY("s"), &bad, NULL) == KVD_EINVAL);
	bad = (struct kvd_change){ .size = sizeof bad, .flags = 1 };
	CHECK(kvd_touch_with(KEY("s"), &bad, NULL) == KVD_EINVAL);
	bad = (struct kvd_change){ .size = sizeof bad, .ttl_ms = 1, .expires_unix_ms = 1 };
	CHECK(kvd_put_with(KEY("s"), "", 0, &bad, NULL) == KVD_EINVAL);
	bad = (struct kvd_change){ .size = sizeof bad, .expires_unix_ms = KVD_UNIX_MS_MAX + 1 };
	CHECK(kvd_put_with(KEY("s"), "", 0, &bad, NULL) == KVD_EINVAL);
}

void case_unix_time(void)
{
	struct kvd_change until = { .size = sizeof until };

	until.expires_unix_ms = (uint64_t)time(NULL) * 1000 + 100000;
	CHECK(kvd_put_with(KEY("u"), "1", 1, &until, NULL) == KVD_OK);
	uint64_t left = look("u", 1).ttl_ms;
	CHECK(left > 80000 && left <= 160000);
	until.expires_unix_ms = 1; /* long ago */
	CHECK(kvd_put_with(KEY("u"), "1", 1, &until, NULL) == KVD_OK);
	CHECK(kvd_exists(KEY("u"), NULL) == KVD_NOT_FOUND);
}

static uint64_t unix_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static bool is_gone(const char *key)
{
	return kvd_exists(KEY(key), NULL) == KVD_NOT_FOUND;
}

/* A flush at a time: what is there then goes, what came later stays. */
void case_flush_at(void)
{
	const struct kvd_change present = { .size = sizeof present, .condition = KVD_IF_PRESENT };
	char key[32];
	size_t total;

	for (unsigned i = 0; i < 2000; i++) {
		snprintf(key, sizeof key, "f%u", i);
		CHECK(kvd_put(KEY(key), "old", 3, NULL) == KVD_OK);
	}
	/* Not yet; another time; none. */
	CHECK(kvd_flush_at(session, unix_ms() + 3600000) == KVD_OK);
	CHECK(kvd_flush_at(session, 0) == KVD_OK);
	CHECK(is_value("f0", "old"));
	uint64_t at = unix_ms() + 300;
	CHECK(kvd_flush_at(session, at) == KVD_OK);
	CHECK(kvd_put(KEY("f1"), "before", 6, NULL) == KVD_OK);
	while (unix_ms() <= at)
		;
	/* Changes find nothing of it, whether the walk was there or not. */
	CHECK(kvd_append(KEY("f0"), "new", 3, NULL, &total) == KVD_OK && total == 3);
	CHECK(kvd_put_with(KEY("f1"), "no", 2, &present, NULL) == KVD_CONDITION);
	CHECK(kvd_del(KEY("f2")) == KVD_NOT_FOUND && kvd_touch(KEY("f3"), 0) == KVD_NOT_FOUND);
	CHECK(kvd_put(KEY("later"), "x", 1, NULL) == KVD_OK);
	for (unsigned i = 1; i < 2000; i++) {
		uint64_t end = unix_ms() + 30000;
		snprintf(key, sizeof key, "f%u", i);
		while (!is_gone(key))
			CHECK(unix_ms() < end);
	}
	CHECK(is_value("f0", "new") && is_value("later", "x"));
	/* One that is over is now. */
	CHECK(kvd_flush_at(session, 1) == KVD_OK);
	CHECK(kvd_incr(KEY("later"), 1, NULL, NULL, NULL) == KVD_NOT_FOUND);
	CHECK(kvd_flush_at(session, KVD_UNIX_MS_MAX + 1) == KVD_EINVAL);
}

/* Prepend of short values, and of long ones, which are made in steps. */
void case_prepend(void)
{
	static const size_t lengths[] = { 0, 5, 4000, 9000, 1100000 };
	struct kvd_change flags = { .size = sizeof flags, .flags = FLAGS };
	uint8_t *value = pattern(2300000, 8);
	size_t total;

	for (size_t i = 0; i < 5; i++) {
		for (size_t j = 1; j < 5; j++) {
			size_t before = lengths[i], more = lengths[j];
			CHECK(kvd_put_with(KEY("p"), value + more, before, &flags, NULL) == KVD_OK);
			CHECK(kvd_prepend(KEY("p"), value, more, NULL, &total) == KVD_OK);
			CHECK(total == before + more && holds("p", value, total));
			CHECK(look("p", 0).flags == FLAGS);
		}
	}
	CHECK(kvd_prepend(KEY("new"), "x", 1, &flags, NULL) == KVD_OK && is_value("new", "x"));
	CHECK(look("new", 0).flags == FLAGS);
	free(value);
}

void case_unsigned(void)
{
	const uint64_t initial = UINT64_MAX;
	uint64_t n = 5;

	CHECK(kvd_incr_u64(KEY("c"), 1, NULL, NULL, &n) == KVD_NOT_FOUND && n == 5);
	CHECK(kvd_decr_u64(KEY("c"), 1, &initial, NULL, &n) == KVD_OK && n == UINT64_MAX);
	CHECK(kvd_decr_u64(KEY("c"), UINT64_MAX - 7, &initial, NULL, &n) == KVD_OK && n == 7);
	CHECK(is_value("c", "7                   "));
	CHECK(kvd_incr_u64(KEY("c"), UINT64_MAX, NULL, NULL, &n) == KVD_OK && n == 6);
	CHECK(kvd_decr_u64(KEY("c"), 10, NULL, NULL, &n) == KVD_OK && n == 0);
	CHECK(kvd_put(KEY("c"), "-1", 2, NULL) == KVD_OK);
	CHECK(kvd_incr_u64(KEY("c"), 1, NULL, NULL, &n) == KVD_ENUMBER);
}

static struct kvd_completion completed(int rc)
{
	struct kvd_completion done;

	CHECK(rc == KVD_OK);
	CHECK(kvd_poll(session, &done, 1, -1) == 1);
	return done;
}

void case_submitted_attributes(void)
{
	const struct kvd_change change = { .size = sizeof change, .flags = FLAGS, .ttl_ms = 3600000 };
	const struct kvd_change stale = { .size = sizeof stale, .signs = KVD_STALE,
					  .options = KVD_KEEP_TTL | KVD_SET_SIGNS };
	const struct kvd_change change_ttl = { .size = sizeof change_ttl, .ttl_ms = 7200000 };
	const struct kvd_change never = { .size = sizeof never };
	const uint64_t initial = 10;
	char value[100];

	CHECK(completed(kvd_submit_put_with(KEY("s"), "b", 1, &change, NULL)).result == KVD_OK);
	CHECK(completed(kvd_submit_prepend(KEY("s"), "a", 1, NULL, NULL)).value_bytes == 2);
	CHECK(completed(kvd_submit_touch_with(KEY("s"), &stale, NULL)).result == KVD_OK);
	for (size_t room = 0; room <= sizeof value; room += sizeof value) {
		struct kvd_completion c = completed(kvd_submit_get(KEY("s"), value, room, NULL));
		CHECK(c.result == (room ? KVD_OK : KVD_ESPACE) && c.value_bytes == 2);
		CHECK(c.flags == FLAGS && c.signs == KVD_STALE);
		CHECK(c.ttl_ms > 3000000 && c.ttl_ms <= 3660000);
	}
	struct kvd_item item = { .key = "s", .key_bytes = 1, .value = value,
				 .value_bytes_max = sizeof value };
	CHECK(kvd_mget(session, &item, 1) == KVD_OK);
	CHECK(item.flags == FLAGS && item.signs == KVD_STALE && item.ttl_ms > 3000000);
	CHECK(completed(kvd_submit_decr_u64(KEY("n"), 1, &initial, NULL, NULL)).number == 10);
	CHECK(completed(kvd_submit_decr_u64(KEY("n"), 11, NULL, NULL, NULL)).number == 0);
	CHECK(completed(kvd_submit_incr_u64(KEY("n"), UINT64_MAX, NULL, NULL, NULL)).number == -1);
	struct kvd_completion c = completed(kvd_submit_get_touch(KEY("s"), &change_ttl, value,
								  sizeof value, NULL));
	CHECK(c.result == KVD_OK && c.value_bytes == 2 && !memcmp(value, "ab", 2));
	CHECK(c.ttl_ms > 7000000 && c.flags == FLAGS && c.signs == KVD_STALE);
	c = completed(kvd_submit_get_touch(KEY("s"), &never, value, 1, NULL));
	CHECK(c.result == KVD_ESPACE && c.value_bytes == 2 && c.ttl_ms == 0);
	c = completed(kvd_submit_get_touch(KEY("none"), &never, value, 1, NULL));
	CHECK(c.result == KVD_NOT_FOUND);
	/* What no GET told is nothing. */
	CHECK(completed(kvd_submit_get(KEY("none"), value, 1, NULL)).flags == 0);
}
