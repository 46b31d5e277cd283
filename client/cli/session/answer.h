/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * answer.h -- how a command answers.
 *
 * A command that stands alone has standard output for data and standard error for
 * the rest.  In a shell everything is an answer on standard output.  The functions that
 * return a number return the exit status.
 */
#ifndef CLIENT_CLI_SESSION_ANSWER_H
#define CLIENT_CLI_SESSION_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/cli/session/cli.h"

int cli_ok(struct cli *cli);
int cli_not_found(struct cli *cli, const void *key, size_t key_bytes);
/* The condition of a change was false; the key's version, 0 if it is absent. */
int cli_refused(struct cli *cli, const void *key, size_t key_bytes, uint64_t version);
int cli_value_answer(struct cli *cli, const void *value, size_t value_bytes);
int cli_fail(struct cli *cli, int status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* The error of a call on the session. */
int cli_fail_session(struct cli *cli, int result);
/* The exit status of a result of <kvd.h>; tells nothing. */
int cli_status(int result);

/* Writes standard output through; false if its reader is gone or it failed. */
bool cli_output_flush(struct cli *cli);
/* Colour is wanted on this stream: 1 or 2. */
bool cli_color(int fd);

#endif
