/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * memcached by way of libmemcached.  What is submitted is done by the next poll: all
 * GETs by one request for many keys, PUTs one after another, as the library has no
 * way to have several under way and learn what became of each.
 */
#include "bench/store/memcached.h"

#include "config.h"

#ifndef HAVE_LIBMEMCACHED

int store_memcached_open(const struct store_config *config, struct store **store, struct err *err)
{
	(void)config;
	(void)store;
	return err_set(err, -1, "this kvbench was built without libmemcached");
}

#else

#include <libmemcached/memcached.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/store/place.h"
#include "bench/workload/key.h"

struct memcached_store {
	struct store base;
	struct place place;
	int timeout_ms, depth;
	char device[PLACE_TEXT_BYTES + 32];
};

struct memcached_op {
	void *tag;
	void *value; /* NULL: a PUT */
	const void *put;
	size_t value_bytes;
	bool answered;
	size_t key_bytes;
	char key[KEY_BYTES_MAX];
};

struct memcached_session {
	struct store_session base;
	memcached_st *memc;
	int depth, count;
	const char **keys;
	size_t *key_bytes;
	struct memcached_op ops[];
};

static struct memcached_session *of(struct store_session *session)
{
	return (struct memcached_session *)session;
}

static void delete(struct store *store)
{
	free(store);
}

static const char *device(const struct store *store)
{
	return ((const struct memcached_store *)store)->device;
}

static void session_delete(struct store_session *session)
{
	struct memcached_session *s = of(session);

	if (s->memc != NULL)
		memcached_free(s->memc);
	free(s->keys);
	free(s->key_bytes);
	free(s);
}

static int connect_to(struct memcached_session *s, const struct memcached_store *store,
		      struct err *err)
{
	const struct place *place = &store->place;
	uint64_t timeout_us = (uint64_t)store->timeout_ms * 1000;
	memcached_return_t rc;

	s->memc = memcached_create(NULL);
	if (s->memc == NULL)
		return err_set(err, -1, "out of memory");
	memcached_behavior_set(s->memc, MEMCACHED_BEHAVIOR_TCP_NODELAY, 1);
	memcached_behavior_set(s->memc, MEMCACHED_BEHAVIOR_POLL_TIMEOUT,
			       (uint64_t)store->timeout_ms);
	memcached_behavior_set(s->memc, MEMCACHED_BEHAVIOR_RCV_TIMEOUT, timeout_us);
	if (place->port == 0)
		rc = memcached_server_add_unix_socket(s->memc, place->host);
	else
		rc = memcached_server_add(s->memc, place->host, (in_port_t)place->port);
	if (rc == MEMCACHED_SUCCESS)
		rc = memcached_version(s->memc); /* connects */
	if (rc != MEMCACHED_SUCCESS)
		return err_set(err, -1, "no memcached at %s: %s", place->text,
			       memcached_last_error_message(s->memc));
	return 0;
}

static int session_new(struct store *store, struct store_session **session, struct err *err)
{
	const struct memcached_store *store_of = (const struct memcached_store *)store;
	size_t depth = (size_t)store_of->depth;
	struct memcached_session *s = calloc(1, sizeof *s + depth * sizeof s->ops[0]);

	if (s == NULL)
		return err_set(err, -1, "out of memory");
	s->base.ops = store->ops;
	s->depth = store_of->depth;
	s->keys = calloc(depth, sizeof *s->keys);
	s->key_bytes = calloc(depth, sizeof *s->key_bytes);
	if (s->keys == NULL || s->key_bytes == NULL)
		err_set(err, -1, "out of memory");
	else if (connect_to(s, store_of, err) == 0) {
		*session = &s->base;
		return 0;
	}
	session_delete(&s->base);
	return -1;
}

static const char *session_error(const struct store_session *session)
{
	return memcached_last_error_message(((const struct memcached_session *)session)->memc);
}

static int submit(struct store_session *session, const void *key, size_t key_bytes,
		  const struct memcached_op *what)
{
	struct memcached_session *s = of(session);
	struct memcached_op *op = &s->ops[s->count];

	if (s->count == s->depth)
		return KVD_EBUSY;
	if (key_bytes > MEMCACHED_MAX_KEY - 1)
		return KVD_ETOOBIG;
	op->tag = what->tag;
	op->value = what->value;
	op->put = what->put;
	op->value_bytes = what->value_bytes;
	op->answered = false;
	op->key_bytes = key_bytes;
	memcpy(op->key, key, key_bytes);
	s->count++;
	return KVD_OK;
}

static int submit_get(struct store_session *session, const void *key, size_t key_bytes,
		      void *value, size_t value_bytes_max, void *tag)
{
	struct memcached_op op = { .tag = tag, .value = value, .value_bytes = value_bytes_max };

	return submit(session, key, key_bytes, &op);
}

static int submit_put(struct store_session *session, const void *key, size_t key_bytes,
		      const void *value, size_t value_bytes, void *tag)
{
	struct memcached_op op = { .tag = tag, .put = value, .value_bytes = value_bytes };

	return submit(session, key, key_bytes, &op);
}

/* Any GET of the key that has no answer yet. */
static struct memcached_op *op_of(struct memcached_session *s, const memcached_result_st *result)
{
	size_t bytes = memcached_result_key_length(result);
	const char *key = memcached_result_key_value(result);

