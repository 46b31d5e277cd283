/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * channel.c -- channels: what is destroyed under its reader, and who is stopped as they wake one.
 *
 * The program is linked with --wrap=read, so that a reader can be stopped between the
 * descriptor, which told it of an event, and the list, which has it no more; and with
 * --wrap=write, the same for whoever wakes it.
 */
#include <arpa/inet.h>
#include <pthread.h>
#include <sched.h>
#include "tests/unit/softverbs/kit.h"
#include "tests/unit/read_chk.h"

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
		sched_yield();
}

/* Until the reader of the descriptor is held. */
static void wait_held(void)
{
	uint64_t until = kit_now_ns() + KIT_LIMIT_S * 1000000000ull;

	while (!held) {
		CHECK(kit_now_ns() < until);
		sched_yield();
	}
}

ssize_t __wrap_read(int fd, void *buf, size_t bytes)
{
	ssize_t n = __real_read(fd, buf, bytes);

	if (fd == held_fd)
		hold();
	return n;
}

/* A thread that stops its process as it wakes another. */
static _Thread_local bool stops_at_write;

ssize_t __wrap_write(int fd, const void *buf, size_t bytes)
{
	if (stops_at_write) {
		stops_at_write = false;
		raise(SIGSTOP);
	}
	return __real_write(fd, buf, bytes);
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
	kit_run(leave_reader_behind, kit_nothing);
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
	struct kit k;
	pthread_t thread;
	int fd;

	(void)sock;
	kit_open_spinning(&k, "50");
	held_fd = fd = k.chan->fd;
	CHECK(!ibv_req_notify_cq(k.scq, 0));
	CHECK(!pthread_create(&thread, NULL, read_completions, k.chan));
	kit_complete(&k);
	wait_held();
	kit_close(&k);
	end_reader(thread, fd);
}

static void test_completion_channel(void **state)
{
	(void)state;
	kit_run(leave_completions_behind, kit_nothing);
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
		kit_wait_stopped(k.pid);
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
	struct kit k;
	pthread_t thread;
	int fd;

	(void)sock;
	kit_open_spinning(&k, "50");
	held_fd = fd = k.ctx->async_fd;
	CHECK(!pthread_create(&thread, NULL, read_async, k.ctx));
	CHECK(!sv_fault_set("event_at=1,event=10"));
	kit_complete(&k);
	wait_held();
	kit_close(&k);
	CHECK(fcntl(fd, F_GETFD) >= 0);
	released = true;
	CHECK(!pthread_join(thread, NULL));
	CHECK(fcntl(fd, F_GETFD) == -1 && errno == EBADF);
}

static void test_async(void **state)
{
	(void)state;
	kit_run(leave_async_behind, kit_nothing);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_event_channel),
		cmocka_unit_test(test_completion_channel),
		cmocka_unit_test(test_stopped_waker),
		cmocka_unit_test(test_async),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
