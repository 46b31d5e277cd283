/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * common/softverbs/peer/msg.h: what one control thread sends arrives as it is, with its
 * descriptors; of what is no message nothing stays, and a forked child has none of them.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/softverbs/base/fd.h"
#include "common/softverbs/peer/msg.h"

#define FDS_MORE (SV_MSG_FDS + 1)
#define FILE_BYTES 8192u

static int ends[2], file; /* a link; what descriptors are sent of */

static int begin(void **state)
{
	(void)state;
	file = memfd_create("msg", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	return file < 0 || ftruncate(file, FILE_BYTES) ||
	       socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends);
}

static int end(void **state)
{
	(void)state;
	close(file);
	close(ends[1]);
	return close(ends[0]);
}

/* The lowest descriptor that nobody has: the same while none is lost. */
static int lowest(void)
{
	int fd = dup(file);

	close(fd);
	return fd;
}

/* As sv_msg_send(), of whatever length and with however many. */
static void send_raw(size_t bytes, unsigned nfds)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(FDS_MORE * sizeof(int))];
	} control = { 0 };
	char text[2 * sizeof(struct sv_msg)] = "";
	struct iovec iov = { text, bytes };
	struct msghdr hdr = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control,
			      .msg_controllen = CMSG_SPACE(nfds * sizeof(int)) };

	control.header = (struct cmsghdr){ CMSG_LEN(nfds * sizeof(int)), SOL_SOCKET, SCM_RIGHTS };
	for (unsigned i = 0; i < nfds; i++)
		memcpy(CMSG_DATA(&control.header) + i * sizeof file, &file, sizeof file);
	assert_int_equal(sendmsg(ends[0], &hdr, 0), bytes);
}

static void test_arrives(void **state)
{
	const int sent[SV_MSG_FDS] = { file, file, file };
	struct sv_msg msg = { .type = SV_MSG_ACCESS, .swap = 99, .addr = 7 }, got;
	int fds[SV_MSG_FDS], nfds;
	struct stat is, was;

	(void)state;
	assert_int_equal(fstat(file, &was), 0);
	for (int n = 0; n <= SV_MSG_FDS; n++) {
		memset(&got, 0xff, sizeof got);
		assert_int_equal(sv_msg_send(ends[0], &msg, sent, n), 0);
		assert_int_equal(sv_msg_recv(ends[1], &got, fds, &nfds), 0);
		assert_memory_equal(&got, &msg, sizeof msg);
		assert_int_equal(nfds, n);
		for (int i = 0; i < nfds; i++) {
			assert_int_equal(fstat(fds[i], &is), 0);
			assert_int_equal(is.st_ino, was.st_ino);
			assert_int_equal(fcntl(fds[i], F_GETFD), FD_CLOEXEC);
			sv_fd_close(fds[i]);
		}
	}
	assert_int_equal(sv_msg_recv(ends[1], &got, fds, &nfds), EAGAIN);
	assert_int_equal(nfds, 0);
}

static void test_a_child_has_none(void **state)
{
	const int sent[] = { file, file };
	struct sv_msg msg = { .type = SV_MSG_HELLO };
	int fds[SV_MSG_FDS], nfds;

	(void)state;
	assert_int_equal(sv_msg_send(ends[0], &msg, sent, 2), 0);
	assert_int_equal(sv_msg_recv(ends[1], &msg, fds, &nfds), 0);
	assert_int_equal(nfds, 2);
	sv_fd_close_all(); /* the child's */
	for (int i = 0; i < nfds; i++)
		assert_int_equal(fcntl(fds[i], F_GETFD), -1);
	assert_int_not_equal(fcntl(file, F_GETFD), -1);
}

static void test_no_message(void **state)
{
	static const struct {
		size_t bytes;
		unsigned nfds;
	} cases[] = {
		{ sizeof(struct sv_msg) - 1, 0 },
		{ sizeof(struct sv_msg) - 1, SV_MSG_FDS },
		{ sizeof(struct sv_msg) + 1, 1 },
		{ sizeof(struct sv_msg), FDS_MORE },
	};
	int fds[FDS_MORE + 1], nfds, free_fd = lowest();
	struct sv_msg msg;

	(void)state;
	for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		memset(fds, 0xff, sizeof fds);
		send_raw(cases[i].bytes, cases[i].nfds);
		assert_int_equal(sv_msg_recv(ends[1], &msg, fds, &nfds), EPIPE);
		assert_int_equal(nfds, 0);
		assert_int_equal(fds[SV_MSG_FDS], -1); /* beyond what its callers have */
		assert_int_equal(lowest(), free_fd);
	}
}

static void test_ends(void **state)
{
	struct sv_msg msg = { .type = SV_MSG_HELLO };
	int fds[SV_MSG_FDS], nfds, rc;
	unsigned sent = 0;

	(void)state;
	while (!(rc = sv_msg_send(ends[0], &msg, NULL, 0)) && sent < 1000000)
		sent++;
	assert_int_equal(rc, EAGAIN); /* full: it does not wait */
	for (; sent; sent--)
		assert_int_equal(sv_msg_recv(ends[1], &msg, fds, &nfds), 0);
	assert_int_equal(shutdown(ends[0], SHUT_RDWR), 0);
	assert_int_equal(sv_msg_recv(ends[1], &msg, fds, &nfds), EPIPE);
	assert_int_equal(sv_msg_send(ends[1], &msg, NULL, 0), EPIPE);
}

/* A file that can shrink, or is too short, would kill who maps it. */
static void test_map(void **state)
{
	uint8_t *mem;

	(void)state;
	assert_null(sv_map_received(-1, FILE_BYTES, true));
	assert_null(sv_map_received(file, FILE_BYTES, true));
	assert_int_equal(fcntl(file, F_ADD_SEALS, F_SEAL_GROW), 0);
	assert_null(sv_map_received(file, FILE_BYTES, true));
	assert_int_equal(fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	assert_null(sv_map_received(file, FILE_BYTES + 1, true));
	mem = sv_map_received(file, FILE_BYTES, true);
	assert_non_null(mem);
	mem[FILE_BYTES - 1] = 42;
	munmap(mem, FILE_BYTES);
	mem = sv_map_received(file, FILE_BYTES, false);
	assert_non_null(mem);
	assert_int_equal(mem[FILE_BYTES - 1], 42);
	munmap(mem, FILE_BYTES);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(test_arrives), TEST(test_a_child_has_none), TEST(test_no_message),
		TEST(test_ends), TEST(test_map),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
