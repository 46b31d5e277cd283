/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * log.h -- kvd's log: one line each, "kvd: LEVEL: text" on standard error, or to
 * syslog, or to systemd's journal.  Any thread; a line is written whole, and never
 * waits for its reader but on standard error.
 */
#ifndef COMMON_LOG_H
#define COMMON_LOG_H

#include <stdarg.h>
#include <stdbool.h>

#include "common/err.h"

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };
enum log_to { LOG_TO_STDERR, LOG_TO_SYSLOG, LOG_TO_JOURNAL };

/* `name` is the program's and must live for ever. */
void log_open(const char *name, enum log_level level);
void log_set_level(enum log_level level);
/* From now on there, and on standard error what can't be sent there.  Before there are
 * threads.  0, or -1 after setting err: nobody listens there. */
int log_direct(enum log_to to, struct err *err);

/* Whether a line of that level is written. */
bool log_shows(enum log_level level);

/* What peers can cause as often as they like goes by log_limited(): log_limit.h. */
void log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_debug(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_args(enum log_level level, const char *format, va_list args)
	__attribute__((format(printf, 2, 0)));

#endif
