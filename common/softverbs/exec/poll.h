/* SPDX-License-Identifier: BSD-2-Clause */
/* poll.h -- polls of completion queues. */
#ifndef COMMON_SOFTVERBS_EXEC_POLL_H
#define COMMON_SOFTVERBS_EXEC_POLL_H

#include <infiniband/verbs.h>

/* As ibv_poll_cq(): also moves requests on that wait, and takes messages. */
int sv_poll_cq(struct ibv_cq *ibcq, int n, struct ibv_wc *wc);

#endif
