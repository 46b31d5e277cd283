/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * common/bootstrap/path.h: which GID of a port is taken where the user names none.  The device is this
 * file's, and so is what the kernel says of each GID (--wrap of fopen()).
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/bootstrap/path.h"
#include "tests/unit/server/wrap_fopen.h"

#define GIDS 300

static const char *types[GIDS]; /* NULL: there is no such file */

FILE *WRAP_FOPEN(const char *path, const char *mode)
{
	unsigned i;

	if (sscanf(path, "/sys/class/infiniband/nic0/ports/2/gid_attrs/types/%u", &i) != 1)
		return REAL_FOPEN(path, mode);
	if (i >= GIDS || !types[i])
		return NULL;
	FILE *f = tmpfile();
	assert_non_null(f);
	fputs(types[i], f);
	rewind(f);
	return f;
}

static struct ibv_device nic = { .name = "nic0" };
static struct ibv_context context = { .device = &nic };
static union ibv_gid gids[GIDS];
static int count, asked_most, unknown; /* the one that can't be asked for, or -1 */

static struct ibv_device **get_device_list(int *n)
{
	static struct ibv_device *list[] = { &nic, NULL };

	if (n)
		*n = 1;
	return list;
}

static void free_device_list(struct ibv_device **list)
{
	(void)list;
}

static struct ibv_context *open_device(struct ibv_device *device)
{
	(void)device;
	return &context;
}

static int query_device(struct ibv_context *ctx, struct ibv_device_attr *attr)
{
	(void)ctx, (void)attr;
	return 0;
}

/* An older driver: what it doesn't know it leaves. */
static int query_port(struct ibv_context *ctx, uint8_t number, struct ibv_port_attr *attr)
{
	(void)ctx, (void)number;
	attr->state = IBV_PORT_ACTIVE;
	attr->link_layer = IBV_LINK_LAYER_ETHERNET;
	attr->gid_tbl_len = count;
	return 0;
}

static int query_gid(struct ibv_context *ctx, uint8_t number, int index, union ibv_gid *gid)
{
	(void)ctx, (void)number;
	if (index > asked_most)
		asked_most = index;
	if (index == unknown)
		return -1;
	*gid = gids[index];
	return 0;
}

static const struct verbs verbs = { .get_device_list = get_device_list, .free_device_list = free_device_list,
				    .open_device = open_device, .query_device = query_device,
				    .query_port = query_port, .query_gid = query_gid };

static struct bootstrap_path path;

static int set_up(void **state)
{
	(void)state;
	path = (struct bootstrap_path){ .base = &verbs, .device = { .name = "nic0", .port = 2, .gid_index = -1 } };
	memset(gids, 0, sizeof gids);
	memset(types, 0, sizeof types);
	count = 4;
	asked_most = 0;
	unknown = -1;
	return 0;
}

#define V1 "IB/RoCE v1\n"
#define V2 "RoCE v2\n"

static void add(int i, const char *type, uint8_t first, uint8_t second)
{
	gids[i].raw[0] = first;
	gids[i].raw[1] = second;
	gids[i].raw[15] = 7;
	types[i] = type;
}

/* What a driver leaves is not by chance what it is to be. */
static __attribute__((noinline)) void fill_stack(void)
{
	volatile uint8_t bytes[4096];

	for (size_t i = 0; i < sizeof bytes; i++)
		bytes[i] = 0xff;
}

static void chosen_is(int index)
{
	int next = dup(0);

	close(next);
	fill_stack();
	assert_int_equal(bootstrap_path_open(&path), 0);
	assert_int_equal(path.gid_index, index);
	assert_memory_equal(path.gid.raw, gids[index].raw, 16);
	int now = dup(0);
	close(now);
	assert_int_equal(now, next);
}

/* RoCE v2's before v1's, then one with an address before one of the link; the first of equal ones. */
static void test_ranks(void **state)
{
	(void)state;
	chosen_is(0);
	add(3, V1, 0xfe, 0x80);
	chosen_is(3);
	add(2, V1, 0x20, 0x01);
	chosen_is(2);
	add(3, V2, 0xfe, 0x80);
	chosen_is(3);
	add(1, V2, 0, 0);
	chosen_is(1);
	add(2, V2, 0x20, 0x01);
	chosen_is(1);
	add(0, V2, 0x20, 0x01);
	chosen_is(0);
	assert_int_equal(asked_most, 3);
	assert_int_equal(path.lid, 0); /* it said none */
}

/* Those of the link are fe80 to febf. */
static void test_of_the_link(void **state)
{
	(void)state;
	add(0, V2, 0xfe, 0x81);
	add(1, V2, 0xfe, 0xbf);
	add(2, V2, 0xfe, 0xc0);
	chosen_is(2);
	add(3, V2, 0xfd, 0x80);
	gids[2].raw[1] = 0x90;
	chosen_is(3);
}

/* A GID of which the kernel says nothing is not what the one before it is. */
static void test_without_a_type(void **state)
{
	(void)state;
	add(0, V2, 0xfe, 0x80);
	add(1, NULL, 0x20, 0x01);
	add(2, "", 0x20, 0x01);
	chosen_is(0);
}

/* One that the device doesn't tell is none, whatever the one before it is. */
static void test_not_told(void **state)
{
	(void)state;
	add(0, V1, 0x20, 0x01);
	add(1, V2, 0x20, 0x01);
	unknown = 1;
	chosen_is(0);
	unknown = 0;
	chosen_is(1);
}

/* A table may have room for more than are worth a look. */
static void test_many(void **state)
{
	(void)state;
	count = GIDS;
	add(255, V1, 0x20, 0x01);
	add(256, V2, 0x20, 0x01);
	chosen_is(255);
	assert_int_equal(asked_most, 255);
	add(0, V1, 0xfe, 0x80);
	path.device.gid_index = 0; /* the user's word */
	chosen_is(0);
	path.device.gid_index = 256;
	chosen_is(256);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_ranks, set_up),
		cmocka_unit_test_setup(test_of_the_link, set_up),
		cmocka_unit_test_setup(test_without_a_type, set_up),
		cmocka_unit_test_setup(test_not_told, set_up),
		cmocka_unit_test_setup(test_many, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
