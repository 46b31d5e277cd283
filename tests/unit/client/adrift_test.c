/* SPDX-License-Identifier: BSD-2-Clause */
/* client/again: submitted operations whose connection is lost go on with another one, once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "client/again/ready.h"
#include "client/again/resume.h"
#include "client/get/state.h"
#include "client/op/operation.h"
#include "client/op/operation_impl.h"
#include "client/op/post.h"
#include "client/op/request.h"
#include "client/session/teardown.h"
#include "client/session/wait.h"
#include "tests/lib/end.h"

#define KEY "key"

static struct end *end;
static struct engine *e;
static struct ibv_qp *qp;
static struct ibv_cq *cq;
static struct ibv_comp_channel *comp;
static struct rdma_event_channel *channel;

/* What kvd says of a former change, and what it was asked since the connection was lost. */
static enum wire_status fate, fated, refusal;
static unsigned asked_fate, asked_else;
static uint64_t known_ms; /* of what was sent since then kvd knows all */
static struct hash asked_of; /* the key of the last GET */

static void answer(struct end *to, const struct wire_request *q)
{
	if (q->op == WIRE_FATE) {
		asked_fate++;
		end_reply(to, (struct wire_reply){ .status = (uint8_t)fate, .version = 9,
						   .word = fated, .bucket = ~0ull,
						   .value_bytes = known_ms }, NULL, 0);
		return;
	}
	asked_else++;
	if (q->op == WIRE_GET)
		asked_of = ((struct get *)e->ops[q->request_id % OPS_MAX].own)->hash;
	end_reply(to, (struct wire_reply){ .status = (uint8_t)refusal, .version = 7,
					   .bucket = ~0ull }, NULL, 0);
}

static int set_up(void **state)
{
	(void)state;
	end = end_new();
	e = end->engine;
	e->get = KVD_GET_MESSAGE;
	qp = e->qp;
	cq = e->cq;
	comp = e->comp;
	channel = e->channel;
	fate = WIRE_NOT_FOUND;
	fated = WIRE_OK;
	refusal = WIRE_OK;
	asked_fate = asked_else = 0;
	known_ms = 0;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	end_delete(end);
	return 0;
}

/* The connection is lost with that in flight, which was not answered. */
static void lose(void)
{
	health_fail(&e->health, KVD_ECONNECT, "gone");
	session_drift(&end->session);
	end->answer = answer;
}

static void connect_again(void)
{
	e->qp = qp;
	e->cq = cq;
	e->comp = comp;
	e->channel = channel;
	e->health.connected = true;
	e->health.broken = e->health.moved = false;
}

static void submit(char *tag)
{
	assert_int_equal(kvd_submit_put(&end->session, KEY, strlen(KEY), "value", 5, tag), KVD_OK);
	assert_int_equal(kvd_poll(&end->session, &(struct kvd_completion){ 0 }, 1, 0), 0);
}

static void expect_done(const char *tag, int result, uint64_t version)
{
	struct kvd_completion done;

	assert_int_equal(kvd_poll(&end->session, &done, 1, 1000), 1);
	assert_ptr_equal(done.tag, tag);
	assert_int_equal(done.result, result);
	assert_int_equal(done.version, version);
	assert_int_equal(e->in_flight, 0);
	assert_int_equal(e->adrift, 0);
}

/* It had no effect: it is sent again, with what it had. */
static void test_had_no_effect(void **state)
{
	char tag;

	(void)state;
	submit(&tag);
	lose();
	assert_int_equal(e->in_flight, 1);
	assert_null(e->done);
	connect_again();
	session_resume(&end->session);
	assert_int_equal(asked_fate, 1);
	expect_done(&tag, KVD_OK, 7);
	assert_int_equal(asked_else, 1);
	assert_int_equal(end->asked.value_bytes, 5);
}

