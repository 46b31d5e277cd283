/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * log_limit.h -- lines that peers can cause as often as they like, bounded.  Each kind has
 * a bucket of LOG_LIMIT_BURST lines that fills by LOG_LIMIT_PER_S; what finds it empty is
 * counted, and the count is told.  Any thread.
 */
#ifndef COMMON_LOG_LIMIT_H
#define COMMON_LOG_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/log.h"

#define LOG_LIMIT_BURST 60
#define LOG_LIMIT_PER_S 1
#define LOG_LIMIT_TELL_S 10
/* More than there are in the code; those behind share the last. */
#define LOG_LIMIT_KINDS 48u

/*
 * One line of `kind`, in words that live for ever: they stand behind "N more like this",
 * and two lines of the same words and level share a bucket.  At level "debug" nothing is left out.
 */
void log_limited(enum log_level level, const char *kind, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Tells what was left out for at least LOG_LIMIT_TELL_S; with `all`, all of it.  To be
 * called every now and then, so that a count does not wait for the next line. */
void log_limit_tell(uint64_t now_ns, bool all);

/* A bucket by itself: whether a line may be written at that time; if not it is counted. */
struct log_bucket {
	const char *kind;
	enum log_level level;
	double lines;
	uint64_t filled_ns;
	uint64_t unsaid_since_ns;
	uint64_t unsaid; /* or 0: nothing was left out */
};
bool log_bucket_take(struct log_bucket *bucket, uint64_t now_ns);

#endif
