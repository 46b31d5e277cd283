/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * locks.c -- locks of contexts, completion queues and receive queues: while somebody holds one, the others
 * wait; and an object lasts until its events are acknowledged.
 *
 * Who holds a lock lets go of it when the one that waits gives its time away; who waits for an
 * acknowledgement gets it then.  Mutexes are such as tell who takes one twice or gives away none.
 */
#include "bare_ctx.h"
#include "hold.h"
#include "common/softverbs/object/cq.h"
#include "common/softverbs/object/rq.h"

static int signals;
static void (*acknowledge)(void);

int __real_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attr);
int __wrap_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attr);
int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex);
int __real_pthread_cond_signal(pthread_cond_t *cond);
int __wrap_pthread_cond_signal(pthread_cond_t *cond);

int __wrap_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attr)
{
	pthread_mutexattr_t own;
	int ret;

	(void)attr;
	pthread_mutexattr_init(&own);
	pthread_mutexattr_settype(&own, PTHREAD_MUTEX_ERRORCHECK);
	ret = __real_pthread_mutex_init(mutex, &own);
	pthread_mutexattr_destroy(&own);
	return ret;
}

/* Not before it waits. */
int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
	(void)cond;
	waits++;
	assert_non_null(acknowledge);
	pthread_mutex_unlock(mutex);
	acknowledge();
	pthread_mutex_lock(mutex);
	return 0;
}

int __wrap_pthread_cond_signal(pthread_cond_t *cond)
{
	signals++;
	return __real_pthread_cond_signal(cond);
}

static struct ibv_cq *new_cq(void)
{
	struct ibv_cq *cq = sv_create_cq(CONTEXT, 16, NULL, NULL, 0);

	assert_non_null(cq);
	return cq;
}

static struct ibv_srq *new_srq(void)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_srq *srq = sv_create_srq(&pd.ib, &init);

	assert_non_null(srq);
	return srq;
}

/* ---- locks ---- */

static void test_context(void **state)
{
	struct ibv_async_event event;
	int obj;

	(void)state;
	hold(&ctx.lock);
	sv_async_raise(CONTEXT, IBV_EVENT_QP_FATAL, &obj, NULL);
	check_waited();
	hold(&ctx.lock);
	assert_int_equal(sv_get_async_event(CONTEXT, &event), 0);
	check_waited();
	hold(&ctx.lock);
	sv_async_drop(CONTEXT, &obj);
	check_waited();
}

static void test_completions(void **state)
{
	struct ibv_cq *cq = new_cq();

	(void)state;
	hold(&sv_cq_of(cq)->lock);
	assert_int_equal(sv_resize_cq(cq, 32), 0);
	check_waited();
	hold(&sv_cq_of(cq)->lock);
	sv_cq_clean(sv_cq_of(cq), NULL);
	check_waited();
	assert_int_equal(sv_destroy_cq(cq), 0);
}

static void test_receives(void **state)
{
	struct ibv_srq *srq = new_srq();
	struct sv_rq *rq = &sv_srq_of(srq)->rq;
	struct ibv_srq_attr attr = { .max_wr = 8 };
	struct ibv_recv_wr wr = { .wr_id = 1 }, *bad;
	struct sv_rwqe out;

	(void)state;
	hold(&rq->lock);
	assert_int_equal(sv_post_srq_recv(srq, &wr, &bad), 0);
	check_waited();
	hold(&rq->lock);
	assert_true(sv_rq_pop(rq, &out));
	check_waited();
	hold(&rq->lock);
	sv_rq_give_credits(rq, 1);
	check_waited();
	hold(&rq->lock);
	sv_rq_clear(rq);
	check_waited();
	hold(&rq->lock);
	assert_int_equal(sv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR), 0);
	check_waited();
	hold(&rq->lock);
	assert_int_equal(sv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), 0);
	check_waited();
	hold(&rq->lock);
	assert_int_equal(sv_query_srq(srq, &attr), 0);
	check_waited();
	assert_int_equal(sv_destroy_srq(srq), 0);
}

/* ---- acknowledgements ---- */

static struct ibv_async_event async_event;
static struct ibv_cq *ends;

static void ack_async(void)
{
	sv_ack_async_event(&async_event);
}

static void ack_one(void)
{
	sv_ack_cq_events(ends, 1);
}

static void begin_wait(void (*by)(void))
{
	acknowledge = by;
	waits = signals = 0;
}

static void test_queue_ends(void **state)
{
	struct ibv_comp_channel *chan = sv_create_comp_channel(CONTEXT);
	void *context;

	(void)state;
	assert_non_null(chan);
	ends = sv_create_cq(CONTEXT, 16, NULL, chan, 0);
	assert_non_null(ends);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(sv_req_notify_cq(ends, 0), 0);
		sv_cq_notify(sv_cq_of(ends), false);
		assert_int_equal(sv_get_cq_event(chan, &ends, &context), 0);
	}
	sv_ack_cq_events(ends, 2);
	begin_wait(ack_one);
	assert_int_equal(sv_destroy_cq(ends), 0);
	assert_true(waits == 1 && signals == 1);
	assert_int_equal(sv_destroy_comp_channel(chan), 0);
}

/* What was taken is waited for, what wasn't is gone. */
static void test_queue_ends_with_error(void **state)
{
	struct ibv_cq *cq = new_cq();

	(void)state;
	sv_cq_overrun_locked(sv_cq_of(cq));
	sv_cq_overrun_locked(sv_cq_of(cq)); /* told once */
	assert_int_equal(sv_get_async_event(CONTEXT, &async_event), 0);
	assert_true(async_event.event_type == IBV_EVENT_CQ_ERR && async_event.element.cq == cq);
	assert_int_equal(written(CONTEXT->async_fd), 0);
	begin_wait(ack_async);
	assert_int_equal(sv_destroy_cq(cq), 0);
	assert_true(waits == 1 && signals == 1);
	cq = new_cq();
	sv_cq_overrun_locked(sv_cq_of(cq));
	begin_wait(NULL);
	assert_int_equal(sv_destroy_cq(cq), 0);
	assert_int_equal(written(CONTEXT->async_fd), 0);
}

static void test_receive_queue_ends(void **state)
{
	struct ibv_srq *srq = new_srq();
	struct ibv_srq_attr attr = { .srq_limit = 1 };

	(void)state;
	assert_int_equal(sv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), 0);
	assert_int_equal(sv_get_async_event(CONTEXT, &async_event), 0);
	assert_ptr_equal(async_event.element.srq, srq);
	begin_wait(ack_async);
	assert_int_equal(sv_destroy_srq(srq), 0);
	assert_true(waits == 1 && signals == 1);
}

#define ON_CONTEXT(test) cmocka_unit_test_setup_teardown(test, ctx_begin, ctx_end)

int main(void)
{
	const struct CMUnitTest tests[] = { ON_CONTEXT(test_context), ON_CONTEXT(test_completions),
					    ON_CONTEXT(test_receives), ON_CONTEXT(test_queue_ends),
					    ON_CONTEXT(test_queue_ends_with_error),
					    ON_CONTEXT(test_receive_queue_ends) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
