/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * softverbs_channel.c -- an event channel that is destroyed under its reader.
 *
 * The program is linked with --wrap=read, so that a thread can be stopped between the
 * descriptor, which told it of an event, and the channel's list, which has it no more.
 */
#include <arpa/inet.h>
#include <pthread.h>
#include "tests/unit/softverbs_kit.h"

static _Atomic int held_fd = -1; /* who reads it is held */
static _Atomic bool held, released;

ssize_t __real_read(int fd, void *buf, size_t bytes);
ssize_t __wrap_read(int fd, void *buf, size_t bytes);

ssize_t __wrap_read(int fd, void *buf, size_t bytes)
{
	ssize_t n = __real_read(fd, buf, bytes);

	if (fd == held_fd) {
		held_fd = -1;
		held = true;
		while (!released)
			sched_yield();
	}
	return n;
}

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
	uint64_t until = kit_now_ns() + KIT_LIMIT_S * 1000000000ull;
	struct rdma_cm_id *id;

	CHECK(!sv_create_id(ch, &id, NULL, RDMA_PS_TCP));
	CHECK(!sv_resolve_addr(id, NULL, (struct sockaddr *)&here, 1000));
	while (!held) {
		CHECK(kit_now_ns() < until);
		sched_yield();
	}
	return id;
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
	/* It goes on waiting, on a descriptor that nobody else can get meanwhile... */
	released = true;
	CHECK(fcntl(fd, F_GETFD) >= 0);
	/* ...and is the one who cleans up. */
	CHECK(!pthread_cancel(thread));
	CHECK(!pthread_join(thread, NULL));
	CHECK(fcntl(fd, F_GETFD) == -1 && errno == EBADF);
}

static void nothing(int sock)
{
	(void)sock;
}

static void test_destroyed_under_reader(void **state)
{
	(void)state;
	kit_run(leave_reader_behind, nothing);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_destroyed_under_reader) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
