/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rate_limit.h -- how many connections an address may begin: so many a second, and
 * KNOCK_BURST_S seconds' worth at once.  A handshake that fails, or a malformed message,
 * counts as much as 1/KNOCK_FAILURES_PER_S seconds' worth.  The debt is a burst at the
 * most: after KNOCK_BURST_S seconds without another failure an address is let in again.
 *
 * Memory is bounded: addresses share a fixed number of buckets, by a secret hash.
 * Any thread.
 */
#ifndef SERVER_ACCESS_RATE_LIMIT_H
#define SERVER_ACCESS_RATE_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/addr.h"

#define KNOCK_BURST_S 4
#define KNOCK_FAILURES_PER_S 5

struct knock;

/* rate: a second; 0: any number.  After auth_init().  NULL: no memory. */
struct knock *knock_new(int rate);
void knock_delete(struct knock **knock);

/* Whether another connection from this address may begin now: counts it. */
bool knock_may(struct knock *knock, const struct addr *peer, uint64_t now_ns);
/* One from there proved nothing, or sent what no client sends.  Takes NULL. */
void knock_failed(struct knock *knock, const struct addr *peer, uint64_t now_ns);

#endif
