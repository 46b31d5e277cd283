/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Buckets and items as a client READs them: libkvd's GET, as it is, on a table of which
 * the input says what stands wrong.  Whatever does, it never READs outside the table or
 * to memory that is not its own, it ends, and what it calls a key's value is one that
 * was stored for the key.
 *
 * An input: which key and how; then changes: a place (the start of the table, one of its
 * buckets, an item, a scratch), an offset there, and up to 8 bytes.
 */
#include <stdbool.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "tests/lib/fixture.h"
#include "tests/lib/reader.h"

#define KEYS 64u
#define CHANGES_MAX 64u
#define VALUE_MAX 40000u

static struct fixture fixture;
static uint8_t value[VALUE_MAX], got[VALUE_MAX];

/* Where the table ends for readers: behind the last item, so that a length that makes no
 * sense doesn't cost milliseconds. */
static uint64_t end_bytes;

/* Without a mirror and with one. */
static struct reader *readers[2];

static struct undo {
	uint8_t *at;
	uint8_t was[8];
	unsigned bytes;
} undo[CHANGES_MAX];
static unsigned undo_count;

static size_t length_of(unsigned i)
{
	return i % 4 == 0 ? 8 : i % 4 == 1 ? 100 + i : i % 4 == 2 ? 2000 + i : 20000 + 100 * i;
}

/* The value of a key is its number, again and again. */
static void make(unsigned i)
{
	size_t all = length_of(i);

	for (size_t n = 0; n < all; n += 256)
		memset(value + n, (uint8_t)(i + n / 256), all - n < 256 ? all - n : 256);
}

static size_t key_of(unsigned i, char *key)
{
	return (size_t)sprintf(key, "key-%u", i);
}

/* Where the entry of a key is, and its item. */
static uint64_t *entries[KEYS];
static uint8_t *items[KEYS];

static uint64_t *find_entry(unsigned i, uint8_t **item)
{
	struct table *t = fixture.table;
	uint64_t segments = 0;
	char key[32];
	size_t key_bytes = key_of(i, key);

	*item = NULL;
	for (; segments < t->dir_entries && t->dir[segments]; segments++) {
		uint64_t *words = (uint64_t *)(void *)(t->base + t->dir[segments]);
		for (uint64_t n = 0; n < t->segment_bytes / 8; n++) {
			if (layout_word_is_empty(words[n]) || layout_word_is_chain(words[n]))
				continue;
			struct layout_item *x = (void *)(t->base + layout_word_offset(words[n], t->unit_mask));
			if (layout_word_offset(words[n], t->unit_mask) + sizeof *x + 32 > t->bytes ||
			    layout_key_bytes(x->lengths) != key_bytes ||
			    memcmp(x->data, key, key_bytes) != 0)
				continue;
			*item = (uint8_t *)x;
			return &words[n];
		}
	}
	return NULL;
}

static void start(void)
{
	char key[32];

	fixture_new(&fixture, 16 << 20, 1);
	for (unsigned i = 0; i < KEYS; i++) {
		make(i);
		FUZZ_CHECK(fixture_put(&fixture.worker[0], key, key_of(i, key), value, length_of(i), 0,
				       NULL) == WIRE_OK);
	}
	for (unsigned i = 0; i < KEYS; i++) {
		FUZZ_CHECK((entries[i] = find_entry(i, &items[i])) != NULL);
		uint64_t end = table_offset(fixture.table, items[i]) + VALUE_MAX;
		end_bytes = end > end_bytes ? end : end_bytes;
	}
	for (uint64_t n = 0; n < fixture.table->dir_entries && fixture.table->dir[n]; n++) {
		uint64_t end = fixture.table->dir[n] + fixture.table->segment_bytes;
		end_bytes = end > end_bytes ? end : end_bytes;
	}
	FUZZ_CHECK(end_bytes <= fixture.table->bytes);
	for (unsigned i = 0; i < 2; i++) {
		readers[i] = reader_new(fixture.table, i ? 1 << 14 : 0, 0);
		reader_hurry(readers[i], end_bytes);
	}
}

static void change(uint8_t *at, const uint8_t *end, struct fuzz_input *in)
{
	struct undo *u = &undo[undo_count];
	unsigned n = 1 + (unsigned)fuzz_take(in, 1) % 8;

	if (undo_count == CHANGES_MAX || at + n > end)
		return;
	undo_count++;
	*u = (struct undo){ .at = at, .bytes = n };
	memcpy(u->was, at, n);
	for (unsigned i = 0; i < n; i++)
		at[i] = (uint8_t)fuzz_take(in, 1);
}

static void change_some(struct fuzz_input *in, unsigned key)
{
	struct table *t = fixture.table;
	uint8_t *end = t->base + t->bytes;

	while (in->left > 2 && undo_count < CHANGES_MAX) {
		unsigned place = (unsigned)fuzz_take(in, 1);
		unsigned offset = (unsigned)fuzz_take(in, 1);
		unsigned which = place & 0x80 ? place % KEYS : key;
		uint8_t *entry = (uint8_t *)entries[which];
		uint8_t *bucket = entry - (uintptr_t)entry % LAYOUT_BUCKET_BYTES;
		uint8_t *at = items[which] + offset;
		if (place % 8 == 2)
			at = entry;
		else if (place % 4 == 0)
			at = t->base + offset;
		else if (place % 4 == 1)
			at = bucket + offset % LAYOUT_BUCKET_BYTES;
		else if (place % 4 == 3)
			at = (uint8_t *)t->scratch + offset % 128 * 8;
		change(at, end, in);
	}
}

static void restore(void)
{
	while (undo_count) {
		struct undo *u = &undo[--undo_count];
		memcpy(u->at, u->was, u->bytes);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct fuzz_input in = { data, bytes };
	struct reader_result r;
	char name[32];

	if (!fixture.table)
		start();
	unsigned key = (unsigned)fuzz_take(&in, 1) % KEYS, how = (unsigned)fuzz_take(&in, 1);
	size_t name_bytes = key_of(key, name);
	struct reader *reader = readers[how & 1];
	reader_restart(reader);
	size_t room = how & 2 ? length_of(key) : how & 4 ? 50 : VALUE_MAX;

	if (how & 8) /* what it knows was right once */
		reader_get(reader, name, name_bytes, got, sizeof got);
	change_some(&in, key);
	r = how & 16 ? reader_get(reader, name, name_bytes, NULL, 0)
		     : reader_get(reader, name, name_bytes, got, room);
	make(key);
	if (r.result == KVD_OK)
		FUZZ_CHECK(r.value_bytes == length_of(key) &&
			   memcmp(r.value, value, r.value_bytes) == 0);
	restore();
	return 0;
}
