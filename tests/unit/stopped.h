/* SPDX-License-Identifier: BSD-2-Clause */
/* stopped.h -- whether a process stands still, for a test that has stopped it. */
#ifndef TESTS_UNIT_STOPPED_H
#define TESTS_UNIT_STOPPED_H

#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

/* All of its threads: the signal reaches one after the other. */
static inline bool is_stopped(pid_t pid)
{
	char path[64], state;
	glob_t threads;
	size_t n = 0;

	snprintf(path, sizeof path, "/proc/%d/task/*/stat", (int)pid);
	if (glob(path, 0, NULL, &threads))
		return false;
	for (size_t i = 0; i < threads.gl_pathc; i++) {
		FILE *f = fopen(threads.gl_pathv[i], "re");

		n += f && fscanf(f, "%*d (%*[^)]) %c", &state) == 1 && state == 'T';
		if (f)
			fclose(f);
	}
	bool all = n == threads.gl_pathc;
	globfree(&threads);
	return all;
}

#endif
