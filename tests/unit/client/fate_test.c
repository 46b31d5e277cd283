/* SPDX-License-Identifier: BSD-2-Clause */
/* client/again/fate.c and resume.c: kvd is asked what became of a change; what is in flight goes on with it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "client/again/fate.h"
#include "client/again/ready.h"
#include "client/again/resume.h"
#include "client/op/operation.h"
#include "client/op/post.h"
#include "client/session/connect.h"
#include "client/session/teardown.h"
#include "client/session/wait.h"
#include "common/lease.h"
#include "tests/unit/client/dial.h"
#include "tests/unit/client/set_clock.h"

static struct kvd_session *s;
static struct engine *e;

/* What kvd answers, how often it is too busy before, or breaks the connection. */
static struct wire_reply reply;
static unsigned busy, breaks, asked, put;
static struct wire_request last;

static void answer(struct end *end, const struct wire_request *q)
{
	if (q->op != WIRE_FATE) {
		put++;
		end_reply(end, (struct wire_reply){ .version = 7, .bucket = ~0ull }, NULL, 0);
		return;
	}
	asked++;
	last = *q;
	if (breaks) {
		breaks--;
		health_fail(&e->health, KVD_ECONNECT, "it broke");
	} else if (busy) {
		busy--;
		end_reply(end, (struct wire_reply){ .status = WIRE_EBUSY }, NULL, 0);
	} else {
		end_reply(end, reply, NULL, 0);
	}
}

static int set_up(void **state)
{
	(void)state;
	set_clock();
	s = dial_session();
	e = dial.end->engine;
	dial_connect(answer);
	reply = (struct wire_reply){ .status = WIRE_OK, .word = WIRE_OK, .version = 9, .value_bytes = 5 };
	busy = breaks = asked = put = 0;
	dial_forget();
	set_sleeps = 0;
	return 0;
}

static int result;
static struct changed changed;

/* A change of that request, of this start of kvd. */
static struct sent sent_as(uint64_t request)
{
	result = -99;
	changed = (struct changed){ 0 };
	return (struct sent){ { 100, 50, 0x77, request }, set_ns };
}

static int ask_until(uint64_t deadline_ns)
{
	const struct sent sent = sent_as(3);

	return fate_ask_for(s, &sent, deadline_ns, &result, &changed);
}

static int ask(void)
{
	return ask_until(UINT64_MAX);
}

/* ----------------------------------------------------------------------------- the answers */

static void test_what_is_asked(void **state)
{
	const struct sent sent = sent_as(3ull << 32 | 0x12345678);

	(void)state;
	assert_int_equal(fate_ask(s, &sent, UINT64_MAX, &result, &changed), KVD_OK);
	assert_int_equal(last.version, 50);
	assert_int_equal(last.value_bytes, 0x12345678);
	assert_int_equal(last.item_flags, 3);
	assert_int_equal(last.value_checksum, 0x77);
	assert_int_equal(asked, 1);
	assert_int_equal(e->in_flight, 0);
}

static void test_it_had_an_effect(void **state)
{
	(void)state;
	assert_int_equal(ask(), KVD_OK);
	assert_int_equal(result, KVD_OK);
	assert_int_equal(changed.version, 9);
	assert_int_equal(changed.value_bytes, 5);
	assert_int_equal(changed.number, 5);
	reply.word = WIRE_CONDITION;
	assert_int_equal(ask(), KVD_OK);
	assert_int_equal(result, KVD_CONDITION);
	reply.word = WIRE_EMEMORY;
	assert_int_equal(ask(), KVD_OK);
	assert_int_equal(result, KVD_EFULL);
	/* Which key it was is not known any more. */
	assert_non_null(strstr(e->health.err.text, "with more --memory (kvd at "));
	assert_int_equal(asked, 3);
}

static void test_it_had_none(void **state)
{
	(void)state;
	reply.word = WIRE_EPULL;
	assert_int_equal(ask(), KVD_NOT_FOUND);
	reply = (struct wire_reply){ .status = WIRE_NOT_FOUND };
	assert_int_equal(ask(), KVD_NOT_FOUND);
	assert_int_equal(result, -99);
}

