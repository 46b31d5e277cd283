/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/cache/ticks.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"

#define SOURCE "/sys/devices/system/clocksource/clocksource0/current_clocksource"
#define LEARN_NS 100000ull       /* a rate is of so long at least, */
#define LEARN_NS_MAX 1000000000ull /* and at most */
#define PER_MS_MAX 10000000ull   /* no processor counts as fast: it was set */

static bool is_source(void)
{
#ifdef __x86_64__
	char name[8] = "";
	int fd = open(SOURCE, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, name, sizeof name - 1);

	if (fd >= 0)
		close(fd);
	return n > 0 && !strcmp(name, "tsc\n");
#else
	return false;
#endif
}

bool ticks_are_steady(void)
{
	static _Atomic int known; /* 0: not yet; relaxed: all find the same */

	if (!known)
		known = is_source() ? 1 : -1;
	return known > 0;
}

void ticks_looked(struct ticks *t, uint64_t before, uint64_t now_ns, uint64_t behind)
{
	uint64_t took_ns = now_ns - t->since_ns;
	uint64_t counted = before > t->since ? before - t->since : 0;

	t->at = before;
	t->near = 0;
	if (t->since_ns && took_ns < LEARN_NS)
		return;
	if (t->since_ns && took_ns <= LEARN_NS_MAX) {
		t->per_ms = counted / (took_ns / 1000) * 1000;
		if (t->per_ms > PER_MS_MAX)
			t->per_ms = 0;
	}
	t->since = behind;
	t->since_ns = now_ns;
}

void ticks_trust(struct ticks *t, uint64_t now_ns, uint64_t until_ns)
{
	uint64_t left_ns = until_ns > now_ns ? until_ns - now_ns : 0;

	if (left_ns > TICKS_NEAR_NS)
		left_ns = TICKS_NEAR_NS;
	t->near = left_ns > TICKS_EARLY_NS ? (left_ns - TICKS_EARLY_NS) * t->per_ms / 1000000 : 0;
}

uint64_t ticks_clock_ns(struct ticks *t)
{
	uint64_t before, now_ns;

	if (!ticks_are_steady())
		return clock_read_ns(CLOCK_BOOTTIME);
	before = ticks_read();
	now_ns = clock_read_ns(CLOCK_BOOTTIME);
	ticks_looked(t, before, now_ns, ticks_read());
	return now_ns;
}
