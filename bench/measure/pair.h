/* SPDX-License-Identifier: BSD-2-Clause */
/* pair.h -- operations of a store and the raw verbs that they are held against, one
 * of each in random order. */
#ifndef BENCH_MEASURE_PAIR_H
#define BENCH_MEASURE_PAIR_H

#include "bench/measure/histogram.h"

enum pair_kind {
	PAIR_READ,    /* a GET, and the READ of exactly the item's bytes */
	PAIR_MESSAGE, /* a PUT, and a message as long as the PUT's and its reply */
	PAIR_KINDS
};

struct pair {
	struct histogram store;
	struct histogram raw;
};

/* "READ", "MESSAGE"; and what is held against them: "GET", "PUT". */
static const char *const pair_raw_names[PAIR_KINDS] = { "READ", "MESSAGE" };
static const char *const pair_store_names[PAIR_KINDS] = { "GET", "PUT" };

#endif
