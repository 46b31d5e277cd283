/* SPDX-License-Identifier: BSD-2-Clause */
/* The calls of <kvd.h>: what each asks of kvd, what it makes of an answer, of one that makes no sense,
 * and what it refuses without asking.  Transactions and locks: txn_lock_test.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "client/op/operation_impl.h"
#include "tests/unit/client/one_answer.h"

/* ------------------------------------------------------------------- changes */

static void test_what_a_change_asks(void **state)
{
	static const struct {
		struct kvd_change change;
		uint32_t flags;
		uint64_t version, ttl_ms;
		uint32_t item_flags;
	} cases[] = {
		{ { .condition = KVD_ALWAYS }, 0, 0, 0, 0 },
		{ { .condition = KVD_IF_ABSENT, .ttl_ms = 9 }, WIRE_IF_ABSENT, 0, 9, 0 },
		{ { .condition = KVD_IF_PRESENT, .flags = 77 }, WIRE_IF_PRESENT, 0, 0, 77 },
		{ { .condition = KVD_IF_VERSION, .version = 5, .options = KVD_OR_STALE },
		  WIRE_IF_VERSION | WIRE_OR_STALE, 5, 0, 0 },
		{ { .expires_unix_ms = 123, .signs = KVD_STALE }, WIRE_UNIX | WIRE_STALE, 0, 123, 0 },
		{ { .signs = KVD_CLAIMED, .options = KVD_KEEP_TTL }, WIRE_CLAIMED | WIRE_KEEP_TTL, 0, 0, 0 },
	};

	(void)state;
	for (unsigned i = 0; i < COUNT(cases); i++) {
		struct kvd_change change = cases[i].change;

		change.size = sizeof change;
		assert_int_equal(kvd_put_with(s, KEY, "value", 5, &change, NULL), KVD_OK);
		assert_int_equal(end->asked.op, WIRE_PUT);
		assert_int_equal(end->asked.flags, cases[i].flags);
		assert_int_equal(end->asked.version, cases[i].version);
		assert_int_equal(end->asked.ttl_ms, cases[i].ttl_ms);
		assert_int_equal(end->asked.item_flags, cases[i].item_flags);
		assert_int_equal(end->asked.key_bytes, 3);
		assert_memory_equal(end->behind, "keyvalue", 8);
	}
	assert_int_equal(end->messages, COUNT(cases));
}

#define A_CENTURY_MS (KVD_TTL_MS_MAX + 1)

static void test_changes_that_make_no_sense(void **state)
{
	static const struct {
		struct kvd_change change;
		const char *says;
	} cases[] = {
		{ { .size = 1 }, "change.size is 1" },
		{ { .condition = 4 }, "change.condition is 4" },
		{ { .condition = -1 }, "change.condition is -1" },
		{ { .signs = 4 }, "change.signs is 4" },
		{ { .options = 8 }, "change.options is 8" },
		{ { .options = KVD_SET_SIGNS }, "this kind of change has not all of that" },
		{ { .options = KVD_OR_STALE }, "KVD_OR_STALE, which goes with KVD_IF_VERSION" },
		{ { .ttl_ms = 1, .expires_unix_ms = 1 }, "give one of them" },
		{ { .ttl_ms = A_CENTURY_MS }, "it counts from now, to a hundred years" },
		{ { .ttl_ms = (uint64_t)-1 }, "it counts from now, to a hundred years" },
		{ { .expires_unix_ms = KVD_UNIX_MS_MAX + 1 }, "to the year 9999" },
	};
	static char tag;

	(void)state;
	for (unsigned i = 0; i < COUNT(cases); i++) {
		struct kvd_change change = cases[i].change;

		change.size = change.size ? change.size : sizeof change;
		assert_int_equal(kvd_put_with(s, KEY, "v", 1, &change, NULL), KVD_EINVAL);
		must_say(cases[i].says);
		assert_int_equal(kvd_submit_put_with(s, KEY, "v", 1, &change, &tag), KVD_EINVAL);
		assert_int_equal(kvd_submit_incr(s, KEY, 1, NULL, &change, &tag), KVD_EINVAL);
		assert_int_equal(kvd_submit_append(s, KEY, "v", 1, &change, &tag), KVD_EINVAL);
		assert_int_equal(kvd_append(s, KEY, "v", 1, &change, NULL), KVD_EINVAL);
		assert_int_equal(kvd_submit_del_with(s, KEY, &change, &tag), KVD_EINVAL);
	}
	static const struct kvd_change kinds[] = {
		{ .size = sizeof kinds[0], .ttl_ms = 1 },
		{ .size = sizeof kinds[0], .flags = 1 },
		{ .size = sizeof kinds[0], .signs = KVD_STALE },
	};
	for (unsigned i = 0; i < COUNT(kinds); i++) {
		assert_int_equal(kvd_del_with(s, KEY, &kinds[i], NULL), KVD_EINVAL);
		must_say("a deletion has none");
	}
	assert_int_equal(kvd_touch_with(s, KEY, &kinds[1], NULL), KVD_EINVAL);
	must_say("a touch leaves a value's flags as they are");
	assert_int_equal(kvd_touch_with(s, KEY, &kinds[2], NULL), KVD_EINVAL);
	must_say("change.signs is set without KVD_SET_SIGNS");
	assert_int_equal(end->messages, 0);
	assert_int_equal(e->in_flight, 0);
}

