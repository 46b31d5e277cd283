/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What kvd --check and kvcli doctor say of a machine: each thing that is in the way, and what to do
 * about it, on machines that are made up: the verbs are made_nic.h's, and a folder has what /sys, /proc
 * and /dev would.
 *
 * The program is linked with --wrap of what doctor.c asks the machine by.
 */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/rdma/doctor.h"
#include "common/verbs/verbs.h"
#include "tests/unit/common/made_nic.h"

/* ------------------------------------------------------------------- machine */

static char root[] = "/tmp/doctor_test.XXXXXX";
static struct rlimit memlock;

static const char *below(const char *path, char buf[256])
{
	snprintf(buf, 256, "%s%s", root, path);
	return buf;
}

/* Where files are large, these are of another name. */
#ifdef __USE_FILE_OFFSET64
#define REAL(name) __real_##name##64
#define WRAP(name) __wrap_##name##64
#else
#define REAL(name) __real_##name
#define WRAP(name) __wrap_##name
#endif
FILE *REAL(fopen)(const char *path, const char *mode);
int __real_access(const char *path, int how);
int REAL(glob)(const char *pattern, int flags, int (*failed)(const char *path, int why), glob_t *found);
FILE *WRAP(fopen)(const char *path, const char *mode);
int __wrap_access(const char *path, int how);
int WRAP(glob)(const char *pattern, int flags, int (*failed)(const char *path, int why), glob_t *found);
FILE *__wrap_popen(const char *command, const char *mode);
int __wrap_pclose(FILE *file);
int WRAP(getrlimit)(int what, struct rlimit *limit);

FILE *WRAP(fopen)(const char *path, const char *mode)
{
	char buf[256];

	return REAL(fopen)(below(path, buf), mode);
}

int __wrap_access(const char *path, int how)
{
	char buf[256];

	/* root may do all: so what nobody may is what root may not. */
	if (__real_access(below(path, buf), F_OK))
		return -1;
	struct stat st;
	if (how != F_OK && !stat(buf, &st) && !(st.st_mode & 0666)) {
		errno = EACCES;
		return -1;
	}
	return 0;
}

int WRAP(glob)(const char *pattern, int flags, int (*failed)(const char *path, int why), glob_t *found)
{
	char buf[256];

	return REAL(glob)(below(pattern, buf), flags, failed, found);
}

/* Of nft. */
FILE *__wrap_popen(const char *command, const char *mode)
{
	assert_non_null(strstr(command, "nft"));
	return WRAP(fopen)("/nft", mode);
}

int __wrap_pclose(FILE *file)
{
	return fclose(file);
}

int WRAP(getrlimit)(int what, struct rlimit *limit)
{
	assert_int_equal(what, RLIMIT_MEMLOCK);
	*limit = memlock;
	return 0;
}

#ifdef __USE_FILE_OFFSET64
/* What counts coverage opens files by this name. */
FILE *__real_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode);

FILE *__wrap_fopen(const char *path, const char *mode)
{
	return __real_fopen(path, mode);
}
#endif

static void put_bytes(const char *path, const void *bytes, size_t n)
{
	char buf[256];

	below(path, buf);
	for (char *at = buf + strlen(root) + 1; (at = strchr(at, '/')); at++) {
		*at = '\0';
		(void)mkdir(buf, 0700);
		*at = '/';
	}
	FILE *f = REAL(fopen)(buf, "w");
	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, n, f), n);
	fclose(f);
}

static void put(const char *path, const char *text)
{
	put_bytes(path, text, strlen(text));
}

const struct verbs verbs_system = { .name = "system", VERBS_OF_NIC };
const struct verbs *const verbs_soft = NULL;

/* ------------------------------------------------------------------- what it says */

static char said[8192];

static unsigned examine(uint64_t memory_bytes)
{
	FILE *f = fmemopen(said, sizeof said, "w");
	unsigned n = doctor_examine(f, memory_bytes);

	fclose(f);
	return n;
}

