/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/cli/cluster/members.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/session/answer.h"
#include "client/cli/session/session.h"
#include "client/cli/text/json.h"

#define ASK_MS 1000 /* of each of the others: one that is gone is not waited for longer */

/* What one of them says, and where that goes. */
struct reading {
	struct members *m;
	struct member *self; /* its own figures; NULL: not known whose they are yet */
	struct member mine;
	bool is_primary;
};

static void set_text(char *to, size_t bytes, const char *value)
{
	snprintf(to, bytes, "%.*s", (int)bytes - 1, value);
}

static void read_listed(struct member *m, const char *field, const char *value)
{
	if (!strcmp(field, "name"))
		set_text(m->name, sizeof m->name, value);
	else if (!strcmp(field, "clients"))
		set_text(m->clients, sizeof m->clients, value);
	else if (!strcmp(field, "role"))
		set_text(m->role, sizeof m->role, value);
	else if (!strcmp(field, "there"))
		m->there = !strcmp(value, "true");
	else if (!strcmp(field, "silent_ms"))
		m->silent_ms = atof(value);
	else if (!strcmp(field, "lag_records"))
		m->lag = atof(value);
}

static void read_cluster(struct members *m, const char *field, const char *value)
{
	unsigned i;
	int at = 0;

	if (!strcmp(field, "agreement"))
		set_text(m->agreement, sizeof m->agreement, value);
	else if (!strcmp(field, "epoch"))
		m->epoch = atof(value);
	else if (!strcmp(field, "reign"))
		m->reign = atof(value);
	else if (!strcmp(field, "copies"))
		m->copies = atof(value);
	if (sscanf(field, "members.%u.%n", &i, &at) != 1 || !at || i >= MEMBERS_MAX)
		return;
	if (i >= m->count) {
		m->count = i + 1;
		m->of[i].silent_ms = m->of[i].lag = m->of[i].copied = -1;
	}
	read_listed(&m->of[i], field + at, value);
}

static void read_self(struct member *m, const char *path, const char *value)
{
	if (!strcmp(path, "cluster.member"))
		set_text(m->name, sizeof m->name, value);
	else if (!strcmp(path, "cluster.state"))
		set_text(m->state, sizeof m->state, value);
	else if (!strcmp(path, "cluster.reached"))
		m->reached = !strcmp(value, "true");
	else if (!strcmp(path, "cluster.fit"))
		m->fit = !strcmp(value, "true");
	else if (!strcmp(path, "cluster.epoch"))
		m->epoch = atof(value);
	else if (!strcmp(path, "cluster.lease_left_ms"))
		m->lease_ms = atof(value);
	else if (!strcmp(path, "cluster.failovers"))
		m->failovers = atof(value);
	else if (!strcmp(path, "cluster.failover_seconds"))
		m->failover_s = atof(value);
	else if (!strcmp(path, "server.version"))
		set_text(m->version, sizeof m->version, value);
	else if (!strcmp(path, "keys"))
		m->keys = atof(value);
}

/* Of a copy that the primary makes. */
static void read_copy(struct members *m, const char *field, const char *value)
{
	if (!strcmp(field, "copy.to"))
		set_text(m->joiner, sizeof m->joiner, value);
	else if (!strcmp(field, "copy.percent"))
		m->copied = atof(value) / 100;
}

static void read_one(void *arg, const char *path, const char *value)
{
	struct reading *r = arg;

	read_self(&r->mine, path, value);
	if (strncmp(path, "cluster.", 8))
		return;
	r->m->is_clustered = true;
	read_cluster(r->m, path + 8, value);
	read_copy(r->m, path + 8, value);
}

static struct member *find(struct members *m, const char *name)
{
	for (unsigned i = 0; i < m->count; i++)
		if (!strcmp(m->of[i].name, name))
			return &m->of[i];
	return NULL;
}

/* Its own figures beside what is said of it. */
static void take_self(struct members *m, const struct member *mine)
{
	struct member *to = find(m, mine->name);
	struct member is = *mine;

	if (!to && m->count < MEMBERS_MAX) {
		to = &m->of[m->count++];
		*to = (struct member){ .role = "out", .silent_ms = -1, .lag = -1, .copied = -1 };
	}
	if (!to)
		return;
	memcpy(is.clients, to->clients, sizeof is.clients);
	memcpy(is.role, to->role, sizeof is.role);
	is.there = to->there;
	is.silent_ms = to->silent_ms;
	is.lag = to->lag;
	is.copied = to->copied;
	is.answered = true;
	*to = is;
}

