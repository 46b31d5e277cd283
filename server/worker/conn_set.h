/* SPDX-License-Identifier: BSD-2-Clause */
/* conn_set.h -- a worker's connections.  Its thread, but where said. */
#ifndef SERVER_WORKER_CONN_SET_H
#define SERVER_WORKER_CONN_SET_H

#include <stdint.h>

#define CONN_MAP 1024u

struct conn_set {
	struct conn *map[CONN_MAP]; /* by queue pair number */
	struct conn *first;
	uint32_t credits; /* of all of them */
	unsigned closing;
	_Atomic unsigned load; /* main thread adds, worker subtracts */
};

#endif
