/* SPDX-License-Identifier: BSD-2-Clause */
/* shell.h -- commands from standard input: typed at a terminal, or a batch. */
#ifndef CLIENT_CLI_SHELL_H
#define CLIENT_CLI_SHELL_H

#include "client/cli/session/cli.h"

/* Runs them to the end, or to the first error if cli->stop_on_error.  Returns the worst
 * exit status of a batch, CLI_DONE of a terminal. */
int cli_shell(struct cli *cli);

#endif
