/* SPDX-License-Identifier: BSD-2-Clause */
/* start.h -- the process's presence in the fabric. */
#ifndef COMMON_SOFTVERBS_VERBS_START_H
#define COMMON_SOFTVERBS_VERBS_START_H

/* Makes sv_proc and starts the control thread, if that is not done; any thread.  0, or -1
 * and errno: the next call tries again.  A forked child starts afresh. */
int sv_start(void);

#endif
