/* SPDX-License-Identifier: BSD-2-Clause */
/* common/bootstrap/path.h: the device, port and GID of an id that is introduced over TCP, and what its queue
 * pair is told of the other end.  The devices are this file's. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "common/bootstrap/path.h"

#define GIDS 4

static struct ibv_device devices[2] = { { .name = "kvd_test_0" }, { .name = "kvd_test_1" } };
static struct ibv_context contexts[4];
static unsigned opened, lists, gone; /* contexts below `gone` answer no more */
static bool is_closed_to_us;
static struct ibv_port_attr port;
static uint8_t asked_port;
static int port_error;
static union ibv_gid gids[GIDS];

static struct ibv_device **get_device_list(int *n)
{
	static struct ibv_device *list[3];

	list[0] = &devices[0];
	list[1] = &devices[1];
	if (n)
		*n = 2;
	lists++;
	return list;
}

static void free_device_list(struct ibv_device **list)
{
	assert_ptr_equal(list[1], &devices[1]);
	lists--;
}

static struct ibv_context *open_device(struct ibv_device *device)
{
	if (is_closed_to_us) {
		errno = EACCES;
		return NULL;
	}
	assert_true(opened < 4);
	contexts[opened].device = device;
	return &contexts[opened++];
}

static int query_device(struct ibv_context *ctx, struct ibv_device_attr *attr)
{
	(void)attr;
	assert_non_null(ctx);
	return ctx < contexts + gone ? EIO : 0;
}

static int query_port(struct ibv_context *ctx, uint8_t number, struct ibv_port_attr *attr)
{
	(void)ctx;
	asked_port = number;
	*attr = port;
	return port_error;
}

static int query_gid(struct ibv_context *ctx, uint8_t number, int index, union ibv_gid *gid)
{
	(void)ctx;
	assert_int_equal(number, asked_port);
	if (index >= GIDS) {
		errno = EINVAL;
		return -1;
	}
	*gid = gids[index];
	return 0;
}

static const struct verbs verbs = { .get_device_list = get_device_list, .free_device_list = free_device_list,
				    .open_device = open_device, .query_device = query_device,
				    .query_port = query_port, .query_gid = query_gid };

/* Who has been a path of an earlier test is known still, so each test takes a table of its own. */
static struct verbs own[10];
static unsigned tests;
static struct bootstrap_path path;

static int set_up(void **state)
{
	(void)state;
	own[tests] = verbs;
	path = (struct bootstrap_path){ .base = &own[tests++], .device = { .name = "kvd_test_1", .gid_index = -1 } };
	port = (struct ibv_port_attr){ .state = IBV_PORT_ACTIVE, .active_mtu = IBV_MTU_2048, .lid = 9,
				       .gid_tbl_len = GIDS, .link_layer = IBV_LINK_LAYER_ETHERNET };
	port_error = 0;
	is_closed_to_us = false;
	opened = gone = lists = 0;
	memset(gids, 0, sizeof gids);
	gids[1].raw[0] = 0xfe; /* of the link only */
	gids[1].raw[1] = 0x80;
	gids[2].raw[15] = gids[3].raw[15] = 7;
	gids[3].raw[0] = 1;
	return 0;
}

static void test_opened_once(void **state)
{
	struct bootstrap_path other = path;

	(void)state;
	assert_int_equal(bootstrap_path_open(&path), 0);
	assert_string_equal(path.ctx->device->name, "kvd_test_1");
	assert_int_equal(bootstrap_path_open(&other), 0);
	assert_ptr_equal(other.ctx, path.ctx);
	assert_int_equal(opened, 1);
	strcpy(other.device.name, "kvd_test_0");
	assert_int_equal(bootstrap_path_open(&other), 0);
	assert_string_equal(other.ctx->device->name, "kvd_test_0");
	assert_int_equal(opened, 2);
	other = path;
	assert_int_equal(bootstrap_path_open(&other), 0);
	assert_int_equal(opened, 2);
	/* One that was taken away, and is back. */
	gone = 1;
	other = path;
	assert_int_equal(bootstrap_path_open(&other), 0);
	assert_ptr_equal(other.ctx, &contexts[2]);
	assert_int_equal(bootstrap_path_open(&other), 0);
	assert_int_equal(opened, 3);
	strcpy(other.device.name, "kvd_test_2");
	assert_int_equal(bootstrap_path_open(&other), -1);
	assert_int_equal(errno, ENODEV);
	assert_int_equal(opened, 3);
	assert_int_equal(lists, 0);
}

