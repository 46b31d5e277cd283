/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fault.c -- seeded fault injection.
 *
 * SOFTVERBS_FAULT, or sv_fault_set(), is a list "name=value,...".  Each queue
 * pair has a generator of its own, seeded with the seed and its number, so its
 * faults depend on nothing that other queue pairs do.
 *
 * SOFTVERBS_FAULT_LOG names a file that gets a line for each fault that was injected.  A
 * line is one write(), so a process that is killed leaves all of them, and processes share
 * the file.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <infiniband/verbs.h>
#include "common/softverbs/base/copy.h"
#include "common/softverbs/base/device.h"
#include "common/softverbs/base/fault.h"
#include "common/softverbs/base/lock.h"
#include "common/softverbs/softverbs.h"

#define LINE_BYTES 64

/* Written by sv_fault_set() only; readers look after they saw sv_faults_on
 * (acquire, release), and a change while requests run may be seen in parts. */
struct sv_faults sv_faults;
_Atomic bool sv_faults_on;
/* That this process has begun since they were set. */
static _Atomic uint32_t requests;
static int log_fd = -1; /* set before the first request */

static int parse_pair(struct sv_faults *faults, const char *name, unsigned long long value)
{
	const struct {
		const char *name;
		uint32_t *value;
		uint32_t max;
	} numbers[] = {
		{ "torn", &faults->torn, 1000 },	 { "ack_lost", &faults->ack_lost, 1000 },
		{ "flip", &faults->flip, 1000 },	 { "error", &faults->error, 1000 },
		{ "rnr", &faults->rnr, 1000 },		 { "delay_us", &faults->delay_us, 10000000 },
		{ "overrun", &faults->overrun, 1000 },	 { "qp", &faults->qp, UINT32_MAX },
		{ "kill_at", &faults->kill_at, UINT32_MAX },
		{ "kill_after", &faults->kill_after, UINT32_MAX },
		{ "freeze_at", &faults->freeze_at, UINT32_MAX },
		{ "event", &faults->event, IBV_EVENT_WQ_FATAL },
		{ "event_at", &faults->event_at, UINT32_MAX },
		{ "device", &faults->device, SV_DEVICES - 1 },
	};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		if (strcmp(name, numbers[i].name) != 0)
			continue;
		if (value > numbers[i].max)
			return EINVAL;
		*numbers[i].value = (uint32_t)value;
		return 0;
	}
	if (!strcmp(name, "seed"))
		faults->seed = value;
	else if (!strcmp(name, "noncoherent"))
		faults->noncoherent = value;
	else if (!strcmp(name, "partition"))
		faults->partition = value;
	else
		return EINVAL;
	return 0;
}

static int parse(struct sv_faults *faults, char *spec)
{
	char *save, *item;

	for (item = strtok_r(spec, ",", &save); item; item = strtok_r(NULL, ",", &save)) {
		char *eq = strchr(item, '=');
		char *end;
		unsigned long long value;
		int ret;

		if (!eq || !eq[1])
			return EINVAL;
		*eq = '\0';
		value = strtoull(eq + 1, &end, 0);
		if (*end)
			return EINVAL;
		ret = parse_pair(faults, item, value);
		if (ret)
			return ret;
	}
	return 0;
}

int sv_fault_set(const char *spec)
{
	struct sv_faults faults = { .device = SV_FAULT_ALL };
	char *copy;
	int ret;

	if ((!spec || !*spec) && !sv_device_may_be_cut()) {
		atomic_store(&sv_faults_on, false);
		return 0;
	}
	copy = strdup(spec ? spec : "");
	if (!copy)
		return ENOMEM;
	ret = parse(&faults, copy);
	free(copy);
	if (ret)
		return ret;
	atomic_store(&sv_faults_on, false);
	sv_faults = faults;
	atomic_store(&requests, 0);
	atomic_store(&sv_faults_on, true);
	return 0;
}

int sv_fault_env(void)
{
	const char *spec = getenv("SOFTVERBS_FAULT");
	const char *path = getenv("SOFTVERBS_FAULT_LOG");
	int ret = spec || sv_device_may_be_cut() ? sv_fault_set(spec) : 0;

	if (path && log_fd < 0) {
		log_fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
		if (log_fd < 0) {
			fprintf(stderr, "softverbs: SOFTVERBS_FAULT_LOG=%s: %s\n", path, strerror(errno));
			return errno;
		}
	}
	if (ret)
		fprintf(stderr, "softverbs: SOFTVERBS_FAULT=%s: not a list of name=number with "
				"known names and numbers in their range, see softverbs(7)\n", spec);
	return ret;
}

uint32_t sv_fault_request(void)
{
	uint32_t number = atomic_fetch_add(&requests, 1) + 1;

	if (number == sv_faults.kill_at)
		kill(getpid(), SIGKILL);
	if (number == sv_faults.freeze_at)
		kill(getpid(), SIGSTOP);
	return number;
}

void sv_fault_executed(uint32_t number)
{
	if (number == sv_faults.kill_after)
		kill(getpid(), SIGKILL);
}

/* ---- dice ---- */

uint64_t sv_rng(uint64_t *state)
{
	uint64_t x = *state += 0x9e3779b97f4a7c15ull;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

/* A line that can't be written is missed by whoever counts them. */
static void tell(const char *name)
{
	char line[32];
	int bytes = snprintf(line, sizeof line, "%s\n", name);

	if (write(log_fd, line, (size_t)bytes) != bytes)
		fprintf(stderr, "softverbs: SOFTVERBS_FAULT_LOG: %s\n", strerror(errno));
}

bool sv_fault_roll(uint64_t *rng, uint32_t per_mille, const char *name)
{
	bool happens = per_mille && sv_rng(rng) % 1000 < per_mille;

	if (happens && log_fd >= 0)
		tell(name);
	return happens;
}

/* ---- torn copies ---- */

static uint64_t gcd(uint64_t a, uint64_t b)
{
	while (b) {
		uint64_t r = a % b;

		a = b;
		b = r;
	}
	return a;
}

/* Lines of 64 bytes of shared, cut at its own line boundaries, in the order
 * start, start + step, ... modulo their number. */
void sv_fault_copy(void *dst, const void *shared, size_t bytes, uint64_t *rng)
{
	size_t skew = (uintptr_t)shared % LINE_BYTES;
	uint64_t lines = (skew + bytes + LINE_BYTES - 1) / LINE_BYTES;
	uint64_t line = lines ? sv_rng(rng) % lines : 0;
	uint64_t step = lines ? sv_rng(rng) % lines : 0;

	while (lines && gcd(step, lines) != 1)
		step++;
	for (uint64_t i = 0; i < lines; i++, line = (line + step) % lines) {
		size_t from = line ? (size_t)line * LINE_BYTES - skew : 0;
		size_t to = ((size_t)line + 1) * LINE_BYTES - skew;

		if (to > bytes)
			to = bytes;
		sv_copy_from_shared((uint8_t *)dst + from, (const uint8_t *)shared + from,
				    to - from);
		switch (sv_rng(rng) % 8) {
		case 0:
			sched_yield();
			break;
		case 1:
			for (int spin = 0; spin < 64; spin++)
				sv_cpu_relax();
		}
	}
}
