/* SPDX-License-Identifier: BSD-2-Clause */
/* server/host/conns.h: how a connection arrives, by which worker it is served, and why it is refused. */
#include <stdio.h>

#include "tests/unit/said.h"
#include "tests/unit/server/arrival_kit.h"

/* A worker is told of it, and of nothing else. */
static void expect_adopted(unsigned w, const struct conn *c)
{
	struct command *command = commands_take(&worker[w].commands);

	assert_non_null(command);
	assert_int_equal(command->kind, CMD_ADOPT);
	assert_ptr_equal(command->conn, c);
	assert_null(command->next);
	free(command);
}

/* ------------------------------------------------------------------------- let in */

static void test_accepted(void **state)
{
	struct rdma_cm_id *id = id_of(0, 1);
	uint8_t nonce[WIRE_NONCE_BYTES] = { 0 };

	(void)state;
	now_ns = 5 * S + 7;
	host.conn_last_number = 11;
	assert_string_equal(ask(id, 40, 0), "");
	const struct conn *c = id->context;
	assert_ptr_equal(accepted, id);
	assert_null(rejected);
	assert_null(deleted);
	assert_ptr_equal(server[0].conns, c);
	assert_int_equal(server[0].conn_count, 1);
	assert_int_equal(server[0].pending, 1);
	assert_int_equal(server[0].refused, 0);
	expect_adopted(1, c);
	assert_int_equal(worker[1].conns.load, 1);
	assert_int_equal(worker[1].conns.places, c->depth);

	assert_ptr_equal(c->server, &server[0]);
	assert_ptr_equal(c->commands, &worker[1].commands);
	assert_ptr_equal(c->set, &worker[1].conns);
	assert_ptr_equal(c->id, id);
	assert_ptr_equal(c->qp, &qp);
	assert_int_equal(c->qp_num, QP_NUM);
	assert_string_equal(c->peer.text, "192.0.2.9:5000");
	assert_int_equal(c->listener, 1);
	assert_int_equal(c->number, 12);
	assert_int_equal(c->credits, 40);
	assert_int_equal(c->depth, sendq_depth(40));
	assert_int_equal(c->since_ns, now_ns);
	assert_int_equal(c->state, CONN_NEW);
	assert_non_null(c->lock_note);
	assert_ptr_equal(c->sendq.conn, c);
	assert_ptr_equal(c->sendq.qp, &qp);
	assert_ptr_equal(c->sendq.peer, c->peer.text);
	assert_int_equal(c->sendq.slots, sendq_slots(40));

	memset(nonce, 0x5a, sizeof nonce);
	assert_memory_equal(c->handshake.client_nonce, nonce, sizeof nonce);
	assert_int_equal(c->handshake.client_qpn, 99);
	assert_int_equal(c->handshake.server_qpn, QP_NUM);
	assert_int_equal(c->handshake.depth, 40);
	assert_int_equal(c->handshake.rail, 1);
	assert_int_equal(c->handshake.space, 0);
	assert_false(c->handshake.nowhere);

	memset(nonce, 0, sizeof nonce);
	assert_memory_not_equal(answer.nonce, nonce, sizeof nonce);
	assert_memory_equal(answer.nonce, c->handshake.server_nonce, sizeof nonce);
	assert_int_equal(answer.refusal, WIRE_ACCEPTED);
	assert_int_equal(answer.flags, 0);
	assert_int_equal(answer.magic, WIRE_MAGIC);
	assert_int_equal(answer.version, WIRE_VERSION);
	assert_int_equal(accepted_with.qp_num, QP_NUM);
	assert_int_equal(accepted_with.initiator_depth, 3);
	assert_int_equal(accepted_with.responder_resources, 5);
	assert_int_equal(ready_with.issues, 3);
	assert_int_equal(ready_with.answers, 5);
	assert_ptr_equal(made_with.context, c);
	assert_int_equal(made_with.send_depth, c->depth);
	assert_int_equal(made_with.send_sge, 1);
	assert_int_equal(drops, 0);
}

