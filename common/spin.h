/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * spin.h -- how long to spin for a completion before sleeping.
 *
 * Follows the waits: spins a little longer than they took lately, as long as that
 * is short; where they are long, spinning gains nothing and takes a core from
 * whoever is awaited.  Owned by one thread.
 */
#ifndef COMMON_SPIN_H
#define COMMON_SPIN_H

#include <stdint.h>

#define SPIN_NS_MIN 5000u
#define SPIN_NS_MAX 600000u

struct spin {
	uint64_t limit_ns;
};

static inline void spin_init(struct spin *spin)
{
	spin->limit_ns = 8 * SPIN_NS_MIN;
}

/* A wait is over that took `waited_ns`, spinning and sleeping. */
static inline void spin_learn(struct spin *spin, uint64_t waited_ns)
{
	uint64_t want = waited_ns >= SPIN_NS_MAX ? 0
		      : waited_ns >= SPIN_NS_MAX / 2 ? SPIN_NS_MAX : 2 * waited_ns;

	spin->limit_ns = (3 * spin->limit_ns + want) / 4;
	if (spin->limit_ns < SPIN_NS_MIN)
		spin->limit_ns = SPIN_NS_MIN;
}

#endif
