/* SPDX-License-Identifier: BSD-2-Clause */
/* run.h -- kvbench load and kvbench run: a workload on one store. */
#ifndef BENCH_COMMAND_RUN_H
#define BENCH_COMMAND_RUN_H

int command_load(int argc, char **argv);
int command_run(int argc, char **argv);

#endif