/* The longest times, and the longest prefix, are sent as they are. */
static void test_the_longest(void **state)
{
	static const uint8_t longest[KVD_KEY_BYTES_MAX];
	const struct kvd_change for_long = { .size = sizeof for_long, .ttl_ms = KVD_TTL_MS_MAX },
				until = { .size = sizeof until, .expires_unix_ms = KVD_UNIX_MS_MAX };
	uint64_t cursor = 0;

	(void)state;
	assert_int_equal(kvd_put_with(s, KEY, "v", 1, &for_long, NULL), KVD_OK);
	assert_int_equal(end->asked.ttl_ms, KVD_TTL_MS_MAX);
	assert_int_equal(kvd_put_with(s, KEY, "v", 1, &until, NULL), KVD_OK);
	assert_int_equal(end->asked.ttl_ms, KVD_UNIX_MS_MAX);
	assert_int_equal(kvd_flush_at(s, KVD_UNIX_MS_MAX), KVD_OK);
	assert_int_equal(end->asked.ttl_ms, KVD_UNIX_MS_MAX);
	assert_int_equal(kvd_keys_page(s, longest, sizeof longest, &cursor, NULL, NULL), KVD_OK);
	assert_int_equal(end->asked.key_bytes, sizeof longest);
}

static void test_keys_that_are_none(void **state)
{
	static const uint8_t longer[KVD_KEY_BYTES_MAX + 1];
	uint8_t value[8];
	size_t bytes;
	kvd_lock_t *lock;

	(void)state;
	assert_int_equal(kvd_put(s, "", 0, "v", 1, NULL), KVD_EINVAL);
	assert_int_equal(kvd_put(s, longer, sizeof longer, "v", 1, NULL), KVD_ETOOBIG);
	assert_int_equal(kvd_get(s, "", 0, value, sizeof value, &bytes, NULL), KVD_EINVAL);
	assert_int_equal(kvd_del(s, longer, sizeof longer), KVD_ETOOBIG);
	assert_int_equal(kvd_lock_get(s, "", 0, 0, value, sizeof value, &bytes, NULL, &lock), KVD_EINVAL);
	assert_null(lock);
	assert_int_equal(kvd_keys_page(s, longer, sizeof longer, &(uint64_t){ 0 }, NULL, NULL), KVD_ETOOBIG);
	assert_int_equal(end->messages, 0);
	assert_int_equal(end->reads, 0);
	assert_int_equal(kvd_put(s, longer, KVD_KEY_BYTES_MAX, "v", 1, NULL), KVD_OK); /* the longest */
	assert_int_equal(end->asked.key_bytes, KVD_KEY_BYTES_MAX);
}

/* Why the last connection ended is told once, and where there was one. */
static void test_how_the_last_connection_ended(void **state)
{
	(void)state;
	strcpy(e->health.err.text, "no answer");
	health_recall(&e->health);
	assert_string_equal(e->health.err.text, "no answer");
	strcpy(e->health.lost.text, "no answer");
	health_recall(&e->health);
	assert_string_equal(e->health.err.text, "no answer");
	strcpy(e->health.lost.text, "a cable");
	health_recall(&e->health);
	assert_string_equal(e->health.err.text, "no answer; how the last connection ended: a cable");
}

