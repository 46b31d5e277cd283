/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/session/prefill.h"

#include "client/op/engine.h"
#include "client/op/operation.h"
#include "client/op/post.h"
#include "client/session/session.h"
#include "client/session/wait.h"

static const struct op_class part_class = { .advance = op_finish };

static int read_part(struct kvd_session *s, uint64_t offset, uint32_t bytes, const uint64_t **words)
{
	struct engine *e = session_engine(s);
	const struct wire_welcome *w = &e->table.welcome;
	void *to = ops_next_memory(e)->item;
	struct op *op = op_new(e, &part_class, NULL, 0);
	const struct outcome *out;

	op_read(op, w->table_addr + offset, w->table_rkey, to, bytes, true);
	*words = to;
	return session_run(s, op, &out);
}

/* Learns where the segments up to `segments` are, which are there by now. */
static int read_directory(struct kvd_session *s, uint64_t segments)
{
	const struct remote_table *t = &session_engine(s)->table;
	const uint64_t *at;

	for (uint64_t i = 0; i < segments;) {
		uint64_t n = segments - i, max = OP_ITEM_BYTES / sizeof *at;
		n = n < max ? n : max;
		int rc = read_part(s, t->welcome.dir_offset + i * sizeof *at,
				   (uint32_t)(n * sizeof *at), &at);
		if (rc)
			return rc;
		for (uint64_t k = 0; k < n; k++, i++)
			table_learn_segment(t, i, at[k]);
	}
	return 0;
}

static int read_buckets(struct kvd_session *s, uint64_t first, uint64_t count, uint64_t offset)
{
	struct mirror *mirror = session_engine(s)->table.mirror;
	const uint64_t *words;
	int rc = read_part(s, offset, (uint32_t)(count * LAYOUT_BUCKET_BYTES), &words);

	for (uint64_t i = 0; !rc && i < count; i++)
		mirror_store(mirror, first + i, words + i * LAYOUT_BUCKET_WORDS);
	return rc;
}

int prefill_mirror(struct kvd_session *s)
{
	const struct remote_table *t = &session_engine(s)->table;
	uint64_t per = table_buckets_per_segment(t);
	uint64_t buckets = atomic_load_explicit(t->buckets, memory_order_relaxed);

	if (buckets > mirror_buckets_max(t->mirror))
		buckets = mirror_buckets_max(t->mirror);
	if ((buckets + per - 1) / per > t->welcome.dir_entries)
		return 0;
	int rc = read_directory(s, (buckets + per - 1) / per);
	for (uint64_t b = 0; !rc && b < buckets;) {
		uint64_t offset = table_bucket_offset(t, b);
		uint64_t n = per - b % per, max = OP_ITEM_BYTES / LAYOUT_BUCKET_BYTES;
		n = n < max ? n : max;
		n = n < buckets - b ? n : buckets - b;
		if (offset)
			rc = read_buckets(s, b, n, offset);
		b += n;
	}
	return rc;
}
