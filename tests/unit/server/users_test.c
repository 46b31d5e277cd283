/* SPDX-License-Identifier: BSD-2-Clause */
/* Who gets in where there are users, what each may do, and what who is removed loses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "tests/lib/group.h"
#include "tests/lib/peer.h"

#define DENIED_MS 1000u /* before a hello that proves nothing is answered */

static struct kvd kvd;
static struct users *users;
static char path[128];
static struct credentials admin, writer, reader;

static int add(struct credentials *c, const char *name, enum role role)
{
	struct err err;

	snprintf(c->name, sizeof c->name, "%s", name);
	c->server = users->key;
	return users_add(users, name, role, &c->secret, &err);
}

static int begin(void **state)
{
	struct err err;

	(void)state;
	kvd_folder(&kvd);
	kvd_path(&kvd, "users", path, sizeof path);
	if (auth_init() || !(users = users_new()) || add(&admin, "anne", ROLE_ADMIN) ||
	    add(&writer, "will", ROLE_WRITE) || add(&reader, "rita", ROLE_READ) ||
	    users_save(users, path, true, &err))
		return -1;
	kvd_start(&kvd, (const char *const[]){ "--memory", "32M", "--workers", "1", "--users", path,
					       "--handshakes", "0", "--log-level", "error", NULL });
	return 0;
}

static int end(void **state)
{
	(void)state;
	users_delete(&users);
	kvd_stop(&kvd);
	return 0;
}

static void enter(struct peer *p, const struct credentials *who)
{
	peer_connect(p, &kvd);
	assert_int_equal(peer_hello(p, who), WIRE_OK);
}

