/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/session/hello.h"

#include <string.h>

#include "client/cache/welcome.h"
#include "client/op/hints.h"
#include "client/op/operation.h"
#include "client/op/request.h"
#include "client/session/client.h"
#include "client/session/prefill.h"
#include "client/session/session_impl.h"
#include "client/session/wait.h"

#define PATIENCE_NS 300000000ull
#define DOUBLED_MAX 4u

/* Another start of kvd: what was known of the old one's index is worth nothing. */
static int learn_table(struct kvd_session *s, uint64_t buckets, bool *is_new)
{
	struct engine *e = &s->engine;
	struct err *err = &e->health.err;
	struct kvd_client *c = s->client;
	const struct wire_welcome *w = &e->table.welcome;

	directory_leave(&e->table.directory);
	pthread_mutex_lock(&c->lock);
	*is_new = !c->directory || c->directory->instance != w->instance ||
		  c->directory->entries != w->dir_entries;
	if (*is_new) {
		/* Sessions of the old one may still look: theirs stays. */
		directory_leave(&c->directory);
		c->directory = directory_new(w->instance, w->dir_entries);
		atomic_store(&c->buckets, buckets);
		mirror_clear(c->mirror);
	}
	if (c->directory)
		e->table.directory = directory_share(c->directory);
	pthread_mutex_unlock(&c->lock);
	return e->table.directory ? 0 : err_set(err, KVD_ENOMEM, "out of memory");
}

/* What both ends sign. */
static void fill_exchange(const struct kvd_session *s, const struct wire_request *hello,
			  struct wire_signed *text, struct auth_exchange *x)
{
	const struct engine *e = &s->engine;
	const struct credentials *c = &s->client->credentials;

	*text = (struct wire_signed){
		.value_addr = hello->value_addr,
		.value_checksum = hello->value_checksum,
		.value_rkey = hello->value_rkey,
		.depth = s->connect.depth,
		.space = s->connect.space,
		.name_bytes = (uint16_t)strlen(c->name),
	};
	memcpy(text->name, c->name, text->name_bytes);
	*x = (struct auth_exchange){
		.server = c->server,
		.version = WIRE_VERSION,
		.client_qpn = e->qp->qp_num,
		.server_qpn = s->server_qpn,
		.hello = text,
		.hello_bytes = sizeof *text,
	};
	memcpy(x->client_nonce, s->connect.nonce, sizeof x->client_nonce);
	memcpy(x->server_nonce, s->accept.nonce, sizeof x->server_nonce);
}

/* Whether the two ends want the same of each other. */
static int check_users(struct kvd_session *s)
{
	struct engine *e = &s->engine;
	struct err *err = &e->health.err;
	bool users = s->accept.flags & WIRE_ACCEPT_USERS;

	if (users == s->client->has_credentials)
		return 0;
	if (users)
		return err_set(err, KVD_EDENIED,
			       "kvd at %s wants to know who you are: give credentials "
			       "(--credentials FILE, KVD_CREDENTIALS_FILE or KVD_CREDENTIALS)",
			       e->health.peer);
	return err_set(err, KVD_EDENIED,
		       "kvd at %s has no users, so it can't prove that it is the one "
		       "that the credentials of %s are for",
		       e->health.peer, s->client->credentials.name);
}

static int check_welcome(struct kvd_session *s, const struct auth_exchange *x, const uint8_t *proof,
			 const struct wire_reply *reply, const uint8_t *payload, size_t bytes)
{
	struct engine *e = &s->engine;
	struct err *err = &e->health.err;
	size_t want = sizeof e->table.welcome + (s->client->has_credentials ? WIRE_PROOF_BYTES : 0);
	const char *at = e->health.peer;

	if (reply->status == WIRE_EDENIED)
		return err_set(err, KVD_EDENIED,
			       "kvd at %s denied %s: it has no such %s, or "
			       "they have another key by now ('kvcli user list' there shows)",
			       at, e->health.user,
			       s->client->space ? "namespace, or no such user in it" : "user");
	if (reply->status == WIRE_EBUSY)
		return err_set(err, KVD_ECONNECT,
			       "kvd at %s refused the connection: %s has as many as one user may "
			       "have, see --user-connections", at, e->health.user);
	if (reply->status != WIRE_OK || bytes != want)
		return err_set(err, KVD_EPROTOCOL,
			       "%s answered the hello with status %u and %zu bytes", at,
			       reply->status, bytes);
	memcpy(&e->table.welcome, payload, sizeof e->table.welcome);
	if (s->client->has_credentials &&
	    !auth_check_server(x, proof, &e->table.welcome, sizeof e->table.welcome,
			       payload + sizeof e->table.welcome))
		return err_set(err, KVD_EDENIED,
			       "what listens at %s is not the kvd that the credentials "
			       "of %s are for: it can't prove it",
			       at, s->client->credentials.name);
	if (!welcome_is_sane(&e->table.welcome) || reply->buckets < LAYOUT_BUCKETS_MIN)
		return err_set(err, KVD_EPROTOCOL, "%s sent a welcome that makes no sense", at);
	e->table.unit_mask = layout_unit_mask(e->table.welcome.table_bytes);
	return 0;
}

int hello_say(struct kvd_session *s)
{
	struct engine *e = &s->engine;
	const struct credentials *c = &s->client->credentials;
	struct wire_request hello = { .op = WIRE_HELLO,
				      .flags = WIRE_NOTICES,
				      .value_addr = (uintptr_t)e->held.page,
				      .value_rkey = s->held_mr->rkey,
				      .value_checksum = e->secret };
	uint8_t proof[WIRE_PROOF_BYTES];
	const struct outcome *out;
	struct wire_signed text;
	struct auth_exchange x;
	bool is_new;
	unsigned silences = e->silences; /* the answer to this is no sign of a primary's */
	int rc = check_users(s);

	if (rc)
		return rc;
	struct op *op = op_new(e, &call_class, c->name, strlen(c->name));
	if (s->client->has_credentials) {
		fill_exchange(s, &hello, &text, &x);
		auth_prove_client(&x, &c->secret, proof);
	}
	uint64_t asked_ns = clock_read_ns(CLOCK_BOOTTIME);
	rc = request_start(op, &hello, &(struct iovec){ proof, sizeof proof },
			   s->client->has_credentials);
	if (!rc)
		rc = session_run(s, op, &out);
	if (!rc)
		rc = check_welcome(s, &x, proof, &out->reply, out->payload, out->payload_bytes);
	if (!rc && s->expected && e->table.welcome.instance != s->expected)
		rc = err_set(&e->health.err, KVD_ECONNECT, "%s is of another kvd", e->health.peer);
	if (rc)
		return rc;
	if (e->table.welcome.flags & WIRE_WELCOME_LEASE) {
		grant_begin(&e->table.grant, e->table.welcome.reign);
		grant_told(&e->table.grant, out->reply.lease_ms, asked_ns);
	}
	/* Of a cluster: the reign that this connection is of. */
	e->reign = e->table.welcome.flags & WIRE_WELCOME_LEASE ? e->table.welcome.reign : 0;
	e->was_primary = e->reign;
	e->silences = silences;
	e->patience_ns = e->reign ? PATIENCE_NS << (silences < DOUBLED_MAX ? silences : DOUBLED_MAX) : 0;
	e->health.role = role_name((enum role)e->table.welcome.role);
	rc = learn_table(s, out->reply.buckets, &is_new);
	if (!rc)
		hints_begin(e);
	return !rc && is_new && s->client->options.mirror_ahead ? prefill_mirror(s) : rc;
}
