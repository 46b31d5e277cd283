/* SPDX-License-Identifier: BSD-2-Clause */
/* server/cluster/link/message.h: what is written is read, and what is not a message is not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "server/cluster/link/message.h"

#define ROUNDS 200000u

static union {
	uint8_t bytes[LINK_BYTES_MAX];
	uint64_t aligned;
} memory;
static struct link_writer w;
static struct link_reader r;
static const char *why;

static void begin(enum link_kind kind)
{
	link_begin(&w, &memory, kind, 7, 0xa1, 0xb2, 9);
}

static void open_it(void)
{
	assert_int_equal(link_open(&r, &memory, link_length(&w), &why), 0);
	assert_null(why);
	assert_int_equal(r.header->epoch, 7);
	assert_int_equal(r.header->from, 0xa1);
	assert_int_equal(r.header->to, 0xb2);
	assert_int_equal(r.header->number, 9);
}

static void test_small_ones(void **state)
{
	(void)state;
	begin(LINK_HEARTBEAT);
	link_put_pulse(&w, &(struct link_pulse){ 5, 6 });
	open_it();
	assert_int_equal(link_next_pulse(&r)->clock_ms, 6);
	assert_null(link_next_pulse(&r));
	assert_int_equal(r.left, 0);
	begin(LINK_BEGUN);
	open_it();
	assert_int_equal(r.left, 0);
	begin(LINK_BEGIN);
	link_put_entry(&w, &(struct link_entry){ 1, 2, 3, 4 });
	link_put_entry(&w, &(struct link_entry){ 5, 6, 7, 8 });
	open_it();
	assert_int_equal(link_next_entry(&r)->fate, 2);
	assert_int_equal(link_next_entry(&r)->reign, 8);
	assert_null(link_next_entry(&r));
}

/* As many as there are, and no more. */
static void test_full(void **state)
{
	unsigned count = 0;

	(void)state;
	begin(LINK_ACKS);
	for (uint64_t i = 0; i < 2 * LINK_COUNT_MAX; i++)
		link_put_number(&w, i);
	assert_true(w.is_full);
	open_it();
	for (const uint64_t *n; (n = link_next_number(&r)); count++)
		assert_int_equal(*n, count);
	assert_int_equal(count, LINK_COUNT_MAX);
	assert_int_equal(r.left, 0);
}

static void put_record(uint64_t number, unsigned items, uint32_t value_bytes)
{
	static const uint32_t stripes[3] = { 4, 5, 6 };
	static uint8_t value[LINK_BYTES_MAX];

	memset(value, 'v', sizeof value);
	link_begin_record(&w, 0, number, number + 100, stripes, 3);
	for (unsigned i = 0; i < items; i++)
		link_put_item(&w, &(struct link_item){ .key_bytes = 3, .value_bytes = value_bytes,
			      .version = number + i }, "key", value);
}

static void test_records(void **state)
{
	struct link_reader_record record;
	const uint8_t *key, *value;
	const struct link_item *item;

	(void)state;
	begin(LINK_RECORDS);
	put_record(1, 2, 5);
	assert_int_equal(link_end_record(&w), 0);
	put_record(2, 1, 0);
	assert_int_equal(link_end_record(&w), 0);
	put_record(3, 4, 10000); /* no room for the last */
	assert_int_equal(link_end_record(&w), -1);
	open_it();
	assert_int_equal(r.left, 2);
	assert_true(link_next_record(&r, &record));
	assert_int_equal(record.record->version, 101);
	assert_int_equal(record.stripes[2], 6);
	item = link_next_item(&record, &key, &value);
	assert_memory_equal(key, "key", 3);
	assert_memory_equal(value, "vvvvv", 5);
	item = link_next_item(&record, &key, &value);
	assert_int_equal(item->version, 2);
	assert_null(link_next_item(&record, &key, &value));
	assert_true(link_next_record(&r, &record));
	assert_int_equal(record.record->items, 1);
	assert_false(link_next_record(&r, &record));
	assert_int_equal(r.left, 0);
}

