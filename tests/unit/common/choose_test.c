/* SPDX-License-Identifier: BSD-2-Clause */
/* common/rdma/device.h: which device it is, by name, GUID or address, and with which options, on machines
 * that have none, one, or several. */
#include <endian.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/addr.h"
#include "common/rdma/device.h"

#define DEVICES_MAX 3

/* By --wrap: the system's devices. */
struct ibv_device **__wrap_ibv_get_device_list(int *n);
void __wrap_ibv_free_device_list(struct ibv_device **list);
__be64 __wrap_ibv_get_device_guid(struct ibv_device *device);

static struct ibv_device devices[DEVICES_MAX] = { { .name = "mlx5_0" }, { .name = "mlx5_1" }, { .name = "bnxt_0" } };
static struct ibv_device *listed[DEVICES_MAX + 1];
static int count;  /* below 0: the list can't be had */
static int lists; /* that were not given back */

struct ibv_device **__wrap_ibv_get_device_list(int *n)
{
	memset(listed, 0, sizeof listed);
	for (int i = 0; i < count; i++)
		listed[i] = &devices[i];
	if (n && count >= 0)
		*n = count;
	lists += count >= 0;
	return count < 0 ? NULL : listed;
}

void __wrap_ibv_free_device_list(struct ibv_device **list)
{
	assert_ptr_equal(list, listed);
	lists--;
}

__be64 __wrap_ibv_get_device_guid(struct ibv_device *device)
{
	assert_non_null(device);
	return htobe64(device == &devices[2] ? 0xabcdef0123456789 : 0x0002c90300010200 + (uint64_t)(device - devices));
}

static struct device device;
static struct addr here, there;
static struct err err;

static int set_up(void **state)
{
	(void)state;
	unsetenv("KVD_BOOTSTRAP");
	strcpy(devices[0].name, "mlx5_0");
	lists = 0;
	err.text[0] = '\0';
	return addr_parse(&here, "127.0.0.1:1", &err) || addr_parse(&there, "192.0.2.1:1", &err);
}

static int tear_down(void **state)
{
	(void)state;
	return lists != 0;
}

static void is_chosen(const char *name, const struct addr *addr, const char *line)
{
	if (device_choose(&device, name, addr, &err))
		fail_msg("%s: %s", name ? name : "no name", err.text);
	if (!strstr(device.line, line))
		fail_msg("'%s' instead of '%s'", device.line, line);
}

static void is_refused(const char *name, const char *why)
{
	assert_int_equal(device_choose(&device, name, &there, &err), -1);
	if (!strstr(err.text, why))
		fail_msg("'%s' instead of '%s'", err.text, why);
}

static void test_by_name(void **state)
{
	(void)state;
	count = 3;
	is_chosen("mlx5_1", &there, "RDMA device mlx5_1 (named by --device)");
	assert_string_equal(device.name, "mlx5_1");
	assert_ptr_equal(device.verbs, &verbs_system);
	is_chosen("mlx5_0", &here, "RDMA device mlx5_0 (named by --device)");
	is_refused("mlx5_2", "there is no RDMA device 'mlx5_2' (there are: mlx5_0, mlx5_1, bnxt_0; 'soft'");
	is_refused("mlx5_", "there is no RDMA device");
	count = 0;
	is_refused("mlx5_0", "(there are: none;");
	count = -1;
	is_refused("mlx5_0", "(there are: none;");
}

/* By the GUID that tools print, with colons and without. */
static void test_by_guid(void **state)
{
	(void)state;
	count = 3;
	is_chosen("0002:c903:0001:0201", &there, "RDMA device mlx5_1 ");
	assert_string_equal(device.name, "mlx5_1");
	is_chosen("0002:c903:0001:0200", &there, "RDMA device mlx5_0 ");
	is_chosen("ABCDEF0123456789", &there, "RDMA device bnxt_0 ");
	is_chosen("abcd:ef01:2345:6789", &there, "RDMA device bnxt_0 ");
	is_refused("0002:c903:0001:0209", "there is no RDMA device '0002:c903:0001:0209'");
	is_refused("0002:c903:0001:020", "there is no RDMA device");
	is_refused("0002:c903:0001:02010", "there is no RDMA device");
	is_refused("0002:c903:0001:020g", "there is no RDMA device");
	count = -1;
	is_refused("0002:c903:0001:0201", "(there are: none;");
}

