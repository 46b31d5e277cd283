/* SPDX-License-Identifier: BSD-2-Clause */
/* plot.h -- kvbench plot: pictures of reports. */
#ifndef BENCH_COMMAND_PLOT_H
#define BENCH_COMMAND_PLOT_H

int command_plot(int argc, char **argv);

#endif
