/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * common/softverbs/peer/group.h: who is in a group, how many may be, and which senders are told
 * of a change, whatever names there are beside theirs.
 */
#include "bare.h"
#include "common/softverbs/base/name.h"
#include "common/softverbs/peer/group.h"
#include "common/softverbs/peer/peer.h"

#define OTHER 9u

static const uint8_t gid[SV_GID_BYTES] = { 0xff, 0x0e, [15] = 7 };

static struct sv_group_look look;

static void look_at(const uint8_t *group)
{
	memset(&look, 0xff, sizeof(look));
	sv_group_look(group, &look);
}

/* A name in the group. */
static int take_name(const char *rest)
{
	char name[64];
	int fd;

	snprintf(name, sizeof(name), "ff0e0000000000000000000000000007/%s", rest);
	fd = sv_name_take("mc", name);
	assert_true(fd >= 0);
	return fd;
}

/* ---- members ---- */

static void test_members(void **state)
{
	static const uint32_t qpns[] = { 0x900000, 0x1234, 0xfffffe, 1, 0x10, 0xa };
	static const uint32_t sorted[] = { 1, 0xa, 0x10, 0x1234, 0x900000, 0xfffffe };
	uint8_t next[SV_GID_BYTES], first[SV_GID_BYTES];
	int fds[6], other, again = -1, before;

	(void)state;
	memcpy(next, gid, sizeof(next));
	next[15]++;
	memcpy(first, gid, sizeof(first));
	first[0]--;
	look_at(gid);
	assert_int_equal(look.n, 0);
	for (int i = 0; i < 6; i++)
		assert_int_equal(sv_group_enter(gid, qpns[i], &fds[i]), 0);
	assert_int_equal(sv_group_enter(next, 0x77, &other), 0);
	before = bare_open();
	assert_int_equal(sv_group_enter(gid, 0x10, &again), EADDRINUSE);
	assert_true(again < 0);
	look_at(gid);
	assert_int_equal(look.n, 6);
	assert_memory_equal(look.qpn, sorted, sizeof(sorted));
	look_at(first);
	assert_int_equal(look.n, 0);
	look_at(next);
	assert_true(look.n == 1 && look.qpn[0] == 0x77);
	assert_int_equal(bare_open(), before);
	sv_group_leave(other);
	look_at(next);
	assert_int_equal(look.n, 0);
	for (int i = 0; i < 6; i++)
		sv_group_leave(fds[i]);
	look_at(gid);
	assert_int_equal(look.n, 0);
}

/* Names that are no queue pair's. */
static void test_no_members(void **state)
{
	int fds[] = { take_name("zz"), take_name("000000"), take_name("ffffff"),
		      take_name("1000000"), take_name("00002b") };

	(void)state;
	look_at(gid);
	assert_int_equal(look.n, 1);
	assert_int_equal(look.qpn[0], 0x2b);
	for (int i = 0; i < 5; i++)
		sv_fd_close(fds[i]);
}

/* As many as may be; one more has no place, is not there and nobody is told of it. */
static void test_full(void **state)
{
	int fds[SV_GROUP_MEMBERS], more, before;
	uint32_t epoch;

	(void)state;
	for (uint32_t i = 0; i < SV_GROUP_MEMBERS; i++)
		assert_int_equal(sv_group_enter(gid, i + 1, &fds[i]), 0);
	look_at(gid);
	assert_int_equal(look.n, SV_GROUP_MEMBERS);
	for (uint32_t i = 0; i < SV_GROUP_MEMBERS; i++)
		assert_int_equal(look.qpn[i], i + 1);
	before = bare_open();
	epoch = sv_group_epoch();
	assert_int_equal(sv_group_enter(gid, 5000, &more), ENOMEM);
	assert_int_equal(bare_open(), before);
	assert_int_equal(sv_group_epoch(), epoch);
	more = take_name("001388"); /* one that got in at the same time */
	look_at(gid);
	assert_int_equal(look.n, SV_GROUP_MEMBERS);
	sv_fd_close(more);
	for (uint32_t i = 0; i < SV_GROUP_MEMBERS; i++)
		sv_fd_close(fds[i]);
	assert_int_equal(sv_group_enter(gid, 5000, &more), 0);
	sv_group_leave(more);
}

