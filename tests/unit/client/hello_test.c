/* SPDX-License-Identifier: BSD-2-Clause */
/* client/session/hello.c: who the client is, what kvd's welcome says, and what is believed of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <cmocka.h>

#include "client/session/connect.h"
#include "client/session/session.h"
#include "client/session/teardown.h"
#include "common/auth/auth.h"
#include "tests/unit/client/dial.h"

#define PEER "127.0.0.1:7000"
#define MS 1000000ull

static struct kvd_session *s;
static struct kvd_client *client;
static struct engine *e;

static int set_up(void **state)
{
	(void)state;
	alarm(20);
	dial_new(1);
	s = &dial.end->session;
	client = &dial.end->client;
	e = dial.end->engine;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	dial_delete();
	alarm(0);
	return 0;
}

static void must_work(void)
{
	int rc = session_attempt(s, 4000);

	if (rc)
		fail_msg("%d: %s", rc, e->health.err.text);
	assert_true(health_is_usable(&e->health));
	assert_int_equal(e->in_flight, 0);
}

static void must_fail(int code, const char *text)
{
	assert_int_equal(session_attempt(s, 4000), code);
	assert_string_equal(e->health.err.text, text);
	assert_false(e->health.connected);
	assert_int_equal(dial.open, 0);
	assert_int_equal(e->in_flight, 0);
}

static void connect_anew(void)
{
	session_disconnect(s);
	must_work();
}

/* --------------------------------------------------------------------- what is said */

static void test_what_it_says(void **state)
{
	(void)state;
	e->secret = 0x1122334455667788ull;
	e->table.unit_mask = 1;
	dial.place[0].welcome.table_bytes = 1ull << 30;
	dial.hello.buckets = 4 * LAYOUT_BUCKETS_MIN;
	must_work();
	assert_int_equal(dial.greetings, 1);
	assert_int_equal(dial.greeting.flags, WIRE_NOTICES);
	assert_int_equal(dial.greeting.value_addr, (uintptr_t)e->held.page);
	assert_int_equal(dial.greeting.value_rkey, s->held_mr->rkey);
	assert_int_equal(dial.greeting.value_checksum, e->secret);
	assert_int_equal(dial.greeting.key_bytes, 0);
	assert_int_equal(dial.greeting.value_bytes, 0);
	assert_memory_equal(&e->table.welcome, &dial.place[0].welcome, sizeof e->table.welcome);
	assert_int_equal(e->table.unit_mask, layout_unit_mask(1ull << 30));
	assert_int_equal(client->buckets, 4 * LAYOUT_BUCKETS_MIN);
	assert_string_equal(e->health.role, "write");
	assert_false(session_is_of_cluster(s));
	assert_int_equal(e->reign, 0);
	assert_false(e->was_primary);
	assert_int_equal(e->patience_ns, 0);
	assert_int_equal(dial.wheres, 0);
	assert_null(e->hints);
}

/* What GETs are of is told where kvd wants to know it, and to one that does not no more. */
static void test_hints(void **state)
{
	(void)state;
	dial.place[0].welcome.hints_every = 5;
	must_work();
	assert_non_null(e->hints);
	dial.place[0].welcome.hints_every = 0;
	connect_anew();
	assert_null(e->hints);
}

/* ------------------------------------------------------------------- what is answered */

static void test_is_refused(void **state)
{
#define DENIED "kvd at " PEER " denied they: it has no such "
#define KEYS ", or they have another key by now ('kvcli user list' there shows)"
	static const struct {
		unsigned status, bytes;
		uint64_t space;
		int code;
		const char *text;
	} cases[] = {
		{ WIRE_EDENIED, 0, 0, KVD_EDENIED, DENIED "user" KEYS },
		{ WIRE_EDENIED, 0, 7, KVD_EDENIED, DENIED "namespace, or no such user in it" KEYS },
		{ WIRE_EBUSY, 0, 0, KVD_ECONNECT,
		  "kvd at " PEER " refused the connection: they has as many as one user may have, see "
		  "--user-connections" },
		{ WIRE_OK, 135, 0, KVD_EPROTOCOL,
		  PEER " answered the hello with status 0 and 135 bytes" },
		{ WIRE_OK, 137, 0, KVD_EPROTOCOL,
		  PEER " answered the hello with status 0 and 137 bytes" },
		{ WIRE_OK, 200, 0, KVD_EPROTOCOL,
		  PEER " answered the hello with status 0 and 200 bytes" },
		{ WIRE_EINVALID, 136, 0, KVD_EPROTOCOL,
		  PEER " answered the hello with status 5 and 136 bytes" },
	};

	for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		dial.hello.status = (uint8_t)cases[i].status;
		dial.welcome_bytes = cases[i].bytes;
		client->space = cases[i].space;
		must_fail(cases[i].code, cases[i].text);
		tear_down(state);
		set_up(state);
	}
}

