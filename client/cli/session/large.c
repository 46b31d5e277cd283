/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/cli/session/large.h"

#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "client/cli/text/progress.h"

#define LARGE_BYTES (4u << 20)
#define TICK_MS 50

static bool wants_bar(size_t bytes)
{
	return bytes >= LARGE_BYTES && isatty(2);
}

/* The completion of what was submitted; of a GET the bar says how much is READ. */
static int await(kvd_session *session, struct cli_progress *bar, struct kvd_completion *done)
{
	struct kvd_counters begun, now;
	int n;

	kvd_session_counters(session, &begun);
	while ((n = kvd_poll(session, done, 1, TICK_MS)) == 0) {
		kvd_session_counters(session, &now);
		cli_progress_value(bar, bar->bytes_total ? now.read_bytes - begun.read_bytes
							 : bar->bytes);
	}
	cli_progress_hide(bar);
	return n < 0 ? n : done->result;
}

/* -------------------------------------------------------------------- put */

/* What became of a PUT whose answer was lost. */
static int resolve(kvd_session *session, const struct kvd_receipt *sent, uint64_t *version)
{
	int result, rc = kvd_fate(session, sent, &result, version);

	return rc == KVD_OK ? result : rc == KVD_NOT_FOUND ? KVD_NOT_FOUND : KVD_EUNKNOWN;
}

static int put_with_bar(kvd_session *session, const void *key, size_t key_bytes, const void *value,
			size_t value_bytes, const struct kvd_change *change, uint64_t *version)
{
	struct kvd_completion done;
	struct kvd_receipt sent;
	struct cli_progress bar;

	cli_progress_begin(&bar, "put", 0, 0);
	bar.bytes = value_bytes;
	kvd_session_receipt(session, &sent);
	int rc = kvd_submit_put_with(session, key, key_bytes, value, value_bytes, change, NULL);
	if (rc == KVD_OK) {
		rc = await(session, &bar, &done);
		*version = done.version;
	}
	kvd_session_receipt(session, NULL);
	return rc == KVD_EUNKNOWN ? resolve(session, &sent, version) : rc;
}

int cli_large_put(kvd_session *session, const void *key, size_t key_bytes, const void *value,
		  size_t value_bytes, const struct kvd_change *change, uint64_t *version)
{
	int rc = KVD_NOT_FOUND;

	if (wants_bar(value_bytes))
		rc = put_with_bar(session, key, key_bytes, value, value_bytes, change, version);
	/* A PUT finds no key missing: that one had no effect, and never will have. */
	return rc != KVD_NOT_FOUND ? rc : kvd_put_with(session, key, key_bytes, value, value_bytes,
						       change, version);
}

/* -------------------------------------------------------------------- get */

static int get_with_bar(kvd_session *session, const void *key, size_t key_bytes, void *room,
			size_t *bytes)
{
	struct kvd_completion done;
	struct cli_progress bar;

	cli_progress_begin(&bar, "get", 0, *bytes);
	int rc = kvd_submit_get(session, key, key_bytes, room, *bytes, NULL);
	if (rc == KVD_OK)
		rc = await(session, &bar, &done);
	if (rc == KVD_OK)
		*bytes = done.value_bytes;
	return rc;
}

int cli_large_get(kvd_session *session, const void *key, size_t key_bytes, void **value,
		  size_t *value_bytes)
{
	size_t bytes = 0;
	bool large = isatty(2) && kvd_exists(session, key, key_bytes, &bytes) == KVD_OK &&
		     wants_bar(bytes);
	void *room = large ? malloc(bytes) : NULL;

	if (room && get_with_bar(session, key, key_bytes, room, &bytes) == KVD_OK) {
		*value = room;
		*value_bytes = bytes;
		return KVD_OK;
	}
	/* Short, or another one meanwhile; a lost connection is made anew. */
	free(room);
	return kvd_get_alloc(session, key, key_bytes, value, value_bytes, NULL);
}
