/* SPDX-License-Identifier: BSD-2-Clause */
/* compare.h -- kvbench compare: one workload on several stores, side by side. */
#ifndef BENCH_COMMAND_COMPARE_H
#define BENCH_COMMAND_COMPARE_H

int command_compare(int argc, char **argv);

#endif