/* All that can be read of it, byte by byte: a sanitizer tells what is beside it. */
static unsigned read_all(const void *bytes, size_t length)
{
	struct link_reader_record record;
	const uint8_t *key, *value;
	const struct link_item *item;
	unsigned sum = 0;

	if (link_open(&r, bytes, length, &why)) {
		assert_non_null(why);
		return 0;
	}
	for (struct link_reader again = r; link_next_entry(&again);)
		sum++;
	for (struct link_reader again = r; link_next_number(&again);)
		sum++;
	while (link_next_record(&r, &record)) {
		for (unsigned i = 0; i < record.record->stripes; i++)
			sum += record.stripes[i];
		while ((item = link_next_item(&record, &key, &value))) {
			for (unsigned i = 0; i < item->key_bytes; i++)
				sum += key[i];
			for (unsigned i = 0; i < item->value_bytes; i++)
				sum += value[i];
		}
	}
	return sum;
}

static void test_damaged(void **state)
{
	unsigned sum = 0;

	(void)state;
	srandom(1);
	begin(LINK_RECORDS);
	put_record(1, 2, 5);
	link_end_record(&w);
	put_record(2, 3, 40);
	link_end_record(&w);
	size_t length = link_length(&w);
	for (unsigned i = 0; i < ROUNDS; i++) {
		size_t cut = random() % 8 ? length : (size_t)random() % length;
		uint8_t *copy = malloc(cut + 1);

		assert_non_null(copy);
		memcpy(copy, &memory, cut);
		for (unsigned n = (unsigned)random() % 4; n && cut; n--)
			copy[(size_t)random() % cut] = (uint8_t)(random() % 3 ? random() : 0);
		sum += read_all(copy, cut);
		free(copy);
	}
	assert_true(sum);
}

static void test_not_messages(void **state)
{
	(void)state;
	begin(LINK_ACKS);
	link_put_number(&w, 1);
	size_t length = link_length(&w);
	assert_int_equal(link_open(&r, &memory, length - 1, &why), -1);
	assert_int_equal(link_open(&r, &memory, 0, &why), -1);
	assert_int_equal(link_open(&r, memory.bytes + 1, length, &why), -1);
	w.header->kind = LINK_KINDS;
	assert_int_equal(link_open(&r, &memory, length, &why), -1);
	w.header->kind = 0;
	assert_int_equal(link_open(&r, &memory, length, &why), -1);
	assert_non_null(why);
}

/* A record of that many stripes with one item of a key of 3 bytes. */
static void begin_one(uint16_t stripes)
{
	static const uint32_t all[LINK_STRIPES_MAX + 1];

	begin(LINK_RECORDS);
	link_begin_record(&w, LINK_COPY, 1, 2, all, stripes);
}

static void put_one(uint32_t value_bytes, uint16_t flags)
{
	static const uint8_t value[LINK_BYTES_MAX];

	link_put_item(&w, &(struct link_item){ .key_bytes = 3, .value_bytes = value_bytes, .flags = flags },
		      "key", value);
}

static bool is_record(void)
{
	struct link_reader_record record;

	open_it();
	return link_next_record(&r, &record);
}

/* A message is filled to its last byte; what has one byte more leaves it as it was. */
static void test_to_the_last_byte(void **state)
{
	const uint32_t most = LINK_BYTES_MAX - sizeof(struct link_header) - sizeof(struct link_record) - 8 -
			      sizeof(struct link_item) - 3;

	(void)state;
	begin_one(1);
	put_one(most, 0);
	assert_int_equal(link_end_record(&w), 0);
	assert_int_equal(link_length(&w), LINK_BYTES_MAX);
	assert_true(is_record());
	begin_one(1);
	put_one(most + 1, 0);
	assert_int_equal(link_end_record(&w), -1);
	assert_int_equal(link_length(&w), sizeof(struct link_header));
	open_it();
	assert_int_equal(r.left, 0);
	/* It stands behind one that had room, and is taken back to there. */
	begin_one(1);
	put_one(1, 0);
	assert_int_equal(link_end_record(&w), 0);
	uint32_t length = link_length(&w);
	link_begin_record(&w, 0, 2, 3, (const uint32_t[]){ 1 }, 1);
	put_one(8, 0);
	put_one(most, 0);
	assert_int_equal(link_end_record(&w), -1);
	assert_int_equal(link_length(&w), length);
	assert_true(is_record());
	/* A length that wraps around as it is padded is no short one. */
	begin_one(1);
	put_one(UINT32_MAX - 34, 0);
	assert_true(w.is_full);
	assert_int_equal(link_end_record(&w), -1);
}

