/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fault.h -- seeded fault injection: what is asked for, and the dice.
 *
 * sv_fault_set() of softverbs.h sets it.  All else is for the data path, which looks at
 * sv_faults_on first.
 */
#ifndef COMMON_SOFTVERBS_BASE_FAULT_H
#define COMMON_SOFTVERBS_BASE_FAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SV_FAULT_ALL UINT32_MAX

struct sv_faults {
	uint64_t seed;
	uint32_t torn, ack_lost, flip, error, rnr, overrun; /* per mille */
	uint32_t delay_us;
	uint32_t qp; /* 0: all */
	uint32_t device; /* SV_FAULT_ALL: all */
	uint32_t kill_at, kill_after, freeze_at; /* number of a request; 0: never */
	uint32_t event, event_at; /* enum ibv_event_type, number of a request */
	bool noncoherent, partition;
};
extern struct sv_faults sv_faults;
/* False: no fault is asked for, nothing else need be looked at. */
extern _Atomic bool sv_faults_on;
/* From the environment; 0, or EINVAL and a message. */
int sv_fault_env(void);
/* The next number of a generator (SplitMix64), whose owner alone may use it. */
uint64_t sv_rng(uint64_t *state);
/* Whether this fault is to happen now; one that does is a line with its name in the file
 * that SOFTVERBS_FAULT_LOG names. */
bool sv_fault_roll(uint64_t *rng, uint32_t per_mille, const char *name);
/* A request of the process begins: stops it if it is the one.  Returns its number. */
uint32_t sv_fault_request(void);
/* It was executed; nobody knows yet. */
void sv_fault_executed(uint32_t number);
/* As sv_copy_from_shared(), in random order of cache lines, with pauses. */
void sv_fault_copy(void *dst, const void *shared, size_t bytes, uint64_t *rng);

#endif
