/* SPDX-License-Identifier: BSD-2-Clause */
/* options.h -- kvd's command line and configuration file. */
#ifndef SERVER_OPTIONS_H
#define SERVER_OPTIONS_H

#include "server/host/options.h"

/*
 * Fills in the options; returns 0 to go on, 1 if the process is to end with
 * *status (--help, --version, a mistake, which it has told).
 */
int options_parse(struct options *options, int argc, char **argv, int *status);

/* Reads the command line of options_parse() and its file again; 0, or -1 after setting
 * err: `options` is not to be used then. */
int options_again(struct options *options, struct err *err);

/* Of the table and of all namespaces. */
uint64_t options_memory_bytes(const struct options *options);

#endif