/* ---- senders ---- */

/* Only one that has looked is told; of each change once. */
static void test_told(void **state)
{
	int fd;

	(void)state;
	assert_int_equal(sv_group_enter(gid, 1, &fd), 0);
	assert_int_equal(sv_group_epoch(), 0);
	look_at(gid);
	assert_true(bare_proc.sender_fd >= 0);
	errno = 0;
	assert_int_equal(sv_name_take("ms", "5"), -1);
	assert_int_equal(errno, EADDRINUSE);
	assert_int_equal(look.epoch, 0);
	for (uint32_t i = 0; i < 3; i++) {
		int second, sender = bare_proc.sender_fd;

		assert_int_equal(sv_group_enter(gid, 2, &second), 0);
		assert_int_equal(sv_group_epoch(), 2 * i + 1);
		look_at(gid);
		assert_int_equal(look.epoch, 2 * i + 1);
		sv_group_leave(second);
		assert_int_equal(sv_group_epoch(), 2 * i + 2);
		assert_int_equal(bare_proc.sender_fd, sender);
	}
	sv_fd_close(fd);
}

/* Names that are no sender's, two of one, and one of a process that is dead. */
static void test_no_senders(void **state)
{
	static const char *const names[] = { "0", "4096", "99999", "x", "005", "4095", "4094" };
	int fds[7], fd;

	(void)state;
	look_at(gid);
	for (int i = 0; i < 7; i++)
		assert_true((fds[i] = sv_name_take("ms", names[i])) >= 0);
	assert_int_equal(sv_group_enter(gid, 1, &fd), 0);
	assert_int_equal(sv_group_epoch(), 1);
	assert_null(bare_proc.peers);
	assert_int_equal(bare_free(), 3); /* itself, and the two that could be */
	for (int i = 0; i < 7; i++)
		sv_fd_close(fds[i]);
	sv_fd_close(fd);
}

/* Another process with a link to it that is up: its table tells it. */
static void test_another(void **state)
{
	static struct sv_rw theirs;
	struct sv_peer peer = { .slot = OTHER, .state = SV_PEER_UP, .rw = &theirs, .refs = 1,
				.watch.fd = -1 };
	int name = sv_name_take("ms", "9"), fd;

	(void)state;
	bare_proc.peers = &peer;
	look_at(gid);
	assert_int_equal(sv_group_enter(gid, 1, &fd), 0);
	assert_true(theirs.groups == 1 && sv_group_epoch() == 1);
	sv_group_leave(fd);
	assert_true(theirs.groups == 2 && sv_group_epoch() == 2);
	assert_int_equal(peer.refs, 1);
	assert_true(bare_proc.peers == &peer && !peer.next);
	bare_proc.peers = NULL;
	sv_fd_close(name);
}

/* One that doesn't answer: a second is all that it costs. */
static void test_mute(void **state)
{
	struct sv_peer peer = { .slot = OTHER, .state = SV_PEER_ASKED, .refs = 1, .watch.fd = -1 };
	int name = sv_name_take("ms", "9"), fd;
	uint64_t begun = kit_now_ns(), took;

	(void)state;
	look_at(gid);
	bare_proc.peers = &peer;
	assert_int_equal(sv_group_enter(gid, 1, &fd), 0);
	took = kit_now_ns() - begun;
	assert_true(took >= 1000000000u && took < 10000000000u);
	assert_int_equal(sv_group_epoch(), 1); /* the others are told */
	assert_int_equal(peer.refs, 1);
	bare_proc.peers = NULL;
	sv_fd_close(name);
	sv_fd_close(fd);
}

#define BARE(test) cmocka_unit_test_setup_teardown(test, bare_begin, bare_end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		BARE(test_members),    BARE(test_no_members), BARE(test_full), BARE(test_told),
		BARE(test_no_senders), BARE(test_another),    BARE(test_mute),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
