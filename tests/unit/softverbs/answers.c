/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * common/softverbs/peer/peer.h: what each answer of a peer does on a link that is up, and whom a
 * notice of a completion wakes.
 */
#include "far.h"

/* So many at a time; all of them in the end. */
static void test_many(void **state)
{
	struct sv_peer *peer = new_link();

	(void)state;
	for (int i = 0; i < 65; i++)
		send_fd(SV_MSG_JOIN_OK, 0, -1);
	assert_int_equal(bare_turn(), 1);
	assert_int_equal(told_joined, 64);
	assert_int_equal(bare_turn(), 1);
	assert_int_equal(told_joined, 65);
	assert_int_equal(bare_turn(), 0);
	assert_true(sv_peer_up(peer));
	sv_peer_put(peer);
}

static void test_memory(void **state)
{
	const struct sv_msg ask = { .type = SV_MSG_ACCESS };
	struct sv_peer *peer = new_link();
	struct sv_map_hint hint;

	(void)state;
	send_fd(SV_MSG_MAP_OK, MEM, sv_memfd("softverbs-given", BYTES));
	send_fd(SV_MSG_MAP_OK, MEM + 1, -1);
	assert_int_equal(bare_turn(), 1);
	assert_int_equal(told_progress, 3);
	assert_int_equal(sv_maps_find(&peer->maps, -1, &ask, MEM, false, &hint), 0);
	assert_int_equal(sv_maps_find(&peer->maps, -1, &ask, MEM + 1, false, &hint), ENOTSUP);
	send_fd(SV_MSG_GONE, MEM, -1);
	assert_int_equal(bare_turn(), 1);
	assert_int_equal(told_unmapped, 1);
	assert_int_equal(bare_mapped("memfd:softverbs-given"), 0);
	assert_int_equal(sv_maps_find(&peer->maps, -1, &ask, MEM, false, &hint), EAGAIN);

	send_fd(SV_MSG_MAP_OK, MEM, sv_memfd("softverbs-given", BYTES));
	assert_int_equal(bare_turn(), 1);
	assert_int_equal(bare_mapped("memfd:softverbs-given"), BYTES);
	sv_peer_put(peer); /* with it, its mappings */
}

static void answer_access(uint32_t stage, uint32_t bytes)
{
	struct sv_msg msg = { .type = SV_MSG_ACCESS_OK, .stage = stage, .bytes = bytes };

	assert_int_equal(sv_msg_send(theirs, &msg, NULL, 0), 0);
	assert_int_equal(bare_turn(), 1);
}

/* Of a stage that there is, no longer than it: then the stage is free again. */
static void test_access(void **state)
{
	struct sv_peer *peer = new_link();
	struct sv_msg msg;
	uint8_t *data;

	(void)state;
	answer_access(0, 8);
	assert_int_equal(told_answered, 0); /* there was no stage yet */
	for (uint32_t i = 0; i < SV_STAGES; i++)
		assert_int_equal(sv_peer_stage_get(peer, &data), i);
	assert_int_equal(heard(&msg), SV_MSG_STAGE);
	answer_access(SV_STAGES, 8);
	answer_access(UINT32_MAX, 8);
	answer_access(3, SV_STAGE_BYTES + 1);
	assert_int_equal(told_answered, 0);
	assert_int_equal(sv_peer_stage_get(peer, &data), -1);
	answer_access(3, SV_STAGE_BYTES);
	assert_int_equal(told_answered, 1);
	assert_ptr_equal(answer_at, peer->stage + 3 * (size_t)SV_STAGE_BYTES);
	assert_int_equal(sv_peer_stage_get(peer, &data), 3);
	answer_access(SV_STAGES - 1, 0);
	assert_int_equal(told_answered, 2);
	assert_true(sv_peer_up(peer));
	sv_peer_put(peer);
}

/* ---- notices ---- */

/* The control thread of the other process has to do it; cleared for the next. */
static bool was_left_to_it(struct sv_peer *peer, uint32_t qp)
{
	bool left = atomic_exchange(&peer->rw->qp[qp].attention, 0) == SV_ATTN_NOTIFY;

	assert_int_equal(atomic_exchange(&peer->rw->attention.top, 0), left ? 1ull << qp / 64 : 0);
	assert_int_equal(atomic_exchange(&peer->rw->attention.word[qp / 64], 0),
			 left ? 1ull << qp % 64 : 0);
	assert_int_equal(bare_rang(peer->kick_fd), left);
	return left;
}

