/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/cache/clock.h"

#include "common/clock.h"

#define NS_PER_MS 1000000
#define SLEPT_NS_MIN 5000000 /* what is less may lie between two looks at clocks */
/* Past every expiry that kvd gives (a hundred years from now): what a kvd says beyond it
 * is no time, and counts as this. */
#define MS_MAX 6000000000000ull

/*
 * What the two clocks may drift apart, as a part of the time that passes.  Not the
 * crystals' 10^-4: a time daemon may slew CLOCK_MONOTONIC by 83,333 ppm (chrony's
 * default).  Where it makes a difference kvd is asked, which renews the bounds.
 */
#define DRIFT_PART 8

static int64_t ns_of(uint64_t ms)
{
	return (int64_t)(ms < MS_MAX ? ms : MS_MAX) * NS_PER_MS;
}

/* Between two instants, in either order. */
static int64_t drift(uint64_t a_ns, uint64_t b_ns)
{
	return (int64_t)((a_ns > b_ns ? a_ns - b_ns : b_ns - a_ns) / DRIFT_PART);
}

static int64_t low_at(const struct clock *c, uint64_t now_ns)
{
	return c->low_ns - drift(c->low_at_ns, now_ns);
}

static int64_t high_at(const struct clock *c, uint64_t now_ns)
{
	return c->high_ns + drift(c->high_at_ns, now_ns);
}

void clock_learn(struct clock *c, uint64_t clock_ms, uint64_t sent_ns, uint64_t received_ns)
{
	/* A clock_ms of 5 is anything from 5 to just under 6. */
	int64_t low = ns_of(clock_ms) - (int64_t)received_ns;
	int64_t high = ns_of(clock_ms) + NS_PER_MS - (int64_t)sent_ns;

	if (!c->known) {
		uint64_t boot_ns = clock_read_ns(CLOCK_BOOTTIME);
		c->slept_ns = clock_slept_ns(boot_ns, clock_ns());
	}
	if (!c->known || low >= low_at(c, received_ns)) {
		c->low_ns = low;
		c->low_at_ns = sent_ns;
	}
	if (!c->known || high <= high_at(c, received_ns)) {
		c->high_ns = high;
		c->high_at_ns = sent_ns;
	}
	c->known = true;
}

bool clock_slept(const struct clock *c, uint64_t boot_ns, uint64_t now_ns)
{
	return clock_slept_ns(boot_ns, now_ns) > c->slept_ns + SLEPT_NS_MIN;
}

enum clock_verdict clock_judge(const struct clock *c, uint64_t expiry_ms, uint64_t begun_ns,
			       uint64_t now_ns)
{
	int64_t expiry = ns_of(expiry_ms);

	if (!c->known)
		return CLOCK_UNSURE;
	if ((int64_t)now_ns + high_at(c, now_ns) < expiry)
		return CLOCK_LIVE;
	if ((int64_t)begun_ns + low_at(c, begun_ns) >= expiry)
		return CLOCK_EXPIRED;
	return CLOCK_UNSURE;
}

uint64_t clock_left_ms(const struct clock *c, uint64_t expiry_ms, uint64_t now_ns)
{
	int64_t left = ns_of(expiry_ms) - ((int64_t)now_ns + low_at(c, now_ns));

	return c->known && left > NS_PER_MS ? (uint64_t)left / NS_PER_MS : 1;
}