static void test_what_computes(void **state)
{
	static const int64_t initial = -4;
	struct wire_incr incr;
	int64_t number = 0;
	uint64_t unsigned_number = 0, version = 0;
	size_t total = 0;

	(void)state;
	answer.value_bytes = (uint64_t)-7;
	answer.version = 12;
	assert_int_equal(kvd_incr(s, KEY, -3, &initial, NULL, &number), KVD_OK);
	assert_int_equal(number, -7);
	assert_int_equal(end->asked.op, WIRE_INCR);
	assert_int_equal(end->asked.flags, WIRE_INITIAL);
	memcpy(&incr, end->behind + 3, sizeof incr);
	assert_int_equal(incr.delta, -3);
	assert_int_equal(incr.initial, -4);
	assert_int_equal(kvd_incr_u64(s, KEY, 5, NULL, NULL, &unsigned_number), KVD_OK);
	assert_int_equal(unsigned_number, (uint64_t)-7);
	assert_int_equal(end->asked.flags, WIRE_UNSIGNED);
	assert_int_equal(kvd_decr_u64(s, KEY, 5, NULL, NULL, &unsigned_number), KVD_OK);
	assert_int_equal(end->asked.flags, WIRE_UNSIGNED | WIRE_DOWN);
	answer.value_bytes = 99;
	assert_int_equal(kvd_append(s, KEY, "end", 3, NULL, &total), KVD_OK);
	assert_int_equal(total, 99);
	assert_int_equal(end->asked.op, WIRE_APPEND);
	assert_int_equal(kvd_prepend(s, KEY, "begin", 5, NULL, &total), KVD_OK);
	assert_int_equal(end->asked.op, WIRE_PREPEND);
	assert_memory_equal(end->behind, "keybegin", 8);
	assert_int_equal(kvd_touch(s, KEY, 50), KVD_OK);
	assert_int_equal(end->asked.op, WIRE_TOUCH);
	assert_int_equal(end->asked.ttl_ms, 50);
	assert_int_equal(kvd_del_with(s, KEY, NULL, &version), KVD_OK);
	assert_int_equal(version, 12);
	/* Who lost is told the version that is there. */
	answer.status = WIRE_CONDITION;
	answer.version = 13;
	assert_int_equal(kvd_put(s, KEY, "v", 1, &version), KVD_CONDITION);
	assert_int_equal(version, 13);
}

static void test_answers_to_a_change(void **state)
{
	static const struct {
		enum wire_status status;
		int result;
		const char *says;
	} cases[] = {
		{ WIRE_NOT_FOUND, KVD_NOT_FOUND, "" },
		{ WIRE_EMEMORY, KVD_EFULL, "the table has no memory for this value" },
		{ WIRE_ECROWDED, KVD_EFULL, "more than 200 other keys share this one's place" },
		{ WIRE_ETOOBIG, KVD_ETOOBIG, "over the limit of 1 GiB" },
		{ WIRE_EPULL, KVD_EINVAL, "the value changed while kvd read it" },
		{ WIRE_ENUMBER, KVD_ENUMBER, "is not a whole number" },
		{ WIRE_ERANGE, KVD_ERANGE, "does not fit 64 bits" },
		{ WIRE_EDENIED, KVD_EDENIED, "kvd at here does not let they do that: their role is role" },
		{ WIRE_EDISK, KVD_EDISK, "full or broken: nothing was changed" },
		{ WIRE_EUNKNOWN, KVD_EUNKNOWN, "may be found after kvd is started again" },
		{ WIRE_ESTOPPING, KVD_ECONNECT, "kvd is stopping" },
		{ WIRE_EINVALID, KVD_EPROTOCOL, "a status that this client does not know" },
		{ (enum wire_status)200, KVD_EPROTOCOL, "(key of 3 bytes, kvd at here)" },
	};
	struct kvd_completion done;

	(void)state;
	for (unsigned i = 0; i < COUNT(cases); i++) {
		answer.status = (uint8_t)cases[i].status;
		assert_int_equal(kvd_submit_del(s, KEY, &done), KVD_OK);
		assert_int_equal(kvd_poll(s, &done, 1, -1), 1);
		assert_int_equal(done.result, cases[i].result);
		must_say(cases[i].says);
	}
}

