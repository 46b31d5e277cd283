/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * replica_restore(): what the disk has as open is open again, with the table as it was before; what it has
 * is noted anew; and what a disk may say that can't be.  The disk is made up.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/cluster/note/note.h"
#include "server/cluster/replica/impl.h"
#include "server/durable/durable.h"
#include "server/store/apply.h"
#include "tests/unit/made_up.h"
#include "tests/unit/no_memory.h"
#include "tests/unit/said.h"
#include "tests/unit/server/cluster/wire_kit.h"

#define CANT "can't make what was under way out of the disk: "
#define HIGH (1ull << 40)
#define NOTES_MAX 4u

static struct durable *const disk = (struct durable *)(void *)&wires[0];
static struct err err;
static struct durable_note notes[NOTES_MAX];
static unsigned note_count, walks, asked;
static uint64_t seen[8];           /* of reigns */
static struct note noted[NOTES_MAX]; /* anew, by the order of notes */
static char noted_bytes[NOTES_MAX][512];
static bool is_noted[NOTES_MAX], is_renoted, cant_ask, cant_write;
static unsigned walk_that_fails; /* from 1 */

/* -------------------------------------------------------------------- made up */

MADE_UP(int, durable_notes, struct durable *d, int (*each)(void *arg, const struct durable_note *note), void *arg,
	struct err *e)
{
	int rc = 0;

	if (++walks == walk_that_fails || d != disk)
		return err_set(e, -1, "no walk");
	for (unsigned i = 0; i < note_count && !rc; i++)
		rc = each(arg, &notes[i]);
	return rc;
}

MADE_UP(int, durable_was_seen, const struct durable *d, uint64_t reign, uint64_t *number, struct err *e)
{
	assert_true(d == disk && reign < 8);
	asked++;
	*number = seen[reign];
	return cant_ask ? err_set(e, -1, "no answer") : 0;
}

MADE_UP(void, durable_renote, struct durable *d, const struct durable_note *note)
{
	for (unsigned i = 0; i < note_count && d == disk; i++)
		if (notes[i].stripe == note->stripe) {
			assert_true(note->length <= sizeof noted_bytes[i]);
			memcpy(noted_bytes[i], note->bytes, note->length);
			is_noted[i] = note_read(noted_bytes[i], note->length, &noted[i]);
		}
}

MADE_UP(int, durable_renoted, struct durable *d, struct err *e)
{
	is_renoted = d == disk;
	return cant_write ? err_set(e, -1, "no writing") : 0;
}

MADE_UP(uint64_t, durable_expiry_ms, const struct durable *d, uint64_t wall_ms)
{
	return d == disk && wall_ms > 5000 ? wall_ms - 5000 : wall_ms > 0;
}

/* ------------------------------------------------------------------------- kit */

static struct durable_record record_of(const char *key, const char *value, uint64_t version)
{
	return (struct durable_record){ .key = key, .key_bytes = (unsigned)strlen(key), .value = value,
					.value_bytes = strlen(value), .version = version, .with = { .flags = 9 } };
}

/* As the database filled the table. */
static void has(const char *key, const char *value, uint64_t version)
{
	struct durable_record r = record_of(key, value, version);
	struct layout_item *item = store_apply_item(&wire_fixture.worker[0], &r);

	assert_non_null(item);
	assert_int_equal(store_apply_put(&wire_fixture.worker[0], item), WIRE_OK);
}

static void add_note(const struct note *n, uint32_t stripe)
{
	static char bytes[NOTES_MAX][2048];

	assert_true(note_bytes(n) <= sizeof *bytes);
	note_write(n, bytes[note_count]);
	notes[note_count] = (struct durable_note){ stripe, bytes[note_count], note_bytes(n) };
	note_count++;
}

