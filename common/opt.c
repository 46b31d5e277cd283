/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/opt.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_WIDTH 80
#define HELP_COLUMN_MAX 32
#define SENTENCE_BYTES 320

/* ------------------------------------------------------------------- sizes */

/* "", "k", "KB", "kib" ...: the power of two, or -1. */
static int unit_shift(const char *text)
{
	static const char letters[] = "kmgtpe";
	const char *at;
	int shift = 0;

	if (*text != '\0' && (at = strchr(letters, tolower((unsigned char)*text))) != NULL) {
		shift = 10 * (int)(at - letters + 1);
		text++;
		if (tolower((unsigned char)*text) == 'i' && tolower((unsigned char)text[1]) == 'b')
			text++;
	}
	if (tolower((unsigned char)*text) == 'b')
		text++;
	return *text == '\0' ? shift : -1;
}

bool opt_parse_size(const char *text, uint64_t *bytes)
{
	unsigned __int128 whole = 0, part = 0, scale = 1;
	bool digits = false, fraction = false;

	for (; isdigit((unsigned char)*text) || (*text == '.' && !fraction); text++) {
		if (*text == '.') {
			fraction = true;
			continue;
		}
		digits = true;
		if (!fraction)
			whole = 10 * whole + (unsigned)(*text - '0');
		else if (scale < 1000000000) { /* further digits are below a byte's worth */
			part = 10 * part + (unsigned)(*text - '0');
			scale *= 10;
		}
		if (whole > UINT64_MAX)
			return false;
	}
	while (*text == ' ')
		text++;
	int shift = unit_shift(text);
	if (!digits || shift < 0 || (fraction && shift == 0))
		return false;
	whole = (whole << shift) + (part << shift) / scale;
	if (whole > UINT64_MAX)
		return false;
	*bytes = (uint64_t)whole;
	return true;
}

const char *opt_format_size(uint64_t bytes, char *buf, size_t buf_bytes)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	unsigned unit = 0;

	while (unit < 6 && bytes >> (10 * (unit + 1)) != 0)
		unit++;
	double value = (double)bytes / (double)(1ull << (10 * unit));
	int decimals = bytes % (1ull << (10 * unit)) != 0;
	snprintf(buf, buf_bytes, "%.*f %s", decimals, value, units[unit]);
	return buf;
}

/* ------------------------------------------------------------------ values */

/*
 * Strings from a file live for ever; they hang on a list so that they stay
 * reachable even when the command line's value takes their place.
 */
struct kept {
	struct kept *next;
	char text[];
};

static struct kept *kept_strings;

static const char *keep(const char *text)
{
	size_t bytes = strlen(text) + 1;
	struct kept *k = malloc(sizeof *k + bytes);

	if (k == NULL)
		return NULL;
	memcpy(k->text, text, bytes);
	k->next = kept_strings;
	kept_strings = k;
	return k->text;
}

void opt_forget_strings(void)
{
	while (kept_strings) {
		struct kept *k = kept_strings;
		kept_strings = k->next;
		free(k);
	}
}

/* Each set_* stores the value, or says in `why` what is wrong with it. */
static bool set_flag(const struct opt *o, const char *value, char *why, size_t why_bytes)
{
	static const char *const words[] = { "no", "yes", "false", "true", "off", "on", "0", "1" };

	for (unsigned i = 0; i < sizeof words / sizeof *words; i++) {
		if (strcmp(value, words[i]) == 0) {
			*(bool *)o->target = i % 2;
			return true;
		}
	}
	snprintf(why, why_bytes, "'%s' is not yes or no", value);
	return false;
}

static bool set_string(const struct opt *o, const char *value, char *why, size_t why_bytes)
{
	const char *copy = keep(value);

	if (copy == NULL) {
		snprintf(why, why_bytes, "out of memory");
		return false;
	}
	*(const char **)o->target = copy;
	return true;
}

static bool add_to_list(const struct opt *o, const char *value, char *why, size_t why_bytes)
{
	struct opt_list *list = o->target;
	struct opt one = { .target = &list->text[list->count] };

	if (list->count == OPT_LIST_MAX) {
		snprintf(why, why_bytes, "more than %u of them", OPT_LIST_MAX);
		return false;
	}
	if (!set_string(&one, value, why, why_bytes))
		return false;
	list->count++;
	return true;
}

