/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * channel.c -- channels: waits that spin before they sleep, and what is
 * destroyed under its reader.
 *
 * The program is linked with --wrap of what a waiting thread calls: read(), so that it
 * can be stopped between the descriptor, which told it of an event, and the list, which
 * has it no more; write(), the same for whoever wakes it; sched_yield() and
 * clock_gettime(), so that a test is in the middle of a spin, and says how long it took.
 */
#include <arpa/inet.h>
#include <pthread.h>
#include <sched.h>
#include "tests/unit/softverbs/kit.h"

int __real_sched_yield(void);
int __wrap_sched_yield(void);
int __real_clock_gettime(clockid_t clock, struct timespec *ts);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ts);
ssize_t __real_read(int fd, void *buf, size_t bytes);
ssize_t __wrap_read(int fd, void *buf, size_t bytes);
ssize_t __real_write(int fd, const void *buf, size_t bytes);
ssize_t __wrap_write(int fd, const void *buf, size_t bytes);

/* ---- readers that are held ---- */

static _Atomic int held_fd = -1; /* who reads it is held */
static _Atomic bool held, released;

static void hold(void)
{
	held_fd = -1;
	held = true;
	while (!released)
		__real_sched_yield();
}

/* Until the reader of the descriptor is held. */
static void wait_held(void)
{
	uint64_t until = kit_now_ns() + KIT_LIMIT_S * 1000000000ull;

	while (!held) {
		CHECK(kit_now_ns() < until);
		__real_sched_yield();
	}
}

/* ---- waits that are watched ---- */

static _Thread_local bool watched;
/* A watched thread's time stands still, but for what the test lets pass. */
static _Thread_local struct timespec began;
static _Thread_local uint64_t passed_ns;
static unsigned int yields;
static bool slept;
static void (*in_spin)(void), (*before_sleep)(void);

/* Not inlined: AddressSanitizer takes what a cancelled thread left on its stack for what
 * is still there, so nothing is to be on it when read() is called. */
__attribute__((noinline)) static bool would_sleep(int fd)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };

	return poll(&pfd, 1, 0) == 0;
}

ssize_t __wrap_read(int fd, void *buf, size_t bytes)
{
	ssize_t n;

	if (watched) {
		slept = would_sleep(fd);
		if (slept && before_sleep)
			before_sleep();
	}
	n = __real_read(fd, buf, bytes);
	if (fd == held_fd)
		hold();
	return n;
}

/* A thread that writes there is held, too. */
static _Atomic int late_fd = -1;
static _Atomic bool late, let_go, written;

/* A thread that stops its process as it wakes another. */
static _Thread_local bool stops_at_write;

ssize_t __wrap_write(int fd, const void *buf, size_t bytes)
{
	ssize_t n;

	if (stops_at_write) {
		stops_at_write = false;
		raise(SIGSTOP);
	}
	if (fd == late_fd) {
		late_fd = -1;
		late = true;
		while (!let_go)
			__real_sched_yield();
		n = __real_write(fd, buf, bytes);
		written = true;
		return n;
	}
	return __real_write(fd, buf, bytes);
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

static void nothing(int sock)
{
	(void)sock;
}

/* ---- a queue pair that talks to itself ---- */

static struct kit one;

static void open_one(const char *spin_us)
{
	struct kit_opts opts = kit_defaults;

	CHECK(!setenv("SOFTVERBS_SPIN_US", spin_us, 1));
	opts.events = true;
	kit_open(&one, &opts, -1);
	kit_to_rts(&one, one.qp, one.qp->qp_num);
	one.addr = (uintptr_t)one.mem;
	one.rkey = one.mr->rkey;
}

static void complete(void)
{
	CHECK(!kit_post(&one, IBV_WR_RDMA_WRITE, 0, 8, 64, 1, IBV_SEND_SIGNALED));
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
	open_one("5000");
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
	open_one("5000");
	CHECK(wait_event(write_late, give_up) && yields == 3);
	kit_close(&one);
}

static void back_off(int sock)
{
	int spins = 0, waits = 0;

	(void)sock;
	open_one("500");
	/* At the 1st, 3rd, 7th... wait. */
	for (int i = 0; i < 300; i++) {
		spins += wait_event(pass_time, complete);
		CHECK(slept);
	}
	CHECK(spins == 8);
	/* Events are frequent again, and are seen to be in the end. */
	while (!wait_event(complete, complete))
		CHECK(++waits < 256);
	CHECK(!slept);
	kit_close(&one);
}

/* Whoever got the CPU kept it: that the event was there afterwards is no success. */
static void give_way(int sock)
{
	(void)sock;
	open_one("500");
	CHECK(wait_event(complete_late, NULL) && !slept);
	CHECK(!wait_event(complete, complete) && slept);
	kit_close(&one);
}

static void never_spin(int sock)
{
	(void)sock;
	open_one("0");
	for (int i = 0; i < 10; i++)
		CHECK(!wait_event(complete, complete) && slept);
	kit_close(&one);
}

static void never_block(int sock)
{
	struct ibv_cq *cq;
	void *context;

	(void)sock;
	open_one("5000");
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
	static const char *const bad[] = { "soon", "", "-1", "5x", "10001" };
	int n;
	struct ibv_device **list = sv_get_device_list(&n);

	(void)sock;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		CHECK(!setenv("SOFTVERBS_SPIN_US", bad[i], 1));
		CHECK(!sv_open_device(list[0]) && errno == EINVAL);
	}
	sv_free_device_list(list);
}