/* Without another connection each ends when its own time is over, and not before. */
static void test_each_ends_in_its_time(void **state)
{
	struct kvd_completion done[3];
	uint64_t last_ns = 0, first_ns = UINT64_MAX;
	char tag[2];

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		e->time.limit_ns = (i + 5) * 1000000000ull;
		submit(&tag[i]);
	}
	for (unsigned i = 0; i < e->depth; i++) {
		uint64_t at_ns = e->ops[i].deadline_ns;

		if (e->ops[i].phase == PHASE_FREE)
			continue;
		first_ns = at_ns < first_ns ? at_ns : first_ns;
		last_ns = at_ns > last_ns ? at_ns : last_ns;
	}
	lose();
	ops_end_late(e, first_ns - 1);
	assert_int_equal(e->adrift, 2);
	ops_end_late(e, first_ns);
	assert_int_equal(e->adrift, 1);
	assert_int_equal(kvd_poll(&end->session, done, 3, 0), 1);
	assert_ptr_equal(done[0].tag, &tag[0]);
	assert_int_equal(done[0].result, KVD_EUNKNOWN); /* it may have happened */
	ops_end_late(e, last_ns);
	assert_int_equal(e->adrift, 0);
	assert_int_equal(e->in_flight, 1); /* its completion is not taken */
	assert_int_equal(kvd_poll(&end->session, done, 3, 0), 1);
	assert_ptr_equal(done[0].tag, &tag[1]);
}

/* The new connection is by another device: that has other keys for the value, which kvd pulls. */
static void test_by_another_device(void **state)
{
	static uint8_t value[WIRE_MESSAGE_BYTES_MAX];
	struct ibv_pd here = { .handle = 5 }, there = { .handle = 6 };
	struct wire_segment segment;
	char tag;

	(void)state;
	e->registrar.pd = &here;
	assert_int_equal(kvd_submit_put(&end->session, KEY, strlen(KEY), value, sizeof value, &tag),
			 KVD_OK);
	assert_int_equal(kvd_poll(&end->session, &(struct kvd_completion){ 0 }, 1, 0), 0);
	memcpy(&segment, end->behind + strlen(KEY), sizeof segment);
	assert_int_equal(segment.rkey, 5);
	lose();
	ops_leave_device(e);
	e->registrar.pd = &there;
	connect_again();
	session_resume(&end->session);
	expect_done(&tag, KVD_OK, 7);
	memcpy(&segment, end->behind + strlen(KEY), sizeof segment);
	assert_int_equal(segment.rkey, 6);
	assert_int_equal(segment.bytes, sizeof value);
	assert_true(end->asked.flags & WIRE_PULL);
}

/* kvd pulled it as the connection broke, and got other bytes: it is sent again. */
static void test_was_misread(void **state)
{
	char tag;

	(void)state;
	submit(&tag);
	lose();
	fate = WIRE_OK;
	fated = WIRE_EPULL;
	connect_again();
	session_resume(&end->session);
	expect_done(&tag, KVD_OK, 7);
	assert_int_equal(asked_else, 1);
}

/* It was executed: that is what it ends with. */
static void test_had_an_effect(void **state)
{
	char tag;

	(void)state;
	submit(&tag);
	lose();
	fate = WIRE_OK;
	connect_again();
	session_resume(&end->session);
	expect_done(&tag, KVD_OK, 9);
	assert_int_equal(asked_else, 0);
}

/* Three have the same fate: each of them is asked for, before anybody waits. */
static void expect_of_all(int what, int result, uint64_t version)
{
	struct kvd_completion done[3];
	char tags[3];

	for (unsigned i = 0; i < 3; i++)
		submit(&tags[i]);
	lose();
	fate = what;
	connect_again();
	session_resume(&end->session);
	assert_int_equal(asked_fate, 3);
	assert_int_equal(e->adrift, 0);
	assert_int_equal(kvd_poll(&end->session, done, 3, 0), 3);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(done[i].result, result);
		assert_int_equal(done[i].version, version);
	}
	assert_int_equal(asked_else, 0);
}