/* Of a change of one key, which was that before; version 0: it was not there. */
static void note_change(const char *key, const char *before, uint64_t version_before, uint64_t version)
{
	struct note n = { .version = version, .before = version_before, .reign = 3, .number = 5, .stripe_count = 1,
			  .stripes = { wire_stripe(key, strlen(key)) }, .count = 1,
			  .keys = { record_of(key, before, version_before) } };

	add_note(&n, n.stripes[0]);
}

static int try_restore(void)
{
	int rc;

	wire_fixture.store->durable = disk;
	said_begin();
	rc = replica_restore(wire_replica, &err);
	said_end();
	wire_fixture.store->durable = NULL;
	return rc;
}

/* So many changes are open. */
static void restore(unsigned open)
{
	char line[64];
	unsigned n = 0;

	if (try_restore())
		fail_msg("%s", err.text);
	assert_int_equal(walks, 2);
	assert_true(is_renoted);
	for (struct record *r = wire_replica->records.open.next; r != &wire_replica->records.open; r = r->next)
		n++;
	assert_int_equal(n, open);
	snprintf(line, sizeof line, "%u changes of the disk are open: ", open);
	assert_int_equal(said_lines(line), open > 0);
	assert_int_equal(said_lines("open"), open > 0);
}

/* As primary, alone: what is open takes effect. */
static void take_effect(void)
{
	wire_epoch(WIRE_EPOCH, WIRE_REIGN, RECORDS_PRIMARY, 0);
	wire_order((struct replica_order){ .kind = REPLICA_SHOW });
	replica_flush(wire_worker);
	assert_string_equal(wire_unfit, "");
}

static uint64_t applied(const char *key)
{
	return wire_replica->records.slots[wire_stripe(key, strlen(key))].applied;
}

static void expect_version(const char *key, uint64_t version, unsigned flags)
{
	struct store_result r;
	char value[16];

	assert_int_equal(wire_get(key, value, sizeof value, &r), WIRE_OK);
	assert_int_equal(r.version, version);
	assert_int_equal(r.with.flags, flags);
}

/* -------------------------------------------------------------------------- tests */

static void test_open(void **state)
{
	(void)state;
	has("changed", "new", HIGH);
	has("made", "new", 21);
	note_change("changed", "old", 10, HIGH);
	note_change("made", "", 0, 21);
	note_change("removed", "old", 12, HIGH + 500);
	note_change("nothing", "", 0, 23); /* made and removed, or never there */
	restore(4);
	wire_expect("changed", "old");
	expect_version("changed", 10, 9);
	wire_expect("made", NULL);
	wire_expect("removed", "old");
	assert_int_equal(applied("changed"), 10);
	assert_int_equal(applied("made"), 0);
	assert_int_equal(applied("removed"), 12);
	wire_expect("nothing", NULL);
	assert_true(atomic_load(&wire_fixture.store->version) >= HIGH + 500);
	for (unsigned i = 0; i < 4; i++) { /* until another one comes behind it */
		assert_true(is_noted[i]);
		assert_int_equal(noted[i].number, UINT64_MAX);
		assert_int_equal(noted[i].reign, 3);
		assert_int_equal(noted[i].version, i == 0 ? HIGH : i == 1 ? 21 : i == 2 ? HIGH + 500 : 23);
		assert_int_equal(noted[i].count, 1);
	}
	take_effect();
	wire_expect("changed", "new");
	expect_version("changed", HIGH, 9);
	wire_expect("made", "new");
	wire_expect("removed", NULL);
	assert_int_equal(applied("changed"), HIGH);
}

/* What was seen, or known as applied, is not open. */
static void test_applied(void **state)
{
	const struct note known = { .version = 30 };

	(void)state;
	has("k", "new", 20);
	note_change("k", "old", 10, 20);
	add_note(&known, wire_stripe("j", 1));
	seen[3] = 5;
	restore(0);
	wire_expect("k", "new");
	assert_int_equal(applied("k"), 20);
	assert_int_equal(applied("j"), 30);
	assert_true(is_noted[0]);
	assert_int_equal(noted[0].version, 20);
	assert_int_equal(noted[0].number, 0);
	assert_int_equal(noted[0].count, 0);
	assert_false(is_noted[1]);
}

