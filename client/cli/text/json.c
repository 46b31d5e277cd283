/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/cli/text/json.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define DEPTH_MAX 16

struct reader {
	const char *at;
	char path[256];
	char text[256];
	int depth;
	void (*each)(void *arg, const char *path, const char *value);
	void *arg;
};

static bool read_value(struct reader *r);

static void skip(struct reader *r)
{
	r->at += strspn(r->at, " \t\r\n");
}

static bool take(struct reader *r, char c)
{
	skip(r);
	if (*r->at != c)
		return false;
	r->at++;
	return true;
}

static void append(char text[256], size_t *bytes, char c)
{
	if (*bytes < 255)
		text[(*bytes)++] = (unsigned char)c < ' ' || c == 0x7f ? '?' : c;
	text[*bytes] = '\0';
}

static bool read_string(struct reader *r)
{
	size_t bytes = 0;

	r->text[0] = '\0';
	if (!take(r, '"'))
		return false;
	for (; *r->at && *r->at != '"'; r->at++) {
		if (*r->at != '\\') {
			append(r->text, &bytes, *r->at);
			continue;
		}
		r->at++;
		if (*r->at == '\0')
			return false;
		append(r->text, &bytes, strchr("\"\\/", *r->at) ? *r->at : '?');
		if (*r->at == 'u' && strspn(r->at + 1, "0123456789abcdefABCDEF") >= 4)
			r->at += 4;
	}
	return take(r, '"');
}

static bool read_bare(struct reader *r)
{
	size_t bytes = strcspn(r->at, ",]} \t\r\n"), used = 0;
	const char *known = "-0123456789tfn";

	if (bytes == 0 || !strchr(known, *r->at))
		return false;
	r->text[0] = '\0';
	for (size_t i = 0; i < bytes; i++)
		append(r->text, &used, *r->at++);
	return true;
}

/* Reads one member, whose name goes behind the path meanwhile. */
static bool read_member(struct reader *r, const char *name)
{
	size_t bytes = strlen(r->path);
	int added = snprintf(r->path + bytes, sizeof r->path - bytes, "%s%s", bytes ? "." : "",
			     name);
	bool good = (size_t)added < sizeof r->path - bytes && read_value(r);

	r->path[bytes] = '\0';
	return good;
}

static bool read_object(struct reader *r)
{
	char name[256];

	if (take(r, '}'))
		return true;
	do {
		if (!read_string(r))
			return false;
		memcpy(name, r->text, sizeof name);
		if (!take(r, ':') || !read_member(r, name))
			return false;
	} while (take(r, ','));
	return take(r, '}');
}

static bool read_array(struct reader *r)
{
	char name[16];
	unsigned i = 0;

	if (take(r, ']'))
		return true;
	do {
		snprintf(name, sizeof name, "%u", i++);
		if (!read_member(r, name))
			return false;
	} while (take(r, ','));
	return take(r, ']');
}

static bool read_nested(struct reader *r, bool (*read)(struct reader *r))
{
	bool good;

	r->at++;
	if (r->depth == DEPTH_MAX)
		return false;
	r->depth++;
	good = read(r);
	r->depth--;
	return good;
}

static bool read_value(struct reader *r)
{
	bool good;

	skip(r);
	if (*r->at == '{')
		return read_nested(r, read_object);
	if (*r->at == '[')
		return read_nested(r, read_array);
	good = *r->at == '"' ? read_string(r) : read_bare(r);
	if (good)
		r->each(r->arg, r->path, r->text);
	return good;
}

bool cli_json_each(const char *json,
		   void (*each)(void *arg, const char *path, const char *value), void *arg)
{
	struct reader r = { .at = json, .each = each, .arg = arg };

	if (!read_value(&r))
		return false;
	skip(&r);
	return *r.at == '\0';
}
