/* SPDX-License-Identifier: BSD-2-Clause */
/* More want a connection than there are: who has proved who they are gets one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/lib/peer.h"

#define CONNECTIONS "24"
#define PROVEN 14 /* more than a half of them */
#define STRANGERS 40
#define USERS 20 /* one at a time */
#define TEAM_CONNECTIONS "6"
#define TEAM_PROVEN 4

static struct kvd kvd;
static struct users *users;
static struct credentials anne, will;

static int add(struct credentials *c, const char *name, enum role role)
{
	struct err err;

	snprintf(c->name, sizeof c->name, "%s", name);
	c->server = users->key;
	return users_add(users, name, role, &c->secret, &err);
}

static int begin_with(const char *option, const char *value)
{
	char path[128], team[256];
	struct err err;

	kvd_folder(&kvd);
	kvd_path(&kvd, "users", path, sizeof path);
	if (auth_init() || !(users = users_new()) || add(&anne, "anne", ROLE_ADMIN) ||
	    add(&will, "will", ROLE_WRITE) || users_save(users, path, true, &err))
		return -1;
	snprintf(team, sizeof team, "team:memory=16M,users=%s,connections=" TEAM_CONNECTIONS, path);
	kvd_start(&kvd, (const char *const[]){ "--memory", "16M", "--workers", "1", "--users", path,
					       "--handshakes", "0", "--connections", CONNECTIONS,
					       "--namespace", team, "--log-level", "error",
					       option, value, NULL });
	return 0;
}

static int begin(void **state)
{
	(void)state;
	return begin_with(NULL, NULL);
}

static int begin_with_3(void **state)
{
	(void)state;
	return begin_with("--user-connections", "3");
}

static int end(void **state)
{
	(void)state;
	users_delete(&users);
	kvd_stop(&kvd);
	return 0;
}

/* A place with connections of its own; each peer of peer.h would have a process's memory. */
static void open_raw(struct raw *raw, const char *space)
{
	char addr[ADDR_TEXT_BYTES + 32];

	*raw = (struct raw){ .random = 1 };
	snprintf(addr, sizeof addr, "%s%s", kvd.addr, space);
	raw_open(raw, addr);
	raw->recvs = 4;
	raw->tolerant = true;
}

static bool knock(struct raw *raw, struct raw_conn *c)
{
	struct wire_connect connect = { .magic = WIRE_MAGIC, .version = WIRE_VERSION,
					.space = raw->space };

	auth_nonce(connect.nonce);
	return raw_connect(raw, c, &connect);
}

/* The status of the hello, or -1: there is no connection. */
static int come_in(struct raw *raw, struct raw_conn *c, const struct credentials *who)
{
	if (!knock(raw, c))
		return -1;
	raw_make_hello(c, who);
	int status = raw_say_hello(c, who);
	if (status != WIRE_OK)
		raw_hang_up(c);
	return status;
}

static bool is_served(struct raw_conn *c)
{
	struct wire_request ping = { .op = WIRE_PING, .request_id = 9 };
	struct wire_reply reply;

	return raw_send(c, &ping, sizeof ping) && raw_reply(c, &reply, NULL, 0, PEER_PATIENCE_MS) &&
	       reply.status == WIRE_OK;
}

/* Users have more than a half; strangers, who never say a word, want the others, and as
 * many again; 20 users come meanwhile. */
static void among_strangers(const char *space, unsigned proven)
{
	struct raw_conn inside[PROVEN], strangers[STRANGERS + USERS], c;
	struct raw raw;
	unsigned taken = 0, let_in = 0;

	open_raw(&raw, space);
	for (unsigned i = 0; i < proven; i++)
		assert_int_equal(come_in(&raw, &inside[i], &anne), WIRE_OK);
	for (unsigned i = 0; i < STRANGERS; i++)
		taken += knock(&raw, &strangers[taken]);
	assert_true(taken > 0);
	for (unsigned i = 0; i < USERS; i++) {
		if (come_in(&raw, &c, &will) != WIRE_OK)
			continue;
		let_in += is_served(&c);
		raw_hang_up(&c);
		taken += knock(&raw, &strangers[taken]); /* another stranger, in their place */
	}
	if (let_in < USERS)
		print_error("strangers keep users out: %u of %u were let in\n", let_in, USERS);
	assert_int_equal(let_in, USERS);
	for (unsigned i = 0; i < proven; i++)
		assert_true(is_served(&inside[i]));
	for (unsigned i = 0; i < proven; i++)
		raw_hang_up(&inside[i]);
	for (unsigned i = 0; i < taken; i++)
		raw_hang_up(&strangers[i]);
	raw_close(&raw);
}

static void test_all(void **state)
{
	(void)state;
	among_strangers("", PROVEN);
}

static void test_namespace(void **state)
{
	(void)state;
	among_strangers("/team", TEAM_PROVEN);
}

/* All but an eighth are one user's at the most: others find one. */
static void test_user(void **state)
{
	enum { ALL = 24, OF_ONE = 21 };
	struct raw_conn inside[ALL], c;
	unsigned taken = 0, status = 0;
	struct raw raw;

	(void)state;
	open_raw(&raw, "");
	while (taken < ALL && (status = (unsigned)come_in(&raw, &inside[taken], &anne)) == WIRE_OK)
		taken++;
	if (taken > OF_ONE)
		print_error("one user has %u of %u connections\n", taken, ALL);
	assert_int_equal(taken, OF_ONE);
	assert_int_equal(status, WIRE_EBUSY);
	assert_int_equal(come_in(&raw, &c, &will), WIRE_OK);
	assert_true(is_served(&c));
	raw_hang_up(&c);
	for (unsigned i = 0; i < taken; i++)
		raw_hang_up(&inside[i]);
	raw_close(&raw);
}

/* A limit that was given; what ends counts no more, also in a namespace. */
static void test_user_given(void **state)
{
	struct raw_conn inside[3], c;
	struct raw raw;

	(void)state;
	open_raw(&raw, "/team");
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < 3; i++)
			while (come_in(&raw, &inside[i], &anne) != WIRE_OK)
				assert_true(round > 0); /* those that left are being ended */
		assert_int_equal(come_in(&raw, &c, &anne), WIRE_EBUSY);
		assert_int_equal(come_in(&raw, &c, &will), WIRE_OK);
		raw_hang_up(&c);
		for (unsigned i = 0; i < 3; i++)
			raw_hang_up(&inside[i]);
	}
	raw_close(&raw);
}

int main(int argc, char **argv)
{
	kvd_be(argc, argv);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_all, begin, end),
		cmocka_unit_test_setup_teardown(test_namespace, begin, end),
		cmocka_unit_test_setup_teardown(test_user, begin, end),
		cmocka_unit_test_setup_teardown(test_user_given, begin_with_3, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
