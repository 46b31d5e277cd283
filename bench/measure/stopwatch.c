/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/measure/stopwatch.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define CALIBRATION_NS 10000000u

struct stopwatch stopwatch_state;

#if defined(__x86_64__)

/* The kernel checks that the counter runs evenly and alike on all processors. */
static bool kernel_trusts_counter(void)
{
	FILE *file = fopen("/sys/devices/system/clocksource/clocksource0/current_clocksource", "re");
	char name[16] = "";
	bool trusts;

	if (file == NULL)
		return false;
	trusts = fgets(name, sizeof name, file) != NULL && strcmp(name, "tsc\n") == 0;
	fclose(file);
	return trusts;
}

/* Both at one time: the closest of several pairs, as a pair can be interrupted. */
static void read_both(uint64_t *counter, uint64_t *ns)
{
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < 20; i++) {
		uint64_t before = __rdtsc(), now = clock_ns(), after = __rdtsc();
		if (after - before >= best)
			continue;
		best = after - before;
		*counter = before + best / 2;
		*ns = now;
	}
}

void stopwatch_init(void)
{
	struct timespec wait = { 0, CALIBRATION_NS };
	uint64_t counter, ns;

	if (!kernel_trusts_counter())
		return;
	read_both(&stopwatch_state.counter_0, &stopwatch_state.ns_0);
	nanosleep(&wait, NULL);
	read_both(&counter, &ns);
	stopwatch_state.scale = (uint64_t)(((unsigned __int128)(ns - stopwatch_state.ns_0) << 32) /
				       (counter - stopwatch_state.counter_0));
	stopwatch_state.counter = true;
}

#else

void stopwatch_init(void)
{
}

#endif
