/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The devices by themselves: how many the environment asks for, their names and addresses, whose
 * port is cut and when that is seen.
 *
 * The program is linked with --wrap=clock_gettime: the time is the test's.
 */
#include <arpa/inet.h>
#include <sys/mman.h>
#include "common/softverbs/base/device.h"
#include "kit.h"

#define LATE_NS 1000000ull /* how old what is known of a port may be */

static uint64_t now_ns = 1000 * LATE_NS;

int __wrap_clock_gettime(clockid_t clock, struct timespec *ts);

int __wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
	CHECK(clock == CLOCK_MONOTONIC);
	ts->tv_sec = (time_t)(now_ns / 1000000000);
	ts->tv_nsec = (long)(now_ns % 1000000000);
	return 0;
}

/* ---- how many ---- */

/* The environment is read once in a process. */
static void run_with(const char *devices, kit_side *side)
{
	if (devices)
		assert_int_equal(setenv("SOFTVERBS_DEVICES", devices, 1), 0);
	kit_run(side, kit_nothing);
	unsetenv("SOFTVERBS_DEVICES");
}

static void check_good(int sock)
{
	const char *text = getenv("SOFTVERBS_DEVICES");
	uint32_t n = text ? (uint32_t)atoi(text) : 1;

	(void)sock;
	CHECK(!sv_device_env() && sv_device_count() == n);
	CHECK(!setenv("SOFTVERBS_DEVICES", "3", 1) && sv_device_count() == n);
}

static void check_bad(int sock)
{
	int fd = memfd_create("said", MFD_CLOEXEC);
	char text[256] = "", expected[256];

	(void)sock;
	CHECK(fd >= 0 && dup2(fd, 2) == 2);
	CHECK(sv_device_env() == EINVAL && sv_device_count() == 1);
	CHECK(pread(fd, text, sizeof(text) - 1, 0) > 0);
	snprintf(expected, sizeof(expected), "softverbs: SOFTVERBS_DEVICES=%s: not a number from 1 to 4\n",
		 getenv("SOFTVERBS_DEVICES"));
	CHECK(!strcmp(text, expected));
}

static void check_first(int sock)
{
	(void)sock;
	CHECK(sv_device_count() == 2 && !sv_device_env()); /* it reads as well */
}

static void test_count(void **state)
{
	static const char *const good[] = { NULL, "1", "2", "3", "4" };
	static const char *const bad[] = { "", "0", "5", "x", "2x", "-1", "99999999999999999999" };

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		run_with(good[i], check_good);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		run_with(bad[i], check_bad);
	run_with("2", check_first);
}

static void check_devices(int sock)
{
	static const char *const names[] = { "soft0", "soft1", "soft2", "soft3" };

	(void)sock;
	for (uint32_t i = 0; i < SV_DEVICES; i++) {
		struct ibv_device *device = sv_device_at(i);

		CHECK(sv_device_index(device) == i && !strcmp(device->name, names[i]));
		CHECK(!strcmp(device->dev_name, names[i]) && device->node_type == IBV_NODE_CA);
		CHECK(device->transport_type == IBV_TRANSPORT_IB);
	}
}

/* ---- addresses ---- */

static uint32_t device_of(const char *text)
{
	struct sockaddr_in in = { .sin_family = AF_INET };

	CHECK(inet_pton(AF_INET, text, &in.sin_addr) == 1);
	return sv_device_of((struct sockaddr *)&in);
}

static void check_addresses(int sock)
{
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_addr = { { { [15] = 2 } } } };
	struct sockaddr_in second = { .sin_family = AF_INET };

	(void)sock;
	CHECK(device_of("127.0.0.1") == 0 && device_of("127.0.0.2") == 1);
	CHECK(device_of("127.0.0.3") == 2 && device_of("127.0.0.4") == 0); /* there are three */
	CHECK(device_of("127.0.0.0") == 0 && device_of("10.0.0.2") == 0);
	CHECK(sv_device_of((struct sockaddr *)&in6) == 0);
	second.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
	CHECK(sv_device_of((struct sockaddr *)&second) == 1);
	second.sin_family = AF_INET6; /* what is there says nothing */
	CHECK(sv_device_of((struct sockaddr *)&second) == 0);
}