/* So many are in flight, and then it is busy; what one says of an item is none of the next one's. */
static void test_as_many_as_the_depth(void **state)
{
	struct kvd_completion done[END_DEPTH];
	unsigned n;

	(void)state;
	for (unsigned i = 0; i < e->depth; i++)
		e->ops[i].out.lengths = e->ops[i].out.expiry = ~0ull;
	end->answer = NULL;
	for (n = 0; n < END_DEPTH && kvd_submit_del(s, KEY, NULL) == KVD_OK; n++)
		;
	assert_int_equal(n, e->depth - 1); /* one is kept for an unlock */
	assert_int_equal(kvd_submit_get(s, KEY, page, sizeof page, NULL), KVD_EBUSY);
	health_fail(&e->health, KVD_ECONNECT, "gone");
	assert_int_equal(kvd_poll(s, done, END_DEPTH, 0), n);
	for (unsigned i = 0; i < n; i++) {
		assert_int_equal(done[i].flags, 0);
		assert_int_equal(done[i].signs, 0);
	}
}

/* A poll fills no more than it has room for: the others' turn is the next one's. */
static void test_no_more_than_there_is_room_for(void **state)
{
	struct kvd_completion done[2];
	char tags[2];

	(void)state;
	for (unsigned i = 0; i < COUNT(tags); i++)
		assert_int_equal(kvd_submit_del(s, KEY, &tags[i]), KVD_OK);
	for (unsigned i = 0; i < COUNT(tags); i++) {
		done[1].tag = &done;
		assert_int_equal(kvd_poll(s, done, 1, -1), 1);
		assert_ptr_equal(done[0].tag, &tags[i]);
		assert_ptr_equal(done[1].tag, &done);
	}
	assert_int_equal(kvd_poll(s, done, 2, 0), 0);
}

/* ------------------------------------------------------------------- calls */

static void test_answers_to_a_call(void **state)
{
	static const struct {
		enum wire_status status;
		int result;
		const char *says;
	} cases[] = {
		{ WIRE_EDENIED, KVD_EDENIED, "their role is role" },
		{ WIRE_EDISK, KVD_EDISK, "the disk of kvd at here is full or broken" },
		{ WIRE_EUNKNOWN, KVD_EDISK, "the disk of kvd at here is full or broken" },
		{ WIRE_EINVALID, KVD_EPROTOCOL, "here answered with status 5" },
	};
	uint64_t ns = 0;
	char *json = NULL;

	(void)state;
	for (unsigned i = 0; i < COUNT(cases); i++) {
		answer.status = (uint8_t)cases[i].status;
		assert_int_equal(kvd_stats(s, &json), cases[i].result);
		must_say(cases[i].says);
		assert_null(json);
		assert_int_equal(kvd_ping(s, &ns), cases[i].result);
		assert_int_equal(ns, 0);
		assert_int_equal(kvd_flush(s), cases[i].result);
	}
	answer.status = WIRE_OK;
	page_bytes = 4;
	memcpy(page, "{\x1b" "1}", 4);
	assert_int_equal(kvd_stats(s, &json), KVD_OK);
	assert_int_equal(strlen(json), 4);
	assert_null(strchr(json, '\x1b')); /* it moves no terminal */
	free(json);
	assert_int_equal(kvd_ping(s, &ns), KVD_OK);
	assert_true(ns > 0);
}

static unsigned told;

static int tell(void *arg, const void *key, size_t key_bytes, uint64_t value_bytes)
{
	(void)key, (void)key_bytes, (void)value_bytes;
	told++;
	return *(int *)arg;
}

static void put_key(unsigned key_bytes, const char *key, uint64_t value_bytes, size_t room)
{
	struct wire_key head = { .key_bytes = (uint16_t)key_bytes, .value_bytes = value_bytes };

	memcpy(page + page_bytes, &head, sizeof head);
	strcpy((char *)page + page_bytes + sizeof head, key);
	page_bytes += sizeof head + room;
}

