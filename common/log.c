/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "common/text.h"

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

/* Set by log_direct() before there are threads: a datagram socket, or -1. */
static int target_fd = -1;
static enum log_to target = LOG_TO_STDERR;

int log_direct(enum log_to to, struct err *err)
{
	static const char *const paths[] = { [LOG_TO_SYSLOG] = "/dev/log",
					     [LOG_TO_JOURNAL] = "/run/systemd/journal/socket" };
	struct sockaddr_un sun = { .sun_family = AF_UNIX };

	if (to == LOG_TO_STDERR)
		return 0;
	memcpy(sun.sun_path, paths[to], strlen(paths[to]) + 1);
	target_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (target_fd < 0 || connect(target_fd, (struct sockaddr *)&sun, sizeof sun)) {
		int e = errno;
		if (target_fd >= 0)
			close(target_fd);
		target_fd = -1;
		return err_set_errno(err, -1, e, "--log-to %s: nobody listens at %s",
				     to == LOG_TO_SYSLOG ? "syslog" : "journal", paths[to]);
	}
	target = to;
	return 0;
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

/* False: it goes to standard error. */
static bool send_line(enum log_level level, const char *text)
{
	/* As of syslog(3): error, warning, informational, debug; the facility is daemon. */
	static const int priority[] = { 3, 4, 6, 7 };
	char message[LINE_BYTES_MAX + 256], when[32];
	time_t now = time(NULL);
	struct tm tm;
	int n;

	if (target_fd < 0)
		return false;
	if (target == LOG_TO_JOURNAL) {
		n = snprintf(message, sizeof message,
			     "PRIORITY=%d\nSYSLOG_IDENTIFIER=%s\nSYSLOG_PID=%d\nMESSAGE=%s\n",
			     priority[level], program, (int)getpid(), text);
	} else {
		localtime_r(&now, &tm);
		strftime(when, sizeof when, "%b %e %H:%M:%S", &tm);
		n = snprintf(message, sizeof message, "<%d>%s %s[%d]: %s", 3 << 3 | priority[level],
			     when, program, (int)getpid(), text);
	}
	return n > 0 && send(target_fd, message, (size_t)n, MSG_NOSIGNAL) == n;
}

static size_t at_most(int wanted, size_t room)
{
	if (wanted < 0)
		return 0;
	return (size_t)wanted < room ? (size_t)wanted : room - 1;
}

bool log_shows(enum log_level level)
{
	return level <= atomic_load_explicit(&level_max, memory_order_relaxed);
}

/* Callers often log what errno says, so it is left as it was. */
void log_args(enum log_level level, const char *format, va_list args)
{
	static const char *const names[] = { "error", "warning", "info", "debug" };
	char line[LINE_BYTES_MAX];
	int errno_before = errno;
	size_t bytes;

	if (!log_shows(level))
		return;
	bytes = at_most(snprintf(line, sizeof line, "%s: %s: ", program, names[level]),
			sizeof line);
	size_t text = bytes;
	bytes += at_most(vsnprintf(line + bytes, sizeof line - bytes, format, args),
			 sizeof line - bytes);
	text_tame(line); /* what a peer sent makes no second line, and moves no terminal */
	if (!send_line(level, line + text)) {
		line[bytes++] = '\n'; /* over the terminating zero */
		write_line(line, bytes);
	}
	errno = errno_before;
}

#define LOG_BODY(level)                         \
	do {                                    \
		va_list args;                   \
		va_start(args, format);         \
		log_args(level, format, args);  \
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
