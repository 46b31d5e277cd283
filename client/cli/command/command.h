/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * command.h -- what a command of kvcli is: its name, its help, its options, and the
 * function that runs it.
 *
 * Each command is a constant beside its function.  The table (table.h) lists them.
 */
#ifndef CLIENT_CLI_COMMAND_COMMAND_H
#define CLIENT_CLI_COMMAND_COMMAND_H

#include <stddef.h>

#include "client/cli/session/cli.h"
#include "client/cli/text/args.h"

struct cli_command {
	const char *name;
	const char *arguments;
	const char *summary; /* at most 26 columns, for the list */
	const char *help;
	const struct cli_option *options; /* or NULL */
	size_t operands_min, operands_max;
	/* Returns the exit status, after an answer or an error (answer.h). */
	int (*run)(struct cli *cli, const struct cli_args *args);
};

#endif
