/* SPDX-License-Identifier: BSD-2-Clause */
/* flow.h -- a connection's messages and READs as they come and go; peer.c has it. */
#ifndef SERVER_CLUSTER_LINK_FLOW_H
#define SERVER_CLUSTER_LINK_FLOW_H

#include "server/cluster/link/impl.h"

/* Posts what is queued, as far as there are credits. */
void link_flow_push(struct link_peer *p);
/* Says by an empty message how many were taken, if that is due. */
void link_flow_tell(struct link_peer *p);
/* The other end took so many in all.  False: so many were never sent. */
bool link_flow_granted(struct link_peer *p, uint32_t taken);
/* A message or an empty one, of that index, and all before it. */
void link_flow_sent(struct link_peer *p, enum link_wr kind, unsigned index);
void link_flow_read(struct link_peer *p, unsigned index, bool is_ok);
/* The other end has taken nothing for LINK_STALL_NS of what waits. */
bool link_flow_is_stalled(const struct link_peer *p);

#endif
