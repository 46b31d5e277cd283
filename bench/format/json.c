/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/format/json.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static void write_escaped(FILE *file, const char *bytes, size_t count, bool text)
{
	putc_unlocked('"', file);
	for (size_t i = 0; i < count; i++) {
		unsigned char c = (unsigned char)bytes[i];
		if (c == '"' || c == '\\')
			fprintf(file, "\\%c", c);
		else if (c < ' ' || c == 127 || (c > 127 && !text))
			fprintf(file, "\\u%04x", c);
		else
			putc_unlocked(c, file);
	}
	putc_unlocked('"', file);
}

void json_write_bytes(FILE *file, const char *bytes, size_t count)
{
	write_escaped(file, bytes, count, false);
}

static void begin_line(struct json *j)
{
	if (j->begun)
		putc(',', j->file);
	if (j->flat > 0) {
		if (j->begun)
			putc(' ', j->file);
	} else if (j->depth > 0) {
		fprintf(j->file, "\n%*s", 2 * j->depth, "");
	}
	j->begun = true;
}

static void begin_member(struct json *j, const char *key)
{
	begin_line(j);
	if (key == NULL)
		return;
	write_escaped(j->file, key, strlen(key), true);
	fputs(": ", j->file);
}

void json_open(struct json *j, const char *key, char bracket)
{
	begin_member(j, key);
	putc(bracket, j->file);
	j->depth++;
	if (j->flat > 0)
		j->flat++;
	j->begun = false;
}

void json_open_flat(struct json *j, const char *key, char bracket)
{
	json_open(j, key, bracket);
	if (j->flat == 0)
		j->flat = 1;
}

void json_close(struct json *j, char bracket)
{
	bool empty = !j->begun;

	j->depth--;
	if (j->flat > 0)
		j->flat--;
	else if (!empty)
		fprintf(j->file, "\n%*s", 2 * j->depth, "");
	putc(bracket == '{' ? '}' : ']', j->file);
	j->begun = true;
	if (j->depth == 0)
		putc('\n', j->file);
}

void json_string(struct json *j, const char *key, const char *value)
{
	begin_member(j, key);
	write_escaped(j->file, value, strlen(value), true);
}

void json_count(struct json *j, const char *key, uint64_t value)
{
	begin_member(j, key);
	fprintf(j->file, "%" PRIu64, value);
}

void json_real(struct json *j, const char *key, double value, int decimals)
{
	char text[400];
	size_t bytes;

	begin_member(j, key);
	if (!isfinite(value)) {
		fputs("null", j->file);
		return;
	}
	bytes = (size_t)snprintf(text, sizeof text, "%.*f", decimals, value);
	if (strchr(text, '.') != NULL) {
		while (text[bytes - 1] == '0')
			bytes--;
		if (text[bytes - 1] == '.')
			bytes--;
	}
	fwrite(text, 1, bytes, j->file);
}

void json_literal(struct json *j, const char *key, const char *text)
{
	begin_member(j, key);
	fputs(text, j->file);
}

void json_bool(struct json *j, const char *key, bool value)
{
	begin_member(j, key);
	fputs(value ? "true" : "false", j->file);
}