static unsigned open_descriptors(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static unsigned open_before;

static void must_say(const char *mark, const char *what, const char *text)
{
	char line[256];

	snprintf(line, sizeof line, "%-5s %-16s %s", mark, what, text);
	if (!strstr(said, line))
		fail_msg("no '%s' in\n%s", line, said);
}

/* A machine on which all is well. */
static int set_up(void **state)
{
	uint8_t config[256] = { [0x34] = 0x40, [0x40] = 1, [0x41] = 0x50, [0x50] = 0x10, [0x58] = 0x10 };

	(void)state;
	strcpy(strrchr(root, '.') + 1, "XXXXXX");
	if (!mkdtemp(root))
		return -1;
	open_before = open_descriptors();
	nic_reset();
	memlock.rlim_cur = RLIM_INFINITY;
	put("/sys/class/infiniband_verbs", "");
	put("/dev/infiniband/rdma_cm", "");
	put("/sys/class/infiniband/nic0/ports/1/gid_attrs/types/0", "RoCE v2\n");
	put("/sys/class/infiniband/nic0/ports/1/gid_attrs/types/1", "RoCE v2\n");
	put("/sys/class/infiniband/nic0/ports/1/gid_attrs/types/2", "IB/RoCE v1\n");
	put("/sys/class/infiniband/nic0/device/numa_node", "1\n");
	put_bytes("/sys/class/infiniband/nic0/device/config", config, sizeof config);
	put("/sys/devices/system/node/online", "0-1\n");
	put("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
	put("/sys/class/infiniband/rxe0/x", "");
	put("/nft", "chain input {\n\tpolicy drop;\n\tudp dport 4791 accept\n");
	put("/proc/self/status", "Name: x\nCapEff: 0000000000000000\n");
	return 0;
}

static int tear_down(void **state)
{
	char command[64];

	(void)state;
	assert_int_equal(open_descriptors(), open_before);
	assert_int_equal(lists, 0);
	assert_int_equal(opened, 0);
	snprintf(command, sizeof command, "rm -r %s", root);
	return system(command);
}

static void test_all_is_well(void **state)
{
	(void)state;
	assert_int_equal(examine(1 << 30), 0);
	must_say("ok", "nic0", "port 1: active, Ethernet");
	must_say("ok", "nic0", "port 1: MTU 4096 of 4096");
	must_say("ok", "nic0", "port 1: 1 GIDs of RoCE v2");
	must_say("ok", "nic0", "atomics, among its own queue pairs");
	must_say("ok", "nic0", "on NUMA node 1 of 0-1");
	must_say("ok", "nic0", "PCI Express: relaxed ordering on");
	must_say("ok", "ib_uverbs", "verbs for programs: loaded");
	must_say("ok", "rdma_ucm", "connections for programs: loaded");
	must_say("ok", "firewall", "nothing in the way of UDP port 4791");
	must_say("ok", "locked memory", "no limit");
	must_say("ok", "huge pages", "transparent ones are used");
	assert_null(strstr(said, "FIX"));
	assert_null(strstr(said, "note"));
}

/* What costs speed only is no finding. */
static void test_notes(void **state)
{
	uint8_t config[256] = { [0x34] = 0x40, [0x40] = 0x10 };

	(void)state;
	atomics = IBV_ATOMIC_GLOB;
	port.active_mtu = IBV_MTU_1024;
	put_bytes("/sys/class/infiniband/nic0/device/config", config, sizeof config);
	put("/sys/class/infiniband/nic0/device/numa_node", "-1\n");
	put("/sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
	assert_int_equal(examine(0), 0);
	must_say("note", "nic0", "port 1: MTU 1024 of 4096: 'ip link set IFACE mtu 4200'");
	must_say("note", "nic0", "its NUMA node is not known; nodes 0-1");
	must_say("note", "nic0", "PCI Express: relaxed ordering off");
	must_say("note", "huge pages", "none, so the NIC's page tables get large");
	must_say("ok", "nic0", "atomics, with CPUs and other devices too");
	put_bytes("/sys/class/infiniband/nic0/device/config", config, 128);
	assert_int_equal(examine(0), 0);
	must_say("note", "nic0", "relaxed ordering: only root can look");
	assert_null(strstr(said, "relaxed ordering o"));
}

/* Where there is one NUMA node, none is told of; one that the device doesn't have is not known. */
static void test_nodes(void **state)
{
	char path[256];

	(void)state;
	assert_int_equal(unlink(below("/sys/class/infiniband/nic0/device/numa_node", path)), 0);
	put("/sys/devices/system/node/online", "0,2\n");
	assert_int_equal(examine(0), 0);
	must_say("note", "nic0", "its NUMA node is not known; nodes 0,2");
	put("/sys/devices/system/node/online", "0\n");
	assert_int_equal(examine(0), 0);
	assert_null(strstr(said, "NUMA"));
}

/* A list of capabilities that goes round is left; what is no PCI device has none. */
static void test_pci_that_goes_round(void **state)
{
	uint8_t config[256] = { [0x34] = 0x40, [0x40] = 1, [0x41] = 0x40 };
	char path[256];

	(void)state;
	put_bytes("/sys/class/infiniband/nic0/device/config", config, sizeof config);
	assert_int_equal(examine(0), 0);
	assert_null(strstr(said, "relaxed ordering"));
	assert_int_equal(unlink(below("/sys/class/infiniband/nic0/device/config", path)), 0);
	assert_int_equal(examine(0), 0);
	assert_null(strstr(said, "relaxed ordering"));
}

/* Where the register is near either end of the list, or of the space. */
static void test_pci_limits(void **state)
{
	static const struct {
		unsigned capabilities, first, step;
		uint8_t control;
		const char *says; /* NULL: nothing */
	} cases[] = { { 1, 0x40, 4, 0xef, "relaxed ordering off" }, { 1, 0x40, 4, 0x10, "relaxed ordering on" },
		      { 1, 0xf3, 4, 0x10, "relaxed ordering on" },  { 1, 0xf4, 4, 0x10, NULL },
		      { 1, 0x3f, 4, 0x10, NULL },		    { 48, 0x40, 2, 0x10, "relaxed ordering on" },
		      { 49, 0x40, 2, 0x10, NULL } };

	(void)state;
	for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		uint8_t config[256] = { [0x34] = (uint8_t)cases[i].first };
		unsigned at = cases[i].first;
		for (unsigned n = 1; n < cases[i].capabilities; n++, at += cases[i].step) {
			config[at] = 1;
			config[at + 1] = (uint8_t)(at + cases[i].step);
		}
		config[at] = 0x10;
		config[at + 8] = cases[i].control;
		put_bytes("/sys/class/infiniband/nic0/device/config", config, sizeof config);
		assert_int_equal(examine(0), 0);
		if (cases[i].says ? !strstr(said, cases[i].says) : !!strstr(said, "relaxed ordering"))
			fail_msg("case %u: %s", i, said);
	}
}

/* 2048 will do, or what the port can do at the most. */
static void test_mtu(void **state)
{
	static const struct {
		enum ibv_mtu active, max;
		const char *mark, *text;
	} cases[] = { { IBV_MTU_2048, IBV_MTU_4096, "ok", "port 1: MTU 2048 of 4096" },
		      { IBV_MTU_1024, IBV_MTU_2048, "note", "port 1: MTU 1024 of 2048" },
		      { IBV_MTU_1024, IBV_MTU_1024, "ok", "port 1: MTU 1024 of 1024" },
		      { IBV_MTU_512, IBV_MTU_1024, "note", "port 1: MTU 512 of 1024" },
		      { IBV_MTU_512, IBV_MTU_512, "ok", "port 1: MTU 512 of 512" },
		      { IBV_MTU_256, IBV_MTU_512, "note", "port 1: MTU 256 of 512" } };

	(void)state;
	for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		port.active_mtu = cases[i].active;
		port.max_mtu = cases[i].max;
		assert_int_equal(examine(0), 0);
		must_say(cases[i].mark, "nic0", cases[i].text);
	}
}

/* One that is up is enough, but the other one is told of. */
static void test_two_ports(void **state)
{
	(void)state;
	port_count = 2;
	second_port = port;
	second_port.state = IBV_PORT_DOWN;
	assert_int_equal(examine(0), 1);
	must_say("ok", "nic0", "port 1: active, Ethernet");
	must_say("FIX", "nic0", "port 2 is down");
	port.state = IBV_PORT_DOWN;
	second_port.state = IBV_PORT_ACTIVE;
	put("/sys/class/infiniband/nic0/ports/2/gid_attrs/types/0", "RoCE v2\n");
	assert_int_equal(examine(0), 1);
	must_say("FIX", "nic0", "port 1 is down");
	must_say("ok", "nic0", "port 2: 1 GIDs of RoCE v2");
	assert_null(strstr(said, "no port is active"));
}

/* One of which nothing is known is none, whatever the one before it is. */
static void test_gids(void **state)
{
	char longer[300];

	(void)state;
	port.gid_tbl_len = 4;
	put("/sys/class/infiniband/nic0/ports/1/gid_attrs/types/2", "RoCE v2\n");
	memset(&gids[0], 0, sizeof gids[0]);
	gids[0].raw[8] = 1; /* half of it is enough */
	assert_int_equal(examine(0), 0);
	must_say("ok", "nic0", "port 1: 2 GIDs of RoCE v2");
	gids[0].raw[8] = 0;
	gids[0].raw[15] = 1; /* as of an address that ends in ::1 */
	assert_int_equal(examine(0), 0);
	must_say("ok", "nic0", "port 1: 2 GIDs of RoCE v2");
	memset(&gids[0], 1, 8);
	gids[0].raw[15] = 0; /* but the other half */
	assert_int_equal(examine(0), 0);
	must_say("ok", "nic0", "port 1: 1 GIDs of RoCE v2");
	memset(longer, 'x', sizeof longer - 1);
	strcpy(longer + sizeof longer - 4, "v2\n");
	put("/sys/class/infiniband/nic0/ports/1/gid_attrs/types/3", longer);
	assert_int_equal(examine(0), 0);
	must_say("ok", "nic0", "port 1: 1 GIDs of RoCE v2");
}

static void test_ports(void **state)
{
	char type[256];

	(void)state;
	assert_int_equal(unlink(below("/sys/class/infiniband/nic0/ports/1/gid_attrs/types/0", type)), 0);
	assert_int_equal(examine(0), 1);
	must_say("FIX", "nic0", "port 1: no GID of RoCE v2: give its interface an address");
	port.state = IBV_PORT_DOWN;
	assert_int_equal(examine(0), 2);
	must_say("FIX", "nic0", "port 1 is down: ip link set IFACE up");
	must_say("FIX", "devices", "no port is active");
	port.link_layer = IBV_LINK_LAYER_INFINIBAND;
	assert_int_equal(examine(0), 2);
	must_say("FIX", "nic0", "port 1 is not active: look at the cable, and that a subnet manager runs");
	port.state = IBV_PORT_ACTIVE;
	port.active_mtu = IBV_MTU_1024;
	assert_int_equal(examine(0), 0);
	must_say("ok", "nic0", "port 1: active, InfiniBand");
	must_say("note", "nic0", "port 1: MTU 1024 of 4096\n");
	port_is_asked = false;
	assert_int_equal(examine(0), 2);
	must_say("FIX", "nic0", "port 1 can't be asked");
}

static void test_devices(void **state)
{
	(void)state;
	atomics = IBV_ATOMIC_NONE;
	assert_int_equal(examine(0), 1);
	must_say("FIX", "nic0", "no atomics: GET and PUT work, locks don't");
	is_asked = false;
	assert_int_equal(examine(0), 2);
	must_say("FIX", "nic0", "can't be asked for its limits");
	opens = false;
	assert_int_equal(examine(0), 2);
	must_say("FIX", "nic0", "can't be opened: Permission denied");
	nic_count = 0;
	assert_int_equal(examine(0), 1);
	must_say("note", "devices", "no RDMA device; Soft-RoCE makes one");
	must_say("FIX", "devices", "and this build has no software device");
	nic_count = -1; /* no verbs in the kernel */
	assert_int_equal(examine(0), 1);
	must_say("note", "devices", "no RDMA device; Soft-RoCE makes one");
}

static void test_modules(void **state)
{
	char path[256];

	(void)state;
	assert_int_equal(chmod(below("/dev/infiniband/rdma_cm", path), 0), 0);
	assert_int_equal(examine(0), 1);
	must_say("FIX", "rdma_cm", "Permission denied: /dev/infiniband/rdma_cm: chmod a+rw");
	assert_int_equal(unlink(path), 0);
	assert_int_equal(unlink(below("/sys/class/infiniband_verbs", path)), 0);
	assert_int_equal(examine(0), 2);
	must_say("FIX", "ib_uverbs", "verbs for programs: not loaded: modprobe ib_uverbs");
	must_say("FIX", "rdma_ucm", "connections for programs: not loaded: modprobe rdma_ucm");
}

static void test_firewall(void **state)
{
	static const char *const rules[] = { "\tpolicy drop;\n", "\tip saddr 10.0.0.0/8 drop\n",
					     "\tudp dport 9 reject\n" };
	char path[256];

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		put("/nft", rules[i]);
		assert_int_equal(examine(0), 1);
		must_say("FIX", "firewall", "it drops packets, and has no rule for RoCE: nft add rule");
	}
	put("/nft", "chain input {\n\tpolicy accept;\n\tudp dport 9 accept\n");
	assert_int_equal(examine(0), 0);
	must_say("ok", "firewall", "nothing in the way");
	put("/nft", "");
	assert_int_equal(examine(0), 0);
	must_say("ok", "firewall", "nothing in the way");
	assert_int_equal(unlink(below("/nft", path)), 0);
	assert_int_equal(examine(0), 0);
	must_say("ok", "firewall", "nothing in the way");
	/* A NIC's RoCE doesn't go through it. */
	assert_int_equal(unlink(below("/sys/class/infiniband/rxe0/x", path)), 0);
	assert_int_equal(rmdir(below("/sys/class/infiniband/rxe0", path)), 0);
	put("/nft", rules[0]);
	assert_int_equal(examine(0), 0);
	assert_null(strstr(said, "firewall"));
}