/* A page is told whole, or not at all. */
static void test_pages_that_make_no_sense(void **state)
{
	static const struct {
		unsigned key_bytes;
		const char *key;
		uint64_t value_bytes;
		size_t room;
	} cases[] = {
		{ 0, "", 1, 0 },
		{ 4, "keys", 1, 3 },
		{ KVD_KEY_BYTES_MAX + 1, "keys", 1, 4 },
		{ 4, "keys", KVD_VALUE_BYTES_MAX + 1, 4 },
		{ 2, "ke", 1, 2 },   /* shorter than the prefix */
		{ 4, "kayo", 1, 4 }, /* another prefix */
	};
	uint64_t cursor = 0;
	int enough = 0;

	(void)state;
	told = 0;
	for (unsigned i = 0; i < COUNT(cases); i++) {
		page_bytes = 0;
		put_key(4, "key1", 5, 4);
		put_key(cases[i].key_bytes, cases[i].key, cases[i].value_bytes, cases[i].room);
		assert_int_equal(kvd_keys_page(s, "key", 3, &cursor, tell, &enough), KVD_EPROTOCOL);
		must_say("kvd at here sent a page of keys that makes no sense");
	}
	page_bytes = 0;
	put_key(4, "key1", KVD_VALUE_BYTES_MAX, 4); /* the longest there is */
	assert_int_equal(kvd_keys_page(s, "key", 3, &cursor, tell, &enough), KVD_OK);
	assert_int_equal(told, 1);
	told = 0;
	put_key(4, "key2", 5, 4);
	page_bytes -= 10; /* a head that is cut off */
	assert_int_equal(kvd_keys_page(s, "key", 3, &cursor, tell, &enough), KVD_EPROTOCOL);
	assert_int_equal(told, 0);
	assert_int_equal(cursor, 0);
}

/* A cursor that goes round would never end. */
static void test_cursors(void **state)
{
	uint64_t cursor = 5ull << 20;
	int enough = 0;

	(void)state;
	told = 0;
	put_key(4, "key1", 5, 4);
	answer.version = cursor;
	assert_int_equal(kvd_keys_page(s, "key", 3, &cursor, tell, &enough), KVD_EPROTOCOL);
	must_say("a cursor that makes no sense");
	answer.version = 4ull << 20;
	assert_int_equal(kvd_keys_page(s, "key", 3, &cursor, tell, &enough), KVD_EPROTOCOL);
	assert_int_equal(told, 0);
	assert_int_equal(cursor, 5ull << 20);
	answer.version = 6ull << 20;
	assert_int_equal(kvd_keys_page(s, "key", 3, &cursor, tell, &enough), KVD_OK);
	assert_int_equal(end->asked.version, 5ull << 20);
	assert_int_equal(cursor, 6ull << 20);
	assert_int_equal(told, 1);
	/* Who has enough is asked no more. */
	enough = 1;
	assert_int_equal(kvd_keys(s, "key", 3, tell, &enough), KVD_OK);
	assert_int_equal(told, 2);
	/* Of a flush the same. */
	answer.version = 1;
	e->time.limit_ns = 20000000;
	answer.status = WIRE_EBUSY;
	assert_int_equal(kvd_flush(s), KVD_EBUSY);
	must_say("a key stayed locked: not all keys were deleted");
}

static void flush_round(struct end *to, const struct wire_request *request)
{
	static const uint64_t next[] = { 3ull << 20, 9ull << 20, 2ull << 20 };
	unsigned n = to->messages - 1; /* this one is counted */
	struct wire_reply reply = { .bucket = ~0ull, .version = next[n % 3] };

	assert_int_equal(request->version, n ? next[n - 1] : 0);
	end_reply(to, reply, NULL, 0);
}

static void test_flush_that_goes_round(void **state)
{
	(void)state;
	end->answer = flush_round;
	assert_int_equal(kvd_flush(s), KVD_EPROTOCOL);
	must_say("a cursor that makes no sense");
}

static void test_flush_at(void **state)
{
	(void)state;
	assert_int_equal(kvd_flush_at(s, KVD_UNIX_MS_MAX + 1), KVD_EINVAL);
	must_say("is no Unix time in milliseconds");
	assert_int_equal(end->messages, 0);
	assert_int_equal(kvd_flush_at(s, 77), KVD_OK);
	assert_int_equal(end->asked.op, WIRE_FLUSH);
	assert_int_equal(end->asked.flags, WIRE_UNIX);
	assert_int_equal(end->asked.ttl_ms, 77);
	answer.status = WIRE_EUNSUPPORTED;
	assert_int_equal(kvd_flush_at(s, 77), KVD_EINVAL);
	must_say("is a member of a cluster, which deletes keys now or never");
}

