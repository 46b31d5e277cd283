/* SPDX-License-Identifier: BSD-2-Clause */
/* options.h -- kvfront's command line.  Letters and names are memcached's where they mean the
 * same. */
#ifndef FRONT_OPTIONS_H
#define FRONT_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/opt.h"

#define OPTIONS_THREADS_MAX 64
#define OPTIONS_PORT_DEFAULT 11211

struct options {
	/* Where it listens. */
	int port; /* 0: not on TCP; -1: any */
	const char *listen;
	const char *socket; /* NULL: none */
	int socket_mode;
	int backlog;

	int connections;
	int threads;
	uint64_t item_bytes_max;
	uint64_t buffer_bytes;
	double idle_s; /* 0: for ever */
	double stall_s;
	double timeout_s;

	const char *auth_file;
	bool may_shut_down;
	bool may_flush;

	/* Its kvd. */
	const char *server;
	const char *device;
	const char *credentials;
	const char *namespace_name;
	uint64_t mirror_bytes;

	const char *user;
	const char *metrics;
	const char *ready_file;
	int log_level;
	int log_to;
};

/* 0: go on; 1: end with *status. */
int options_parse(struct options *o, int argc, char **argv, int *status);

#endif
