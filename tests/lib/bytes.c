/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/bytes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "client/get/item.h"
#include "client/get/lookup.h"
#include "client/get/pending.h"

#define MARKS_AT 4096u
#define SCRATCH_AT 8192u
#define DIR_AT (SCRATCH_AT + BYTES_WORKERS * sizeof(struct layout_scratch))
#define SEGMENTS_AT 32768u

struct bytes *bytes_new(void)
{
	struct bytes *b = calloc(1, sizeof *b);

	assert_non_null(b);
	b->base = calloc(1, BYTES_ALL);
	assert_non_null(b->base);
	for (unsigned i = 0; i < BYTES_SEGMENTS; i++)
		((uint64_t *)(void *)(b->base + DIR_AT))[i] = SEGMENTS_AT + i * BYTES_SEGMENT;
	b->buckets = LAYOUT_BUCKETS_MIN;
	b->table = (struct remote_table){
		.welcome = { .table_bytes = LAYOUT_TABLE_BYTES_MAX,
			     .stripes = BYTES_STRIPES,
			     .marks_offset = MARKS_AT,
			     .scratch_offset = SCRATCH_AT,
			     .workers = BYTES_WORKERS,
			     .dir_offset = DIR_AT,
			     .dir_entries = BYTES_SEGMENTS,
			     .segment_bytes = BYTES_SEGMENT,
			     .hash_seed = 1 },
		.unit_mask = layout_unit_mask(LAYOUT_TABLE_BYTES_MAX),
		.directory = directory_new(1, BYTES_SEGMENTS),
		.mirror = mirror_new(1 << 20),
		.buckets = &b->buckets,
	};
	assert_non_null(b->table.directory);
	return b;
}

void bytes_delete(struct bytes *b)
{
	directory_leave(&b->table.directory);
	mirror_delete(b->table.mirror);
	free(b->base);
	free(b);
}

struct get *bytes_get(struct bytes *b, const char *key, size_t room)
{
	assert_true(strlen(key) <= BYTES_KEY && room <= BYTES_ROOM);
	memcpy(b->key, key, strlen(key));
	pieces_set(&b->value, &(struct iovec){ b->room, room }, 1);
	b->get = (struct get){ .table = &b->table,
			       .memory = &b->memory,
			       .value = &b->value,
			       .key = b->key,
			       .counters = &b->counters,
			       .key_bytes = (uint32_t)strlen(key),
			       .hash = hash_key(b->table.welcome.hash_seed, key, strlen(key)) };
	lookup_locate(&b->get);
	return &b->get;
}

static size_t fill(struct layout_item *to, const struct bytes_item *item)
{
	size_t key_bytes = strlen(item->key), text = item->value ? strlen(item->value) : 1;

	to->state = layout_state(item->version, item->kind, item->worker);
	to->lengths = layout_lengths(item->value_bytes, (unsigned)key_bytes);
	to->expiry = item->expiry_ms;
	memcpy(to->data, item->key, key_bytes);
	for (size_t i = 0; i < item->value_bytes; i++)
		to->data[key_bytes + i] = item->value ? (uint8_t)item->value[i % text] : 0;
	size_t bytes = layout_item_bytes(key_bytes, item->value_bytes);
	to->checksum = hash_item(to, bytes, item->version, item->unit * LAYOUT_UNIT_BYTES);
	return bytes;
}

uint64_t bytes_item(struct bytes *b, const struct bytes_item *item)
{
	uint64_t at = item->unit * LAYOUT_UNIT_BYTES;
	struct hash h = hash_key(b->table.welcome.hash_seed, item->key, strlen(item->key));

	assert_true(at >= SEGMENTS_AT + BYTES_SEGMENTS * BYTES_SEGMENT &&
		    at + layout_item_bytes(64, item->value_bytes) <= BYTES_ALL);
	size_t bytes = fill((struct layout_item *)(void *)(b->base + at), item);
	return layout_word(item->unit, layout_len_encode(bytes),
			   layout_fp(h.a, b->table.unit_mask));
}

struct layout_scratch *bytes_scratch(const struct bytes *b, unsigned worker)
{
	return (struct layout_scratch *)(void *)(b->base + SCRATCH_AT) + worker;
}

void bytes_old_item(struct bytes *b, const struct bytes_item *item)
{
	assert_true(layout_item_bytes(strlen(item->key), item->value_bytes) <=
		    LAYOUT_INPLACE_BYTES_MAX);
	fill((struct layout_item *)(void *)bytes_scratch(b, item->worker)->item, item);
}

uint64_t *bytes_bucket(const struct bytes *b, uint64_t bucket)
{
	uint64_t *all = (uint64_t *)(void *)(b->base + SEGMENTS_AT);

	assert_true(bucket < BYTES_SEGMENTS * BYTES_SEGMENT / LAYOUT_BUCKET_BYTES);
	return all + bucket * LAYOUT_BUCKET_WORDS;
}

void bytes_enter(struct bytes *b, uint64_t bucket, unsigned slot, uint64_t word)
{
	uint64_t *at = bytes_bucket(b, bucket) + slot;

	*at = (*at & LAYOUT_EPOCH_MASK) | (word & ~LAYOUT_EPOCH_MASK);
}

void bytes_epoch(struct bytes *b, uint64_t bucket, unsigned epoch, unsigned slots)
{
	uint64_t *words = bytes_bucket(b, bucket);

	for (unsigned i = 0; i < slots; i++)
		words[i] = (words[i] & ~LAYOUT_EPOCH_MASK) | layout_epoch_bits(epoch, i);
}

static const uint8_t *at(const struct bytes *b, uint64_t offset, uint64_t bytes)
{
	assert_true(bytes <= BYTES_ALL && offset <= BYTES_ALL - bytes);
	return b->base + offset;
}

/* A value that is READ into the caller's memory begins behind the key. */
static void read_item(struct bytes *b)
{
	struct get *g = &b->get;
	uint64_t head = g->direct ? get_head_bytes(g) : g->length;
	const uint8_t *from = at(b, get_offset(g, g->word), g->length);

	memcpy(b->memory.item, from, head);
	if (g->direct)
		pieces_scatter(&b->value, from + head, g->length - head);
}

void bytes_read(struct bytes *b, enum step step)
{
	struct get *g = &b->get;

	g->step = step;
	if (step_reads_item(step)) {
		assert_true(item_plan(g));
		if (g->length > OP_ITEM_BYTES)
			item_plan_direct(g);
		read_item(b);
		return;
	}
	if (step == READ_UPDATING || step == READ_PREPARED || step == READ_TXN)
		assert_true(pending_plan(g, step));
	assert_in_range(step, READ_DIRECTORY, READ_TXN);
	assert_in_range(g->reads.count, 1, READS_MAX);
	for (unsigned i = 0; i < g->reads.count; i++)
		memcpy(g->reads.part[i].to, at(b, g->reads.part[i].offset, g->reads.part[i].bytes),
		       g->reads.part[i].bytes);
	g->reads.count = 0;
}

void bytes_find_key(char *key, const char *begin, bool (*is)(struct hash hash, const void *arg),
		    const void *arg)
{
	for (unsigned i = 0; i < 100000000; i++) {
		snprintf(key, BYTES_KEY, "%s%u", begin, i);
		if (is(hash_key(1, key, strlen(key)), arg))
			return;
	}
	fail_msg("no such key");
}

bool bytes_has_fp(struct hash hash, const void *fp)
{
	return layout_fp(hash.a, layout_unit_mask(LAYOUT_TABLE_BYTES_MAX)) == *(const uint64_t *)fp;
}
