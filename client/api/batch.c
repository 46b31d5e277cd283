/* SPDX-License-Identifier: BSD-2-Clause */
/* Batches: as many in flight as the session's depth, posted with as few doorbells
 * as that takes. */
#include <stdbool.h>

#include "client/kvd.h"
#include "client/session/wait.h"

#define POLL_MAX 32

typedef int submit_fn(struct kvd_session *s, struct kvd_item *item, const void *arg);

/* Nothing can be submitted: each item would wait for kvd anew, and in vain. */
static bool is_gone(int rc)
{
	return rc == KVD_ECONNECT || rc == KVD_ETIMEDOUT || rc == KVD_EDENIED;
}

/* Every item has its result afterwards; the first error among them, or KVD_OK. */
static int run(struct kvd_session *s, struct kvd_item *items, size_t count, submit_fn *submit,
	       const void *arg)
{
	struct kvd_completion c[POLL_MAX];
	size_t next = 0, done = 0;
	int first = KVD_OK;

	while (done < count) {
		int rc = KVD_OK;
		for (; next < count && (rc = submit(s, &items[next], arg)) == KVD_OK; next++)
			;
		if (rc < 0 && rc != KVD_EBUSY) {
			first = first ? first : rc;
			do {
				items[next++].result = rc;
				done++;
			} while (is_gone(rc) && next < count);
			continue;
		}
		int n = kvd_poll(s, c, POLL_MAX, -1);
		for (int i = 0; i < n; i++) {
			struct kvd_item *item = c[i].tag;
			item->result = c[i].result;
			item->value_bytes = c[i].value_bytes;
			item->version = c[i].version;
			item->ttl_ms = c[i].ttl_ms;
			item->flags = c[i].flags;
			item->signs = c[i].signs;
			if (item->result < 0 && !first)
				first = item->result;
		}
		done += (size_t)(n > 0 ? n : 0);
	}
	return first;
}

static int submit_get(struct kvd_session *s, struct kvd_item *item, const void *arg)
{
	(void)arg;
	return kvd_submit_get(s, item->key, item->key_bytes, item->value, item->value_bytes_max,
			      item);
}

static int submit_put(struct kvd_session *s, struct kvd_item *item, const void *arg)
{
	return kvd_submit_put_with(s, item->key, item->key_bytes, item->value, item->value_bytes,
				   arg, item);
}

static int submit_exists(struct kvd_session *s, struct kvd_item *item, const void *arg)
{
	(void)arg;
	return kvd_submit_exists(s, item->key, item->key_bytes, item);
}

static int submit_del(struct kvd_session *s, struct kvd_item *item, const void *arg)
{
	(void)arg;
	return kvd_submit_del(s, item->key, item->key_bytes, item);
}

int kvd_mget(kvd_session *s, struct kvd_item *items, size_t count)
{
	int rc = session_alone(s);

	return rc ? rc : run(s, items, count, submit_get, NULL);
}

int kvd_mput(kvd_session *s, struct kvd_item *items, size_t count, const struct kvd_change *change)
{
	int rc = session_alone(s);

	return rc ? rc : run(s, items, count, submit_put, change);
}

int kvd_mexists(kvd_session *s, struct kvd_item *items, size_t count)
{
	int rc = session_alone(s);

	return rc ? rc : run(s, items, count, submit_exists, NULL);
}

int kvd_mdel(kvd_session *s, struct kvd_item *items, size_t count)
{
	int rc = session_alone(s);

	return rc ? rc : run(s, items, count, submit_del, NULL);
}
