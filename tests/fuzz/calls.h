/* SPDX-License-Identifier: BSD-2-Clause */
/* calls.h -- each call of libkvd, for the harness of a kvd that means it ill. */
#ifndef TESTS_FUZZ_CALLS_H
#define TESTS_FUZZ_CALLS_H

#include "client/kvd.h"

#define FUZZ_CALLS 16u

/* Makes one of them; what it returned is checked, whatever kvd has answered. */
void fuzz_call(kvd_session *s, unsigned which);

#endif
