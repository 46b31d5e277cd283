/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * promise.h -- that a member will not serve for L (doc/cluster.md, 9).
 *
 * The thread that answers heartbeats owns it, and looks at the seal before it promises.
 */
#ifndef SERVER_CLUSTER_LEASE_PROMISE_H
#define SERVER_CLUSTER_LEASE_PROMISE_H

#include "common/lease.h"

struct promise {
	uint64_t until_ns;
};

/* now_ns: taken after the heartbeat came, or at the member's start; before the answer leaves. */
static inline void promise_make(struct promise *p, uint64_t now_ns)
{
	p->until_ns = now_ns + LEASE_NS;
}

static inline bool promise_is_over(const struct promise *p, uint64_t now_ns)
{
	return now_ns >= p->until_ns;
}

#endif
