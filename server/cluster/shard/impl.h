/* SPDX-License-Identifier: BSD-2-Clause */
/* impl.h -- a shard and its crew, for the files of this folder. */
#ifndef SERVER_CLUSTER_SHARD_IMPL_H
#define SERVER_CLUSTER_SHARD_IMPL_H

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>

#include "server/cluster/agree/agree.h"
#include "server/cluster/config/keeper.h"
#include "server/cluster/link/key.h"
#include "server/cluster/link/peer.h"
#include "server/cluster/link/port.h"
#include "server/cluster/link/door.h"
#include "server/cluster/member/member.h"
#include "server/cluster/member/primary.h"
#include "server/cluster/replica/begin.h"
#include "server/cluster/replica/copy.h"
#include "server/cluster/replica/empty.h"
#include "server/cluster/replica/order.h"
#include "server/cluster/replica/replica.h"
#include "server/cluster/shard/command.h"
#include "server/cluster/shard/options.h"
#include "server/cluster/shard/present.h"

#define SHARD_ORDERS 64u   /* that not all workers have taken */
#define SHARD_TICK_MS 5
#define SHARD_TICK_TURN_MS 1 /* while the primary changes */
#define SHARD_LANES (SHARD_WORKERS_MAX + 1) /* 0: the shard's own */
#define SHARD_PATH_BYTES 128u
#define SHARD_OTHERS (MEMBER_PEERS_MAX + 4) /* members, a joiner, and some that are going */
#define SHARD_COPY_BYTES_S (256ull << 20)   /* of a copy, a second */

struct shard_order {
	struct replica_order order;
	uint64_t number; /* member_obeyed()'s; 0: nobody waits for it */
	unsigned left;   /* workers that have not obeyed */
};

/* A worker's part. */
struct crew {
	struct shard *shard;
	unsigned index;
	struct link_port *port;
	struct ibv_comp_channel *channel;
	struct replica_worker *replica;
	struct link_peer *asked[LINK_PEERS_MAX]; /* that are up, which this end asked for */
	uint64_t taken;   /* orders */
	bool is_obeying;  /* the latest of them is not done */
};

enum lane_state { LANE_NONE, LANE_ASKED, LANE_UP };

/* This one's connections to another member, which it asked for. */
struct lanes {
	char name[LINK_NAME_BYTES];
	struct {
		enum lane_state state;
		uint64_t asked_ns;
	} of[SHARD_LANES];
};

/* A copy that this one makes, or gets. */
struct joining {
	uint64_t emptying;  /* the order; 0: none */
	struct durable_op wipe; /* of the disk, behind it */
	struct durable_port wiped;
	bool is_told;       /* that it is made */
	uint64_t began_ns, told_ns;
	char name[CONFIG_NAME_BYTES];
	uint64_t lacking, lacking_ns; /* the joiner's eldest record, and since when */
	uint64_t pause_ns;  /* nobody is invited until then */
	uint64_t invited_ns;
	unsigned turn;      /* of those who may be */
};

/* What a member of the set lacks, and since when (stuck.h). */
struct stuck {
	uint64_t epoch, number, since_ns, looked_ns;
	bool is_probed, is_told;
};

struct shard {
	struct shard_options options;
	char name[CONFIG_NAME_BYTES];
	char servers[256], base[SHARD_PATH_BYTES], path[SHARD_PATH_BYTES];
	char digest[KEY_DIGEST_BYTES];
	uint64_t life;
	pthread_t thread;
	bool is_started;
	int wake_fd;
	_Atomic bool stops;

	/* The shard's thread. */
	struct member member;
	struct keeper keeper;
	struct link_door *door;
	struct link_port *port; /* lane 0 */
	struct ibv_comp_channel *channel;
	struct replica *replica;
	struct link_peer *peers[LINK_PEERS_MAX]; /* of lane 0, that are up */
	/* Does what a member wants done. */
	void (*act)(struct shard *s, const struct member_actions *actions);
	struct link_reader *asked;  /* the OPEN that is being answered */
	struct joining joining;
	struct stuck stuck[MEMBER_PEERS_MAX]; /* by place */
	uint64_t told_ns, looked_ns, warned_ns;
	uint64_t port_ns;           /* when the port's state was looked at */
	bool is_unwritten;          /* a write could not be asked for */
	bool is_over;               /* the session with the agreement is, or could not be begun */
	uint64_t opened_ns;         /* when one was begun last behind that */
	struct roster looking;      /* a look that is under way: `names` are to be read */
	unsigned names;
	bool is_looking;
	bool is_barred;             /* each worker knows that it begins no change */
	uint64_t sealed_ns;         /* when a fail-over began; 0: none is under way */

	struct crew crew[SHARD_WORKERS_MAX];

	pthread_mutex_t lock; /* a leaf: all below */
	struct shard_order orders[SHARD_ORDERS];
	_Atomic uint64_t ordered; /* also read without it */
	uint64_t done;            /* orders that all have obeyed */
	struct lanes lanes[SHARD_OTHERS];
	struct member seen;       /* for shard_status() */
	struct roster roster;     /* the shard's thread writes it */
	struct admin admin;
	uint64_t failovers, failover_ns; /* since the start; how long the last one took */
	char why[256];            /* it is unfit, or the agreement's last failure */
	bool is_unfit;
};

static inline uint64_t shard_clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_BOOTTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* The connection of lane 0 with that one; NULL: there is none.  The shard's thread. */
static inline struct link_peer *shard_peer(const struct shard *s, const char *name)
{
	for (unsigned i = 0; i < LINK_PEERS_MAX; i++)
		if (s->peers[i] && !strcmp(link_peer_name(s->peers[i]), name))
			return s->peers[i];
	return NULL;
}

/* Any thread: its own looks.  The counter can't be full: each wake adds one. */
static inline void shard_wake(struct shard *s)
{
	(void)!eventfd_write(s->wake_fd, 1);
}

/* Any thread: it lacks a change, or can't do what is ordered. */
static inline void shard_say(struct shard *s, const char *why)
{
	pthread_mutex_lock(&s->lock);
	snprintf(s->why, sizeof s->why, "%s", why);
	s->is_unfit = true;
	pthread_mutex_unlock(&s->lock);
	shard_wake(s);
}

#endif
