/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/platform/hugepages.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/log.h"
#include "common/opt.h"

/* Of the mappings that overlap the table, as the kernel counts them. */
static uint64_t huge_bytes(const void *table, uint64_t bytes)
{
	uint64_t low = (uintptr_t)table, high = low + bytes, from, to, kib, sum = 0;
	FILE *f = fopen("/proc/self/smaps", "re");
	bool inside = false;
	char line[512];

	while (f && fgets(line, sizeof line, f)) {
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " ", &from, &to) == 2)
			inside = from < high && to > low;
		else if (inside && sscanf(line, "AnonHugePages: %" SCNu64 " kB", &kib) == 1)
			sum += kib << 10;
	}
	if (f)
		fclose(f);
	return sum < bytes ? sum : bytes;
}

void hugepages_tell(const void *table, uint64_t bytes)
{
	char text[32], all[32];
	uint64_t huge = huge_bytes(table, bytes);

	opt_format_size(bytes, all, sizeof all);
	if (huge)
		log_info("%s of the table's %s are in huge pages",
			 opt_format_size(huge, text, sizeof text), all);
	else
		log_info("none of the table's %s is in huge pages, so the device's page tables are large: "
			 "echo madvise >/sys/kernel/mm/transparent_hugepage/enabled, and start kvd again",
			 all);
}
