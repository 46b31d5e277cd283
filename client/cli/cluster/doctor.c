/* SPDX-License-Identifier: BSD-2-Clause */
/* kvcli doctor --cluster: what ails a cluster, and whether this machine's clock will do for one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timex.h>

#include "client/cli/cluster/doctor.h"
#include "client/cli/cluster/status.h"

/* Leases are good with clocks that are wrong by less than an eighth; long before that: */
#define PPM_MAX 50000.0

static unsigned judge(const struct members *m, cluster_each *each)
{
	char *text = NULL, *save = NULL;
	size_t bytes;
	FILE *to = open_memstream(&text, &bytes);
	unsigned wrong = to ? cluster_judge(m, to) : 0;

	if (to)
		fclose(to);
	for (char *line = text ? strtok_r(text, "\n", &save) : NULL; line;
	     line = strtok_r(NULL, "\n", &save))
		each(stdout, "FIX", "cluster", line);
	free(text);
	if (!wrong)
		each(stdout, "ok", "cluster", "a primary serves, all copies are in sync, ZooKeeper is reached");
	return wrong;
}

static unsigned judge_versions(const struct members *m, cluster_each *each)
{
	const char *first = NULL;
	char text[128];

	for (unsigned i = 0; i < m->count; i++) {
		const char *version = m->of[i].version;

		if (!m->of[i].answered)
			continue;
		first = first ? first : version;
		if (!strcmp(first, version))
			continue;
		snprintf(text, sizeof text, "members run %s and %s: go on with the upgrade, one by one",
			 first, version);
		each(stdout, "FIX", "versions", text);
		return 1;
	}
	snprintf(text, sizeof text, "all members that answer run %s", first ? first : "nothing");
	each(stdout, "ok", "versions", text);
	return 0;
}

static unsigned judge_clock(cluster_each *each)
{
	struct timex t = { .modes = 0 };
	double ppm = adjtimex(&t) < 0 ? 0 : (double)t.freq / 65536;
	char text[160];

	ppm = ppm < 0 ? -ppm : ppm;
	if (ppm <= PPM_MAX) {
		each(stdout, "ok", "clock", "this machine's clock is slewed by less than a twentieth");
		return 0;
	}
	snprintf(text, sizeof text, "this machine's clock is slewed by %.0f ppm: leases rest on clocks that "
		 "are wrong by less than an eighth: look at the time daemon", ppm);
	each(stdout, "FIX", "clock", text);
	return 1;
}

unsigned cluster_doctor(struct cli *cli, cluster_each *each)
{
	static struct members m;
	unsigned findings = judge_clock(each);
	int status;

	if (members_ask(cli, &m, &status))
		return findings + judge(&m, each) + judge_versions(&m, each);
	each(stdout, "FIX", "cluster", "no member answers as one (see above): give the address of one that "
	     "runs (-s)");
	return findings + 1;
}