static void test_by_address(void **state)
{
	(void)state;
	count = 2;
	is_chosen(NULL, &there, "RDMA device of 192.0.2.1:1");
	assert_ptr_equal(device.verbs, &verbs_system);
	assert_string_equal(device.name, "");
	is_chosen("", &there, "RDMA device of 192.0.2.1:1");
	if (!verbs_soft) {
		assert_int_equal(device_choose(&device, NULL, &here, &err), -1);
		assert_non_null(strstr(err.text, "this build has none"));
		return;
	}
	is_chosen(NULL, &here, "software device soft0 (loopback address)");
	assert_ptr_equal(device.verbs, verbs_soft);
	is_chosen("soft", &there, "software device soft0 (named by --device)");
	assert_string_equal(device.name, "soft0");
	is_chosen("soft0", &there, "software device soft0 (named by --device)");
	count = 0;
	is_chosen(NULL, &there, "software device soft0 (this machine has no RDMA device)");
}

static void test_options(void **state)
{
	(void)state;
	count = 1;
	is_chosen("mlx5_0", &there, "mlx5_0");
	assert_int_equal(device.tuning.ack_timeout, DEVICE_UNSET);
	assert_int_equal(device.tuning.retries, DEVICE_UNSET);
	assert_int_equal(device.tuning.service_level, DEVICE_UNSET);
	assert_int_equal(device.tuning.traffic_class, DEVICE_UNSET);
	assert_false(device.bootstrap);
	is_chosen("mlx5_0,ack-timeout=31,retries=0,sl=15,tc=0xff", &there, "mlx5_0");
	assert_int_equal(device.tuning.ack_timeout, 31);
	assert_int_equal(device.tuning.retries, 0);
	assert_int_equal(device.tuning.service_level, 15);
	assert_int_equal(device.tuning.traffic_class, 255);
	is_chosen("mlx5_0,sl=0,tc=0,bootstrap=tcp,gid=0,pkey=0", &there, "mlx5_0");
	assert_int_equal(device.tuning.service_level, 0);
	assert_int_equal(device.tuning.traffic_class, 0);
	assert_int_equal(device.path.gid_index, 0);
	is_chosen(",retries=6,ack-timeout=1", &there, "RDMA device of");
	assert_int_equal(device.tuning.retries, 6);
	assert_int_equal(device.tuning.ack_timeout, 1);
}

static void test_options_that_are_none(void **state)
{
	static const char *const limits[] = { "ack-timeout=0", "ack-timeout=32", "retries=7", "retries=-1", "sl=16",
					      "tc=256", "port=0", "port=255", "gid=256", "pkey=65536", "sl=",
					      "sl=1x", "tc=x", "sl=-1", "tc=-1", "gid=-1", "pkey=-1" };
	char text[64];

	(void)state;
	count = 1;
	for (unsigned i = 0; i < sizeof limits / sizeof limits[0]; i++) {
		snprintf(text, sizeof text, "mlx5_0,bootstrap=tcp,%s", limits[i]);
		is_refused(text, "wants a number from");
	}
	is_refused("mlx5_0,speed=1", "'speed=1' is none of ack-timeout=N");
	is_refused("mlx5_0,", "'' is none of");
	is_refused("mlx5_0,bootstrap:tcp", "'bootstrap:tcp' is none of");
	is_refused("mlx5_0,bootstrap=udp", "bootstrap: 'udp' is neither tcp nor cm");
	is_refused("mlx5_0,port=1", "port, gid and pkey are for bootstrap=tcp");
	is_refused("mlx5_0,gid=0", "port, gid and pkey are for bootstrap=tcp");
	is_refused("mlx5_0,pkey=3,bootstrap=cm", "port, gid and pkey are for bootstrap=tcp");
	char longer[200];
	memset(longer, 'n', sizeof longer - 1);
	longer[sizeof longer - 1] = '\0';
	is_refused(longer, "is too long");
	longer[128] = '\0';
	is_refused(longer, "is too long");
	longer[127] = '\0';
	is_refused(longer, "there is no RDMA device");
}

/* Of a choice that failed nothing is left to be used. */
static void test_refused_is_empty(void **state)
{
	static const char *const names[] = { "mlx5_9", "mlx5_0,speed=1", "mlx5_0,sl=99" };

	(void)state;
	count = 1;
	for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
		memset(&device, 0x55, sizeof device);
		is_refused(names[i], "");
		assert_null(device.verbs);
		assert_string_equal(device.name, "");
		assert_string_equal(device.line, "");
	}
}

