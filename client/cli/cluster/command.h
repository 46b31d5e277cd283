/* SPDX-License-Identifier: BSD-2-Clause */
/* command.h -- kvcli cluster. */
#ifndef CLIENT_CLI_CLUSTER_COMMAND_H
#define CLIENT_CLI_CLUSTER_COMMAND_H

#include "client/cli/text/args.h"

struct cli;

extern const struct cli_option cluster_options[];
int cluster_run(struct cli *cli, const struct cli_args *args);

#endif
