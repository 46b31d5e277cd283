/* SPDX-License-Identifier: BSD-2-Clause */
/* sg.h -- kvbench sg: scattered values: lists of blocks against copies. */
#ifndef BENCH_COMMAND_SG_H
#define BENCH_COMMAND_SG_H

int command_sg(int argc, char **argv);

#endif
