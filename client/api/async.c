/* SPDX-License-Identifier: BSD-2-Clause */
/* Operations that are submitted, many in flight, and their completions. */
#include "client/api/async.h"

#include "client/again/ready.h"
#include "client/again/resume.h"
#include "client/get/get.h"
#include "client/op/engine.h"
#include "client/op/operation.h"
#include "client/session/connect.h"
#include "client/session/session.h"
#include "client/session/wait.h"

int session_submit(struct kvd_session *s, const struct op_class *class, const void *key,
		   size_t key_bytes, void *tag, struct op **op)
{
	struct engine *e = session_engine(s);
	int rc = check_key(&e->health.err, key, key_bytes);

	if (rc)
		return rc;
	if (!health_is_usable(&e->health) || e->adrift || e->is_homesick) {
		if (e->done && e->health.broken)
			return KVD_EBUSY; /* completions of a broken connection come first */
		if (e->is_homesick && session_settle(s) && session_drains(s))
			return KVD_EBUSY;
		rc = session_ready(s);
		if (rc)
			return rc;
		session_resume(s);
	}
	/* An unlock that nobody waits for makes room when it is through. */
	e->may_drift = e->event_fd < 0; /* an event loop gets back what is refused */
	*op = e->in_flight + 1 < e->depth || !session_settle(s) ? op_new(e, class, key, key_bytes)
								: NULL;
	e->may_drift = false;
	if (!*op)
		return KVD_EBUSY;
	op_set_tag(*op, tag);
	return 0;
}

int kvd_submit_getv(kvd_session *s, const void *key, size_t key_bytes, const struct iovec *iov,
		    int iov_count, void *tag)
{
	struct op *op;
	int rc = session_submit(s, &get_class, key, key_bytes, tag, &op);

	return rc ? rc : get_start(op, GET_PLAIN, iov, iov_count);
}

int kvd_submit_get(kvd_session *s, const void *key, size_t key_bytes, void *value,
		   size_t value_bytes_max, void *tag)
{
	struct iovec all = { value, value_bytes_max };

	return kvd_submit_getv(s, key, key_bytes, &all, 1, tag);
}

int kvd_submit_exists(kvd_session *s, const void *key, size_t key_bytes, void *tag)
{
	struct op *op;
	int rc = session_submit(s, &get_class, key, key_bytes, tag, &op);

	return rc ? rc : get_start(op, GET_EXISTS, NULL, 0);
}

int kvd_poll(kvd_session *s, struct kvd_completion *completions, int max, int timeout_ms)
{
	struct engine *e = session_engine(s);
	uint64_t wait_ms = timeout_ms < 0 ? (uint64_t)e->options->timeout_ms + 1000
					  : (uint64_t)timeout_ms;
	int n = 0;

	if (!e->done && e->in_flight && timeout_ms)
		session_poll_or_resume(s, wait_ms * 1000000);
	else if (!e->done && e->in_flight)
		session_poll_for(s, 0);
	while (n < max && ops_take_done(e, &completions[n]))
		n++;
	return n;
}
