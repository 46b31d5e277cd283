/* SPDX-License-Identifier: BSD-2-Clause */
/* A table's keys on several devices, and what is dealt out to the devices. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <cmocka.h>

#include "server/access/gate.h"
#include "server/host/host.h"
#include "server/host/listener.h"
#include "server/host/rails.h"
#include "server/table/table.h"
#include "server/worker/conn.h"
#include "server/worker/conn_impl.h"
#include "server/worker/context.h"
#include "server/worker/rx.h"
#include "server/worker/sendq.h"
#include "tests/unit/said.h"

/* ---- a device that counts what is registered with each domain ---- */

static struct ibv_pd pds[RAILS_MAX];
static unsigned registered[RAILS_MAX], fails_at; /* the so manieth registration; 0: none */
static unsigned allocated, no_memory_at;
static int error = EIO;

static int mem_alloc(size_t bytes, int kind, void **addr)
{
	(void)kind;
	if (no_memory_at && !--no_memory_at)
		return ENOMEM;
	allocated++;
	*addr = aligned_alloc(1 << 21, (bytes + (1 << 21) - 1) >> 21 << 21);
	if (!*addr)
		return ENOMEM;
	memset(*addr, 0, bytes);
	return 0;
}

static int mem_free(void *addr, size_t bytes)
{
	(void)bytes;
	allocated--;
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
		errno = error;
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

/* ---- memory ---- */

static bool no_region, no_slabs;
static uint64_t limit_bytes;

int __real_region_new(void *base, size_t bytes, struct region **region);
int __wrap_region_new(void *base, size_t bytes, struct region **region);
int __real_slabs_new(struct region *region, unsigned unit_bytes, struct slabs **slabs);
int __wrap_slabs_new(struct region *region, unsigned unit_bytes, struct slabs **slabs);
int __wrap_getrlimit(int resource, struct rlimit *limit);
int __wrap_getrlimit64(int resource, struct rlimit *limit);

int __wrap_region_new(void *base, size_t bytes, struct region **region)
{
	return no_region ? ENOMEM : __real_region_new(base, bytes, region);
}

int __wrap_slabs_new(struct region *region, unsigned unit_bytes, struct slabs **slabs)
{
	return no_slabs ? ENOMEM : __real_slabs_new(region, unit_bytes, slabs);
}

int __wrap_getrlimit(int resource, struct rlimit *limit)
{
	assert_int_equal(resource, RLIMIT_MEMLOCK);
	limit->rlim_cur = limit->rlim_max = limit_bytes;
	return 0;
}

int __wrap_getrlimit64(int resource, struct rlimit *limit)
{
	return __wrap_getrlimit(resource, limit);
}

static void expect_no_table(const char *why)
{
	struct table *t = NULL;
	struct err err;

	assert_int_equal(table_new(&counting, TABLE_BYTES_MIN, 3, &t, &err), -1);
	assert_null(t);
	assert_int_equal(allocated, 0);
	assert_string_equal(err.text, why);
}

static void test_no_memory(void **state)
{
	(void)state;
	no_memory_at = 1;
	expect_no_table("can't reserve 16 MiB for the table: Cannot allocate memory");
	no_memory_at = 2;
	expect_no_table("can't reserve memory for the locks: Cannot allocate memory");
	no_region = true;
	expect_no_table("can't manage the table's memory: Cannot allocate memory");
	no_region = false;
	no_slabs = true;
	expect_no_table("can't manage the items' memory: Cannot allocate memory");
	no_slabs = false;
}

static void expect_not_registered(unsigned at, int errno_value, uint64_t limit, const char *why)
{
	struct ibv_pd *const all[] = { &pds[0], &pds[1], &pds[2] };
	struct table *t;
	struct err err;

	assert_int_equal(table_new(&counting, TABLE_BYTES_MIN, 3, &t, &err), 0);
	fails_at = at;
	error = errno_value;
	limit_bytes = limit;
	assert_int_equal(table_register(t, all, 3, &err), -1);
	expect_registered(0, 0, 0);
	if (strncmp(err.text, why, strlen(why)))
		fail_msg("%s", err.text);
	table_delete(&t);
	assert_int_equal(allocated, 0);
}

/* The locked-memory limit is named where it is the reason. */
static void test_not_registered(void **state)
{
	static const char table[] = "can't register 16 MiB of memory for the table: ";
	char text[128];

	(void)state;
	snprintf(text, sizeof text, "%sthe locked-memory limit is 1 MiB; raise it", table);
	expect_not_registered(1, ENOMEM, 1 << 20, text);
	expect_not_registered(3, EAGAIN, 1 << 20, text);
	snprintf(text, sizeof text, "%s%s", table, strerror(ENOMEM));
	expect_not_registered(1, ENOMEM, TABLE_BYTES_MIN, text);
	snprintf(text, sizeof text, "%s%s", table, strerror(EIO));
	expect_not_registered(2, EIO, 1 << 20, text);
	for (unsigned at = 4; at <= 5; at++) {
		expect_not_registered(at, EIO, 1, "can't register ");
		expect_not_registered(at, ENOMEM, 1024, "can't register ");
	}
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

/* -------------------------------------------------------------------- the devices */

static struct ibv_device devices[5] = { { .name = "soft0" }, { .name = "soft1" }, { .name = "soft2" },
					{ .name = "soft3" }, { .name = "soft4" } };
static struct ibv_context contexts[5];
static struct server servers[3]; /* the last is not the host's */
static struct host host;
static bool atomics, can_query;
static unsigned dropped;

int __wrap_link_query(const struct verbs *v, struct ibv_context *ctx, uint8_t port, struct link_limits *limits,
		      struct err *err);
void __wrap_conn_drop(struct conn *c, const char *reason);

int __wrap_link_query(const struct verbs *v, struct ibv_context *ctx, uint8_t port, struct link_limits *limits,
		      struct err *err)
{
	assert_ptr_equal(v, &counting);
	*limits = (struct link_limits){ .atomics = atomics, .rd_atom = (uint8_t)(ctx - contexts + 10 * port) };
	return can_query ? 0 : err_set(err, -1, "it says nothing");
}

void __wrap_conn_drop(struct conn *c, const char *reason)
{
	assert_int_equal(c->handshake.rail, 1);
	assert_string_equal(reason, "it is on fire");
	dropped++;
}

static void new_host(void)
{
	host = (struct host){ .servers = servers, .server_count = 2 };
	for (unsigned i = 0; i < 5; i++)
		contexts[i].device = &devices[i];
	for (unsigned i = 0; i < 3; i++) {
		servers[i] = (struct server){ .host = &host, .verbs = &counting };
		pthread_mutex_init(&servers[i].conns_lock, NULL);
	}
}

static int add(unsigned device, uint8_t port, struct listener *l, struct err *err)
{
	static struct rdma_cm_id id;

	id = (struct rdma_cm_id){ .verbs = &contexts[device], .port_num = port };
	*l = (struct listener){ .id = &id, .rail = 99 };
	snprintf(l->addr.text, sizeof l->addr.text, "192.0.2.%u:7480", device + 1);
	return rails_add(&host, l, err);
}

static void test_added(void **state)
{
	struct listener l;
	struct err err;
	char text[64];

	(void)state;
	new_host();
	servers[0].device.bootstrap = true;
	assert_int_equal(add(0, 0, &l, &err), 0);
	assert_int_equal(servers[0].rails[0].port, 1);
	assert_int_equal(add(0, 3, &l, &err), 0); /* another address of the same one */
	assert_int_equal(l.rail, 0);
	assert_int_equal(servers[0].rail_count, 1);
	assert_int_equal(add(1, 2, &l, &err), -1);
	assert_string_equal(err.text, "192.0.2.1:7480 is on soft0 and 192.0.2.2:7480 on soft1: with --bootstrap tcp "
				      "kvd serves one device; start another kvd there");
	servers[0].device.bootstrap = false;
	for (unsigned i = 1; i < RAILS_MAX; i++) {
		assert_int_equal(add(i, 2, &l, &err), 0);
		assert_int_equal(l.rail, i);
		assert_int_equal(servers[0].rails[i].number, i);
		assert_int_equal(servers[0].rails[i].port, 2);
		assert_ptr_equal(servers[0].rails[i].ctx, &contexts[i]);
		assert_string_equal(servers[0].rails[i].addr.text, l.addr.text);
	}
	assert_int_equal(add(4, 2, &l, &err), -1);
	assert_non_null(strstr(err.text, "kvd serves four devices at the most"));
	assert_int_equal(add(3, 2, &l, &err), 0);
	assert_int_equal(l.rail, 3);
	assert_string_equal(rails_text(&servers[0], text, sizeof text), "soft0, soft1, soft2, soft3");
	assert_string_equal(rails_text(&servers[0], text, 9), "soft0, s");
	assert_string_equal(rails_text(&servers[1], text, sizeof text), "");
	assert_ptr_equal(rails_find(&servers[0], &contexts[2]), &servers[0].rails[2]);
	assert_null(rails_find(&servers[0], &contexts[4]));
	assert_null(rails_find(&servers[0], NULL));
}

static void test_queried(void **state)
{
	struct listener l;
	struct err err;

	(void)state;
	new_host();
	add(0, 1, &l, &err);
	add(1, 2, &l, &err);
	can_query = false;
	assert_int_equal(rails_query(&host, &err), -1);
	assert_string_equal(err.text, "it says nothing");
	can_query = true;
	for (unsigned i = 0; i < 2; i++) {
		atomics = i;
		said_begin();
		assert_int_equal(rails_query(&host, &err), 0);
		said_end();
		assert_int_equal(said_lines("soft0 has no atomics: no locks"), !i);
	}
	assert_int_equal(servers[0].rails[0].limits.rd_atom, 10);
	assert_int_equal(servers[0].rails[1].limits.rd_atom, 21);
}

/* What came by it ends, in all namespaces, and nothing else. */
static void test_lost(void **state)
{
	static struct conn conns[5];
	static const unsigned of[] = { 0, 1, 1, 1, 1 };
	struct listener l;
	struct err err;

	(void)state;
	new_host();
	add(0, 1, &l, &err);
	add(1, 1, &l, &err);
	for (unsigned i = 0; i < 5; i++) {
		struct server *s = &servers[i < 2 ? 0 : i < 4 ? 1 : 2];
		conns[i] = (struct conn){ .server = s, .handshake.rail = of[i], .all_next = s->conns };
		s->conns = &conns[i];
	}
	said_begin();
	rails_lose(&host, 1, "it is on fire");
	said_end();
	assert_int_equal(dropped, 3);
	assert_int_equal(said_lines("soft1 (192.0.2.2:7480) is of no use any more: it is on fire; its 3 connections "
				    "end, and kvd serves on by the others"), 1);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(servers[i].rails[1].is_lost, i < 2);
		assert_false(servers[i].rails[0].is_lost);
		assert_int_equal(pthread_mutex_trylock(&servers[i].conns_lock), 0);
	}
	said_begin();
	rails_lose(&host, 1, "it is on fire"); /* once */
	said_end();
	assert_int_equal(said_lines("soft1"), 0);
	assert_int_equal(dropped, 3);
	dropped = 0;
	new_host();
	add(0, 1, &l, &err);
	add(1, 1, &l, &err);
	servers[1].conns = &conns[4];
	conns[4].all_next = NULL;
	said_begin();
	rails_lose(&host, 1, "it is on fire");
	said_end();
	assert_int_equal(said_lines("its 1 connection ends, and"), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_device_has_a_key),
		cmocka_unit_test(test_new_keys_on_all),
		cmocka_unit_test(test_new_keys_without_a_lost_one),
		cmocka_unit_test(test_a_failure_leaves_nothing),
		cmocka_unit_test(test_no_memory),
		cmocka_unit_test(test_not_registered),
		cmocka_unit_test(test_workers_are_dealt_out),
		cmocka_unit_test(test_room_of_the_least),
		cmocka_unit_test(test_reached_from_elsewhere),
		cmocka_unit_test(test_added),
		cmocka_unit_test(test_queried),
		cmocka_unit_test(test_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
