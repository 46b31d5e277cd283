/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/table/show.h"

#include "common/dma.h"
#include "common/hash.h"
#include "server/table/table.h"

static void store(struct layout_lease *to, const struct layout_lease *words)
{
	dma_store_fence();
	__atomic_store_n(&to->reign, words->reign, __ATOMIC_RELEASE);
	__atomic_store_n(&to->a, words->a, __ATOMIC_RELEASE);
	__atomic_store_n(&to->g, words->g, __ATOMIC_RELEASE);
	__atomic_store_n(&to->checksum, words->checksum, __ATOMIC_RELEASE);
	dma_fence();
}

void table_show_lease(struct table *t, uint64_t reign, uint64_t a, uint64_t g)
{
	struct layout_lease words = { .reign = reign, .a = a, .g = g };

	words.checksum = hash_lease(&words);
	store(&t->header->lease, &words);
}

void table_hide_lease(struct table *t)
{
	if (t->header->lease.checksum)
		store(&t->header->lease, &(struct layout_lease){ 0 });
}
