/* SPDX-License-Identifier: BSD-2-Clause */
/* impl.h -- a connection, a port and a door, for the files of this folder. */
#ifndef SERVER_CLUSTER_LINK_IMPL_H
#define SERVER_CLUSTER_LINK_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "server/cluster/link/options.h"

/* Messages that the other end may send before it is told that some were taken. */
#define LINK_CREDITS 32u
/* And two that are empty and say that: each needs half of the credits taken since the last. */
#define LINK_EMPTY 2u
#define LINK_RECEIVES (LINK_CREDITS + LINK_EMPTY)
#define LINK_EMPTY_POSTED 4u
/* One message of so many is signalled: its completion is that of all before it. */
#define LINK_SIGNAL_EACH 8u
/* And an empty one more at the end, behind what is not signalled. */
#define LINK_SEND_DEPTH (LINK_SENDS + LINK_EMPTY_POSTED + 1 + LINK_READS)
#define LINK_BUFFERS (LINK_RECEIVES + LINK_SENDS)

enum link_state { LINK_ASKING, LINK_PROVING, LINK_UP, LINK_ENDING };

struct link_peer {
	struct link_peer *next; /* of those that change hands */
	struct link_port *port;
	struct link_door *door;
	struct link_lane lane;
	bool is_asker;
	struct addr addr; /* of the other end */
	uint64_t since_ns;

	/* The door's. */
	struct rdma_cm_id *id;
	struct link_peer *door_next;
	_Atomic bool is_gone;  /* rdma_cm says that the other end is */

	/* Made by the door, ended by the port. */
	struct ibv_qp *qp; /* the door's lock */
	struct ibv_mr *mr;
	uint8_t *memory; /* receives, then sends */
	struct link_exchange exchange;

	/* The port's, once it has it; before that the door's. */
	_Atomic enum link_state state; /* the door looks at it */
	uint32_t serial; /* of its work requests */
	struct link_hello hello; /* the asker's */
	char name[LINK_NAME_BYTES];
	uint64_t moved_ns; /* since when nothing of what was sent has been taken */
	bool is_crowded;  /* somebody found no room */

	/* All count up, and wrap around. */
	uint32_t queued, posted, completed; /* messages to send; completed: as far as is known */
	uint32_t sent, granted;             /* with empty ones; by the other end */
	uint32_t taken, told;               /* from it */
	uint32_t bytes[LINK_SENDS];
	/* Posted, and not flushed. */
	unsigned receives, signalled, empties, reads; /* signalled: messages */
	uint64_t cookies[LINK_READS];
	uint32_t reading; /* bits of cookies */
};

struct link_port {
	struct link_port_options options;
	struct ibv_cq *cq;
	struct link_peer *peers[LINK_PEERS_MAX];
	unsigned count;
	uint32_t serial;
	uint64_t now_ns;
	unsigned events; /* of the channel, to be acknowledged */

	pthread_mutex_t lock; /* a leaf */
	struct link_peer *arrived;
	_Atomic bool has_arrived;
};

struct link_door {
	struct link_door_options options;
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener;
	struct addr addr;
	uint8_t rd_atom;
	struct link_peer *peers; /* all that have an id */
	unsigned count;

	pthread_mutex_t lock; /* a leaf: queue pairs of peers, and those that ended */
	struct link_peer *ended;
};

enum link_wr { LINK_WR_RECEIVE, LINK_WR_SEND, LINK_WR_EMPTY, LINK_WR_READ };

/* index: of a receive or a READ; of what is sent, how many messages were posted with it. */
static inline uint64_t link_wr_id(const struct link_peer *p, enum link_wr kind, uint32_t index)
{
	return (uint64_t)p->serial << 32 | (uint64_t)kind << 16 | (index & 0xffff);
}

#endif
