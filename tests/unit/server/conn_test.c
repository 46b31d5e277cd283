/* SPDX-License-Identifier: BSD-2-Clause */
/* server/worker/conn.h: what ends with a connection, who is told of it, and that its rights are asked. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/clock.h"
#include "common/log.h"
#include "server/access/gate.h"
#include "server/access/rate_limit.h"
#include "server/worker/conn.h"
#include "server/worker/conn_impl.h"
#include "server/worker/conn_set.h"
#include "server/worker/context.h"
#include "tests/unit/made_up.h"
#include "tests/unit/no_memory.h"
#include "tests/unit/said.h"

#define CONNS 3u

static struct server server;
static struct conn_set set;
static struct commands commands;
static struct conn conn[CONNS];
static struct ibv_qp qp;
static unsigned left, errors, failures; /* seats, queue pairs in error, knocks */
static int rights;			/* that the device says it has */

MADE_UP(void, gate_leave_seat, struct gate *gate, struct handshake *h)
{
	(void)gate;
	assert_ptr_equal(h, &conn[0].handshake);
	left++;
}

MADE_UP(int, link_qp_set_error, const struct verbs *v, struct ibv_qp *to)
{
	(void)v;
	assert_ptr_equal(to, &qp);
	errors++;
	return 0;
}

MADE_UP(int, link_qp_access, const struct verbs *v, struct ibv_qp *of)
{
	(void)v;
	assert_ptr_equal(of, &qp);
	return rights;
}

MADE_UP(void, knock_failed, struct knock *knock, const struct addr *peer, uint64_t now_ns)
{
	(void)knock;
	assert_ptr_equal(peer, &conn[0].peer);
	assert_true(clock_ns() - now_ns < 60000000000ull);
	failures++;
}

static int begin(void **state)
{
	(void)state;
	memset(&server, 0, sizeof server);
	memset(&set, 0, sizeof set);
	memset(conn, 0, sizeof conn);
	memset(&commands, 0, sizeof commands);
	server.connections = 5;
	server.pending = 7;
	for (unsigned i = 0; i < CONNS; i++) {
		conn[i] = (struct conn){ .server = &server, .set = &set, .commands = &commands, .qp = &qp,
					 .state = CONN_READY, .number = 11 + i };
		strcpy(conn[i].peer.text, "192.0.2.7:1");
	}
	left = errors = failures = 0;
	rights = 0;
	fails_at = 0;
	return commands_init(&commands);
}

static int end(void **state)
{
	(void)state;
	commands_fini(&commands);
	return 0;
}

static bool is_woken(void)
{
	return atomic_exchange(&commands.poked, false);
}

/* A ready one is one less of those; each other is one less of those that are not yet. */
static void closes(enum conn_state from, unsigned connections, unsigned pending)
{
	end(NULL);
	begin(NULL);
	conn[0].state = from;
	set.closing = &conn[1];
	conn_close(&conn[0], "it is the end");
	assert_int_equal(server.connections, connections);
	assert_int_equal(server.pending, pending);
	assert_int_equal(conn[0].state, CONN_CLOSING);
	assert_true(conn[0].sendq.closing);
	assert_true(conn[0].close_ns && clock_ns() - conn[0].close_ns < 60000000000ull);
	assert_ptr_equal(set.closing, &conn[0]);
	assert_ptr_equal(conn[0].closing_next, &conn[1]);
	assert_int_equal(left, 1);
	assert_int_equal(errors, 1);
}

static void test_close(void **state)
{
	(void)state;
	closes(CONN_NEW, 5, 6);
	closes(CONN_DENIED, 5, 6);
	said_begin();
	closes(CONN_READY, 4, 7);
	said_end();
	assert_int_equal(said_lines("connection 11 from 192.0.2.7:1 closed: it is the end"), 1);
	/* Once: the second time it has nothing more to lose, and stands in the list still once. */
	uint64_t close_ns = conn[0].close_ns;
	said_begin();
	conn_close(&conn[0], "again");
	assert_string_equal(said_end(), "");
	assert_int_equal(server.connections, 4);
	assert_int_equal(server.pending, 7);
	assert_int_equal(left, 1);
	assert_int_equal(conn[0].close_ns, close_ns);
	assert_ptr_equal(conn[0].closing_next, &conn[1]);
}

/* It is counted, and its address has to wait for the next try. */
static void test_malformed(void **state)
{
	(void)state;
	conn_close_malformed(&conn[0], "it is no message");
	assert_int_equal(server.protocol_errors, 1);
	assert_int_equal(failures, 1);
	assert_int_equal(conn[0].state, CONN_CLOSING);
	assert_int_equal(server.connections, 4);
}

