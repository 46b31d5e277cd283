/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * peer.h -- a connection with another member: what is sent and READ over it.
 *
 * All of it by the thread of its port (port.h), from `up` to `down`; nothing blocks.
 */
#ifndef SERVER_CLUSTER_LINK_PEER_H
#define SERVER_CLUSTER_LINK_PEER_H

#include "server/cluster/link/options.h"

struct link_peer;

/* The member's name, as it proved it; until then "". */
const char *link_peer_name(const struct link_peer *p);
const struct link_lane *link_peer_lane(const struct link_peer *p);
bool link_peer_is_asker(const struct link_peer *p); /* this end connected */

/*
 * Memory of LINK_BYTES_MAX, aligned to 8, for the next message.  NULL: so many wait that there is
 * none; `room` will tell.  It is the same memory until link_peer_send().
 */
void *link_peer_reserve(struct link_peer *p);
/* What was reserved.  Messages arrive in order, once, or the connection ends. */
void link_peer_send(struct link_peer *p, uint32_t bytes);

/*
 * False: LINK_READS are under way; `room` will tell.  Its end is told by `read`.  Who was asked
 * waits for the other one's first message: only then it surely lets this one READ.
 */
bool link_peer_read(struct link_peer *p, const struct link_read *read);

/* `why` is a sentence without its subject, "it sent …".  `down` is called before it returns. */
void link_peer_close(struct link_peer *p, const char *why, ...)
	__attribute__((format(printf, 2, 3)));

#endif
