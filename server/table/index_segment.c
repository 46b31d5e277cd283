/* SPDX-License-Identifier: BSD-2-Clause */
/* Segments of buckets: allocated as the index grows, never given back. */
#include "common/dma.h"
#include "server/table/index_segment.h"

#include <string.h>

bool index_ensure_segment(struct index *x, uint64_t bucket)
{
	struct table *t = x->table;
	uint64_t per = t->segment_bytes / LAYOUT_BUCKET_BYTES, i = bucket / per;

	if (i >= t->dir_entries)
		return false;
	if (atomic_load_explicit(&t->dir[i], memory_order_relaxed))
		return true;
	uint8_t *segment = region_alloc(t->region, t->segment_bytes, REGION_PAGE_BYTES);
	if (!segment)
		return false;
	memset(segment, 0, t->segment_bytes);
	dma_store_fence();
	atomic_store_explicit(&t->dir[i], table_offset(t, segment), memory_order_release);
	return true;
}