static void test_it_is_not_known(void **state)
{
	(void)state;
	reply = (struct wire_reply){ .status = WIRE_EUNSUPPORTED, .value_bytes = 10000 };
	assert_int_equal(ask(), KVD_EUNKNOWN);
	assert_string_equal(e->health.err.text, "kvd does not know any more what became of the change: it "
						"may have happened");
	assert_int_equal(asked, 1);
	/* Of another start of kvd nobody needs to ask that. */
	struct sent sent = sent_as(3);
	sent.receipt.instance = 99;
	assert_int_equal(fate_ask(s, &sent, UINT64_MAX, &result, &changed), KVD_EUNKNOWN);
	assert_string_equal(e->health.err.text,
			    "kvd was started again since: the change may have happened");
	assert_int_equal(asked, 1);
	/* But of a cluster. */
	sent.receipt.request |= 1ull << 32;
	reply.status = WIRE_OK;
	assert_int_equal(fate_ask(s, &sent, UINT64_MAX, &result, &changed), KVD_OK);
	assert_int_equal(last.item_flags, 1);
	assert_int_equal(asked, 2);
}

/* A primary that joined knows what was sent since then: by both clocks. */
static int ask_sent_ago(uint64_t passed_ms, uint64_t known_ms, uint64_t request, bool has_time)
{
	struct sent sent = sent_as(request);

	sent.ns = has_time ? set_ns - passed_ms * SET_MS : 0;
	reply = (struct wire_reply){ .status = WIRE_EUNSUPPORTED, .value_bytes = known_ms };
	return fate_ask(s, &sent, UINT64_MAX, &result, &changed);
}

static void test_sent_since(void **state)
{
	const uint64_t of_cluster = 1ull << 32 | 3, known_ms = 800 * LEASE_RHO;
	/* The longest that is surely shorter than that. */
	const uint64_t last_ms = (known_ms - known_ms / LEASE_RHO) * LEASE_RHO / (LEASE_RHO + 1);

	(void)state;
	set_look_ns = 0;
	assert_int_equal(ask_sent_ago(last_ms, known_ms, of_cluster, true), KVD_NOT_FOUND);
	assert_int_equal(ask_sent_ago(last_ms + 1, known_ms, of_cluster, true), KVD_EUNKNOWN);
	assert_int_equal(ask_sent_ago(0, 1, of_cluster, true), KVD_NOT_FOUND);
	assert_int_equal(ask_sent_ago(0, 0, of_cluster, true), KVD_EUNKNOWN);
	assert_int_equal(ask_sent_ago(last_ms, known_ms, 3, true), KVD_EUNKNOWN);
	assert_int_equal(ask_sent_ago(0, known_ms, of_cluster, false), KVD_EUNKNOWN);
	/* Who says that it knows more than an hour is not believed. */
	assert_int_equal(ask_sent_ago(5, 3599999, of_cluster, true), KVD_NOT_FOUND);
	assert_int_equal(ask_sent_ago(5, 3600000, of_cluster, true), KVD_EUNKNOWN);
	assert_int_equal(ask_sent_ago(5, UINT64_MAX, of_cluster, true), KVD_EUNKNOWN);
}

/* ------------------------------------------------------------------------ asked again */

static void test_busy(void **state)
{
	(void)state;
	busy = 3;
	assert_int_equal(ask(), KVD_OK);
	assert_int_equal(asked, 4);
	assert_int_equal(set_sleeps, 3);
	assert_int_equal(set_slept[0], 1);
}

/* Until its time, or the call's, is over: then it is not known yet, or nobody asks any more. */
static void test_busy_for_too_long(void **state)
{
	(void)state;
	set_look_ns = 0;
	busy = UINT32_MAX;
	assert_int_equal(ask_until(set_ns + 3 * SET_MS), KVD_EBUSY);
	assert_int_equal(asked, 4);
	asked = 0;
	assert_int_equal(ask_until(set_ns), KVD_EBUSY);
	assert_int_equal(asked, 1);
	asked = 0;
	e->time.end_ns = set_ns + 3 * SET_MS;
	assert_int_equal(ask(), KVD_EBUSY);
	assert_int_equal(asked, 4);
	e->time.end_ns = 0;
	const struct sent sent = sent_as(3);
	assert_int_equal(fate_ask(s, &sent, set_ns, &result, &changed), KVD_EUNKNOWN);
}