static void test_nonsense(void **state)
{
	static const char text[] = PEER " sent a welcome that makes no sense";

	(void)state;
	dial.hello.buckets = LAYOUT_BUCKETS_MIN - 1;
	must_fail(KVD_EPROTOCOL, text);
	dial.hello.buckets = LAYOUT_BUCKETS_MIN;
	dial.place[0].welcome.credits = 0;
	must_fail(KVD_EPROTOCOL, text);
	dial.place[0].welcome.credits = 1;
	must_work();
}

static void say_nothing(struct end *end, const struct wire_request *request)
{
	(void)end, (void)request;
}

static void test_no_answer(void **state)
{
	uint64_t begun_ns;

	(void)state;
	client->options.timeout_ms = 20;
	e->time.limit_ns = 20 * MS;
	dial.end->answer = say_nothing;
	begun_ns = clock_read_ns(CLOCK_MONOTONIC);
	must_fail(KVD_ETIMEDOUT, PEER " did not answer within 20 ms");
	assert_true(clock_read_ns(CLOCK_MONOTONIC) - begun_ns < 500 * MS);
	assert_int_equal(dial.end->messages, 1);
}

/* --------------------------------------------------------------------------- who it is */

static struct auth_secret kvds, users;
static struct auth_key users_key;
static bool is_forged;

/* What both ends have to sign, as kvd sees it. */
static void make_exchange(const struct end *end, const struct wire_request *q,
			  struct wire_signed *text, struct auth_exchange *x)
{
	*text = (struct wire_signed){ .value_addr = q->value_addr,
				      .value_checksum = q->value_checksum,
				      .value_rkey = q->value_rkey,
				      .depth = dial.said.depth,
				      .space = dial.said.space,
				      .name_bytes = q->key_bytes };
	memcpy(text->name, end->behind, q->key_bytes);
	*x = (struct auth_exchange){ .version = WIRE_VERSION,
				     .client_qpn = dial.param.qp_num,
				     .server_qpn = 4321,
				     .hello = text,
				     .hello_bytes = sizeof *text };
	auth_key_of(&kvds, &x->server);
	memcpy(x->client_nonce, dial.said.nonce, sizeof x->client_nonce);
	memcpy(x->server_nonce, dial.accept.nonce, sizeof x->server_nonce);
}

static void check_and_prove(struct end *end, const struct wire_request *q)
{
	uint8_t payload[sizeof(struct wire_welcome) + WIRE_PROOF_BYTES];
	const uint8_t *proof = end->behind + q->key_bytes;
	struct auth_exchange x;
	struct wire_signed text;

	make_exchange(end, q, &text, &x);
	assert_int_equal(q->op, WIRE_HELLO);
	assert_int_equal(q->key_bytes, 3);
	assert_memory_equal(end->behind, "eve", 3);
	assert_int_equal(q->value_bytes, WIRE_PROOF_BYTES);
	assert_true(auth_check_client(&x, &users_key, proof));
	memcpy(payload, &dial.place[0].welcome, sizeof dial.place[0].welcome);
	auth_prove_server(&x, proof, payload, sizeof(struct wire_welcome), &kvds,
			  payload + sizeof(struct wire_welcome));
	payload[0] ^= is_forged; /* behind that nobody may change it */
	end_reply(end, dial.hello, payload, sizeof payload);
}

static void give_credentials(void)
{
	assert_int_equal(auth_init(), 0);
	auth_new(&kvds, &client->credentials.server);
	auth_new(&users, &users_key);
	client->credentials.secret = users;
	strcpy(client->credentials.name, "eve");
	client->has_credentials = true;
	client->space = 77;
	e->secret = 0x99;
	is_forged = false;
}

