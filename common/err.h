/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * err.h -- the error sentence of a handle: what failed, on what, why, what to
 * do about it.  Not thread-safe by itself: it belongs to its handle.
 */
#ifndef COMMON_ERR_H
#define COMMON_ERR_H

#define ERR_BYTES 512

struct err {
	char text[ERR_BYTES];
};

/* Sets the sentence and returns `code`.  What could not be shown on a terminal is '?'. */
int err_set(struct err *err, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* The same with ": " and the errno value in words behind it. */
int err_set_errno(struct err *err, int code, int errno_value, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

#endif
