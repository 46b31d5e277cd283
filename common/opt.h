/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * opt.h -- command-line options from one table: parsing, --help, config file.
 *
 * A table is the only place where an option stands; --help, the config file's
 * keys and the test that every option is documented are read from it.
 */
#ifndef COMMON_OPT_H
#define COMMON_OPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum opt_kind {
	OPT_FLAG,    /* bool */
	OPT_STRING,  /* const char *, lives for ever */
	OPT_INT,     /* int, within min..max */
	OPT_SIZE,    /* uint64_t bytes, "64M" "1GiB" "1.5g", within min..max */
	OPT_TIME,    /* double seconds > 0, "60" "1.5s" "500ms" "2m", to max seconds unless 0 */
	OPT_CHOICE,  /* int: index into `choices` */
	OPT_LIST,    /* struct opt_list: each time it is given, one more */
};

#define OPT_LIST_MAX 64u
struct opt_list {
	const char *text[OPT_LIST_MAX]; /* each lives for ever */
	unsigned count;
};

struct opt {
	const char *name;        /* long name, without dashes; NULL ends the table */
	char letter;             /* short name, or 0 */
	enum opt_kind kind;
	void *target;
	int64_t min, max;        /* OPT_INT, OPT_SIZE, OPT_TIME (max only) */
	const char *const *choices; /* NULL-terminated */
	const char *argument;    /* how --help calls it, "SIZE" */
	const char *help;        /* one line; of the table's first column a heading if name is "" */
};

/*
 * Parses options up to the first operand (as POSIX getopt; "--" ends them);
 * returns the index of the first operand, or -1 after setting `error` to a
 * sentence ("--workers: 'many' is not a whole number from 1 to 64").
 * Unknown options name the nearest known one.
 */
int opt_parse(const struct opt *table, int argc, char **argv, char *error, size_t error_bytes);

/*
 * Reads `name = value` lines (lines that begin with '#' are comments, flags take
 * yes or no); 0, or -1 after setting `error` to "FILE:LINE: ...".  What is read
 * replaces what was set, so for the command line to win, parse that again; lists
 * then have the command line's again behind the file's.
 */
int opt_read_file(const struct opt *table, const char *path, char *error, size_t error_bytes);
/* Frees the strings of all files that were read, for a caller that reads many.  Pointers to
 * them must not be used any more. */
void opt_forget_strings(void);

/* Prints the table's options in aligned columns within 80 columns. */
void opt_print_help(const struct opt *table);

/* "64M" and the like; false if malformed or over 64 bits. */
bool opt_parse_size(const char *text, uint64_t *bytes);

/* "1.5 GiB": a size for people; into buf, which it returns. */
const char *opt_format_size(uint64_t bytes, char *buf, size_t buf_bytes);

#endif