static void test_proves_who_it_is(void **state)
{
	uint8_t nonce[WIRE_NONCE_BYTES];

	(void)state;
	give_credentials();
	memset(dial.accept.nonce, 0x5a, sizeof dial.accept.nonce);
	dial.accept.flags = WIRE_ACCEPT_USERS;
	dial.end->answer = check_and_prove;
	must_work();
	memcpy(nonce, dial.said.nonce, sizeof nonce);
	connect_anew();
	assert_memory_not_equal(nonce, dial.said.nonce, sizeof nonce);
	session_disconnect(s);
	is_forged = true;
	must_fail(KVD_EDENIED, "what listens at " PEER " is not the kvd that the credentials of eve are "
			       "for: it can't prove it");
}

/* A welcome without kvd's proof is none where the client has credentials. */
static void test_no_proof(void **state)
{
	(void)state;
	give_credentials();
	dial.accept.flags = WIRE_ACCEPT_USERS;
	must_fail(KVD_EPROTOCOL, PEER " answered the hello with status 0 and 136 bytes");
}

static void test_they_want_different_things(void **state)
{
	(void)state;
	dial.accept.flags = WIRE_ACCEPT_USERS;
	must_fail(KVD_EDENIED, "kvd at " PEER " wants to know who you are: give credentials "
			       "(--credentials FILE, KVD_CREDENTIALS_FILE or KVD_CREDENTIALS)");
	dial.accept.flags = 0;
	give_credentials();
	must_fail(KVD_EDENIED, "kvd at " PEER " has no users, so it can't prove that it is the one that "
			       "the credentials of eve are for");
	assert_int_equal(dial.greetings, 0);
}

/* ----------------------------------------------------------------------- what is known */

#define BUCKET 5u

/* Something that the mirror has. */
static uint64_t find(void)
{
	const uint64_t both[2] = { BUCKET, BUCKET };
	uint64_t mask = e->table.unit_mask;

	return mirror_find(client->mirror, both, mask, layout_fp(1, mask));
}

static void learn_something(void)
{
	uint64_t words[LAYOUT_BUCKET_WORDS] = { layout_word(9, 1, layout_fp(1, e->table.unit_mask)) };

	mirror_store(client->mirror, BUCKET, words);
	atomic_store(&client->buckets, 1000);
	atomic_store(&client->directory->offset[0], 4096);
	assert_true(find());
}

/* What nothing was stored in has nothing to forget, and takes no memory for it. */
static void test_unused_mirror(void **state)
{
	struct rusage before, after;
	struct mirror *m = mirror_new(64u << 20);

	(void)state;
	assert_non_null(m);
	getrusage(RUSAGE_SELF, &before);
	mirror_clear(m);
	getrusage(RUSAGE_SELF, &after);
	assert_in_range(after.ru_minflt - before.ru_minflt, 0, 50); /* its tags have 1,500 pages */
	mirror_delete(m);
}

static void must_know(bool is_kept)
{
	assert_int_equal(find() != 0, is_kept);
	assert_int_equal(client->buckets, is_kept ? 1000 : LAYOUT_BUCKETS_MIN);
	assert_int_equal(client->directory->offset[0], is_kept ? 4096 : 0);
	assert_ptr_equal(e->table.directory, client->directory);
	assert_int_equal(client->directory->owners, 2);
	assert_int_equal(client->directory->instance, dial.place[0].welcome.instance);
	assert_int_equal(client->directory->entries, dial.place[0].welcome.dir_entries);
}

/* Of the same start of kvd all stays known, of another one nothing; who has not met that yet keeps theirs. */
static void test_what_is_known_of_the_index(void **state)
{
	struct directory *mine;

	(void)state;
	must_work();
	must_know(false);
	learn_something();
	connect_anew();
	must_know(true);
	mine = directory_share(client->directory); /* another session's */
	dial.place[0].welcome.instance++;
	connect_anew();
	must_know(false);
	assert_int_equal(mine->owners, 1);
	directory_leave(&mine);
	learn_something();
	dial.place[0].welcome.dir_entries = 1;
	connect_anew();
	must_know(false);
	learn_something();
	connect_anew();
	must_know(true);
}

