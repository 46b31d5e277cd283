/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * group.h -- multicast groups: which queue pairs of the fabric are in one.
 *
 * Any thread; no spin lock held.
 */
#ifndef COMMON_SOFTVERBS_PEER_GROUP_H
#define COMMON_SOFTVERBS_PEER_GROUP_H

#include <stdbool.h>
#include <stdint.h>

/* Queue pairs in one group. */
#define SV_GROUP_MEMBERS 256u

/* What was seen of a group. */
struct sv_group_look {
	uint32_t epoch; /* of sv_group_epoch(), before it */
	uint32_t n;
	uint32_t qpn[SV_GROUP_MEMBERS]; /* sorted */
};

/* The queue pair is in the group as long as *fd is open: 0, or an errno value: ENOMEM if the
 * group is full.  All that send to groups know of it then; one that doesn't answer holds this up
 * for a second, and knows a second after it goes on. */
int sv_group_enter(const uint8_t *gid, uint32_t qpn, int *fd);
void sv_group_leave(int fd);
/* Who is in it now; nobody if that can't be read.  This process is told of changes from then on. */
void sv_group_look(const uint8_t *gid, struct sv_group_look *look);
/* Another number after each change of any group. */
uint32_t sv_group_epoch(void);

#endif
