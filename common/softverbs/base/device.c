/* SPDX-License-Identifier: BSD-2-Clause */
/* device.c -- the devices: how many there are, their addresses, whose port is cut. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "common/softverbs/base/device.h"
#include "common/softverbs/base/lock.h"

#define LOOK_NS 1000000u

#define DEVICE(n)                                                                             \
	{                                                                                     \
		.node_type = IBV_NODE_CA, .transport_type = IBV_TRANSPORT_IB, .name = n,      \
		.dev_name = n, .dev_path = "/dev/null", .ibdev_path = "/dev/null",            \
	}

static struct ibv_device devices[SV_DEVICES] = { DEVICE("soft0"), DEVICE("soft1"), DEVICE("soft2"),
						 DEVICE("soft3") };

/* ---- the environment ---- */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static uint32_t count;
static bool bad_count;
static const char *cut_folder;

static void read_env(void)
{
	const char *text = getenv("SOFTVERBS_DEVICES");
	char *end = NULL;
	unsigned long n = text ? strtoul(text, &end, 10) : 1;

	bad_count = text && (end == text || *end || n < 1 || n > SV_DEVICES);
	count = bad_count ? 1 : (uint32_t)n;
	cut_folder = getenv("SOFTVERBS_DOWN");
	if (cut_folder && !*cut_folder)
		cut_folder = NULL;
}

int sv_device_env(void)
{
	pthread_once(&once, read_env);
	if (!bad_count)
		return 0;
	fprintf(stderr, "softverbs: SOFTVERBS_DEVICES=%s: not a number from 1 to %u\n",
		getenv("SOFTVERBS_DEVICES"), SV_DEVICES);
	return EINVAL;
}

/* ---- devices ---- */

uint32_t sv_device_count(void)
{
	pthread_once(&once, read_env);
	return count;
}

struct ibv_device *sv_device_at(uint32_t index)
{
	return &devices[index];
}

uint32_t sv_device_index(const struct ibv_device *device)
{
	return (uint32_t)(device - devices);
}

uint32_t sv_device_of(const struct sockaddr *addr)
{
	const struct sockaddr_in *in = (const void *)addr;
	uint32_t nth;

	if (addr->sa_family != AF_INET)
		return 0;
	nth = ntohl(in->sin_addr.s_addr) - INADDR_LOOPBACK;
	return nth < sv_device_count() ? nth : 0;
}

/* ---- addresses of ports and groups ---- */

static const uint8_t of_ipv4[12] = { [10] = 0xff, [11] = 0xff };

void sv_gid_get(uint32_t device, uint32_t index, uint8_t gid[SV_GID_BYTES])
{
	memset(gid, 0, SV_GID_BYTES);
	gid[15] = (uint8_t)(1 + device); /* ::1 */
	if (index == 0) { /* ::ffff:127.0.0.1 */
		memcpy(gid, of_ipv4, sizeof(of_ipv4));
		gid[12] = 127;
	}
}

bool sv_gid_is_group(const uint8_t gid[SV_GID_BYTES])
{
	return gid[0] == 0xff || (!memcmp(gid, of_ipv4, sizeof(of_ipv4)) && gid[12] >> 4 == 0xe);
}

/* ---- cut ports ---- */

bool sv_device_may_be_cut(void)
{
	pthread_once(&once, read_env);
	return cut_folder != NULL;
}

bool sv_device_is_cut(uint32_t index)
{
	static _Atomic uint64_t looked_ns[SV_DEVICES];
	static _Atomic bool cut[SV_DEVICES];
	uint64_t now;
	char path[256];

	if (!sv_device_may_be_cut())
		return false;
	now = sv_now_ns();
	if (now - atomic_load(&looked_ns[index]) >= LOOK_NS) {
		snprintf(path, sizeof(path), "%s/%s", cut_folder, devices[index].name);
		atomic_store(&cut[index], !access(path, F_OK));
		atomic_store(&looked_ns[index], now);
	}
	return atomic_load(&cut[index]);
}
