/* SPDX-License-Identifier: BSD-2-Clause */
/* status.h -- how a cluster is, and what is wrong with it. */
#ifndef CLIENT_CLI_CLUSTER_STATUS_H
#define CLIENT_CLI_CLUSTER_STATUS_H

#include <stdbool.h>
#include <stdio.h>

#include "client/cli/cluster/members.h"

struct cli;

/* kvcli cluster status: its exit status. */
int cluster_status(struct cli *cli, bool json);
/* What is wrong, each in a sentence with what to do, on a line of its own; how many. */
unsigned cluster_judge(const struct members *m, FILE *to);

#endif
