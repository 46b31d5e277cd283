/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * clock.h -- what a client knows of kvd's clock.
 *
 * Each reply carries kvd's clock, read between the request's departure and the
 * reply's arrival; so each bounds how far kvd's clock is ahead of CLOCK_MONOTONIC
 * here.  The bounds widen with time, as clocks drift.
 */
#ifndef CLIENT_CACHE_CLOCK_H
#define CLIENT_CACHE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

/* Zeroed: nothing is known. */
struct clock {
	bool known;
	int64_t low_ns, high_ns; /* kvd's clock less ours */
	uint64_t low_at_ns, high_at_ns; /* when each was learnt */
	uint64_t slept_ns; /* of this machine, when something was learnt first */
};

enum clock_verdict { CLOCK_LIVE, CLOCK_EXPIRED, CLOCK_UNSURE };

/* kvd's clock was clock_ms at some instant from sent_ns to received_ns. */
void clock_learn(struct clock *clock, uint64_t clock_ms, uint64_t sent_ns, uint64_t received_ns);

/*
 * Whether what expires at expiry_ms of kvd's clock was alive at an instant between
 * begun_ns and now_ns of ours: CLOCK_LIVE if it surely is at now_ns, CLOCK_EXPIRED if
 * it surely was not at begun_ns any more.
 */
enum clock_verdict clock_judge(const struct clock *clock, uint64_t expiry_ms, uint64_t begun_ns,
			       uint64_t now_ns);

/*
 * Whether this machine was suspended since: kvd's clock went on, and ours did not, so that
 * nothing can be said any more.  boot_ns: CLOCK_BOOTTIME, read before now_ns.
 */
bool clock_slept(const struct clock *clock, uint64_t boot_ns, uint64_t now_ns);

/* How long until expiry_ms of kvd's clock, at least 1: about, and not too short. */
uint64_t clock_left_ms(const struct clock *clock, uint64_t expiry_ms, uint64_t now_ns);

#endif
