/* SPDX-License-Identifier: BSD-2-Clause */
/* answer.h -- what agree.h answers and tells, and its limits. */
#ifndef SERVER_CLUSTER_AGREE_ANSWER_H
#define SERVER_CLUSTER_AGREE_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AGREE_PATH_BYTES 128u  /* with its 0 */
#define AGREE_BYTES_MAX 4096u  /* of a record */
#define AGREE_NAMES_MAX 64u    /* below a path */
#define AGREE_CALLS_MAX 64u    /* that are not answered yet */

enum agree_status {
	AGREE_DONE,
	AGREE_ABSENT,  /* there is no such path, or not the one above it */
	AGREE_EXISTS,
	AGREE_VERSION, /* the record has another version: nothing was written, nor will be */
	AGREE_DENIED,
	/*
	 * No answer.  A write or a create may have been carried out, or still be, until
	 * another write has taken that version.
	 */
	AGREE_UNKNOWN,
};

struct agree_answer {
	enum agree_status status;
	const uint8_t *bytes; /* of a read */
	size_t length;
	int32_t version;      /* of a read; the new one, of a write */
	const char *const *names; /* of a list */
	unsigned count;
	const char *why;      /* what failed, on what, why; NULL: done */
};

/* The answer is valid during the call, which may make further calls. */
typedef void agree_done(void *arg, const struct agree_answer *answer);

enum agree_session {
	AGREE_CONNECTING, /* at first */
	AGREE_CONNECTED,
	AGREE_AWAY, /* it tries to get back */
	AGREE_OVER, /* for good: its ephemeral records are gone; close it, and open another */
};

/* None is NULL. */
struct agree_events {
	/* A watched path changed or is gone; NULL: any of them may have. */
	void (*changed)(void *arg, const char *path);
	void (*session)(void *arg, enum agree_session session);
	void *arg;
};

#endif
