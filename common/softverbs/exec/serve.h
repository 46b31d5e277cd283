/* SPDX-License-Identifier: BSD-2-Clause */
/* serve.h -- answers to other processes. */
#ifndef COMMON_SOFTVERBS_EXEC_SERVE_H
#define COMMON_SOFTVERBS_EXEC_SERVE_H

/* Before the control thread runs: it accepts and answers those who come to this listener,
 * which stays the caller's.  0 or an errno value. */
int sv_serve_start(int fd);

#endif