/* One that can't be opened may be later; a device of another table is another one, whatever its name. */
static void test_opened_later(void **state)
{
	struct bootstrap_path other = path;

	(void)state;
	is_closed_to_us = true;
	assert_int_equal(bootstrap_path_open(&path), -1);
	assert_int_equal(errno, EACCES);
	assert_null(path.ctx);
	assert_int_equal(lists, 0);
	is_closed_to_us = false;
	assert_int_equal(bootstrap_path_open(&path), 0);
	assert_ptr_equal(path.ctx, &contexts[0]);
	own[tests] = verbs;
	other.base = &own[tests++];
	assert_int_equal(bootstrap_path_open(&other), 0);
	assert_ptr_equal(other.ctx, &contexts[1]);
}

static void test_port(void **state)
{
	(void)state;
	assert_int_equal(bootstrap_path_open(&path), 0);
	assert_int_equal(asked_port, 1);
	assert_int_equal(path.port, 1);
	path.device.port = 3;
	assert_int_equal(bootstrap_path_open(&path), 0);
	assert_int_equal(asked_port, 3);
	assert_int_equal(path.port, 3);
	port.state = IBV_PORT_DOWN;
	assert_int_equal(bootstrap_path_open(&path), -1);
	assert_int_equal(errno, ENETDOWN);
	port_error = EINVAL;
	assert_int_equal(bootstrap_path_open(&path), -1);
	assert_int_equal(errno, EINVAL);
}

/* One with an address goes before one of the link; an empty one is none; InfiniBand's is the first. */
static void test_gid(void **state)
{
	(void)state;
	assert_int_equal(bootstrap_path_open(&path), 0);
	assert_int_equal(path.gid_index, 2);
	assert_memory_equal(path.gid.raw, gids[2].raw, 16);
	memset(&gids[2], 0, 2 * sizeof gids[2]);
	assert_int_equal(bootstrap_path_open(&path), 0);
	assert_int_equal(path.gid_index, 1);
	path.device.gid_index = 3;
	assert_int_equal(bootstrap_path_open(&path), 0);
	assert_int_equal(path.gid_index, 3);
	path.device.gid_index = GIDS;
	assert_int_equal(bootstrap_path_open(&path), -1);
	assert_int_equal(errno, EINVAL);
	path.device.gid_index = -1;
	port.link_layer = IBV_LINK_LAYER_INFINIBAND;
	assert_int_equal(bootstrap_path_open(&path), 0);
	assert_int_equal(path.gid_index, 0);
	own[tests - 1].soft = true;
	port.link_layer = IBV_LINK_LAYER_ETHERNET;
	assert_int_equal(bootstrap_path_open(&path), 0);
	assert_int_equal(path.gid_index, 0);
}

static void test_what_is_told(void **state)
{
	struct wire_bootstrap m = { 0 };
	struct bootstrap_path again;
	unsigned same = 0;

	(void)state;
	assert_int_equal(bootstrap_path_open(&path), 0);
	bootstrap_path_tell(&path, &m);
	assert_int_equal(m.link_layer, WIRE_BOOTSTRAP_ETHERNET);
	assert_int_equal(m.lid, 9);
	assert_int_equal(m.mtu, IBV_MTU_2048);
	assert_int_equal(m.psn, path.psn);
	assert_memory_equal(m.gid, gids[2].raw, 16);
	/* Packet numbers are drawn, of 24 bits. */
	for (unsigned i = 0; i < 64; i++) {
		assert_int_equal(bootstrap_path_again(&again, &path), 0);
		assert_true(again.psn < 1u << 24);
		assert_ptr_equal(again.ctx, path.ctx);
		same += again.psn == path.psn;
	}
	assert_true(same < 4);
	/* Who connects draws its own, too. */
	again = path;
	for (unsigned i = 0; i < 64; i++) {
		assert_int_equal(bootstrap_path_open(&again), 0);
		assert_true(again.psn < 1u << 24);
		same += again.psn == path.psn;
	}
	assert_true(same < 8);
	port.link_layer = IBV_LINK_LAYER_INFINIBAND;
	assert_int_equal(bootstrap_path_again(&again, &path), 0);
	bootstrap_path_tell(&again, &m);
	assert_int_equal(m.link_layer, WIRE_BOOTSTRAP_INFINIBAND);
}