static bool set_int(const struct opt *o, const char *value, char *why, size_t why_bytes)
{
	char *end;
	long long number;

	errno = 0;
	number = strtoll(value, &end, 10);
	if (end == value || *end != '\0' || errno != 0 || number < o->min || number > o->max) {
		snprintf(why, why_bytes, "'%s' is not a whole number from %lld to %lld", value,
			 (long long)o->min, (long long)o->max);
		return false;
	}
	*(int *)o->target = (int)number;
	return true;
}

static bool set_size(const struct opt *o, const char *value, char *why, size_t why_bytes)
{
	char low[32], high[32];
	uint64_t bytes;

	if (!opt_parse_size(value, &bytes)) {
		snprintf(why, why_bytes, "'%s' is not a size such as 512M or 1.5GiB", value);
		return false;
	}
	if (bytes < (uint64_t)o->min || bytes > (uint64_t)o->max) {
		snprintf(why, why_bytes, "'%s' is not a size from %s to %s", value,
			 opt_format_size((uint64_t)o->min, low, sizeof low),
			 opt_format_size((uint64_t)o->max, high, sizeof high));
		return false;
	}
	*(uint64_t *)o->target = bytes;
	return true;
}

/* Seconds, or -1. */
static double parse_time(const char *text)
{
	static const struct {
		const char *unit;
		double seconds;
	} units[] = { { "", 1 }, { "s", 1 }, { "ms", 1e-3 }, { "m", 60 }, { "h", 3600 } };
	char *end;
	double number = strtod(text, &end);

	if (end == text || !isfinite(number) || number <= 0)
		return -1;
	for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
		if (strcmp(end, units[i].unit) == 0)
			return number * units[i].seconds;
	}
	return -1;
}

static bool set_time(const struct opt *o, const char *value, char *why, size_t why_bytes)
{
	double seconds = parse_time(value);

	if (seconds <= 0) {
		snprintf(why, why_bytes, "'%s' is not a time such as 60, 1.5s, 500ms or 2m", value);
		return false;
	}
	if (o->max > 0 && seconds > (double)o->max) {
		snprintf(why, why_bytes, "'%s' is more than %lld seconds", value, (long long)o->max);
		return false;
	}
	*(double *)o->target = seconds;
	return true;
}

static bool set_choice(const struct opt *o, const char *value, char *why, size_t why_bytes)
{
	char list[128] = "";
	size_t used = 0;

	for (int i = 0; o->choices[i] != NULL; i++) {
		if (strcmp(value, o->choices[i]) == 0) {
			*(int *)o->target = i;
			return true;
		}
		if (used < sizeof list)
			used += (size_t)snprintf(list + used, sizeof list - used, "%s%s",
						 i ? ", " : "", o->choices[i]);
	}
	snprintf(why, why_bytes, "'%s' is none of %s", value, list);
	return false;
}

static bool set_value(const struct opt *o, const char *value, char *why, size_t why_bytes)
{
	switch (o->kind) {
	case OPT_FLAG:
		return set_flag(o, value, why, why_bytes);
	case OPT_STRING:
		return set_string(o, value, why, why_bytes);
	case OPT_INT:
		return set_int(o, value, why, why_bytes);
	case OPT_SIZE:
		return set_size(o, value, why, why_bytes);
	case OPT_TIME:
		return set_time(o, value, why, why_bytes);
	case OPT_CHOICE:
		return set_choice(o, value, why, why_bytes);
	case OPT_LIST:
		return add_to_list(o, value, why, why_bytes);
	}
	snprintf(why, why_bytes, "the option table is wrong");
	return false;
}

/* ------------------------------------------------------------------- names */

static const struct opt *find_name(const struct opt *table, const char *name, size_t name_bytes)
{
	for (const struct opt *o = table; o->name != NULL; o++) {
		if (*o->name != '\0' && strlen(o->name) == name_bytes &&
		    memcmp(o->name, name, name_bytes) == 0)
			return o;
	}
	return NULL;
}

static const struct opt *find_letter(const struct opt *table, char letter)
{
	for (const struct opt *o = table; o->name != NULL; o++) {
		if (*o->name != '\0' && o->letter != '\0' && o->letter == letter)
			return o;
	}
	return NULL;
}

static unsigned min3(unsigned a, unsigned b, unsigned c)
{
	unsigned m = a < b ? a : b;
	return m < c ? m : c;
}

#define NAME_BYTES_MAX 40

