/* SPDX-License-Identifier: BSD-2-Clause */
/* made_kvd.h -- <kvd.h> over a few items in this process, for tests of kvcli's commands: each
 * call is noted, and what a test wants to fail fails. */
#ifndef TESTS_UNIT_CLIENT_MADE_KVD_H
#define TESTS_UNIT_CLIENT_MADE_KVD_H

#include <stdbool.h>

#include "client/kvd.h"

struct made_item {
	char *key, *value;
	size_t key_bytes, value_bytes;
	struct kvd_info info; /* version, time to live, flags, signs */
};

struct made {
	/* What a test sets. */
	const char *fails;    /* a call's name without kvd_ */
	int result;           /* what it returns then; it says "NAME failed", */
	bool mute;            /* or nothing */
	unsigned well;        /* so often it does well before */
	bool once;            /* and afterwards */
	const char *stats;    /* what kvd_stats() tells */
	unsigned conflicts;   /* so many commits find a key changed */
	unsigned meanwhile;   /* a value that was found too long is so much longer next time */
	void (*asked)(void);  /* called by each call */
	/* What it looks at. */
	char calls[1 << 14];  /* a line for each: its name, its arguments */
	unsigned count;       /* of calls that could fail */
	struct kvd_options options;
	char device[64], credentials[64], namespace_name[64]; /* its texts, which last as long as the call */
	int clients, sessions, locks, txns;
	/* What is stored, in the order of the keys' coming. */
	struct made_item item[400];
	unsigned items;
	uint64_t version;
};
extern struct made made;

/* Nothing is stored, nothing fails.  A setup of cmocka: fails if something is still open. */
int made_begin(void **state);
struct made_item *made_put(const char *key, const char *value);
struct made_item *made_put_bytes(const void *key, size_t key_bytes, const void *value, size_t bytes);
/* Its value as text, or NULL. */
const char *made_value(const char *key);

/* ------------------------------------------------------------------ for made_*.c */

struct made_item *made_find(const void *key, size_t key_bytes);
/* With a zero byte behind it. */
char *made_copy(const void *data, size_t bytes);
void made_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* What becomes of the call: KVD_OK, or it fails. */
int made_fate(kvd_session *session, const char *name);
/* Of a call on one key, which is noted. */
int made_keyed(kvd_session *session, const char *name, const void *key, size_t key_bytes);
int made_get(kvd_session *session, const void *key, size_t key_bytes, void *value, size_t room,
	     struct kvd_info *info);
int made_del(const void *key, size_t key_bytes);

#endif
