/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * common/rdma/doctor.h: what is said of the software device, on a machine that has no other one: what is of
 * no use to it (GIDs, NUMA nodes, PCI Express) is not looked at.  The verbs are made_nic.h's, and the number
 * of NUMA nodes is this file's (--wrap of fopen()).
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
#include "tests/unit/common/made_nic.h"
#include "tests/unit/server/wrap_fopen.h"

FILE *WRAP_FOPEN(const char *path, const char *mode)
{
	static char nodes[] = "0-1\n";

	if (strcmp(path, "/sys/devices/system/node/online") == 0)
		return fmemopen(nodes, strlen(nodes), "r");
	return REAL_FOPEN(path, mode);
}

static struct ibv_device **no_device_list(int *n)
{
	*n = 0;
	return NULL;
}

const struct verbs verbs_system = { .name = "system", .get_device_list = no_device_list };
static const struct verbs soft = { .name = "soft", .soft = true, VERBS_OF_NIC };
const struct verbs *const verbs_soft = &soft;

/* What is said of the device, and of devices; how often something is wrong. */
static char of_it[1024], of_all[1024];
static unsigned wrong;

static void hear(void *arg, const char *mark, const char *what, const char *text)
{
	char *to = !strcmp(what, nic.name) ? of_it : !strcmp(what, "devices") ? of_all : NULL;

	assert_ptr_equal(arg, &nic);
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
	findings = doctor_examine_each(hear, &nic, 0);
	assert_int_equal(findings, wrong);
	assert_int_equal(lists, 0);
	assert_int_equal(opened, 0);
	assert_string_equal(of_all, "note: no RDMA device; Soft-RoCE makes one: modprobe rdma_rxe; "
			    "rdma link add rxe0 type rxe netdev IFACE\n");
}

static void test_of_the_software_device(void **state)
{
	(void)state;
	nic_reset();
	atomics = IBV_ATOMIC_GLOB;
	examine();
	assert_string_equal(of_it, "ok: port 1: active, Ethernet\n"
			    "ok: port 1: MTU 4096 of 4096\n"
			    "ok: atomics, with CPUs and other devices too\n");
	port.state = IBV_PORT_DOWN;
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
