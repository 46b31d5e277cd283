/* SPDX-License-Identifier: BSD-2-Clause */
/* server/platform/affinity.h: which CPUs a worker has, on however many CPUs there are, and the
 * node of a device, on a machine that the test makes up; server/host/server.h: whose node has the table. */
#include <errno.h>
#include <numa.h>
#include <numaif.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "server/host/host.h"
#include "server/host/server.h"
#include "server/platform/affinity.h"
#include "server/table/table.h"
#include "server/worker/context.h"
#include "tests/unit/server/wrap_fopen.h"

#define HCA "/sys/class/infiniband/hca/device/numa_node"
#define HCA_NETDEV "/sys/class/infiniband/hca/ports/1/gid_attrs/ndevs/0"
#define NIC "/sys/class/net/nic0/device/numa_node"
#define NIC_ABOVE "/sys/class/net/nic0/device/../numa_node"

static cpu_set_t all;

/* ------------------------------------------------------------------- machine */

static struct {
	struct { const char *path, *text; } file[4];
	int opened, closed;
	int available;   /* of numa_available() */
	int last;        /* the node with the highest number */
	int node;        /* the one that was asked for */
	int cpu;         /* what that has; -1: nothing */
	int nodes_error; /* of numa_node_to_cpus() */
	void *bound;
	uint64_t bound_bytes;
	unsigned binds;
	unsigned long bound_node;
} machine;

int __wrap_fclose(FILE *f);
int __real_fclose(FILE *f);
int __wrap_numa_available(void);
int __wrap_numa_max_node(void);
int __wrap_numa_node_to_cpus(int node, struct bitmask *mask);
long __wrap_mbind(void *memory, unsigned long bytes, int mode, const unsigned long *nodes,
		  unsigned long bits, unsigned flags);

FILE *WRAP_FOPEN(const char *path, const char *mode)
{
	(void)mode;
	for (unsigned i = 0; i < 4 && machine.file[i].path; i++)
		if (!strcmp(path, machine.file[i].path)) {
			machine.opened++;
			return fmemopen((void *)(uintptr_t)machine.file[i].text,
					strlen(machine.file[i].text), "r");
		}
	errno = ENOENT;
	return NULL;
}

int __wrap_fclose(FILE *f)
{
	machine.closed++;
	return __real_fclose(f);
}

int __wrap_numa_available(void) { return machine.available; }
int __wrap_numa_max_node(void) { return machine.last; }

int __wrap_numa_node_to_cpus(int node, struct bitmask *mask)
{
	machine.node = node;
	numa_bitmask_clearall(mask);
	if (machine.cpu >= 0)
		numa_bitmask_setbit(mask, (unsigned)machine.cpu);
	return machine.nodes_error;
}

long __wrap_mbind(void *memory, unsigned long bytes, int mode, const unsigned long *nodes,
		  unsigned long bits, unsigned flags)
{
	machine.binds++;
	machine.bound = memory;
	machine.bound_bytes = bytes;
	machine.bound_node = nodes[0];
	assert_true(bits > 1);
	assert_int_equal(mode, MPOL_BIND);
	assert_int_equal(flags, MPOL_MF_MOVE);
	return 0;
}

/* ----------------------------------------------------------------------- CPUs */

/* The n-th of them. */
static int nth_cpu(unsigned n)
{
	for (int i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &all) && n-- == 0)
			return i;
	fail();
	return -1;
}

/* What a thread has behind it, which has all of them again then. */
static cpu_set_t pin_at(int node, unsigned number, unsigned count, char *text, size_t text_bytes)
{
	cpu_set_t has;

	affinity_pin(pthread_self(), node, number, count, text, text_bytes);
	assert_int_equal(pthread_getaffinity_np(pthread_self(), sizeof has, &has), 0);
	assert_int_equal(pthread_setaffinity_np(pthread_self(), sizeof all, &all), 0);
	return has;
}

static cpu_set_t pin(unsigned number, unsigned count, char *text, size_t text_bytes)
{
	return pin_at(-1, number, count, text, text_bytes);
}

