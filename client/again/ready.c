/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/again/ready.h"

#include <poll.h>

#include "client/again/follow.h"
#include "client/op/engine.h"
#include "client/op/operation.h"
#include "client/session/connect.h"
#include "client/session/session.h"
#include "client/session/teardown.h"
#include "client/session/wait.h"

#define ATTEMPT_MS_MIN 1000u
#define ATTEMPT_MS_OF_MANY 250u /* where others may answer */
#define ATTEMPT_MS_OF_PORTS 600u /* of the same kvd, which answers, but may be busy with the end of others */
#define ATTEMPT_MS_MAX 8000u    /* twice what rdma_cm takes to ask again */
#define PAUSE_MS_MIN 4
#define PAUSE_MS_MAX 500

/* What another attempt may cure: kvd is being started again, the link is down. */
static bool may_pass(const struct engine *e, int rc)
{
	return rc == KVD_ECONNECT || (rc == KVD_EDEVICE && e->health.was_lost);
}

/* Each of the addresses once, from the present one on. */
static int try_round(struct kvd_session *s, uint64_t end, unsigned limit_ms)
{
	struct engine *e = session_engine(s);
	unsigned left = session_addresses(s);
	uint64_t now;
	int rc;

	do {
		now = clock_ns();
		uint64_t left_ms = now < end ? (end - now) / 1000000 + 1 : 1;
		rc = session_attempt(s, (int)(left_ms < limit_ms ? left_ms : limit_ms));
	} while (may_pass(e, rc) && left-- > 1 && clock_ns() < end);
	return rc;
}

/*
 * Connects again until the time of a call is over, with pauses that double: a kvd that
 * was started again gets its clients back within half a second of its being there, and
 * a thousand clients without one don't keep the network busy.
 */
static int reconnect(struct kvd_session *s)
{
	struct engine *e = session_engine(s);
	uint64_t end = call_deadline_ns(&e->time), begin = clock_ns();
	unsigned pause_ms = PAUSE_MS_MIN;
	unsigned limit_ms = e->probes			 ? ATTEMPT_MS_OF_PORTS
			    : session_addresses(s) > 1 ? ATTEMPT_MS_OF_MANY
						       : ATTEMPT_MS_MIN;

	if (begin >= end)
		/* the call's time is over */
		return e->health.broken ? e->health.broken_code : KVD_ECONNECT;
	for (;; begin = clock_ns()) {
		int rc = try_round(s, end, limit_ms);
		/* One that failed at once says nothing of how long one may take. */
		if (clock_ns() - begin >= limit_ms * 1000000ull && limit_ms < ATTEMPT_MS_MAX)
			limit_ms *= 2;
		uint64_t rest_ms = pause_ms / 2 + clock_ns() % (pause_ms / 2 + 1);
		if (!may_pass(e, rc) || clock_ns() + rest_ms * 1000000 >= end) {
			if (rc == KVD_ECONNECT && !e->health.broken) {
				health_explain(&e->health);
				health_recall(&e->health);
			}
			return rc;
		}
		poll(NULL, 0, (int)rest_ms);
		pause_ms = pause_ms < PAUSE_MS_MAX / 2 ? 2 * pause_ms : PAUSE_MS_MAX;
	}
}

/* A connection, to who serves; operations that were in flight wait for that, or have ended. */
static int connect_again(struct kvd_session *s)
{
	struct engine *e = session_engine(s);
	int rc = 0;

	while (!rc && !health_is_usable(&e->health)) {
		if (health_is_good(&e->health) && e->in_flight == e->adrift) {
			rc = session_follow(s);
			continue;
		}
		session_drift(s);
		e->counters.reconnects++;
		rc = reconnect(s);
		/* What is adrift is of a cluster's primary: who is none is not to be asked first. */
		e->health.moved = !rc && e->adrift && session_is_of_cluster(s) && !e->reign;
	}
	return rc;
}

int session_ready(struct kvd_session *s)
{
	struct engine *e = session_engine(s);
	int rc;

	if (e->home_ns && health_is_usable(&e->health) && clock_ns() >= e->home_ns)
		session_go_home(s);
	if (health_is_usable(&e->health))
		return 0;
	rc = connect_again(s);
	if (rc && !may_pass(e, rc))
		ops_end_adrift(e, rc);
	return rc;
}

int session_ready_alone(struct kvd_session *s)
{
	int rc = session_alone(s);

	return rc ? rc : session_ready(s);
}

int session_begin(struct kvd_session *s, const void *key, size_t key_bytes)
{
	int rc = check_key(session_err(s), key, key_bytes);

	return rc ? rc : session_ready_alone(s);
}
