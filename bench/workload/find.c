/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/workload/find.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PATH_BYTES 4096

/* From a folder above this program's: of a source tree, and of a prefix. */
static const char *const folders[] = { "bench/workloads", "share/kvd/workloads" };

static const char *find_above(const char *name, char *buf, size_t buf_bytes)
{
	char folder[PATH_BYTES];
	ssize_t n = readlink("/proc/self/exe", folder, sizeof folder - 1);
	char *slash;

	folder[n > 0 ? n : 0] = '\0';
	while ((slash = strrchr(folder, '/')) != NULL && slash != folder) {
		*slash = '\0';
		for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
			int bytes = snprintf(buf, buf_bytes, "%s/%s/%s", folder, folders[i], name);
			if (bytes < (int)buf_bytes && access(buf, R_OK) == 0)
				return buf;
		}
	}
	return NULL;
}

const char *workload_find(const char *name, char *buf, size_t buf_bytes)
{
	if (strchr(name, '/') != NULL || access(name, F_OK) == 0)
		return name;
	if (find_above(name, buf, buf_bytes) != NULL)
		return buf;
	snprintf(buf, buf_bytes, "%s/%s", WORKLOADS_DIR, name);
	return access(buf, R_OK) == 0 ? buf : name;
}
