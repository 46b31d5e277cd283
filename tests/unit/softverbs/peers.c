/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * common/softverbs/peer/peer.h: links to processes that the test plays: who is there and who is
 * not, which greetings count, and what is left of a link.
 */
#include "far.h"

static bool sends_nothing, has_no_memory;

ssize_t __real_sendmsg(int fd, const struct msghdr *hdr, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *hdr, int flags);
void *__real_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);

ssize_t __wrap_sendmsg(int fd, const struct msghdr *hdr, int flags)
{
	if (!sends_nothing)
		return __real_sendmsg(fd, hdr, flags);
	errno = EAGAIN;
	return -1;
}

void *__wrap_calloc(size_t n, size_t bytes)
{
	return has_no_memory ? NULL : __real_calloc(n, bytes);
}

/* It ends the link, and says so once. */
static void check_ends(struct sv_peer *peer)
{
	int gone = told_gone;

	assert_int_equal(bare_turn(), 1);
	assert_int_equal(peer->state, SV_PEER_GONE);
	assert_int_equal(told_gone, gone + 1);
	assert_int_equal(bare_turn(), 0);
	peer->watch.ready(&peer->watch, EPOLLIN); /* as of the same batch */
	assert_int_equal(told_gone, gone + 1);
	sv_peer_put(peer);
	assert_int_equal(bare_free(), 1);
	sv_fd_close(theirs);
	theirs = -1;
}

/* ---- begin and end ---- */

static void test_up_and_away(void **state)
{
	struct sv_peer *peer = new_link();
	uint8_t byte = 42, *wire;

	(void)state;
	assert_ptr_equal(sv_peer_get(OTHER), peer);
	assert_int_equal(peer->refs, 2);
	assert_false(peer->self);
	assert_int_equal(accept(listener, NULL, NULL), -1);
	assert_int_equal(bare_mapped("memfd:softverbs-their-ro"), SV_RO_BYTES);
	assert_int_equal(bare_mapped("memfd:softverbs-their-rw"), SV_RW_BYTES);
	peer->rw->groups = 9;
	assert_int_equal(peer->ro->slot, 0);

	assert_int_equal(pwrite(peer->rw_fd, &byte, 1, (off_t)(SV_RW_BYTES + 11 * SV_WIRE_BYTES)), 1);
	wire = (void *)sv_peer_wire(peer, 11);
	assert_true(wire && wire[0] == 42 && !wire[1]);
	wire[SV_WIRE_BYTES - 1] = 7;
	assert_int_equal(bare_mapped("memfd:softverbs-their-rw"), SV_RW_BYTES + SV_WIRE_BYTES);
	munmap(wire, SV_WIRE_BYTES);

	sv_peer_put(peer);
	assert_int_equal(bare_free(), 0);
	assert_ptr_equal(bare_proc.peers, peer);
	sv_peer_put(peer);
	assert_null(bare_proc.peers);
	assert_int_equal(bare_free(), 1);
	assert_int_equal(told_gone, 0);
}

/* To itself: its own tables, which outlive the link. */
static void test_self(void **state)
{
	int rw_fd = bare_proc.rw_fd = sv_memfd("softverbs-own", BYTES);
	struct sv_peer *peer = sv_peer_get(BARE_SLOT);

	(void)state;
	assert_true(peer && peer->self && sv_peer_up(peer));
	assert_true(peer->ro == &bare_ro && peer->rw == &bare_rw && peer->watch.fd == -1);
	assert_true(peer->rw_fd == rw_fd && peer->kick_fd == bare_proc.kick_fd);
	bare_ro.cq[2].channel = 6;
	sv_peer_notify(peer, 1, 2);
	assert_int_equal(bare_rw.qp[1].attention, SV_ATTN_NOTIFY);
	sv_peer_put(peer);
	assert_int_equal(bare_free(), 1);
	assert_true(fcntl(rw_fd, F_GETFD) >= 0 && fcntl(bare_proc.kick_fd, F_GETFD) >= 0);
	sv_fd_close(rw_fd);
}

