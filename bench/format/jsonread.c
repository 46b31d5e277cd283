/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/format/jsonread.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 64
#define FILE_BYTES_MAX (64u << 20)

struct parser {
	const char *text;
	const char *at;
	int depth;
	const char *wrong; /* what was wanted at `at`, once something is wrong */
};

static struct jsonread *parse_value(struct parser *p);

static void skip_space(struct parser *p)
{
	p->at += strspn(p->at, " \t\r\n");
}

static bool fail(struct parser *p, const char *wanted)
{
	if (p->wrong == NULL)
		p->wrong = wanted;
	return false;
}

static bool take(struct parser *p, char c, const char *wanted)
{
	skip_space(p);
	if (*p->at != c)
		return fail(p, wanted);
	p->at++;
	return true;
}

/* ------------------------------------------------------------------- strings */

static bool parse_hex(struct parser *p, unsigned *code)
{
	*code = 0;
	for (int i = 0; i < 4; i++) {
		char c = *p->at;
		if (!isxdigit((unsigned char)c))
			return fail(p, "four hexadecimal digits");
		*code = 16 * *code + (unsigned)(isdigit((unsigned char)c) ? c - '0' : (c | 32) - 'a' + 10);
		p->at++;
	}
	return true;
}

static char *put_utf8(char *out, unsigned code)
{
	if (code < 0x80) {
		*out++ = (char)code;
	} else if (code < 0x800) {
		*out++ = (char)(0xc0 | code >> 6);
		*out++ = (char)(0x80 | (code & 63));
	} else if (code < 0x10000) {
		*out++ = (char)(0xe0 | code >> 12);
		*out++ = (char)(0x80 | (code >> 6 & 63));
		*out++ = (char)(0x80 | (code & 63));
	} else {
		*out++ = (char)(0xf0 | code >> 18);
		*out++ = (char)(0x80 | (code >> 12 & 63));
		*out++ = (char)(0x80 | (code >> 6 & 63));
		*out++ = (char)(0x80 | (code & 63));
	}
	return out;
}

/* Behind "\u"; a pair of surrogates is one character, a lone one is U+FFFD. */
static bool parse_unicode(struct parser *p, char **out)
{
	unsigned code, low;

	if (!parse_hex(p, &code))
		return false;
	if (code >= 0xd800 && code < 0xdc00 && p->at[0] == '\\' && p->at[1] == 'u') {
		p->at += 2;
		if (!parse_hex(p, &low))
			return false;
		code = low >= 0xdc00 && low < 0xe000
			       ? 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00)
			       : 0xfffd;
	} else if (code >= 0xd800 && code < 0xe000) {
		code = 0xfffd;
	}
	*out = put_utf8(*out, code);
	return true;
}

static bool parse_escape(struct parser *p, char **out)
{
	static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
	char c = *p->at;
	const char *found = c != '\0' ? strchr(names, c) : NULL;

	if (c == 'u') {
		p->at++;
		return parse_unicode(p, out);
	}
	if (found == NULL)
		return fail(p, "an escape such as \\n");
	p->at++;
	*(*out)++ = values[found - names];
	return true;
}

/* As it stands in the text, up to the closing quote: no escape is shorter than
 * what it stands for. */
static size_t string_bytes(const char *at)
{
	size_t bytes = 0;

	while (at[bytes] != '\0' && at[bytes] != '"')
		bytes += at[bytes] == '\\' && at[bytes + 1] != '\0' ? 2 : 1;
	return bytes;
}

/* Allocated; NULL if it is none. */
static char *parse_string(struct parser *p)
{
	char *text, *out;

	if (!take(p, '"', "a string"))
		return NULL;
	text = out = malloc(string_bytes(p->at) + 1);
	if (text == NULL) {
		fail(p, "memory");
		return NULL;
	}
	while (*p->at != '"') {
		bool good = true;
		if ((unsigned char)*p->at < ' ')
			good = fail(p, "the end of a string");
		else if (*p->at == '\\')
			p->at++, good = parse_escape(p, &out);
		else
			*out++ = *p->at++;
		if (!good) {
			free(text);
			return NULL;
		}
	}
	p->at++;
	*out = '\0';
	return text;
}

/* -------------------------------------------------------------------- values */

static bool parse_number(struct parser *p, struct jsonread *json)
{
	size_t bytes = strspn(p->at, "+-0123456789.eE");
	char digits[64], *end;

	if (bytes == 0 || bytes >= sizeof digits || *p->at == '+' || *p->at == '.')
		return fail(p, "a value");
	memcpy(digits, p->at, bytes);
	digits[bytes] = '\0';
	json->kind = JSONREAD_NUMBER;
	json->number = strtod(digits, &end);
	if (*end != '\0')
		return fail(p, "a number");
	p->at += bytes;
	return true;
}

static bool parse_word(struct parser *p, struct jsonread *json)
{
	static const struct {
		const char *word;
		enum jsonread_kind kind;
		double number;
	} words[] = {
		{ "null", JSONREAD_NULL, 0 },
		{ "false", JSONREAD_BOOL, 0 },
		{ "true", JSONREAD_BOOL, 1 },
	};

	for (int i = 0; i < 3; i++) {
		size_t bytes = strlen(words[i].word);
		if (strncmp(p->at, words[i].word, bytes) != 0)
			continue;
		p->at += bytes;
		json->kind = words[i].kind;
		json->number = words[i].number;
		return true;
	}
	return parse_number(p, json);
}

