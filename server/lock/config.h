/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * config.h -- what the locker is given: the lock words, a device to change them by, and
 * what it calls when somebody else has to act.
 */
#ifndef SERVER_LOCK_CONFIG_H
#define SERVER_LOCK_CONFIG_H

#include <stdint.h>

#include "common/wire.h"
#include "server/lock/loopback.h"

struct conn; /* whose it is, the locker does not look inside */

/* Called by the locker's thread.  None of them waits. */
struct locker_hooks {
	/* Answers a request that locker_wait() took. */
	void (*answer)(struct conn *conn, const struct wire_request *request,
		       enum wire_status status);
	/* Nothing waits for the connection any more.  The locker does not use it again. */
	void (*forgotten)(struct conn *conn);
	/* READs what a connection says it holds, for locker_held() to be called with.  By the id
	 * of locker_born(), all of it, as is the next. */
	void (*read_held)(void *arg, uint64_t connection, uint64_t look);
	/* Cuts a connection off, so that locker_dead() is called. */
	void (*fence)(void *arg, uint64_t connection);
	/* Changes that a lock kept away are to be tried again. */
	void (*wake_all)(void *arg);
	void *arg;
};

struct locker_config {
	struct loopback_config loopback; /* where the lock words are */
	uint64_t stripes;
	uint64_t last_id;  /* ids of connections are above it */
	uint64_t lease_ns; /* that a holder has while others wait */
	struct locker_hooks hooks;
};

#endif
