/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What ran in a process that ends by _exit() counts, too: included before everything else where
 * tests/coverage/check compiles.
 */
#ifndef TESTS_COVERAGE_EXIT_H
#define TESTS_COVERAGE_EXIT_H

#include <unistd.h>

extern void __gcov_dump(void);

static inline __attribute__((noreturn)) void coverage_exit(int status)
{
	__gcov_dump();
	_exit(status);
}
#define _exit coverage_exit

#endif
