/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/cache/table.h"

void table_learn_buckets(const struct remote_table *t, uint64_t buckets)
{
	uint64_t known = atomic_load_explicit(t->buckets, memory_order_relaxed);

	while (known < buckets &&
	       !atomic_compare_exchange_weak_explicit(t->buckets, &known, buckets,
						      memory_order_relaxed, memory_order_relaxed))
		;
}

void table_learn_segment(const struct remote_table *t, uint64_t segment, uint64_t offset)
{
	if (offset && offset + t->welcome.segment_bytes <= t->welcome.table_bytes)
		atomic_store_explicit(&t->directory->offset[segment], offset, memory_order_relaxed);
}

uint64_t table_bucket_offset(const struct remote_table *t, uint64_t bucket)
{
	uint64_t per = table_buckets_per_segment(t);
	uint64_t segment =
		atomic_load_explicit(&t->directory->offset[bucket / per], memory_order_relaxed);

	return segment ? segment + bucket % per * LAYOUT_BUCKET_BYTES : 0;
}