/* Nobody at the address: for good; the next one is looked for anew. */
static void test_nobody(void **state)
{
	struct sv_peer *peer = sv_peer_get(8), *later;
	int fd = listen_as(8, 8);

	(void)state;
	assert_true(peer && peer->state == SV_PEER_GONE && peer->watch.fd == -1);
	sv_peer_poke(peer);
	assert_int_equal(peer->state, SV_PEER_GONE);
	later = sv_peer_get(8);
	assert_true(later != peer && later->state == SV_PEER_ASKED);
	assert_ptr_equal(sv_peer_get(8), later);
	assert_int_equal(peer->refs, 1);
	sv_peer_put(peer);
	sv_peer_put(later);
	sv_peer_put(later);
	assert_int_equal(bare_free(), 2);
	close(fd);
}

/* Any of several links ends. */
static void test_several(void **state)
{
	struct sv_peer *peers[3];
	int fds[3];

	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		fds[i] = listen_as(20 + i, 8);
		peers[i] = sv_peer_get(20 + i);
		assert_int_equal(peers[i]->state, SV_PEER_ASKED);
	}
	sv_peer_put(peers[1]);
	assert_int_equal(bare_free(), 1);
	for (uint32_t i = 0; i < 3; i += 2) {
		assert_ptr_equal(sv_peer_get(20 + i), peers[i]);
		sv_peer_put(peers[i]);
		sv_peer_put(peers[i]);
	}
	assert_null(bare_proc.peers);
	for (int i = 0; i < 3; i++)
		close(fds[i]);
}

/* Its backlog is full: looked for again. */
static void test_backlog(void **state)
{
	int fd = listen_as(9, 0), before;
	struct sv_peer *first = sv_peer_get(9), *peer;

	(void)state;
	assert_int_equal(first->state, SV_PEER_ASKED);
	first->slot = 10; /* out of the way */
	before = bare_open();
	peer = sv_peer_get(9);
	assert_true(peer != first && peer->state == SV_PEER_NEW && peer->watch.fd == -1);
	assert_int_equal(bare_open(), before);
	theirs = accept(fd, NULL, NULL);
	assert_ptr_equal(sv_peer_get(9), peer);
	assert_int_equal(peer->state, SV_PEER_ASKED);
	sv_peer_put(peer);
	sv_peer_put(peer);
	sv_peer_put(first);
	close(fd);
}

/* It could not be greeted, or not be watched. */
static void test_no_greeting(void **state)
{
	int epoll_fd = bare_proc.epoll_fd;
	struct sv_peer *peer;

	(void)state;
	sends_nothing = true;
	peer = sv_peer_get(OTHER);
	sends_nothing = false;
	assert_int_equal(peer->state, SV_PEER_GONE);
	sv_peer_put(peer);
	bare_proc.epoll_fd = -1;
	peer = sv_peer_get(OTHER);
	assert_int_equal(peer->state, SV_PEER_GONE);
	sv_peer_put(peer);
	bare_proc.epoll_fd = epoll_fd;
	assert_int_equal(bare_free(), 2);
}

/* Descriptor 0 is a number as any. */
static void test_zero(void **state)
{
	int stdin_fd = dup(0);
	struct sv_peer *peer;

	(void)state;
	close(0);
	peer = sv_peer_get(OTHER);
	assert_true(peer->watch.fd == 0 && peer->state == SV_PEER_ASKED);
	sv_peer_put(peer);
	assert_int_equal(bare_free(), 1);
	assert_int_equal(dup2(stdin_fd, 0), 0);
	close(stdin_fd);
}

static void test_no_memory(void **state)
{
	struct sv_peer *peer;

	(void)state;
	has_no_memory = true;
	errno = 0;
	peer = sv_peer_get(OTHER);
	has_no_memory = false;
	assert_true(!peer && errno == ENOMEM && !bare_proc.peers);
}

/* Another user has taken the name. */
static void test_another_user(void **state)
{
	struct sv_peer *peer;
	int fd;

	(void)state;
	if (seteuid(65534))
		skip(); /* only root becomes somebody else */
	fd = listen_as(12, 8);
	assert_int_equal(seteuid(0), 0);
	peer = sv_peer_get(12);
	assert_int_equal(peer->state, SV_PEER_GONE);
	assert_int_equal(bare_turn(), 0);
	sv_peer_put(peer);
	close(fd);
}