static void test_all_that_are_adrift(void **state)
{
	(void)state;
	expect_of_all(WIRE_OK, KVD_OK, 9);
}

static void test_not_known(void **state)
{
	char tag;

	(void)state;
	submit(&tag);
	lose();
	fate = WIRE_EUNSUPPORTED;
	connect_again();
	session_resume(&end->session);
	expect_done(&tag, KVD_EUNKNOWN, 0);
	assert_int_equal(asked_else, 0);
}

/* One that is not known is over: the next one is asked for, too. */
static void test_none_is_known(void **state)
{
	(void)state;
	expect_of_all(WIRE_EUNSUPPORTED, KVD_EUNKNOWN, 0);
}

/* A change of a cluster, of which the next primary does not know all. */
static void lose_in_cluster(char *tag)
{
	e->table.grant.is_needed = true;
	e->reign = 3;
	submit(tag);
	lose();
	fate = WIRE_EUNSUPPORTED;
	connect_again();
}

/* It knows all that was sent since then: the change was not there. */
static void test_sent_since(void **state)
{
	char tag;

	(void)state;
	known_ms = 60000;
	lose_in_cluster(&tag);
	session_resume(&end->session);
	expect_done(&tag, KVD_OK, 7);
	assert_int_equal(asked_else, 1);
}

static void test_sent_before(void **state)
{
	uint64_t begin_ns = clock_read_ns(CLOCK_BOOTTIME);
	char tag;

	(void)state;
	known_ms = 20;
	lose_in_cluster(&tag);
	while (clock_read_ns(CLOCK_BOOTTIME) < begin_ns + 17000000) /* and what clocks may err */
		;
	session_resume(&end->session);
	expect_done(&tag, KVD_EUNKNOWN, 0);
	assert_int_equal(asked_else, 0);
}

/* A GET is asked again, and nobody asks what became of it. */
static void test_get(void **state)
{
	char tag, value[8];

	(void)state;
	assert_int_equal(kvd_submit_get(&end->session, KEY, strlen(KEY), value, sizeof value, &tag),
			 KVD_OK);
	assert_int_equal(kvd_poll(&end->session, &(struct kvd_completion){ 0 }, 1, 0), 0);
	lose();
	refusal = WIRE_NOT_FOUND;
	connect_again();
	session_resume(&end->session);
	expect_done(&tag, KVD_NOT_FOUND, 0);
	assert_int_equal(asked_fate, 0);
	assert_int_equal(asked_else, 1);
}

/* Another start of kvd hashes with another seed: the key's buckets are others. */
static void test_other_seed(void **state)
{
	char tag, value[8];

	(void)state;
	assert_int_equal(kvd_submit_get(&end->session, KEY, strlen(KEY), value, sizeof value, &tag),
			 KVD_OK);
	assert_int_equal(kvd_poll(&end->session, &(struct kvd_completion){ 0 }, 1, 0), 0);
	lose();
	refusal = WIRE_NOT_FOUND;
	connect_again();
	e->table.welcome.hash_seed++;
	session_resume(&end->session);
	expect_done(&tag, KVD_NOT_FOUND, 0);
	const struct hash now = hash_key(e->table.welcome.hash_seed, KEY, strlen(KEY));
	assert_int_equal(asked_else, 1);
	assert_true(asked_of.a == now.a && asked_of.b == now.b);
}

/* Completed ones that nobody took yet stay where they are. */
static void test_completed(void **state)
{
	struct kvd_completion done;
	char first, second;

	(void)state;
	end->answer = answer;
	assert_int_equal(kvd_submit_put(&end->session, KEY, strlen(KEY), "1", 1, &first), KVD_OK);
	assert_int_equal(session_poll(&end->session, UINT64_MAX), 0);
	end->answer = NULL;
	assert_int_equal(kvd_submit_put(&end->session, KEY, strlen(KEY), "2", 1, &second), KVD_OK);
	engine_flush(e);
	lose();
	connect_again();
	session_resume(&end->session);
	assert_int_equal(kvd_poll(&end->session, &done, 1, 1000), 1);
	assert_ptr_equal(done.tag, &first);
	expect_done(&second, KVD_OK, 7);
}

