/* SPDX-License-Identifier: BSD-2-Clause */
/* server/worker/request/hello.c: who is let in with which rights, what they are told, and who is not. */
#include <errno.h>

#include "common/clock.h"
#include "server/access/gate.h"
#include "server/access/rate_limit.h"
#include "server/lock/locker.h"
#include "server/worker/conn.h"
#include "tests/unit/said.h"
#include "tests/unit/server/request_kit.h"

#define HELLO_ID 71u
#define PENDING 5u
#define RIGHTS_READ IBV_ACCESS_REMOTE_READ
#define RIGHTS_LOCK (IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

enum fault { NOTHING, HAS_RIGHTS, NOT_ADMITTED, NO_SEAT, NO_ID, NO_ACCESS, OTHER_RIGHTS, NO_RING };

static enum fault fault;
static struct membership membership;
static struct ibv_qp qp;
static const char *closed;
static unsigned checks, knocks;
static int rights;
static enum locker_role role;
static struct wire_welcome welcome;

bool __wrap_conn_check_rights(struct conn *c, int asked);
void __wrap_conn_close(struct conn *c, const char *reason);
bool __wrap_gate_admit(struct gate *gate, struct handshake *h, const struct wire_request *hello,
		       const uint8_t *name, const uint8_t *proof);
bool __wrap_gate_take_seat(struct gate *gate, struct handshake *h);
unsigned __wrap_gate_seats(const struct gate *gate);
size_t __wrap_gate_welcome(struct gate *gate, const struct handshake *h, const struct wire_request *hello,
			   const uint8_t *proof, struct wire_welcome *w, uint8_t *to);
uint64_t __wrap_gate_secret(const struct gate *gate, const struct user *user, uint64_t secret);
int __wrap_link_qp_set_access(const struct verbs *v, struct ibv_qp *q, int access);
void __wrap_knock_failed(struct knock *knock, const struct addr *peer, uint64_t now_ns);
uint64_t __wrap_locker_born(struct locker *locker, struct locker_note *note, uint64_t number,
			    enum locker_role its_role);
struct fate_ring *__real_fate_ring_new(uint64_t secret, uint32_t credits);
struct fate_ring *__wrap_fate_ring_new(uint64_t secret, uint32_t credits);

/* First that it has none, then that it has just those that it was given. */
bool __wrap_conn_check_rights(struct conn *c, int asked)
{
	assert_ptr_equal(c, &conn);
	assert_int_equal(asked, checks ? rights : 0);
	assert_int_equal(c->said_hello, checks > 0);
	return fault != (checks++ ? OTHER_RIGHTS : HAS_RIGHTS);
}

void __wrap_conn_close(struct conn *c, const char *reason)
{
	assert_ptr_equal(c, &conn);
	closed = reason;
}

bool __wrap_gate_admit(struct gate *gate, struct handshake *h, const struct wire_request *hello,
		       const uint8_t *name, const uint8_t *proof)
{
	(void)gate;
	assert_ptr_equal(h, &conn.handshake);
	assert_int_equal(hello->request_id, HELLO_ID);
	assert_memory_equal(name, "anne", 4);
	assert_memory_equal(proof, "proof", 5);
	return fault != NOT_ADMITTED;
}

bool __wrap_gate_take_seat(struct gate *gate, struct handshake *h)
{
	(void)gate;
	(void)h;
	return fault != NO_SEAT;
}

unsigned __wrap_gate_seats(const struct gate *gate)
{
	(void)gate;
	return 3;
}

size_t __wrap_gate_welcome(struct gate *gate, const struct handshake *h, const struct wire_request *hello,
			   const uint8_t *proof, struct wire_welcome *w, uint8_t *to)
{
	(void)gate;
	(void)h;
	(void)hello;
	(void)proof;
	welcome = *w;
	memcpy(to, "welcome", 7);
	return 7;
}

uint64_t __wrap_gate_secret(const struct gate *gate, const struct user *user, uint64_t secret)
{
	(void)gate;
	assert_ptr_equal(user, &conn.handshake.user);
	return secret + 1;
}

int __wrap_link_qp_set_access(const struct verbs *v, struct ibv_qp *q, int access)
{
	(void)v;
	assert_ptr_equal(q, &qp);
	rights = access;
	return fault == NO_ACCESS ? EINVAL : 0;
}

