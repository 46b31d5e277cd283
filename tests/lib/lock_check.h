/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lock_check.h -- in builds with --enable-asan in front of each file (-include), and in the mutants' in
 * front of each that unlocks: who gives back a lock that nobody has ends the program, and says where.
 * That one was not taken shows so even where no other thread comes by.
 */
#ifndef TESTS_LIB_LOCK_CHECK_H
#define TESTS_LIB_LOCK_CHECK_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef __GLIBC__
static inline int lock_check_unlock(pthread_mutex_t *lock, const char *file, int line)
{
	if (!__atomic_load_n(&lock->__data.__owner, __ATOMIC_RELAXED)) {
		fprintf(stderr, "%s:%d: ERROR: the lock that is given back here is nobody's\n", file, line);
		abort();
	}
	return pthread_mutex_unlock(lock);
}

#define pthread_mutex_unlock(lock) lock_check_unlock(lock, __FILE__, __LINE__)
#endif

#endif
