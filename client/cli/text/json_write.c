/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/cli/text/json_write.h"

#include <inttypes.h>
#include <string.h>

/* At a time: a multiple of 3, for base64. */
#define PIECE_BYTES 3000

const char cli_json_digits64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* ------------------------------------------------------------------ strings */

/* The length of the character at `s`, 0 if it is no UTF-8. */
static size_t utf8_length(const unsigned char *s, size_t bytes)
{
	size_t n = s[0] < 0x80 ? 1 : s[0] >= 0xc2 && s[0] < 0xe0 ? 2 : (s[0] & 0xf0) == 0xe0 ? 3
		   : s[0] >= 0xf0 && s[0] < 0xf5 ? 4 : 0;

	if (n == 0 || n > bytes)
		return 0;
	for (size_t i = 1; i < n; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	/* Longer than need be, half of a pair, beyond the last one. */
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] >= 0xa0) ||
	    (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] >= 0x90))
		return 0;
	return n;
}

static bool is_utf8(const unsigned char *s, size_t bytes)
{
	for (size_t i = 0, n; i < bytes; i += n)
		if (!(n = utf8_length(s + i, bytes - i)))
			return false;
	return true;
}

/* U+0080 to U+009F, which move terminals as the controls of ASCII do; valid UTF-8. */
static bool is_c1(const unsigned char *s, size_t bytes)
{
	return bytes > 1 && s[0] == 0xc2 && s[1] < 0xa0;
}

static char *put_string(char *at, const unsigned char *s, size_t bytes)
{
	static const char named[] = "\"\\\b\f\n\r\t", names[] = "\"\\bfnrt";

	for (size_t i = 0; i < bytes; i++) {
		const char *found = s[i] ? strchr(named, s[i]) : NULL;
		if (found) {
			*at++ = '\\';
			*at++ = names[found - named];
		} else if (s[i] < ' ' || s[i] == 0x7f) {
			at += sprintf(at, "\\u%04x", s[i]);
		} else if (is_c1(s + i, bytes - i)) {
			at += sprintf(at, "\\u%04x", s[++i]);
		} else {
			*at++ = (char)s[i];
		}
	}
	return at;
}

static char *put_base64(char *at, const unsigned char *s, size_t bytes)
{
	for (size_t i = 0; i < bytes; i += 3) {
		uint32_t v = (uint32_t)s[i] << 16 | (i + 1 < bytes ? (uint32_t)s[i + 1] << 8 : 0) |
			     (i + 2 < bytes ? s[i + 2] : 0);
		*at++ = cli_json_digits64[v >> 18];
		*at++ = cli_json_digits64[v >> 12 & 63];
		*at++ = i + 1 < bytes ? cli_json_digits64[v >> 6 & 63] : '=';
		*at++ = i + 2 < bytes ? cli_json_digits64[v & 63] : '=';
	}
	return at;
}

char *cli_json_put(char *at, const char *name, const void *data, size_t bytes)
{
	bool text = is_utf8(data, bytes);

	at += sprintf(at, text ? "\"%s\":\"" : "\"%s_base64\":\"", name);
	at = text ? put_string(at, data, bytes) : put_base64(at, data, bytes);
	*at++ = '"';
	return at;
}

/* ------------------------------------------------------------------ members */

static void begin_member(struct cli_json *json, const char *name, const char *suffix)
{
	if (json->more)
		putc(',', json->to);
	if (name)
		fprintf(json->to, "\"%s%s\":", name, suffix);
	json->more = true;
}

void cli_json_open(struct cli_json *json, const char *name, char bracket)
{
	begin_member(json, name, "");
	putc(bracket, json->to);
	json->more = false;
}

void cli_json_close(struct cli_json *json, char bracket)
{
	putc(bracket, json->to);
	json->more = true;
}

void cli_json_end(struct cli_json *json)
{
	fputs("}\n", json->to);
	json->more = false;
}

void cli_json_bytes(struct cli_json *json, const char *name, const void *data, size_t bytes)
{
	const unsigned char *at = data;
	bool text = is_utf8(at, bytes);
	char piece[6 * (PIECE_BYTES + 1)];

	begin_member(json, name, text ? "" : "_base64");
	putc('"', json->to);
	while (bytes > 0) {
		size_t n = bytes < PIECE_BYTES ? bytes : PIECE_BYTES;
		if (text && n < bytes && at[n - 1] == 0xc2)
			n++; /* both bytes of a control character */
		char *end = text ? put_string(piece, at, n) : put_base64(piece, at, n);
		fwrite(piece, 1, (size_t)(end - piece), json->to);
		at += n;
		bytes -= n;
	}
	putc('"', json->to);
}

void cli_json_text(struct cli_json *json, const char *name, const char *text)
{
	cli_json_bytes(json, name, text, strlen(text));
}

void cli_json_number(struct cli_json *json, const char *name, uint64_t number)
{
	begin_member(json, name, "");
	fprintf(json->to, "%" PRIu64, number);
}

static bool is_number(const char *text)
{
	size_t digits = strspn(text += *text == '-', "0123456789");

	if (digits == 0 || (digits > 1 && *text == '0'))
		return false;
	text += digits;
	digits = *text == '.' ? strspn(text + 1, "0123456789") : 0;
	return digits ? text[1 + digits] == '\0' : *text == '\0';
}

void cli_json_figure(struct cli_json *json, const char *name, const char *figure)
{
	if (!is_number(figure)) {
		cli_json_text(json, name, figure);
		return;
	}
	begin_member(json, name, "");
	fputs(figure, json->to);
}

void cli_json_bool(struct cli_json *json, const char *name, bool value)
{
	begin_member(json, name, "");
	fputs(value ? "true" : "false", json->to);
}

void cli_json_null(struct cli_json *json, const char *name)
{
	begin_member(json, name, "");
	fputs("null", json->to);
}
