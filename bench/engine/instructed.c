/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * instructed ADDR OPERATION VALUE_BYTES ROUNDS
 *
 * Does one operation again and again, each in counted(), for bench/instructions to have
 * the instructions counted in there and nowhere else.  OPERATION: raw-read, get,
 * submitted-get, raw-lock-read, lock-get, put.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/api/raw.h"

#define KEYS 500u
#define KEY_BYTES 16u
#define VALUE_BYTES_MAX 4096u

static kvd_session *session;
static const char *operation;
static size_t value_bytes;
static char value[VALUE_BYTES_MAX];
static struct session_raw raw;
static kvd_lock_t *lock;

static void check(int rc, const char *what)
{
	if (rc == KVD_OK)
		return;
	fprintf(stderr, "instructed: %s: %s (%s)\n", what, kvd_strerror(rc),
		session ? kvd_session_error(session) : "no session");
	exit(1);
}

static bool is(const char *name)
{
	return !strcmp(operation, name);
}

enum what { RAW, GET, SUBMITTED_GET, LOCK_GET, PUT };

static int submitted_get(const char *key)
{
	struct kvd_completion c;
	int rc = kvd_submit_get(session, key, KEY_BYTES, value, sizeof value, NULL);

	if (rc)
		return rc;
	while (!kvd_poll(session, &c, 1, 1000))
		;
	return c.result;
}

/* valgrind finds it by its name; clang makes no clones. */
#ifdef __clang__
__attribute__((noinline))
#else
__attribute__((noinline, noclone))
#endif
static int counted(enum what what, const char *key)
{
	size_t bytes;

	switch (what) {
	case RAW:
		return session_raw_run(&raw);
	case GET:
		return kvd_get(session, key, KEY_BYTES, value, sizeof value, &bytes, NULL);
	case SUBMITTED_GET:
		return submitted_get(key);
	case LOCK_GET:
		return kvd_lock_get(session, key, KEY_BYTES, 0, value, sizeof value, &bytes, NULL,
				    &lock);
	case PUT:
		return kvd_put(session, key, KEY_BYTES, value, value_bytes, NULL);
	}
	return KVD_EINVAL;
}

static enum what prepare(const char *key)
{
	if (is("raw-read"))
		check(session_raw_read(session, key, KEY_BYTES, &raw), operation);
	if (is("raw-lock-read"))
		check(session_raw_lock_read(session, key, KEY_BYTES, &raw), operation);
	return is("get") ? GET : is("submitted-get") ? SUBMITTED_GET
			 : is("lock-get")	     ? LOCK_GET
			 : is("put")		     ? PUT
						     : RAW;
}

static void make_key(char key[KEY_BYTES + 1], unsigned number)
{
	snprintf(key, KEY_BYTES + 1, "%016u", number % KEYS);
}

/* Each is put, and its place learnt. */
static void load(void)
{
	char key[KEY_BYTES + 1];
	size_t bytes;

	for (unsigned i = 0; i < 2 * KEYS; i++) {
		make_key(key, i);
		check(i < KEYS ? kvd_put(session, key, KEY_BYTES, value, value_bytes, NULL)
			       : kvd_get(session, key, KEY_BYTES, value, sizeof value, &bytes, NULL),
		      "loading");
	}
}

int main(int argc, char **argv)
{
	struct kvd_options options = { .size = sizeof options, .timeout_ms = 30000,
				       .poll = KVD_POLL_BUSY };
	char key[KEY_BYTES + 1];
	kvd_client *client;
	size_t bytes;

	if (argc != 5 || atol(argv[3]) > (long)VALUE_BYTES_MAX) {
		fprintf(stderr, "usage: instructed ADDR OPERATION VALUE_BYTES ROUNDS\n");
		return 2;
	}
	operation = argv[2];
	value_bytes = (size_t)atol(argv[3]);
	check(kvd_client_new(argv[1], &options, &client), "client");
	check(kvd_session_new(client, &session), "session");
	load();
	for (unsigned i = 0; i < (unsigned)atol(argv[4]); i++) {
		make_key(key, i);
		check(counted(prepare(key), key), operation);
		kvd_unlock(&lock);
		/* What an unlock has left is not the next one's. */
		check(kvd_get(session, key, KEY_BYTES, value, sizeof value, &bytes, NULL), "GET");
	}
	kvd_session_delete(&session);
	kvd_client_delete(&client);
	return 0;
}
