/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hwcount.h -- what a device counts (hw_counters, counters and diag_counters of sysfs), with what it
 * means.
 */
#ifndef COMMON_RDMA_HWCOUNT_H
#define COMMON_RDMA_HWCOUNT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hwcount_meaning {
	const char *name;
	const char *meaning;
	bool trouble; /* one that rises says that something is wrong */
};

/* NULL: a counter that is not known here. */
const struct hwcount_meaning *hwcount_find(const char *name);

#define HWCOUNT_MAX 96

/* Counters of trouble at some moment, in an order of hwcount.c's own. */
struct hwcount {
	uint64_t value[HWCOUNT_MAX];
};

/* Reads them of a port, in some tenths of a millisecond; 0 of those that it lacks. */
void hwcount_read(const char *device, unsigned port, struct hwcount *counts);

/*
 * What rose since `before`: "NAME +N (MEANING), ...", or "" if nothing did.  Returns buf.
 */
const char *hwcount_changes(const char *device, unsigned port, const struct hwcount *before,
			    char *buf, size_t buf_bytes);

#endif