static void test_locked_memory(void **state)
{
	char path[256];

	(void)state;
	memlock.rlim_cur = 1 << 20;
	assert_int_equal(examine(0), 1);
	must_say("FIX", "locked memory", "limit 1 MiB, needed 64 MiB: ulimit -l unlimited");
	memlock.rlim_cur = 64 << 20;
	assert_int_equal(examine(0), 0);
	must_say("ok", "locked memory", "limit 64 MiB, needed 64 MiB");
	assert_int_equal(examine(1 << 30), 1); /* and a sixteenth for the rest */
	must_say("FIX", "locked memory", "limit 64 MiB, needed 1");
	memlock.rlim_cur = (1u << 30) + (1u << 26);
	assert_int_equal(examine(1 << 30), 0);
	memlock.rlim_cur--;
	assert_int_equal(examine(1 << 30), 1);
	assert_int_equal(unlink(below("/proc/self/status", path)), 0); /* so it has no rights */
	assert_int_equal(examine(1 << 30), 1);
	put("/proc/self/status", "Name: x\nCapEff: 0000000000004000\n"); /* CAP_IPC_LOCK */
	assert_int_equal(examine(1 << 30), 0);
	must_say("ok", "locked memory", "no limit");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_all_is_well),
		TEST(test_notes),
		TEST(test_nodes),
		TEST(test_pci_that_goes_round),
		TEST(test_pci_limits),
		TEST(test_mtu),
		TEST(test_two_ports),
		TEST(test_gids),
		TEST(test_ports),
		TEST(test_devices),
		TEST(test_modules),
		TEST(test_firewall),
		TEST(test_locked_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