static void set_channel(uint32_t cq, uint32_t channel)
{
	const off_t at = (off_t)(offsetof(struct sv_ro, cq) + cq * sizeof(struct sv_ro_cq));

	assert_int_equal(pwrite(bare_proc.ro_fd, &channel, sizeof(channel), at), sizeof(channel));
}

/* As new_link(), with a table of theirs that can be written: bare_proc.ro_fd. */
static struct sv_peer *new_link_with_table(void)
{
	struct sv_peer *peer = sv_peer_get(OTHER);
	int fds[3];

	call_back();
	make_tables(fds, SV_RO_BYTES, SV_RW_FILE_BYTES);
	send_fds(SV_MSG_HELLO_OK, 0, fds, 3);
	bare_proc.ro_fd = fds[0];
	sv_fd_close(fds[1]);
	sv_fd_close(fds[2]);
	assert_int_equal(bare_turn(), 1);
	assert_true(sv_peer_up(peer));
	return peer;
}

/* The channel is asked for once; until it is there the other process's thread does it. */
static void test_notify(void **state)
{
	struct sv_peer *peer = new_link_with_table();
	struct sv_msg msg;
	int bell = sv_bell_open(), second = sv_bell_open();

	(void)state;
	set_channel(2, 50);
	set_channel(4, 51);
	for (int i = 0; i < 3; i++) {
		sv_peer_notify(peer, 70, 2);
		assert_true(was_left_to_it(peer, 70));
		assert_int_equal(heard(&msg), i ? 0 : SV_MSG_CHAN);
		assert_int_equal(msg.mem, 50);
	}
	send_fd(SV_MSG_CHAN_OK, 51, sv_bell_open()); /* nobody asked for it */
	send_fd(SV_MSG_CHAN_OK, 50, -1);
	assert_int_equal(bare_turn(), 1);
	sv_peer_notify(peer, 70, 2);
	assert_true(was_left_to_it(peer, 70));
	sv_peer_notify(peer, 9, 4);
	assert_true(was_left_to_it(peer, 9));
	assert_true(heard(&msg) == SV_MSG_CHAN && msg.mem == 51);

	send_fds(SV_MSG_CHAN_OK, 50, &bell, 1);
	send_fds(SV_MSG_CHAN_OK, 50, &second, 1); /* the first is it */
	assert_int_equal(bare_turn(), 1);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(peer->rw->cq[2].rung, i);
		sv_peer_notify(peer, 70, 2);
		assert_true(bare_rang(bell) && !bare_rang(second));
		assert_false(was_left_to_it(peer, 70));
	}
	assert_int_equal(heard(&msg), 0);
	sv_peer_notify(peer, 9, 4);
	assert_true(was_left_to_it(peer, 9) && !peer->rw->cq[4].rung);
	sv_fd_close(bell);
	sv_fd_close(second);
	sv_fd_close(bare_proc.ro_fd);
	sv_peer_put(peer);
}

/* One that is descriptor 0 is one. */
static void test_notify_zero(void **state)
{
	struct sv_peer *peer = new_link_with_table();
	int bell = sv_bell_open(), other = sv_bell_open(), stdin_fd = dup(0);

	(void)state;
	set_channel(2, 50);
	sv_peer_notify(peer, 70, 2);
	assert_true(was_left_to_it(peer, 70));
	send_fds(SV_MSG_CHAN_OK, 50, &bell, 1);
	send_fds(SV_MSG_CHAN_OK, 50, &other, 1);
	close(0);
	assert_int_equal(bare_turn(), 1);
	assert_int_equal(peer->chans->fd, 0);
	sv_peer_notify(peer, 70, 2);
	assert_true(bare_rang(bell) && !bare_rang(other));
	assert_false(was_left_to_it(peer, 70));
	sv_fd_close(bell);
	sv_fd_close(other);
	sv_fd_close(bare_proc.ro_fd);
	sv_peer_put(peer);
	assert_int_equal(bare_free(), 1);
	assert_int_equal(dup2(stdin_fd, 0), 0);
	close(stdin_fd);
}

#define ON_LINK(test) cmocka_unit_test_setup_teardown(test, far_begin, far_end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_LINK(test_many),   ON_LINK(test_memory),	 ON_LINK(test_access),
		ON_LINK(test_notify), ON_LINK(test_notify_zero),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