int members_of(kvd_session *session, struct members *m)
{
	struct reading r = { .m = m };
	char *json;
	int result = kvd_stats(session, &json);

	if (result < 0)
		return result;
	if (cli_json_each(json, read_one, &r) && m->is_clustered)
		take_self(m, &r.mine);
	if (*m->joiner && find(m, m->joiner))
		find(m, m->joiner)->copied = m->copied;
	free(json);
	return KVD_OK;
}

/* ------------------------------------------------------------------ the others */
/* What the primary knows of the others counts, and so does a later configuration. */
static void merge(struct members *m, const struct members *from, const char *name)
{
	for (unsigned i = 0; i < from->count; i++) {
		const struct member *f = &from->of[i];
		struct member *to = find(m, f->name);

		if (!to && m->count < MEMBERS_MAX) {
			to = &m->of[m->count++];
			*to = *f;
		}
		if (!to)
			continue;
		if (!strcmp(f->name, name))
			take_self(m, f);
		if (from->epoch >= m->epoch && f->role[0])
			memcpy(to->role, f->role, sizeof to->role);
		to->silent_ms = f->lag >= 0 ? f->silent_ms : to->silent_ms;
		to->lag = f->lag >= 0 ? f->lag : to->lag;
		to->copied = f->copied >= 0 ? f->copied : to->copied;
		to->there |= f->there;
	}
	if (from->epoch >= m->epoch) {
		m->epoch = from->epoch;
		m->reign = from->reign;
		m->copies = from->copies;
	}
}

static void ask_one(struct cli *cli, struct members *m, const char *name, const char *clients)
{
	const struct kvd_options options = {
		.size = sizeof options, .device = cli->device, .credentials = cli->credentials,
		.timeout_ms = cli->timeout_ms < ASK_MS ? cli->timeout_ms : ASK_MS,
	};
	struct members said = { .epoch = -1 };
	kvd_client *client = NULL;
	kvd_session *session = NULL;
	int result = kvd_client_new(clients, &options, &client);

	if (!result)
		result = kvd_session_new(client, &session);
	if (!result)
		result = members_of(session, &said);
	if (result) {
		struct member *to = find(m, name);
		snprintf(to->why, sizeof to->why, "%.200s",
			 session ? kvd_session_error(session) : kvd_client_error(client));
	} else {
		merge(m, &said, name);
	}
	kvd_session_delete(&session);
	kvd_client_delete(&client);
}

bool members_ask(struct cli *cli, struct members *m, int *status)
{
	kvd_session *session = cli_connect(cli, status);
	int result;

	*m = (struct members){ .epoch = -1 };
	if (!session)
		return false;
	result = members_of(session, m);
	if (result < 0) {
		*status = cli_fail_session(cli, result);
		return false;
	}
	if (!m->is_clustered) {
		*status = cli_fail(cli, CLI_SERVER, "cluster: the kvd at %s is of none: it was started "
				   "without --cluster", cli->server);
		return false;
	}
	/* Others may be named by those that are asked: these are asked, too. */
	for (unsigned i = 0; i < m->count; i++) {
		char name[64], clients[CLIENTS_BYTES];

		memcpy(name, m->of[i].name, sizeof name);
		memcpy(clients, m->of[i].clients, sizeof clients);
		if (!m->of[i].answered && *clients)
			ask_one(cli, m, name, clients);
	}
	return true;
}

/* ------------------------------------------------------------------ what follows */
bool member_is_of_set(const struct member *m)
{
	return !strcmp(m->role, "primary") || !strcmp(m->role, "backup");
}

const struct member *members_primary(const struct members *m)
{
	for (unsigned i = 0; i < m->count; i++)
		if (m->of[i].answered && m->of[i].epoch == m->epoch &&
		    (!strcmp(m->of[i].state, "primary") || !strcmp(m->of[i].state, "leaving")))
			return &m->of[i];
	return NULL;
}

unsigned members_in_sync(const struct members *m)
{
	unsigned n = 0;

	for (unsigned i = 0; i < m->count; i++)
		n += member_is_of_set(&m->of[i]) && m->of[i].answered && m->of[i].fit;
	return n;
}
