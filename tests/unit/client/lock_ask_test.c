/* SPDX-License-Identifier: BSD-2-Clause */
/* What kvd is asked of a lock, answered by messages: what the question says, when it is asked again, and what is
 * told of each answer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "client/api/kvd_lock.h"
#include "client/op/operation.h"
#include "tests/unit/client/dial.h"
#include "tests/unit/client/set_clock.h"

#define STRIPE 5
#define TOKEN 77
#define MOVED "this member of a cluster does not serve: nothing was done (kvd at 127.0.0.1:7000)"
#define NO_LEASE "the primary at 127.0.0.1:7000 does not reach its backups: it gives no locks"

static struct kvd_session *s;
static struct engine *e;
static struct wire_reply reply; /* to each question, */
static unsigned busy;           /* but so many are told that it is busy, */
static bool breaks;             /* or the connection ends, */
static bool is_mute;            /* or nothing comes */
static unsigned asked;
static struct wire_request ask; /* the last one */
static uint64_t first_ms;       /* the first one's time */

static void answer(struct end *end, const struct wire_request *q)
{
	first_ms = asked++ ? first_ms : q->ttl_ms;
	ask = *q;
	if (breaks)
		health_fail(&e->health, KVD_ECONNECT, "it broke");
	else if (is_mute)
		return;
	else if (busy && busy--)
		end_reply(end, (struct wire_reply){ .status = WIRE_EBUSY, .bucket = ~0ull }, "", 0);
	else
		end_reply(end, reply, "", 0);
}

static int set_up(void **state)
{
	(void)state;
	set_clock();
	s = dial_session();
	e = dial.end->engine;
	dial_connect(answer);
	busy = 0;
	breaks = is_mute = false;
	asked = 0;
	return 0;
}

/* The next questions get this answer. */
static void say(unsigned status, uint32_t lease_ms, unsigned busy_before)
{
	reply = (struct wire_reply){ .status = status, .bucket = ~0ull, .lease_ms = lease_ms };
	busy = busy_before;
	asked = set_sleeps = 0;
	err_set(&e->health.err, 0, "nothing");
}

#define FAILS(call, code, want) \
	do { \
		assert_int_equal(call, code); \
		assert_string_equal(e->health.err.text, want); \
		assert_int_equal(e->in_flight, 0); \
	} while (0)

static void question_is(unsigned op, uint64_t stripe, uint64_t token, uint64_t ms)
{
	assert_int_equal(ask.op, op);
	assert_int_equal(ask.version, stripe);
	assert_int_equal(ask.token, token);
	assert_int_equal(ask.ttl_ms, ms);
	assert_int_equal(ask.key_bytes, 0);
	assert_int_equal(ask.value_bytes, 0);
}

/* ------------------------------------------------------------------ is it held? */

static void who_holds_it_is_told(void **state)
{
	bool held = false;

	(void)state;
	say(WIRE_OK, 0, 0);
	assert_int_equal(lock_ask(s, STRIPE, TOKEN, &held), KVD_OK);
	assert_true(held);
	question_is(WIRE_LOCK, STRIPE, TOKEN, 0);
	for (unsigned in_cluster = 0; in_cluster < 2; in_cluster++) {
		/* Of a cluster, one with a lease knows. */
		e->table.grant.is_needed = in_cluster;
		say(WIRE_EBUSY, in_cluster, 0);
		held = true;
		assert_int_equal(lock_ask(s, STRIPE, TOKEN, &held), KVD_OK);
		assert_false(held);
		assert_int_equal(asked, 1);
		say(WIRE_EELSEWHERE, 0, 0);
		FAILS(lock_ask(s, STRIPE, TOKEN, &held), KVD_ECONNECT, MOVED);
		assert_int_equal(asked, 1);
	}
	assert_int_equal(set_sleeps, 0);
}

/* One without a lease is asked again, for a second. */
static void who_has_no_lease_is_asked_again(void **state)
{
	bool held = false;
	uint64_t begin_ns;

	(void)state;
	e->table.grant.is_needed = true;
	say(WIRE_OK, 0, 3);
	assert_int_equal(lock_ask(s, STRIPE, TOKEN, &held), KVD_OK);
	assert_true(held);
	assert_int_equal(asked, 4);
	assert_int_equal(set_sleeps, 3);
	assert_int_equal(set_slept[2], 1);
	say(WIRE_EBUSY, 0, 0);
	begin_ns = set_ns;
	FAILS(lock_ask(s, STRIPE, TOKEN, &held), KVD_EBUSY, NO_LEASE);
	assert_in_range((set_ns - begin_ns) / SET_MS, 1000, 1002);
	assert_in_range(asked, 900, 1001);
}

static void a_connection_breaks(void **state)
{
	bool held;

	(void)state;
	say(WIRE_OK, 0, 0);
	breaks = true;
	e->table.grant.is_needed = true;
	assert_true(lock_ask(s, STRIPE, TOKEN, &held) < 0);
	assert_int_equal(asked, 1);
	assert_true(lock_wait(s, STRIPE, TOKEN, 100) < 0);
	assert_true(lock_confirm(s) < 0);
	assert_int_equal(e->in_flight, 0);
}

/* ------------------------------------------------------------------ does it count? */

