/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * common/softverbs/peer/: when a mapping is asked for and asked for again, what an answer makes of
 * it, and staging memory; the other process is the far end of a socket pair.
 */
#include "bare.h"
#include <sys/mman.h>
#include "common/softverbs/base/fd.h"
#include "common/softverbs/base/proc.h"
#include "common/softverbs/peer/map.h"
#include "common/softverbs/peer/peer.h"

#define MEM 7u
#define BYTES 8192u

static int ends[2], before; /* a link; bare_open() */

static int begin(void **state)
{
	(void)state;
	before = bare_open();
	return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends);
}

static int end(void **state)
{
	(void)state;
	close(ends[0]);
	if (ends[1] >= 0)
		close(ends[1]);
	return bare_open() != before || bare_mapped("memfd:") ? -1 : 0;
}

static int find(struct sv_maps *maps, bool write, struct sv_map_hint *hint)
{
	const struct sv_msg ask = { .type = SV_MSG_ACCESS, .index = 3, .rkey = 99 };

	return sv_maps_find(maps, ends[0], &ask, MEM, write, hint);
}

/* Whether the other end was asked for the memory with that right, once. */
static bool was_asked(bool write)
{
	int fds[SV_MSG_FDS], nfds;
	struct sv_msg msg;

	if (sv_msg_recv(ends[1], &msg, fds, &nfds))
		return false;
	assert_int_equal(msg.type, SV_MSG_MAP);
	assert_int_equal(msg.mem, MEM);
	assert_int_equal(msg.write, write);
	assert_true(msg.index == 3 && msg.rkey == 99 && !nfds);
	return true;
}

static void answer(struct sv_maps *maps, bool write, uint32_t status)
{
	struct sv_msg msg = { .type = SV_MSG_MAP_OK, .mem = MEM, .write = write,
			      .status = status, .bytes64 = BYTES };
	int fd = status ? -1 : sv_memfd("links", BYTES);

	sv_maps_answered(maps, &msg, fd);
	sv_fd_close(fd);
}

/* Asked for once, not with each request that waits for it; each right by itself. */
static void test_asked_once(void **state)
{
	struct sv_maps maps = { 0 };
	struct sv_map_hint hint = { 0 };

	(void)state;
	assert_int_equal(find(&maps, false, &hint), EAGAIN);
	assert_true(was_asked(false));
	assert_int_equal(find(&maps, false, &hint), EAGAIN);
	assert_false(was_asked(false));
	assert_int_equal(find(&maps, true, &hint), EAGAIN);
	assert_true(was_asked(true));
	assert_null(hint.base);
	sv_maps_free(maps.list);
}

/* A refusal for good is remembered; after another it is asked for at the next try. */
static void test_refused(void **state)
{
	struct sv_maps maps = { 0 };
	struct sv_map_hint hint;

	(void)state;
	for (int i = 0; i < 3; i++) {
		assert_int_equal(find(&maps, false, &hint), EAGAIN);
		assert_true(was_asked(false));
		answer(&maps, false, EACCES);
	}
	answer(&maps, false, ENOTSUP);
	assert_int_equal(find(&maps, false, &hint), ENOTSUP);
	assert_int_equal(find(&maps, false, &hint), ENOTSUP);
	assert_false(was_asked(false));
	sv_maps_free(maps.list);
}

/* What comes before it is asked for is used; the right to write includes that to read. */
static void test_answered(void **state)
{
	struct sv_map_hint hint, first;
	struct sv_maps maps = { 0 };

	(void)state;
	answer(&maps, true, 0);
	assert_int_equal(find(&maps, true, &first), 0);
	assert_true(first.mem == MEM && first.write && first.base && first.size_bytes == BYTES);
	first.base[BYTES - 1] = 5;
	assert_int_equal(find(&maps, false, &hint), 0);
	assert_true(hint.write && hint.base == first.base);
	answer(&maps, true, 0);	     /* once more: the first stays */
	answer(&maps, true, EACCES); /* and is not asked for anew */
	assert_int_equal(find(&maps, true, &hint), 0);
	assert_true(hint.base == first.base && hint.base[BYTES - 1] == 5);
	assert_false(was_asked(true));
	sv_maps_free(maps.list);
}

