/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/session/ready.h"

#include <poll.h>

#include "client/op/engine.h"
#include "client/op/operation.h"
#include "client/session/connect.h"
#include "client/session/session.h"
#include "client/session/teardown.h"
#include "client/session/wait.h"

#define ATTEMPT_MS_MIN 1000u
#define ATTEMPT_MS_MAX 8000u /* twice what rdma_cm takes to ask again */
#define PAUSE_MS_MIN 4
#define PAUSE_MS_MAX 500

/* What another attempt may cure: kvd is being started again, the link is down. */
static bool may_pass(const struct engine *e, int rc)
{
	return rc == KVD_ECONNECT || (rc == KVD_EDEVICE && e->health.device_lost);
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
	unsigned pause_ms = PAUSE_MS_MIN, limit_ms = ATTEMPT_MS_MIN;

	if (begin >= end)
		/* the call's time is over */
		return e->health.broken ? e->health.broken_code : KVD_ECONNECT;
	for (;; begin = clock_ns()) {
		uint64_t left_ms = begin < end ? (end - begin) / 1000000 + 1 : 1;
		int rc = session_attempt(s, (int)(left_ms < limit_ms ? left_ms : limit_ms));
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

int session_ready(struct kvd_session *s)
{
	struct engine *e = session_engine(s);

	if (health_is_good(&e->health))
		return 0;
	session_down(s);
	e->counters.reconnects++;
	return reconnect(s);
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
