/* SPDX-License-Identifier: BSD-2-Clause */
/* attributes.h -- what a request says of the value that it stores, beside its bytes. */
#ifndef SERVER_WORKER_REQUEST_ATTRIBUTES_H
#define SERVER_WORKER_REQUEST_ATTRIBUTES_H

#include "common/clock.h"
#include "common/wire.h"
#include "server/store/item/clock.h"

/* When it expires, in kvd's clock.  A Unix time is told by this machine's clock as it is now. */
static inline uint64_t request_expiry_ms(const struct store *s, const struct wire_request *q)
{
	uint64_t left = q->ttl_ms;

	if (q->flags & WIRE_UNIX) {
		uint64_t now = clock_read_ns(CLOCK_REALTIME) / 1000000;
		if (left <= now)
			return 1; /* the clock's first millisecond: over */
		left -= now;
		if (left > WIRE_TTL_MS_MAX)
			left = WIRE_TTL_MS_MAX;
	}
	return left ? store_clock_ms(s) + left : 0;
}

static inline struct layout_attributes request_attributes(const struct store *s,
							  const struct wire_request *q)
{
	return (struct layout_attributes){
		.expiry_ms = request_expiry_ms(s, q),
		.flags = q->item_flags,
		.signs = (q->flags & WIRE_STALE ? LAYOUT_STALE : 0) |
			 (q->flags & WIRE_CLAIMED ? LAYOUT_CLAIMED : 0),
	};
}

#endif