/* Of the operations at once that both ends are capable of, kvd issues 16 at the most. */
static void test_depths(void **state)
{
	static const uint8_t asked[] = { 1, 15, 16, 17, 200 }, issued[] = { 1, 15, 16, 16, 16 };
	static const uint16_t depths[] = { 0, 1, 128, 129, 130, 65535 };
	static const uint32_t credits[] = { CREDITS_DEFAULT, 1, 128, CREDITS_MAX, CREDITS_MAX, CREDITS_MAX };
	const struct wire_connect c = good(1, 0);

	(void)state;
	server[0].connections_max = 100;
	server[0].rails[0].limits.rd_atom = 20;
	for (unsigned i = 0; i < 5; i++) {
		struct rdma_conn_param param = { .initiator_depth = asked[i], .responder_resources = asked[i] };
		ask_with(id_of(i, 0), &c, sizeof c, &param);
		assert_int_equal(ready_with.issues, issued[i]);
		assert_int_equal(ready_with.answers, asked[i] < 20 ? asked[i] : 20);
		assert_int_equal(accepted_with.initiator_depth, issued[i]);
	}
	for (unsigned i = 0; i < 6; i++) {
		struct rdma_cm_id *id = id_of(5 + i, 0);
		ask(id, depths[i], 0);
		const struct conn *conn = id->context;
		assert_int_equal(conn->credits, credits[i]);
		assert_int_equal(conn->handshake.depth, depths[i]);
		assert_false(conn->sendq.has_inline);
	}
	inline_bytes = REPLY_SHORT_BYTES - 1;
	assert_false(come(12, 0, 0)->sendq.has_inline);
	inline_bytes = REPLY_SHORT_BYTES;
	assert_true(come(13, 0, 0)->sendq.has_inline);
}

/* The worker of the device with the fewest, of those with places enough. */
static void test_worker(void **state)
{
	const uint32_t depth = sendq_depth(32);

	(void)state;
	worker[0].conns.load = worker[2].conns.load = 5;
	assert_ptr_equal(come(0, 0, 0)->set, &worker[0].conns);
	assert_ptr_equal(come(1, 0, 0)->set, &worker[2].conns);
	worker[2].conns.load = 4;
	assert_ptr_equal(come(2, 0, 0)->set, &worker[2].conns);
	worker[2].conns.places = PLACES - depth;
	assert_ptr_equal(come(3, 0, 0)->set, &worker[2].conns);
	assert_int_equal(worker[2].conns.places, PLACES);
	worker[2].conns.load = 1;
	worker[2].conns.places = PLACES - depth + 1;
	assert_ptr_equal(come(4, 0, 0)->set, &worker[0].conns);
	worker[0].conns.places = PLACES - depth + 1;
	ask(id_of(5, 0), 32, 0);
	expect_refused(&ids[5], WIRE_REFUSED_RESOURCES, 0);
	assert_int_equal(said_lines("refused 192.0.2.9:5000: no worker's completion queue has places for 32"), 1);
	assert_int_equal(worker[1].conns.load, 0);
}

static void test_namespaces(void **state)
{
	struct conn *c = come(0, 0, TEAM);

	(void)state;
	assert_ptr_equal(c->server, &server[1]);
	assert_ptr_equal(c->set, &worker[3].conns);
	assert_int_equal(c->handshake.space, TEAM);
	assert_false(c->handshake.nowhere);
	assert_int_equal(server[1].pending, 1);
	assert_int_equal(server[0].pending, 0);
	/* None of that number; with users who asks can't tell. */
	ask(id_of(1, 0), 32, NOWHERE);
	expect_refused(&ids[1], WIRE_REFUSED_SPACE, 0);
	assert_int_equal(said_lines("refused 192.0.2.9:5000: it asks for a namespace that is none"), 1);
	users = true;
	c = come(2, 0, NOWHERE);
	assert_ptr_equal(c->server, &server[0]);
	assert_int_equal(answer.flags, WIRE_ACCEPT_USERS);
	assert_true(c->handshake.nowhere);
	come(3, 0, TEAM);
	assert_int_equal(said_lines("is none"), 0);
}

/* ------------------------------------------------------------------------ refused */

