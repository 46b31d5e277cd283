/* SPDX-License-Identifier: BSD-2-Clause */
/* A table's keys on several devices, and what is dealt out to the devices. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "server/access/gate.h"
#include "server/host/host.h"
#include "server/host/listener.h"
#include "server/table/table.h"
#include "server/worker/context.h"
#include "server/worker/rx.h"
#include "server/worker/sendq.h"

/* ---- a device that counts what is registered with each domain ---- */

static struct ibv_pd pds[RAILS_MAX];
static unsigned registered[RAILS_MAX], fails_at; /* the so manieth registration; 0: none */

static int mem_alloc(size_t bytes, int kind, void **addr)
{
	(void)kind;
	*addr = aligned_alloc(1 << 21, (bytes + (1 << 21) - 1) >> 21 << 21);
	if (!*addr)
		return ENOMEM;
	memset(*addr, 0, bytes);
	return 0;
}

static int mem_free(void *addr, size_t bytes)
{
	(void)bytes;
	free(addr);
	return 0;
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	static uint32_t key = 100;
	struct ibv_mr *mr = fails_at && !--fails_at ? NULL : calloc(1, sizeof *mr);

	(void)addr;
	(void)length;
	(void)access;
	if (!mr) {
		errno = EIO;
		return NULL;
	}
	mr->pd = pd;
	mr->rkey = mr->lkey = ++key;
	registered[pd - pds]++;
	return mr;
}

static int dereg_mr(struct ibv_mr *mr)
{
	registered[mr->pd - pds]--;
	free(mr);
	return 0;
}

static const struct verbs counting = { .name = "counting", .soft = true, .mem_alloc = mem_alloc,
				       .mem_free = mem_free, .reg_mr = reg_mr,
				       .dereg_mr = dereg_mr };

static void expect_registered(unsigned first, unsigned second, unsigned third)
{
	assert_int_equal(registered[0], first);
	assert_int_equal(registered[1], second);
	assert_int_equal(registered[2], third);
}

static struct table *new_table(void)
{
	struct ibv_pd *const all[] = { &pds[0], &pds[1], &pds[2] };
	struct table *t;
	struct err err;

	assert_int_equal(table_new(&counting, TABLE_BYTES_MIN, 3, &t, &err), 0);
	assert_int_equal(table_register(t, all, 3, &err), 0);
	return t;
}

/* ---- keys ---- */

static void test_each_device_has_a_key(void **state)
{
	struct table *t = new_table();

	(void)state;
	expect_registered(3, 1, 1); /* the locks are with the first only */
	for (unsigned i = 0; i < 3; i++) {
		assert_ptr_equal(t->mr[i]->pd, &pds[i]);
		assert_int_equal(atomic_load(&t->lkey[i]), t->mr[i]->lkey);
	}
	assert_null(t->mr[3]);
	assert_true(t->mr[0]->rkey != t->mr[1]->rkey && t->mr[1]->rkey != t->mr[2]->rkey);
	table_delete(&t);
	expect_registered(0, 0, 0);
}

static void test_new_keys_on_all(void **state)
{
	struct table *t = new_table();
	struct table_keys new, old;
	uint32_t rkey[3];
	struct err err;

	(void)state;
	for (unsigned i = 0; i < 3; i++)
		rkey[i] = t->mr[i]->rkey;
	assert_int_equal(table_keys_new(t, 0, &new, &err), 0);
	expect_registered(5, 2, 2);
	table_keys_swap(t, &new, &old);
	table_keys_delete(t, &old);
	expect_registered(3, 1, 1);
	for (unsigned i = 0; i < 3; i++) {
		assert_true(t->mr[i]->rkey != rkey[i]);
		assert_int_equal(atomic_load(&t->lkey[i]), t->mr[i]->lkey);
	}
	table_delete(&t);
}