/* The index is READ ahead once, if the user wants that. */
static void test_reads_ahead(void **state)
{
	(void)state;
	must_work();
	assert_int_equal(dial.end->reads, 0);
	client->options.mirror_ahead = 1;
	connect_anew();
	assert_int_equal(dial.end->reads, 0);
	dial.place[0].welcome.instance++;
	connect_anew();
	unsigned reads = dial.end->reads;
	assert_in_range(reads, 2, 10);
	connect_anew();
	assert_int_equal(dial.end->reads, reads);
	client->options.mirror_ahead = 0;
	dial.place[0].welcome.instance++;
	connect_anew();
	assert_int_equal(dial.end->reads, reads);
}

static void test_reads_ahead_in_vain(void **state)
{
	(void)state;
	client->options.mirror_ahead = 1;
	dial.end->status = IBV_WC_REM_ACCESS_ERR;
	assert_int_equal(session_attempt(s, 4000), KVD_ECONNECT);
	assert_non_null(strstr(e->health.err.text, "the connection to " PEER " broke"));
	assert_int_equal(dial.open, 0);
}

/* -------------------------------------------------------------------------- a cluster */

static void test_primary(void **state)
{
	uint64_t begun_ns = clock_read_ns(CLOCK_BOOTTIME);

	(void)state;
	dial_as_cluster();
	dial.hello.lease_ms = 20;
	must_work();
	assert_true(session_is_of_cluster(s));
	assert_int_equal(e->reign, 3);
	assert_true(e->was_primary);
	assert_int_equal(e->patience_ns, 300 * MS);
	assert_true(e->table.grant.is_needed);
	assert_int_equal(e->table.grant.lease.reign, 3);
	assert_in_range(e->table.grant.lease.until_ns, begun_ns + MS,
			clock_read_ns(CLOCK_BOOTTIME) + 20 * MS);
	/* It asks who else could serve. */
	assert_int_equal(dial.wheres, 1);
	assert_int_equal(client->route.count, 3);
	assert_int_equal(client->route.epoch, 9);
	assert_int_equal(client->route.instance, 0);
}

static void test_member_that_does_not_serve(void **state)
{
	(void)state;
	dial_as_cluster();
	dial.place[0].welcome.reign = 0;
	dial.hello.lease_ms = 20;
	must_work();
	assert_true(session_is_of_cluster(s));
	assert_int_equal(e->reign, 0);
	assert_false(e->was_primary);
	assert_int_equal(e->patience_ns, 0);
	assert_true(e->table.grant.is_needed);
	assert_int_equal(e->table.grant.lease.until_ns, 0);
	/* Whatever it says, who is of no cluster has no reign. */
	for (unsigned i = 0; i < DIAL_PLACES; i++) {
		dial.place[i].welcome.flags = 0;
		dial.place[i].welcome.reign = 5;
	}
	e->was_primary = true;
	connect_anew();
	assert_int_equal(e->reign, 0);
	assert_false(e->was_primary);
	assert_false(e->table.grant.is_needed);
}

static void test_does_not_say_where(void **state)
{
	(void)state;
	dial_as_cluster();
	dial.place[0].where = "";
	dial.place[0].epoch = 0;
	must_work();
	assert_int_equal(client->route.count, 1);
	session_disconnect(s);
	dial.where_status = WIRE_EUNSUPPORTED;
	must_fail(KVD_EPROTOCOL, "kvd at " PEER " does not say where the primary is (status 8)");
}

/* A primary that was silent has twice the time each time, up to sixteen times; that it greets, and says where
 * who is, is no answer. */
static void test_patience(void **state)
{
	static const unsigned doubled[] = { 0, 1, 2, 3, 4, 4, 4 };

	(void)state;
	dial_as_cluster();
	dial.place[0].where = ""; /* there is no other one */
	for (unsigned i = 0; i < sizeof doubled / sizeof doubled[0]; i++) {
		e->silences = i;
		connect_anew();
		assert_int_equal(e->patience_ns, (300 * MS) << doubled[i]);
		assert_int_equal(e->silences, i);
		assert_int_equal(dial.greetings, i + 1);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_what_it_says),
		TEST(test_hints),
		TEST(test_is_refused),
		TEST(test_nonsense),
		TEST(test_no_answer),
		TEST(test_proves_who_it_is),
		TEST(test_no_proof),
		TEST(test_they_want_different_things),
		TEST(test_what_is_known_of_the_index), TEST(test_unused_mirror),
		TEST(test_reads_ahead),
		TEST(test_reads_ahead_in_vain),
		TEST(test_primary),
		TEST(test_member_that_does_not_serve),
		TEST(test_does_not_say_where),
		TEST(test_patience),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