void __wrap_knock_failed(struct knock *knock, const struct addr *peer, uint64_t now_ns)
{
	(void)knock;
	assert_ptr_equal(peer, &conn.peer);
	assert_true(now_ns > 0);
	knocks++;
}

uint64_t __wrap_locker_born(struct locker *locker, struct locker_note *note, uint64_t number,
			    enum locker_role its_role)
{
	assert_ptr_equal(locker, server.locker);
	assert_ptr_equal(note, conn.lock_note);
	assert_int_equal(number, conn.number);
	role = its_role;
	return fault == NO_ID ? 0 : CONNECTION;
}

struct fate_ring *__wrap_fate_ring_new(uint64_t secret, uint32_t credits)
{
	return fault == NO_RING ? NULL : __real_fate_ring_new(secret, credits);
}

/* ----------------------------------------------------------------------- a hello */

static const struct wire_request ordinary = { .op = WIRE_HELLO, .request_id = HELLO_ID, .key_bytes = 4,
					      .value_bytes = 5, .value_checksum = SECRET, .value_rkey = 6,
					      .value_addr = 0x7000 };

/* What was said in the log. */
static const char *hello_with(const struct wire_request *q)
{
	fate_ring_delete(&conn.sendq.fate);
	conn.state = CONN_NEW;
	conn.said_hello = false;
	conn.qp = &qp;
	conn.denied_ns = conn.connection_id = conn.sendq.connection_id = 0;
	server.pending = PENDING;
	server.connections = server.denied = server.refused = 0;
	closed = NULL;
	checks = knocks = 0;
	rights = 0;
	strcpy(conn.peer.text, "192.0.2.9:5000");
	said_begin();
	assert_int_equal(request(q, "anne", "proof"), REQUEST_DONE);
	return said_end();
}

static void hello(void)
{
	hello_with(&ordinary);
}

static void expect_not_in(enum conn_state state)
{
	assert_false(is_answered);
	assert_int_equal(conn.state, state);
	assert_int_equal(server.connections, 0);
	assert_int_equal(server.pending, PENDING);
}

/* ------------------------------------------------------------------------- tests */

static void test_welcome(void **state)
{
	const struct table *t = fixture.table;

	(void)state;
	server.instance = 4;
	hello();
	assert_null(closed);
	assert_int_equal(conn.state, CONN_READY);
	assert_int_equal(server.connections, 1);
	assert_int_equal(server.pending, PENDING - 1);
	assert_int_equal(reply.status, WIRE_OK);
	assert_int_equal(reply.request_id, HELLO_ID);
	assert_int_equal(payload_bytes, 7);
	assert_memory_equal(payload, "welcome", 7);
	assert_int_equal(conn.held_addr, 0x7000);
	assert_int_equal(conn.held_rkey, 6);
	assert_false(conn.takes_notices);
	assert_int_equal(fate_secret(conn.sendq.fate), SECRET + 1);
	assert_true(fate_kept(conn.sendq.fate) >= CREDITS);
	assert_int_equal(checks, 2);

	assert_int_equal(conn.connection_id, CONNECTION);
	assert_int_equal(conn.sendq.connection_id, CONNECTION);
	assert_int_equal(welcome.connection_id, CONNECTION);
	assert_int_equal(welcome.table_addr, (uintptr_t)t->base);
	assert_int_equal(welcome.table_bytes, t->bytes);
	assert_int_equal(welcome.lock_addr, (uintptr_t)t->locks);
	assert_int_equal(welcome.stripes, t->stripes);
	assert_int_equal(welcome.hash_seed, t->hash_seed);
	assert_int_equal(welcome.instance, 4);
	assert_int_equal(welcome.credits, CREDITS);
	assert_int_equal(welcome.message_bytes_max, WIRE_MESSAGE_BYTES_MAX);
	assert_int_equal(welcome.hints_every, 0);
	assert_int_equal(welcome.hint_shift, 0);
	assert_int_equal(welcome.flags, 0);
	assert_int_equal(welcome.reign, 0);

	struct wire_request q = ordinary;
	q.flags = WIRE_NOTICES;
	hello_with(&q);
	assert_true(conn.takes_notices);
	server.locker = NULL; /* the ids are counted */
	server.last_id = 7;
	hello();
	assert_int_equal(conn.connection_id, 8);
	assert_int_equal(server.last_id, 8);
}

