/* SPDX-License-Identifier: BSD-2-Clause */
/* server/lock/loopback.h: by which GID it goes, and what becomes of a swap; on the software device,
 * whose GIDs are a table of this test. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "server/lock/loopback.h"
#include "tests/lib/group.h"

#define GIDS 5
#define LOCKS 512u

static struct verbs verbs;
static struct loopback_config config = { .verbs = &verbs, .port = 1 };
static struct ibv_mr *mr;
static union ibv_gid gids[GIDS], gone_to;
static unsigned gids_there;
static int gone_by; /* the index in the table by which the last queue pair went */
static struct err err;

static int query_gid(struct ibv_context *ctx, uint8_t port, int index, union ibv_gid *gid)
{
	(void)ctx;
	assert_int_equal(port, 1);
	if ((unsigned)index >= gids_there) {
		errno = EINVAL;
		return -1;
	}
	*gid = gids[index];
	return 0;
}

/* The device's own GID is its first, whatever the table says. */
static int modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	struct ibv_qp_attr own = *attr;

	if (attr->qp_state == IBV_QPS_RTR) {
		gone_by = attr->ah_attr.grh.sgid_index;
		gone_to = attr->ah_attr.grh.dgid;
		own.ah_attr.grh.sgid_index = 0;
		if (verbs_soft->query_gid(config.ctx, 1, 0, &own.ah_attr.grh.dgid))
			return errno;
	}
	return verbs_soft->modify_qp(qp, &own, mask);
}

static int begin(void **state)
{
	struct ibv_device **list = verbs_soft->get_device_list(NULL);
	void *locks;

	(void)state;
	verbs = *verbs_soft;
	verbs.query_gid = query_gid;
	verbs.modify_qp = modify_qp;
	assert_non_null(list);
	config.ctx = verbs.open_device(list[0]);
	verbs.free_device_list(list);
	assert_non_null(config.ctx);
	config.pd = verbs.alloc_pd(config.ctx);
	assert_non_null(config.pd);
	assert_int_equal(verbs.mem_alloc(LOCKS * 8, VERBS_MEM_ATOMIC, &locks), 0);
	config.locks = locks;
	mr = verbs.reg_mr(config.pd, locks, LOCKS * 8,
			  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
				  IBV_ACCESS_REMOTE_ATOMIC);
	assert_non_null(mr);
	config.rkey = mr->rkey;
	return 0;
}

static int end(void **state)
{
	(void)state;
	verbs.dereg_mr(mr);
	verbs.mem_free(config.locks, LOCKS * 8);
	verbs.dealloc_pd(config.pd);
	verbs.close_device(config.ctx);
	return 0;
}

/* Of IPv4 as ::ffff:a.b.c.d. */
static union ibv_gid mapped(uint8_t last)
{
	return (union ibv_gid){
		.raw = { [10] = 0xff, [11] = 0xff, [12] = 192, [13] = 0, [14] = 2, [15] = last }
	};
}

static union ibv_gid six(uint8_t last)
{
	return (union ibv_gid){ .raw = { [0] = 0x20, [1] = 1, [2] = 0xd, [3] = 0xb8, [15] = last } };
}

/* 192.0.2.1 stands there twice, for RoCE v1 and v2. */
static int before(void **state)
{
	(void)state;
	gids[0] = six(9);
	gids[1] = mapped(1);
	gids[2] = mapped(1);
	gids[3] = six(1);
	gids[4] = mapped(2);
	gids_there = GIDS;
	gone_by = -1;
	return 0;
}

static void goes_by(const char *served, int index)
{
	struct loopback *l = NULL;

	assert_int_equal(addr_parse(&config.addr, served, &err), 0);
	assert_int_equal(loopback_new(&config, &l, &err), 0);
	assert_int_equal(gone_by, index);
	assert_memory_equal(&gone_to, &gids[index], sizeof gone_to);
	loopback_delete(&l);
	assert_null(l);
}

static void test_gids(void **state)
{
	(void)state;
	goes_by("192.0.2.1:1", 2);
	goes_by("192.0.2.2:1", 4);
	goes_by("[2001:db8::1]:1", 3);
	goes_by("[2001:db8::9]:1", 0);
	/* Nobody's: the first. */
	goes_by("192.0.2.3:1", 0);
	goes_by("[2001:db8::3]:1", 0);
}

static void test_no_gid(void **state)
{
	struct loopback *l = NULL;

	(void)state;
	gids_there = 0;
	assert_int_equal(addr_parse(&config.addr, "192.0.2.1:1", &err), 0);
	assert_int_equal(loopback_new(&config, &l, &err), -1);
	assert_non_null(strstr(err.text, "can't find a GID for the loopback"));
	assert_null(l);
}

static void test_swaps(void **state)
{
	struct loopback *l = NULL;
	uint64_t old = 77;

	(void)state;
	assert_int_equal(addr_parse(&config.addr, "192.0.2.1:1", &err), 0);
	assert_int_equal(loopback_new(&config, &l, &err), 0);
	config.locks[3] = 5;
	assert_int_equal(loopback_cas(l, 3, 0, 9, &old, &err), 0);
	assert_true(old == 5 && config.locks[3] == 5);
	assert_int_equal(loopback_cas(l, 3, 5, 9, &old, &err), 0);
	assert_true(old == 5 && config.locks[3] == 9);
	/* Beyond the memory: the queue pair is broken from then on. */
	assert_int_equal(loopback_cas(l, LOCKS, 0, 1, &old, &err), -1);
	assert_non_null(strstr(err.text, "an atomic through the loopback failed: "));
	assert_int_equal(loopback_cas(l, 3, 9, 1, &old, &err), -1);
	assert_int_equal(config.locks[3], 9);
	loopback_delete(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_gids, before),
		cmocka_unit_test_setup(test_no_gid, before),
		cmocka_unit_test_setup(test_swaps, before),
	};

	return GROUP_RUN(tests, begin, end);
}
