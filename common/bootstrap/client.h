/* SPDX-License-Identifier: BSD-2-Clause */
/* client.h -- the end that connects: rdma_cm's functions, and what came over the socket. */
#ifndef COMMON_BOOTSTRAP_CLIENT_H
#define COMMON_BOOTSTRAP_CLIENT_H

#include "common/bootstrap/impl.h"

int bootstrap_client_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src, struct sockaddr *dst,
				  int timeout_ms);
int bootstrap_client_resolve_route(struct rdma_cm_id *id, int timeout_ms);
int bootstrap_client_connect(struct rdma_cm_id *id, struct rdma_conn_param *param);
int bootstrap_client_establish(struct rdma_cm_id *id);
void bootstrap_client_connected(struct id *id);
void bootstrap_client_answered(struct id *id);

#endif
