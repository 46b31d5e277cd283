/* SPDX-License-Identifier: BSD-2-Clause */
/* server/lock/loopback.h: by which GID it goes, and what becomes of a swap; on the software device,
 * whose GIDs are a table of this test, and whose calls may fail. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "server/lock/loopback.h"
#include "tests/lib/group.h"
#include "tests/unit/made_up.h"
#include "tests/unit/no_memory.h"

#define GIDS 5
#define GIDS_LOOKED_AT 64
#define LOCKS 512u
#define CHANGES 6u /* of the state of two queue pairs */
#define WAIT_NS 5000000000ull /* for a completion */
#define BEGIN_NS 1000000000000ull

static struct verbs verbs;
static struct loopback_config config = { .verbs = &verbs, .port = 1 };
static struct ibv_mr *mr;
static union ibv_gid gids[GIDS_LOOKED_AT + 1], gone_to;
static unsigned gids_there;
static int gone_by; /* the index in the table by which the last queue pair went */
static struct err err;
static struct ibv_port_attr real_port, told_port; /* what is told of it */
static enum { NOTHING, CQ, MEMORY, MR, PORT } fails;
static unsigned fails_qp, fails_change; /* the so manieth of them; 0: none */
static unsigned qps, changes;
static int things; /* that are there */
static struct ibv_qp_attr asked[CHANGES];
static struct ibv_qp *asked_of[CHANGES];
static _Thread_local uint64_t made_ns; /* the time; 0: as it is */
static unsigned polls;

int __real_clock_gettime(clockid_t clock, struct timespec *ts);
int __real_posix_memalign(void **to, size_t alignment, size_t bytes);

MADE_UP(int, clock_gettime, clockid_t clock, struct timespec *ts)
{
	if (!made_ns)
		return __real_clock_gettime(clock, ts);
	*ts = (struct timespec){ (time_t)(made_ns / 1000000000), (long)(made_ns % 1000000000) };
	return 0;
}

MADE_UP(int, posix_memalign, void **to, size_t alignment, size_t bytes)
{
	return fails == MEMORY ? ENOMEM : __real_posix_memalign(to, alignment, bytes);
}

static struct ibv_cq *create_cq(struct ibv_context *ctx, int depth, void *cq_context,
				struct ibv_comp_channel *channel, int vector)
{
	errno = EMFILE;
	if (fails == CQ)
		return NULL;
	things++;
	return verbs_soft->create_cq(ctx, depth, cq_context, channel, vector);
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	errno = EAGAIN;
	if (fails == MR)
		return NULL;
	things++;
	return verbs_soft->reg_mr(pd, addr, length, access);
}

static struct ibv_qp *create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	errno = ENOSPC;
	if (++qps == fails_qp)
		return NULL;
	things++;
	return verbs_soft->create_qp(pd, attr);
}

static int destroy_cq(struct ibv_cq *cq)
{
	things--;
	return verbs_soft->destroy_cq(cq);
}

static int dereg_mr(struct ibv_mr *region)
{
	things--;
	return verbs_soft->dereg_mr(region);
}

static int destroy_qp(struct ibv_qp *qp)
{
	things--;
	return verbs_soft->destroy_qp(qp);
}

static int query_port(struct ibv_context *ctx, uint8_t number, struct ibv_port_attr *attr)
{
	(void)ctx;
	assert_int_equal(number, 1);
	errno = EIO; /* not why */
	*attr = told_port;
	return fails == PORT ? ENODEV : 0;
}

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

	assert_true(changes < CHANGES);
	asked[changes] = own;
	asked_of[changes] = qp;
	if (++changes == fails_change)
		return EPERM;
	if (attr->qp_state == IBV_QPS_RTR) {
		gone_by = attr->ah_attr.grh.sgid_index;
		gone_to = attr->ah_attr.grh.dgid;
		own.ah_attr.grh.sgid_index = 0;
		own.ah_attr.dlid = real_port.lid;
		own.ah_attr.is_global = real_port.link_layer == IBV_LINK_LAYER_ETHERNET;
		own.path_mtu = real_port.active_mtu;
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
	assert_int_equal(verbs.query_port(config.ctx, 1, &real_port), 0);
	verbs.create_cq = create_cq;
	verbs.destroy_cq = destroy_cq;
	verbs.reg_mr = reg_mr;
	verbs.dereg_mr = dereg_mr;
	verbs.create_qp = create_qp;
	verbs.destroy_qp = destroy_qp;
	verbs.query_port = query_port;
	return 0;
}

