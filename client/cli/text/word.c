/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/cli/text/word.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/text.h"

struct splitter {
	const char *at, *end; /* what is still to read */
	char *out;            /* never beyond `at`: a word is no longer than its source */
	char *error;
	size_t error_bytes;
};

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

static bool hex_escape(struct splitter *s)
{
	int high = s->end - s->at >= 2 ? hex_digit(s->at[0]) : -1;
	int low = high >= 0 ? hex_digit(s->at[1]) : -1;

	if (low < 0) {
		snprintf(s->error, s->error_bytes, "\\x wants two hexadecimal digits");
		return false;
	}
	s->at += 2;
	*s->out++ = (char)(high << 4 | low);
	return true;
}

static bool escape(struct splitter *s)
{
	static const char names[] = "nrt0\"\\", bytes[] = "\n\r\t\0\"\\";
	char c = s->at < s->end ? *s->at++ : '\0';
	const char *name = c ? strchr(names, c) : NULL;

	if (c == 'x')
		return hex_escape(s);
	if (!name) {
		snprintf(s->error, s->error_bytes,
			 "unknown escape \\%c; there are \\n \\r \\t \\0 \\xNN \\\" \\\\",
			 c > ' ' && c <= '~' ? c : '?');
		return false;
	}
	*s->out++ = bytes[name - names];
	return true;
}

static bool quoted(struct splitter *s)
{
	char quote = *s->at++;

	while (s->at < s->end) {
		char c = *s->at++;
		if (c == quote)
			return true;
		if (c == '\\' && quote == '"') {
			if (!escape(s))
				return false;
		} else {
			*s->out++ = c;
		}
	}
	snprintf(s->error, s->error_bytes, "a %c has no closing %c", quote, quote);
	return false;
}

bool cli_word_is_open(const char *line, size_t line_bytes)
{
	char quote = '\0';

	for (size_t i = 0; i < line_bytes; i++) {
		if (quote == '"' && line[i] == '\\')
			i++;
		else if (line[i] == quote)
			quote = '\0';
		else if (!quote && (line[i] == '"' || line[i] == '\''))
			quote = line[i];
	}
	return quote;
}

static bool next_word(struct splitter *s, struct cli_word *word)
{
	word->data = s->out;
	word->literal = false;
	while (s->at < s->end && !is_blank(*s->at)) {
		if (*s->at == '"' || *s->at == '\'') {
			word->literal = true;
			if (!quoted(s))
				return false;
		} else {
			*s->out++ = *s->at++;
		}
	}
	word->bytes = (size_t)(s->out - word->data);
	return true;
}

static bool words_grow(struct cli_words *words)
{
	size_t room = words->room ? 2 * words->room : 16;
	struct cli_word *word = realloc(words->word, room * sizeof *word);

	if (!word)
		return false;
	words->word = word;
	words->room = room;
	return true;
}

bool cli_word_split(struct cli_words *words, char *line, size_t line_bytes, char *error,
		    size_t error_bytes)
{
	struct splitter s = { line, line + line_bytes, line, error, error_bytes };

	for (words->count = 0;; words->count++) {
		while (s.at < s.end && is_blank(*s.at))
			s.at++;
		if (s.at == s.end)
			return true;
		if (words->count == words->room && !words_grow(words)) {
			snprintf(error, error_bytes, "no memory for the words of the line");
			return false;
		}
		if (!next_word(&s, &words->word[words->count]))
			return false;
	}
}

void cli_words_free(struct cli_words *words)
{
	free(words->word);
	*words = (struct cli_words){ 0 };
}

bool cli_word_is(const struct cli_word *word, const char *text)
{
	return !word->literal && word->bytes == strlen(text) &&
	       memcmp(word->data, text, word->bytes) == 0;
}

char *cli_word_string(const struct cli_word *word)
{
	char *string;

	if (memchr(word->data, 0, word->bytes))
		return NULL;
	string = malloc(word->bytes + 1);
	if (string) {
		memcpy(string, word->data, word->bytes);
		string[word->bytes] = '\0';
	}
	return string;
}

bool cli_word_is_text(const void *data, size_t bytes, bool lines)
{
	const uint8_t *at = data, *end = at + bytes;

	while (at < end) {
		bool blank = lines && (*at == '\n' || *at == '\t');
		size_t length = blank ? 1 : text_length(at, (size_t)(end - at));
		if (length == 0)
			return false;
		at += length;
	}
	return true;
}

/* One character, or one byte that is none, as it stands in "...". */
static size_t quote_next(const uint8_t *at, size_t left, char out[5])
{
	static const char bytes[] = "\n\r\t\"\\", names[] = "nrt\"\\";
	const char *special = *at ? strchr(bytes, *at) : NULL;
	size_t length = text_length(at, left);

	if (special) {
		snprintf(out, 5, "\\%c", names[special - bytes]);
		return 1;
	}
	if (length == 0) {
		snprintf(out, 5, "\\x%02x", *at);
		return 1;
	}
	memcpy(out, at, length);
	out[length] = '\0';
	return length;
}

void cli_word_quote(FILE *file, const void *data, size_t bytes)
{
	const uint8_t *at = data, *end = at + bytes;
	char piece[5];

	putc('"', file);
	while (at < end) {
		at += quote_next(at, (size_t)(end - at), piece);
		fputs(piece, file);
	}
	putc('"', file);
}

const char *cli_word_show(const void *data, size_t bytes, char *buf, size_t buf_bytes)
{
	const uint8_t *at = data, *end = at + bytes;
	size_t used = 1;
	char piece[5];

	buf[0] = '"';
	while (at < end) {
		size_t taken = quote_next(at, (size_t)(end - at), piece);
		size_t piece_bytes = strlen(piece);
		if (used + piece_bytes + sizeof "\"..." > buf_bytes)
			break;
		memcpy(buf + used, piece, piece_bytes);
		used += piece_bytes;
		at += taken;
	}
	snprintf(buf + used, buf_bytes - used, at == end ? "\"" : "\"...");
	return buf;
}
