/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/platform/stall.h"

#include <stdbool.h>
#include <sys/resource.h>

#include "common/clock.h"

/* The kernel is asked so often: a call costs a third of a microsecond, or more in a guest. */
#define LOOK_NS 1000000ull

/* Whether the thread was preempted since it looked last. */
static bool was_preempted(struct stall *s, uint64_t now_ns)
{
	struct rusage use;
	long before = s->preemptions;

	s->looked_ns = now_ns;
	if (getrusage(RUSAGE_THREAD, &use) != 0)
		return true;
	s->preemptions = use.ru_nivcsw;
	return use.ru_nivcsw != before;
}

uint64_t stall_begin(struct stall *s)
{
	uint64_t now_ns = clock_ns();

	if (now_ns - s->looked_ns < LOOK_NS)
		return now_ns;
	(void)was_preempted(s, now_ns);
	return clock_ns();
}

uint64_t stall_end(struct stall *s, uint64_t begun_ns, uint64_t longest_ns)
{
	uint64_t now_ns = clock_ns(), ns = now_ns - begun_ns;

	return ns > longest_ns && !was_preempted(s, now_ns) ? ns : 0;
}