/* From one letter to as many as the kernel takes. */
static void test_length_of_a_name(void **state)
{
	struct ibv_context on = { .device = &devices[1] };
	struct rdma_cm_id id = { .verbs = &on };
	char text[64];

	(void)state;
	count = 2;
	strcpy(devices[0].name, "q");
	assert_string_equal(device_list(text, sizeof text), "q, mlx5_1");
	is_chosen("q,bootstrap=tcp", &there, "RDMA device q (named by --device), introduced over TCP");
	assert_string_equal(device.path.name, "q");
	is_chosen("q", &there, "RDMA device q (named by --device)");
	assert_int_equal(device_check(&device, &id, &there, &err), -1);
	on.device = &devices[0];
	assert_int_equal(device_check(&device, &id, &there, &err), 0);
	assert_non_null(strstr(device.line, "RDMA device q (named by --device; for"));
	memset(devices[0].name, 'n', 63);
	devices[0].name[63] = '\0';
	is_chosen(devices[0].name, &there, devices[0].name);
	assert_string_equal(device.name, devices[0].name);
}

/* Over TCP no address tells the device: it is named, or there is one. */
static void test_bootstrap(void **state)
{
	(void)state;
	count = 2;
	is_chosen("mlx5_1,bootstrap=tcp,port=254,gid=3,pkey=65535", &there, "RDMA device mlx5_1 (named by --device), introduced over TCP");
	assert_true(device.bootstrap);
	assert_string_equal(device.path.name, "mlx5_1");
	assert_int_equal(device.path.port, 254);
	assert_int_equal(device.path.gid_index, 3);
	assert_int_equal(device.path.pkey_index, 65535);
	assert_ptr_not_equal(device.verbs, &verbs_system);
	is_refused(",bootstrap=tcp", "which of the RDMA devices (mlx5_0, mlx5_1)?");
	count = 1;
	is_chosen("mlx5_0,bootstrap=tcp,port=1,gid=255", &there, ", introduced over TCP");
	assert_int_equal(device.path.port, 1);
	assert_int_equal(device.path.gid_index, 255);
	is_chosen(",bootstrap=tcp", &there, ", introduced over TCP");
	assert_string_equal(device.path.name, "mlx5_0");
	setenv("KVD_BOOTSTRAP", "tcp", 1);
	is_chosen("mlx5_0", &there, ", introduced over TCP");
	is_chosen("mlx5_0,bootstrap=cm", &there, "RDMA device mlx5_0 (named by --device)");
	assert_false(device.bootstrap);
	setenv("KVD_BOOTSTRAP", "pigeon", 1);
	is_refused("mlx5_0", "bootstrap: 'pigeon' is neither");
	setenv("KVD_BOOTSTRAP", "", 1);
	is_chosen("mlx5_0", &there, "RDMA device mlx5_0 (named by --device)");
	assert_false(device.bootstrap);
}

static void test_names_and_specs(void **state)
{
	char text[64];

	(void)state;
	count = 2;
	assert_string_equal(device_list(text, sizeof text), "mlx5_0, mlx5_1");
	count = 3;
	assert_string_equal(device_list(text, sizeof "mlx5_0, mlx5_1"), "mlx5_0, mlx5_1");
	/* Whatever room there is, it is used and no more, however many are left out. */
	for (size_t n = 1; n <= strlen("mlx5_0, mlx5_1, bnxt_0"); n++) {
		memset(text, 'x', sizeof text);
		assert_int_equal(strlen(device_list(text, n)), n - 1);
		for (size_t i = n; i < sizeof text; i++)
			assert_int_equal(text[i], 'x');
	}
	count = 0;
	assert_string_equal(device_list(text, sizeof text), "none");
	assert_null(device_spec(NULL, NULL, text, sizeof text));
	assert_string_equal(device_spec("mlx5_0", NULL, text, sizeof text), "mlx5_0");
	assert_string_equal(device_spec("mlx5_0", "tcp", text, sizeof text), "mlx5_0,bootstrap=tcp");
	assert_string_equal(device_spec(NULL, "cm", text, sizeof text), ",bootstrap=cm");
}