static void test_spin(void **state)
{
	(void)state;
	kit_run(find_by_looking, back_off);
	kit_run(give_way, never_spin);
	kit_run(never_block, refuse_nonsense);
	kit_run(await_late_writer, nothing);
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
	open_one("0");
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
	kit_run(tell_once, nothing);
}

/* ---- an event channel ---- */

static void *read_channel(void *arg)
{
	struct rdma_cm_event *ev;

	sv_get_cm_event(arg, &ev);
	CHECK(!"the channel is gone, and gave an event");
	return NULL;
}

/* An id whose event wakes the channel's reader. */
static struct rdma_cm_id *wake_reader(struct rdma_event_channel *ch)
{
	struct sockaddr_in here = { .sin_family = AF_INET, .sin_port = htons(7),
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct rdma_cm_id *id;

	CHECK(!sv_create_id(ch, &id, NULL, RDMA_PS_TCP));
	CHECK(!sv_resolve_addr(id, NULL, (struct sockaddr *)&here, 1000));
	wait_held();
	return id;
}

/* The reader goes on waiting, on a descriptor that nobody else can get meanwhile, and
 * is the one who cleans up. */
static void end_reader(pthread_t thread, int fd)
{
	released = true;
	CHECK(fcntl(fd, F_GETFD) >= 0);
	CHECK(!pthread_cancel(thread));
	CHECK(!pthread_join(thread, NULL));
	CHECK(fcntl(fd, F_GETFD) == -1 && errno == EBADF);
}

static void leave_reader_behind(int sock)
{
	struct rdma_event_channel *ch = sv_create_event_channel();
	struct rdma_cm_event *ev;
	int fd = ch->fd;
	pthread_t thread;

	(void)sock;
	held_fd = fd;
	CHECK(!pthread_create(&thread, NULL, read_channel, ch));
	CHECK(!sv_destroy_id(wake_reader(ch)));
	sv_destroy_event_channel(ch);
	CHECK(sv_get_cm_event(ch, &ev) == -1 && errno == EBADF);
	end_reader(thread, fd);
}

static void test_event_channel(void **state)
{
	(void)state;
	kit_run(leave_reader_behind, nothing);
}

/* ---- a completion channel ---- */

static void *read_completions(void *arg)
{
	struct ibv_cq *cq;
	void *context;

	sv_get_cq_event(arg, &cq, &context);
	CHECK(!"the channel is gone, and gave an event");
	return NULL;
}

static void leave_completions_behind(int sock)
{
	pthread_t thread;
	int fd;

	(void)sock;
	open_one("50");
	held_fd = fd = one.chan->fd;
	CHECK(!ibv_req_notify_cq(one.scq, 0));
	CHECK(!pthread_create(&thread, NULL, read_completions, one.chan));
	complete();
	wait_held();
	kit_close(&one);
	end_reader(thread, fd);
}

static void test_completion_channel(void **state)
{
	(void)state;
	kit_run(leave_completions_behind, nothing);
}

/* ---- a sender that is stopped in the middle of waking the receiver ---- */

#define STOPS 4 /* the first without the receiver's descriptor, which it has to ask for */

static void stop_at_waking(int sock)
{
	struct kit k;

	kit_open(&k, &kit_defaults, sock);
	kit_connect(&k);
	CHECK(!kit_post(&k, IBV_WR_SEND, 0, 8, 0, 1, IBV_SEND_SIGNALED)); /* the link is up */
	kit_expect(k.scq, 1, IBV_WC_SUCCESS);
	for (uint64_t i = 0; i < STOPS; i++) {
		kit_meet(&k);
		stops_at_write = true;
		CHECK(!kit_post(&k, IBV_WR_SEND, 0, 8, 0, i, IBV_SEND_SIGNALED));
		CHECK(!stops_at_write);
		kit_expect(k.scq, i, IBV_WC_SUCCESS);
	}
	kit_meet(&k);
	kit_close(&k);
}

static void wait_stopped(pid_t pid)
{
	uint64_t until = kit_now_ns() + KIT_LIMIT_S * 1000000000ull;
	char path[64], state = 0;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	while (state != 'T') {
		FILE *file = fopen(path, "r");

		CHECK(file && fscanf(file, "%*d (%*[^)]) %c", &state) == 1 && !fclose(file));
		CHECK(kit_now_ns() < until);
		sched_yield();
	}
}

/* The next event's queue, or NULL. */
static struct ibv_cq *event_within(struct kit *k, int ms)
{
	struct pollfd pfd = { .fd = k->chan->fd, .events = POLLIN };
	struct ibv_cq *cq;
	void *context;