/* ------------------------------------------------------------------ clusters */

static void test_commands_that_are_none(void **state)
{
	static char longer[KVD_KEY_BYTES_MAX + 2];

	(void)state;
	memset(longer, 'n', sizeof longer - 1);
	assert_int_equal(kvd_cluster(s, KVD_CLUSTER_INIT - 1, "b", 2, NULL), KVD_EINVAL);
	assert_int_equal(kvd_cluster(s, KVD_CLUSTER_FORCE + 1, "b", 0, NULL), KVD_EINVAL);
	assert_int_equal(kvd_cluster(s, KVD_CLUSTER_INIT, NULL, -1, NULL), KVD_EINVAL);
	assert_int_equal(kvd_cluster(s, KVD_CLUSTER_REMOVE, "", 0, NULL), KVD_EINVAL);
	assert_int_equal(kvd_cluster(s, KVD_CLUSTER_PROMOTE, NULL, 0, NULL), KVD_EINVAL);
	assert_int_equal(kvd_cluster(s, KVD_CLUSTER_FORCE, longer, 0, NULL), KVD_EINVAL);
	must_say("that is no command for a cluster");
	assert_int_equal(end->messages, 0);
}

/* kvd is busy with it until the third time that it is asked. */
static void give_in_the_end(struct end *to, const struct wire_request *request)
{
	answer.version = to->messages < 3 ? WIRE_BACKUP_RUNNING : WIRE_BACKUP_DONE;
	give(to, request);
}

static void test_cluster(void **state)
{
	char *said = NULL;
	uint64_t number;

	(void)state;
	memcpy(page, "as you say", page_bytes = 10);
	end->answer = give_in_the_end;
	assert_int_equal(kvd_cluster(s, KVD_CLUSTER_PROMOTE, "bob", 0, &said), KVD_OK);
	assert_string_equal(said, "as you say");
	free(said);
	assert_int_equal(end->messages, 3);
	assert_int_equal(end->asked.op, WIRE_CLUSTER);
	assert_int_equal(end->asked.version, KVD_CLUSTER_PROMOTE);
	assert_memory_equal(end->behind, "bob", 3);
	number = end->asked.value_checksum;
	assert_int_not_equal(number, 0);
	/* Each command is another one. */
	assert_int_equal(kvd_cluster(s, KVD_CLUSTER_INIT, "nobody", 3, NULL), KVD_OK);
	assert_int_equal(end->asked.item_flags, 3);
	assert_int_equal(end->asked.key_bytes, 0);
	assert_true(end->asked.value_checksum && end->asked.value_checksum != number);
}

static void test_answers_of_a_cluster(void **state)
{
	static const struct {
		enum wire_status status;
		int result;
		const char *says;
	} cases[] = {
		{ WIRE_EDENIED, KVD_EDENIED, "kvd at here does not let they do that" },
		{ WIRE_EUNSUPPORTED, KVD_EINVAL, "kvd at here is of no cluster: it was started without" },
		{ WIRE_EELSEWHERE, KVD_ECONNECT, "does not serve: nothing was done (kvd at" },
		{ WIRE_NOT_FOUND, KVD_EPROTOCOL, "here answered with status 1" },
	};

	(void)state;
	for (unsigned i = 0; i < COUNT(cases); i++) {
		e->time.limit_ns = cases[i].status == WIRE_EELSEWHERE ? 0 : 5000000000ull;
		answer.status = (uint8_t)cases[i].status;
		assert_int_equal(kvd_cluster(s, KVD_CLUSTER_REMOVE, "bob", 0, NULL), cases[i].result);
		must_say(cases[i].says);
		e->health.moved = false;
	}
	answer.status = WIRE_OK;
	answer.version = WIRE_BACKUP_FAILED;
	memcpy(page, "bob is the primary", page_bytes = 18);
	assert_int_equal(kvd_cluster(s, KVD_CLUSTER_REMOVE, "bob", 0, NULL), KVD_EINVAL);
	must_say("bob is the primary");
	/* It takes for ever: what becomes of it nobody knows. */
	answer.version = WIRE_BACKUP_RUNNING;
	e->time.limit_ns = 20000000;
	assert_int_equal(kvd_cluster(s, KVD_CLUSTER_REMOVE, "bob", 0, NULL), KVD_EUNKNOWN);
	must_say("is not done in time: it may be yet");
}

