/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/cli/text/args.h"

#include <stdlib.h>
#include <string.h>

#define TIME_MS_MAX (24 * 3600 * 1000)

struct parser {
	struct cli_args *args;
	const struct cli_option *options;
	struct cli_word *words;
	size_t at, count;
	char *error;
	size_t error_bytes;
};

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

size_t cli_args_distance(const char *a, size_t a_bytes, const char *b)
{
	size_t b_bytes = strlen(b), row[32];

	if (b_bytes >= sizeof row / sizeof row[0])
		return a_bytes + b_bytes;
	for (size_t j = 0; j <= b_bytes; j++)
		row[j] = j;
	for (size_t i = 0; i < a_bytes; i++) {
		size_t corner = row[0];
		row[0] = i + 1;
		for (size_t j = 0; j < b_bytes; j++) {
			size_t change = corner + (a[i] != b[j]);
			corner = row[j + 1];
			row[j + 1] = least(change, 1 + least(corner, row[j]));
		}
	}
	return row[b_bytes];
}

static bool is_option(const struct cli_word *word)
{
	char c = word->bytes > 1 ? word->data[1] : '\0';

	return !word->literal && word->bytes > 1 && word->data[0] == '-' &&
	       (c == '-' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'));
}

static const struct cli_option *nearest(const struct cli_option *options, const char *name,
					size_t bytes)
{
	const struct cli_option *found = NULL;
	size_t found_at = 3;

	for (; options && options->name; options++) {
		size_t distance = cli_args_distance(name, bytes, options->name);
		if (distance < found_at) {
			found = options;
			found_at = distance;
		}
	}
	return found;
}

static bool unknown(struct parser *p, const struct cli_word *word, size_t name_bytes)
{
	const struct cli_option *near = nearest(p->options, word->data + 2, name_bytes);
	char shown[80];

	cli_word_show(word->data, least(word->bytes, name_bytes + 2), shown, sizeof shown);
	if (near)
		snprintf(p->error, p->error_bytes, "no option %s; is it --%s?", shown, near->name);
	else
		snprintf(p->error, p->error_bytes,
			 "no option %s here; kvcli's own options stand before the command, and -- "
			 "before words that look like options but are none", shown);
	return false;
}

static const struct cli_option *find(const struct parser *p, const struct cli_word *word,
				     size_t name_bytes)
{
	const struct cli_option *option = p->options;

	for (; option && option->name; option++) {
		if (word->data[1] != '-') {
			if (option->letter && option->letter == word->data[1])
				return option;
		} else if (strlen(option->name) == name_bytes &&
			   memcmp(option->name, word->data + 2, name_bytes) == 0) {
			return option;
		}
	}
	return NULL;
}

/* The argument: behind the "=", behind the letter, or the next word. */
static bool take_argument(struct parser *p, const struct cli_option *option,
			  const struct cli_word *word, const char *behind)
{
	struct cli_word *argument = &p->args->option[option - p->options];

	if (behind) {
		argument->data = behind;
		argument->bytes = (size_t)(word->data + word->bytes - behind);
	} else if (p->at < p->count) {
		*argument = p->words[p->at++];
	} else {
		snprintf(p->error, p->error_bytes, "--%s wants %s behind it", option->name,
			 option->argument);
		return false;
	}
	argument->literal = true;
	return true;
}

static bool take_option(struct parser *p, const struct cli_word *word)
{
	bool is_long = word->data[1] == '-';
	const char *equals = is_long ? memchr(word->data, '=', word->bytes) : NULL;
	size_t name_bytes = equals ? (size_t)(equals - word->data) - 2 : word->bytes - 2;
	const char *behind = equals ? equals + 1 :
			     !is_long && word->bytes > 2 ? word->data + 2 : NULL;
	const struct cli_option *option;

	if (cli_word_is(word, "--help")) {
		p->args->help = true;
		return true;
	}
	option = find(p, word, name_bytes);
	if (!option)
		return unknown(p, word, is_long ? name_bytes : 0);
	p->args->given[option - p->options] = true;
	if (option->argument)
		return take_argument(p, option, word, behind);
	if (behind) {
		snprintf(p->error, p->error_bytes, "--%s takes no argument", option->name);
		return false;
	}
	return true;
}

bool cli_args_parse(struct cli_args *args, const struct cli_option *options,
		    struct cli_word *words, size_t count, char *error, size_t error_bytes)
{
	struct parser p = { args, options, words, 0, count, error, error_bytes };
	bool ended = false;

	*args = (struct cli_args){ .operand = words };
	while (p.at < count) {
		struct cli_word word = words[p.at++];
		if (!ended && cli_word_is(&word, "--")) {
			ended = true;
		} else if (!ended && is_option(&word)) {
			if (!take_option(&p, &word))
				return false;
		} else {
			word.literal |= ended;
			words[args->count++] = word;
		}
	}
	return true;
}

bool cli_args_number(const struct cli_word *word, uint64_t min, uint64_t max, uint64_t *number)
{
	uint64_t n = 0;

	if (word->bytes == 0)
		return false;
	for (size_t i = 0; i < word->bytes; i++) {
		unsigned digit = (unsigned)((unsigned char)word->data[i] - '0');
		if (digit > 9 || n > (UINT64_MAX - digit) / 10)
			return false;
		n = 10 * n + digit;
	}
	if (n < min || n > max)
		return false;
	*number = n;
	return true;
}

bool cli_args_time(const struct cli_word *word, int ms_min, int *ms)
{
	char text[32], *end;
	double number;

	if (word->bytes >= sizeof text)
		return false;
	memcpy(text, word->data, word->bytes);
	text[word->bytes] = '\0';
	if (strlen(text) != word->bytes || strspn(text, "0123456789.") == 0)
		return false;
	number = strtod(text, &end);
	if (*end == '\0' || strcmp(end, "s") == 0)
		number *= 1000;
	else if (strcmp(end, "ms") != 0)
		return false;
	if (!(number >= ms_min && number <= TIME_MS_MAX))
		return false;
	*ms = (int)number;
	return true;
}