/* Who does not wait gets them back: what was sent may have happened. */
static void test_poll_that_does_not_wait(void **state)
{
	struct kvd_completion done;
	char tag;

	(void)state;
	submit(&tag);
	lose();
	assert_int_equal(kvd_poll(&end->session, &done, 1, 0), 1);
	assert_int_equal(done.result, KVD_EUNKNOWN);
	assert_int_equal(e->adrift, 0);
}

/* Nor is it kept where it is refused as another one serves. */
static void test_refused_without_a_wait(void **state)
{
	struct kvd_completion done;
	char tag;

	(void)state;
	end->answer = answer;
	refusal = WIRE_EELSEWHERE;
	assert_int_equal(kvd_submit_put(&end->session, KEY, strlen(KEY), "value", 5, &tag), KVD_OK);
	assert_int_equal(kvd_poll(&end->session, &done, 1, 0), 1);
	assert_int_equal(done.result, KVD_ECONNECT);
	assert_int_equal(e->adrift, 0);
}

/* Who polls in steps of a millisecond would never have a connection, which takes longer: an attempt has its
 * time, and no more than the poll where that is longer. */
static void test_poll_that_hardly_waits(void **state)
{
	struct kvd_completion done;
	char tag;

	(void)state;
	submit(&tag);
	lose();
	assert_int_equal(kvd_poll(&end->session, &done, 1, 1), 1);
	assert_int_equal(done.result, KVD_EUNKNOWN); /* there is no device */
	assert_in_range(end->session.attempt_ms, 100, 260);
	tear_down(state);
	set_up(state);
	submit(&tag);
	lose();
	assert_int_equal(kvd_poll(&end->session, &done, 1, 900), 1);
	assert_in_range(end->session.attempt_ms, 500, 910);
}

/* Their own time is the limit. */
static void test_time(void **state)
{
	char tag;

	(void)state;
	e->time.limit_ns = 1;
	assert_int_equal(kvd_submit_put(&end->session, KEY, strlen(KEY), "value", 5, &tag), KVD_OK);
	engine_flush(e);
	lose();
	expect_done(&tag, KVD_EUNKNOWN, 0);
}

/* A call that looks for who serves is answered, though the connection is with one who does not. */
static void test_asked_elsewhere(void **state)
{
	const struct outcome *out;
	char tag;

	(void)state;
	submit(&tag);
	lose();
	connect_again();
	e->health.moved = true;
	e->may_drift = true;
	struct op *op = op_new(e, &call_class, NULL, 0);
	assert_int_equal(request_start(op, &(struct wire_request){ .op = WIRE_PING }, NULL, 0), 0);
	alarm(20); /* it would ask for ever */
	assert_int_equal(session_run(&end->session, op, &out), KVD_OK);
	alarm(0);
	assert_int_equal(asked_else, 1);
	assert_true(e->may_drift);
	e->may_drift = e->health.moved = false;
	session_resume(&end->session);
	expect_done(&tag, KVD_OK, 7);
}

/* Who loses its connection while it looks for who serves connects anew: that is no failure of the call. */
static void test_lost_as_it_looks(void **state)
{
	char tag;

	(void)state;
	submit(&tag);
	lose();
	connect_again();
	e->health.moved = true;
	end->status = IBV_WC_RETRY_EXC_ERR;
	assert_int_equal(session_ready(&end->session), KVD_EDEVICE); /* there is none */
	assert_int_equal(e->counters.reconnects, 1);
}