/* Edits that make one name of the other. */
static unsigned distance(const char *a, size_t a_bytes, const char *b, size_t b_bytes)
{
	unsigned row[NAME_BYTES_MAX + 1];

	if (b_bytes > NAME_BYTES_MAX || a_bytes > NAME_BYTES_MAX)
		return NAME_BYTES_MAX;
	for (unsigned j = 0; j <= b_bytes; j++)
		row[j] = j;
	for (unsigned i = 1; i <= a_bytes; i++) {
		unsigned diagonal = row[0];
		row[0] = i;
		for (unsigned j = 1; j <= b_bytes; j++) {
			unsigned above = row[j];
			row[j] = min3(above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1]));
			diagonal = above;
		}
	}
	return row[b_bytes];
}

/* The nearest name, or NULL if none is near enough to be what was meant. */
static const char *nearest(const struct opt *table, const char *name, size_t name_bytes)
{
	unsigned best = (unsigned)name_bytes / 2 + 1;
	const char *found = NULL;

	for (const struct opt *o = table; o->name != NULL; o++) {
		size_t bytes = strlen(o->name);
		if (bytes == 0)
			continue;
		/* A beginning is as good as one wrong letter. */
		unsigned d = distance(name, name_bytes, o->name, bytes);
		if (name_bytes >= 2 && bytes > name_bytes && memcmp(o->name, name, name_bytes) == 0)
			d = 1;
		if (d < best) {
			best = d;
			found = o->name;
		}
	}
	return found;
}

/* ------------------------------------------------------------ command line */

struct arguments {
	const struct opt *table;
	char **argv;
	int argc;
	int next;    /* the argument to look at next */
	char *error;
	size_t error_bytes;
};

static int unknown(const struct arguments *a, const char *dashes, const char *name,
		   size_t name_bytes)
{
	const char *near = nearest(a->table, name, name_bytes);

	if (near != NULL)
		snprintf(a->error, a->error_bytes, "unknown option %s%.*s; did you mean --%s?",
			 dashes, (int)name_bytes, name, near);
	else
		snprintf(a->error, a->error_bytes, "unknown option %s%.*s; --help lists them",
			 dashes, (int)name_bytes, name);
	return -1;
}

/* value: what came with the option itself, or NULL. */
static int apply(struct arguments *a, const struct opt *o, const char *value)
{
	char why[SENTENCE_BYTES];

	if (value == NULL && o->kind == OPT_FLAG)
		value = "yes";
	if (value == NULL) {
		if (a->next >= a->argc) {
			snprintf(a->error, a->error_bytes, "--%s needs a value (%s)", o->name,
				 o->argument ? o->argument : "VALUE");
			return -1;
		}
		value = a->argv[a->next++];
	}
	if (set_value(o, value, why, sizeof why))
		return 0;
	snprintf(a->error, a->error_bytes, "--%s: %s", o->name, why);
	return -1;
}

static int parse_long(struct arguments *a, const char *text)
{
	const char *value = strchr(text, '=');
	size_t name_bytes = value ? (size_t)(value - text) : strlen(text);
	const struct opt *o = find_name(a->table, text, name_bytes);

	if (o == NULL)
		return unknown(a, "--", text, name_bytes);
	return apply(a, o, value ? value + 1 : NULL);
}

/* "-v", "-vq", "-sADDR", "-s ADDR" */
static int parse_letters(struct arguments *a, const char *text)
{
	for (; *text != '\0'; text++) {
		const struct opt *o = find_letter(a->table, *text);
		if (o == NULL)
			return unknown(a, "-", text, 1);
		if (o->kind != OPT_FLAG)
			return apply(a, o, text[1] ? text + 1 : NULL);
		if (apply(a, o, NULL) < 0)
			return -1;
	}
	return 0;
}

int opt_parse(const struct opt *table, int argc, char **argv, char *error, size_t error_bytes)
{
	struct arguments a = { .table = table, .argv = argv, .argc = argc, .next = 1,
			       .error = error, .error_bytes = error_bytes };

	while (a.next < argc) {
		const char *text = argv[a.next];
		int rc;

		if (text[0] != '-' || text[1] == '\0')
			break; /* an operand; "-" is one too */
		a.next++;
		if (strcmp(text, "--") == 0)
			break;
		rc = text[1] == '-' ? parse_long(&a, text + 2) : parse_letters(&a, text + 1);
		if (rc < 0)
			return -1;
	}
	return a.next;
}

/* -------------------------------------------------------------------- file */