static int end(void **state)
{
	(void)state;
	verbs_soft->dereg_mr(mr);
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
	told_port = real_port;
	fails = NOTHING;
	fails_qp = fails_change = qps = changes = polls = 0;
	return addr_parse(&config.addr, "192.0.2.1:1", &err);
}

/* It has what it needs, and nothing is left when it is gone. */
static struct loopback *made(void)
{
	struct loopback *l = NULL;

	qps = changes = 0;
	assert_int_equal(things, 0);
	assert_int_equal(loopback_new(&config, &l, &err), 0);
	assert_int_equal(things, 4);
	assert_int_equal(changes, CHANGES);
	return l;
}

static void end_of(struct loopback *l)
{
	loopback_delete(&l);
	assert_null(l);
	assert_int_equal(things, 0);
	loopback_delete(&l);
}

static void goes_by(const char *served, int index)
{
	assert_int_equal(addr_parse(&config.addr, served, &err), 0);
	struct loopback *l = made();
	assert_int_equal(gone_by, index);
	assert_memory_equal(&gone_to, &gids[index], sizeof gone_to);
	end_of(l);
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

/* The last that is looked for; one behind it is as none. */
static void test_many_gids(void **state)
{
	(void)state;
	for (unsigned i = 0; i < GIDS_LOOKED_AT; i++)
		gids[i] = six(9);
	gids[GIDS_LOOKED_AT - 1] = mapped(1);
	gids[GIDS_LOOKED_AT] = mapped(2);
	gids_there = GIDS_LOOKED_AT + 1;
	goes_by("192.0.2.1:1", GIDS_LOOKED_AT - 1);
	goes_by("192.0.2.2:1", 0);
}

/* It says why, and nothing is left. */
static void refuses(const char *why)
{
	struct loopback *l = NULL;

	qps = changes = 0;
	assert_int_equal(loopback_new(&config, &l, &err), -1);
	assert_string_equal(err.text, why);
	assert_null(l);
	assert_int_equal(things, 0);
}

static void test_no_gid(void **state)
{
	(void)state;
	gids_there = 0;
	refuses("can't find a GID for the loopback: Invalid argument");
}

static void test_no_room(void **state)
{
	static const char none[] = "can't make the loopback's completion queue or memory";
	char text[128];

	(void)state;
	fails = CQ;
	snprintf(text, sizeof text, "%s: %s", none, strerror(EMFILE));
	refuses(text);
	fails = MR;
	snprintf(text, sizeof text, "%s: %s", none, strerror(EAGAIN));
	refuses(text);
	fails = MEMORY;
	struct loopback *l = NULL;
	assert_int_equal(loopback_new(&config, &l, &err), -1);
	assert_memory_equal(err.text, none, sizeof none - 1);
	assert_int_equal(things, 0);
	fails = NOTHING;
	fails_at = 1;
	refuses("out of memory");
	assert_true(has_failed);
}

/* Nothing is asked of the device behind what failed. */
static void test_no_way(void **state)
{
	(void)state;
	fails = PORT;
	refuses("can't find a GID for the loopback: No such device");
	assert_int_equal(qps, 0);
	fails = NOTHING;
	for (fails_qp = 1; fails_qp <= 2; fails_qp++) {
		refuses("can't create a queue pair (4 sends, 1 receives): No space left on device");
		assert_int_equal(qps, fails_qp);
		assert_int_equal(changes, 0);
	}
	fails_qp = 0;
	for (fails_change = 1; fails_change <= CHANGES; fails_change++) {
		refuses("can't connect the loopback queue pair: Operation not permitted");
		assert_int_equal(changes, fails_change);
	}
}

/* Each to the other, by the port as it is; a peer's atomics are for the second only.  Where nothing
 * comes back it is known in about half a second. */
static void test_queue_pairs(void **state)
{
	(void)state;
	told_port.lid = 7;
	told_port.link_layer = IBV_LINK_LAYER_INFINIBAND;
	told_port.active_mtu = IBV_MTU_512;
	end_of(made());
	assert_int_equal(asked[0].qp_access_flags, 0);
	assert_int_equal(asked[1].qp_access_flags, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	assert_ptr_not_equal(asked_of[0], asked_of[1]);
	for (unsigned i = 2; i < CHANGES; i += 2) {
		const struct ibv_qp_attr *ready = &asked[i], *sends = &asked[i + 1];
		uint64_t once_ns = 4096ull << sends->timeout;

		assert_ptr_equal(asked_of[i], asked_of[i / 2 - 1]);
		assert_int_equal(ready->ah_attr.dlid, 7);
		assert_int_equal(ready->ah_attr.is_global, 0);
		assert_int_equal(ready->path_mtu, IBV_MTU_512);
		assert_true(sends->timeout > 0 && sends->retry_cnt > 0);
		assert_in_range(once_ns * (sends->retry_cnt + 1u), 300000000, 700000000);
		assert_int_equal(sends->rnr_retry, 7); /* for as long as it takes */
	}
	told_port.link_layer = IBV_LINK_LAYER_ETHERNET;
	end_of(made());
	assert_int_equal(asked[2].ah_attr.is_global, 1);
	assert_int_equal(asked[4].ah_attr.is_global, 1);
}

static int no_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	(void)qp;
	*bad = wr;
	return ENOMEM;
}

/* At the completion queue. */
struct look {
	int found;
	uint64_t now_ns; /* behind it */
	enum ibv_wc_status status;
};
static const struct look *looks;

static int poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wc)
{
	const struct look *at = looks + polls++;

	(void)cq;
	assert_int_equal(count, 1);
	made_ns = at->now_ns;
	*wc = (struct ibv_wc){ .status = at->status, .vendor_err = 0x81 };
	return at->found;
}

