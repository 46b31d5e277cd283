/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * context.h -- one namespace: pointers to its table and to all that serves it.
 *
 * The main thread fills it in before the workers run (server/host/server.h).  Afterwards
 * what is not atomic stays as it is, but where said.
 */
#ifndef SERVER_WORKER_CONTEXT_H
#define SERVER_WORKER_CONTEXT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/addr.h"
#include "common/layout.h"
#include "common/rdma/device.h"
#include "common/rdma/link.h"
#include "common/auth/space.h"
#include "common/wire.h"
#include "server/worker/commands.h"

enum poll_policy { POLL_ADAPTIVE, POLL_BUSY, POLL_EVENT };

struct conn;
struct server;

/* Of WIRE_CLUSTER. */
struct cluster_command {
	enum wire_cluster what;
	uint64_t id;
	unsigned copies;
	const char *member; /* a name; "": none */
};

/* Of a member, for metrics. */
struct cluster_figures {
	uint64_t epoch, in_sync, copies, lag_records; /* of the member that is behind most */
	uint64_t lease_left_ns, failovers, failover_ns; /* how long the last one took */
	bool serves, is_reached, is_fit; /* the agreement; it lacks no change */
};

/* What WIRE_WHERE says besides addresses. */
struct cluster_where {
	uint64_t epoch;
	uint32_t heard_us; /* how long ago it heard of the primary; UINT32_MAX: it does not */
	uint16_t ports;    /* so many of the addresses are the primary's */
};

/* What a worker asks of those above it. */
struct server_hooks {
	/* The connection is drained: it is the main thread's again.  One that is given up: the
	 * main thread destroys its queue pair, sets `is_cut_off`, and wakes the worker; the
	 * second call is as above. */
	void (*done)(struct conn *conn);
	/* Whether a connection is not yet destroyed. */
	bool (*knows)(struct server *server, uint64_t connection_id);
	/* Figures as JSON; the length. */
	size_t (*stats)(const struct server *server, char *buf, size_t buf_bytes);
	/* What it is in its cluster, in the same form; NULL: it is of none, as for the next two. */
	size_t (*cluster)(void *arg, char *buf, size_t buf_bytes);
	void (*cluster_figures)(void *arg, struct cluster_figures *figures);
	/* Where its members are, as WIRE_WHERE has it; the length. */
	size_t (*cluster_where)(void *arg, struct cluster_where *where, char *buf, size_t buf_bytes);
	/* A command, which is begun, or how far it is; `text` becomes a sentence. */
	enum wire_status (*cluster_command)(void *arg, const struct cluster_command *command,
					    enum wire_backup *state, char *text, size_t text_bytes);
	void *cluster_arg;
};

/* A connection is of the reign that it began in: what it asks for is executed in that only. */
struct membership {
	_Atomic uint64_t reign;          /* 0: requests are not executed here */
	_Atomic bool is_held;            /* changes wait: another one is to be primary */
	/* CLOCK_BOOTTIME.  What changed nothing is answered until then; and a reader's lease is told to be
	 * good until then, which is 0 while none gets one. */
	_Atomic uint64_t lease_until_ns, reader_until_ns;
};

/*
 * One of the RDMA devices that kvd serves.  The table is registered with each; a worker is of
 * one, and so are its queues, what it registers, and its connections.  The lock words are those
 * of the first: its clients alone may change them by atomics, the others' ask the locker
 * (doc/decisions.md, "Several devices").
 */
struct rail {
	unsigned number; /* 0: the first, whose end is kvd's */
	struct ibv_context *ctx;
	uint8_t port;
	struct addr addr; /* the first one that is on it */
	struct link_limits limits;
	struct ibv_pd *pd; /* the namespace's own */
	atomic_bool is_lost; /* for good: nobody comes by it any more.  Set by any thread */
};

static inline const char *rail_name(const struct rail *rail)
{
	return rail->ctx->device->name;
}

struct server {
	struct host *host;
	struct options *options; /* kvd's, with what is its own in their place */
	struct server_hooks hooks;
	char name[SPACE_NAME_BYTES_MAX + 1]; /* "": the one without */
	uint64_t space;         /* space_number() of it */
	struct addr addr;
	struct device device;
	const struct verbs *verbs;

	struct rail rails[RAILS_MAX]; /* the first is that of `addr`, and of the locks */
	unsigned rail_count;
	struct table *table;
	struct store *store;
	char *data_dir;          /* of a namespace with a name, where durable */
	struct durable *durable; /* NULL: no database */
	struct locker *locker;   /* NULL: the device has no atomics */
	struct gate *gate;
	struct knock *knock;     /* of all namespaces; NULL: any number of handshakes */
	struct fates *fates;
	struct completions *completions; /* of a cluster; or NULL */
	struct news *news;
	struct membership *membership; /* NULL: of no cluster */
	uint64_t hash_seed;            /* of a cluster: all members have the same */

	struct worker *worker[COMMANDS_MAX];
	unsigned worker_count;
	unsigned worker_first; /* its first one, counted through all namespaces */
	struct commands_all commands; /* the workers' */
	enum poll_policy poll;
	unsigned connections_max;
	unsigned slow_ms; /* a request that takes as long is told of; 0: none */
	bool timed;       /* somebody wants to know how long requests take */

	/* Changed by the main thread only; others read under the lock. */
	pthread_mutex_t conns_lock;
	struct conn *conns;
	unsigned conn_count;

	_Atomic uint64_t connections; /* ready ones */
	_Atomic uint64_t pending;     /* have not said a good hello */
	_Atomic uint64_t refused;
	_Atomic uint64_t denied;      /* hellos */
	_Atomic uint64_t forbidden;   /* requests that the user may not make */
	_Atomic uint64_t rkey_changes;
	_Atomic uint64_t wrong_rights; /* of a queue pair, found by asking the device */
	_Atomic uint64_t protocol_errors;
	uint64_t start_ns;
	/* Of a connection.  Where there is a locker that gives them: what it begins above. */
	_Atomic uint64_t last_id;
	uint64_t instance; /* random: tells clients one start of kvd from the next */
};

/*
 * Whether what was asked for in that reign may take effect: the kvd may have been deposed since,
 * and be primary again.
 */
static inline bool server_is_in_reign(const struct server *s, uint64_t reign)
{
	return !s->membership || atomic_load(&s->membership->reign) == reign;
}

#endif
