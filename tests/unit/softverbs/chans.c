/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * chans.c -- completion channels and their queues' events: how they are found and left, and what is
 * counted when an event was written late, twice, or not at all.
 */
#include "bare_ctx.h"
#include "common/softverbs/object/channel.h"
#include "common/softverbs/object/cq.h"

static struct ibv_comp_channel *new_channel(void)
{
	struct ibv_comp_channel *chan = sv_create_comp_channel(CONTEXT);

	assert_non_null(chan);
	assert_ptr_equal(chan->context, CONTEXT);
	assert_int_equal(fcntl(chan->fd, F_SETFL, O_NONBLOCK), 0);
	return chan;
}

static struct ibv_cq *new_cq(struct ibv_comp_channel *chan, void *context)
{
	struct ibv_cq *cq = sv_create_cq(CONTEXT, 16, context, chan, 0);

	assert_non_null(cq);
	return cq;
}

static struct sv_rw_cq *rw_of(struct ibv_cq *cq)
{
	return &bare_rw.cq[sv_cq_of(cq)->index];
}

/* An event of the queue is counted; written, and counted for who looks. */
static void count(struct ibv_comp_channel *chan, struct ibv_cq *cq, bool writes, bool rings)
{
	rw_of(cq)->pending++;
	if (writes)
		sv_bell_ring(chan->fd);
	if (rings)
		rw_of(cq)->rung++;
}

static void expect_event(struct ibv_comp_channel *chan, struct ibv_cq *wanted)
{
	struct ibv_cq *cq = NULL;
	void *context = NULL;

	assert_int_equal(sv_get_cq_event(chan, &cq, &context), 0);
	assert_ptr_equal(cq, wanted);
	assert_ptr_equal(context, wanted->cq_context);
	sv_ack_cq_events(cq, 1);
}

static void expect_none(struct ibv_comp_channel *chan)
{
	struct ibv_cq *cq;
	void *context;

	errno = 0;
	assert_int_equal(sv_get_cq_event(chan, &cq, &context), -1);
	assert_int_equal(errno, EAGAIN);
}

/* ---- channels ---- */

static void expect_dup(uint32_t id, struct ibv_comp_channel *chan)
{
	int fd = sv_chan_dup(id);

	if (!chan) {
		assert_int_equal(fd, -1);
		return;
	}
	assert_true(fd > 2 && fd != chan->fd && fcntl(fd, F_GETFD) & FD_CLOEXEC);
	sv_bell_ring(fd);
	assert_int_equal(written(chan->fd), 1);
	sv_bell_drop(chan->fd);
	sv_fd_close(fd);
}

static void test_found(void **state)
{
	static const int orders[][3] = { { 0, 1, 2 }, { 2, 1, 0 }, { 1, 0, 2 }, { 1, 2, 0 } };

	(void)state;
	for (size_t o = 0; o < sizeof(orders) / sizeof(orders[0]); o++) {
		struct ibv_comp_channel *chans[3];
		uint32_t first = bare_proc.next_chan;

		for (int i = 0; i < 3; i++)
			chans[i] = new_channel();
		assert_int_equal(ctx.users, 4);
		for (int gone = 0; gone < 3; gone++) {
			expect_dup(0, NULL);
			for (uint32_t i = 0; i < 4; i++)
				expect_dup(first + i, i < 3 ? chans[i] : NULL);
			assert_int_equal(sv_destroy_comp_channel(chans[orders[o][gone]]), 0);
			chans[orders[o][gone]] = NULL;
		}
		expect_dup(first, NULL);
	}
}