static char *trim(char *text)
{
	size_t bytes;

	while (isspace((unsigned char)*text))
		text++;
	for (bytes = strlen(text); bytes > 0 && isspace((unsigned char)text[bytes - 1]); bytes--)
		;
	text[bytes] = '\0';
	return text;
}

/* Sets `why` to a sentence that doesn't name the place. */
static bool apply_line(const struct opt *table, char *line, size_t line_bytes, char *why,
		       size_t why_bytes)
{
	char wrong[SENTENCE_BYTES];
	const struct opt *o;
	char *name, *value;

	if (strlen(line) != line_bytes) {
		snprintf(why, why_bytes, "the line has a zero byte: this is no text");
		return false;
	}
	/* A '#' within a value (a path, say) is part of it. */
	name = trim(line);
	if (*name == '\0' || *name == '#')
		return true;
	value = strchr(name, '=');
	if (value == NULL) {
		snprintf(why, why_bytes, "'%s' is not of the form NAME = VALUE", name);
		return false;
	}
	*value++ = '\0';
	name = trim(name);
	value = trim(value);
	o = find_name(table, name, strlen(name));
	if (o == NULL) {
		const char *near = nearest(table, name, strlen(name));
		snprintf(why, why_bytes, near ? "unknown option '%s'; did you mean '%s'?"
					      : "unknown option '%s'", name, near);
		return false;
	}
	if (set_value(o, value, wrong, sizeof wrong))
		return true;
	snprintf(why, why_bytes, "%s: %s", o->name, wrong);
	return false;
}

int opt_read_file(const struct opt *table, const char *path, char *error, size_t error_bytes)
{
	char why[SENTENCE_BYTES + NAME_BYTES_MAX];
	FILE *file = fopen(path, "re");
	char *line = NULL;
	size_t line_bytes = 0;
	int number = 0, rc = 0;
	ssize_t n;

	if (file == NULL) {
		snprintf(error, error_bytes, "can't read %s: %s", path, strerror(errno));
		return -1;
	}
	while (rc == 0 && (n = getline(&line, &line_bytes, file)) >= 0) {
		number++;
		if (!apply_line(table, line, (size_t)n, why, sizeof why)) {
			snprintf(error, error_bytes, "%s:%d: %s", path, number, why);
			rc = -1;
		}
	}
	if (rc == 0 && ferror(file)) {
		snprintf(error, error_bytes, "can't read %s: %s", path, strerror(errno));
		rc = -1;
	}
	free(line);
	fclose(file);
	return rc;
}

/* -------------------------------------------------------------------- help */

/* "  -s, --server ADDR"; the width. */
static int format_left(const struct opt *o, char *buf, size_t buf_bytes)
{
	char letter[8] = "    ";

	if (o->letter != '\0')
		snprintf(letter, sizeof letter, "-%c, ", o->letter);
	return snprintf(buf, buf_bytes, "  %s--%s%s%s", letter, o->name, o->argument ? " " : "",
			o->argument ? o->argument : "");
}

static int help_column(const struct opt *table)
{
	char left[128];
	int column = 0;

	for (const struct opt *o = table; o->name != NULL; o++) {
		int width = *o->name ? format_left(o, left, sizeof left) + 2 : 0;
		if (width > column && width <= HELP_COLUMN_MAX)
			column = width;
	}
	return column;
}

/* Words of `text` from `column` on, wrapped; the cursor is at `at`. */
static void print_wrapped(const char *text, int at, int column)
{
	while (*text != '\0') {
		int word = (int)strcspn(text, " ");
		if (at > column && at + 1 + word > LINE_WIDTH) {
			putchar('\n');
			at = 0;
		}
		if (at < column) {
			printf("%*s", column - at, "");
			at = column;
		} else if (at > column) {
			putchar(' ');
			at++;
		}
		printf("%.*s", word, text);
		at += word;
		text += word;
		text += strspn(text, " ");
	}
	putchar('\n');
}

void opt_print_help(const struct opt *table)
{
	int column = help_column(table);
	char left[128];

	for (const struct opt *o = table; o->name != NULL; o++) {
		if (*o->name == '\0') {
			printf("%s%s\n", o == table ? "" : "\n", o->help);
			continue;
		}
		int width = format_left(o, left, sizeof left);
		fputs(left, stdout);
		if (width + 2 > column) {
			putchar('\n');
			width = 0;
		}
		print_wrapped(o->help, width, column);
	}
}
