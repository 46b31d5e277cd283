/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "common/text.h"

/* The length of what stands in the text: vsnprintf tells what it wanted. */
__attribute__((format(printf, 2, 0)))
static size_t set_text(struct err *err, const char *format, va_list args)
{
	int wanted = vsnprintf(err->text, sizeof err->text, format, args);

	if (wanted < 0) {
		err->text[0] = '\0';
		return 0;
	}
	text_tame(err->text); /* names and texts of others may be in it */
	return (size_t)wanted < sizeof err->text ? (size_t)wanted : sizeof err->text - 1;
}

int err_set(struct err *err, int code, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	set_text(err, format, args);
	va_end(args);
	return code;
}

int err_set_errno(struct err *err, int code, int errno_value, const char *format, ...)
{
	int before = errno;
	va_list args;
	size_t used;

	va_start(args, format);
	used = set_text(err, format, args);
	va_end(args);
	/* %m: there are two strerror_r(), and which one it is differs among C libraries. */
	errno = errno_value;
	snprintf(err->text + used, sizeof err->text - used, ": %m");
	errno = before;
	return code;
}