/* The question may break a connection, but not for ever. */
static void test_breaks(void **state)
{
	(void)state;
	breaks = 10;
	assert_int_equal(ask(), KVD_OK);
	assert_int_equal(asked, 11);
	assert_int_equal(dial.dials, 10);
	asked = 0;
	breaks = UINT32_MAX;
	assert_int_equal(ask(), KVD_ECONNECT);
	assert_int_equal(asked, 11);
	/* Busy in between counts for nothing. */
	asked = 0;
	breaks = 0;
	busy = 30;
	assert_int_equal(ask(), KVD_OK);
	assert_int_equal(asked, 31);
}

static unsigned refers;

static void refer(struct end *end, const struct wire_request *q)
{
	if (q->op == WIRE_FATE && refers) {
		refers--;
		asked++;
		end_reply(end, (struct wire_reply){ .status = WIRE_EELSEWHERE }, NULL, 0);
		return;
	}
	answer(end, q);
}

/* Nor does who refers to another member of a cluster break it. */
static void test_asked_elsewhere(void **state)
{
	(void)state;
	session_disconnect(s);
	dial_as_cluster();
	assert_int_equal(session_attempt(s, 1000), 0);
	dial.answer = refer;
	refers = 30;
	const struct sent sent = sent_as(3ull << 32 | 3);
	assert_int_equal(fate_ask(s, &sent, UINT64_MAX, &result, &changed), KVD_OK);
	assert_int_equal(asked, 31);
}

/* What nobody can cure is told at once. */
static void test_no_connection(void **state)
{
	(void)state;
	health_fail(&e->health, KVD_ECONNECT, "gone");
	session_disconnect(s);
	dial.hello.status = WIRE_EDENIED;
	assert_int_equal(ask(), KVD_EDENIED);
	assert_int_equal(asked, 0);
	assert_int_equal(dial.dials, 1);
	dial.hello.status = WIRE_OK;
}

/* --------------------------------------------------------------------------- the loop around */

static bool again(int with, uint64_t deadline_ns)
{
	const struct sent sent = sent_as(3);

	strcpy(e->health.err.text, "the first reason");
	result = with;
	asked = 0;
	return fate_again(s, &sent, deadline_ns, &result, &changed);
}

static void test_whether_again(void **state)
{
	(void)state;
	set_look_ns = 0;
	assert_false(again(KVD_OK, UINT64_MAX));
	assert_false(again(KVD_ECONNECT, UINT64_MAX));
	assert_false(again(KVD_EBUSY, UINT64_MAX));
	assert_int_equal(asked, 0);
	assert_false(again(KVD_EUNKNOWN, set_ns));
	assert_int_equal(asked, 0);
	assert_false(again(KVD_EUNKNOWN, set_ns + 1));
	assert_int_equal(asked, 1);
	assert_int_equal(result, KVD_OK);
	assert_int_equal(changed.version, 9);
	reply.status = WIRE_NOT_FOUND;
	assert_true(again(KVD_EUNKNOWN, UINT64_MAX));
	reply.status = WIRE_EUNSUPPORTED;
	assert_false(again(KVD_EUNKNOWN, UINT64_MAX));
	assert_int_equal(result, KVD_EUNKNOWN);
	assert_string_equal(e->health.err.text, "the first reason");
	/* Another member serves: this one did nothing. */
	e->health.moved = true;
	assert_true(again(KVD_ECONNECT, set_ns + 1));
	assert_false(again(KVD_ECONNECT, set_ns));
	assert_int_equal(asked, 0);
	assert_false(again(KVD_OK, UINT64_MAX));
	e->health.moved = false;
}

/* --------------------------------------------------------------------- what is in flight */

static char tag;

