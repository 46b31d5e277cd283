/* SPDX-License-Identifier: BSD-2-Clause */
/* client/op/poll.c and request.c: what rdma_cm and the completion channel tell, kvd's silence, by a clock that
 * is set; what is learnt of an answer. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <cmocka.h>

#include "client/op/look.h"
#include "client/op/message.h"
#include "client/op/operation.h"
#include "client/op/operation_impl.h"
#include "client/op/poll.h"
#include "client/op/post.h"
#include "client/op/request.h"
#include "tests/lib/end.h"
#include "tests/unit/client/set_clock.h"

static struct end *end;
static struct engine *e;
static struct verbs verbs;

/* What rdma_cm tells next; none if there are none left. */
static enum rdma_cm_event_type told;
static unsigned cm_events, cm_looks, cm_acks, cq_events, acks, acked;

static int get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	static struct rdma_cm_event now;

	(void)channel;
	cm_looks++;
	errno = EAGAIN;
	if (!cm_events)
		return -1;
	cm_events--;
	now = (struct rdma_cm_event){ .event = told };
	*event = &now;
	return 0;
}

static int ack_cm_event(struct rdma_cm_event *event)
{
	(void)event;
	cm_acks++;
	return 0;
}

static int get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **of, void **with)
{
	(void)channel, (void)of, (void)with;
	if (!cq_events)
		return -1;
	cq_events--;
	return 0;
}

static void ack_cq_events(struct ibv_cq *cq, unsigned n)
{
	assert_ptr_equal(cq, e->cq);
	acks++;
	acked += n;
}

static int set_up(void **state)
{
	(void)state;
	set_clock();
	end = end_new();
	e = end->engine;
	verbs = *e->registrar.verbs;
	verbs.get_cm_event = get_cm_event;
	verbs.ack_cm_event = ack_cm_event;
	verbs.get_cq_event = get_cq_event;
	verbs.ack_cq_events = ack_cq_events;
	e->registrar.verbs = e->health.verbs = &verbs;
	e->comp->fd = eventfd(0, EFD_CLOEXEC);
	e->channel->fd = eventfd(0, EFD_CLOEXEC);
	assert_true(e->comp->fd >= 0 && e->channel->fd >= 0);
	end->client.options.poll = KVD_POLL_EVENT;
	end->client.options.timeout_ms = 5000;
	cm_events = cm_looks = cm_acks = cq_events = acks = acked = 0;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	close(e->comp->fd);
	close(e->channel->fd);
	ops_abort(e);
	end_delete(end);
	return 0;
}

/* ------------------------------------------------------------------------------- rdma_cm */

static void tell(enum rdma_cm_event_type what)
{
	told = what;
	cm_events = 1;
	set_ns += 2 * SET_MS;
}

static void test_peer_ends(void **state)
{
	(void)state;
	tell(RDMA_CM_EVENT_DISCONNECTED);
	assert_int_equal(engine_look(e), KVD_ECONNECT);
	assert_string_equal(e->health.err.text,
			    "here ended the connection (RDMA_CM_EVENT_DISCONNECTED, status 0)");
	assert_false(e->health.device_lost);
	assert_int_equal(cm_acks, 1);
}

static void test_device_goes(void **state)
{
	(void)state;
	tell(RDMA_CM_EVENT_DEVICE_REMOVAL);
	assert_int_equal(engine_look(e), KVD_ECONNECT);
	assert_string_equal(e->health.err.text, "the RDMA device that led to here was taken away");
	assert_true(e->health.device_lost);
	assert_int_equal(cm_acks, 1);
}

static void test_other_news(void **state)
{
	(void)state;
	tell(RDMA_CM_EVENT_ADDR_CHANGE);
	assert_int_equal(engine_look(e), 0);
	assert_true(health_is_good(&e->health));
	assert_false(e->health.device_lost);
	assert_int_equal(cm_acks, 1);
}

