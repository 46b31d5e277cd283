/* SPDX-License-Identifier: BSD-2-Clause */
/* kvd_lock.h -- a lock: the words that it is made of. */
#ifndef CLIENT_API_KVD_LOCK_H
#define CLIENT_API_KVD_LOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "client/op/engine.h"
#include "client/op/look.h"
#include "client/session/session.h"

struct kvd_lock {
	struct kvd_session *session;
	uint64_t connection; /* the session's so many, on which it was taken */
	unsigned count;
	struct {
		uint64_t stripe;
		uint64_t token;
	} part[];
};

/* Whether a swap of a lock word counts that is complete now (doc/cluster.md, 8).  reign: as
 * grant_reign() before it was posted. */
static inline bool lock_counts(struct engine *e, uint64_t reign)
{
	return !e->table.grant.is_needed || look_counts(e, reign);
}

/* It does not, by what the session knows: the primary is asked, which looks at its own lease. */
int lock_confirm(struct kvd_session *session);
/* Waits in kvd's queue for up to timeout_ms; 0: for no longer than an answer takes.  KVD_OK or
 * KVD_E*: then it is not held. */
int lock_wait(struct kvd_session *session, uint64_t stripe, uint64_t token, int timeout_ms);

/* Asks whether the session holds it still: KVD_OK or KVD_E*. */
int lock_ask(struct kvd_session *session, uint64_t stripe, uint64_t token, bool *held);

/* Whether its connection is there, and of who serves.  kvd's own ids of connections would not do:
 * another start of kvd, or another member, gives the same ones. */
static inline bool lock_is_connected(const struct kvd_lock *lock)
{
	const struct engine *e = session_engine(lock->session);

	return health_is_usable(&e->health) && e->connections == lock->connection;
}

#endif