/* One that was done before anybody waited for it is no completion of those that were submitted. */
static void test_done_at_once(void **state)
{
	const struct outcome *out;
	char tag;

	(void)state;
	end->answer = answer;
	assert_int_equal(kvd_submit_put(&end->session, KEY, strlen(KEY), "1", 1, &tag), KVD_OK);
	assert_int_equal(session_poll(&end->session, UINT64_MAX), 0);
	struct op *op = op_new(e, &call_class, NULL, 0);
	op_finish(op);
	assert_int_equal(session_run(&end->session, op, &out), KVD_OK);
	expect_done(&tag, KVD_OK, 7);
	assert_null(e->done);
	op = op_new(e, &call_class, NULL, 0);
	op_finish(op);
	assert_int_equal(session_run(&end->session, op, &out), KVD_OK);
	assert_null(e->done);
	assert_int_equal(e->in_flight, 0);
}

/* The SEND from the caller's memory is complete after the answer that it is to be asked elsewhere. */
static void test_sent_after_its_answer(void **state)
{
	static char value[1024];
	char tag;

	(void)state;
	assert_int_equal(buffers_add(e->registrar.buffers, e->registrar.verbs, (uintptr_t)value,
				     sizeof value), 0);
	end->answer = answer;
	refusal = WIRE_EELSEWHERE;
	assert_int_equal(kvd_submit_put(&end->session, KEY, strlen(KEY), value, sizeof value, &tag),
			 KVD_OK);
	e->may_drift = true;
	assert_int_equal(session_poll(&end->session, clock_ns()), 0);
	assert_int_equal(e->adrift, 1);
	for (uint64_t until = clock_ns() + 10000000000ull; e->sq_done != e->sq_posted;) {
		assert_true(clock_ns() < until);
		assert_int_equal(session_poll(&end->session, clock_ns()), 0);
	}
	e->may_drift = false;
	for (unsigned i = 0; i < e->depth; i++)
		assert_int_equal(e->ops[i].reads, 0);
	session_drift(&end->session);
	refusal = WIRE_OK;
	connect_again();
	session_resume(&end->session);
	expect_done(&tag, KVD_OK, 7);
	for (unsigned i = 0; i < e->depth; i++)
		assert_int_equal(e->ops[i].reads, 0);
	buffers_remove(e->registrar.buffers, e->registrar.verbs, (uintptr_t)value);
}

/* However many other requests are made between two changes, the second has another id: the first one's
 * fate is not its own. */
static void test_ids_of_changes(void **state)
{
	uint32_t first;
	char tag;

	(void)state;
	end->answer = answer;
	assert_int_equal(kvd_submit_put(&end->session, KEY, strlen(KEY), "value", 5, &tag), KVD_OK);
	expect_done(&tag, KVD_OK, 7);
	first = end->asked.request_id;
	for (unsigned bits = 20; bits <= 32; bits++) {
		e->next_request += (uint32_t)((1ull << bits) - 1);
		end->answer = NULL;
		submit(&tag);
		assert_int_not_equal(end->asked.request_id, first);
		end->answer = answer;
		end_reply(end, (struct wire_reply){ .version = 7, .bucket = ~0ull }, NULL, 0);
		expect_done(&tag, KVD_OK, 7);
		e->next_request -= (uint32_t)((1ull << bits) - 1) + 1;
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_had_no_effect),
		TEST(test_each_ends_in_its_time),
		TEST(test_by_another_device),
		TEST(test_was_misread),
		TEST(test_had_an_effect),
		TEST(test_all_that_are_adrift),
		TEST(test_not_known),
		TEST(test_none_is_known),
		TEST(test_sent_since),
		TEST(test_sent_before),
		TEST(test_get),
		TEST(test_other_seed),
		TEST(test_completed),
		TEST(test_poll_that_does_not_wait),
		TEST(test_refused_without_a_wait),
		TEST(test_poll_that_hardly_waits),
		TEST(test_time),
		TEST(test_asked_elsewhere),
		TEST(test_lost_as_it_looks),
		TEST(test_done_at_once),
		TEST(test_sent_after_its_answer),
		TEST(test_ids_of_changes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
