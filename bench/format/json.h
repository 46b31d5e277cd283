/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * json.h -- writes JSON, one member after another, indented.
 *
 * key: the member's name, NULL within an array.
 */
#ifndef BENCH_FORMAT_JSON_H
#define BENCH_FORMAT_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct json {
	FILE *file;
	int depth;
	bool begun; /* something stands before on this level */
	int flat;   /* levels on one line */
};

void json_open(struct json *j, const char *key, char bracket); /* '{' or '[' */
void json_close(struct json *j, char bracket);
/* The same, all on one line. */
void json_open_flat(struct json *j, const char *key, char bracket);

void json_string(struct json *j, const char *key, const char *value);
void json_count(struct json *j, const char *key, uint64_t value);
/* With so many decimals at most; null if it is no number. */
void json_real(struct json *j, const char *key, double value, int decimals);
/* What is already a number in words. */
void json_literal(struct json *j, const char *key, const char *text);
void json_bool(struct json *j, const char *key, bool value);

/* Bytes as a string; those over 127 as the character of the same number. */
void json_write_bytes(FILE *file, const char *bytes, size_t count);

#endif
