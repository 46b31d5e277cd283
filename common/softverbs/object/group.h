/* SPDX-License-Identifier: BSD-2-Clause */
/* group.h -- multicast groups that a queue pair is in, as its receives need it. */
#ifndef COMMON_SOFTVERBS_OBJECT_GROUP_H
#define COMMON_SOFTVERBS_OBJECT_GROUP_H

#include <stdbool.h>
#include <string.h>
#include "common/softverbs/base/device.h"
#include "common/softverbs/object/qp.h"

struct sv_attached {
	struct sv_attached *next; /* sv_qp.groups */
	uint8_t gid[SV_GID_BYTES];
	int fd; /* of peer/group.h */
};

/* Where it stands in the list; NULL there: the queue pair isn't in the group.  Receive CQ's lock
 * held, or sv_proc.grouping. */
static inline struct sv_attached **sv_attached_find(struct sv_qp *qp, const uint8_t *gid)
{
	struct sv_attached **at = &qp->groups;

	while (*at && memcmp((*at)->gid, gid, SV_GID_BYTES))
		at = &(*at)->next;
	return at;
}

#endif
