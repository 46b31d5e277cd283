/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/cli/file/dump_json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/cli/text/json_write.h"
#include "client/kvd.h"

/* ------------------------------------------------------------------ writing */

bool dump_json_write(struct cli_buffer *buffer, const struct dump_item *item)
{
	/* Six characters for a byte at the most. */
	if (!cli_buffer_room(buffer, 6 * (item->key_bytes + item->value_bytes) + 192))
		return false;
	char *begin = (char *)buffer->data + buffer->used, *at = begin;
	*at++ = '{';
	at = cli_json_put(at, "key", item->key, item->key_bytes);
	*at++ = ',';
	at = cli_json_put(at, "value", item->value, item->value_bytes);
	if (item->ttl_ms)
		at += sprintf(at, ",\"ttl_ms\":%" PRIu64, item->ttl_ms);
	if (item->flags)
		at += sprintf(at, ",\"flags\":%" PRIu32, item->flags);
	if (item->signs & KVD_STALE)
		at += sprintf(at, ",\"stale\":true");
	if (item->signs & KVD_CLAIMED)
		at += sprintf(at, ",\"claimed\":true");
	*at++ = '}';
	*at++ = '\n';
	buffer->used += (size_t)(at - begin);
	return true;
}

/* ------------------------------------------------------------------ reading */

struct cursor {
	const char *at, *end;
	const char *wrong; /* NULL: nothing yet */
};

static void skip_blanks(struct cursor *c)
{
	while (c->at < c->end && strchr(" \t\r\n", *c->at) && *c->at)
		c->at++;
}

static bool eat(struct cursor *c, char what)
{
	skip_blanks(c);
	if (c->at < c->end && *c->at == what) {
		c->at++;
		return true;
	}
	return false;
}

static bool hex4(struct cursor *c, uint32_t *value)
{
	*value = 0;
	if (c->end - c->at < 4)
		return false;
	for (int i = 0; i < 4; i++) {
		char d = *c->at++;
		uint32_t n = d >= '0' && d <= '9' ? (uint32_t)(d - '0')
			     : d >= 'a' && d <= 'f' ? (uint32_t)(d - 'a' + 10)
			     : d >= 'A' && d <= 'F' ? (uint32_t)(d - 'A' + 10) : 16;
		if (n == 16)
			return false;
		*value = *value << 4 | n;
	}
	return true;
}

static uint8_t *encode(uint8_t *to, uint32_t c)
{
	if (c < 0x80) {
		*to++ = (uint8_t)c;
		return to;
	}
	if (c < 0x800) {
		*to++ = (uint8_t)(0xc0 | c >> 6);
	} else {
		if (c < 0x10000) {
			*to++ = (uint8_t)(0xe0 | c >> 12);
		} else {
			*to++ = (uint8_t)(0xf0 | c >> 18);
			*to++ = (uint8_t)(0x80 | (c >> 12 & 63));
		}
		*to++ = (uint8_t)(0x80 | (c >> 6 & 63));
	}
	*to++ = (uint8_t)(0x80 | (c & 63));
	return to;
}

/* Behind "\u". */
static bool escaped(struct cursor *c, uint32_t *code)
{
	uint32_t low;

	if (!hex4(c, code))
		return false;
	if (*code >= 0xdc00 && *code < 0xe000)
		return false;
	if (*code < 0xd800 || *code >= 0xdc00)
		return true;
	if (c->end - c->at < 2 || c->at[0] != '\\' || c->at[1] != 'u')
		return false;
	c->at += 2;
	if (!hex4(c, &low) || low < 0xdc00 || low >= 0xe000)
		return false;
	*code = 0x10000 + ((*code - 0xd800) << 10) + (low - 0xdc00);
	return true;
}

/* A string, decoded to `to`, which has room for the rest of the line; NULL: it is none. */
static uint8_t *read_string(struct cursor *c, uint8_t *to)
{
	static const char names[] = "\"\\/bfnrt", named[] = "\"\\/\b\f\n\r\t";
	uint32_t code;

	if (!eat(c, '"'))
		return NULL;
	while (c->at < c->end && *c->at != '"') {
		if ((unsigned char)*c->at < ' ')
			return NULL;
		if (*c->at != '\\') {
			*to++ = (uint8_t)*c->at++;
			continue;
		}
		if (++c->at == c->end)
			return NULL;
		char name = *c->at++;
		const char *found = name ? strchr(names, name) : NULL;
		if (found)
			*to++ = (uint8_t)named[found - names];
		else if (name == 'u' && escaped(c, &code))
			to = encode(to, code);
		else
			return NULL;
	}
	if (c->at == c->end)
		return NULL;
	c->at++;
	return to;
}