static void what_a_primary_confirms(void **state)
{
	uint64_t begin_ns;

	(void)state;
	say(WIRE_OK, 0, 0);
	assert_int_equal(lock_confirm(s), KVD_OK);
	question_is(WIRE_RELEASE, UINT64_MAX, 0, 0);
	say(WIRE_EBUSY, 0, 0);
	FAILS(lock_confirm(s), KVD_EBUSY, NO_LEASE);
	assert_int_equal(asked, 1);
	say(WIRE_EELSEWHERE, 0, 0);
	FAILS(lock_confirm(s), KVD_ECONNECT, MOVED);
	e->table.grant.is_needed = true;
	say(WIRE_OK, 0, 2);
	assert_int_equal(lock_confirm(s), KVD_OK);
	assert_int_equal(asked, 3);
	question_is(WIRE_RELEASE, UINT64_MAX, 0, 0);
	say(WIRE_EBUSY, 0, 0);
	begin_ns = set_ns;
	FAILS(lock_confirm(s), KVD_EBUSY, NO_LEASE);
	assert_in_range((set_ns - begin_ns) / SET_MS, 1000, 1002);
}

/* ------------------------------------------------------------------ to wait for it */

static void how_long_it_waits(void **state)
{
	(void)state;
	set_look_ns = 1;
	say(WIRE_OK, 0, 0);
	assert_int_equal(lock_wait(s, STRIPE, TOKEN, 0), KVD_OK);
	question_is(WIRE_LOCK, STRIPE, TOKEN, 1);
	assert_int_equal(lock_wait(s, STRIPE, TOKEN, 700), KVD_OK);
	question_is(WIRE_LOCK, STRIPE, TOKEN, 700);
	assert_int_equal(lock_wait(s, STRIPE, TOKEN, 5000000), KVD_OK);
	question_is(WIRE_LOCK, STRIPE, TOKEN, 5000000);
	/* Asked again, it has less time: three milliseconds are over. */
	e->table.grant.is_needed = true;
	say(WIRE_OK, 0, 3);
	assert_int_equal(lock_wait(s, STRIPE, TOKEN, 700), KVD_OK);
	assert_int_equal(first_ms, 700);
	question_is(WIRE_LOCK, STRIPE, TOKEN, 697);
	assert_int_equal(set_sleeps, 3);
	say(WIRE_EBUSY, 0, 0);
	FAILS(lock_wait(s, STRIPE, TOKEN, 20), KVD_EBUSY, "the lock was not free within 20 ms");
	assert_in_range(asked, 20, 21);
	assert_int_equal(ask.ttl_ms, 1);
}

static void locks_that_are_not_had(void **state)
{
	(void)state;
	say(WIRE_EBUSY, 0, 0);
	FAILS(lock_wait(s, STRIPE, TOKEN, 0), KVD_EBUSY, "somebody else holds the lock");
	FAILS(lock_wait(s, STRIPE, TOKEN, 20), KVD_EBUSY, "the lock was not free within 20 ms");
	assert_int_equal(asked, 2);
	say(WIRE_EELSEWHERE, 0, 0);
	FAILS(lock_wait(s, STRIPE, TOKEN, 0), KVD_ECONNECT, MOVED);
	say(WIRE_EUNSUPPORTED, 0, 0);
	e->table.welcome.lock_rkey = 0;
	FAILS(lock_wait(s, STRIPE, TOKEN, 0), KVD_EDEVICE,
	      "kvd at 127.0.0.1:7000 has no locks: its device has no atomic operations");
	e->table.welcome.lock_rkey = 9;
	FAILS(lock_wait(s, STRIPE, TOKEN, 0), KVD_EPROTOCOL,
	      "kvd at 127.0.0.1:7000 has no locks (its device has no atomics)");
}

/* An answer may take as long as the wait and a session's own time. */
static void nobody_answers(void **state)
{
	uint64_t begin_ns = set_ns;

	(void)state;
	is_mute = true;
	assert_int_equal(lock_wait(s, STRIPE, TOKEN, 20000), KVD_ETIMEDOUT);
	assert_int_equal(asked, 1);
	assert_in_range((set_ns - begin_ns) / SET_MS, 24900, 25100);
	assert_string_equal(e->health.err.text, "127.0.0.1:7000 did not answer within 25000 ms");
}

/* What is asked after such a wait has a session's own time, and says so. */
static void nobody_answers_the_next_one(void **state)
{
	uint64_t begin_ns;

	(void)state;
	say(WIRE_OK, 0, 0);
	assert_int_equal(lock_wait(s, STRIPE, TOKEN, 20000), KVD_OK);
	is_mute = true;
	begin_ns = set_ns;
	assert_int_equal(lock_confirm(s), KVD_ETIMEDOUT);
	assert_in_range((set_ns - begin_ns) / SET_MS, 4900, 5100);
	assert_string_equal(e->health.err.text, "127.0.0.1:7000 did not answer within 5000 ms");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, dial_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(who_holds_it_is_told),
		TEST(who_has_no_lease_is_asked_again),
		TEST(a_connection_breaks),
		TEST(what_a_primary_confirms),
		TEST(how_long_it_waits),
		TEST(locks_that_are_not_had),
		TEST(nobody_answers),
		TEST(nobody_answers_the_next_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
