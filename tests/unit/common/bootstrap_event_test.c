/* SPDX-License-Identifier: BSD-2-Clause */
/* common/bootstrap/event.h: the events of a channel come in order, wake who waits, and go with their id.
 * The program is linked with --wrap of epoll_create1(), epoll_ctl() and close(). */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/bootstrap/event.h" /* has a fail() of its own, which is a macro of cmocka.h */

#include <cmocka.h>

int __real_epoll_create1(int flags);
int __wrap_epoll_create1(int flags);
int __real_epoll_ctl(int set, int op, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int set, int op, int fd, struct epoll_event *event);
int __real_close(int fd);
int __wrap_close(int fd);

static int create_error, ctl_error;
static bool frees_0; /* so that the next descriptor is 0 */

int __wrap_epoll_create1(int flags)
{
	int fd = create_error ? -1 : __real_epoll_create1(flags);

	if (frees_0)
		__real_close(0);
	if (create_error)
		errno = create_error;
	return fd;
}

int __wrap_epoll_ctl(int set, int op, int fd, struct epoll_event *event)
{
	errno = ctl_error;
	return ctl_error ? -1 : __real_epoll_ctl(set, op, fd, event);
}

/* It may leave anything in errno. */
int __wrap_close(int fd)
{
	int rc = __real_close(fd);

	errno = ENOTTY;
	return rc;
}

static struct rdma_event_channel *channel;
static struct id a, b;
static unsigned open_before;

static unsigned open_descriptors(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static int set_up(void **state)
{
	(void)state;
	open_before = open_descriptors();
	create_error = ctl_error = 0;
	frees_0 = false;
	channel = bootstrap_channel_create();
	a = b = (struct id){ .fd = -1 };
	a.ib.channel = b.ib.channel = channel;
	return !channel;
}

static int tear_down(void **state)
{
	(void)state;
	bootstrap_channel_destroy(channel);
	assert_int_equal(open_descriptors(), open_before);
	return 0;
}

static bool rings(void)
{
	return poll(&(struct pollfd){ .fd = channel->fd, .events = POLLIN }, 1, 0) == 1;
}

/* The next event is of that id, with that status; it is acknowledged. */
static void next_is(const struct id *id, int status)
{
	struct queued *q = bootstrap_event_pop((struct channel *)channel);

	assert_non_null(q);
	assert_ptr_equal(q->event.id, &id->ib);
	assert_int_equal(q->event.status, status);
	assert_int_equal(bootstrap_event_ack(&q->event), 0);
}

static void none_is_left(void)
{
	assert_null(bootstrap_event_pop((struct channel *)channel));
	assert_false(rings());
}

static void test_in_order(void **state)
{
	(void)state;
	none_is_left();
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 4; i++)
			assert_non_null(bootstrap_event_put(i % 2 ? &b : &a, RDMA_CM_EVENT_ESTABLISHED, i));
		assert_true(rings());
		for (int i = 0; i < 4; i++) {
			assert_true(rings());
			next_is(i % 2 ? &b : &a, i);
		}
		none_is_left();
	}
}

/* Of an id that goes none is left; the others' stay in their order, and come behind them. */
static void test_dropped(void **state)
{
	(void)state;
	for (int i = 0; i < 6; i++)
		assert_non_null(bootstrap_event_put(i % 3 ? &b : &a, RDMA_CM_EVENT_DISCONNECTED, i));
	bootstrap_event_drop((struct channel *)channel, &a);
	assert_true(rings());
	assert_non_null(bootstrap_event_put(&b, RDMA_CM_EVENT_DISCONNECTED, 6));
	next_is(&b, 1);
	next_is(&b, 2);
	next_is(&b, 4);
	next_is(&b, 5);
	next_is(&b, 6);
	none_is_left();
	assert_non_null(bootstrap_event_put(&b, RDMA_CM_EVENT_DISCONNECTED, 7));
	bootstrap_event_drop((struct channel *)channel, &b);
	none_is_left();
	assert_non_null(bootstrap_event_put(&a, RDMA_CM_EVENT_DISCONNECTED, 8));
	assert_true(rings());
	next_is(&a, 8);
	none_is_left();
}

/* READs that one end issues are those that the other answers. */
static void test_message(void **state)
{
	struct queued *q;

	(void)state;
	a.peer = (struct wire_bootstrap){ .qpn = 77, .initiator_depth = 3, .responder_resources = 5,
					  .data_bytes = 4, .data = "abc" };
	bootstrap_event_put_message(&a, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	q = bootstrap_event_pop((struct channel *)channel);
	assert_non_null(q);
	assert_int_equal(q->event.event, RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_int_equal(q->event.param.conn.qp_num, 77);
	assert_int_equal(q->event.param.conn.responder_resources, 3);
	assert_int_equal(q->event.param.conn.initiator_depth, 5);
	assert_int_equal(q->event.param.conn.private_data_len, 4);
	assert_memory_equal(q->event.param.conn.private_data, "abc", 4);
	memset(&a.peer, 0, sizeof a.peer); /* the event has its own */
	assert_memory_equal(q->event.param.conn.private_data, "abc", 4);
	bootstrap_event_ack(&q->event);
}

/* Without a descriptor for the set, or for the bell, there is no channel, and none is left open. */
static void test_without_descriptors(void **state)
{
	struct rlimit was, is;
	int next = dup(channel->fd);

	(void)state;
	assert_true(next >= 0);
	close(next);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	for (int more = 0; more < 2; more++) {
		is = was;
		is.rlim_cur = (rlim_t)(next + more);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &is), 0);
		errno = 0;
		struct rdma_event_channel *none = bootstrap_channel_create();
		int error = errno;
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
		assert_null(none);
		assert_int_equal(error, EMFILE);
		int now = dup(channel->fd);
		assert_int_equal(now, next);
		close(now);
	}
}

/* Nor where there is no set, or the bell can't be put into it. */
static void test_no_channel(void **state)
{
	unsigned n = open_descriptors();

	(void)state;
	create_error = ENFILE;
	assert_null(bootstrap_channel_create());
	assert_int_equal(errno, ENFILE);
	assert_int_equal(open_descriptors(), n);
	create_error = 0;
	ctl_error = ENOSPC;
	assert_null(bootstrap_channel_create());
	assert_int_equal(errno, ENOSPC);
	assert_int_equal(open_descriptors(), n);
}

/* In a program without a standard input the set or the bell is descriptor 0. */
static void test_descriptor_0(void **state)
{
	int kept = fcntl(0, F_DUPFD_CLOEXEC, 512);
	struct rdma_event_channel *other;

	(void)state;
	assert_true(kept >= 0);
	for (int bell = 0; bell < 2; bell++) {
		for (int i = 0; i < 2; i++) {
			frees_0 = bell;
			if (!bell)
				__real_close(0);
			ctl_error = i ? ENOSPC : 0;
			other = bootstrap_channel_create();
			assert_int_equal(!other, i);
			if (other) {
				assert_int_equal(bell ? ((struct channel *)other)->bell : other->fd, 0);
				bootstrap_channel_destroy(other);
			}
			assert_int_equal(fcntl(0, F_GETFD), -1);
			assert_int_equal(dup2(kept, 0), 0);
		}
	}
	close(kept);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_in_order),
		TEST(test_dropped),
		TEST(test_message),
		TEST(test_without_descriptors),
		TEST(test_no_channel),
		TEST(test_descriptor_0),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