/* Decodes in place; false if it is no base64. */
static bool decode64(uint8_t *data, size_t *bytes)
{
	size_t used = 0;
	uint32_t v = 0;

	if (*bytes % 4)
		return false;
	for (size_t i = 0; i < *bytes; i++) {
		const char *found = data[i] ? strchr(cli_json_digits64, data[i]) : NULL;
		bool pad = data[i] == '=' && i + 2 >= *bytes && (i + 1 == *bytes || data[i + 1] == '=');
		if (!found && !pad)
			return false;
		v = v << 6 | (found ? (uint32_t)(found - cli_json_digits64) : 0);
		if (i % 4 < 3)
			continue;
		data[used++] = (uint8_t)(v >> 16);
		if (data[i - 1] != '=')
			data[used++] = (uint8_t)(v >> 8);
		if (data[i] != '=')
			data[used++] = (uint8_t)v;
		v = 0;
	}
	*bytes = used;
	return true;
}

static bool is_name(const uint8_t *name, size_t bytes, const char *want)
{
	return bytes == strlen(want) && memcmp(name, want, bytes) == 0;
}

static bool read_number(struct cursor *c, uint64_t *number)
{
	skip_blanks(c);
	if (c->at == c->end || *c->at < '0' || *c->at > '9')
		return false;
	for (*number = 0; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++) {
		if (*number > KVD_TTL_MS_MAX)
			return false;
		*number = *number * 10 + (uint64_t)(*c->at - '0');
	}
	return *number <= KVD_TTL_MS_MAX;
}

/* A number, true, false, null. */
static bool skip_plain(struct cursor *c)
{
	const char *begin;

	skip_blanks(c);
	begin = c->at;
	while (c->at < c->end && *c->at && !strchr(",}[]{\" \t", *c->at))
		c->at++;
	return c->at > begin;
}

static bool read_flags(struct cursor *c, uint32_t *flags)
{
	uint64_t number;

	if (!read_number(c, &number) || number > UINT32_MAX)
		return false;
	*flags = (uint32_t)number;
	return true;
}

/* true or false */
static bool read_sign(struct cursor *c, int sign, int *signs)
{
	const char *begin;

	skip_blanks(c);
	begin = c->at;
	if (!skip_plain(c))
		return false;
	if (c->at - begin == 4 && !memcmp(begin, "true", 4))
		*signs |= sign;
	else if (c->at - begin != 5 || memcmp(begin, "false", 5))
		return false;
	return true;
}

/* One member's value; what it is for goes into the item. */
static bool take_member(struct cursor *c, const uint8_t *name, size_t name_bytes, uint8_t **free_at,
			struct dump_item *item)
{
	bool key64 = is_name(name, name_bytes, "key_base64");
	bool value64 = is_name(name, name_bytes, "value_base64");
	bool key = key64 || is_name(name, name_bytes, "key");
	bool value = value64 || is_name(name, name_bytes, "value");
	uint8_t *begin = *free_at, *end;
	size_t bytes;

	skip_blanks(c);
	if (is_name(name, name_bytes, "ttl_ms"))
		return read_number(c, &item->ttl_ms);
	if (is_name(name, name_bytes, "flags"))
		return read_flags(c, &item->flags);
	if (is_name(name, name_bytes, "stale"))
		return read_sign(c, KVD_STALE, &item->signs);
	if (is_name(name, name_bytes, "claimed"))
		return read_sign(c, KVD_CLAIMED, &item->signs);
	if (c->at == c->end || *c->at != '"')
		return !key && !value && skip_plain(c);
	end = read_string(c, begin);
	if (!end)
		return false;
	bytes = (size_t)(end - begin);
	if ((key64 || value64) && !decode64(begin, &bytes))
		return false;
	if (key && !item->key) {
		item->key = begin;
		item->key_bytes = bytes;
	} else if (value && !item->value) {
		item->value = begin;
		item->value_bytes = bytes;
	} else if (key || value) {
		return false; /* told twice */
	}
	*free_at = end;
	return true;
}

static bool read_object(struct cursor *c, uint8_t *text, struct dump_item *item)
{
	if (!eat(c, '{'))
		return false;
	for (bool first = true; !eat(c, '}'); first = false) {
		uint8_t *name = text;
		if (!first && !eat(c, ','))
			return false;
		text = read_string(c, name);
		if (!text || !eat(c, ':'))
			return false;
		if (!take_member(c, name, (size_t)(text - name), &text, item))
			return false;
	}
	skip_blanks(c);
	return c->at == c->end;
}

bool dump_json_read(struct cli_buffer *text, const char *line, size_t line_bytes,
		    struct dump_item *item, char *why, size_t why_bytes)
{
	struct cursor c = { .at = line, .end = line + line_bytes };

	*item = (struct dump_item){ 0 };
	/* What is decoded is never longer than the line. */
	if (!cli_buffer_room(text, line_bytes + 1)) {
		snprintf(why, why_bytes, "%s", strerror(ENOMEM));
		return false;
	}
	if (!read_object(&c, text->data, item))
		snprintf(why, why_bytes,
			 "it is no object with key and value in JSON, at its character %zu",
			 (size_t)(c.at - line) + 1);
	else if (!item->key || !item->value)
		snprintf(why, why_bytes, "it has no %s", item->key ? "value" : "key");
	else if (!item->key_bytes || item->key_bytes > KVD_KEY_BYTES_MAX ||
		 item->value_bytes > KVD_VALUE_BYTES_MAX)
		snprintf(why, why_bytes, "its key or value is over the limit, or the key is empty");
	else
		return true;
	return false;
}
