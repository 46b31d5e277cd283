/* SPDX-License-Identifier: BSD-2-Clause */
/* server/cluster/note: what a member's disk keeps of a stripe, written and read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "server/cluster/note/note.h"

static struct note a_note(void)
{
	struct note n = { .version = 11, .before = 10, .reign = 3, .number = 99, .stripe_count = 2,
			  .stripes = { 5, 70000 }, .count = 2 };

	n.keys[0] = (struct durable_record){ .key = "k", .key_bytes = 1, .value = "old", .value_bytes = 3,
					     .version = 9, .with = { 12345, 0xabcdef, LAYOUT_STALE } };
	n.keys[1] = (struct durable_record){ .key = "none", .key_bytes = 4, .value = "" };
	return n;
}

static void test_a_note(void **state)
{
	struct note n = a_note(), m;
	size_t bytes = note_bytes(&n);
	char *text = malloc(bytes);

	(void)state;
	note_write(&n, text);
	note_number(text, 4, 100);
	assert_true(note_read(text, bytes, &m));
	assert_int_equal(m.version, 11);
	assert_int_equal(m.before, 10);
	assert_int_equal(m.reign, 4);
	assert_int_equal(m.number, 100);
	assert_int_equal(m.stripe_count, 2);
	assert_int_equal(m.stripes[0], 5);
	assert_int_equal(m.stripes[1], 70000);
	assert_int_equal(m.count, 2);
	assert_int_equal(m.keys[0].version, 9);
	assert_int_equal(m.keys[0].key_bytes, 1);
	assert_memory_equal(m.keys[0].key, "k", 1);
	assert_int_equal(m.keys[0].value_bytes, 3);
	assert_memory_equal(m.keys[0].value, "old", 3);
	assert_int_equal(m.keys[0].with.expiry_ms, 12345);
	assert_int_equal(m.keys[0].with.flags, 0xabcdef);
	assert_int_equal(m.keys[0].with.signs, LAYOUT_STALE);
	assert_memory_equal(m.keys[1].key, "none", 4);
	assert_int_equal(m.keys[1].version, 0);
	free(text);
}

/* Cut anywhere, or with any byte changed: refused, or read within its bounds. */
static void test_a_note_that_cant_be(void **state)
{
	struct note n = a_note(), m;
	size_t bytes = note_bytes(&n);
	char *text = malloc(bytes);

	(void)state;
	note_write(&n, text);
	for (size_t length = 0; length < bytes; length++) {
		char *cut = malloc(length + 1);

		memcpy(cut, text, length);
		assert_false(note_read(cut, length, &m));
		free(cut);
	}
	for (size_t i = 0; i < bytes; i++)
		for (unsigned bit = 0; bit < 8; bit++) {
			text[i] = (char)(text[i] ^ 1 << bit);
			note_read(text, bytes, &m);
			text[i] = (char)(text[i] ^ 1 << bit);
		}
	assert_true(note_read(text, bytes, &m));
	free(text);
}

static bool is_read(const struct note *n)
{
	size_t bytes = note_bytes(n);
	char *text = malloc(bytes);
	struct note m;
	bool is;

	note_write(n, text);
	is = note_read(text, bytes, &m);
	assert_true(!is || (m.count == n->count && m.stripe_count == n->stripe_count));
	free(text);
	return is;
}

/* A note of all that one may have; of one more of each it is none. */
static void test_limits(void **state)
{
	static const char key[LAYOUT_KEY_BYTES_MAX + 1];
	struct note n = { .version = 1, .number = 1, .stripe_count = NOTE_MAX, .count = NOTE_MAX };

	(void)state;
	for (unsigned i = 0; i < NOTE_MAX; i++)
		n.keys[i] = (struct durable_record){ .key = key, .key_bytes = LAYOUT_KEY_BYTES_MAX, .value = "",
						     .version = LAYOUT_VERSION_MAX };
	assert_true(is_read(&n));
	n.keys[NOTE_MAX - 1].key_bytes++;
	assert_false(is_read(&n));
	n.keys[NOTE_MAX - 1].key_bytes = 0;
	assert_false(is_read(&n));
	n.keys[NOTE_MAX - 1].key_bytes = 1;
	assert_true(is_read(&n));
	n.keys[NOTE_MAX - 1].version++;
	assert_false(is_read(&n));
}

#define STRIPE_COUNT_AT 32 /* in the bytes of a note; that of the keys is behind it */

/* One more than there may be, all of which is there. */
static void test_too_many(void **state)
{
	static char text[4096];
	struct note n = { .version = 1, .number = 1 }, m;
	uint32_t count = htole32(NOTE_MAX + 1);
	size_t head = note_bytes(&n), key;

	(void)state;
	assert_false(is_read(&n)); /* a record without a stripe */
	n.number = 0;
	assert_true(is_read(&n));
	note_write(&n, text);
	memcpy(text + STRIPE_COUNT_AT, &count, sizeof count);
	assert_false(note_read(text, head + (NOTE_MAX + 1) * sizeof count, &m));
	n.count = 1;
	n.keys[0] = (struct durable_record){ .key = "k", .key_bytes = 1, .value = "" };
	note_write(&n, text);
	key = note_bytes(&n) - head;
	for (unsigned i = 1; i <= NOTE_MAX; i++)
		memcpy(text + head + i * key, text + head, key);
	memcpy(text + STRIPE_COUNT_AT + sizeof count, &count, sizeof count);
	assert_false(note_read(text, head + (NOTE_MAX + 1) * key, &m));
	count = htole32(NOTE_MAX);
	memcpy(text + STRIPE_COUNT_AT + sizeof count, &count, sizeof count);
	assert_true(note_read(text, head + NOTE_MAX * key, &m));
	assert_false(note_read(text, head + NOTE_MAX * key + 1, &m));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_note),
		cmocka_unit_test(test_a_note_that_cant_be),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_too_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
