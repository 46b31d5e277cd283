/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * input.h -- lines of any bytes from a file descriptor, told apart from the
 * moment when there are none yet.
 */
#ifndef CLIENT_CLI_TEXT_INPUT_H
#define CLIENT_CLI_TEXT_INPUT_H

#include <stdbool.h>
#include <stddef.h>

struct cli_input {
	int fd;
	char *data;
	size_t room;
	size_t begin, end; /* what was read and not taken */
	size_t searched;   /* of that, known to have no newline */
	bool ended;
};

/* The longest line: a value of the largest size with every byte as \xNN. */
#define CLI_INPUT_LINE_MAX ((4ull << 30) + (64 << 10))

/*
 * The next line, without its newline, in memory that the caller may overwrite
 * and that lives until the next call.  Before it waits for input, it calls
 * `idle`, and gives up if that says false.  1; 0 at the end; -1 with errno (EFBIG: a line is too long).
 */
int cli_input_line(struct cli_input *input, bool (*idle)(void *arg), void *arg, char **line,
		   size_t *bytes);
void cli_input_free(struct cli_input *input);

#endif