/* One of one's own where there are twice as many as workers. */
static void test_own(void **state)
{
	unsigned count = (unsigned)CPU_COUNT(&all) / 2;
	char text[64], expected[64];

	(void)state;
	for (unsigned i = 0; i < count; i++) {
		cpu_set_t has = pin(i, count, text, sizeof text);
		assert_int_equal(CPU_COUNT(&has), 1);
		assert_true(CPU_ISSET(nth_cpu(i), &has));
		snprintf(expected, sizeof expected, "cpus %d", nth_cpu(i));
		assert_string_equal(text, expected);
	}
}

/* Else any of them: a client's thread has to go somewhere. */
static void test_shared(void **state)
{
	unsigned count = (unsigned)CPU_COUNT(&all) / 2 + 1;
	char text[8 * CPU_SETSIZE], expected[8 * CPU_SETSIZE] = "cpus", shorter[8];
	size_t n = strlen(expected);

	(void)state;
	cpu_set_t has = pin(0, count, text, sizeof text);
	assert_true(CPU_EQUAL(&has, &all));
	for (unsigned i = 0; i < (unsigned)CPU_COUNT(&all); i++)
		n += (size_t)snprintf(expected + n, sizeof expected - n, " %d", nth_cpu(i));
	assert_string_equal(text, expected);
	memset(shorter, 'x', sizeof shorter);
	pin(0, count, shorter, 6);
	assert_string_equal(shorter, "cpus ");
	assert_int_equal(shorter[6], 'x');
}

/* Those of the node only; all, where it has none that this process may use, or nobody knows. */
static void test_node_cpus(void **state)
{
	int last = nth_cpu((unsigned)CPU_COUNT(&all) - 1);
	unsigned too_many = (unsigned)CPU_COUNT(&all);
	char text[8 * CPU_SETSIZE];

	(void)state;
	for (int node = 0; node < 2; node++) {
		machine.node = -1;
		machine.cpu = last;
		cpu_set_t has = pin_at(node, 0, too_many, text, sizeof text);
		assert_int_equal(machine.node, node);
		assert_int_equal(CPU_COUNT(&has), 1);
		assert_true(CPU_ISSET(last, &has));
	}
	machine.nodes_error = -1;
	cpu_set_t has = pin_at(1, 0, too_many, text, sizeof text);
	assert_true(CPU_EQUAL(&has, &all));
	machine.nodes_error = 0;
	machine.cpu = -1;
	has = pin_at(1, 0, too_many, text, sizeof text);
	assert_true(CPU_EQUAL(&has, &all));
}

/* ---------------------------------------------------------------------- nodes */

static void put_file(unsigned i, const char *path, const char *text)
{
	machine.file[i].path = path;
	machine.file[i].text = text;
}

static int node_of(const char *device)
{
	machine.opened = machine.closed = 0;
	int node = affinity_node(device);
	assert_int_equal(machine.closed, machine.opened);
	return node;
}

static void test_device_node(void **state)
{
	(void)state;
	assert_int_equal(node_of("hca"), -1);
	put_file(0, HCA, "0\n");
	assert_int_equal(node_of("hca"), 0);
	put_file(0, HCA, "1\n");
	assert_int_equal(node_of("hca"), 1);
	assert_int_equal(node_of("other"), -1);
	assert_int_equal(node_of(NULL), -1);
	machine.available = -1;
	assert_int_equal(node_of("hca"), -1);
	machine.available = 0;
	put_file(0, HCA, "nobody knows\n");
	assert_int_equal(node_of("hca"), -1);
}

/* A device without one has that of the network interface behind it, or of what that is on. */
static void test_interface_node(void **state)
{
	(void)state;
	put_file(0, HCA, "-1\n");
	put_file(1, HCA_NETDEV, "nic0\n");
	assert_int_equal(node_of("hca"), -1);
	put_file(2, NIC_ABOVE, "3\n");
	assert_int_equal(node_of("hca"), 3);
	put_file(3, NIC, "-1\n");
	assert_int_equal(node_of("hca"), 3);
	put_file(3, NIC, "0\n");
	assert_int_equal(node_of("hca"), 0);
	put_file(0, HCA, "0\n");
	put_file(3, NIC, "2\n");
	assert_int_equal(node_of("hca"), 0);
}

