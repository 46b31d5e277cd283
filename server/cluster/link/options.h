/* SPDX-License-Identifier: BSD-2-Clause */
/* options.h -- what a port and a door are made with, what they tell, and their limits. */
#ifndef SERVER_CLUSTER_LINK_OPTIONS_H
#define SERVER_CLUSTER_LINK_OPTIONS_H

#include "common/addr.h"
#include "common/err.h"
#include "common/rdma/device.h"
#include "common/verbs/verbs.h"
#include "server/cluster/link/message.h"
#include "server/cluster/link/prove.h"

#define LINK_PEERS_MAX 16u  /* of a port */
#define LINK_PROVE_NS 1000000000ull
#define LINK_STALL_NS 2000000000ull
#define LINK_DRAIN_NS 2000000000ull

#define LINK_CONNECT_NS 3000000000ull
#define LINK_PROVING_MAX 8u
/* Connections: with the seven others of a set and a joiner one for each of 64 workers and for the shard,
 * and nearly as many that end. */
#define LINK_DOOR_MAX 1024u
#define LINK_KNOCKS_MAX 64u /* that wait, or are looked at in one go */

/* Messages that wait to be sent or to be taken, and READs under way. */
#define LINK_SENDS 32u
#define LINK_READS 16u

struct link_peer;
struct link_port;

struct link_read {
	void *to; /* of the memory of lkey */
	uint32_t lkey;
	uint32_t bytes;
	uint64_t from;
	uint32_t rkey;
	uint64_t cookie;
};
/* From link_port_poll(), on its thread; they may call what peer.h has. */
struct link_events {
	/* Both ends have proved themselves. */
	void (*up)(void *arg, struct link_peer *peer);
	/* r->header is whole; what is behind it is not looked at yet.  Memory until it returns. */
	void (*message)(void *arg, struct link_peer *peer, struct link_reader *r);
	/* A READ ended; not ok: its memory has anything.  Also behind `down`. */
	void (*read)(void *arg, struct link_peer *peer, uint64_t cookie, bool is_ok);
	/* There is room again for what found none. */
	void (*room)(void *arg, struct link_peer *peer);
	/* It is over, also for one that never was up: a sentence for the log. */
	void (*down)(void *arg, struct link_peer *peer, const char *why);
	void *arg;
};

struct link_port_options {
	const struct verbs *verbs;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel; /* NULL: it is polled only */
	const struct link_key *key;
	const char *name;       /* of this member; the caller's */
	bool is_read;           /* those who have proved themselves may READ */
	struct link_events events;
	void (*wake)(void *arg); /* any thread: there is something to poll; or NULL */
	void *wake_arg;
};

struct link_door_options {
	const struct device *device; /* the caller's */
	struct ibv_pd *pd;
	uint8_t device_port;
	const struct addr *listen;   /* NULL: it only connects */
	struct link_versions versions; /* all zero: those that this program speaks */
	/* Whose that lane is; NULL: nobody's here. */
	struct link_port *(*port)(void *arg, const struct link_lane *lane);
	/* What link_door_connect() began came to nothing; what a port has, the port tells. */
	void (*failed)(void *arg, const struct addr *to, const struct link_lane *lane,
		       const char *why);
	void *arg;
};

#endif