/* A copy for a peer's messages is the device's: a forked child loses it. */
static void test_copy(void **state)
{
	struct ibv_comp_channel *chan = new_channel();
	int fd = sv_chan_dup(1), status;
	pid_t pid;

	(void)state;
	assert_true(fd > 2);
	pid = fork();
	if (!pid) {
		sv_fd_close_all();
		_exit(fcntl(fd, F_GETFD) != -1 || fcntl(chan->fd, F_GETFD) != -1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	sv_fd_close(fd);
	assert_int_equal(sv_destroy_comp_channel(chan), 0);
}

static void test_busy(void **state)
{
	struct ibv_comp_channel *chan = new_channel();
	struct ibv_cq *cqs[2] = { new_cq(chan, NULL), new_cq(chan, NULL) };

	(void)state;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(bare_ro.cq[sv_cq_of(cqs[i])->index].channel, 1);
		assert_int_equal(sv_destroy_comp_channel(chan), EBUSY);
		assert_int_equal(sv_destroy_cq(cqs[i]), 0);
	}
	assert_int_equal(sv_destroy_comp_channel(chan), 0);
}

/* ---- events ---- */

/* Each as often as it was asked for, and each queue in its turn. */
static void test_turns(void **state)
{
	struct ibv_comp_channel *chan = new_channel();
	int one, two;
	struct ibv_cq *a = new_cq(chan, &one), *b = new_cq(chan, &two);

	(void)state;
	expect_none(chan);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(sv_req_notify_cq(a, 0), 0);
		sv_cq_notify(sv_cq_of(a), false);
	}
	assert_int_equal(sv_req_notify_cq(b, 0), 0);
	sv_cq_notify(sv_cq_of(b), false);
	sv_cq_notify(sv_cq_of(b), true); /* it is armed once */
	assert_true(written(chan->fd) == 4 && rw_of(a)->rung == 3 && rw_of(b)->rung == 1);
	expect_event(chan, b);
	expect_event(chan, a);
	assert_true(sv_cq_of(a)->events.rung_seen == 1 && sv_cq_of(b)->events.rung_seen == 1);
	count(chan, b, true, true);
	expect_event(chan, b);
	expect_event(chan, a);
	expect_event(chan, a);
	expect_none(chan);
	assert_true(sv_cq_of(a)->events.rung_seen == 3 && sv_cq_of(b)->events.rung_seen == 2);
	assert_int_equal(sv_destroy_cq(a), 0);
	assert_int_equal(sv_destroy_cq(b), 0);
	assert_int_equal(sv_destroy_comp_channel(chan), 0);
}

/* What is armed for solicited ones only isn't told of others; what is armed for any stays so. */
static void test_arming(void **state)
{
	struct ibv_comp_channel *chan = new_channel();
	struct ibv_cq *cq = new_cq(chan, NULL);

	(void)state;
	sv_cq_notify(sv_cq_of(cq), true);
	expect_none(chan);
	assert_int_equal(sv_req_notify_cq(cq, 1), 0);
	sv_cq_notify(sv_cq_of(cq), false);
	expect_none(chan);
	sv_cq_notify(sv_cq_of(cq), true);
	expect_event(chan, cq);
	for (int order = 0; order < 2; order++) {
		assert_int_equal(sv_req_notify_cq(cq, order), 0);
		assert_int_equal(sv_req_notify_cq(cq, !order), 0);
		sv_cq_notify(sv_cq_of(cq), false);
		expect_event(chan, cq);
		sv_cq_notify(sv_cq_of(cq), true);
		expect_none(chan);
	}
	assert_int_equal(sv_destroy_cq(cq), 0);
	assert_int_equal(sv_destroy_comp_channel(chan), 0);
}

/* Whoever is about to write an event is not waited for; a later arming is not taken back. */
static void test_taken(void **state)
{
	struct ibv_cq *cq = new_cq(NULL, NULL);
	struct sv_rw_cq *rw = rw_of(cq);
	uint32_t taken, later;

	(void)state;
	assert_false(sv_armed_take(rw, rw->armed, true, &taken));
	assert_int_equal(sv_req_notify_cq(cq, 0), 0);
	assert_true(sv_armed_take(rw, rw->armed, false, &taken));
	assert_int_equal(rw->armed & SV_ARMED_MASK, SV_ARMED_TAKEN);
	assert_true(sv_armed_take(rw, rw->armed, false, &later)); /* the other may have been stopped */
	assert_true(later == taken && rw->pending == 2);
	sv_armed_done(rw, taken);
	assert_int_equal(rw->armed & SV_ARMED_MASK, SV_ARMED_NOT);
	assert_int_equal(sv_req_notify_cq(cq, 0), 0);
	assert_true(sv_armed_take(rw, taken, false, &later)); /* which was seen too early */
	assert_int_not_equal(later, taken);
	assert_int_equal(sv_req_notify_cq(cq, 0), 0);
	sv_armed_done(rw, later);
	assert_int_equal(rw->armed & SV_ARMED_MASK, SV_ARMED_ANY);
	rw->pending = 0;
	assert_int_equal(sv_destroy_cq(cq), 0);
}

