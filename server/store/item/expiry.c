/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/store/item/expiry.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

struct expiry {
	_Atomic uint64_t keys;
	_Atomic uint64_t earliest_ms; /* of all keys; UINT64_MAX: none has one */
	_Atomic uint64_t next_ms;     /* of those that the walk has met, and that came since */
};

int expiry_new(struct expiry **expiry)
{
	struct expiry *x = calloc(1, sizeof *x);

	if (!x)
		return ENOMEM;
	atomic_init(&x->earliest_ms, UINT64_MAX);
	atomic_init(&x->next_ms, UINT64_MAX);
	*expiry = x;
	return 0;
}

void expiry_delete(struct expiry **expiry)
{
	free(*expiry);
	*expiry = NULL;
}

static void lower(_Atomic uint64_t *bound, uint64_t ms)
{
	uint64_t now = atomic_load(bound);

	while (now > ms && !atomic_compare_exchange_weak(bound, &now, ms))
		;
}

void expiry_note(struct expiry *x, uint64_t old_ms, uint64_t new_ms)
{
	if (!old_ms && !new_ms)
		return;
	if (!old_ms != !new_ms)
		atomic_fetch_add_explicit(&x->keys, new_ms ? 1 : ~0ull, memory_order_relaxed);
	if (!new_ms)
		return;
	/* In this order, for expiry_walked(). */
	lower(&x->next_ms, new_ms);
	lower(&x->earliest_ms, new_ms);
}

bool expiry_has_any(const struct expiry *x)
{
	return atomic_load_explicit(&x->earliest_ms, memory_order_relaxed) != UINT64_MAX;
}

bool expiry_is_due(const struct expiry *x, uint64_t now_ms)
{
	uint64_t earliest = atomic_load_explicit(&x->earliest_ms, memory_order_relaxed);

	return earliest != UINT64_MAX && earliest <= now_ms;
}

void expiry_seen(struct expiry *x, uint64_t ms)
{
	lower(&x->next_ms, ms);
}

/*
 * A note that lowered next_ms before the second look is in it; one that did so after it
 * lowers earliest_ms after the store.
 */
void expiry_walked(struct expiry *x)
{
	atomic_store(&x->earliest_ms, atomic_exchange(&x->next_ms, UINT64_MAX));
	lower(&x->earliest_ms, atomic_load(&x->next_ms));
}

uint64_t expiry_keys(const struct expiry *x)
{
	return atomic_load_explicit(&x->keys, memory_order_relaxed);
}
