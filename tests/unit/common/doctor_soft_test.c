/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * common/rdma/doctor.h: what is said of the software device, on a machine that has no other one: what is of
 * no use to it (GIDs, NUMA nodes, PCI Express) is not looked at.  The verbs are this file's, and so is the
 * number of NUMA nodes (--wrap of fopen()).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "common/rdma/doctor.h"
#include "common/verbs/verbs.h"
#include "tests/unit/server/wrap_fopen.h"

FILE *WRAP_FOPEN(const char *path, const char *mode)
{
	static char nodes[] = "0-1\n";

	if (strcmp(path, "/sys/devices/system/node/online") == 0)
		return fmemopen(nodes, strlen(nodes), "r");
	return REAL_FOPEN(path, mode);
}

static struct ibv_device device = { .name = "made0" };
static struct ibv_context context = { .device = &device };
static int lists, opened; /* that were not given back */
static enum ibv_port_state port_state;

static struct ibv_device **no_device_list(int *n)
{
	*n = 0;
	return NULL;
}

static struct ibv_device **get_device_list(int *n)
{
	static struct ibv_device *list[] = { &device, NULL };

	*n = 1;
	lists++;
	return list;
}

static void free_device_list(struct ibv_device **list)
{
	assert_ptr_equal(list[0], &device);
	lists--;
}

static struct ibv_context *open_device(struct ibv_device *of)
{
	assert_ptr_equal(of, &device);
	opened++;
	return &context;
}

static int close_device(struct ibv_context *ctx)
{
	assert_ptr_equal(ctx, &context);
	opened--;
	return 0;
}

static int query_device(struct ibv_context *ctx, struct ibv_device_attr *attr)
{
	(void)ctx;
	*attr = (struct ibv_device_attr){ .phys_port_cnt = 1, .atomic_cap = IBV_ATOMIC_GLOB };
	return 0;
}

static int query_port(struct ibv_context *ctx, uint8_t number, struct ibv_port_attr *attr)
{
	static const struct ibv_port_attr empty;

	(void)ctx;
	assert_int_equal(number, 1);
	assert_memory_equal(attr, &empty, sizeof empty); /* a driver may leave what it doesn't know */
	attr->state = port_state;
	attr->link_layer = IBV_LINK_LAYER_ETHERNET;
	attr->active_mtu = attr->max_mtu = IBV_MTU_4096;
	attr->gid_tbl_len = 1;
	return 0;
}

static int query_gid(struct ibv_context *ctx, uint8_t number, int index, union ibv_gid *gid)
{
	(void)ctx, (void)number, (void)index;
	memset(gid, 1, sizeof *gid);
	return 0;
}

const struct verbs verbs_system = { .name = "system", .get_device_list = no_device_list };
static const struct verbs soft = { .name = "soft", .soft = true, .get_device_list = get_device_list,
				   .free_device_list = free_device_list, .open_device = open_device,
				   .close_device = close_device, .query_device = query_device,
				   .query_port = query_port, .query_gid = query_gid };
const struct verbs *const verbs_soft = &soft;

/* What is said of the device, and of devices; how often something is wrong. */
static char of_it[1024], of_all[1024];
static unsigned wrong;

static void hear(void *arg, const char *mark, const char *what, const char *text)
{
	char *to = !strcmp(what, device.name) ? of_it : !strcmp(what, "devices") ? of_all : NULL;

	assert_ptr_equal(arg, &device);
	wrong += !strcmp(mark, "FIX");
	if (to)
		snprintf(to + strlen(to), sizeof of_it - strlen(to), "%s: %s\n", mark, text);
	/* A firewall and the kernel's modules are in no software device's way. */
	assert_string_not_equal(what, "firewall");
	assert_string_not_equal(what, "ib_uverbs");
}

static void examine(void)
{
	unsigned findings;

	of_it[0] = of_all[0] = '\0';
	wrong = 0;
	findings = doctor_examine_each(hear, &device, 0);
	assert_int_equal(findings, wrong);
	assert_int_equal(lists, 0);
	assert_int_equal(opened, 0);
	assert_string_equal(of_all, "note: no RDMA device; Soft-RoCE makes one: modprobe rdma_rxe; "
			    "rdma link add rxe0 type rxe netdev IFACE\n");
}

static void test_of_the_software_device(void **state)
{
	(void)state;
	port_state = IBV_PORT_ACTIVE;
	examine();
	assert_string_equal(of_it, "ok: port 1: active, Ethernet\n"
			    "ok: port 1: MTU 4096 of 4096\n"
			    "ok: atomics, with CPUs and other devices too\n");
	port_state = IBV_PORT_DOWN;
	examine();
	assert_string_equal(of_it, "FIX: port 1 is down: ip link set IFACE up, look at the cable\n"
			    "ok: atomics, with CPUs and other devices too\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_of_the_software_device),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
