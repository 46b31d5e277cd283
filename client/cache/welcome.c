/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/cache/welcome.h"

#include "common/layout.h"

static bool is_power_of_two(uint64_t n)
{
	return n && !(n & (n - 1));
}

static bool lies_within(uint64_t offset, uint64_t bytes, uint64_t table_bytes)
{
	return offset <= table_bytes && bytes <= table_bytes - offset;
}

bool welcome_is_sane(const struct wire_welcome *w)
{
	uint64_t all = w->table_bytes;

	return all >= 4096 && all <= LAYOUT_TABLE_BYTES_MAX && w->table_addr + all > w->table_addr &&
	       is_power_of_two(w->stripes) && w->stripes <= all &&
	       is_power_of_two(w->segment_bytes) && w->segment_bytes >= LAYOUT_BUCKET_BYTES &&
	       w->dir_entries <= WELCOME_DIR_ENTRIES_MAX &&
	       w->dir_entries <= all / w->segment_bytes &&
	       lies_within(w->dir_offset, w->dir_entries * sizeof(uint64_t), all) &&
	       w->workers && w->workers <= LAYOUT_WORKERS_MAX &&
	       lies_within(w->scratch_offset, w->workers * sizeof(struct layout_scratch), all) &&
	       lies_within(w->marks_offset, w->stripes * sizeof(uint32_t), all) && w->credits &&
	       w->hint_shift < 64;
}
