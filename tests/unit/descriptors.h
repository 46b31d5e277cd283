/* SPDX-License-Identifier: BSD-2-Clause */
/* descriptors.h -- how many files a test has open, for one that is to leave none. */
#ifndef TESTS_UNIT_DESCRIPTORS_H
#define TESTS_UNIT_DESCRIPTORS_H

#include <dirent.h>
#include <stdlib.h>

static inline int count_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	if (!dir)
		abort();
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

#endif
