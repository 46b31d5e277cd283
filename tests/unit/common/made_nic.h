/* SPDX-License-Identifier: BSD-2-Clause */
/* made_nic.h -- a device that is made up, and the verbs by which it is examined; one program. */
#ifndef TESTS_UNIT_COMMON_MADE_NIC_H
#define TESTS_UNIT_COMMON_MADE_NIC_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "common/verbs/verbs.h"

static struct ibv_device nic = { .name = "nic0" }, *nics[] = { &nic, NULL };
static struct ibv_context context = { .device = &nic };
static int nic_count;
static unsigned port_count;
static int lists, opened; /* that were not given back */
static bool opens, is_asked, port_is_asked;
static enum ibv_atomic_cap atomics;
static struct ibv_port_attr port, second_port;
static union ibv_gid gids[4];

static inline struct ibv_device **get_device_list(int *n)
{
	*n = nic_count;
	lists += nic_count >= 0;
	return nic_count < 0 ? NULL : nics;
}

static inline void free_device_list(struct ibv_device **list)
{
	assert_ptr_equal(list, nics);
	lists--;
}

static inline struct ibv_context *open_device(struct ibv_device *device)
{
	assert_ptr_equal(device, &nic);
	opened += opens;
	errno = EACCES;
	return opens ? &context : NULL;
}

static inline int close_device(struct ibv_context *ctx)
{
	assert_ptr_equal(ctx, &context);
	opened--;
	return 0;
}

static inline int query_device(struct ibv_context *ctx, struct ibv_device_attr *attr)
{
	(void)ctx;
	*attr = (struct ibv_device_attr){ .phys_port_cnt = (uint8_t)port_count, .atomic_cap = atomics };
	return !is_asked;
}

static inline int query_port(struct ibv_context *ctx, uint8_t number, struct ibv_port_attr *attr)
{
	static const struct ibv_port_attr empty;

	(void)ctx;
	assert_in_range(number, 1, port_count);
	assert_memory_equal(attr, &empty, sizeof empty); /* a driver may leave what it doesn't know */
	*attr = number == 1 ? port : second_port;
	return !port_is_asked;
}

static inline int query_gid(struct ibv_context *ctx, uint8_t number, int index, union ibv_gid *gid)
{
	(void)ctx;
	assert_in_range(index, 0, (number == 1 ? port : second_port).gid_tbl_len - 1);
	*gid = gids[index];
	return 0;
}

/* Of a struct verbs. */
#define VERBS_OF_NIC                                                                      \
	.get_device_list = get_device_list, .free_device_list = free_device_list,         \
	.open_device = open_device, .close_device = close_device,                         \
	.query_device = query_device, .query_port = query_port, .query_gid = query_gid

/* It is there, and all is well with it. */
static inline void nic_reset(void)
{
	nic_count = 1;
	port_count = 1;
	lists = opened = 0;
	opens = is_asked = port_is_asked = true;
	atomics = IBV_ATOMIC_HCA;
	port = (struct ibv_port_attr){ .state = IBV_PORT_ACTIVE, .link_layer = IBV_LINK_LAYER_ETHERNET,
				       .active_mtu = IBV_MTU_4096, .max_mtu = IBV_MTU_4096,
				       .gid_tbl_len = 3 };
	memset(gids, 1, sizeof gids);
	memset(&gids[1], 0, sizeof gids[1]); /* no address */
}

#endif
