/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/cli/text/args.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

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

#define NAME_BYTES_MAX 31

/* By rows of the table of distances of all their beginnings. */
size_t cli_args_distance(const char *a, size_t a_bytes, const char *b)
{
	size_t b_bytes = strlen(b), rows[3][NAME_BYTES_MAX + 1];
	size_t *above2 = rows[0], *above = rows[1], *row = rows[2];

	if (b_bytes > NAME_BYTES_MAX || a_bytes > 2 * NAME_BYTES_MAX)
		return a_bytes + b_bytes;
	for (size_t j = 0; j <= b_bytes; j++)
		above[j] = j;
	for (size_t i = 1; i <= a_bytes; i++) {
		row[0] = i;
		for (size_t j = 1; j <= b_bytes; j++) {
			row[j] = least(above[j - 1] + (a[i - 1] != b[j - 1]),
				       1 + least(above[j], row[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				row[j] = least(row[j], above2[j - 2] + 1);
		}
		size_t *oldest = above2;
		above2 = above;
		above = row;
		row = oldest;
	}
	return above[b_bytes];
}

bool cli_args_near(const char *a, size_t a_bytes, const char *b)
{
	return cli_args_distance(a, a_bytes, b) <= (least(a_bytes, strlen(b)) <= 4 ? 1 : 2);
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
	size_t found_at = SIZE_MAX;

	for (; options && options->name; options++) {
		size_t distance = cli_args_distance(name, bytes, options->name);
		if (distance < found_at && cli_args_near(name, bytes, options->name)) {
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

bool cli_args_integer(const struct cli_word *word, int64_t *number)
{
	bool minus = word->bytes > 0 && word->data[0] == '-';
	const struct cli_word digits = { word->data + minus, word->bytes - minus, true };
	uint64_t amount;

	if (!cli_args_number(&digits, 0, minus ? 1ull << 63 : INT64_MAX, &amount))
		return false;
	*number = minus ? (int64_t)-amount : (int64_t)amount;
	return true;
}

/* A number and what stands behind it, into `text`; false if it does not begin with one. */
static bool split_number(const struct cli_word *word, char text[32], double *number,
			 const char **unit)
{
	char *end;

	if (word->bytes >= 32)
		return false;
	memcpy(text, word->data, word->bytes);
	text[word->bytes] = '\0';
	*unit = text + strspn(text, "0123456789.");
	*number = strtod(text, &end);
	return strlen(text) == word->bytes && end > text && end == *unit;
}

bool cli_args_ttl(const struct cli_word *word, uint64_t ms_max, uint64_t *ms)
{
	static const struct {
		const char *name;
		double ms;
	} units[] = { { "", 1e3 }, { "ms", 1 }, { "s", 1e3 }, { "m", 60e3 }, { "h", 3600e3 }, { "d", 86400e3 } };
	const char *unit;
	char text[32];
	double number;

	if (!split_number(word, text, &number, &unit))
		return false;
	for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
		double all = number * units[i].ms;
		if (strcmp(unit, units[i].name) != 0)
			continue;
		if (!(all >= 1 && all <= (double)ms_max))
			return false;
		*ms = (uint64_t)(all + 0.5);
		return true;
	}
	return false;
}

/* 2026-12-31T23:59:59Z, as seconds; negative: it is no such day. */
static double seconds_of_date(const char *text)
{
	struct tm tm = { 0 };
	const char *end = strptime(text, "%Y-%m-%dT%H:%M:%SZ", &tm);
	int day = tm.tm_mday;

	if (!end || *end)
		return -1;
	time_t seconds = timegm(&tm);
	return tm.tm_mday == day ? (double)seconds : -1; /* there is no 31st of February */
}

bool cli_args_unix_time(const struct cli_word *word, uint64_t ms_max, uint64_t *unix_ms)
{
	const char *unit;
	char text[32];
	double seconds;

	if (!split_number(word, text, &seconds, &unit))
		return false;
	if (*unit)
		seconds = seconds_of_date(text);
	if (!(seconds * 1000 >= 1 && seconds * 1000 <= (double)ms_max))
		return false;
	*unix_ms = (uint64_t)(seconds * 1000 + 0.5);
	return true;
}

bool cli_args_time(const struct cli_word *word, int ms_min, int *ms)
{
	const char *unit;
	char text[32];
	double number;

	if (!split_number(word, text, &number, &unit))
		return false;
	if (*unit == '\0' || strcmp(unit, "s") == 0)
		number *= 1000;
	else if (strcmp(unit, "ms") != 0)
		return false;
	if (!(number >= ms_min && number <= TIME_MS_MAX))
		return false;
	*ms = (int)number;
	return true;
}
