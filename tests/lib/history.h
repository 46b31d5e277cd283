/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * history.h -- what clients did and saw, recorded so that a kill -9 loses nothing.
 *
 * Each thread of a client has a log of its own, a file that is mapped: a record
 * is made before the call, with an open result, and closed after it.  A client
 * that was killed leaves its last ones open.
 */
#ifndef TESTS_LIB_HISTORY_H
#define TESTS_LIB_HISTORY_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "tests/lib/linear.h"

struct history;

/* Opens or makes the log at `path`, for up to `records_max` records; whoever opens
 * it again goes on behind the last.  0 or an errno value. */
int history_open(const char *path, size_t records_max, struct history **history);
void history_close(struct history **history);

/* The call is about to be made; NULL if the log is full.  Stays until history_close. */
struct linear_op *history_invoke(struct history *history, uint32_t client, enum linear_kind kind,
				 uint64_t key, uint64_t value);
void history_return(struct linear_op *op, enum linear_result result, uint64_t value,
		    uint64_t version);

/* Appends the log's records to the array *ops of *n. 0 or an errno value. */
int history_collect(const struct history *history, struct linear_op **ops, size_t *n);

/*
 * One line of JSON: {"client","op","key","value","version","invoke_ns","return_ns",
 * "result"}; "result" is ok, not_found, unknown or error, "value" a number that
 * only one put has, and null stands for what is not known.
 */
void history_print(FILE *out, const struct linear_op *op);

/* CLOCK_MONOTONIC */
uint64_t history_now_ns(void);

#endif
