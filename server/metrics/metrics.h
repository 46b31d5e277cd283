/* SPDX-License-Identifier: BSD-2-Clause */
/* metrics.h -- kvd's figures in Prometheus' text format, and whether it is well. */
#ifndef SERVER_METRICS_METRICS_H
#define SERVER_METRICS_METRICS_H

#include <stdbool.h>
#include <stddef.h>

struct host;

/* Allocated, zero-terminated text; NULL: no memory.  Any thread. */
char *metrics_text(struct host *host, size_t *bytes);

/*
 * Whether every worker went round its loop lately, as seen from the calls of this
 * function: one that did not between two of them, three seconds apart or more, is
 * stuck.  Writes a line about it.  One thread at a time.
 */
bool metrics_healthy(struct host *host, char *text, size_t text_bytes);

#endif
