/* SPDX-License-Identifier: BSD-2-Clause */
/* accept.h -- connection management: what comes over sockets.  sv_cm.lock held for all. */
#ifndef COMMON_SOFTVERBS_CM_ACCEPT_H
#define COMMON_SOFTVERBS_CM_ACCEPT_H

#include "common/softverbs/cm/id.h"
#include "common/softverbs/cm/sock.h"

/* Both: 0 or an errno value. */
int sv_cm_listen(struct sv_id *id);
/* The connection of an active id, whose socket it becomes. */
int sv_cm_watch(struct sv_id *id, int fd);
/* A connection that its listener has not heard of yet ends. */
void sv_cm_drop_embryo(struct sv_cm_sock *sock);

#endif
