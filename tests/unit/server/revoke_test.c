/* SPDX-License-Identifier: BSD-2-Clause */
/* server/host/revoke.h: who is cut off when the users file changed, and when the rkeys change. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "common/log.h"
#include "server/access/gate.h"
#include "server/host/options.h"
#include "server/host/revoke.h"
#include "server/host/server.h"
#include "server/table/table.h"
#include "server/worker/conn.h"
#include "server/worker/conn_impl.h"
#include "server/worker/context.h"
#include "tests/unit/made_up.h"
#include "tests/unit/said.h"

#define CONNS 4u

static struct options options;
static struct server server;
static struct conn conn[CONNS];
static struct ibv_mr old_mr, new_mr;
static enum gate_change change;
static unsigned users, lost, admitted; /* the last two: a bit for each */
static bool has_no_keys;
static char steps[16];

static void step(char what)
{
	size_t n = strlen(steps);

	assert_true(n + 1 < sizeof steps);
	steps[n] = what;
}

MADE_UP(enum gate_change, gate_reload, struct gate *gate, unsigned *user_count)
{
	(void)gate;
	*user_count = users;
	return change;
}

MADE_UP(bool, gate_still_admits, struct gate *gate, const struct handshake *h)
{
	(void)gate;
	for (unsigned i = 0; i < CONNS; i++)
		if (h == &conn[i].handshake)
			return admitted >> i & 1;
	fail();
	return false;
}

MADE_UP(void, conn_cut, struct conn *c, const char *reason)
{
	assert_string_equal(reason, "its user was removed or changed");
	assert_false(admitted >> (c - conn) & 1);
	step((char)('0' + (c - conn)));
}

MADE_UP(int, table_keys_new, struct table *t, unsigned bits, struct table_keys *keys, struct err *err)
{
	(void)t;
	lost = bits;
	step('n');
	if (has_no_keys)
		return err_set(err, -1, "no keys");
	keys->mr[0] = &new_mr;
	return 0;
}

MADE_UP(void, table_keys_swap, struct table *t, const struct table_keys *keys, struct table_keys *old)
{
	(void)t;
	assert_ptr_equal(keys->mr[0], &new_mr);
	old->mr[0] = &old_mr;
	step('s');
}

MADE_UP(void, server_tell_rkeys, struct server *s)
{
	assert_ptr_equal(s, &server);
	step('t');
}

MADE_UP(void, table_keys_delete, struct table *t, struct table_keys *keys)
{
	(void)t;
	assert_ptr_equal(keys->mr[0], &old_mr);
	step('d');
}

static int begin(void **state)
{
	(void)state;
	memset(&server, 0, sizeof server);
	memset(conn, 0, sizeof conn);
	memset(steps, 0, sizeof steps);
	options.users = "/etc/kvd.users";
	server.options = &options;
	server.rail_count = 3;
	server.conns = &conn[0];
	for (unsigned i = 0; i < CONNS - 1; i++)
		conn[i].all_next = &conn[i + 1];
	has_no_keys = false;
	lost = 0xff;
	users = 9;
	return 0;
}

static void reload(enum gate_change what, unsigned still, const char *expected)
{
	change = what;
	admitted = still;
	memset(steps, 0, sizeof steps);
	said_begin();
	revoke_reload(&server);
	said_end();
	assert_string_equal(steps, expected);
}

/* A file that is wrong, or is not there, changes nothing, whoever could not come again. */
static void test_same(void **state)
{
	(void)state;
	reload(GATE_SAME, 0, "");
	assert_int_equal(said_lines("users:"), 0);
	assert_int_equal(server.rkey_changes, 0);
}

/* Somebody new: the rkeys stay, so that nobody has to connect again. */
static void test_changed(void **state)
{
	(void)state;
	reload(GATE_CHANGED, 0xf, "");
	assert_int_equal(said_lines("users: 9 in /etc/kvd.users; 0 connections ended"), 1);
	assert_int_equal(server.rkey_changes, 0);
	reload(GATE_CHANGED, 0xd, "1");
	assert_int_equal(said_lines("users: 9 in /etc/kvd.users; 1 connection ended"), 1);
}

/* They are cut off before the rkeys change, and the old ones go when the new ones are told. */
static void test_revoked(void **state)
{
	(void)state;
	reload(GATE_REVOKED, 0x6, "03nstd");
	assert_int_equal(said_lines("users: 9 in /etc/kvd.users; 2 connections ended"), 1);
	assert_int_equal(said_lines("new rkeys, made in "), 1);
	assert_int_equal(lost, 0);
	assert_int_equal(server.rkey_changes, 1);
	/* Also where nobody of theirs is connected. */
	server.conns = NULL;
	reload(GATE_REVOKED, 0, "nstd");
	assert_int_equal(server.rkey_changes, 2);
}

/* Of a device that is lost there are none to be had. */
static void test_lost_rails(void **state)
{
	(void)state;
	server.rails[1].is_lost = true;
	reload(GATE_REVOKED, 0xf, "nstd");
	assert_int_equal(lost, 0x2);
	server.rails[1].is_lost = false;
	server.rails[0].is_lost = server.rails[2].is_lost = true;
	reload(GATE_REVOKED, 0xf, "nstd");
	assert_int_equal(lost, 0x5);
	server.rail_count = 2;
	reload(GATE_REVOKED, 0xf, "nstd");
	assert_int_equal(lost, 0x1);
}

/* Then the old ones stay, as what uses them does; it is told, and not counted. */
static void test_no_keys(void **state)
{
	(void)state;
	has_no_keys = true;
	reload(GATE_REVOKED, 0x7, "3n");
	assert_int_equal(said_lines("the rkeys stay as they were"), 1);
	assert_int_equal(said_lines("it is of no use to them: no keys"), 1);
	assert_int_equal(said_lines("new rkeys"), 0);
	assert_int_equal(server.rkey_changes, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_same, begin),    cmocka_unit_test_setup(test_changed, begin),
		cmocka_unit_test_setup(test_revoked, begin), cmocka_unit_test_setup(test_lost_rails, begin),
		cmocka_unit_test_setup(test_no_keys, begin),
	};

	log_open("revoke_test", LOG_LEVEL_INFO);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