/* The first reason counts. */
static void test_drop(void **state)
{
	static const char first[] = "first", second[] = "second";

	(void)state;
	conn_drop(&conn[0], first);
	assert_true(atomic_load(&conn[0].disconnected));
	assert_ptr_equal(atomic_load(&conn[0].drop_reason), first);
	assert_true(is_woken());
	conn_drop(&conn[0], second);
	assert_ptr_equal(atomic_load(&conn[0].drop_reason), first);
	assert_true(is_woken());
	assert_int_equal(errors, 0);
	assert_int_equal(conn[0].state, CONN_READY);
}

/* At once where it has a queue pair, and is told to its worker in either case. */
static void test_cut(void **state)
{
	(void)state;
	conn_cut(&conn[0], "cut");
	assert_int_equal(errors, 1);
	assert_true(atomic_load(&conn[0].disconnected));
	assert_true(is_woken());
	conn[1].qp = NULL;
	conn_cut(&conn[1], "cut");
	assert_int_equal(errors, 1);
	assert_true(atomic_load(&conn[1].disconnected));
	assert_string_equal(atomic_load(&conn[1].drop_reason), "cut");
	assert_true(is_woken());
}

static void test_told(void **state)
{
	(void)state;
	conn_drained(&conn[0]);
	assert_true(atomic_load(&conn[0].last_wqe));
	assert_false(atomic_load(&conn[0].lock_idle));
	assert_true(is_woken());
	conn_forgotten(&conn[1]);
	assert_true(atomic_load(&conn[1].lock_idle));
	assert_false(atomic_load(&conn[1].last_wqe));
	assert_true(is_woken());
}

/* The locker's answer goes to the worker; of one that is lost is told whose it was. */
static void test_answer(void **state)
{
	const struct wire_request request = { .request_id = 99, .op = WIRE_LOCK };

	(void)state;
	conn_answer(&conn[0], &request, WIRE_EBUSY);
	assert_true(is_woken());
	struct command *m = commands_take(&commands);
	assert_non_null(m);
	assert_int_equal(m->kind, CMD_ANSWER);
	assert_ptr_equal(m->conn, &conn[0]);
	assert_int_equal(m->request.request_id, 99);
	assert_int_equal(m->status, WIRE_EBUSY);
	assert_null(m->next);
	free(m);
	said_begin();
	fails_at = 1;
	conn_answer(&conn[0], &request, WIRE_OK);
	said_end();
	assert_int_equal(said_lines("out of memory: a lock request of 192.0.2.7:1 stays without an "
			"answer"), 1);
	assert_null(commands_take(&commands));
}

/* What a device gave by itself, or did not give, ends the connection; not one that ends anyway, and the
 * main thread's question, that it has none, is no question any more after its hello. */
static void test_rights(void **state)
{
	(void)state;
	rights = IBV_ACCESS_REMOTE_READ;
	assert_true(conn_check_rights(&conn[0], IBV_ACCESS_REMOTE_READ));
	conn[0].said_hello = true;
	assert_true(conn_check_rights(&conn[0], 0));
	conn[0].said_hello = false;
	conn[0].disconnected = true;
	assert_true(conn_check_rights(&conn[0], 0));
	conn[0].disconnected = false;
	assert_int_equal(errors, 0);
	assert_int_equal(server.wrong_rights, 0);
	said_begin();
	assert_false(conn_check_rights(&conn[0], 0));
	said_end();
	assert_int_equal(said_lines("192.0.2.7:1: its queue pair has the remote rights 0x4 instead of "
			"0x0"), 1);
	assert_int_equal(errors, 1);
	assert_int_equal(server.wrong_rights, 1);
	conn[0].said_hello = true;
	rights = 0;
	assert_false(conn_check_rights(&conn[0], IBV_ACCESS_REMOTE_READ));
	assert_int_equal(errors, 2);
	assert_int_equal(server.wrong_rights, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_close, begin, end),
		cmocka_unit_test_setup_teardown(test_malformed, begin, end),
		cmocka_unit_test_setup_teardown(test_drop, begin, end),
		cmocka_unit_test_setup_teardown(test_cut, begin, end),
		cmocka_unit_test_setup_teardown(test_told, begin, end),
		cmocka_unit_test_setup_teardown(test_answer, begin, end),
		cmocka_unit_test_setup_teardown(test_rights, begin, end),
	};

	log_open("conn_test", LOG_LEVEL_INFO);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
