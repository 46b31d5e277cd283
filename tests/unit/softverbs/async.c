/* SPDX-License-Identifier: BSD-2-Clause */
/* async.c -- asynchronous events of a context: in order, each written once, dropped with its object. */
#include "bare_ctx.h"

static _Atomic unsigned int got[3];
static int objs[3];

static void raise_of(int i, enum ibv_event_type type)
{
	sv_async_raise(CONTEXT, type, &objs[i], &got[i]);
}

static void expect(int i, enum ibv_event_type type)
{
	struct ibv_async_event event;

	assert_int_equal(sv_get_async_event(CONTEXT, &event), 0);
	assert_int_equal(event.event_type, type);
	assert_ptr_equal(event.element.cq, &objs[i]);
	assert_int_equal(ctx.users, 1);
}

static void expect_none(void)
{
	struct ibv_async_event event;

	errno = 0;
	assert_int_equal(sv_get_async_event(CONTEXT, &event), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(ctx.users, 1);
}

static int begin(void **state)
{
	for (int i = 0; i < 3; i++)
		got[i] = 0;
	return ctx_begin(state);
}

static void test_order(void **state)
{
	(void)state;
	expect_none();
	for (int round = 0; round < 2; round++) {
		raise_of(0, IBV_EVENT_QP_FATAL);
		raise_of(1, IBV_EVENT_CQ_ERR);
		raise_of(0, IBV_EVENT_SQ_DRAINED);
		assert_int_equal(written(CONTEXT->async_fd), 3);
		expect(0, IBV_EVENT_QP_FATAL);
		expect(1, IBV_EVENT_CQ_ERR);
		raise_of(2, IBV_EVENT_SRQ_ERR);
		expect(0, IBV_EVENT_SQ_DRAINED);
		expect(2, IBV_EVENT_SRQ_ERR);
		expect_none();
	}
	assert_true(got[0] == 4 && got[1] == 2 && got[2] == 2);
}

/* Others' stay, in order, and the next one comes behind them. */
static void test_dropped(void **state)
{
	(void)state;
	for (int gone = 0; gone < 3; gone++) {
		int left[2] = { (gone + 1) % 3, (gone + 2) % 3 };

		raise_of(gone, IBV_EVENT_QP_FATAL);
		raise_of(left[0], IBV_EVENT_CQ_ERR);
		raise_of(gone, IBV_EVENT_QP_REQ_ERR);
		raise_of(left[1], IBV_EVENT_SRQ_ERR);
		raise_of(gone, IBV_EVENT_PATH_MIG);
		sv_async_drop(CONTEXT, &objs[gone]);
		assert_int_equal(written(CONTEXT->async_fd), 2);
		raise_of(left[0], IBV_EVENT_SQ_DRAINED);
		expect(left[0], IBV_EVENT_CQ_ERR);
		expect(left[1], IBV_EVENT_SRQ_ERR);
		expect(left[0], IBV_EVENT_SQ_DRAINED);
		expect_none();
		raise_of(gone, IBV_EVENT_QP_FATAL);
		sv_async_drop(CONTEXT, &objs[gone]);
		expect_none();
	}
	assert_true(got[0] == 3 && got[1] == 3 && got[2] == 3);
}

static void test_passed_over(void **state)
{
	(void)state;
	sv_bell_ring(CONTEXT->async_fd); /* its event was dropped meanwhile */
	raise_of(0, IBV_EVENT_QP_FATAL);
	expect(0, IBV_EVENT_QP_FATAL);
	expect_none();
}

/* ---- acknowledgements ---- */

static const enum ibv_event_type of_device[] = {
	IBV_EVENT_DEVICE_FATAL, IBV_EVENT_PORT_ACTIVE, IBV_EVENT_PORT_ERR, IBV_EVENT_LID_CHANGE, IBV_EVENT_PKEY_CHANGE,
	IBV_EVENT_SM_CHANGE, IBV_EVENT_CLIENT_REREGISTER, IBV_EVENT_GID_CHANGE, IBV_EVENT_WQ_FATAL };
static const enum ibv_event_type of_qp[] = {
	IBV_EVENT_QP_FATAL, IBV_EVENT_QP_REQ_ERR, IBV_EVENT_QP_ACCESS_ERR, IBV_EVENT_COMM_EST, IBV_EVENT_SQ_DRAINED,
	IBV_EVENT_PATH_MIG, IBV_EVENT_PATH_MIG_ERR, IBV_EVENT_QP_LAST_WQE_REACHED };

static struct ibv_cq cq;
static struct ibv_srq srq;
static struct ibv_qp qp;

static void ack(enum ibv_event_type type, void *obj)
{
	struct ibv_async_event event = { .event_type = type };

	event.element.cq = obj;
	sv_ack_async_event(&event);
}

static void test_acks(void **state)
{
	(void)state;
	pthread_mutex_init(&cq.mutex, NULL);
	pthread_mutex_init(&srq.mutex, NULL);
	pthread_mutex_init(&qp.mutex, NULL);
	pthread_cond_init(&cq.cond, NULL);
	pthread_cond_init(&srq.cond, NULL);
	pthread_cond_init(&qp.cond, NULL);
	for (uint32_t i = 0; i < sizeof(of_qp) / sizeof(of_qp[0]); i++) {
		assert_false(sv_async_is_of_device(of_qp[i]));
		ack(of_qp[i], &qp);
		assert_int_equal(qp.events_completed, i + 1);
	}
	ack(IBV_EVENT_CQ_ERR, &cq);
	assert_true(cq.async_events_completed == 1 && !cq.comp_events_completed);
	ack(IBV_EVENT_SRQ_ERR, &srq);
	assert_int_equal(srq.events_completed, 1);
	ack(IBV_EVENT_SRQ_LIMIT_REACHED, &srq);
	assert_int_equal(srq.events_completed, 2);
	assert_false(sv_async_is_of_device(IBV_EVENT_CQ_ERR) || sv_async_is_of_device(IBV_EVENT_SRQ_ERR) ||
		     sv_async_is_of_device(IBV_EVENT_SRQ_LIMIT_REACHED));
}

/* Of the port: there is no object whose end would wait for it. */
static void test_of_device(void **state)
{
	struct ibv_async_event event;

	(void)state;
	for (size_t i = 0; i < sizeof(of_device) / sizeof(of_device[0]); i++) {
		assert_true(sv_async_is_of_device(of_device[i]));
		sv_async_raise_device(CONTEXT, of_device[i]);
		assert_int_equal(sv_get_async_event(CONTEXT, &event), 0);
		assert_true(event.event_type == of_device[i] && event.element.port_num == 1);
		sv_ack_async_event(&event);
	}
	expect_none();
}

/* ---- contexts ---- */

/* The last user closes it, with events that nobody took. */
static void test_last(void **state)
{
	struct sv_ctx *own = calloc(1, sizeof(*own));
	struct ibv_context *context = &own->vctx.context;
	int fd = sv_bell_open();

	(void)state;
	assert_true(own && fd >= 0);
	pthread_mutex_init(&context->mutex, NULL);
	own->tail = &own->head;
	own->users = 1;
	context->async_fd = fd;
	sv_ctx_get(context);
	sv_ctx_get(context);
	assert_int_equal(own->users, 3);
	sv_async_raise(context, IBV_EVENT_QP_FATAL, &qp, NULL);
	sv_async_raise(context, IBV_EVENT_QP_FATAL, &qp, NULL);
	sv_ctx_put(context);
	sv_ctx_put(context);
	assert_true(own->users == 1 && own->head && fcntl(fd, F_GETFD) >= 0);
	sv_ctx_put(context);
	assert_int_equal(fcntl(fd, F_GETFD), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_order, begin, ctx_end),
		cmocka_unit_test_setup_teardown(test_dropped, begin, ctx_end),
		cmocka_unit_test_setup_teardown(test_passed_over, begin, ctx_end),
		cmocka_unit_test_setup_teardown(test_acks, begin, ctx_end),
		cmocka_unit_test_setup_teardown(test_of_device, begin, ctx_end),
		cmocka_unit_test_setup_teardown(test_last, begin, ctx_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