/* That is a system call: once a millisecond will do. */
static void test_how_often_it_looks(void **state)
{
	(void)state;
	set_look_ns = 0;
	engine_look(e);
	assert_int_equal(cm_looks, 1);
	set_ns += SET_MS;
	engine_look(e);
	assert_int_equal(cm_looks, 1);
	set_ns += 1;
	engine_look(e);
	assert_int_equal(cm_looks, 2);
}

/* ------------------------------------------------------------------------------- sleeping */

/* Who sleeps is woken by either descriptor. */
static void test_woken_by_rdma_cm(void **state)
{
	char tag;

	(void)state;
	end_change(end, "key", &tag);
	set_look_ns = 0;
	uint64_t begun_ns = e->last_cm_look_ns = set_ns; /* it doesn't look by itself */
	told = RDMA_CM_EVENT_DISCONNECTED;
	cm_events = 1;
	assert_int_equal(eventfd_write(e->channel->fd, 1), 0);
	assert_int_equal(engine_poll(e, set_ns + 900 * SET_MS), KVD_ECONNECT);
	assert_int_equal(set_ns, begun_ns);
	assert_int_equal(acked, 0);
}

static void test_woken_by_a_completion(void **state)
{
	char tag;
	eventfd_t got;

	(void)state;
	end_change(end, "key", &tag);
	cq_events = 1;
	assert_int_equal(eventfd_write(e->comp->fd, 1), 0);
	set_look_ns = 200000;
	assert_int_equal(engine_poll(e, set_ns + SET_MS), 0);
	assert_int_equal(cq_events, 0);
	assert_int_equal(e->events, 1);
	assert_int_equal(eventfd_read(e->comp->fd, &got), 0);
}

/* What comes before it was asked to be woken wakes nobody: it looks once more before it sleeps. */
static void test_came_before(void **state)
{
	char tag;

	(void)state;
	end_change(end, "key", &tag);
	engine_flush(e);
	end_reply(end, (struct wire_reply){ .bucket = ~0ull }, NULL, 0);
	end->delay = 1;
	assert_int_equal(engine_poll(e, set_ns + 900 * SET_MS), 0);
	assert_non_null(e->done);
	assert_in_range(set_ns - SET_BEGIN_NS, 0, SET_MS);
}

/* It sleeps for a second at a time, and not for less than what is left. */
static void test_how_long_it_sleeps(void **state)
{
	char tag;

	(void)state;
	end_change(end, "key", &tag);
	assert_int_equal(engine_poll(e, set_ns + 2000 * SET_MS), 0);
	assert_int_equal(set_waited, 1000);
	assert_int_equal(engine_poll(e, set_ns + SET_MS / 2), 0);
	assert_int_equal(set_waited, 1);
}

/* Events are acknowledged many at a time. */
static void test_acknowledges(void **state)
{
	(void)state;
	cq_events = 63;
	engine_arm(e);
	assert_int_equal(acks, 0);
	assert_int_equal(e->events, 63);
	cq_events = 1;
	engine_arm(e);
	assert_int_equal(acks, 1);
	assert_int_equal(acked, 64);
	assert_int_equal(e->events, 0);
	cq_events = 130;
	engine_arm(e);
	assert_int_equal(acks, 3);
	assert_int_equal(acked, 64 * 3);
	assert_int_equal(e->events, 2);
}

/* -------------------------------------------------------------------------------- silence */

#define PATIENCE_NS (300 * SET_MS)

/* A cluster's primary that does not answer the first of what was asked. */
static void test_silent(void **state)
{
	char tag;

	(void)state;
	e->patience_ns = PATIENCE_NS;
	end_change(end, "key", &tag);
	set_ns += 100 * SET_MS;
	end_change(end, "another", &tag);
	assert_int_equal(engine_poll(e, set_ns + 2000 * SET_MS), KVD_ECONNECT);
	assert_string_equal(e->health.err.text, "here is silent");
	assert_true(e->health.silent);
	assert_int_equal(e->silences, 1);
	assert_in_range(set_ns - SET_BEGIN_NS, PATIENCE_NS, PATIENCE_NS + 3 * SET_MS);
}

