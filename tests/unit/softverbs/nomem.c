/* SPDX-License-Identifier: BSD-2-Clause */
/* nomem.c -- ids and endpoints without memory, allocation by allocation: refused, and nothing stays. */
#include "tests/unit/descriptors.h"
#include "tests/unit/no_memory.h"
#include "tests/unit/softverbs/events.h"

/* The first allocation fails, then the second, and so on, until none does; how many there were. */
static unsigned refuse_each(int (*make)(void))
{
	unsigned n = 1;

	CHECK(!make()); /* what a process has once is there */
	for (;; n++) {
		int before = count_descriptors(), ret, err;

		has_failed = false;
		fails_at = n;
		ret = make();
		err = errno;
		fails_at = 0;
		if (!has_failed) {
			CHECK(!ret);
			return n - 1;
		}
		CHECK(ret == -1 && err == ENOMEM);
		CHECK(count_descriptors() == before);
	}
}

static int make_id(void)
{
	struct rdma_cm_id *id;

	if (sv_create_id(NULL, &id, NULL, RDMA_PS_TCP))
		return -1;
	fails_at = 0;
	CHECK(!sv_destroy_id(id));
	return 0;
}

/* With a queue pair and its queues, as it has to have a device for them. */
static int make_bound(void)
{
	struct sockaddr_in any = loopback(0);
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 0 } };
	struct rdma_cm_id *id;
	unsigned left = fails_at;
	int ret, err;

	fails_at = 0;
	CHECK(!sv_create_id(NULL, &id, NULL, RDMA_PS_TCP));
	CHECK(!sv_bind_addr(id, (struct sockaddr *)&any));
	fails_at = left;
	ret = sv_rdma_create_qp(id, NULL, &attr);
	err = errno;
	fails_at = 0;
	CHECK(ret || id->qp);
	CHECK(!ret || (!id->qp && !id->send_cq && !id->recv_cq && !id->send_cq_channel && !id->recv_cq_channel));
	if (!ret)
		sv_rdma_destroy_qp(id);
	CHECK(!sv_destroy_id(id));
	errno = err;
	return ret;
}

/* The first of a process opens the device besides: its channel, the context, the domain. */
static void first_id(int sock)
{
	int before;

	(void)sock;
	CHECK(!sv_close_device(kit_open_device())); /* the process has begun */
	before = count_descriptors();
	for (unsigned n = 1; n <= 3; n++) {
		int ret, err;

		has_failed = false;
		fails_at = n;
		ret = make_id();
		err = errno;
		fails_at = 0;
		CHECK(has_failed && ret == -1 && err == ENOMEM);
		CHECK(count_descriptors() == before);
	}
	CHECK(!make_id());
}

static void test_first(void **state)
{
	(void)state;
	kit_run(first_id, kit_nothing);
}

static void test_ids(void **state)
{
	(void)state;
	CHECK(refuse_each(make_id) == 2); /* its channel, and itself */
}

static void test_queues(void **state)
{
	(void)state;
	CHECK(refuse_each(make_bound) >= 5); /* two channels, two queues, the pair */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first),
		cmocka_unit_test(test_ids),
		cmocka_unit_test(test_queues),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
