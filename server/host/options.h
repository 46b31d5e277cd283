/* SPDX-License-Identifier: BSD-2-Clause */
/* options.h -- what kvd's command line and configuration file say; of a namespace: with what
 * is its own in their place. */
#ifndef SERVER_HOST_OPTIONS_H
#define SERVER_HOST_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/addr.h"
#include "common/opt.h"
#include "server/durable/options.h"
#include "server/host/namespace.h"

#define CONNECTIONS_DEFAULT 2500u

struct options {
	const char *listen;
	const char *device;
	const char *bootstrap;
	uint64_t memory_bytes;
	int workers;
	int poll;
	int connections; /* 0: CONNECTIONS_DEFAULT, or as many as the device has room for */
	int user_connections; /* of one user; 0: all but an eighth */
	int lease_ms;
	const char *users;
	const char *user; /* to become; NULL: stay who it is */
	bool insecure;
	bool check;
	int handshakes; /* a second and address; 0: any number */
	struct durable_options durable; /* dir NULL: no database */
	const char *ready_file;
	const char *config;
	int log_level;
	int log_to;
	const char *metrics;
	int slow_ms;
	struct opt_list namespace_list;
	struct namespace_options namespaces[NAMESPACES_MAX];
	unsigned namespace_count;
	const char *cluster; /* "zk1:2181,zk2:2181/prod"; NULL: none */
	const char *cluster_key, *cluster_listen;
	struct addr cluster_addr; /* which cluster_listen means */
	int cluster_copies;
	bool evict;
	bool wipe;
};

#endif
