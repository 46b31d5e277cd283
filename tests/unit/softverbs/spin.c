/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * spin.c -- waits for an event that spin before they sleep, and events that are written late.
 *
 * The program is linked with --wrap of what a waiting thread calls: read(), so that a test
 * knows whether it slept; sched_yield() and clock_gettime(), so that it is in the middle of a
 * spin, and says how long it took; and with --wrap=write, so that whoever wakes it is held.
 */
#include <pthread.h>
#include <sched.h>
#include "tests/unit/softverbs/kit.h"
#include "tests/unit/read_chk.h"
#include "common/softverbs/object/channel.h"

int __real_sched_yield(void);
int __wrap_sched_yield(void);
int __real_clock_gettime(clockid_t clock, struct timespec *ts);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ts);
ssize_t __real_read(int fd, void *buf, size_t bytes);
ssize_t __wrap_read(int fd, void *buf, size_t bytes);
ssize_t __real_write(int fd, const void *buf, size_t bytes);
ssize_t __wrap_write(int fd, const void *buf, size_t bytes);

/* ---- waits that are watched ---- */

static _Thread_local bool watched;
/* A watched thread's time stands still, but for what the test lets pass. */
static _Thread_local struct timespec began;
static _Thread_local uint64_t passed_ns;
static unsigned int yields;
static bool slept;
static void (*in_spin)(void), (*before_sleep)(void);

static bool would_sleep(int fd)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };

	return poll(&pfd, 1, 0) == 0;
}

ssize_t __wrap_read(int fd, void *buf, size_t bytes)
{
	if (watched) {
		slept = would_sleep(fd);
		if (slept && before_sleep)
			before_sleep();
	}
	return __real_read(fd, buf, bytes);
}

/* A thread that writes there is held. */
static _Atomic int late_fd = -1;
static _Atomic bool late, let_go, written;

ssize_t __wrap_write(int fd, const void *buf, size_t bytes)
{
	ssize_t n;

	if (fd != late_fd)
		return __real_write(fd, buf, bytes);
	late_fd = -1;
	late = true;
	while (!let_go)
		__real_sched_yield();
	n = __real_write(fd, buf, bytes);
	written = true;
	return n;
}

int __wrap_sched_yield(void)
{
	if (watched) {
		yields++;
		in_spin();
	}
	return __real_sched_yield();
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
	uint64_t ns;

	if (!watched)
		return __real_clock_gettime(clock, ts);
	ns = (uint64_t)began.tv_nsec + passed_ns;
	ts->tv_sec = began.tv_sec + (time_t)(ns / 1000000000u);
	ts->tv_nsec = (long)(ns % 1000000000u);
	return 0;
}

static int watched_wait(struct ibv_comp_channel *chan, struct ibv_cq **cq, void **context)
{
	int ret;

	yields = 0;
	passed_ns = 0;
	CHECK(!clock_gettime(CLOCK_MONOTONIC, &began));
	watched = true;
	ret = sv_get_cq_event(chan, cq, context);
	watched = false;
	return ret;
}

/* ---- a queue pair that talks to itself ---- */

static struct kit one;

static void complete(void)
{
	kit_complete(&one);
}

static void pass_time(void)
{
	passed_ns += 1000000;
}

static void complete_late(void)
{
	complete();
	pass_time();
}

/* One event; true if its thread looked for it itself. */
static bool wait_event(void (*spins)(void), void (*sleeps)(void))
{
	struct ibv_cq *cq;
	void *context;

	in_spin = spins;
	before_sleep = sleeps;
	CHECK(!ibv_req_notify_cq(one.scq, 0));
	CHECK(!watched_wait(one.chan, &cq, &context));
	CHECK(cq == one.scq && context == &one);
	sv_ack_cq_events(cq, 1);
	kit_expect(one.scq, 1, IBV_WC_SUCCESS);
	return yields > 0;
}

static void find_by_looking(int sock)
{
	(void)sock;
	kit_open_spinning(&one, "5000");
	for (int i = 0; i < 100; i++)
		CHECK(wait_event(complete, NULL) && !slept);
	kit_close(&one);
}

static pthread_t late_writer;

static void *run_complete(void *arg)
{
	complete();
	return arg;
}

/* The event is counted, and will be written later. */
static void write_late(void)
{
	if (yields == 1) {
		late_fd = one.chan->fd;
		CHECK(!pthread_create(&late_writer, NULL, run_complete, NULL));
		while (!late)
			__real_sched_yield();
	} else if (yields == 3) {
		let_go = true;
		CHECK(!pthread_join(late_writer, NULL));
	}
}

static void give_up(void)
{
	CHECK(!"slept, with an event that was about to be written");
}

static void await_late_writer(int sock)
{
	(void)sock;
	kit_open_spinning(&one, "5000");
	CHECK(wait_event(write_late, give_up) && yields == 3);
	kit_close(&one);
}

static void back_off(int sock)
{
	int spins = 0, waits = 0;

	(void)sock;
	kit_open_spinning(&one, "500");
	/* At the 1st, 3rd, 7th... wait, and from the 255th on at each 256th. */
	for (int i = 0; i < 800; i++) {
		spins += wait_event(pass_time, complete);
		CHECK(slept);
	}
	CHECK(spins == 10);
	/* Events are frequent again, and are seen to be in the end. */
	while (!wait_event(complete, complete))
		CHECK(++waits < 256);
	CHECK(!slept);
	kit_close(&one);
}

static void pass_some_time(void)
{
	passed_ns += 1000;
}