static void test_seen_of_each_reign(void **state)
{
	struct note n = { .stripe_count = 1, .number = 7 };

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		n.stripes[0] = i;
		n.version = 40 + i;
		n.reign = i < 2 ? 2 : i + 1;
		add_note(&n, i);
	}
	seen[2] = 6;
	seen[3] = 7;
	seen[4] = 8;
	restore(2); /* of reign 2: without keys in that stripe */
	assert_int_equal(asked, 3);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(wire_replica->records.slots[i].applied, i < 2 ? 0 : 40 + i);
	take_effect();
	assert_int_equal(wire_replica->records.slots[1].applied, 41);
}

/* It is open while all of its stripes name it: 0 and 1: only that one does; 2: both. */
static void test_transactions(void **state)
{
	static const char *const keys[] = { "a", "b" };
	struct note n = { .version = 50, .reign = 3, .number = 5, .stripe_count = 2,
			  .stripes = { wire_stripe("a", 1), wire_stripe("b", 1) }, .count = 1 };

	for (unsigned which = 0; which < 3; which++) {
		if (which) {
			wire_teardown(state);
			assert_int_equal(wire_setup(state), 0);
		}
		note_count = walks = 0;
		for (unsigned i = 0; i < 2; i++) {
			n.keys[0] = record_of(keys[i], "old", 10);
			has(keys[i], "new", 50);
			if (which == i || which == 2)
				add_note(&n, n.stripes[i]);
			else
				note_change(keys[i], "old", 55, 60);
		}
		restore(1);
		for (unsigned i = 0; i < 2; i++) {
			wire_expect(keys[i], which == i ? "new" : "old");
			assert_int_equal(applied(keys[i]), which == 2 ? 0 : which == i ? 50 : 55);
		}
		const struct record *r = wire_replica->records.open.next;
		assert_int_equal(r->count, which == 2 ? 2 : 1);
		assert_int_equal(r->version, which == 2 ? 50 : 60);
		take_effect();
		wire_expect("a", "new");
		wire_expect("b", "new");
	}
}

/* Their stripes are met one by one. */
static void test_transactions_at_once(void **state)
{
	static const char *const keys[] = { "a", "b", "c", "d" };
	struct note n = { .reign = 3, .number = 5, .stripe_count = 2, .count = 1 };
	unsigned opened = 0;

	(void)state;
	for (unsigned i = 0; i < 4; i++) { /* a with c, b with d */
		has(keys[i], "new", 50 + i % 2);
		n.version = 50 + i % 2;
		n.stripes[0] = wire_stripe(keys[i % 2], 1);
		n.stripes[1] = wire_stripe(keys[i % 2 + 2], 1);
		n.keys[0] = record_of(keys[i], "old", 10);
		add_note(&n, n.stripes[i / 2]);
	}
	restore(2);
	for (unsigned i = 0; i < 4; i++)
		wire_expect(keys[i], "old");
	for (struct record *r = wire_replica->records.open.next; r != &wire_replica->records.open; r = r->next)
		opened += ((struct replica_record *)r)->count;
	assert_int_equal(opened, 4);
	take_effect();
	for (unsigned i = 0; i < 4; i++)
		wire_expect(keys[i], "new");
}

/* A member that takes over sends it to who may lack it. */
static void test_sent_again(void **state)
{
	struct link_reader_record record;

	(void)state;
	has("k", "new", 20);
	note_change("k", "old", 10, 20);
	restore(1);
	wire_epoch(WIRE_EPOCH, WIRE_REIGN, RECORDS_PRIMARY, 1);
	wire_up(0, "anna");
	wire_order((struct replica_order){ .kind = REPLICA_BEGUN_BY, .members = 1 });
	replica_flush(wire_worker);
	struct link_reader r = wire_sent(0, 0, LINK_RECORDS);
	assert_true(link_next_record(&r, &record));
	assert_int_equal(record.record->version, 20);
}

