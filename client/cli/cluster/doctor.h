/* SPDX-License-Identifier: BSD-2-Clause */
/* doctor.h -- what kvcli doctor looks at in a cluster. */
#ifndef CLIENT_CLI_CLUSTER_DOCTOR_H
#define CLIENT_CLI_CLUSTER_DOCTOR_H

struct cli;

/* A line for each thing that was looked at; how many are to be put right. */
typedef void cluster_each(void *arg, const char *mark, const char *what, const char *text);
unsigned cluster_doctor(struct cli *cli, cluster_each *each);

#endif