static void test_devices(void **state)
{
	(void)state;
	run_with("4", check_devices);
	run_with("3", check_addresses);
}

static bool is_gid(uint32_t device, uint32_t index, const char *text)
{
	uint8_t gid[SV_GID_BYTES], expected[SV_GID_BYTES];

	memset(gid, 0xa5, sizeof(gid));
	sv_gid_get(device, index, gid);
	CHECK(inet_pton(AF_INET6, text, expected) == 1);
	return !memcmp(gid, expected, sizeof(gid));
}

static bool is_group(const char *text)
{
	uint8_t gid[SV_GID_BYTES];

	CHECK(inet_pton(AF_INET6, text, gid) == 1);
	return sv_gid_is_group(gid);
}

static void test_gids(void **state)
{
	(void)state;
	CHECK(is_gid(0, 0, "::ffff:127.0.0.1") && is_gid(0, 1, "::1"));
	CHECK(is_gid(2, 0, "::ffff:127.0.0.3") && is_gid(2, 1, "::3"));
	CHECK(is_group("ff0e::7") && is_group("ff00::") && !is_group("fe80::7") && !is_group("::7"));
	CHECK(is_group("::ffff:224.0.0.1") && is_group("::ffff:239.255.255.255"));
	CHECK(!is_group("::ffff:223.0.0.1") && !is_group("::ffff:240.0.0.1"));
	CHECK(!is_group("::fffe:224.0.0.1") && !is_group("1::ffff:224.0.0.1"));
}

/* ---- cut ports ---- */

static char folder[] = "/tmp/softverbs-ports.XXXXXX", mark[64];

static void set_mark(bool there)
{
	int fd;

	if (!there) {
		CHECK(!unlink(mark));
		return;
	}
	fd = open(mark, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	CHECK(fd >= 0);
	close(fd);
}

static void check_cut(int sock)
{
	(void)sock;
	CHECK(!setenv("SOFTVERBS_DOWN", folder, 1) && sv_device_may_be_cut());
	CHECK(!sv_device_is_cut(1) && !sv_device_is_cut(2));
	set_mark(true); /* soft1 */
	now_ns += LATE_NS - 1;
	CHECK(!sv_device_is_cut(1));
	now_ns++;
	CHECK(sv_device_is_cut(1) && !sv_device_is_cut(0) && !sv_device_is_cut(2));
	set_mark(false);
	now_ns += LATE_NS - 1;
	CHECK(sv_device_is_cut(1)); /* since that look */
	now_ns++;
	CHECK(!sv_device_is_cut(1));
	set_mark(true);
	CHECK(!sv_device_is_cut(1));
	now_ns += LATE_NS;
	CHECK(sv_device_is_cut(1));
	set_mark(false);
}

static void check_never(int sock)
{
	(void)sock;
	CHECK(!sv_device_is_cut(0) && !sv_device_may_be_cut());
	CHECK(!setenv("SOFTVERBS_DOWN", folder, 1) && !sv_device_may_be_cut()); /* too late */
}

/* An empty name is no folder: not that of all files either. */
static void check_empty(int sock)
{
	(void)sock;
	CHECK(!setenv("SOFTVERBS_DOWN", "", 1));
	CHECK(!sv_device_may_be_cut() && !sv_device_is_cut(0));
}

static void test_cut(void **state)
{
	(void)state;
	assert_non_null(mkdtemp(folder));
	snprintf(mark, sizeof(mark), "%s/soft1", folder);
	kit_run(check_cut, kit_nothing);
	kit_run(check_never, check_empty);
	unlink(mark);
	assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_count),
		cmocka_unit_test(test_devices),
		cmocka_unit_test(test_gids),
		cmocka_unit_test(test_cut),
	};

	unsetenv("SOFTVERBS_DEVICES");
	unsetenv("SOFTVERBS_DOWN");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