/* A microsecond is one, and a wait that was in vain halves what a later one is to cost. */
static void last_as_said(int sock)
{
	int waits = 0;

	(void)sock;
	kit_open_spinning(&one, "10");
	CHECK(wait_event(pass_some_time, complete) && yields == 10);
	for (int skips = 1; skips < 7; skips = 2 * skips + 1) {
		for (int i = 0; i < skips; i++)
			CHECK(!wait_event(complete, complete));
		CHECK(wait_event(pass_some_time, complete) && yields == 10);
	}
	for (int i = 0; i < 7; i++)
		CHECK(!wait_event(complete, complete));
	CHECK(wait_event(complete, NULL) && wait_event(pass_some_time, complete));
	while (!wait_event(pass_some_time, complete))
		waits++;
	CHECK(waits == 7);
	kit_close(&one);
}

/* Whoever got the CPU kept it: that the event was there afterwards is no success. */
static void give_way(int sock)
{
	(void)sock;
	kit_open_spinning(&one, "500");
	CHECK(wait_event(complete_late, NULL) && !slept);
	CHECK(!wait_event(complete, complete) && slept);
	kit_close(&one);
}

static void never_spin(int sock)
{
	(void)sock;
	kit_open_spinning(&one, "0");
	for (int i = 0; i < 10; i++)
		CHECK(!wait_event(complete, complete) && slept);
	kit_close(&one);
}

static void never_block(int sock)
{
	struct ibv_cq *cq;
	void *context;

	(void)sock;
	kit_open_spinning(&one, "5000");
	CHECK(!fcntl(one.chan->fd, F_SETFL, O_NONBLOCK));
	CHECK(!ibv_req_notify_cq(one.scq, 0));
	in_spin = complete;
	before_sleep = NULL;
	CHECK(watched_wait(one.chan, &cq, &context) == -1 && errno == EAGAIN);
	CHECK(!yields);
	kit_close(&one);
}

static void refuse_nonsense(int sock)
{
	static const char *const bad[] = { "soon", "", "-1", "5x", "10001" }, *const good[] = { "10000", "9", "0" };
	struct ibv_device **list = sv_get_device_list(NULL);
	int said[2], err = dup(2);
	char text[256], wanted[64];
	ssize_t n;

	(void)sock;
	CHECK(err >= 0 && !pipe2(said, O_NONBLOCK));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		CHECK(!setenv("SOFTVERBS_SPIN_US", bad[i], 1));
		CHECK(dup2(said[1], 2) == 2);
		errno = 0;
		CHECK(!sv_open_device(list[0]) && errno == EINVAL && dup2(err, 2) == 2);
		n = read(said[0], text, sizeof(text) - 1);
		CHECK(n > 0);
		text[n] = '\0';
		snprintf(wanted, sizeof(wanted), "SOFTVERBS_SPIN_US=%s: not a number from 0 to 10000", bad[i]);
		CHECK(strstr(text, wanted));
	}
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		CHECK(!setenv("SOFTVERBS_SPIN_US", good[i], 1));
		CHECK(!sv_chan_env());
	}
	sv_free_device_list(list);
}

static void test_spin(void **state)
{
	(void)state;
	kit_run(find_by_looking, back_off);
	kit_run(give_way, never_spin);
	kit_run(never_block, refuse_nonsense);
	kit_run(await_late_writer, last_as_said);
}

/* ---- an event that is written late, behind one of another queue ---- */

static struct kit writes;

static void *run_send(void *arg)
{
	CHECK(!kit_post(&writes, IBV_WR_SEND, 0, 8, 0, 1, 0));
	return arg;
}

static bool is_event(struct ibv_cq **cq)
{
	void *context;

	if (sv_get_cq_event(one.chan, cq, &context)) {
		CHECK(errno == EAGAIN);
		return false;
	}
	sv_ack_cq_events(*cq, 1);
	return true;
}

/* The reader takes the other queue's for it, and makes up for that; who asked for two events
 * gets two. */
static void tell_once(int sock)
{
	struct ibv_cq *first, *second, *none;
	pthread_t thread;

	(void)sock;
	kit_open_spinning(&one, "0");
	writes = one;
	writes.qp = kit_new_qp(&one);
	kit_to_init(&writes, writes.qp);
	kit_to_rts(&writes, writes.qp, writes.qp->qp_num);
	CHECK(!fcntl(one.chan->fd, F_SETFL, O_NONBLOCK));
	CHECK(!kit_post_recv(&writes, 0, 8, 1));
	CHECK(!ibv_req_notify_cq(one.rcq, 0) && !ibv_req_notify_cq(one.scq, 0));
	late_fd = one.chan->fd;
	CHECK(!pthread_create(&thread, NULL, run_send, NULL));
	while (!late)
		__real_sched_yield();
	complete();
	CHECK(is_event(&first) && is_event(&second) && first != second);
	CHECK(!is_event(&none));
	let_go = true;
	CHECK(!pthread_join(thread, NULL));
	while (!written)
		__real_sched_yield();
	CHECK(!is_event(&none));
	kit_expect(one.scq, 1, IBV_WC_SUCCESS);
	kit_expect(one.rcq, 1, IBV_WC_SUCCESS);
	CHECK(!sv_destroy_qp(writes.qp));
	kit_close(&one);
}

static void test_surplus(void **state)
{
	(void)state;
	kit_run(tell_once, kit_nothing);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_spin),
		cmocka_unit_test(test_surplus),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
