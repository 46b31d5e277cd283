/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/workload/property.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct property {
	struct property *next;
	char *key;
	char *value;
	bool set;   /* on the command line */
	bool known; /* somebody asked for it */
};

struct properties {
	struct property *first;
	struct property **end;
};

struct properties *properties_new(void)
{
	struct properties *p = calloc(1, sizeof *p);

	if (p != NULL)
		p->end = &p->first;
	return p;
}

static void property_free(struct property *property)
{
	free(property->key);
	free(property->value);
	free(property);
}

void properties_delete(struct properties **properties)
{
	struct property *at, *next;

	if (*properties == NULL)
		return;
	for (at = (*properties)->first; at != NULL; at = next) {
		next = at->next;
		property_free(at);
	}
	free(*properties);
	*properties = NULL;
}

static struct property *find(const struct properties *p, const char *key)
{
	for (struct property *at = p->first; at != NULL; at = at->next) {
		if (strcmp(at->key, key) == 0)
			return at;
	}
	return NULL;
}

static struct property *append(struct properties *p, const char *key)
{
	struct property *property = calloc(1, sizeof *property);

	if (property == NULL)
		return NULL;
	property->key = strdup(key);
	if (property->key == NULL) {
		free(property);
		return NULL;
	}
	*p->end = property;
	p->end = &property->next;
	return property;
}

static int put(struct properties *p, const char *key, const char *value, bool set, struct err *err)
{
	struct property *property = find(p, key);
	char *copy;

	if (property == NULL)
		property = append(p, key);
	if (property == NULL)
		return err_set(err, -1, "out of memory");
	if (property->set && !set)
		return 0;
	copy = strdup(value);
	if (copy == NULL)
		return err_set(err, -1, "out of memory");
	free(property->value);
	property->value = copy;
	property->set = set;
	return 0;
}

/* ----------------------------------------------------------------- reading */

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\f';
}

/* The character behind a backslash; advances *at over it. */
static char unescape(const char **at)
{
	char c = *(*at)++;
	unsigned code;

	switch (c) {
	case 't':
		return '\t';
	case 'n':
		return '\n';
	case 'r':
		return '\r';
	case 'f':
		return '\f';
	case 'u':
		/* Nothing of ours is beyond Latin-1. */
		if (sscanf(*at, "%4x", &code) == 1 && strspn(*at, "0123456789abcdefABCDEF") >= 4) {
			*at += 4;
			return (char)code;
		}
		return c;
	default:
		return c;
	}
}

/* Copies up to an unescaped character of `ends`, or the end; returns where. */
static const char *copy_until(const char *at, const char *ends, char *out)
{
	while (*at != '\0' && strchr(ends, *at) == NULL) {
		char c = *at++;
		*out++ = c == '\\' && *at != '\0' ? unescape(&at) : c;
	}
	*out = '\0';
	return at;
}

static void trim_end(char *text)
{
	size_t bytes = strlen(text);

	while (bytes > 0 && isspace((unsigned char)text[bytes - 1]))
		text[--bytes] = '\0';
}

/* `line` is a whole logical line without leading blanks; it is not changed. */
static int put_line(struct properties *p, const char *line, bool set, struct err *err)
{
	size_t bytes = strlen(line) + 1;
	char *key = malloc(bytes), *value = malloc(bytes);
	int rc = -1;

	if (key == NULL || value == NULL) {
		err_set(err, -1, "out of memory");
		goto out;
	}
	line = copy_until(line, "=: \t\f", key);
	while (is_blank(*line))
		line++;
	if (*line == '=' || *line == ':')
		line++;
	while (is_blank(*line))
		line++;
	copy_until(line, "", value);
	trim_end(value);
	if (*key == '\0')
		err_set(err, -1, "a property without a name");
	else
		rc = put(p, key, value, set, err);
out:
	free(key);
	free(value);
	return rc;
}

/* An odd number of backslashes at the end continues the line. */
static bool is_continued(const char *line, size_t bytes)
{
	size_t slashes = 0;

	while (slashes < bytes && line[bytes - 1 - slashes] == '\\')
		slashes++;
	return slashes % 2 == 1;
}

struct reader {
	FILE *file;
	char *line;
	size_t line_bytes;
	char *logical; /* what is continued so far */
	size_t logical_bytes;
	int number;
};