#define ask(p, name, key, value, ...) \
	peer_ask_text(p, (struct wire_request){ .op = WIRE_##name, __VA_ARGS__ }, key, value)

static void test_roles(void **state)
{
	struct peer a, w, r;

	(void)state;
	enter(&a, &admin);
	enter(&w, &writer);
	enter(&r, &reader);
	uint64_t forbidden = peer_stat(&a, "forbidden");
	assert_int_equal(a.c.welcome.role, ROLE_ADMIN);
	assert_int_equal(w.c.welcome.role, ROLE_WRITE);
	assert_int_equal(r.c.welcome.role, ROLE_READ);
	/* Who may not lock learns no key of the lock words, and has no right to change any. */
	assert_true(w.c.welcome.lock_rkey != 0);
	assert_int_equal(r.c.welcome.lock_rkey, 0);
	assert_int_equal(ask(&w, PUT, "k", "v", 0), WIRE_OK);
	assert_int_equal(ask(&r, GET, "k", NULL, 0), WIRE_OK);
	assert_int_equal(ask(&r, PUT, "k", "v", 0), WIRE_EDENIED);
	assert_int_equal(ask(&r, DELETE, "k", NULL, 0), WIRE_EDENIED);
	assert_int_equal(ask(&r, LOCK, NULL, NULL, .token = peer_token(&r, 1)), WIRE_EDENIED);
	assert_int_equal(ask(&w, FLUSH, NULL, NULL, 0), WIRE_EDENIED);
	assert_int_equal(peer_stat(&a, "forbidden"), forbidden + 4);
	assert_int_equal(ask(&a, FLUSH, NULL, NULL, 0), WIRE_OK);
	assert_int_equal(raw_reach(&r.c, IBV_WR_ATOMIC_CMP_AND_SWP, w.c.welcome.lock_addr,
				   w.c.welcome.lock_rkey, 8), IBV_WC_REM_ACCESS_ERR);
	peer_leave(&a);
	peer_leave(&w);
	peer_leave(&r);
}

/* A transaction may be looked at by who may read, if it changes nothing. */
static void test_transactions(void **state)
{
	uint8_t text[sizeof(struct wire_txn) + 1] = { 0 };
	struct wire_txn head = { .version = WIRE_TXN_ABSENT, .key_bytes = 1,
				 .kind = WIRE_TXN_CHECK };
	struct wire_request q = { .op = WIRE_TXN, .version = 1, .value_bytes = sizeof text };
	struct peer r;

	(void)state;
	enter(&r, &reader);
	text[sizeof head] = 'z';
	memcpy(text, &head, sizeof head);
	assert_int_equal(peer_ask(&r, &q, NULL, text), WIRE_OK);
	head.kind = WIRE_TXN_DELETE;
	memcpy(text, &head, sizeof head);
	assert_int_equal(peer_ask(&r, &q, NULL, text), WIRE_EDENIED);
	peer_leave(&r);
}

/* Whoever proves nothing is told after a while, whatever is wrong; and that was it. */
static void test_denied(void **state)
{
	struct credentials wrong = admin, unknown = admin, gone = writer;
	const struct credentials *const who[] = { &wrong, &unknown, NULL, &gone };
	enum { COUNT = sizeof who / sizeof *who };
	struct peer p[COUNT], a;

	(void)state;
	wrong.secret = writer.secret;
	snprintf(unknown.name, sizeof unknown.name, "nobody");
	enter(&a, &admin);
	uint64_t denied = peer_stat(&a, "denied"), start = raw_now_ms();
	for (unsigned i = 0; i < COUNT; i++) {
		peer_connect(&p[i], &kvd);
		raw_make_hello(&p[i].c, who[i]);
		if (who[i] == &gone) /* a proof of something else */
			p[i].c.hello[sizeof(struct wire_request) + 4 + WIRE_PROOF_BYTES - 1] ^= 1;
		assert_true(raw_send(&p[i].c, p[i].c.hello, p[i].c.hello_bytes));
	}
	for (unsigned i = 0; i < COUNT; i++) {
		assert_int_equal(peer_hear(&p[i], PEER_PATIENCE_MS), WIRE_EDENIED);
		assert_int_equal(p[i].reply.op, WIRE_HELLO);
		assert_true(raw_now_ms() - start >= DENIED_MS);
		assert_true(peer_is_ended(&p[i]));
		peer_leave(&p[i]);
	}
	assert_int_equal(peer_stat(&a, "denied"), denied + COUNT);
	peer_leave(&a);
}

/* It may not go on meanwhile. */
static void test_denied_goes_on(void **state)
{
	struct wire_request q = { .op = WIRE_PING };
	struct peer p;

	(void)state;
	peer_connect(&p, &kvd);
	raw_make_hello(&p.c, NULL);
	uint64_t start = raw_now_ms();
	assert_true(raw_send(&p.c, p.c.hello, p.c.hello_bytes));
	assert_true(peer_say(&p, &q, NULL, NULL));
	assert_true(peer_is_ended(&p));
	assert_int_equal(p.reply.op, 0);
	assert_true(raw_now_ms() - start < PEER_PATIENCE_MS);
	peer_leave(&p);
}

/* A file that is wrong changes nothing. */
static void test_bad_file(void **state)
{
	char bad[128];
	struct peer a;
	FILE *f;

	(void)state;
	enter(&a, &admin);
	kvd_path(&kvd, "bad", bad, sizeof bad);
	f = fopen(bad, "we");
	assert_non_null(f);
	assert_int_equal(fchmod(fileno(f), 0600), 0);
	fputs("nonsense\n", f);
	fclose(f);
	assert_int_equal(rename(bad, path), 0);
	kill(kvd.pid, SIGHUP);
	assert_int_equal(ask(&a, PING, NULL, NULL, 0), WIRE_OK);
	assert_int_equal(peer_stat(&a, "rkey_changes"), 0);
	peer_leave(&a);
	enter(&a, &reader);
	peer_leave(&a);
}

/* Who is removed is cut off; and what they knew of the table is worth nothing. */
static void test_removed(void **state)
{
	struct peer r, again;
	struct err err;

	(void)state;
	enter(&r, &reader);
	uint32_t rkey = r.c.welcome.table_rkey;
	assert_int_equal(users_remove(users, "rita", &err), 0);
	assert_int_equal(users_save(users, path, false, &err), 0);
	assert_true(peer_is_ended(&r));
	peer_leave(&r);
	enter(&again, &admin);
	assert_true(peer_wait_stat(&again, "rkey_changes", 1));
	peer_leave(&again);
	enter(&again, &admin);
	assert_true(again.c.welcome.table_rkey != rkey);
	assert_int_equal(raw_reach(&again.c, IBV_WR_RDMA_READ, again.c.welcome.table_addr, rkey, 8),
			 IBV_WC_REM_ACCESS_ERR);
	peer_leave(&again);
	peer_connect(&r, &kvd);
	assert_int_equal(peer_hello(&r, &reader), WIRE_EDENIED);
	peer_leave(&r);
}

int main(int argc, char **argv)
{
	kvd_be(argc, argv);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_roles),
		cmocka_unit_test(test_transactions),
		cmocka_unit_test(test_denied),
		cmocka_unit_test(test_denied_goes_on),
		cmocka_unit_test(test_bad_file),
		cmocka_unit_test(test_removed), /* last: one is gone */
	};

	return GROUP_RUN(tests, begin, end);
}