static struct ibv_qp_attr attr_for(enum ibv_qp_state to, const struct wire_bootstrap *peer)
{
	struct ibv_qp_attr attr = { .qp_state = to };
	int mask = 0;

	assert_int_equal(bootstrap_path_attr(&path, peer, &attr, &mask), 0);
	assert_true(mask & IBV_QP_STATE);
	return attr;
}

static void test_queue_pair(void **state)
{
	struct wire_bootstrap peer = { .qpn = 77, .psn = 5, .lid = 4, .mtu = IBV_MTU_1024, .initiator_depth = 3,
				       .responder_resources = 2, .gid = { 1, 2, 3 } };
	struct ibv_qp_attr attr;
	int mask;

	(void)state;
	path.device.pkey_index = 6;
	path.device.port = 2;
	assert_int_equal(bootstrap_path_open(&path), 0);
	attr = attr_for(IBV_QPS_INIT, &peer);
	assert_int_equal(attr.port_num, 2);
	assert_int_equal(attr.pkey_index, 6);
	attr = attr_for(IBV_QPS_RTR, &peer);
	assert_int_equal(attr.path_mtu, IBV_MTU_1024);
	assert_int_equal(attr.dest_qp_num, 77);
	assert_int_equal(attr.rq_psn, 5);
	assert_int_equal(attr.max_dest_rd_atomic, 3);
	assert_int_equal(attr.ah_attr.port_num, 2);
	assert_int_equal(attr.ah_attr.dlid, 4);
	assert_int_equal(attr.ah_attr.is_global, 1);
	assert_int_equal(attr.ah_attr.grh.sgid_index, 2);
	assert_int_equal(attr.ah_attr.grh.hop_limit, 64);
	assert_memory_equal(attr.ah_attr.grh.dgid.raw, peer.gid, 16);
	peer.mtu = IBV_MTU_4096;
	assert_int_equal(attr_for(IBV_QPS_RTR, &peer).path_mtu, IBV_MTU_2048);
	attr = attr_for(IBV_QPS_RTS, &peer);
	assert_int_equal(attr.sq_psn, path.psn);
	assert_int_equal(attr.max_rd_atomic, 2);
	attr.qp_state = IBV_QPS_SQD;
	assert_int_equal(bootstrap_path_attr(&path, &peer, &attr, &mask), -1);
	assert_int_equal(errno, EINVAL);
}

/* Within a subnet of InfiniBand LIDs do, unless the user wants a certain GID, or there is none. */
static void test_infiniband(void **state)
{
	struct wire_bootstrap peer = { .lid = 4, .mtu = IBV_MTU_1024 };

	(void)state;
	port.link_layer = IBV_LINK_LAYER_INFINIBAND;
	assert_int_equal(bootstrap_path_open(&path), 0);
	assert_int_equal(attr_for(IBV_QPS_RTR, &peer).ah_attr.is_global, 0);
	peer.lid = 0;
	assert_int_equal(attr_for(IBV_QPS_RTR, &peer).ah_attr.is_global, 1);
	peer.lid = 4;
	path.device.gid_index = 0;
	assert_int_equal(bootstrap_path_open(&path), 0);
	assert_int_equal(attr_for(IBV_QPS_RTR, &peer).ah_attr.is_global, 1);
	path.device.gid_index = 3;
	assert_int_equal(bootstrap_path_open(&path), 0);
	assert_int_equal(attr_for(IBV_QPS_RTR, &peer).ah_attr.is_global, 1);
	assert_int_equal(attr_for(IBV_QPS_RTR, &peer).ah_attr.grh.sgid_index, 3);
}

int main(void)
{
	const struct CMUnitTest all[] = {
		cmocka_unit_test_setup(test_opened_once, set_up),
		cmocka_unit_test_setup(test_opened_later, set_up),
		cmocka_unit_test_setup(test_port, set_up),
		cmocka_unit_test_setup(test_gid, set_up),
		cmocka_unit_test_setup(test_what_is_told, set_up),
		cmocka_unit_test_setup(test_queue_pair, set_up),
		cmocka_unit_test_setup(test_infiniband, set_up),
	};

	return cmocka_run_group_tests(all, NULL, NULL);
}