static void test_is_not_silent(void **state)
{
	char tag;

	(void)state;
	/* Without patience it is as long as a call takes. */
	end_change(end, "key", &tag);
	assert_int_equal(engine_poll(e, set_ns + 2000 * SET_MS), 0);
	assert_true(set_ns >= SET_BEGIN_NS + 2000 * SET_MS);
	tear_down(NULL);
	set_up(NULL);
	/* A long value takes its time. */
	e->patience_ns = PATIENCE_NS;
	struct op *op = end_change(end, "key", &tag);
	op->value.registered = true;
	assert_int_equal(engine_poll(e, set_ns + 2000 * SET_MS), 0);
	assert_true(health_is_good(&e->health));
	op->value.registered = false;
	/* What READs waits for no answer; what has one neither. */
	op->phase = PHASE_BUSY;
	assert_int_equal(engine_poll(e, set_ns + 1000 * SET_MS), 0);
	op->phase = PHASE_REPLY;
	op->done = true;
	assert_int_equal(engine_poll(e, set_ns + 1000 * SET_MS), 0);
	assert_true(health_is_good(&e->health));
	op->done = false;
	op->phase = PHASE_BUSY;
}

/* -------------------------------------------------------------------------------- answers */

static void test_notice(void **state)
{
	(void)state;
	end->asked.request_id = WIRE_NOTICE_ID;
	end_reply(end, (struct wire_reply){ .status = WIRE_NOTICE_PORT_UP }, NULL, 0);
	assert_int_equal(engine_look(e), 0);
	assert_true(health_is_good(&e->health));
	assert_int_equal(e->health.notice, WIRE_NOTICE_PORT_UP);
	assert_true(e->health.notice_ns);
}

static int post_nothing(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	(void)qp, (void)wr, (void)bad;
	return ENOMEM;
}

static void test_no_receive(void **state)
{
	(void)state;
	e->qp->context->ops.post_recv = post_nothing;
	end->asked.request_id = WIRE_NOTICE_ID;
	end_reply(end, (struct wire_reply){ .status = 99 }, NULL, 0); /* of a later kvd */
	assert_int_equal(engine_look(e), KVD_ECONNECT);
	assert_string_equal(e->health.err.text, "posting a receive failed: Cannot allocate memory");
}

static unsigned answered;

static void see_reply(struct op *op, const uint8_t *payload)
{
	assert_int_equal(op->phase, PHASE_BUSY);
	assert_int_equal(op->out.reply.version, 44);
	assert_int_equal(op->out.payload_bytes, 3);
	assert_memory_equal(payload, "abc", 3);
	answered++;
	op_done(op, KVD_OK);
}

/* What comes with each answer: kvd's clock, the lease, and that it is not silent. */
static void test_answer(void **state)
{
	static const struct op_class class = { .reply = see_reply };
	const struct wire_reply reply = { .version = 44, .clock_ms = 999, .lease_ms = 20 };

	(void)state;
	answered = 0;
	for (unsigned is_told = 0; is_told < 2; is_told++) {
		e->table.clock.known = false;
		e->silences = 3;
		grant_begin(&e->table.grant, is_told ? 5 : 0);
		struct op *op = op_new(e, &class, NULL, 0);
		assert_int_equal(request_start(op, &(struct wire_request){ .op = WIRE_PING }, NULL, 0), 0);
		engine_flush(e);
		end_reply(end, reply, "abc", 3);
		assert_int_equal(engine_await(e, op, NULL), 0);
		op_free(op);
		assert_true(e->table.clock.known);
		assert_int_equal(e->silences, 0);
		assert_int_equal(e->table.grant.lease.until_ns != 0, is_told);
	}
	assert_int_equal(answered, 2);
}

static void test_broken_completion(void **state)
{
	(void)state;
	end->status = IBV_WC_RETRY_EXC_ERR;
	engine_read(e, 9999, (uintptr_t)end->bytes->base, e->look, 8);
	engine_flush(e);
	assert_int_equal(engine_look(e), KVD_ECONNECT);
	assert_string_equal(e->health.err.text, "the connection to here broke: transport retry counter "
						"exceeded (vendor error 0x0)");
	assert_int_equal(e->sq_done, 0);
}

