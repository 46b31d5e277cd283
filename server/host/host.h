/* SPDX-License-Identifier: BSD-2-Clause */
/* host.h -- what the namespaces of a kvd share: the main thread's, but where said. */
#ifndef SERVER_HOST_HOST_H
#define SERVER_HOST_HOST_H

#include <pthread.h>
#include <stdint.h>

#include "common/addr.h"
#include "common/err.h"
#include "server/host/options.h"

/* An address that is served; the first one's is in every message. */
#define LISTENERS_MAX 16
struct listener {
	struct addr addr;
	struct rdma_cm_id *id; /* NULL: not open, or its device is lost */
	unsigned rail;
};

struct host {
	struct rdma_event_channel *channel;
	struct listener listeners[LISTENERS_MAX];
	unsigned listener_count;
	/* The first is the one without a name.  Not changed once connections are taken. */
	struct server *servers;
	struct options options[1 + NAMESPACES_MAX]; /* theirs */
	unsigned server_count;
	unsigned worker_count; /* of all of them */
	/* Reads command line and file again.  0, or -1 after setting err. */
	int (*read_options)(struct options *options, struct err *err);
	struct knock *knock; /* any thread */
	struct http *http;   /* NULL: no --metrics */
	struct watch *watch;
	uint64_t conn_last_number;
	uint64_t looked_ns;
	int signal_fd;
	struct arrival *waiting; /* for room, the first one first */

	/* Connections that their workers are done with. */
	pthread_mutex_t done_lock;
	struct conn *done;
	int done_fd; /* eventfd */
};

#endif