/* ---- writers that are late, or dead ---- */

/* One that has counted its event and didn't write it: others' events make up for it. */
static void test_not_written(void **state)
{
	struct ibv_comp_channel *chan = new_channel();
	struct ibv_cq *a = new_cq(chan, NULL), *b = new_cq(chan, NULL);

	(void)state;
	count(chan, a, false, false);
	expect_none(chan);
	count(chan, b, true, true);
	expect_event(chan, b);
	assert_int_equal(written(chan->fd), 1);
	expect_event(chan, a);
	assert_int_equal(written(chan->fd), 0);
	assert_true(sv_cq_of(a)->events.rung_seen == 0 && sv_cq_of(b)->events.rung_seen == 1);
	count(chan, a, true, false);
	count(chan, b, true, true);
	expect_event(chan, b);
	assert_int_equal(written(chan->fd), 1); /* it was written after all */
	expect_event(chan, a);
	expect_none(chan);
	assert_int_equal(sv_destroy_cq(a), 0);
	assert_int_equal(sv_destroy_cq(b), 0);
	assert_int_equal(sv_destroy_comp_channel(chan), 0);
}

/* Of what was rung no more is seen than was rung, and with the last event all of it. */
static void test_rung(void **state)
{
	struct ibv_comp_channel *chan = new_channel();
	struct ibv_cq *cq = new_cq(chan, NULL);
	const uint32_t *seen = &sv_cq_of(cq)->events.rung_seen;

	(void)state;
	for (int i = 0; i < 3; i++)
		count(chan, cq, true, i == 2);
	expect_event(chan, cq);
	assert_int_equal(*seen, 1);
	expect_event(chan, cq);
	assert_int_equal(*seen, 1);
	rw_of(cq)->rung += 4;
	expect_event(chan, cq);
	assert_int_equal(*seen, 5);
	sv_bell_ring(chan->fd); /* twice, once too often */
	rw_of(cq)->rung++;
	expect_none(chan);
	assert_int_equal(*seen, 6);
	assert_int_equal(sv_destroy_cq(cq), 0);
	assert_int_equal(sv_destroy_comp_channel(chan), 0);
}

/* With a queue go its events, and no other's; what is new in its place has none. */
static void test_left(void **state)
{
	static const int orders[][3] = { { 0, 1, 2 }, { 2, 1, 0 }, { 1, 0, 2 } };

	(void)state;
	for (size_t o = 0; o < sizeof(orders) / sizeof(orders[0]); o++) {
		struct ibv_comp_channel *chan = new_channel();
		struct ibv_cq *cqs[3];
		struct sv_rw_cq *rw[3];

		for (int i = 0; i < 3; i++) {
			cqs[i] = new_cq(chan, NULL);
			rw[i] = rw_of(cqs[i]);
			assert_true(!rw[i]->pending && !rw[i]->rung && !rw[i]->armed);
			for (int n = 0; n <= i; n++)
				count(chan, cqs[i], true, true);
			rw[i]->armed = SV_ARMED_ANY;
			sv_set_add(&rw[i]->ready, 70);
		}
		for (int gone = 0, left = 6; gone < 3; gone++) {
			int i = orders[o][gone];

			assert_int_equal(sv_destroy_cq(cqs[i]), 0);
			left -= i + 1;
			assert_int_equal(written(chan->fd), left);
			assert_true(!rw[i]->pending && !rw[i]->rung && !rw[i]->armed);
			assert_true(!rw[i]->ready.top && !rw[i]->ready.word[1]);
		}
		assert_int_equal(sv_destroy_comp_channel(chan), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_found, ctx_begin, ctx_end),
		cmocka_unit_test_setup_teardown(test_copy, ctx_begin, ctx_end),
		cmocka_unit_test_setup_teardown(test_busy, ctx_begin, ctx_end),
		cmocka_unit_test_setup_teardown(test_turns, ctx_begin, ctx_end),
		cmocka_unit_test_setup_teardown(test_arming, ctx_begin, ctx_end),
		cmocka_unit_test_setup_teardown(test_taken, ctx_begin, ctx_end),
		cmocka_unit_test_setup_teardown(test_not_written, ctx_begin, ctx_end),
		cmocka_unit_test_setup_teardown(test_rung, ctx_begin, ctx_end),
		cmocka_unit_test_setup_teardown(test_left, ctx_begin, ctx_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
