/* SPDX-License-Identifier: BSD-2-Clause */
/* kvd by way of libkvd. */
#include "bench/store/kvd.h"

#include <stdlib.h>

#include "bench/format/jsonread.h"
#include "bench/measure/stopwatch.h"
#include "client/api/raw.h"

struct kvd_store {
	struct store base;
	kvd_client *client;
};

struct kvd_store_session {
	struct store_session base;
	kvd_session *session;
};

static kvd_session *of(const struct store_session *session)
{
	return ((const struct kvd_store_session *)session)->session;
}

static void delete(struct store *store)
{
	kvd_client_delete(&((struct kvd_store *)store)->client);
	free(store);
}

static const char *device(const struct store *store)
{
	return kvd_client_device(((const struct kvd_store *)store)->client);
}

static int session_new(struct store *store, struct store_session **session, struct err *err)
{
	kvd_client *client = ((struct kvd_store *)store)->client;
	struct kvd_store_session *s = calloc(1, sizeof *s);

	if (s == NULL)
		return err_set(err, -1, "out of memory");
	if (kvd_session_new(client, &s->session) < 0) {
		free(s);
		return err_set(err, -1, "%s", kvd_client_error(client));
	}
	s->base.ops = store->ops;
	*session = &s->base;
	return 0;
}

static void session_delete(struct store_session *session)
{
	kvd_session_delete(&((struct kvd_store_session *)session)->session);
	free(session);
}

static const char *session_error(const struct store_session *session)
{
	return kvd_session_error(of(session));
}

static int submit_get(struct store_session *session, const void *key, size_t key_bytes,
		      void *value, size_t value_bytes_max, void *tag)
{
	return kvd_submit_get(of(session), key, key_bytes, value, value_bytes_max, tag);
}

static int submit_put(struct store_session *session, const void *key, size_t key_bytes,
		      const void *value, size_t value_bytes, void *tag)
{
	return kvd_submit_put(of(session), key, key_bytes, value, value_bytes, tag);
}

static int update(struct store_session *session, const void *key, size_t key_bytes,
		  int (*change)(void *arg, void *value, size_t *value_bytes), void *arg,
		  size_t value_bytes_max)
{
	return kvd_update(of(session), key, key_bytes, change, arg, value_bytes_max, -1);
}

static int poll_session(struct store_session *session, struct kvd_completion *completions,
			int max, int timeout_ms)
{
	return kvd_poll(of(session), completions, max, timeout_ms);
}

static void counters(const struct store_session *session, struct kvd_counters *counters)
{
	kvd_session_counters(of(session), counters);
}

static int stats(struct store_session *session, struct store_stats *stats)
{
	struct jsonread *json;
	char *text;

	if (kvd_stats(of(session), &text) < 0)
		return -1;
	json = jsonread_new(text, NULL);
	free(text);
	if (json == NULL)
		return -1;
	stats->cpu_seconds = jsonread_number(jsonread_path(json, "server.cpu_seconds"), -1);
	stats->gets_served = jsonread_number(jsonread_path(json, "operations.get"), -1);
	stats->memory_used_bytes = jsonread_number(jsonread_path(json, "memory.used_bytes"), -1);
	stats->keys = jsonread_number(jsonread_path(json, "keys"), -1);
	jsonread_delete(&json);
	return 0;
}

static int time_raw(struct session_raw *raw, uint64_t *ns)
{
	uint64_t begin = stopwatch_ns();
	int rc = session_raw_run(raw);

	*ns = stopwatch_ns() - begin;
	return rc;
}

static int raw_read(struct store_session *session, const void *key, size_t key_bytes,
		    uint64_t *ns)
{
	struct session_raw raw;
	int rc = session_raw_read(of(session), key, key_bytes, &raw);

	return rc == KVD_OK ? time_raw(&raw, ns) : rc;
}

static int raw_message(struct store_session *session, size_t key_bytes, size_t value_bytes,
		       uint64_t *ns)
{
	struct session_raw raw;
	int rc = session_raw_message(of(session), key_bytes, value_bytes, &raw);

	return rc == KVD_OK ? time_raw(&raw, ns) : rc;
}

static const struct store_ops kvd_ops = {
	.name = "kvd",
	.delete = delete,
	.device = device,
	.session_new = session_new,
	.session_delete = session_delete,
	.session_error = session_error,
	.submit_get = submit_get,
	.submit_put = submit_put,
	.update = update,
	.poll = poll_session,
	.counters = counters,
	.stats = stats,
	.raw_read = raw_read,
	.raw_message = raw_message,
};

int store_kvd_open(const struct store_config *config, struct store **store, struct err *err)
{
	struct kvd_options options = {
		.size = sizeof options,
		.device = config->device,
		.credentials = config->credentials,
		.timeout_ms = config->timeout_ms,
		.depth = config->depth,
		.mirror_bytes = config->mirror_bytes,
		.poll = config->poll,
		.get = config->get == STORE_GET_MESSAGE ? KVD_GET_MESSAGE : KVD_GET_READ,
	};
	struct kvd_store *s = calloc(1, sizeof *s);
	int rc;

	if (s == NULL)
		return err_set(err, -1, "out of memory");
	rc = kvd_client_new(config->server, &options, &s->client);
	if (rc < 0) {
		err_set(err, -1, "%s", s->client != NULL ? kvd_client_error(s->client)
							 : kvd_strerror(rc));
		kvd_client_delete(&s->client);
		free(s);
		return -1;
	}
	s->base.ops = &kvd_ops;
	*store = &s->base;
	return 0;
}