/* Both mappings of it go, and what came on descriptor 0 too. */
static void test_taken_out_all(void **state)
{
	const struct sv_msg msg = { .type = SV_MSG_MAP_OK, .mem = MEM, .bytes64 = BYTES };
	struct sv_maps maps = { 0 };
	struct sv_map_hint hint;
	int stdin_fd = dup(0);

	(void)state;
	close(0);
	assert_int_equal(sv_memfd("links", BYTES), 0);
	sv_maps_answered(&maps, &msg, 0);
	assert_int_equal(find(&maps, false, &hint), 0);
	sv_fd_close(0);
	assert_int_equal(dup2(stdin_fd, 0), 0);
	close(stdin_fd);
	answer(&maps, true, 0);
	assert_int_equal(bare_mapped("memfd:links"), 2 * BYTES);
	sv_maps_free(sv_maps_take_out(&maps, MEM));
	assert_int_equal(bare_mapped("memfd:links"), 0);
	assert_null(maps.list);
}

/* Memory that is gone is asked for again, with all rights; other memory stays. */
static void test_taken_out(void **state)
{
	struct sv_map_hint hint;
	struct sv_maps maps = { 0 };

	(void)state;
	answer(&maps, false, 0);
	assert_int_equal(find(&maps, false, &hint), 0);
	assert_false(hint.write);
	assert_int_equal(find(&maps, true, &hint), EAGAIN);
	assert_true(was_asked(true));
	assert_null(sv_maps_take_out(&maps, MEM + 1));
	assert_int_equal(find(&maps, false, &hint), 0);
	sv_maps_free(sv_maps_take_out(&maps, MEM));
	assert_null(maps.list);
	assert_int_equal(find(&maps, false, &hint), EAGAIN);
	assert_true(was_asked(false));
	sv_maps_free(maps.list);
}

/* ---- staging memory ---- */

static void test_stages(void **state)
{
	struct sv_peer peer = { .watch.fd = ends[0] };
	int fds[SV_MSG_FDS], nfds;
	uint8_t *data, *other, seen = 0;
	struct sv_msg msg;

	(void)state;
	for (uint32_t i = 0; i < SV_STAGES; i++) {
		int stage = sv_peer_stage_get(&peer, &data);

		assert_in_range(stage, 0, SV_STAGES - 1);
		assert_ptr_equal(data, peer.stage + (size_t)stage * SV_STAGE_BYTES);
		data[SV_STAGE_BYTES - 1] = 1;
		seen |= (uint8_t)(1u << stage);
	}
	assert_int_equal(seen, 0xff);
	assert_int_equal(sv_peer_stage_get(&peer, &data), -1);
	sv_peer_stage_put(&peer, 5);
	assert_int_equal(sv_peer_stage_get(&peer, &data), 5);
	assert_int_equal(sv_peer_stage_get(&peer, &data), -1);

	assert_int_equal(sv_msg_recv(ends[1], &msg, fds, &nfds), 0);
	assert_true(msg.type == SV_MSG_STAGE && nfds == 1);
	other = sv_map_received(fds[0], SV_STAGES * SV_STAGE_BYTES, true);
	assert_non_null(other);
	assert_int_equal(other[SV_STAGES * SV_STAGE_BYTES - 1], 1);
	sv_fd_close(fds[0]);
	assert_int_equal(sv_msg_recv(ends[1], &msg, fds, &nfds), EAGAIN);
	munmap(other, SV_STAGES * SV_STAGE_BYTES);
	munmap(peer.stage, SV_STAGES * SV_STAGE_BYTES);
}

/* That can't be handed over is none. */
static void test_no_stage(void **state)
{
	struct sv_peer peer = { .watch.fd = ends[0] };
	uint8_t *data = NULL;

	(void)state;
	close(ends[1]);
	ends[1] = -1;
	assert_int_equal(sv_peer_stage_get(&peer, &data), -1);
	assert_true(!data && !peer.stage);
	assert_int_equal(sv_peer_stage_get(&peer, &data), -1);
}

#define ON_LINK(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_LINK(test_asked_once), ON_LINK(test_refused), ON_LINK(test_answered),
		ON_LINK(test_taken_out),  ON_LINK(test_stages),	 ON_LINK(test_no_stage),
		ON_LINK(test_taken_out_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