static void test_rights(void **state)
{
	static const struct {
		enum role of;
		bool atomics;
		unsigned rail;
		bool member;
		uint64_t reign;
		int rights;
		enum locker_role role;
	} cases[] = {
		{ ROLE_READ, true, 0, false, 0, RIGHTS_READ, LOCKER_NONE },
		{ ROLE_WRITE, true, 0, false, 0, RIGHTS_LOCK, LOCKER_HOLDS },
		{ ROLE_ADMIN, true, 0, false, 0, RIGHTS_LOCK, LOCKER_HOLDS },
		{ ROLE_NONE, true, 0, false, 0, 0, LOCKER_NONE },
		{ ROLE_ADMIN, false, 0, false, 0, RIGHTS_READ, LOCKER_NONE },
		{ ROLE_WRITE, true, 1, false, 0, RIGHTS_READ, LOCKER_HOLDS },
		{ ROLE_WRITE, true, 0, true, 0, RIGHTS_READ, LOCKER_NONE },
		{ ROLE_WRITE, true, 0, true, 6, RIGHTS_LOCK, LOCKER_HOLDS },
	};

	(void)state;
	for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		conn.handshake.user.role = cases[i].of;
		conn.handshake.rail = cases[i].rail;
		server.rails[0].limits.atomics = cases[i].atomics;
		membership.reign = cases[i].reign;
		server.membership = cases[i].member ? &membership : NULL;
		worker.tx.membership = server.membership;
		conn.sendq.reign = 0;
		hello();
		assert_int_equal(rights, cases[i].rights);
		assert_int_equal(role, cases[i].role);
		assert_int_equal(conn.sendq.reign, cases[i].reign);
		assert_int_equal(welcome.reign, cases[i].reign);
		assert_int_equal(welcome.flags, cases[i].member ? WIRE_WELCOME_LEASE : 0);
	}
	struct wire_request q = ordinary;
	q.value_rkey = 0; /* what it holds can't be READ */
	hello_with(&q);
	assert_int_equal(role, LOCKER_WRITES);
}

/* Told after a while, by the main thread. */
static void expect_denied(enum fault at, enum wire_status denial, unsigned denied, unsigned refused)
{
	uint64_t before = clock_ns();

	fault = at;
	hello();
	expect_not_in(CONN_DENIED);
	assert_null(closed);
	assert_int_equal(conn.denial, denial);
	assert_int_equal(conn.hello_id, HELLO_ID);
	assert_true(conn.denied_ns >= before && conn.denied_ns <= clock_ns());
	assert_int_equal(server.denied, denied);
	assert_int_equal(server.refused, refused);
	assert_int_equal(knocks, denied);
	assert_int_equal(rights, 0);
	conn.hello_id = 0;
}

static void test_denied(void **state)
{
	(void)state;
	expect_denied(NOT_ADMITTED, WIRE_EDENIED, 1, 0);
	assert_int_equal(said_lines("192.0.2.9:5000: a hello that proves nothing (user 'anne')"), 1);
	strcpy(conn.handshake.user.name, "anne");
	expect_denied(NO_SEAT, WIRE_EBUSY, 0, 1);
	assert_int_equal(said_lines("192.0.2.9:5000: user 'anne' has the 3 connections that one may have"), 1);
}

static void expect_closed(enum fault at, const char *reason)
{
	fault = at;
	hello();
	expect_not_in(CONN_NEW);
	assert_non_null(closed);
	assert_string_equal(closed, reason);
}

static void test_closed(void **state)
{
	(void)state;
	expect_closed(HAS_RIGHTS, "its queue pair has remote rights that nobody gave it");
	assert_false(conn.said_hello);
	expect_closed(NO_ID, "the ids of all connections are in use");
	assert_int_equal(rights, 0);
	expect_closed(NO_ACCESS, "its queue pair can't be given remote rights");
	expect_closed(OTHER_RIGHTS, "its queue pair has other remote rights than its user");
	expect_closed(NO_RING, "no memory for it");
}

static int make(void **state)
{
	request_kit_make(state);
	fault = NOTHING;
	server.rails[0].limits.atomics = true;
	server.locker = (struct locker *)&fixture;
	conn.lock_note = (struct locker_note *)&conn;
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, make, request_kit_unmake)
		CASE(test_welcome),
		CASE(test_rights),
		CASE(test_denied),
		CASE(test_closed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
