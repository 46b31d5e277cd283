/* SPDX-License-Identifier: BSD-2-Clause */
/* far.h -- the other end of a link, which the test plays: who is called, what is said and heard. */
#ifndef TESTS_UNIT_SOFTVERBS_FAR_H
#define TESTS_UNIT_SOFTVERBS_FAR_H

#include "bare.h"
#include <sys/mman.h>
#include <sys/un.h>
#include "common/softverbs/peer/peer.h"

#define OTHER 7u
#define MEM 3u
#define BYTES 8192u

static int told_progress, told_joined, told_gone, told_unmapped, told_answered;
static const void *answer_at;
static int listener, theirs; /* at OTHER's address; the other end of the link to it */

/* ---- what a link tells ---- */

static inline void on_progress(struct sv_peer *peer)
{
	(void)peer;
	told_progress++;
}

static inline void on_answered(const struct sv_msg *msg, void *data)
{
	assert_int_equal(msg->type, SV_MSG_ACCESS_OK);
	answer_at = data;
	told_answered++;
}

static inline void on_joined(const struct sv_msg *msg)
{
	assert_int_equal(msg->type, SV_MSG_JOIN_OK);
	told_joined++;
}

/* The mapping is there for as long as this runs. */
static inline void on_unmapped(struct sv_peer *peer, uint32_t mem)
{
	(void)peer;
	assert_int_equal(mem, MEM);
	assert_int_equal(bare_mapped("memfd:softverbs-given"), BYTES);
	told_unmapped++;
}

static inline void on_gone(struct sv_peer *peer)
{
	assert_int_equal(peer->state, SV_PEER_GONE);
	told_gone++;
}

static const struct sv_peer_hooks hooks = { .progress = on_progress, .answered = on_answered,
					    .joined = on_joined, .unmapped = on_unmapped,
					    .gone = on_gone };

/* ---- the other side ---- */

static inline int listen_as(uint32_t slot, int backlog)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un sun;
	char name[16];

	snprintf(name, sizeof(name), "%u", slot);
	assert_int_equal(bind(fd, (struct sockaddr *)&sun, sv_address(&sun, "p", name)), 0);
	assert_int_equal(listen(fd, backlog), 0);
	return fd;
}

static inline int far_begin(void **state)
{
	int ret = bare_begin(state);

	told_progress = told_joined = told_gone = told_unmapped = told_answered = 0;
	theirs = -1;
	sv_peer_on_event(&hooks);
	listener = listen_as(OTHER, 8);
	return ret;
}

static inline int far_end(void **state)
{
	close(listener);
	sv_fd_close(theirs);
	return bare_end(state);
}

static inline void send_fds(uint32_t type, uint32_t mem, const int *fds, int nfds)
{
	struct sv_msg msg = { .type = type, .mem = mem, .abi = SV_ABI_VERSION, .slot = OTHER,
			      .bytes64 = BYTES };

	assert_int_equal(sv_msg_send(theirs, &msg, fds, nfds), 0);
}

/* What it says and closes. */
static inline void send_fd(uint32_t type, uint32_t mem, int fd)
{
	send_fds(type, mem, &fd, fd >= 0);
	sv_fd_close(fd);
}

/* The next message that came there; its type, 0 if there is none. */
static inline uint32_t heard(struct sv_msg *msg)
{
	int fds[SV_MSG_FDS], nfds, ret = sv_msg_recv(theirs, msg, fds, &nfds);

	for (int i = 0; i < nfds; i++)
		sv_fd_close(fds[i]);
	return ret ? 0 : msg->type;
}

static inline void call_back(void)
{
	struct sv_msg msg;

	theirs = sv_fd_track(accept(listener, NULL, NULL));
	assert_true(theirs >= 0);
	assert_int_equal(heard(&msg), SV_MSG_HELLO);
	assert_true(msg.abi == SV_ABI_VERSION && msg.slot == BARE_SLOT);
	assert_true(msg.incarnation == BARE_INCARNATION);
}

/* The tables that a process hands over, and its bell. */
static inline void make_tables(int fds[3], size_t ro_bytes, size_t rw_bytes)
{
	fds[0] = sv_memfd("softverbs-their-ro", ro_bytes);
	fds[1] = sv_memfd("softverbs-their-rw", rw_bytes);
	fds[2] = sv_bell_open();
	assert_true(fds[0] >= 0 && fds[1] >= 0 && fds[2] >= 0);
}

static inline void close_all(const int fds[3])
{
	for (int i = 0; i < 3; i++)
		sv_fd_close(fds[i]);
}

/* A link that is up. */
static inline struct sv_peer *new_link(void)
{
	struct sv_peer *peer = sv_peer_get(OTHER);
	int fds[3];

	assert_non_null(peer);
	call_back();
	make_tables(fds, SV_RO_BYTES, SV_RW_FILE_BYTES);
	send_fds(SV_MSG_HELLO_OK, 0, fds, 3);
	close_all(fds);
	assert_int_equal(bare_turn(), 1);
	assert_true(sv_peer_up(peer) && told_progress == 1);
	return peer;
}

#endif
