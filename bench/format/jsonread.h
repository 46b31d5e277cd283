/* SPDX-License-Identifier: BSD-2-Clause */
/* jsonread.h -- a JSON text as a tree: kvd's figures, and kvbench's own reports. */
#ifndef BENCH_FORMAT_JSONREAD_H
#define BENCH_FORMAT_JSONREAD_H

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"

enum jsonread_kind {
	JSONREAD_NULL,
	JSONREAD_BOOL,
	JSONREAD_NUMBER,
	JSONREAD_STRING,
	JSONREAD_ARRAY,
	JSONREAD_OBJECT
};

/* Every level nests within the next, down to a limit of 64. */
struct jsonread {
	enum jsonread_kind kind;
	double number; /* bool: 0 or 1 */
	char *text;    /* JSONREAD_STRING; UTF-8 */
	char *key;     /* as a member of an object */
	struct jsonread *first; /* members */
	struct jsonread *next;
};

/* The tree of a whole text; NULL after setting err, which may be NULL. */
struct jsonread *jsonread_new(const char *text, struct err *err);

/* The same of a file. */
struct jsonread *jsonread_new_file(const char *path, struct err *err);
void jsonread_delete(struct jsonread **json);

/* A member by names with dots between; NULL if it isn't there or json is NULL. */
const struct jsonread *jsonread_path(const struct jsonread *json, const char *path);
const struct jsonread *jsonread_member(const struct jsonread *json, const char *key);

/* What is there, or `otherwise`; json may be NULL. */
double jsonread_number(const struct jsonread *json, double otherwise);
const char *jsonread_string(const struct jsonread *json, const char *otherwise);

#endif
