/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * window.h -- many operations in flight, answered in the order given.
 *
 * The window is a ring.  An operation is sent at once if there is room and no
 * unanswered one on the same key, unless both are GETs; otherwise the oldest are
 * waited for and answered first.  So every operation sees the effect of those
 * before it.  A GET whose value is longer than its slot's buffer is done again
 * when its turn to answer comes, alone: one long value is in memory at a time.
 *
 * Where the session fails, everything in flight is answered with the error (a
 * change may have happened: KVD_EUNKNOWN), and the next operation connects
 * again.
 */
#ifndef CLIENT_CLI_SESSION_WINDOW_H
#define CLIENT_CLI_SESSION_WINDOW_H

#include <stddef.h>

#include "client/cli/file/value.h"
#include "client/cli/session/cli.h"

enum cli_op { CLI_OP_GET, CLI_OP_PUT, CLI_OP_DEL };

/* Valid until the callback returns. */
struct cli_answer {
	enum cli_op op;
	const void *key;
	size_t key_bytes;
	int result;        /* as of kvd_get, kvd_put, kvd_del */
	const char *error; /* a sentence, if result < 0 */
	/* Of a GET: what was found; of a PUT: what was stored. */
	const void *value;
	size_t value_bytes;
	uint64_t version; /* of a GET and a PUT */
	uint64_t ttl_ms; /* of a GET: what is left, 0: for ever */
	uint32_t flags;  /* of a GET: as of struct kvd_info */
	int signs;
	void *tag;
};

struct cli_window;

/* `answer` must not use the session or the window.  NULL: no memory. */
struct cli_window *cli_window_new(struct cli *cli,
				  void (*answer)(void *arg, const struct cli_answer *answer),
				  void *arg);
/* Answers nothing: drain first. */
void cli_window_delete(struct cli_window **window);

/* The key is copied, as far as <kvd.h> takes one; the value passes to the window. */
void cli_window_get(struct cli_window *window, const void *key, size_t key_bytes, void *tag);
void cli_window_put(struct cli_window *window, const void *key, size_t key_bytes,
		    struct cli_value *value, void *tag);
/* `change` is copied. */
void cli_window_put_with(struct cli_window *window, const void *key, size_t key_bytes,
			 struct cli_value *value, const struct kvd_change *change, void *tag);
void cli_window_del(struct cli_window *window, const void *key, size_t key_bytes, void *tag);

/* Answers everything.  After it the session has nothing in flight. */
void cli_window_drain(struct cli_window *window);

#endif
