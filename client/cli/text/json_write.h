/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * json_write.h -- JSON, written member by member.
 *
 * Bytes that are UTF-8 become the string NAME; others become NAME_base64.  Control
 * characters are escaped, those of U+0080 to U+009F too: what is printed moves no
 * terminal.
 */
#ifndef CLIENT_CLI_TEXT_JSON_WRITE_H
#define CLIENT_CLI_TEXT_JSON_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* One value on its way to a file.  All zero but `to` at the start of a line. */
struct cli_json {
	FILE *to;
	bool more; /* a comma comes before the next member */
};

/* '{' or '['; `name` is NULL in an array and at the outermost. */
void cli_json_open(struct cli_json *json, const char *name, char bracket);
/* '}' or ']' */
void cli_json_close(struct cli_json *json, char bracket);
/* The outermost object ends, and its line. */
void cli_json_end(struct cli_json *json);

void cli_json_bytes(struct cli_json *json, const char *name, const void *data, size_t bytes);
void cli_json_text(struct cli_json *json, const char *name, const char *text);
void cli_json_number(struct cli_json *json, const char *name, uint64_t number);
/* A string that is a number in decimal, as "3" or "-2.5", as one; others as text. */
void cli_json_figure(struct cli_json *json, const char *name, const char *figure);
void cli_json_bool(struct cli_json *json, const char *name, bool value);
void cli_json_null(struct cli_json *json, const char *name);

/* The same as cli_json_bytes into memory: without a comma, and with room for 6 bytes for
 * each of data, the name and 16 more.  Returns the end. */
char *cli_json_put(char *at, const char *name, const void *data, size_t bytes);

extern const char cli_json_digits64[];

#endif