	/* One that was written twice is passed over. */
	while (poll(&pfd, 1, ms) == 1)
		if (!sv_get_cq_event(k->chan, &cq, &context)) {
			sv_ack_cq_events(cq, 1);
			return cq;
		}
	return NULL;
}

static void wait_event_of(struct kit *k, struct ibv_cq *wanted)
{
	struct ibv_cq *cq;

	do {
		cq = event_within(k, KIT_LIMIT_S * 1000);
		CHECK(cq);
	} while (cq != wanted);
}

/* Its other peers' messages wake it all the same. */
static void be_woken(struct kit *k)
{
	CHECK(!kit_post(k, IBV_WR_SEND, 0, 8, 0, 1, 0));
	wait_event_of(k, k->rcq);
	kit_expect(k->rcq, 1, IBV_WC_SUCCESS);
	kit_expect(k->rcq, 1, IBV_WC_SUCCESS);
	/* What the stopped one's event is taken for is another queue's. */
	for (int i = 0; i < 3; i++) {
		CHECK(!ibv_req_notify_cq(k->scq, 0));
		CHECK(!kit_post(k, IBV_WR_RDMA_WRITE, 0, 8, 64, 2, IBV_SEND_SIGNALED));
		wait_event_of(k, k->scq);
		kit_expect(k->scq, 2, IBV_WC_SUCCESS);
	}
}

static void be_woken_by_another(int sock)
{
	struct kit_opts opts = kit_defaults;
	struct kit k, other;

	opts.events = opts.srq = true;
	kit_open(&k, &opts, sock);
	CHECK(!fcntl(k.chan->fd, F_SETFL, O_NONBLOCK));
	CHECK(!kit_post_recv(&k, 0, 8, 1));
	kit_connect(&k);
	kit_expect(k.rcq, 1, IBV_WC_SUCCESS);
	other = k;
	other.qp = kit_new_qp(&k);
	kit_to_init(&k, other.qp);
	kit_to_rts(&k, other.qp, other.qp->qp_num);
	other.addr = (uintptr_t)k.mem;
	other.rkey = k.mr->rkey;
	for (uint64_t i = 0; i < STOPS; i++) {
		CHECK(!kit_post_recv(&k, 0, 8, 1) && !kit_post_recv(&k, 0, 8, 1));
		CHECK(!ibv_req_notify_cq(k.rcq, 0));
		kit_meet(&k);
		wait_stopped(k.pid);
		be_woken(&other);
		CHECK(!kill(k.pid, SIGCONT));
	}
	kit_meet(&k);
	CHECK(!sv_destroy_qp(other.qp));
	while (event_within(&k, 0))
		;
	kit_close(&k);
}

static void test_stopped_waker(void **state)
{
	(void)state;
	kit_run(be_woken_by_another, stop_at_waking);
}

/* ---- a context's asynchronous events ---- */

static void *read_async(void *arg)
{
	struct ibv_async_event event;

	CHECK(!sv_get_async_event(arg, &event));
	CHECK(event.event_type == IBV_EVENT_PORT_ERR);
	sv_ack_async_event(&event);
	return NULL;
}

static void leave_async_behind(int sock)
{
	pthread_t thread;
	int fd;

	(void)sock;
	open_one("50");
	held_fd = fd = one.ctx->async_fd;
	CHECK(!pthread_create(&thread, NULL, read_async, one.ctx));
	CHECK(!sv_fault_set("event_at=1,event=10"));
	complete();
	wait_held();
	kit_close(&one);
	CHECK(fcntl(fd, F_GETFD) >= 0);
	released = true;
	CHECK(!pthread_join(thread, NULL));
	CHECK(fcntl(fd, F_GETFD) == -1 && errno == EBADF);
}

static void test_async(void **state)
{
	(void)state;
	kit_run(leave_async_behind, nothing);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_spin),
		cmocka_unit_test(test_surplus),
		cmocka_unit_test(test_event_channel),
		cmocka_unit_test(test_completion_channel),
		cmocka_unit_test(test_stopped_waker),
		cmocka_unit_test(test_async),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
