/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lease -- sessions with a member of a cluster that may be frozen.
 *
 *	lease ADDR:PORT header TIMEOUT_MS 1
 *
 * What its table's header shows: reign, A and G.
 *
 *	lease ADDR:PORT ask TIMEOUT_MS SESSIONS
 *
 * Each line of input, "SESSION get|submit|lock|try|change|check|unlock KEY", is answered by a line: the
 * value, "(not found)", "OK" or "error: ...", then how many READs, or of the last five swaps of lock
 * words, and how many fallbacks that session has made.  `try` is a lock without a wait; what is
 * changed under the lock is "by SESSION".
 *
 *	lease ADDR:PORT watch TIMEOUT_MS KEY VALUE FILE
 *
 * GETs a key again and again, until it is another than VALUE, or can't be told.  1: it was
 * VALUE in a GET that began when the file was there.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/kvd.h"
#include "client/op/look.h"
#include "client/op/poll.h"
#include "client/session/session.h"

#define SESSIONS_MAX 16u

static kvd_client *client;
static kvd_session *sessions[SESSIONS_MAX];
static kvd_lock_t *locks[SESSIONS_MAX];

static void die(const char *what, int rc)
{
	fprintf(stderr, "lease: %s: %s\n", what, kvd_strerror(rc));
	exit(2);
}

static int submitted(kvd_session *s, const char *key, char *value, size_t room, size_t *bytes)
{
	struct kvd_completion c;
	int rc = kvd_submit_get(s, key, strlen(key), value, room, NULL);

	if (rc)
		return rc;
	while (!kvd_poll(s, &c, 1, -1))
		;
	*bytes = c.value_bytes;
	return c.result;
}

static int get(kvd_session *s, const char *key, char *value, size_t room)
{
	size_t bytes = 0;
	int rc = kvd_get(s, key, strlen(key), value, room - 1, &bytes, NULL);

	value[rc ? 0 : bytes] = '\0';
	return rc;
}

/* `bytes`: of the value that there is; none: the answer is "OK". */
static int locked(unsigned i, const char *how, const char *key, char *value, size_t room, size_t *bytes)
{
	char by[16];

	if (!strcmp(how, "lock") || !strcmp(how, "try"))
		return kvd_lock_get(sessions[i], key, strlen(key), *how == 't' ? 0 : -1, value, room,
				    bytes, NULL, &locks[i]);
	if (!strcmp(how, "change"))
		return kvd_locked_put(locks[i], key, strlen(key), by,
				      (size_t)snprintf(by, sizeof by, "by %u", i), NULL);
	return !strcmp(how, "check") ? kvd_lock_check(locks[i]) : kvd_unlock(&locks[i]);
}

static void answer(unsigned i, const char *how, const char *key)
{
	kvd_session *s = sessions[i];
	char value[256];
	size_t bytes = 0;
	struct kvd_counters c;
	bool is_get = !strcmp(how, "get"), is_submit = !strcmp(how, "submit");
	int rc = is_submit ? submitted(s, key, value, sizeof value, &bytes)
		 : is_get  ? kvd_get(s, key, strlen(key), value, sizeof value, &bytes, NULL)
			   : locked(i, how, key, value, sizeof value, &bytes);

	kvd_session_counters(s, &c);
	if (rc == KVD_OK && !bytes)
		printf("OK");
	else if (rc == KVD_OK)
		printf("%.*s", (int)bytes, value);
	else if (rc == KVD_NOT_FOUND)
		printf("(not found)");
	else
		printf("error: %s", kvd_strerror(rc));
	printf(" %" PRIu64 " %" PRIu64 "\n", is_get || is_submit ? c.reads : c.atomics, c.fallbacks);
	fflush(stdout);
}

static void open_session(unsigned i)
{
	int rc = kvd_session_new(client, &sessions[i]);

	if (rc)
		die("session", rc);
}

static int header(void)
{
	open_session(0);
	struct engine *e = session_engine(sessions[0]);
	struct grant *g = &e->table.grant;

	grant_begin(g, 0);
	look_again(e, 0);
	while (g->looking_ns && !e->health.broken)
		engine_take(e);
	printf("%" PRIu64 " %" PRIu64 " %" PRIu64 "\n", e->look->reign, e->look->a, e->look->g);
	return e->health.broken;
}

static int ask(unsigned count)
{
	char line[300], how[16], key[256];
	unsigned i;

	for (i = 0; i < count && i < SESSIONS_MAX; i++)
		open_session(i);
	while (fgets(line, sizeof line, stdin)) {
		if (sscanf(line, "%u %15s %255s", &i, how, key) != 3 || i >= count)
			return 2;
		answer(i, how, key);
	}
	return 0;
}

static int watch(const char *key, const char *was, const char *file)
{
	char value[256];
	uint64_t gets = 0;
	bool is_there;
	int rc;

	open_session(0);
	printf("ready\n");
	fflush(stdout);
	do {
		is_there = !access(file, F_OK);
		rc = get(sessions[0], key, value, sizeof value);
		gets++;
	} while (rc == KVD_OK && !strcmp(value, was) && !is_there);
	printf("%s after %" PRIu64 " GETs\n", rc ? kvd_strerror(rc) : value, gets);
	return rc == KVD_OK && !strcmp(value, was);
}

int main(int argc, char **argv)
{
	struct kvd_options options = { .size = sizeof options };
	int rc = 2;

	if (argc < 5)
		return 2;
	options.timeout_ms = atoi(argv[3]);
	rc = kvd_client_new(argv[1], &options, &client);
	if (rc)
		die("client", rc);
	if (!strcmp(argv[2], "ask") && argc == 5)
		rc = ask((unsigned)atoi(argv[4]));
	else if (!strcmp(argv[2], "header"))
		rc = header();
	else if (argc == 7)
		rc = watch(argv[4], argv[5], argv[6]);
	for (unsigned i = 0; i < SESSIONS_MAX; i++) {
		kvd_unlock(&locks[i]);
		if (sessions[i])
			kvd_session_delete(&sessions[i]);
	}
	kvd_client_delete(&client);
	return rc;
}