/* What comes of a swap for which the queue's looks are these, of which it takes as many. */
static int swap_that_finds(const struct look *found, unsigned count)
{
	struct loopback *l = made();
	struct ibv_context_ops real = config.ctx->ops;
	uint64_t old = 77;

	config.ctx->ops.poll_cq = poll_cq;
	looks = found;
	polls = 0;
	made_ns = BEGIN_NS;
	int rc = loopback_cas(l, 3, 0, 0, &old, &err);
	made_ns = 0;
	config.ctx->ops = real;
	assert_int_equal(polls, count);
	assert_true(!rc || old == 77);
	end_of(l);
	return rc;
}

/* A look at the very end of the time still counts. */
static void test_waits(void **state)
{
	static const struct look late[] = { { 0, BEGIN_NS, 0 }, { 0, BEGIN_NS + WAIT_NS, 0 },
					    { 1, BEGIN_NS + WAIT_NS, IBV_WC_SUCCESS } };
	static const struct look too_late[] = { { 0, BEGIN_NS + WAIT_NS, 0 },
						{ 0, BEGIN_NS + WAIT_NS + 1, 0 },
						{ 1, BEGIN_NS + WAIT_NS + 1, IBV_WC_SUCCESS } };
	static const struct look broken[] = { { -1, BEGIN_NS, 0 }, { 1, BEGIN_NS, IBV_WC_SUCCESS } };
	static const struct look failed[] = { { 1, BEGIN_NS, IBV_WC_RETRY_EXC_ERR } };

	(void)state;
	assert_int_equal(swap_that_finds(late, 3), 0);
	assert_int_equal(swap_that_finds(too_late, 2), -1);
	assert_string_equal(err.text, "an atomic through the loopback takes for ever");
	assert_int_equal(swap_that_finds(broken, 1), -1);
	assert_string_equal(err.text, "polling the loopback's completion queue failed");
	assert_int_equal(swap_that_finds(failed, 1), -1);
	assert_string_equal(err.text, "an atomic through the loopback failed: transport retry counter "
				      "exceeded (vendor error 0x81)");
}

static void test_posts_nothing(void **state)
{
	struct loopback *l = made();
	struct ibv_context_ops real = config.ctx->ops;
	uint64_t old = 77;

	(void)state;
	config.locks[3] = 5;
	config.ctx->ops.post_send = no_send;
	assert_int_equal(loopback_cas(l, 3, 5, 9, &old, &err), -1);
	assert_string_equal(err.text, "posting an atomic to the loopback failed: Cannot allocate memory");
	config.ctx->ops = real;
	assert_true(old == 77 && config.locks[3] == 5);
	end_of(l);
}

static void test_swaps(void **state)
{
	struct loopback *l = made();
	uint64_t old = 77;

	(void)state;
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
	end_of(l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_gids, before),
		cmocka_unit_test_setup(test_many_gids, before),
		cmocka_unit_test_setup(test_no_gid, before),
		cmocka_unit_test_setup(test_no_room, before),
		cmocka_unit_test_setup(test_no_way, before),
		cmocka_unit_test_setup(test_queue_pairs, before),
		cmocka_unit_test_setup(test_waits, before),
		cmocka_unit_test_setup(test_posts_nothing, before),
		cmocka_unit_test_setup(test_swaps, before),
	};

	return GROUP_RUN(tests, begin, end);
}
