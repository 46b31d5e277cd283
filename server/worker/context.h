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
#include "common/rdma/device.h"
#include "common/rdma/link.h"
#include "common/auth/space.h"
#include "server/worker/commands.h"

enum poll_policy { POLL_ADAPTIVE, POLL_BUSY, POLL_EVENT };

struct conn;
struct server;

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
};

struct server {
	struct host *host;
	struct options *options; /* kvd's, with what is its own in their place */
	struct server_hooks hooks;
	char name[SPACE_NAME_BYTES_MAX + 1]; /* "": the one without */
	uint64_t space;         /* space_number() of it */
	struct addr addr;
	struct device device;
	const struct verbs *verbs;
	struct link_limits limits;

	struct ibv_context *ctx; /* the listener's */
	uint8_t port;
	struct ibv_pd *pd;
	struct table *table;
	struct store *store;
	char *data_dir;          /* of a namespace with a name, where durable */
	struct durable *durable; /* NULL: no database */
	struct locker *locker;   /* NULL: the device has no atomics */
	struct gate *gate;
	struct knock *knock;     /* of all namespaces; NULL: any number of handshakes */
	struct fates *fates;
	struct news *news;

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
	_Atomic uint64_t last_id;     /* of a connection, where there is no locker that gives it */
	uint64_t instance; /* random: tells clients one start of kvd from the next */
};

#endif
