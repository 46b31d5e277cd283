/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cm_lock.h -- connection management's lock, watched: who takes it hasn't it yet, who lets go of it has it.
 *
 * Programs are linked with --wrap=pthread_mutex_lock,--wrap=pthread_mutex_unlock.
 */
#ifndef TESTS_UNIT_SOFTVERBS_CM_LOCK_H
#define TESTS_UNIT_SOFTVERBS_CM_LOCK_H

#include <pthread.h>
#include "tests/unit/softverbs/kit.h"
#include "common/softverbs/cm/id.h"

int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __real_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
	CHECK(!__real_pthread_mutex_lock(mutex));
	return 0;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
	CHECK(!__real_pthread_mutex_unlock(mutex));
	return 0;
}

/* Before it is used. */
static inline void watch_lock(void)
{
	pthread_mutexattr_t attr;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ERRORCHECK);
	pthread_mutex_init(&sv_cm.lock, &attr);
	pthread_mutexattr_destroy(&attr);
}

#endif