static void submit(void)
{
	dial.is_deaf = true;
	dial.answer = NULL;
	assert_int_equal(kvd_submit_put(s, "key", 3, "value", 5, &tag), KVD_OK);
	assert_int_equal(kvd_poll(s, &(struct kvd_completion){ 0 }, 1, 0), 0);
	dial.is_deaf = false;
	dial.answer = answer;
}

static void must_end_with(int with, int wait_ms)
{
	struct kvd_completion done;

	assert_int_equal(kvd_poll(s, &done, 1, wait_ms), 1);
	assert_ptr_equal(done.tag, &tag);
	assert_int_equal(done.result, with);
	assert_int_equal(e->in_flight, 0);
	assert_false(e->may_drift);
	assert_int_equal(e->time.end_ns, 0);
}

/* The connection breaks under a poll, which makes another one, asks, and sends the change again. */
static void test_goes_on(void **state)
{
	(void)state;
	submit();
	health_fail(&e->health, KVD_ECONNECT, "gone");
	reply.status = WIRE_NOT_FOUND;
	must_end_with(KVD_OK, 1000);
	assert_int_equal(dial.dials, 1);
	assert_int_equal(asked, 1);
	assert_int_equal(put, 1);
	submit();
	health_fail(&e->health, KVD_ECONNECT, "gone");
	reply.status = WIRE_OK;
	must_end_with(KVD_OK, 1000);
	assert_int_equal(put, 1);
}

/* Nobody knows yet: it stays in flight, and is asked for at the next poll, too. */
static void test_not_known_yet(void **state)
{
	struct kvd_completion done;

	(void)state;
	submit();
	health_fail(&e->health, KVD_ECONNECT, "gone");
	busy = UINT32_MAX;
	assert_int_equal(kvd_poll(s, &done, 1, 10), 0);
	assert_int_equal(e->in_flight, 1);
	assert_int_equal(e->adrift, 1);
	assert_false(e->is_resuming || e->may_drift);
	assert_int_equal(e->time.end_ns, 0);
	busy = 0;
	must_end_with(KVD_OK, 10);
	assert_int_equal(put, 0);
}

/* Not for ever: its own time is over. */
static void test_not_known_in_time(void **state)
{
	(void)state;
	submit();
	health_fail(&e->health, KVD_ECONNECT, "gone");
	busy = UINT32_MAX;
	must_end_with(KVD_EUNKNOWN, 20000);
	assert_in_range(set_ns, SET_BEGIN_NS + 5000 * SET_MS, SET_BEGIN_NS + 5600 * SET_MS);
}

/* Nobody is there for a while: pauses, and what is in flight waits. */
static void test_nobody_is_there(void **state)
{
	struct kvd_completion done;
	uint64_t begun_ns;

	(void)state;
	submit();
	health_fail(&e->health, KVD_ECONNECT, "gone");
	dial.place[0].is_dead = true;
	begun_ns = set_ns;
	assert_int_equal(kvd_poll(s, &done, 1, 1000), 0);
	assert_in_range(set_ns - begun_ns, 1000 * SET_MS, 1300 * SET_MS);
	assert_int_equal(e->adrift, 1);
	assert_in_range(dial.dials, 5, 200);
	dial.place[0].is_dead = false;
	must_end_with(KVD_OK, 1000);
}

/* Where that takes no time, other operations go on meanwhile. */
static void test_sent_again_and_waited_for(void **state)
{
	struct kvd_completion done;

	(void)state;
	submit();
	health_fail(&e->health, KVD_ECONNECT, "gone");
	reply.status = WIRE_NOT_FOUND;
	must_end_with(KVD_OK, 1000);
	submit();
	uint64_t begun_ns = set_ns;
	assert_int_equal(kvd_poll(s, &done, 1, 200), 0); /* nobody answers */
	assert_in_range(set_ns - begun_ns, 200 * SET_MS, 260 * SET_MS);
	assert_int_equal(e->in_flight, 1);
	assert_int_equal(e->adrift, 0);
	end_reply(dial.end, (struct wire_reply){ .version = 7, .bucket = ~0ull }, NULL, 0);
	must_end_with(KVD_OK, 1000);
}

