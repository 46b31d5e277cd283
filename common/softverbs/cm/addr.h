/* SPDX-License-Identifier: BSD-2-Clause */
/* addr.h -- connection management: addresses that ids are bound to, or look for. */
#ifndef COMMON_SOFTVERBS_CM_ADDR_H
#define COMMON_SOFTVERBS_CM_ADDR_H

#include <sys/socket.h>
#include "common/softverbs/cm/id.h"

/* sv_cm.lock held; 0 or an errno value. */
int sv_cm_bind_id(struct sv_id *id, const struct sockaddr *addr);

#endif
