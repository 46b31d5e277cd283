/* SPDX-License-Identifier: BSD-2-Clause */
/* raw.h -- kvbench raw: the verbs with nothing around them. */
#ifndef BENCH_COMMAND_RAW_H
#define BENCH_COMMAND_RAW_H

int command_raw(int argc, char **argv);

#endif
