/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lease.h -- since when others have waited for what a connection holds.
 *
 * A lease is that of a token, on its stripe.  It begins with the first wait for it, once the
 * holder's memory said that it holds it.  It goes on while nobody waits: who gives up and
 * asks again does not give the holder more time.  It ends with the token.
 *
 * The locker's thread calls what is here.
 */
#ifndef SERVER_LOCK_LEASE_H
#define SERVER_LOCK_LEASE_H

#include <stdint.h>

struct holder;
struct lockwords;

/* The holder says that it holds the stripe, for which somebody has waited since then: when
 * its lease began.  No memory, or LAYOUT_HELD_MAX others: since_ns. */
uint64_t lease_since(const struct lockwords *words, struct holder *holder, uint64_t stripe,
		     uint64_t token, uint64_t since_ns);

#endif
