/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * value.h -- values on their way from files and into files.
 *
 * Functions return 0 or an errno value; EFBIG is a value over the limit of
 * <kvd.h>.
 */
#ifndef CLIENT_CLI_FILE_VALUE_H
#define CLIENT_CLI_FILE_VALUE_H

#include <stdbool.h>
#include <stddef.h>

struct cli_value {
	void *data; /* NULL if there is none */
	size_t bytes;
	size_t room;   /* allocated; 0: mapped */
};

void cli_value_free(struct cli_value *value);

/* A copy of `bytes` bytes. */
int cli_value_copy(struct cli_value *value, const void *data, size_t bytes);

/*
 * The contents of a file: mapped if it is a large regular one, else read into
 * memory that grows with it.  A mapped file that is cut short meanwhile ends the
 * program with a message (see cli_value_guard).
 */
int cli_value_load(struct cli_value *value, const char *path);
int cli_value_read(struct cli_value *value, int fd);
int cli_value_write(int fd, const void *data, size_t bytes);

/*
 * Stores bytes as the contents of a file: written beside it and renamed, so
 * that there is all of it or what was there before.  What is no regular file,
 * like a pipe, is written to.
 */
int cli_value_save(const void *data, size_t bytes, const char *path);

/* Installs the handler of SIGBUS, which says that a mapped file became shorter, and ends
 * the program with this exit status. */
void cli_value_guard(int status);

/* "why" of an error of the above. */
const char *cli_value_error(int error);

#endif
