/* SPDX-License-Identifier: BSD-2-Clause */
/* clock.h -- kvd's clock, from its start, in which items expire.  Any thread. */
#ifndef SERVER_STORE_ITEM_CLOCK_H
#define SERVER_STORE_ITEM_CLOCK_H

#include "common/clock.h"
#include "server/store/item/context.h"

/* At clock_ns(). */
static inline uint64_t store_clock_ms_at(const struct store *s, uint64_t now_ns)
{
	/* From 1: an expiry of 0 is none. */
	return (now_ns - s->clock_start_ns) / 1000000 + 1;
}

static inline uint64_t store_clock_ms(const struct store *s)
{
	return store_clock_ms_at(s, clock_ns());
}

#endif
