/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The index, READ into the mirror ahead of the first GET: the directory, then each
 * segment, in READs as large as an operation's memory.  What changes meanwhile is a
 * hint gone stale, as any that the mirror has.
 */
#include "client/op/session.h"

static void done(struct op *op)
{
	op_done(op, KVD_OK);
}

static const struct op_class part_class = { .advance = done };

static int read_part(struct kvd_session *s, uint64_t offset, uint32_t bytes,
		     const uint64_t **words)
{
	struct op *op = op_new(s, &part_class, NULL, 0);

	op->phase = PHASE_READS;
	op_read(op, s->table.welcome.table_addr + offset, s->table.welcome.table_rkey, op->memory->item, bytes,
		true);
	*words = (const uint64_t *)op->memory->item;
	return session_run(op);
}

/* Learns where the segments up to `segments` are, which are there by now. */
static int read_directory(struct kvd_session *s, uint64_t segments)
{
	const struct wire_welcome *w = &s->table.welcome;
	const uint64_t *at;

	for (uint64_t i = 0; i < segments;) {
		uint64_t n = segments - i, max = OP_ITEM_BYTES / sizeof *at;
		n = n < max ? n : max;
		int rc = read_part(s, w->dir_offset + i * sizeof *at, (uint32_t)(n * sizeof *at), &at);
		if (rc)
			return rc;
		for (uint64_t k = 0; k < n; k++, i++)
			table_learn_segment(&s->table, i, at[k]);
	}
	return 0;
}

static int read_buckets(struct kvd_session *s, uint64_t first, uint64_t count, uint64_t offset)
{
	const uint64_t *words;
	int rc = read_part(s, offset, (uint32_t)(count * LAYOUT_BUCKET_BYTES), &words);

	for (uint64_t i = 0; !rc && i < count; i++)
		mirror_store(s->table.mirror, first + i, words + i * LAYOUT_BUCKET_WORDS);
	return rc;
}

int ahead_read(struct kvd_session *s)
{
	uint64_t per = table_buckets_per_segment(&s->table);
	uint64_t buckets = atomic_load_explicit(s->table.buckets, memory_order_relaxed);

	if (buckets > mirror_buckets_max(s->table.mirror))
		buckets = mirror_buckets_max(s->table.mirror);
	if ((buckets + per - 1) / per > s->table.welcome.dir_entries)
		return 0;
	int rc = read_directory(s, (buckets + per - 1) / per);
	for (uint64_t b = 0; !rc && b < buckets;) {
		uint64_t offset = table_bucket_offset(&s->table, b);
		uint64_t n = per - b % per, max = OP_ITEM_BYTES / LAYOUT_BUCKET_BYTES;
		n = n < max ? n : max;
		n = n < buckets - b ? n : buckets - b;
		if (offset)
			rc = read_buckets(s, b, n, offset);
		b += n;
	}
	return rc;
}
