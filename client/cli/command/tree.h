/* SPDX-License-Identifier: BSD-2-Clause */
/* tree.h -- the commands that move many keys to files and back. */
#ifndef CLIENT_CLI_COMMAND_TREE_H
#define CLIENT_CLI_COMMAND_TREE_H

#include "client/cli/command/command.h"

/* tree.c */
extern const struct cli_command cli_put_tree, cli_get_tree, cli_check_tree;

/* export.c */
extern const struct cli_command cli_export, cli_import;

#endif
