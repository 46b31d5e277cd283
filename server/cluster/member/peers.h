/* SPDX-License-Identifier: BSD-2-Clause */
/* peers.h -- the others of the set, and the joiner: each has a place, which is its bit. */
#ifndef SERVER_CLUSTER_MEMBER_PEERS_H
#define SERVER_CLUSTER_MEMBER_PEERS_H

#include "server/cluster/member/state.h"

/* The place of a peer; -1: it has none. */
int member_place(const struct member *m, const char *name, uint64_t incarnation);
unsigned member_free_place(const struct member *m);
/* Whether so long nothing was heard of who was heard then. */
bool member_is_silent(const struct member *m, uint64_t heard_ns, uint64_t now_ns);
/* The places of the set, and of the joiner. */
uint32_t member_set_bits(const struct member *m);
/* As the configuration says.  Who stays keeps its place: records name members by it. */
void member_seat_peers(struct member *m, uint64_t now_ns);

#endif
