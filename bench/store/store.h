/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * store.h -- what the driver drives: kvd, or something to hold it against.
 *
 * A store may be used by any number of threads, a session by one.  Results are
 * those of <kvd.h>.  As there, a submitted operation's completion comes from
 * poll, the key is copied, and the value's memory stays until the completion.
 */
#ifndef BENCH_STORE_STORE_H
#define BENCH_STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/kvd.h"
#include "common/err.h"

/* How a GET of kvd is answered: by one-sided READs or by the server. */
enum store_get { STORE_GET_READ, STORE_GET_MESSAGE };

struct store_config {
	const char *server;
	const char *device; /* or NULL */
	const char *credentials; /* of kvd: or NULL */
	int timeout_ms;
	int depth;
	int poll; /* KVD_POLL_* */
	size_t mirror_bytes;
	enum store_get get;
};

/* What the server spent; -1 where it doesn't tell. */
struct store_stats {
	double cpu_seconds;
	double gets_served;
	double memory_used_bytes;
	double keys;
};

struct store;
struct store_session;

struct store_ops {
	const char *name;
	void (*delete)(struct store *store);
	/* One line; lives with the store. */
	const char *(*device)(const struct store *store);
	/* 0 or -1 with err. */
	int (*session_new)(struct store *store, struct store_session **session, struct err *err);
	void (*session_delete)(struct store_session *session);
	const char *(*session_error)(const struct store_session *session);
	int (*submit_get)(struct store_session *session, const void *key, size_t key_bytes,
			  void *value, size_t value_bytes_max, void *tag);
	int (*submit_put)(struct store_session *session, const void *key, size_t key_bytes,
			  const void *value, size_t value_bytes, void *tag);
	/* kvd_update(), with nothing in flight; NULL where a store has no such thing. */
	int (*update)(struct store_session *session, const void *key, size_t key_bytes,
		      int (*change)(void *arg, void *value, size_t *value_bytes), void *arg,
		      size_t value_bytes_max);
	int (*poll)(struct store_session *session, struct kvd_completion *completions, int max,
		    int timeout_ms);
	/* Zeros where a store counts nothing. */
	void (*counters)(const struct store_session *session, struct kvd_counters *counters);
	int (*stats)(struct store_session *session, struct store_stats *stats);
	/*
	 * The verb alone that a GET of this key, or a PUT of so many bytes, is held
	 * against; nothing else may be in flight.  KVD_OK and *ns; other results: there is
	 * none for it.  NULL where a store has no verbs.
	 */
	int (*raw_read)(struct store_session *session, const void *key, size_t key_bytes,
			uint64_t *ns);
	int (*raw_message)(struct store_session *session, size_t key_bytes, size_t value_bytes,
			   uint64_t *ns);
};

/* The beginning of every store and of every session. */
struct store {
	const struct store_ops *ops;
};

struct store_session {
	const struct store_ops *ops;
};

static inline void store_delete(struct store **store)
{
	if (*store != NULL)
		(*store)->ops->delete(*store);
	*store = NULL;
}

#endif
