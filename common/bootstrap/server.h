/* SPDX-License-Identifier: BSD-2-Clause */
/* server.h -- the end that listens: rdma_cm's functions, and what came over the socket. */
#ifndef COMMON_BOOTSTRAP_SERVER_H
#define COMMON_BOOTSTRAP_SERVER_H

#include "common/bootstrap/impl.h"

int bootstrap_server_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr);
__be16 bootstrap_server_get_src_port(struct rdma_cm_id *id);
int bootstrap_server_listen(struct rdma_cm_id *id, int backlog);
int bootstrap_server_accept(struct rdma_cm_id *id, struct rdma_conn_param *param);
int bootstrap_server_reject(struct rdma_cm_id *id, const void *data, uint8_t bytes);
void bootstrap_server_arrived(struct id *listener);
void bootstrap_server_asked(struct id *id);

#endif
