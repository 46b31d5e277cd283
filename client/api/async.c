/* SPDX-License-Identifier: BSD-2-Clause */
/* Operations that are submitted, many in flight, and their completions. */
#include "client/get/get.h"
#include "client/op/session.h"

int session_submit(struct kvd_session *s, const struct op_class *class, const void *key, size_t key_bytes,
		   void *tag, struct op **op)
{
	int rc = check_key(s, key, key_bytes);

	if (rc)
		return rc;
	if (s->done && s->broken)
		return KVD_EBUSY; /* completions of a broken connection come first */
	rc = session_ready(s);
	if (rc)
		return rc;
	/* An unlock that nobody waits for makes room when it is through. */
	*op = s->in_flight + 1 < s->depth || !session_settle(s) ? op_new(s, class, key, key_bytes)
							       : NULL;
	if (!*op)
		return KVD_EBUSY;
	(*op)->tag = tag;
	return 0;
}

int kvd_submit_getv(kvd_session *s, const void *key, size_t key_bytes, const struct iovec *iov,
		    int iov_count, void *tag)
{
	struct op *op;
	int rc = session_submit(s, &get_class, key, key_bytes, tag, &op);

	if (rc)
		return rc;
	rc = session_set_value(s, &op->value, iov, iov_count);
	if (rc) {
		op_free(op);
		return rc;
	}
	get_start(op, GET_PLAIN);
	return KVD_OK;
}

int kvd_submit_get(kvd_session *s, const void *key, size_t key_bytes, void *value,
		   size_t value_bytes_max, void *tag)
{
	struct iovec all = { value, value_bytes_max };

	return kvd_submit_getv(s, key, key_bytes, &all, 1, tag);
}

int kvd_poll(kvd_session *s, struct kvd_completion *completions, int max, int timeout_ms)
{
	int n = 0;
	uint64_t wait = timeout_ms < 0 ? (uint64_t)s->client->options.timeout_ms + 1000
				       : (uint64_t)timeout_ms;

	if (!s->done && s->in_flight)
		session_poll_for(s, wait * 1000000);
	while (s->done && n < max) {
		struct op *op = s->done;
		s->done = op->next;
		if (!s->done)
			s->done_end = &s->done;
		completions[n++] = (struct kvd_completion){ .tag = op->tag, .result = op->result,
							    .value_bytes = op->result_bytes,
							    .version = op->result_version,
							    .number = op->result_number,
							    .ttl_ms = op->result_ttl_ms };
		op_free(op);
	}
	return n;
}
