/* SPDX-License-Identifier: BSD-2-Clause */
/* A store that answers everything at once and keeps nothing: what is left is the
 * cost of kvbench itself. */
#include "bench/store/noop.h"

#include <stdlib.h>
#include <string.h>

struct noop_session {
	struct store_session base;
	int depth, count;
	struct kvd_completion done[];
};

struct noop_store {
	struct store base;
	int depth;
};

static void noop_delete(struct store *store)
{
	free(store);
}

static const char *noop_device(const struct store *store)
{
	(void)store;
	return "none: a store that does nothing";
}

static int noop_session_new(struct store *store, struct store_session **session, struct err *err)
{
	int depth = ((struct noop_store *)store)->depth;
	struct noop_session *s = calloc(1, sizeof *s + (size_t)depth * sizeof s->done[0]);

	if (s == NULL)
		return err_set(err, -1, "out of memory");
	s->base.ops = store->ops;
	s->depth = depth;
	*session = &s->base;
	return 0;
}

static void noop_session_delete(struct store_session *session)
{
	free(session);
}

static const char *noop_session_error(const struct store_session *session)
{
	(void)session;
	return "";
}

static int noop_done(struct store_session *session, size_t value_bytes, void *tag)
{
	struct noop_session *s = (struct noop_session *)session;

	if (s->count == s->depth)
		return KVD_EBUSY;
	s->done[s->count++] = (struct kvd_completion){ .tag = tag, .value_bytes = value_bytes };
	return KVD_OK;
}

static int noop_submit_get(struct store_session *session, const void *key, size_t key_bytes,
			   void *value, size_t value_bytes_max, void *tag)
{
	(void)key;
	(void)key_bytes;
	(void)value;
	return noop_done(session, value_bytes_max, tag);
}

static int noop_submit_put(struct store_session *session, const void *key, size_t key_bytes,
			   const void *value, size_t value_bytes, void *tag)
{
	(void)key;
	(void)key_bytes;
	(void)value;
	return noop_done(session, value_bytes, tag);
}

static int noop_poll(struct store_session *session, struct kvd_completion *completions, int max,
		     int timeout_ms)
{
	struct noop_session *s = (struct noop_session *)session;
	int n = s->count < max ? s->count : max;

	(void)timeout_ms;
	s->count -= n;
	memcpy(completions, s->done + s->count, (size_t)n * sizeof *completions);
	return n;
}

static void noop_counters(const struct store_session *session, struct kvd_counters *counters)
{
	(void)session;
	memset(counters, 0, sizeof *counters);
}

static int noop_stats(struct store_session *session, struct store_stats *stats)
{
	(void)session;
	*stats = (struct store_stats){ -1, -1, -1, -1 };
	return 0;
}

static const struct store_ops noop_ops = {
	.name = "noop",
	.delete = noop_delete,
	.device = noop_device,
	.session_new = noop_session_new,
	.session_delete = noop_session_delete,
	.session_error = noop_session_error,
	.submit_get = noop_submit_get,
	.submit_put = noop_submit_put,
	.poll = noop_poll,
	.counters = noop_counters,
	.stats = noop_stats,
};

int store_noop_open(const struct store_config *config, struct store **store, struct err *err)
{
	struct noop_store *s = calloc(1, sizeof *s);

	if (s == NULL)
		return err_set(err, -1, "out of memory");
	s->base.ops = &noop_ops;
	s->depth = config->depth;
	*store = &s->base;
	return 0;
}
