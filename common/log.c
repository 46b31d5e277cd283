/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#define LINE_BYTES_MAX 1024

static const char *program = "kvd";

/* Set by log_set_level, read by every line; nothing else depends on it. */
static _Atomic(enum log_level) level_max = LOG_LEVEL_INFO;

void log_open(const char *name, enum log_level level)
{
	program = name;
	log_set_level(level);
}

void log_set_level(enum log_level level)
{
	atomic_store_explicit(&level_max, level, memory_order_relaxed);
}

/* One write per line, so that lines of several threads don't mix. */
static void write_line(const char *line, size_t bytes)
{
	while (bytes > 0) {
		ssize_t done = write(STDERR_FILENO, line, bytes);
		if (done < 0 && errno != EINTR)
			return; /* there is nowhere left to say it */
		if (done > 0) {
			line += done;
			bytes -= (size_t)done;
		}
	}
}

static size_t at_most(int wanted, size_t room)
{
	if (wanted < 0)
		return 0;
	return (size_t)wanted < room ? (size_t)wanted : room - 1;
}

/* Callers often log what errno says, so it is left as it was. */
__attribute__((format(printf, 2, 0)))
static void log_line(enum log_level level, const char *format, va_list args)
{
	static const char *const names[] = { "error", "warning", "info", "debug" };
	char line[LINE_BYTES_MAX];
	int errno_before = errno;
	size_t bytes;

	if (level > atomic_load_explicit(&level_max, memory_order_relaxed))
		return;
	bytes = at_most(snprintf(line, sizeof line, "%s: %s: ", program, names[level]),
			sizeof line);
	bytes += at_most(vsnprintf(line + bytes, sizeof line - bytes, format, args),
			 sizeof line - bytes);
	line[bytes++] = '\n'; /* over the terminating zero */
	write_line(line, bytes);
	errno = errno_before;
}

#define LOG_BODY(level)                         \
	do {                                    \
		va_list args;                   \
		va_start(args, format);         \
		log_line(level, format, args);  \
		va_end(args);                   \
	} while (0)

void log_error(const char *format, ...)
{
	LOG_BODY(LOG_LEVEL_ERROR);
}

void log_warn(const char *format, ...)
{
	LOG_BODY(LOG_LEVEL_WARN);
}

void log_info(const char *format, ...)
{
	LOG_BODY(LOG_LEVEL_INFO);
}

void log_debug(const char *format, ...)
{
	LOG_BODY(LOG_LEVEL_DEBUG);
}