static void test_not_kvds(void **state)
{
	struct wire_connect c = good(32, 0);
	struct rdma_cm_id *id = id_of(0, 0);

	(void)state;
	ask_with(id, NULL, sizeof c, &ordinary);
	expect_refused(id, WIRE_REFUSED_MAGIC, 0);
	assert_int_equal(said_lines("refused 192.0.2.9:5000: it does not speak kvd's protocol"), 1);
	ask_with(id, &c, sizeof c - 1, &ordinary);
	expect_refused(id, WIRE_REFUSED_MAGIC, 0);
	c.magic++;
	ask_with(id, &c, sizeof c, &ordinary);
	expect_refused(id, WIRE_REFUSED_MAGIC, 0);
	c.magic--;
	c.version++;
	ask_with(id, &c, sizeof c, &ordinary);
	expect_refused(id, WIRE_REFUSED_VERSION, 0);
	assert_int_equal(said_lines("refused 192.0.2.9:5000: it speaks another version of the protocol"), 1);
	assert_int_equal(server[0].refused, 4);
	assert_int_equal(server[0].conn_count, 0);
	fault = KNOCKS;
	ask(id, 32, TEAM);
	expect_refused(id, WIRE_REFUSED_RATE, RATE);
	assert_int_equal(server[1].refused, 1);
	assert_int_equal(said_lines("refused 192.0.2.9:5000: too many handshakes from there"), 1);
}

static void expect_no_resources(enum fault at, const char *reason)
{
	struct rdma_cm_id *id = id_of(0, 0);
	char line[128];

	fault = at;
	ask(id, 32, 0);
	fault = NOTHING;
	expect_refused(id, WIRE_REFUSED_RESOURCES, 0);
	assert_null(id->context);
	assert_int_equal(qps, 0);
	assert_null(server[0].conns);
	assert_int_equal(server[0].pending, 0);
	assert_int_equal(worker[0].conns.load, 0);
	assert_int_equal(worker[0].conns.places, 0);
	assert_null(commands_take(&worker[0].commands));
	snprintf(line, sizeof line, "no connection for %s", reason);
	assert_int_equal(said_lines(line), 1);
}

static void test_no_resources(void **state)
{
	struct ibv_context other = { .device = context[0].device };

	(void)state;
	expect_no_resources(NO_CONN, "a peer: out of memory");
	expect_no_resources(NO_NOTE, "a peer: out of memory");
	expect_no_resources(NO_QP, "192.0.2.9:5000: no queue pair");
	expect_no_resources(NO_INIT, "192.0.2.9:5000: no init");
	expect_no_resources(NO_READY, "192.0.2.9:5000: not ready");
	server[0].rails[0].is_lost = true;
	ask(id_of(0, 0), 32, 0);
	expect_refused(&ids[0], WIRE_REFUSED_RESOURCES, 0);
	id_of(1, 1)->verbs = &other;
	ask(&ids[1], 32, 0);
	expect_refused(&ids[1], WIRE_REFUSED_RESOURCES, 0);
	assert_int_equal(server[0].refused, 7);
	server[0].locker = NULL; /* no locks: no note */
	fault = NO_NOTE;
	assert_null(come(2, 1, 0)->lock_note);
}

/* It has a worker already, which ends it. */
static void expect_dropped(enum fault at, const char *reason)
{
	const unsigned before = drops;

	fault = at;
	const struct conn *c = come(0, 0, 0);
	fault = NOTHING;
	assert_ptr_equal(dropped, c);
	assert_string_equal(why, reason);
	assert_int_equal(drops, before + 1);
	assert_null(rejected);
	assert_null(deleted);
}

static void test_dropped(void **state)
{
	(void)state;
	expect_dropped(NO_ACCEPT, "it could not be accepted");
	assert_int_equal(said_lines("accepting 192.0.2.9:5000 failed: Connection reset by peer"), 1);
	expect_dropped(WRONG_RIGHTS, "its queue pair has remote rights that nobody gave it");
	expect_dropped(LOST_MEANWHILE, "its device is of no use any more");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, arrival_make, arrival_unmake)
		CASE(test_accepted),
		CASE(test_depths),
		CASE(test_worker),
		CASE(test_namespaces),
		CASE(test_not_kvds),
		CASE(test_no_resources),
		CASE(test_dropped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
