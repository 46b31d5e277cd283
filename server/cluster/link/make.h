/* SPDX-License-Identifier: BSD-2-Clause */
/* make.h -- the parts of a connection, made and taken apart.  The door's thread. */
#ifndef SERVER_CLUSTER_LINK_MAKE_H
#define SERVER_CLUSTER_LINK_MAKE_H

#include "server/cluster/link/impl.h"

/* One of the door's; NULL: nobody has that lane, there are too many, or there is no memory. */
struct link_peer *link_make(struct link_door *d, const struct link_lane *lane,
			    const struct addr *addr, uint64_t now_ns);
/* Memory, and a queue pair without rights, of one that has an id.  0, or -1 after setting err. */
int link_make_queues(struct link_peer *p, struct err *err);
/* All of it that is there; frees it. */
void link_unmake(struct link_door *d, struct link_peer *p);

/* A port's, which has drained it: its queue pair goes at once, then the door has the rest. */
void link_return_qp(struct link_peer *p);
void link_return(struct link_peer *p);

#endif
