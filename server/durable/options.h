/* SPDX-License-Identifier: BSD-2-Clause */
/* options.h -- what a database is opened with. */
#ifndef SERVER_DURABLE_OPTIONS_H
#define SERVER_DURABLE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

enum durability { DURABILITY_ASYNC, DURABILITY_SYNC };

struct durable_options {
	const char *dir;
	int durability;  /* enum durability */
	int lag_ms;      /* DURABILITY_ASYNC: the disk is synced so often */
	/* Of a member of a cluster: folder.h says of what. */
	bool is_members;
	uint64_t stripes, cluster;
};

/* The clock that expiries are in, in ms: another at each start of kvd.  Any thread. */
struct durable_clock {
	uint64_t (*now_ms)(const void *arg);
	const void *arg;
};

#endif
