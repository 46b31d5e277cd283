/* SPDX-License-Identifier: BSD-2-Clause */
/* report.h -- what a run found out, as YCSB's text and as JSON. */
#ifndef BENCH_REPORT_REPORT_H
#define BENCH_REPORT_REPORT_H

#include <stdbool.h>
#include <stdio.h>
#include <time.h>

#include "bench/report/timeline.h"
#include "bench/run/options.h"
#include "bench/run/result.h"
#include "bench/store/store.h"
#include "bench/workload/workload.h"

struct report {
	const char *command; /* "load" or "run" */
	const struct options *options;
	const struct workload *workload;
	const struct store *store;
	const struct result *result;
	const struct timeline *timeline;
	double own_ns;                /* driver_cost() */
	time_t started;
};

void report_text(const struct report *r, FILE *file);

/* 0, or -1 with err if it could not be written. */
int report_json(const struct report *r, const char *path, struct err *err);

/* The same as an object within an array; name and load_rate (operations a second of
 * the loading phase) stand in it too. */
struct json;
void report_json_object(const struct report *r, struct json *j, const char *name,
			double load_rate);

#endif
