/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/platform/affinity.h"

#include <errno.h>
#include <numa.h>
#include <numaif.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <dirent.h>

#include "common/log.h"

static int read_node(const char *path)
{
	FILE *f = fopen(path, "re");
	int node = -1;

	if (!f)
		return -1;
	if (fscanf(f, "%d", &node) != 1)
		node = -1;
	fclose(f);
	return node;
}

/* The node of the network interface behind a device without one of its own (rxe). */
static int netdev_node(const char *device)
{
	char path[512], ifname[64] = "";
	FILE *f;

	snprintf(path, sizeof path, "/sys/class/infiniband/%s/ports/1/gid_attrs/ndevs/0", device);
	f = fopen(path, "re");
	if (!f)
		return -1;
	if (fscanf(f, "%63s", ifname) != 1)
		ifname[0] = '\0';
	fclose(f);
	if (!ifname[0] || strchr(ifname, '/'))
		return -1;
	snprintf(path, sizeof path, "/sys/class/net/%s/device/numa_node", ifname);
	int node = read_node(path);
	if (node >= 0)
		return node;
	snprintf(path, sizeof path, "/sys/class/net/%s/device/../numa_node", ifname);
	return read_node(path);
}

int affinity_node(const char *device)
{
	char path[512];

	if (!device || numa_available() < 0)
		return -1;
	snprintf(path, sizeof path, "/sys/class/infiniband/%s/device/numa_node", device);
	int node = read_node(path);
	return node >= 0 ? node : netdev_node(device);
}

/* The CPUs that this process may use, of the node if there is one. */
static void allowed_cpus(int node, cpu_set_t *set)
{
	cpu_set_t all;

	CPU_ZERO(&all);
	sched_getaffinity(0, sizeof all, &all);
	*set = all;
	if (node < 0)
		return;
	struct bitmask *mask = numa_allocate_cpumask();
	if (!numa_node_to_cpus(node, mask)) {
		for (int i = 0; i < CPU_SETSIZE; i++)
			if (!numa_bitmask_isbitset(mask, (unsigned)i))
				CPU_CLR(i, set);
	}
	numa_free_cpumask(mask);
	if (!CPU_COUNT(set))
		*set = all;
}

void affinity_pin(pthread_t thread, int node, unsigned number, unsigned count, char *text,
		  size_t text_bytes)
{
	cpu_set_t set;
	int skip = (int)number;

	allowed_cpus(node, &set);
	if (CPU_COUNT(&set) >= (int)(2 * count)) {
		cpu_set_t one;
		CPU_ZERO(&one);
		for (int i = 0; i < CPU_SETSIZE; i++)
			if (CPU_ISSET(i, &set) && skip-- == 0)
				CPU_SET(i, &one);
		set = one;
	}
	int rc = pthread_setaffinity_np(thread, sizeof set, &set);
	if (rc)
		log_warn("can't pin worker %u: %s", number, strerror(rc));
	int n = snprintf(text, text_bytes, "cpus");
	for (int i = 0; i < CPU_SETSIZE && n > 0 && (size_t)n < text_bytes; i++)
		if (CPU_ISSET(i, &set))
			n += snprintf(text + n, text_bytes - (size_t)n, " %d", i);
}

bool affinity_bind(int node, void *memory, uint64_t bytes)
{
	if (node < 0 || numa_max_node() == 0)
		return false;
	struct bitmask *nodes = numa_allocate_nodemask();
	numa_bitmask_setbit(nodes, (unsigned)node);
	if (mbind(memory, bytes, MPOL_BIND, nodes->maskp, nodes->size + 1, MPOL_MF_MOVE))
		log_warn("can't have memory on NUMA node %d: %s", node, strerror(errno));
	numa_free_nodemask(nodes);
	return true;
}
