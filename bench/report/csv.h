/* SPDX-License-Identifier: BSD-2-Clause */
/* csv.h -- a run as comma-separated values: a line a second and kind of operation,
 * and at the end one of the whole for each kind. */
#ifndef BENCH_REPORT_CSV_H
#define BENCH_REPORT_CSV_H

#include "bench/run/result.h"
#include "bench/run/tick.h"
#include "common/err.h"

struct csv;

/* 0 or -1 with err. */
int csv_new(const char *path, struct csv **csv, struct err *err);
void csv_tick(struct csv *csv, const struct driver_tick *tick);
void csv_total(struct csv *csv, const struct result *result);
/* 0, or -1 with err if not all could be written. */
int csv_delete(struct csv **csv, struct err *err);

#endif