/* ------------------------------------------------------------------- GETs */

static void test_gets_of_nothing(void **state)
{
	struct kvd_info info = { .size = 3 };
	uint8_t value[8];
	size_t bytes = 1;
	void *allocated = value;

	(void)state;
	assert_int_equal(kvd_get_info(s, KEY, value, sizeof value, &info), KVD_EINVAL);
	must_say("info.size is 3");
	info.size = sizeof info;
	assert_int_equal(kvd_get_info(s, KEY, value, sizeof value, &info), KVD_NOT_FOUND);
	assert_int_equal(kvd_get_alloc(s, KEY, &allocated, &bytes, NULL), KVD_NOT_FOUND);
	assert_ptr_equal(allocated, value);
	assert_int_equal(kvd_exists(s, KEY, &bytes), KVD_NOT_FOUND);
	assert_int_equal(bytes, 1);
}

static void test_batches(void **state)
{
	struct kvd_item items[40];
	char value[] = "value";

	(void)state;
	for (unsigned i = 0; i < COUNT(items); i++)
		items[i] = (struct kvd_item){ .key = "key", .key_bytes = i == 7 ? 0 : 3, .value = value,
					      .value_bytes = 5, .value_bytes_max = 5, .result = 99,
					      .ttl_ms = 99, .flags = 99, .signs = 99 };
	items[9].key_bytes = KVD_KEY_BYTES_MAX + 1;
	answer.version = 5;
	/* One that is none has its error, and the others are done.  The first error is the batch's. */
	assert_int_equal(kvd_mput(s, items, COUNT(items), NULL), KVD_EINVAL);
	for (unsigned i = 0; i < COUNT(items); i++) {
		int want = i == 7 ? KVD_EINVAL : i == 9 ? KVD_ETOOBIG : KVD_OK, old = want ? 99 : 0;

		assert_int_equal(items[i].result, want);
		assert_int_equal(items[i].version, want ? 0 : 5);
		assert_int_equal(items[i].ttl_ms, old);
		assert_int_equal(items[i].flags, old);
		assert_int_equal(items[i].signs, old);
	}
	assert_int_equal(end->messages, COUNT(items) - 2);
	answer.status = WIRE_EDISK;
	items[0].key_bytes = 0;
	assert_int_equal(kvd_mdel(s, items, COUNT(items)), KVD_EINVAL);
	assert_int_equal(items[1].result, KVD_EDISK);
	items[0].key_bytes = items[7].key_bytes = items[9].key_bytes = 3;
	assert_int_equal(kvd_mdel(s, items, COUNT(items)), KVD_EDISK);
	assert_int_equal(kvd_mget(s, items, COUNT(items)), KVD_OK);
	assert_int_equal(items[39].result, KVD_NOT_FOUND);
	assert_int_equal(kvd_mexists(s, items, COUNT(items)), KVD_OK);
	assert_int_equal(items[0].result, KVD_NOT_FOUND);
	assert_int_equal(e->in_flight, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_what_a_change_asks),
		TEST(test_changes_that_make_no_sense),
		TEST(test_the_longest),
		TEST(test_keys_that_are_none),
		TEST(test_how_the_last_connection_ended),
		TEST(test_what_computes),
		TEST(test_answers_to_a_change),
		TEST(test_as_many_as_the_depth),
		TEST(test_no_more_than_there_is_room_for),
		TEST(test_answers_to_a_call),
		TEST(test_pages_that_make_no_sense),
		TEST(test_cursors),
		TEST(test_flush_that_goes_round),
		TEST(test_flush_at),
		TEST(test_commands_that_are_none),
		TEST(test_cluster),
		TEST(test_answers_of_a_cluster),
		TEST(test_gets_of_nothing),
		TEST(test_batches),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