/* Whose connection is broken gets another one with what is submitted next; once its completions are taken. */
static void test_submitted_anew(void **state)
{
	struct kvd_completion done;

	(void)state;
	submit();
	health_fail(&e->health, KVD_ECONNECT, "gone");
	session_poll(s, 0);
	assert_non_null(e->done);
	assert_int_equal(kvd_submit_put(s, "key", 3, "value", 5, &tag), KVD_EBUSY);
	assert_int_equal(dial.dials, 0);
	assert_int_equal(kvd_poll(s, &done, 1, 0), 1);
	assert_int_equal(done.result, KVD_EUNKNOWN);
	submit();
	assert_int_equal(dial.dials, 1);
	assert_int_equal(e->in_flight, 1);
}

/* Who waits for as long as it takes has a completion: the operation's time is over first. */
static void test_waits_for_long(void **state)
{
	struct kvd_completion done;

	(void)state;
	e->time.tick_ns = 4 * SET_MS; /* its beginning is known no better */
	submit();
	uint64_t begun_ns = set_ns;
	assert_int_equal(kvd_poll(s, &done, 1, -1), 1);
	assert_int_equal(done.result, KVD_EUNKNOWN);
	assert_in_range(set_ns - begun_ns, 4900 * SET_MS, 6100 * SET_MS);
}

/* What nobody knows says nothing else. */
static void test_not_known(void **state)
{
	struct kvd_completion done = { .version = 1, .value_bytes = 1, .number = 1 };

	(void)state;
	submit();
	health_fail(&e->health, KVD_ECONNECT, "gone");
	reply = (struct wire_reply){ .status = WIRE_EUNSUPPORTED, .version = 8, .value_bytes = 8 };
	assert_int_equal(session_poll_or_resume(s, 1000 * SET_MS), 0);
	assert_int_equal(kvd_poll(s, &done, 1, 0), 1);
	assert_int_equal(done.result, KVD_EUNKNOWN);
	assert_int_equal(done.version, 0);
	assert_int_equal(done.value_bytes, 0);
	assert_int_equal(done.number, 0);
}

static void refuse_here(struct end *end, const struct wire_request *q)
{
	if (dial.port[dial.dials - 1] == DIAL_PORT)
		end_reply(end, (struct wire_reply){ .status = WIRE_EELSEWHERE, .bucket = ~0ull }, NULL, 0);
	else
		answer(end, q);
}

/* It is refused by a member that is not primary any more: it goes to the one that is. */
static void test_served_elsewhere(void **state)
{
	(void)state;
	session_disconnect(s);
	dial_as_cluster();
	assert_int_equal(session_attempt(s, 1000), 0);
	for (unsigned i = 0; i < DIAL_PLACES; i++) {
		dial.place[i].where = "127.0.0.1:7001\n127.0.0.1:7000\n";
		dial.place[i].epoch = 10;
		dial.place[i].welcome.reign = i == 1 ? 4 : 0;
	}
	dial.answer = refuse_here;
	assert_int_equal(kvd_submit_put(s, "key", 3, "value", 5, &tag), KVD_OK);
	must_end_with(KVD_OK, 1000);
	assert_int_equal(put, 1);
	assert_int_equal(e->reign, 4);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, dial_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_what_is_asked),
		TEST(test_it_had_an_effect),
		TEST(test_it_had_none),
		TEST(test_it_is_not_known),
		TEST(test_sent_since),
		TEST(test_busy),
		TEST(test_busy_for_too_long),
		TEST(test_breaks),
		TEST(test_asked_elsewhere),
		TEST(test_no_connection),
		TEST(test_whether_again),
		TEST(test_goes_on),
		TEST(test_submitted_anew),
		TEST(test_waits_for_long),
		TEST(test_not_known),
		TEST(test_served_elsewhere),
		TEST(test_not_known_yet),
		TEST(test_not_known_in_time),
		TEST(test_nobody_is_there),
		TEST(test_sent_again_and_waited_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