/* ---- greetings that are none ---- */

static void test_bad_hello(void **state)
{
	static const struct {
		uint32_t abi, slot;
		int nfds;
		size_t ro_bytes, rw_bytes;
	} cases[] = {
		{ SV_ABI_VERSION + 1, OTHER, 3, SV_RO_BYTES, SV_RW_FILE_BYTES },
		{ SV_ABI_VERSION - 1, OTHER, 3, SV_RO_BYTES, SV_RW_FILE_BYTES },
		{ SV_ABI_VERSION, OTHER + 1, 3, SV_RO_BYTES, SV_RW_FILE_BYTES },
		{ SV_ABI_VERSION, OTHER, 2, SV_RO_BYTES, SV_RW_FILE_BYTES },
		{ SV_ABI_VERSION, OTHER, 0, SV_RO_BYTES, SV_RW_FILE_BYTES },
		{ SV_ABI_VERSION, OTHER, 3, SV_RO_BYTES - 1, SV_RW_FILE_BYTES },
		{ SV_ABI_VERSION, OTHER, 3, SV_RO_BYTES, SV_RW_FILE_BYTES - 1 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct sv_msg msg = { .type = SV_MSG_HELLO_OK, .abi = cases[i].abi,
				      .slot = cases[i].slot };
		struct sv_peer *peer = sv_peer_get(OTHER);
		int fds[3];

		call_back();
		make_tables(fds, cases[i].ro_bytes, cases[i].rw_bytes);
		assert_int_equal(sv_msg_send(theirs, &msg, fds, cases[i].nfds), 0);
		close_all(fds);
		check_ends(peer);
	}
	assert_int_equal(told_progress, 0);
}

static void test_hello_twice(void **state)
{
	struct sv_peer *peer = new_link();
	int fds[3];

	(void)state;
	make_tables(fds, SV_RO_BYTES, SV_RW_FILE_BYTES);
	send_fds(SV_MSG_HELLO_OK, 0, fds, 3);
	close_all(fds);
	check_ends(peer);
	assert_int_equal(told_progress, 1);
}

/* Before the link is up nothing but memory may come. */
static void test_too_early(void **state)
{
	static const uint32_t types[] = { SV_MSG_CHAN_OK, SV_MSG_ACCESS_OK, SV_MSG_JOIN_OK,
					  SV_MSG_GONE };
	struct sv_peer *peer;

	(void)state;
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		peer = sv_peer_get(OTHER);
		call_back();
		send_fd(types[i], MEM, sv_bell_open());
		check_ends(peer);
	}
	assert_int_equal(told_joined + told_progress + told_unmapped, 0);
	peer = sv_peer_get(OTHER);
	call_back();
	send_fd(SV_MSG_MAP_OK, MEM, sv_memfd("softverbs-given", BYTES));
	assert_int_equal(bare_turn(), 1);
	assert_true(told_progress == 1 && peer->state == SV_PEER_ASKED);
	assert_int_equal(bare_mapped("memfd:softverbs-given"), BYTES);
	sv_fd_close(theirs);
	theirs = -1;
	check_ends(peer);
}

/* What a peer asks, no answer: of a guest. */
static void test_questions(void **state)
{
	static const uint32_t types[] = { 0, SV_MSG_HELLO, SV_MSG_CHAN, SV_MSG_MAP, SV_MSG_STAGE,
					  SV_MSG_ACCESS, SV_MSG_JOIN, SV_MSG_PART, 14 };

	(void)state;
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		struct sv_peer *peer = new_link();

		send_fd(types[i], MEM, -1);
		check_ends(peer);
		told_progress = 0;
	}
}

#define ON_LINK(test) cmocka_unit_test_setup_teardown(test, far_begin, far_end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_LINK(test_up_and_away),  ON_LINK(test_self),	     ON_LINK(test_nobody),
		ON_LINK(test_several),	    ON_LINK(test_backlog),   ON_LINK(test_no_greeting),
		ON_LINK(test_zero),	    ON_LINK(test_no_memory), ON_LINK(test_another_user),
		ON_LINK(test_bad_hello),    ON_LINK(test_hello_twice), ON_LINK(test_too_early),
		ON_LINK(test_questions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
