/* SPDX-License-Identifier: BSD-2-Clause */
/* table.h -- all commands of kvcli, and how one is found and run. */
#ifndef CLIENT_CLI_COMMAND_TABLE_H
#define CLIENT_CLI_COMMAND_TABLE_H

#include "client/cli/command/command.h"

/* NULL-terminated, in the order of the list. */
extern const struct cli_command *const cli_commands[];

/* Runs words[0] with the rest; `words` is reordered.  Returns the exit status. */
int cli_command_run(struct cli *cli, struct cli_word *words, size_t count);

/* Prints the names alone, as many a line as there is room for. */
void cli_command_names(void);

#endif
