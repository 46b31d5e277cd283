/* SPDX-License-Identifier: BSD-2-Clause */
/* stop.h -- kvd sleeps for a while: GETs go on. */
#ifndef TESTS_TORTURE_STOP_H
#define TESTS_TORTURE_STOP_H

#include <stdint.h>
#include <sys/types.h>

#include "tests/torture/torture.h"

struct stops {
	uint64_t count;
	uint64_t silent;  /* without a GET, though a reader had the time for one */
	uint64_t no_time; /* without a GET, as no reader had: they tell nothing */
};

/* One of them.  0 or an errno value: kvd can't be stopped. */
int stop_once(struct stops *stops, struct board *board, int readers, const pid_t *pid, pid_t kvd);

#endif