/* Keys that go stand behind its items, with room for each. */
static void test_many_removals(void **state)
{
	static const char *const names[] = { "one", "a longer name", "x", "the last one of them" };
	struct note n = { .version = 50, .reign = 3, .number = 5, .stripe_count = 1, .count = 4 };

	(void)state;
	for (unsigned i = 0; i < 4; i++)
		n.keys[i] = record_of(names[i], names[i], 10 + i);
	add_note(&n, 0);
	restore(1);
	for (unsigned i = 0; i < 4; i++)
		wire_expect(names[i], names[i]);
	take_effect();
	for (unsigned i = 0; i < 4; i++)
		wire_expect(names[i], NULL);
}

static void test_times(void **state)
{
	struct note n = { .version = 50, .reign = 3, .number = 5, .stripe_count = 1, .count = 2,
			  .keys = { record_of("over", "old", 10), record_of("later", "old", 11) } };
	struct store_result r;
	char value[8];

	(void)state;
	n.keys[0].with.expiry_ms = 5000;
	n.keys[1].with.expiry_ms = 99005000;
	has("over", "new", 50);
	add_note(&n, 0);
	restore(1);
	wire_expect("over", NULL);
	assert_int_equal(wire_get("later", value, sizeof value, &r), WIRE_OK);
	assert_int_equal(r.with.expiry_ms, 99000000);
	assert_int_equal(index_keys(wire_fixture.store->index), 1);
}

/* ----------------------------------------------------------------- what can't be */

static void expect_refused(const char *why)
{
	walks = 0;
	is_renoted = false;
	assert_int_equal(try_restore(), -1);
	assert_string_equal(err.text, why);
}

static void test_not_notes(void **state)
{
	(void)state;
	note_change("k", "old", 10, 20);
	notes[0].stripe = wire_replica->records.stripes;
	expect_refused(CANT "a stripe's note is not one of kvd's");
	notes[0].stripe = 0;
	notes[0].length--;
	expect_refused(CANT "a stripe's note is not one of kvd's");
	assert_int_equal(walks, 1);
	assert_false(is_renoted);
}

static void test_the_disk_fails(void **state)
{
	(void)state;
	for (walk_that_fails = 1; walk_that_fails < 3; walk_that_fails++) {
		expect_refused("no walk");
		assert_int_equal(walks, walk_that_fails);
		assert_false(is_renoted);
	}
	cant_write = true;
	expect_refused("no writing");
	note_change("k", "old", 10, 20);
	cant_ask = true;
	expect_refused("no answer");
	assert_int_equal(walks, 1);
}

static void test_no_memory(void **state)
{
	(void)state;
	note_change("k", "old", 10, 20);
	for (unsigned i = 1; i <= 3; i++) { /* of all, of a note, of a record */
		fails_at = i;
		has_failed = false;
		expect_refused(CANT "there is no memory");
		assert_true(has_failed);
	}
	wire_fixture.store->durable = NULL;
	walks = 0;
	assert_int_equal(replica_restore(wire_replica, &err), 0); /* no disk */
	assert_int_equal(walks, 0);
}

/* -------------------------------------------------------------------------- group */

static int set_up(void **state)
{
	note_count = walks = asked = walk_that_fails = 0;
	memset(seen, 0, sizeof seen);
	memset(is_noted, 0, sizeof is_noted);
	is_renoted = cant_ask = cant_write = false;
	return wire_setup(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, wire_teardown)
		TEST(test_open), TEST(test_applied), TEST(test_seen_of_each_reign), TEST(test_transactions), TEST(test_transactions_at_once), TEST(test_sent_again),
		TEST(test_many_removals), TEST(test_times), TEST(test_not_notes), TEST(test_the_disk_fails),
		TEST(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
