/* SPDX-License-Identifier: BSD-2-Clause */
/* command.h -- kvbench's commands.  argv[0] is the command's name; each returns
 * the program's exit status. */
#ifndef BENCH_COMMAND_COMMAND_H
#define BENCH_COMMAND_COMMAND_H

#include "common/err.h"

#define EXIT_DONE 0
#define EXIT_WRONG 1   /* the run was made, but operations or checks failed */
#define EXIT_USAGE 2   /* wrong options, properties or files */
#define EXIT_TROUBLE 3 /* no server, no connection */

int command_load(int argc, char **argv);
int command_run(int argc, char **argv);
int command_compare(int argc, char **argv);
int command_plot(int argc, char **argv);
int command_raw(int argc, char **argv);
int command_sg(int argc, char **argv);
int command_bank(int argc, char **argv);

/* Prints "kvbench: SENTENCE" on standard error; returns the status. */
int command_fail(int status, const struct err *err);

#endif