static bool parse_member(struct parser *p, bool named, struct jsonread **end)
{
	char *key = NULL;

	if (named) {
		key = parse_string(p);
		if (key == NULL || !take(p, ':', "':'")) {
			free(key);
			return false;
		}
	}
	*end = parse_value(p);
	if (*end == NULL) {
		free(key);
		return false;
	}
	(*end)->key = key;
	return true;
}

static bool parse_members(struct parser *p, struct jsonread *json)
{
	bool named = *p->at == '{';
	char close = named ? '}' : ']';
	struct jsonread **end = &json->first;

	json->kind = named ? JSONREAD_OBJECT : JSONREAD_ARRAY;
	p->at++;
	skip_space(p);
	if (*p->at == close) {
		p->at++;
		return true;
	}
	for (;;) {
		if (!parse_member(p, named, end))
			return false;
		end = &(*end)->next;
		skip_space(p);
		if (*p->at != ',')
			break;
		p->at++;
	}
	return take(p, close, named ? "',' or '}'" : "',' or ']'");
}

static struct jsonread *parse_value(struct parser *p)
{
	struct jsonread *json = calloc(1, sizeof *json);
	bool good;

	if (json == NULL) {
		fail(p, "memory");
		return NULL;
	}
	skip_space(p);
	if (++p->depth > DEPTH_MAX) {
		good = fail(p, "fewer levels");
	} else if (*p->at == '{' || *p->at == '[') {
		good = parse_members(p, json);
	} else if (*p->at == '"') {
		json->kind = JSONREAD_STRING;
		json->text = parse_string(p);
		good = json->text != NULL;
	} else {
		good = parse_word(p, json);
	}
	p->depth--;
	if (!good)
		jsonread_delete(&json);
	return json;
}

struct jsonread *jsonread_new(const char *text, struct err *err)
{
	struct parser p = { .text = text, .at = text };
	struct jsonread *json = parse_value(&p);

	skip_space(&p);
	if (json != NULL && *p.at != '\0') {
		fail(&p, "the end");
		jsonread_delete(&json);
	}
	if (json == NULL && err != NULL)
		err_set(err, -1, "not JSON: byte %zu should be %s", (size_t)(p.at - p.text),
			p.wrong);
	return json;
}

static char *read_file(const char *path, struct err *err)
{
	FILE *file = fopen(path, "re");
	char *text = NULL;
	size_t bytes = 0, got;

	if (file == NULL) {
		err_set_errno(err, -1, errno, "cannot open %s", path);
		return NULL;
	}
	do {
		char *grown = bytes < FILE_BYTES_MAX ? realloc(text, bytes + 65537) : NULL;
		if (grown == NULL) {
			err_set(err, -1, "%s: too large", path);
			goto fail;
		}
		text = grown;
		got = fread(text + bytes, 1, 65536, file);
		bytes += got;
	} while (got > 0);
	text[bytes] = '\0';
	if (!ferror(file)) {
		fclose(file);
		return text;
	}
	err_set_errno(err, -1, errno, "cannot read %s", path);
fail:
	fclose(file);
	free(text);
	return NULL;
}

struct jsonread *jsonread_new_file(const char *path, struct err *err)
{
	char *text = read_file(path, err);
	struct jsonread *json;
	struct err why;

	if (text == NULL)
		return NULL;
	json = jsonread_new(text, &why);
	free(text);
	if (json == NULL)
		err_set(err, -1, "%s: %.300s", path, why.text);
	return json;
}

void jsonread_delete(struct jsonread **json)
{
	struct jsonread *at, *next;

	if (*json == NULL)
		return;
	for (at = (*json)->first; at != NULL; at = next) {
		next = at->next;
		jsonread_delete(&at);
	}
	free((*json)->key);
	free((*json)->text);
	free(*json);
	*json = NULL;
}

/* -------------------------------------------------------------------- access */

static const struct jsonread *member(const struct jsonread *json, const char *key, size_t bytes)
{
	const struct jsonread *at = NULL;

	if (json != NULL && json->kind == JSONREAD_OBJECT)
		at = json->first;
	while (at != NULL && (strncmp(at->key, key, bytes) != 0 || at->key[bytes] != '\0'))
		at = at->next;
	return at;
}

const struct jsonread *jsonread_member(const struct jsonread *json, const char *key)
{
	return member(json, key, strlen(key));
}

const struct jsonread *jsonread_path(const struct jsonread *json, const char *path)
{
	while (json != NULL && *path != '\0') {
		size_t bytes = strcspn(path, ".");
		json = member(json, path, bytes);
		path += bytes + (path[bytes] == '.');
	}
	return json;
}

double jsonread_number(const struct jsonread *json, double otherwise)
{
	return json != NULL && json->kind == JSONREAD_NUMBER ? json->number : otherwise;
}

const char *jsonread_string(const struct jsonread *json, const char *otherwise)
{
	return json != NULL && json->kind == JSONREAD_STRING ? json->text : otherwise;
}
