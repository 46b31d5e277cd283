/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hold.h -- a lock that somebody holds, until the one that waits for it gives its time away.
 *
 * Programs are linked with --wrap=sched_yield.
 */
#ifndef TESTS_UNIT_SOFTVERBS_HOLD_H
#define TESTS_UNIT_SOFTVERBS_HOLD_H

#include "tests/unit/softverbs/kit.h"
#include "common/softverbs/base/lock.h"

static struct sv_spin *held;
static int waits;

int __wrap_sched_yield(void);

int __wrap_sched_yield(void)
{
	assert_non_null(held);
	sv_spin_unlock(held);
	waits++;
	return 0;
}

static void hold(struct sv_spin *lock)
{
	assert_true(sv_spin_trylock(lock));
	held = lock;
	waits = 0;
}

/* It was waited for, and left free. */
static void check_waited(void)
{
	assert_int_equal(waits, 1);
	assert_int_equal(held->held, 0);
	held = NULL;
}

#endif