	for (int i = 0; i < s->count; i++) {
		struct memcached_op *op = &s->ops[i];
		if (op->value != NULL && !op->answered && op->key_bytes == bytes &&
		    memcmp(op->key, key, bytes) == 0)
			return op;
	}
	return NULL;
}

static int take_values(struct memcached_session *s, struct kvd_completion *completions)
{
	memcached_result_st result;
	memcached_return_t rc;

	if (memcached_result_create(s->memc, &result) == NULL)
		return KVD_ENOMEM;
	while (memcached_fetch_result(s->memc, &result, &rc) != NULL) {
		struct memcached_op *op = op_of(s, &result);
		size_t bytes = memcached_result_length(&result);
		if (op == NULL)
			continue;
		op->answered = true;
		completions[op - s->ops].result = bytes > op->value_bytes ? KVD_ESPACE : KVD_OK;
		completions[op - s->ops].value_bytes = bytes;
		if (bytes <= op->value_bytes)
			memcpy(op->value, memcached_result_value(&result), bytes);
	}
	memcached_result_free(&result);
	return rc == MEMCACHED_END || rc == MEMCACHED_NOTFOUND || rc == MEMCACHED_SUCCESS
		       ? KVD_OK : KVD_ECONNECT;
}

static int do_gets(struct memcached_session *s, struct kvd_completion *completions)
{
	size_t gets = 0;

	for (int i = 0; i < s->count; i++) {
		if (s->ops[i].value == NULL)
			continue;
		completions[i].result = KVD_NOT_FOUND;
		s->keys[gets] = s->ops[i].key;
		s->key_bytes[gets++] = s->ops[i].key_bytes;
	}
	if (gets == 0)
		return KVD_OK;
	if (memcached_mget(s->memc, s->keys, s->key_bytes, gets) != MEMCACHED_SUCCESS)
		return KVD_ECONNECT;
	return take_values(s, completions);
}

static int do_put(struct memcached_session *s, const struct memcached_op *op)
{
	memcached_return_t rc = memcached_set(s->memc, op->key, op->key_bytes, op->put,
					      op->value_bytes, 0, 0);

	return rc == MEMCACHED_SUCCESS ? KVD_OK : rc == MEMCACHED_E2BIG ? KVD_ETOOBIG : KVD_EFULL;
}

static int poll_session(struct store_session *session, struct kvd_completion *completions,
			int max, int timeout_ms)
{
	struct memcached_session *s = of(session);
	int n = s->count, rc;

	(void)max; /* as many as may be submitted */
	(void)timeout_ms;
	for (int i = 0; i < n; i++)
		completions[i] = (struct kvd_completion){ .tag = s->ops[i].tag };
	rc = do_gets(s, completions);
	if (rc < 0)
		return rc;
	for (int i = 0; i < n; i++) {
		if (s->ops[i].value == NULL)
			completions[i].result = do_put(s, &s->ops[i]);
	}
	s->count = 0;
	return n;
}

static void counters(const struct store_session *session, struct kvd_counters *counters)
{
	(void)session;
	memset(counters, 0, sizeof *counters);
}

static double figure(memcached_st *memc, memcached_stat_st *stat, const char *name)
{
	memcached_return_t rc;
	char *text = memcached_stat_get_value(memc, stat, name, &rc);
	double number = text != NULL ? strtod(text, NULL) : -1;

	free(text);
	return number;
}

/* "SECONDS.MICROSECONDS", the latter without zeros in front. */
static double cpu_figure(memcached_st *memc, memcached_stat_st *stat, const char *name)
{
	memcached_return_t rc;
	char *text = memcached_stat_get_value(memc, stat, name, &rc), *end;
	double seconds = -1;

	if (text != NULL) {
		seconds = (double)strtoul(text, &end, 10);
		if (*end == '.')
			seconds += (double)strtoul(end + 1, NULL, 10) / 1e6;
	}
	free(text);
	return seconds;
}

static int stats(struct store_session *session, struct store_stats *stats)
{
	memcached_st *memc = of(session)->memc;
	memcached_return_t rc;
	memcached_stat_st *stat = memcached_stat(memc, NULL, &rc);

	*stats = (struct store_stats){ -1, -1, -1, -1 };
	if (stat == NULL)
		return -1;
	stats->cpu_seconds = cpu_figure(memc, stat, "rusage_user") +
			     cpu_figure(memc, stat, "rusage_system");
	stats->gets_served = figure(memc, stat, "cmd_get");
	stats->memory_used_bytes = figure(memc, stat, "bytes");
	stats->keys = figure(memc, stat, "curr_items");
	memcached_stat_free(memc, stat);
	return 0;
}

static const struct store_ops memcached_ops = {
	.name = "memcached",
	.delete = delete,
	.device = device,
	.session_new = session_new,
	.session_delete = session_delete,
	.session_error = session_error,
	.submit_get = submit_get,
	.submit_put = submit_put,
	.poll = poll_session,
	.counters = counters,
	.stats = stats,
};

int store_memcached_open(const struct store_config *config, struct store **store, struct err *err)
{
	struct memcached_store *s = calloc(1, sizeof *s);

	if (s == NULL)
		return err_set(err, -1, "out of memory");
	if (place_parse(&s->place, config->server, 11211, err) < 0) {
		free(s);
		return -1;
	}
	s->base.ops = &memcached_ops;
	s->timeout_ms = config->timeout_ms;
	s->depth = config->depth;
	snprintf(s->device, sizeof s->device, "none: memcached at %s", s->place.text);
	*store = &s->base;
	return 0;
}

#endif