/* The id is on the device that was asked for, or that is told. */
static void test_check(void **state)
{
	struct ibv_context on = { .device = &devices[1] };
	struct rdma_cm_id id = { .verbs = NULL };

	(void)state;
	count = 2;
	is_chosen("mlx5_1", &there, "mlx5_1");
	assert_int_equal(device_check(&device, &id, &there, &err), -1);
	assert_non_null(strstr(err.text, "no RDMA device serves the address 192.0.2.1:1 (devices: mlx5_0, mlx5_1)"));
	id.verbs = &on;
	assert_int_equal(device_check(&device, &id, &there, &err), 0);
	assert_non_null(strstr(device.line, "RDMA device mlx5_1 (named by --device; for 192.0.2.1:1)"));
	on.device = &devices[0];
	assert_int_equal(device_check(&device, &id, &there, &err), -1);
	assert_non_null(strstr(err.text, "belongs to the RDMA device mlx5_0, not to mlx5_1"));
	is_chosen(NULL, &there, "RDMA device of");
	assert_int_equal(device_check(&device, &id, &there, &err), 0);
	assert_non_null(strstr(device.line, "RDMA device mlx5_0 (of the address 192.0.2.1:1), port 0"));
	if (verbs_soft) {
		is_chosen("soft", &there, "soft0");
		id.verbs = NULL;
		assert_int_equal(device_check(&device, &id, &there, &err), 0);
	}
}

static struct ibv_port_attr port;
static int port_error;
static struct bootstrap_device given;

static int query_port(struct ibv_context *ctx, uint8_t number, struct ibv_port_attr *attr)
{
	(void)ctx;
	assert_int_equal(number, 2);
	if (!port_error)
		*attr = port;
	return port_error;
}

static int set_option(struct rdma_cm_id *id, int level, int name, void *value, size_t bytes)
{
	(void)id;
	assert_int_equal(level, BOOTSTRAP_LEVEL);
	assert_int_equal(name, 0);
	assert_int_equal(bytes, sizeof given);
	memcpy(&given, value, bytes);
	return port_error;
}

static const struct verbs own = { .query_port = query_port, .set_option = set_option };

/* Port, GID and MTU, where the port says them. */
static void test_path(void **state)
{
#define OF "RDMA device mlx5_0 (of the address 192.0.2.1:1), port 2, "
	struct ibv_context on = { .device = &devices[0] };
	struct rdma_cm_id id = { .verbs = &on, .port_num = 2 };

	(void)state;
	id.route.addr.addr.ibaddr.sgid = (union ibv_gid){ .raw = { 0x20, 1, 0xd, 0xb8, [15] = 1 } };
	device = (struct device){ .verbs = &own };
	port = (struct ibv_port_attr){ .active_mtu = IBV_MTU_4096, .link_layer = IBV_LINK_LAYER_ETHERNET };
	port_error = 0;
	assert_int_equal(device_check(&device, &id, &there, &err), 0);
	assert_string_equal(device.line, OF "RoCE v2 GID 2001:db8::1, MTU 4096");
	port_error = -1;
	assert_int_equal(device_check(&device, &id, &there, &err), 0);
	assert_string_equal(device.line, OF "GID 2001:db8::1, MTU 0");
	port_error = 0;
	port.link_layer = IBV_LINK_LAYER_INFINIBAND;
	device.bootstrap = true;
	assert_int_equal(device_check(&device, &id, &there, &err), 0);
	assert_string_equal(device.line, OF "GID 2001:db8::1, MTU 4096, introduced over TCP");
}

/* Only over TCP an id has to be told of its device. */
static void test_prepare(void **state)
{
	struct rdma_cm_id id = { .verbs = NULL };

	(void)state;
	device = (struct device){ .verbs = &own, .path = { .name = "mlx5_1", .port = 3 } };
	port_error = 0;
	assert_int_equal(device_prepare(&device, &id), 0);
	assert_int_equal(given.port, 0);
	device.bootstrap = true;
	assert_int_equal(device_prepare(&device, &id), 0);
	assert_int_equal(given.port, 3);
	assert_string_equal(given.name, "mlx5_1");
	port_error = -1;
	assert_int_equal(device_prepare(&device, &id), -1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_by_name),	  TEST(test_by_guid),
		TEST(test_by_address),	  TEST(test_options),
		TEST(test_options_that_are_none),
		TEST(test_bootstrap),	  TEST(test_names_and_specs),
		TEST(test_check),	  TEST(test_refused_is_empty),
		TEST(test_length_of_a_name), TEST(test_path),
		TEST(test_prepare),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