/* What the memory had before is nobody else's: none of it leaves in the padding. */
static void test_padding(void **state)
{
	static const uint8_t zero[7];

	(void)state;
	memset(&memory, 0xee, sizeof memory);
	begin_one(1);
	assert_memory_equal(memory.bytes + w.length - 4, zero, 4);
	put_one(6, 0);
	assert_memory_equal(memory.bytes + w.length - 7, zero, 7);
	assert_int_equal(link_end_record(&w), 0);
	open_it();
	assert_int_equal(((const struct link_record *)(const void *)r.at)->flags, LINK_COPY);
}

/* A record whose parts don't agree is none, however whole its bytes are. */
static void test_not_records(void **state)
{
	(void)state;
	begin_one(LINK_STRIPES_MAX);
	assert_int_equal(link_end_record(&w), 0); /* no items: a record nevertheless */
	assert_true(is_record());
	begin_one(LINK_STRIPES_MAX + 1);
	assert_int_equal(link_end_record(&w), 0);
	assert_false(is_record());
	begin_one(0);
	assert_int_equal(link_end_record(&w), 0);
	assert_false(is_record());
	begin_one(1);
	assert_int_equal(link_end_record(&w), 0);
	w.record->bytes -= 8; /* its stripes are not in it */
	assert_false(is_record());
	begin_one(1);
	put_one(1, 0);
	put_one(1, 0);
	assert_int_equal(link_end_record(&w), 0);
	w.record->items--; /* more bytes than items */
	assert_false(is_record());
	w.record->items += 2;
	assert_false(is_record());
	w.record->items--;
	assert_true(is_record());
}

static void test_not_items(void **state)
{
	static const struct { uint32_t value_bytes; uint16_t flags; bool is_good; } all[] = {
		{ 0, LINK_DELETED, true }, { 1, LINK_DELETED, false },
		{ sizeof(struct link_place), LINK_PLACE, true },
		{ sizeof(struct link_place) - 1, LINK_PLACE, false },
		{ sizeof(struct link_place) + 1, LINK_PLACE, false }, { 0, LINK_PLACE, false },
	};

	(void)state;
	for (unsigned i = 0; i < sizeof all / sizeof all[0]; i++) {
		begin_one(1);
		put_one(all[i].value_bytes, all[i].flags);
		assert_int_equal(link_end_record(&w), 0);
		assert_int_equal(is_record(), all[i].is_good);
	}
}

/* The bounds of a header; nothing behind it is looked at. */
static void test_headers(void **state)
{
	(void)state;
	begin(LINK_ACKS);
	w.header->bytes = LINK_BYTES_MAX - sizeof *w.header;
	w.header->count = LINK_COUNT_MAX;
	assert_int_equal(link_open(&r, &memory, LINK_BYTES_MAX, &why), 0);
	w.header->count++;
	assert_int_equal(link_open(&r, &memory, LINK_BYTES_MAX, &why), -1);
	assert_string_equal(why, "it has another length than it says");
	w.header->count = 1;
	w.header->bytes++;
	assert_int_equal(link_open(&r, &memory, LINK_BYTES_MAX + 1, &why), -1);
	assert_string_equal(why, "it is shorter than a header, longer than a message may be, or not aligned");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_small_ones),
		cmocka_unit_test(test_full),
		cmocka_unit_test(test_records),
		cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_not_messages),
		cmocka_unit_test(test_to_the_last_byte),
		cmocka_unit_test(test_padding),
		cmocka_unit_test(test_not_records),
		cmocka_unit_test(test_not_items),
		cmocka_unit_test(test_headers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
