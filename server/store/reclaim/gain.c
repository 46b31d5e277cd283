/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/store/reclaim/gain.h"

/* What a class needs if its slabs are packed, but for half a slab. */
static uint64_t packed_bytes(const struct size_class *c, struct slab_use use)
{
	unsigned slots = size_class_slots(c, c->pages);
	uint64_t tails = use.slots * (c->pages * REGION_PAGE_BYTES - slots * c->slot_bytes) / slots;

	return use.taken * c->slot_bytes + tails + c->pages_first * REGION_PAGE_BYTES / 2;
}

uint64_t gain_of_slabs(struct slabs *s, uint64_t *all)
{
	const struct size_classes *x = slabs_classes(s);
	uint64_t bytes = 0;

	*all = 0;
	for (unsigned i = 0; i < x->count; i++) {
		struct slab_use use = slabs_use(s, i);
		uint64_t packed = packed_bytes(&x->class[i], use);
		*all += use.bytes;
		bytes += use.bytes > packed ? use.bytes - packed : 0;
	}
	return bytes;
}

bool gain_is_worth_it(uint64_t gain, uint64_t all)
{
	return gain > all / 50 + (64u << 10);
}

bool gain_is_torn(const struct table *t)
{
	uint64_t all = t->bytes - t->heap_offset, free = all - region_used_bytes(t->region);

	return gain_is_worth_it(free - region_longest_bytes(t->region), all);
}