/* A device that is lost registers nothing, and hinders no other. */
static void test_new_keys_without_a_lost_one(void **state)
{
	struct table *t = new_table();
	struct table_keys new, old;
	struct ibv_mr *lost = t->mr[1];
	uint32_t others = t->mr[2]->rkey;
	struct err err;

	(void)state;
	assert_int_equal(table_keys_new(t, 1u << 1, &new, &err), 0);
	expect_registered(5, 1, 2);
	table_keys_swap(t, &new, &old);
	table_keys_delete(t, &old);
	assert_ptr_equal(t->mr[1], lost);
	assert_true(t->mr[2]->rkey != others);
	table_delete(&t);
	expect_registered(0, 0, 0);
}

static void test_a_failure_leaves_nothing(void **state)
{
	struct table *t = new_table();
	struct table_keys new;
	struct err err;

	(void)state;
	for (unsigned at = 1; at <= 4; at++) {
		fails_at = at;
		assert_int_equal(table_keys_new(t, 0, &new, &err), -1);
		expect_registered(3, 1, 1);
	}
	table_delete(&t);
	expect_registered(0, 0, 0);
}

/* ---- workers and connections ---- */

static void test_workers_are_dealt_out(void **state)
{
	static struct server s = { .worker_count = 5, .rail_count = 3 };

	(void)state;
	for (unsigned i = 0; i < 3; i++)
		s.rails[i].number = i;
	assert_int_equal(queues_workers(&s, &s.rails[0]), 2);
	assert_int_equal(queues_workers(&s, &s.rails[1]), 2);
	assert_int_equal(queues_workers(&s, &s.rails[2]), 1);
	s.rail_count = 1;
	assert_int_equal(queues_workers(&s, &s.rails[0]), 5);
}

/* All connections may come by one device: the one with the least room says how many. */
static void test_room_of_the_least(void **state)
{
	static struct server s = { .worker_count = 3, .rail_count = 2 };
	const uint32_t depth = sendq_depth(CREDITS_ORDINARY);

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		s.rails[i].number = i;
		s.rails[i].limits.srq_wr_max = 10;
	}
	s.rails[0].limits.cqe_max = 10 + 7 * depth; /* of two workers */
	s.rails[1].limits.cqe_max = 10 + 20 * depth;
	assert_int_equal(queues_conns_fit(&s), 14);
	s.rails[1].limits.cqe_max = 10 + 13 * depth;
	assert_int_equal(queues_conns_fit(&s), 13);
	s.rail_count = 1;
	assert_int_equal(queues_conns_fit(&s), 21);
}

/* ---- addresses ---- */

static struct host host_at(const char *first, const char *second)
{
	struct host h = { .listener_count = second ? 2 : 1 };
	struct err err;

	assert_int_equal(addr_parse(&h.listeners[0].addr, first, &err), 0);
	if (second)
		assert_int_equal(addr_parse(&h.listeners[1].addr, second, &err), 0);
	return h;
}

static bool opens_without_users(const struct host *h)
{
	const struct gate_config config = { .addr = *listeners_widest(h), .user_connections = 1 };
	struct gate *gate = NULL;
	struct err err;
	bool opens = !gate_new(&config, &gate, &err);

	gate_delete(&gate);
	return opens;
}

/* One address that other machines reach is enough, in whichever place. */
static void test_reached_from_elsewhere(void **state)
{
	const char here[] = "127.0.0.1:7480", there[] = "192.0.2.1:7480";
	struct host h = host_at(here, NULL);

	(void)state;
	assert_true(opens_without_users(&h));
	h = host_at(here, "127.0.0.2:7480");
	assert_true(opens_without_users(&h));
	h = host_at(there, here);
	assert_false(opens_without_users(&h));
	h = host_at(here, there);
	assert_false(opens_without_users(&h));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_device_has_a_key),
		cmocka_unit_test(test_new_keys_on_all),
		cmocka_unit_test(test_new_keys_without_a_lost_one),
		cmocka_unit_test(test_a_failure_leaves_nothing),
		cmocka_unit_test(test_workers_are_dealt_out),
		cmocka_unit_test(test_room_of_the_least),
		cmocka_unit_test(test_reached_from_elsewhere),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
