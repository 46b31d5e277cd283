/* SPDX-License-Identifier: BSD-2-Clause */
/* made_members.h -- <kvd.h> over members of a cluster that say what a test made up. */
#ifndef TESTS_UNIT_CLIENT_MADE_MEMBERS_H
#define TESTS_UNIT_CLIENT_MADE_MEMBERS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/kvd.h"

struct kvd_client {
	const char *json; /* what it says of itself; NULL: that it is too busy */
	char error[64];
};

struct kvd_session {
	const struct kvd_client *client;
};

static struct {
	const char *address, *json;
} servers[20];

static char asked[128]; /* of kvd_cluster() */
static int sessions, clients, longest_wait_ms;
static const char *device, *credentials; /* that the last client was made with */

int kvd_client_new(const char *server, const struct kvd_options *options, kvd_client **client)
{
	kvd_client *c = calloc(1, sizeof *c);

	clients++;
	*client = c;
	longest_wait_ms = options->timeout_ms;
	device = options->device;
	credentials = options->credentials;
	for (unsigned i = 0; i < 20 && servers[i].address; i++)
		if (!strcmp(servers[i].address, server)) {
			c->json = servers[i].json;
			return KVD_OK;
		}
	snprintf(c->error, sizeof c->error, "%s: nobody is there", server);
	return KVD_ECONNECT;
}

void kvd_client_delete(kvd_client **client)
{
	clients -= *client != NULL;
	free(*client);
	*client = NULL;
}

int kvd_session_new(kvd_client *client, kvd_session **session)
{
	*session = calloc(1, sizeof **session);
	(*session)->client = client;
	sessions++;
	return KVD_OK;
}

void kvd_session_delete(kvd_session **session)
{
	sessions -= *session != NULL;
	free(*session);
	*session = NULL;
}

const char *kvd_strerror(int result)
{
	return result ? "it failed" : "no error";
}

const char *kvd_client_error(const kvd_client *client)
{
	return client->error;
}

const char *kvd_session_error(const kvd_session *session)
{
	return session->client->json ? "" : "it is too busy";
}

int kvd_stats(kvd_session *session, char **json)
{
	if (!session->client->json)
		return KVD_EBUSY;
	*json = strdup(session->client->json);
	return KVD_OK;
}

int kvd_cluster(kvd_session *session, int what, const char *member, int copies, char **said)
{
	if (member && !strcmp(member, "busy"))
		return KVD_EBUSY;
	snprintf(asked, sizeof asked, "%d %s %d", what, member ? member : "-", copies);
	*said = strdup(session->client->json ? "it is done" : "");
	return KVD_OK;
}

/* ------------------------------------------------------------------ the cluster */

#define SELF(name, state, rest) \
	"{\"server\":{\"version\":\"1.5\"},\"keys\":12,\"cluster\":{\"member\":\"" name "\",\"state\":\"" state \
	"\",\"agreement\":\"zk:2181\",\"lease_left_ms\":700,\"failovers\":0,\"failover_seconds\":0," rest "}}"
#define WELL "\"reached\":true,\"fit\":true,"
#define UNFIT "\"reached\":true,\"fit\":false,"
#define CUT_OFF "\"reached\":false,\"fit\":true,"
#define EPOCH(n) "\"epoch\":" #n ",\"reign\":3,\"copies\":2,"
#define MEMBER(name, role, more) \
	"{\"name\":\"" name "\",\"clients\":\"" name ":1,x" name ":2\",\"role\":\"" role "\",\"there\":true" more "}"
#define A MEMBER("a", "primary", "")
#define B MEMBER("b", "backup", ",\"silent_ms\":40,\"lag_records\":7")
#define SAME_B MEMBER("b", "backup", "")
#define C MEMBER("c", "out", "")
#define MEMBERS(list) "\"members\":[" list "]"

#define ADDRESS(name) name ":1,x" name ":2"

static inline void serve(const char *address, const char *json)
{
	unsigned i = 0;

	while (servers[i].address)
		i++;
	assert_true(i < 19);
	servers[i].address = address;
	servers[i].json = json;
}

static inline int set_up(void **state)
{
	(void)state;
	memset(servers, 0, sizeof servers);
	asked[0] = '\0';
	return sessions || clients;
}

#endif
