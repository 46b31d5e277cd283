/* SPDX-License-Identifier: BSD-2-Clause */
/* server.h -- the commands on a kvd as a whole. */
#ifndef CLIENT_CLI_COMMAND_SERVER_H
#define CLIENT_CLI_COMMAND_SERVER_H

#include "client/cli/command/command.h"

/* server.c */
extern const struct cli_command cli_ping, cli_info, cli_stats, cli_backup, cli_cluster;

/* top.c */
extern const struct cli_command cli_top;

/* user.c */
extern const struct cli_command cli_user;

#endif
