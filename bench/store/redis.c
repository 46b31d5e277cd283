/* SPDX-License-Identifier: BSD-2-Clause */
/* Redis by way of hiredis: what is submitted goes out with the next poll, all in one
 * write, and is answered in order. */
#include "bench/store/redis.h"

#include "config.h"

#ifndef HAVE_HIREDIS

int store_redis_open(const struct store_config *config, struct store **store, struct err *err)
{
	(void)config;
	(void)store;
	return err_set(err, -1, "this kvbench was built without hiredis");
}

#else

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include "bench/store/place.h"

struct redis_store {
	struct store base;
	struct place place;
	int timeout_ms, depth;
	char device[PLACE_TEXT_BYTES + 32];
};

struct redis_op {
	void *tag;
	void *value; /* NULL: a PUT */
	size_t value_bytes_max;
};

struct redis_session {
	struct store_session base;
	redisContext *context;
	int depth;
	unsigned first, count; /* of the ring of what is under way */
	struct redis_op ring[];
};

static struct redis_session *of(struct store_session *session)
{
	return (struct redis_session *)session;
}

static void delete(struct store *store)
{
	free(store);
}

static const char *device(const struct store *store)
{
	return ((const struct redis_store *)store)->device;
}

static int session_new(struct store *store, struct store_session **session, struct err *err)
{
	struct redis_store *store_of = (struct redis_store *)store;
	const struct place *place = &store_of->place;
	struct timeval timeout = { store_of->timeout_ms / 1000,
				   store_of->timeout_ms % 1000 * 1000 };
	struct redis_session *s =
		calloc(1, sizeof *s + (size_t)store_of->depth * sizeof s->ring[0]);

	if (s == NULL)
		return err_set(err, -1, "out of memory");
	s->base.ops = store->ops;
	s->depth = store_of->depth;
	s->context = place->port == 0 ? redisConnectUnixWithTimeout(place->host, timeout)
				      : redisConnectWithTimeout(place->host, place->port, timeout);
	if (s->context == NULL || s->context->err != 0) {
		err_set(err, -1, "no Redis at %s: %s", place->text,
			s->context != NULL ? s->context->errstr : "out of memory");
		if (s->context != NULL)
			redisFree(s->context);
		free(s);
		return -1;
	}
	redisSetTimeout(s->context, timeout);
	*session = &s->base;
	return 0;
}

static void session_delete(struct store_session *session)
{
	redisFree(of(session)->context);
	free(session);
}

static const char *session_error(const struct store_session *session)
{
	return ((const struct redis_session *)session)->context->errstr;
}

static int submit(struct redis_session *s, int argc, const char **argv, const size_t *bytes,
		  const struct redis_op *op)
{
	if (s->count == (unsigned)s->depth)
		return KVD_EBUSY;
	if (redisAppendCommandArgv(s->context, argc, argv, bytes) != REDIS_OK)
		return KVD_ENOMEM;
	s->ring[(s->first + s->count++) % (unsigned)s->depth] = *op;
	return KVD_OK;
}

static int submit_get(struct store_session *session, const void *key, size_t key_bytes,
		      void *value, size_t value_bytes_max, void *tag)
{
	const char *argv[] = { "GET", key };
	size_t bytes[] = { 3, key_bytes };
	struct redis_op op = { tag, value, value_bytes_max };

	return submit(of(session), 2, argv, bytes, &op);
}

static int submit_put(struct store_session *session, const void *key, size_t key_bytes,
		      const void *value, size_t value_bytes, void *tag)
{
	const char *argv[] = { "SET", key, value };
	size_t bytes[] = { 3, key_bytes, value_bytes };
	struct redis_op op = { tag, NULL, 0 };

	return submit(of(session), 3, argv, bytes, &op);
}

static struct kvd_completion completion_of(const struct redis_op *op, const redisReply *reply)
{
	struct kvd_completion done = { .tag = op->tag };

	if (reply->type == REDIS_REPLY_NIL) {
		done.result = KVD_NOT_FOUND;
	} else if (reply->type == REDIS_REPLY_ERROR) {
		done.result = KVD_EFULL; /* all that it says to a plain SET */
	} else if (op->value != NULL && reply->len > op->value_bytes_max) {
		done.result = KVD_ESPACE;
	} else if (op->value != NULL) {
		memcpy(op->value, reply->str, reply->len);
		done.value_bytes = reply->len;
	}
	return done;
}

/* Answers come in order: waits for one, and takes those that came with it. */
static int poll_session(struct store_session *session, struct kvd_completion *completions,
			int max, int timeout_ms)
{
	struct redis_session *s = of(session);
	int n = 0;

	(void)timeout_ms; /* the answers to what was sent don't take long */
	while (s->count > 0 && n < max) {
		void *reply = NULL;
		int rc = n == 0 ? redisGetReply(s->context, &reply)
				: redisGetReplyFromReader(s->context, &reply);
		if (rc != REDIS_OK)
			return KVD_ECONNECT;
		if (reply == NULL)
			break;
		completions[n++] = completion_of(&s->ring[s->first], reply);
		freeReplyObject(reply);
		s->first = (s->first + 1) % (unsigned)s->depth;
		s->count--;
	}
	return n;
}

static void counters(const struct store_session *session, struct kvd_counters *counters)
{
	(void)session;
	memset(counters, 0, sizeof *counters);
}

/* A line "NAME:NUMBER" of INFO; -1: there is none. */
static double figure(const char *info, const char *name)
{
	const char *at = strstr(info, name);

	return at != NULL ? strtod(at + strlen(name), NULL) : -1;
}

static int stats(struct store_session *session, struct store_stats *stats)
{
	redisReply *reply = redisCommand(of(session)->context, "INFO");

	*stats = (struct store_stats){ -1, -1, -1, -1 };
	if (reply == NULL)
		return -1;
	if (reply->type == REDIS_REPLY_STRING) {
		stats->cpu_seconds = figure(reply->str, "\nused_cpu_sys:") +
				     figure(reply->str, "\nused_cpu_user:");
		stats->memory_used_bytes = figure(reply->str, "\nused_memory:");
		stats->keys = figure(reply->str, "\ndb0:keys=");
	}
	freeReplyObject(reply);
	return 0;
}

static const struct store_ops redis_ops = {
	.name = "redis",
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

int store_redis_open(const struct store_config *config, struct store **store, struct err *err)
{
	struct redis_store *s = calloc(1, sizeof *s);

	if (s == NULL)
		return err_set(err, -1, "out of memory");
	if (place_parse(&s->place, config->server, 6379, err) < 0) {
		free(s);
		return -1;
	}
	s->base.ops = &redis_ops;
	s->timeout_ms = config->timeout_ms;
	s->depth = config->depth;
	snprintf(s->device, sizeof s->device, "none: Redis at %s", s->place.text);
	*store = &s->base;
	return 0;
}

#endif
