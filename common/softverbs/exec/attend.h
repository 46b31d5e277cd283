/* SPDX-License-Identifier: BSD-2-Clause */
/* attend.h -- what the control thread does for queue pairs. */
#ifndef COMMON_SOFTVERBS_EXEC_ATTEND_H
#define COMMON_SOFTVERBS_EXEC_ATTEND_H

/* Registers it with the control thread and the links, before either runs. */
void sv_attend_start(void);

#endif
