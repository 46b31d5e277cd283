/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * history.h -- every operation of a run as a line of JSON, for a checker of
 * linearizability: {"client","op","key","value","version","invoke_ns",
 * "return_ns","result"}.  kvbench(1) documents it.
 */
#ifndef BENCH_RUN_HISTORY_H
#define BENCH_RUN_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

struct history;

struct history_entry {
	unsigned client;
	bool put; /* or a get */
	const char *key;
	size_t key_bytes;
	const char *value;
	size_t value_bytes;
	uint64_t version;
	uint64_t invoke_ns; /* CLOCK_MONOTONIC */
	uint64_t return_ns;
	int result; /* of <kvd.h> */
};

/* 0 or -1 with err. */
int history_new(const char *path, struct history **history, struct err *err);

/* Any thread. */
void history_add(struct history *h, const struct history_entry *entry);

/* Writes out what is left; 0, or -1 with err if any of it could not be written. */
int history_delete(struct history **history, struct err *err);

#endif
