/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ticks.h -- whether a time has come, for who asks again and again: by the processor's counter.
 *
 * A look at CLOCK_BOOTTIME takes 20 ns, at the counter half of that.  So behind a look at the clock
 * the counter is asked for TICKS_NEAR_NS, then the clock again.  Two looks tell at which rate it
 * counts: never more than it does, as a thread that stands still between clock and counter makes it
 * less.
 *
 * That is no other clock where the kernel itself takes its time from this counter: it holds that
 * the counters of all processors are alike, and that they go on while a processor idles.  Elsewhere
 * the clock is asked each time.  What a suspended machine's counter does differs: it goes on, or it
 * begins at 0, which is before the look; one that its firmware sets back to what it was is believed
 * for TICKS_NEAR_NS at the most.
 *
 * One thread owns a struct ticks; {0} knows nothing.  No I/O but the first ticks_are_steady().
 */
#ifndef CLIENT_CACHE_TICKS_H
#define CLIENT_CACHE_TICKS_H

#include <stdbool.h>
#include <stdint.h>
#ifdef __x86_64__
#include <x86intrin.h>
#endif

#define TICKS_NEAR_NS 1000000ull
/* A processor may read its counter before what comes earlier is done. */
#define TICKS_EARLY_NS 10000ull

struct ticks {
	uint64_t at;     /* the counter, before the clock was looked at */
	uint64_t near;   /* so many later the time has not come; 0: the clock is to be asked */
	uint64_t per_ms; /* it counts so many, at least; 0: not known */
	uint64_t since, since_ns; /* a look, and the counter behind it; 0: none */
};

/* Whether the kernel goes by the counter.  Any thread. */
bool ticks_are_steady(void);

static inline uint64_t ticks_read(void)
{
#ifdef __x86_64__
	return __rdtsc();
#else
	return 0;
#endif
}

/* The clock was looked at: the counter before, now_ns, the counter behind it. */
void ticks_looked(struct ticks *t, uint64_t before, uint64_t now_ns, uint64_t behind);
/* From now_ns, that look's, until then ticks_is_near() may be true. */
void ticks_trust(struct ticks *t, uint64_t now_ns, uint64_t until_ns);

/* CLOCK_BOOTTIME, which is noted. */
uint64_t ticks_clock_ns(struct ticks *t);

/* True: the time of ticks_trust() has surely not come.  False: look at the clock. */
static inline bool ticks_is_near(const struct ticks *t)
{
	return t->near && ticks_read() - t->at < t->near;
}

#endif