/* Appends a line's text; 1: more to come, 0: complete, -1: no memory. */
static int add_line(struct reader *r)
{
	char *text = r->line;
	size_t bytes = strcspn(text, "\r\n");
	bool continued;
	char *grown;

	while (bytes > 0 && is_blank(*text)) {
		text++;
		bytes--;
	}
	if (r->logical_bytes == 0 && (*text == '#' || *text == '!'))
		bytes = 0;
	continued = is_continued(text, bytes);
	grown = realloc(r->logical, r->logical_bytes + bytes + 1);
	if (grown == NULL)
		return -1;
	r->logical = grown;
	memcpy(grown + r->logical_bytes, text, bytes);
	r->logical_bytes += bytes - continued;
	grown[r->logical_bytes] = '\0';
	return continued;
}

static int read_lines(struct properties *p, struct reader *r, struct err *err)
{
	int more = 0;

	while (getline(&r->line, &r->line_bytes, r->file) >= 0) {
		r->number++;
		more = add_line(r);
		if (more < 0)
			return err_set(err, -1, "out of memory");
		if (more > 0)
			continue;
		if (r->logical_bytes > 0 && put_line(p, r->logical, false, err) < 0)
			return -1;
		r->logical_bytes = 0;
	}
	if (r->logical_bytes > 0) /* continued by the end of the file */
		return put_line(p, r->logical, false, err);
	return 0;
}

int properties_read(struct properties *p, const char *path, struct err *err)
{
	struct reader r = { .file = fopen(path, "re") };
	struct err why;
	int rc;

	if (r.file == NULL)
		return err_set_errno(err, -1, errno, "cannot open the property file %s", path);
	errno = 0;
	rc = read_lines(p, &r, &why);
	if (rc < 0)
		err_set(err, -1, "%s:%d: %.300s", path, r.number, why.text);
	else if (ferror(r.file))
		rc = err_set_errno(err, -1, errno, "cannot read the property file %s", path);
	fclose(r.file);
	free(r.line);
	free(r.logical);
	return rc;
}

int properties_set(struct properties *p, const char *text, struct err *err)
{
	if (strchr(text, '=') == NULL)
		return err_set(err, -1, "-p: '%s' is not of the form NAME=VALUE", text);
	return put_line(p, text, true, err);
}

/* ------------------------------------------------------------------ values */

const char *properties_get(struct properties *p, const char *key)
{
	struct property *property = find(p, key);

	if (property == NULL)
		return NULL;
	property->known = true;
	return property->value;
}

int properties_get_number(struct properties *p, const char *key, uint64_t min, uint64_t max,
			  uint64_t *value, struct err *err)
{
	const char *text = properties_get(p, key);
	unsigned long long number;
	char *end;

	if (text == NULL)
		return 0;
	errno = 0;
	number = strtoull(text, &end, 10);
	if (!isdigit((unsigned char)*text) || *end != '\0' || errno != 0 || number < min ||
	    number > max)
		return err_set(err, -1, "property %s: '%s' is not a whole number from %llu to %llu",
			       key, text, (unsigned long long)min, (unsigned long long)max);
	*value = number;
	return 0;
}

int properties_get_real(struct properties *p, const char *key, double min, double max,
			double *value, struct err *err)
{
	const char *text = properties_get(p, key);
	double number;
	char *end;

	if (text == NULL)
		return 0;
	number = strtod(text, &end);
	if (end == text || *end != '\0' || !isfinite(number) || number < min || number > max)
		return err_set(err, -1, "property %s: '%s' is not a number from %g to %g", key,
			       text, min, max);
	*value = number;
	return 0;
}

int properties_get_bool(struct properties *p, const char *key, bool *value, struct err *err)
{
	const char *text = properties_get(p, key);

	if (text == NULL)
		return 0;
	if (strcasecmp(text, "true") != 0 && strcasecmp(text, "false") != 0)
		return err_set(err, -1, "property %s: '%s' is not true or false", key, text);
	*value = strcasecmp(text, "true") == 0;
	return 0;
}

int properties_get_choice(struct properties *p, const char *key, const char *const *names,
			  int *value, struct err *err)
{
	const char *text = properties_get(p, key);
	char list[160] = "";
	size_t used = 0;

	if (text == NULL)
		return 0;
	for (int i = 0; names[i] != NULL; i++) {
		if (strcmp(text, names[i]) == 0) {
			*value = i;
			return 0;
		}
		if (used < sizeof list)
			used += (size_t)snprintf(list + used, sizeof list - used, "%s%s",
						 i > 0 ? ", " : "", names[i]);
	}
	return err_set(err, -1, "property %s: '%s' is none of %s", key, text, list);
}

void properties_each(const struct properties *p,
		     void (*each)(void *arg, const char *key, const char *value, bool known),
		     void *arg)
{
	for (const struct property *at = p->first; at != NULL; at = at->next)
		each(arg, at->key, at->value, at->known);
}
