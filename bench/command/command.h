/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * command.h -- what all commands of kvbench share: exit statuses, and how a command fails.
 *
 * Each command is a function of argc and argv, whose argv[0] is the command's name.  It
 * returns the program's exit status.
 */
#ifndef BENCH_COMMAND_COMMAND_H
#define BENCH_COMMAND_COMMAND_H

#include "common/err.h"

#define EXIT_DONE 0
#define EXIT_WRONG 1   /* the run was made, but operations or checks failed */
#define EXIT_USAGE 2   /* wrong options, properties or files */
#define EXIT_TROUBLE 3 /* no server, no connection */

/* Prints "kvbench: SENTENCE" on standard error; returns the status. */
int command_fail(int status, const struct err *err);

#endif
