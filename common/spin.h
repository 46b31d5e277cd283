/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * spin.h -- how long to spin for a completion before sleeping.
 *
 * The limit follows the waits: a thread spins a little longer than they took lately, as long
 * as that is short.  Where waits are long, spinning gains nothing, and takes a core from the
 * thread that is awaited.  A thread that loses its core while it spins shares it with
 * others, and sleeps at once for a while.  The kernel runs a sleeper as soon as its event
 * comes; a thread that spun its time slice away runs only after the others' slices.
 * Owned by one thread.
 */
#ifndef COMMON_SPIN_H
#define COMMON_SPIN_H

#include <stdbool.h>
#include <stdint.h>

#define SPIN_NS_MIN 5000u
#define SPIN_NS_MAX 600000u
#define SPIN_GAP_NS 100000u       /* between two looks: the core was another's */
#define SPIN_CROWDED_NS 20000000u /* two of them so near mean as long a time without spinning */

struct spin {
	uint64_t limit_ns, looked_ns, gap_ns, crowded_until_ns;
};

static inline void spin_init(struct spin *spin)
{
	*spin = (struct spin){ .limit_ns = 8 * SPIN_NS_MIN };
}

/* A wait begins. */
static inline void spin_start(struct spin *spin, uint64_t now)
{
	spin->looked_ns = now;
}

/* Whether to look again, or sleep.  Caller: looked a moment ago. */
static inline bool spin_again(struct spin *spin, uint64_t start, uint64_t now)
{
	if (now - spin->looked_ns > SPIN_GAP_NS) {
		if (now - spin->gap_ns < SPIN_CROWDED_NS)
			spin->crowded_until_ns = now + SPIN_CROWDED_NS;
		spin->gap_ns = now;
	}
	spin->looked_ns = now;
	return now - start < spin->limit_ns && now >= spin->crowded_until_ns;
}

/* Whether others want the core, so that whom one wakes takes it away. */
static inline bool spin_is_crowded(const struct spin *spin, uint64_t now)
{
	return now < spin->crowded_until_ns;
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
