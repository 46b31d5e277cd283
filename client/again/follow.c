/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/again/follow.h"

#include <poll.h>

#include "client/op/engine.h"
#include "client/session/session.h"
#include "client/session/where.h"

#define PAUSE_FIRST_MS 1 /* where a hand-over is nearly done */
#define PAUSE_MS 4
#define PAUSES_FIRST 25u
#define FOLLOW_AGAIN_NS 1000000000ull
#define DOUBLED_MAX 6u
#define PAUSES_HERE 50u /* then another member is asked: this one may be cut off */

static int nobody(struct kvd_session *s)
{
	struct engine *e = session_engine(s);

	return err_set(&e->health.err, KVD_ECONNECT, "no member of the cluster served within %d ms; "
		       "kvd at %s was asked last: \"kvcli cluster status\" says why",
		       e->options->timeout_ms, e->health.peer);
}

static int not_made(struct kvd_session *s)
{
	struct engine *e = session_engine(s);

	e->health.moved = false; /* there is nowhere else */
	return err_set(&e->health.err, KVD_ECONNECT, "kvd at %s knows of no primary: nobody has made "
		       "the cluster (\"kvcli cluster init\"), or it does not reach ZooKeeper",
		       e->health.peer);
}

/* Who is sent to and fro, as a primary is dead that is named still, waits a little in between. */
static void pause_between(struct engine *e)
{
	uint64_t now_ns = clock_ns();

	e->follows = now_ns < e->followed_ns + FOLLOW_AGAIN_NS ? e->follows + 1 : 0;
	e->followed_ns = now_ns;
	if (e->follows)
		poll(NULL, 0, 1 << (e->follows < DOUBLED_MAX ? e->follows : DOUBLED_MAX));
}

/* The next session_ready() connects, to the route's present address. */
static int leave(struct engine *e)
{
	pause_between(e);
	e->was_primary = false; /* it is not lost */
	health_fail(&e->health, KVD_ECONNECT, "%s is not the cluster's primary any more",
		    e->health.peer);
	return 0;
}

int session_follow(struct kvd_session *s)
{
	struct engine *e = session_engine(s);
	uint64_t end = call_deadline_ns(&e->time), begun_ns = clock_ns();

	for (unsigned pauses = 0; clock_ns() < end; pauses++) {
		struct where w;
		int rc = where_ask(s, true, &w);

		if (rc)
			return rc == KVD_ECONNECT || rc == KVD_ETIMEDOUT ? 0 : rc;
		if (!w.epoch && pauses == PAUSES_HERE)
			return not_made(s);
		/* Lost and named it is dead, and has its successor here soon, or elsewhere; or it
		 * is not, and is heard of again. */
		if (w.is_gone && w.heard_ns > begun_ns) {
			where_found(s);
			return leave(e);
		}
		/* A connection is of the reign that it began in: to the same one there is a new one. */
		if (w.is_known && (w.reign || !w.is_here) && !w.is_gone)
			return leave(e);
		if (pauses == PAUSES_HERE) {
			where_forget(s);
			return leave(e);
		}
		poll(NULL, 0, pauses < PAUSES_FIRST ? PAUSE_FIRST_MS : PAUSE_MS);
	}
	return nobody(s);
}
