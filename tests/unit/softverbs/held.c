/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * common/softverbs/peer/: while somebody holds the lock of a link or of its mappings, the others
 * wait.  Who holds it lets go of it when the one that waits gives its time away.
 */
#include "far.h"
#include "hold.h"

#define CHANNEL 0u /* of a completion queue whose table is empty */

static void test_link(void **state)
{
	struct sv_peer *peer = new_link();
	struct sv_msg msg;
	uint8_t *data;

	(void)state;
	hold(&peer->lock);
	sv_peer_poke(peer);
	check_waited();
	hold(&peer->lock);
	sv_peer_notify(peer, 1, 2);
	check_waited();
	assert_int_equal(heard(&msg), SV_MSG_CHAN);
	hold(&peer->lock);
	assert_int_equal(sv_peer_stage_get(peer, &data), 0);
	check_waited();
	hold(&peer->lock);
	sv_peer_stage_put(peer, 0);
	check_waited();
	hold(&peer->lock);
	send_fd(SV_MSG_CHAN_OK, CHANNEL, sv_bell_open());
	assert_int_equal(bare_turn(), 1);
	check_waited();
	sv_peer_put(peer);
}

static void test_mappings(void **state)
{
	const struct sv_msg ask = { .type = SV_MSG_ACCESS };
	struct sv_msg msg = { .type = SV_MSG_MAP_OK, .mem = MEM, .bytes64 = BYTES };
	int fd = sv_memfd("softverbs-given", BYTES);
	struct sv_maps maps = { 0 };
	struct sv_map_hint hint;

	(void)state;
	hold(&maps.lock);
	sv_maps_answered(&maps, &msg, fd);
	check_waited();
	hold(&maps.lock);
	assert_int_equal(sv_maps_find(&maps, -1, &ask, MEM, false, &hint), 0);
	check_waited();
	hold(&maps.lock);
	sv_maps_free(sv_maps_take_out(&maps, MEM));
	check_waited();
	sv_fd_close(fd);
}

#define ON_LINK(test) cmocka_unit_test_setup_teardown(test, far_begin, far_end)

int main(void)
{
	const struct CMUnitTest tests[] = { ON_LINK(test_link), ON_LINK(test_mappings) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
