/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hdrlog.h -- the log format 1.3 of HdrHistogram: a line a second and kind of
 * operation, tagged with it, in nanoseconds.
 *
 * A line's histogram is a zlib stream in base64.  The stream here is of stored
 * blocks, so that no zlib is needed: the counts are packed well without it.
 */
#ifndef BENCH_REPORT_HDRLOG_H
#define BENCH_REPORT_HDRLOG_H

#include <stddef.h>
#include <stdint.h>

#include "bench/run/tick.h"
#include "common/err.h"

struct hdrlog;

/* 0 or -1 with err.  Call it when the run is about to begin. */
int hdrlog_new(const char *path, struct hdrlog **log, struct err *err);
void hdrlog_tick(struct hdrlog *log, const struct driver_tick *tick);
/* 0, or -1 with err if not all could be written. */
int hdrlog_delete(struct hdrlog **log, struct err *err);

/* A histogram as it stands in a line, zero-terminated, allocated; NULL: no
 * memory. */
char *hdrlog_encode(const struct histogram *h);

#endif
