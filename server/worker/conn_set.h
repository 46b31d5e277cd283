/* SPDX-License-Identifier: BSD-2-Clause */
/* conn_set.h -- a worker's connections.  Its thread, but where said. */
#ifndef SERVER_WORKER_CONN_SET_H
#define SERVER_WORKER_CONN_SET_H

#include <stdint.h>

#define CONN_MAP 1024u

struct conn_set {
	struct conn *map[CONN_MAP]; /* by queue pair number */
	struct conn *first;
	struct conn *closing; /* of them, those that end, by closing_next */
	uint32_t credits; /* of all of them */
	/* Main thread: whose queue pairs there are, and places in the completion queue that
	 * are theirs. */
	unsigned load;
	uint32_t places;
};

#endif