/* No name of an interface leads elsewhere. */
static void test_no_interface(void **state)
{
	(void)state;
	put_file(0, HCA_NETDEV, "\n");
	put_file(1, "/sys/class/net//device/numa_node", "2\n");
	assert_int_equal(node_of("hca"), -1);
	put_file(0, HCA_NETDEV, "../nic0\n");
	put_file(1, "/sys/class/net/../nic0/device/numa_node", "2\n");
	assert_int_equal(node_of("hca"), -1);
}

static void test_bind(void **state)
{
	char memory[64];

	(void)state;
	assert_false(affinity_bind(0, memory, sizeof memory));
	machine.last = 1;
	assert_false(affinity_bind(-1, memory, sizeof memory));
	assert_null(machine.bound);
	assert_true(affinity_bind(0, memory, sizeof memory));
	assert_ptr_equal(machine.bound, memory);
	assert_int_equal(machine.bound_bytes, sizeof memory);
	assert_int_equal(machine.bound_node, 1);
}

/* -------------------------------------------------------------------- a table */

/* The start of kvd ends here, behind what is tested. */
static struct ibv_pd *no_domain(struct ibv_context *ctx)
{
	(void)ctx;
	errno = ENODEV;
	return NULL;
}

/* A namespace whose table is made for the device "hca", of software or not. */
static void new_table(struct server *s, bool is_soft, unsigned binds)
{
	static struct ibv_device device = { .name = "hca" };
	static struct ibv_context context = { .device = &device };
	static struct host host;
	static struct options options = { .memory_bytes = TABLE_BYTES_MIN, .workers = 1, .connections = 1 };
	const struct verbs verbs = { .soft = is_soft, .mem_alloc = verbs_system.mem_alloc,
				     .mem_free = verbs_system.mem_free, .alloc_pd = no_domain };
	struct err err;

	memset(s, 0, sizeof *s);
	memset(&host, 0, sizeof host);
	host.listener_count = 1;
	assert_int_equal(addr_parse(&host.listeners[0].addr, "127.0.0.1:7480", &err), 0);
	s->host = &host;
	s->options = &options;
	s->verbs = &verbs;
	s->rail_count = 1;
	s->rails[0].ctx = &context;
	machine.binds = 0;
	assert_int_equal(server_new(s, &err), -1);
	assert_string_equal(err.text, "can't allocate a protection domain of hca: No such device");
	assert_int_equal(machine.binds, binds);
	if (binds)
		assert_ptr_equal(machine.bound, s->table->locks);
	server_delete(s);
}

/* The table and the locks are on the node of the device, which READs them for its peers.  The software device
 * is on none, even if the system has one of that name. */
static void test_table_node(void **state)
{
	static struct server server;

	(void)state;
	machine.last = 1;
	new_table(&server, false, 0);
	put_file(0, HCA, "1\n");
	new_table(&server, false, 2);
	assert_int_equal(machine.bound_node, 2);
	new_table(&server, true, 0);
}

static int new_machine(void **state)
{
	(void)state;
	memset(&machine, 0, sizeof machine);
	return 0;
}

static int begin(void **state)
{
	(void)state;
	return sched_getaffinity(0, sizeof all, &all);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_own),
		cmocka_unit_test(test_shared),
		cmocka_unit_test_setup(test_node_cpus, new_machine),
		cmocka_unit_test_setup(test_device_node, new_machine),
		cmocka_unit_test_setup(test_interface_node, new_machine),
		cmocka_unit_test_setup(test_no_interface, new_machine),
		cmocka_unit_test_setup(test_bind, new_machine),
		cmocka_unit_test_setup(test_table_node, new_machine),
	};

	return cmocka_run_group_tests(tests, begin, NULL);
}
