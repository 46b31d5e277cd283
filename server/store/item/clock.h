/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * clock.h -- kvd's clock, from its start, in which items expire.  Any thread.
 *
 * It goes on while the machine is suspended, as a time to live does.  CLOCK_MONOTONIC stands
 * still then; so how long that was is looked at now and again, and added.
 */
#ifndef SERVER_STORE_ITEM_CLOCK_H
#define SERVER_STORE_ITEM_CLOCK_H

#include <stdatomic.h>

#include "common/clock.h"
#include "server/store/item/context.h"

/* At clock_ns(). */
static inline uint64_t store_clock_ms_at(const struct store *s, uint64_t now_ns)
{
	/* From 1: an expiry of 0 is none. */
	return (now_ns + atomic_load_explicit(&s->slept_ns, memory_order_relaxed) -
		s->clock_start_ns) / 1000000 + 1;
}

static inline uint64_t store_clock_ms(const struct store *s)
{
	return store_clock_ms_at(s, clock_ns());
}

/* Before its first use.  How long the machine was suspended until now is no part of it. */
static inline void store_clock_start(struct store *s)
{
	uint64_t most = 0;

	/* The best of a few looks, so that no later one finds more. */
	for (unsigned i = 0; i < 8; i++) {
		uint64_t boot_ns = clock_read_ns(CLOCK_BOOTTIME);
		uint64_t slept = clock_slept_ns(boot_ns, clock_ns());
		most = slept > most ? slept : most;
	}
	atomic_store_explicit(&s->slept_ns, most, memory_order_relaxed);
	s->clock_start_ns = clock_ns() + most;
}

/* The machine may have been suspended: CLOCK_BOOTTIME, read before clock_ns(). */
static inline void store_clock_woke(struct store *s, uint64_t boot_ns, uint64_t now_ns)
{
	uint64_t slept = clock_slept_ns(boot_ns, now_ns);

	/* One thread does this: it only grows, so the clock never goes back. */
	if (slept > atomic_load_explicit(&s->slept_ns, memory_order_relaxed))
		atomic_store_explicit(&s->slept_ns, slept, memory_order_relaxed);
}

#endif