/* One that was answered ends when what was posted of it is complete. */
static void test_ended_before(void **state)
{
	static const struct op_class class = { .advance = op_finish };

	(void)state;
	struct op *op = op_new(e, &class, NULL, 0);
	for (unsigned i = 0; i < 2; i++)
		op_read(op, (uintptr_t)end->bytes->base, 0, e->look, 8, true);
	op_done(op, KVD_CONDITION);
	assert_true(op->ended && !op->done);
	end->delay = 1;
	assert_int_equal(engine_look(e), 0);
	assert_true(op->ended && !op->done);
	assert_int_equal(engine_look(e), 0);
	assert_true(op->done);
	assert_int_equal(op->reads, 0);
	assert_int_equal(op_outcome(op)->result, KVD_CONDITION);
	assert_int_equal(e->sq_done, 2);
	assert_ptr_equal(e->done, op);
	assert_null(op->next);
	ops_forget_done(e);
	op_free(op);
}

/* A look at the lease is told from another READ. */
static void test_looks(void **state)
{
	(void)state;
	grant_begin(&e->table.grant, 5);
	assert_false(look_again(e, 5));
	assert_int_equal(end->reads, 1);
	assert_true(e->table.grant.looking_ns);
	assert_int_equal(engine_look(e), 0);
	assert_int_equal(e->table.grant.looking_ns, 0);
	grant_looks(&e->table.grant, set_ns);
	engine_read(e, 9999, (uintptr_t)end->bytes->base, e->look, 8);
	engine_flush(e);
	assert_int_equal(engine_look(e), 0);
	assert_true(e->table.grant.looking_ns);
}

