/* SPDX-License-Identifier: BSD-2-Clause */
/* clock.h -- a clock that goes only as it is looked at, for harnesses that wait. */
#ifndef TESTS_FUZZ_CLOCK_H
#define TESTS_FUZZ_CLOCK_H

#include "tests/fuzz/fuzz.h"

/* Until fuzz_clock_end() this thread has that clock. A poll() without an end aborts. */
void fuzz_clock_begin(void);

/* Returns how many nanoseconds passed by it. */
uint64_t fuzz_clock_end(void);

#endif
