/* SPDX-License-Identifier: BSD-2-Clause */
/* stripe.h -- a stripe's lock word, and its mark, which is the workers' mutex. */
#ifndef SERVER_STORE_ITEM_STRIPE_H
#define SERVER_STORE_ITEM_STRIPE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "common/dma.h"
#include "server/store/item/context.h"

/* Who holds a stripe: its token, or 0.  Acquire. */
static inline uint64_t stripe_word(const struct store *s, uint64_t stripe)
{
	return atomic_load_explicit(&s->table->locks[stripe], memory_order_acquire) &
	       ~LAYOUT_LOCK_WAIT;
}

/*
 * False: another worker has the mark.  The exchange is a full fence towards lock holders,
 * whose compare-and-swap comes before their READ: one of the two sees the other.
 */
static inline bool stripe_mark(const struct store *s, uint64_t stripe)
{
	return !atomic_exchange_explicit(&s->table->marks[stripe], 1, memory_order_seq_cst);
}

static inline void stripe_unmark(const struct store *s, uint64_t stripe)
{
	dma_store_fence();
	/* Release: pairs with the exchange in stripe_mark(). */
	atomic_store_explicit(&s->table->marks[stripe], 0, memory_order_release);
}

#endif