static int (*post_recv)(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
static unsigned reposts, reposted;

static int post_in_a_chain(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	reposts++;
	for (const struct ibv_recv_wr *at = wr; at; at = at->next, reposted++)
		assert_int_equal(at->num_sge, 1);
	return post_recv(qp, wr, bad);
}

/* Who has read several messages gives back all their receives at once. */
static void test_receives(void **state)
{
	(void)state;
	post_recv = e->qp->context->ops.post_recv;
	e->qp->context->ops.post_recv = post_in_a_chain;
	reposts = reposted = 0;
	for (unsigned n = 1; n <= 5; n += 2) {
		end->asked.request_id = WIRE_NOTICE_ID;
		for (unsigned i = 0; i < n; i++)
			end_reply(end, (struct wire_reply){ .status = 99 }, NULL, 0);
		assert_int_equal(engine_look(e), 0);
	}
	assert_int_equal(reposts, 3);
	assert_int_equal(reposted, 9);
}

/* A pause that is over is noticed at once: by a poll, and by who arms a loop. */
static void test_pause_is_over(void **state)
{
	(void)state;
	for (unsigned arms = 0; arms < 2; arms++) {
		struct op *op = end_change(end, "key", NULL);
		engine_flush(e);
		unsigned sent = end->messages;
		assert_true(message_put_off(op));
		set_ns = op->again_ns - 2 * SET_LOOK_NS;
		set_look_ns = 0;
		engine_arm(e);
		assert_int_equal(end->messages, sent);
		set_ns = op->again_ns;
		if (arms)
			engine_arm(e);
		else
			engine_poll(e, set_ns);
		assert_int_equal(end->messages, sent + 1);
		assert_int_equal(op->phase, PHASE_REPLY);
		op_free(op);
	}
}

#define BUCKET 7u
#define SLOT 3u

static uint64_t find(uint64_t word)
{
	const uint64_t both[2] = { BUCKET, BUCKET };
	uint64_t mask = e->table.unit_mask;

	return mirror_find(e->table.mirror, both, mask, layout_word_fp(word, mask));
}

static void answer(struct op *op, struct wire_reply reply)
{
	end_reply(end, reply, NULL, 0);
	assert_int_equal(engine_await(e, op, NULL), 0);
	op_free(op);
}

/* The mirror has what a change did. */
static void test_learns(void **state)
{
	const uint64_t word = layout_word(9, 1, layout_fp(11, e->table.unit_mask));
	struct wire_reply reply = { .bucket = BUCKET, .flags = SLOT, .word = word, .buckets = 500 };

	(void)state;
	struct op *op = op_new(e, &change_class, "key", 3);
	assert_int_equal(request_start(op, &(struct wire_request){ .op = WIRE_PUT }, NULL, 0), 0);
	assert_int_equal(engine_look(e), 0);
	reply.status = WIRE_CONDITION;
	answer(op, reply);
	assert_int_equal(find(word), 0);
	op = op_new(e, &change_class, "key", 3);
	assert_int_equal(request_start(op, &(struct wire_request){ .op = WIRE_PUT }, NULL, 0), 0);
	assert_int_equal(engine_look(e), 0);
	reply.status = WIRE_OK;
	answer(op, reply);
	assert_int_equal(find(word), word);
	assert_int_equal(*e->table.buckets, 500);
	op = end_change(end, "key", NULL);
	assert_int_equal(engine_look(e), 0);
	answer(op, reply);
	assert_int_equal(find(word), 0);
}

/* And what others did, as far as kvd tells with an answer. */
static void test_news(void **state)
{
	const uint64_t word = layout_word(8, 1, layout_fp(21, e->table.unit_mask)),
		       other = layout_word(7, 1, layout_fp(22, e->table.unit_mask));
	const struct wire_news news[] = { { BUCKET << 8 | 4, word }, { BUCKET << 8 | 5, other } };

	(void)state;
	struct op *op = end_change(end, "key", NULL);
	engine_flush(e);
	end_reply(end, (struct wire_reply){ .bucket = ~0ull }, news, sizeof news - 1);
	assert_int_equal(engine_await(e, op, NULL), 0);
	op_free(op);
	assert_int_equal(find(word), word);
	assert_int_equal(find(other), 0); /* it isn't whole */
	op = end_change(end, "key", NULL);
	engine_flush(e);
	end_reply(end, (struct wire_reply){ .bucket = ~0ull }, news, sizeof news);
	assert_int_equal(engine_await(e, op, NULL), 0);
	op_free(op);
	assert_int_equal(find(other), other);
}

/* --------------------------------------------------------------------------------- requests */

static void test_too_long(void **state)
{
	char value;
	const struct iovec all = { &value, KVD_VALUE_BYTES_MAX + 1 };

	(void)state;
	struct op *op = op_new(e, &change_class, "key", 3);
	assert_int_equal(request_start(op, &(struct wire_request){ .op = WIRE_PUT }, &all, 1),
			 KVD_ETOOBIG);
	assert_string_equal(e->health.err.text,
			    "the value has 1073741825 bytes: the limit is 1073741824");
	assert_int_equal(e->in_flight, 0);
	assert_int_equal(e->counters.changes, 0);
}

/* Submitted ones are posted together. */
static void test_doorbell(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 7; i++)
		assert_int_equal(kvd_submit_put(&end->session, "key", 3, "v", 1, NULL), KVD_OK);
	assert_int_equal(e->counters.doorbells, 0);
	assert_int_equal(end->messages, 0);
	request_tell(e, &(struct wire_request){ .op = WIRE_PING });
	request_submitted(&e->ops[0]);
	assert_int_equal(e->counters.doorbells, 1);
	assert_int_equal(end->messages, 8);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_peer_ends),
		TEST(test_device_goes),
		TEST(test_other_news),
		TEST(test_how_often_it_looks),
		TEST(test_woken_by_rdma_cm),
		TEST(test_woken_by_a_completion),
		TEST(test_came_before),
		TEST(test_how_long_it_sleeps),
		TEST(test_acknowledges),
		TEST(test_silent),
		TEST(test_is_not_silent),
		TEST(test_notice),
		TEST(test_no_receive),
		TEST(test_answer),
		TEST(test_broken_completion),
		TEST(test_ended_before),
		TEST(test_looks),
		TEST(test_receives),
		TEST(test_pause_is_over),
		TEST(test_learns),
		TEST(test_news),
		TEST(test_too_long),
		TEST(test_doorbell),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
