/* SPDX-License-Identifier: BSD-2-Clause */
/* find.h -- where a workload's property file is: the core workloads come with kvbench. */
#ifndef BENCH_WORKLOAD_FIND_H
#define BENCH_WORKLOAD_FIND_H

#include <stddef.h>

/*
 * The path of a property file, in buf or the name itself.  A bare name ("workloada") that is
 * no file here is one of kvbench's workloads: of the source tree that this kvbench was built
 * in, or else of where it was installed.
 */
const char *workload_find(const char *name, char *buf, size_t buf_bytes);

#endif
