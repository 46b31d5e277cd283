/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * property.h -- property files as YCSB reads them (those of Java): key=value,
 * key:value or key value, '#' and '!' comments, continued lines, escapes.
 *
 * Not thread-safe.  What is looked up is marked as known, so that
 * property_unknown() can tell what nobody asked for.
 */
#ifndef BENCH_WORKLOAD_PROPERTY_H
#define BENCH_WORKLOAD_PROPERTY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

struct properties;

/* NULL: no memory. */
struct properties *properties_new(void);
void properties_delete(struct properties **properties);

/* Adds a file's; later ones win.  0, or -1 after setting err ("FILE:LINE: ..."). */
int properties_read(struct properties *p, const char *path, struct err *err);

/* Adds "key=value" of the command line, which wins over every file. */
int properties_set(struct properties *p, const char *text, struct err *err);

/* NULL if not there.  The value lives with the properties. */
const char *properties_get(struct properties *p, const char *key);

/*
 * Each leaves *value as it is if the key is not there, and returns -1 after
 * setting err if its value is not of the kind or out of range.
 */
int properties_get_number(struct properties *p, const char *key, uint64_t min, uint64_t max,
			  uint64_t *value, struct err *err);
int properties_get_real(struct properties *p, const char *key, double min, double max,
			double *value, struct err *err);
int properties_get_bool(struct properties *p, const char *key, bool *value, struct err *err);
/* names: NULL-terminated; *value becomes the index. */
int properties_get_choice(struct properties *p, const char *key, const char *const *names,
			  int *value, struct err *err);

/* Calls each for every property in order of first appearance. */
void properties_each(const struct properties *p,
		     void (*each)(void *arg, const char *key, const char *value, bool known),
		     void *arg);

#endif
