/* SPDX-License-Identifier: BSD-2-Clause */
/* meeting.h -- a barrier whose number of threads may shrink until it is passed. */
#ifndef BENCH_RUN_MEETING_H
#define BENCH_RUN_MEETING_H

#include <pthread.h>

struct meeting {
	pthread_mutex_t mutex;
	pthread_cond_t all;
	unsigned expected;
	unsigned arrived;
	unsigned round;
};

void meeting_init(struct meeting *m, unsigned expected);
void meeting_clear(struct meeting *m);

/* For when not all threads could be started. */
void meeting_expect(struct meeting *m, unsigned expected);

/* Blocks until as many threads wait as are expected. */
void meeting_wait(struct meeting *m);

#endif
