/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * spin.h -- how long to spin for a completion before sleeping.
 *
 * The limit follows the waits: a thread spins a little longer than they took lately, as long
 * as that is short.  Where waits are long, spinning gains nothing, and takes a core from the
 * thread that is awaited.  A thread that loses its core while it spins shares it with
 * others, and sleeps at once for a while.  The kernel runs a sleeper as soon as its event
 * comes; a thread that spun its time slice away runs only after the others' slices.
 *
 * A spin in vain is followed by waits without one, twice as many each time: of two threads on
 * one core each would spin for the other to be done, which waits for the core.
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

#define SPIN_SKIPS_MAX 255u

struct spin {
	uint64_t limit_ns, looked_ns, gap_ns, crowded_until_ns;
	unsigned skip, skips; /* waits that are not to spin: left; after the last spin in vain */
	bool skips_now, in_vain;
};

static inline void spin_init(struct spin *spin)
{
	*spin = (struct spin){ .limit_ns = 8 * SPIN_NS_MIN };
}

/* A wait begins. */
static inline void spin_start(struct spin *spin, uint64_t now)
{
	spin->looked_ns = now;
	spin->in_vain = false;
	spin->skips_now = spin->skip > 0;
	spin->skip -= spin->skips_now;
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
	spin->in_vain = now - start >= spin->limit_ns;
	return !spin->skips_now && !spin->in_vain && now >= spin->crowded_until_ns;
}

/* Whether others want the core, so that whom one wakes takes it away. */
static inline bool spin_is_crowded(const struct spin *spin, uint64_t now)
{
	return now < spin->crowded_until_ns;
}

/* Between two looks at memory: the other thread of the processor's core, which may be who is awaited,
 * goes on the faster. */
static inline void spin_relax(void)
{
#if defined __x86_64__
	__builtin_ia32_pause();
#elif defined __aarch64__
	__asm__ volatile("yield");
#endif
}

/* What the next waits are due to, after one that was short enough to spin for. */
static inline void spin_learn_skips(struct spin *spin)
{
	if (spin->skips_now)
		return;
	spin->skips = spin->in_vain ? 2 * spin->skips + 1 : spin->skips / 2;
	if (spin->skips > SPIN_SKIPS_MAX)
		spin->skips = SPIN_SKIPS_MAX;
	if (spin->in_vain)
		spin->skip = spin->skips;
}

/* A wait is over that took `waited_ns`, spinning and sleeping. */
static inline void spin_learn(struct spin *spin, uint64_t waited_ns)
{
	uint64_t want = waited_ns >= SPIN_NS_MAX ? 0
		      : waited_ns >= SPIN_NS_MAX / 2 ? SPIN_NS_MAX : 2 * waited_ns;

	spin->limit_ns = (3 * spin->limit_ns + want) / 4;
	if (spin->limit_ns < SPIN_NS_MIN)
		spin->limit_ns = SPIN_NS_MIN;
	if (waited_ns < SPIN_NS_MAX)
		spin_learn_skips(spin);
}

#endif
