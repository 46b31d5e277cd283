/* SPDX-License-Identifier: BSD-2-Clause */
/* post.h -- work requests from the program to the queues. */
#ifndef COMMON_SOFTVERBS_VERBS_POST_H
#define COMMON_SOFTVERBS_VERBS_POST_H

#include <stdint.h>
#include "common/softverbs/object/qp.h"

int sv_post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
/* An array of n requests: all of them, or none.  0 or an errno value. */
int sv_post_all(struct sv_qp *qp, struct ibv_send_wr *wr, uint32_t n);
int sv_post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

#endif
