/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/rdma/doctor.h"

#include <arpa/inet.h>
#include <errno.h>
#include <glob.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/opt.h"
#include "common/verbs/verbs.h"

struct doctor {
	void (*each)(void *arg, const char *mark, const char *what, const char *text);
	void *arg;
	uint64_t memory_bytes;
	unsigned findings;
	unsigned active_ports;
};

enum mark { OK, NOTE, FIX };

/* One line.  FIX: what is wrong; what to do.  NOTE: worth knowing, costs only speed. */
__attribute__((format(printf, 4, 5))) static void tell(struct doctor *d, enum mark mark,
						       const char *what, const char *format, ...)
{
	static const char *const marks[] = { "ok", "note", "FIX" };
	char text[512];
	va_list ap;

	va_start(ap, format);
	vsnprintf(text, sizeof text, format, ap);
	va_end(ap);
	d->each(d->arg, marks[mark], what, text);
	d->findings += mark == FIX;
}

/* The first line of a file; "" if there is none. */
__attribute__((format(printf, 2, 3))) static const char *line_of(char buf[128], const char *format,
								 ...)
{
	char path[512];
	va_list ap;

	va_start(ap, format);
	vsnprintf(path, sizeof path, format, ap);
	va_end(ap);
	buf[0] = '\0';
	FILE *f = fopen(path, "re");
	if (!f)
		return buf;
	if (fgets(buf, 128, f))
		buf[strcspn(buf, "\n")] = '\0';
	fclose(f);
	return buf;
}

/* --------------------------------------------------------------------- kernel */

static void examine_modules(struct doctor *d)
{
	static const struct {
		const char *path, *module, *what;
	} needs[] = {
		{ "/sys/class/infiniband_verbs", "ib_uverbs", "verbs for programs" },
		{ "/dev/infiniband/rdma_cm", "rdma_ucm", "connections for programs" },
	};

	for (unsigned i = 0; i < sizeof needs / sizeof needs[0]; i++) {
		if (access(needs[i].path, F_OK))
			tell(d, FIX, needs[i].module, "%s: not loaded: modprobe %s (in a container: "
			     "--device /dev/infiniband)", needs[i].what, needs[i].module);
		else
			tell(d, OK, needs[i].module, "%s: loaded", needs[i].what);
	}
	if (!access("/dev/infiniband/rdma_cm", F_OK) &&
	    access("/dev/infiniband/rdma_cm", R_OK | W_OK))
		tell(d, FIX, "rdma_cm", "%s: /dev/infiniband/rdma_cm: chmod a+rw, or run as its owner",
		     strerror(errno));
}

/* -------------------------------------------------------------------- devices */

static unsigned count_gids(const struct verbs *v, struct ibv_context *ctx, uint8_t port, int table)
{
	static const uint8_t none[8];
	unsigned count = 0;
	union ibv_gid gid;
	char type[128];

	for (int i = 0; i < table; i++)
		if (!v->query_gid(ctx, port, i, &gid) && memcmp(gid.raw + 8, none, 8) &&
		    strstr(line_of(type, "/sys/class/infiniband/%s/ports/%u/gid_attrs/types/%d",
				   ctx->device->name, port, i), "v2"))
			count++;
	return count;
}

static void examine_gids(struct doctor *d, const struct verbs *v, struct ibv_context *ctx,
			 uint8_t port, const struct ibv_port_attr *attr)
{
	unsigned count = count_gids(v, ctx, port, attr->gid_tbl_len);

	if (attr->link_layer != IBV_LINK_LAYER_ETHERNET || v->soft)
		return;
	if (count)
		tell(d, OK, ctx->device->name, "port %u: %u GIDs of RoCE v2", port, count);
	else
		tell(d, FIX, ctx->device->name, "port %u: no GID of RoCE v2: give its interface an address "
		     "(ip addr add ADDRESS/PREFIX dev IFACE)", port);
}

static void examine_port(struct doctor *d, const struct verbs *v, struct ibv_context *ctx,
			 uint8_t port)
{
	const char *name = ctx->device->name;
	struct ibv_port_attr attr;

	memset(&attr, 0, sizeof attr);
	if (v->query_port(ctx, port, &attr)) {
		tell(d, FIX, name, "port %u can't be asked", port);
		return;
	}
	bool ethernet = attr.link_layer == IBV_LINK_LAYER_ETHERNET;
	unsigned mtu = 128u << attr.active_mtu;
	if (attr.state != IBV_PORT_ACTIVE) {
		tell(d, FIX, name, ethernet ? "port %u is down: ip link set IFACE up, look at the cable"
					    : "port %u is not active: look at the cable, and that a "
					      "subnet manager runs (opensm)", port);
		return;
	}
	d->active_ports += !v->soft;
	tell(d, OK, name, "port %u: active, %s", port, ethernet ? "Ethernet" : "InfiniBand");
	if (mtu < 1024u << (attr.max_mtu > IBV_MTU_1024) && attr.active_mtu < attr.max_mtu)
		tell(d, NOTE, name, "port %u: MTU %u of %u%s", port, mtu, 128u << attr.max_mtu,
		     ethernet ? ": 'ip link set IFACE mtu 4200' or more at both ends gives 4096" : "");
	else
		tell(d, OK, name, "port %u: MTU %u of %u", port, mtu, 128u << attr.max_mtu);
	examine_gids(d, v, ctx, port, &attr);
}

/* Bit 4 of the device control register of the PCI Express capability. */
static void examine_pci(struct doctor *d, const char *device)
{
	uint8_t config[256];
	char path[512];

	snprintf(path, sizeof path, "/sys/class/infiniband/%s/device/config", device);
	FILE *f = fopen(path, "re");
	if (!f)
		return; /* no PCI device, such as Soft-RoCE */
	size_t bytes = fread(config, 1, sizeof config, f);
	fclose(f);
	if (bytes < sizeof config) {
		tell(d, NOTE, device, "relaxed ordering: only root can look");
		return;
	}
	for (unsigned at = config[0x34], n = 0; at >= 0x40 && at < 0xf4 && n < 48;
	     at = config[at + 1], n++) {
		if (config[at] != 0x10)
			continue;
		if (config[at + 8] & 0x10)
			tell(d, OK, device, "PCI Express: relaxed ordering on");
		else
			tell(d, NOTE, device, "PCI Express: relaxed ordering off: see the firmware's set-up "
			     "(PCI_WR_ORDERING=1 of mlxconfig)");
		return;
	}
}

static void examine_node(struct doctor *d, const char *device)
{
	char node[128], nodes[128];

	line_of(nodes, "/sys/devices/system/node/online");
	line_of(node, "/sys/class/infiniband/%s/device/numa_node", device);
	if (!strpbrk(nodes, ",-"))
		return; /* there is only one */
	if (node[0] && node[0] != '-')
		tell(d, OK, device, "on NUMA node %s of %s: kvd puts workers and memory there", node,
		     nodes);
	else
		tell(d, NOTE, device, "its NUMA node is not known; nodes %s: numactl pins kvd by hand",
		     nodes);
}

static void examine_device(struct doctor *d, const struct verbs *v, struct ibv_device *device)
{
	struct ibv_context *ctx = v->open_device(device);
	struct ibv_device_attr attr;

	if (!ctx) {
		tell(d, FIX, device->name, "can't be opened: %s (chmod a+rw /dev/infiniband/uverbs*)",
		     strerror(errno));
		return;
	}
	if (v->query_device(ctx, &attr)) {
		tell(d, FIX, device->name, "can't be asked for its limits");
	} else {
		for (unsigned port = 1; port <= attr.phys_port_cnt; port++)
			examine_port(d, v, ctx, (uint8_t)port);
		if (attr.atomic_cap == IBV_ATOMIC_NONE)
			tell(d, FIX, device->name, "no atomics: GET and PUT work, locks don't; use another device "
			     "where locks are needed");
		else
			tell(d, OK, device->name, "atomics, %s", attr.atomic_cap == IBV_ATOMIC_GLOB ?
			     "with CPUs and other devices too" : "among its own queue pairs");
		if (!v->soft) {
			examine_node(d, device->name);
			examine_pci(d, device->name);
		}
	}
	v->close_device(ctx);
}

static int examine_devices(struct doctor *d, const struct verbs *v)
{
	int count = 0;
	struct ibv_device **list = v->get_device_list(&count);

	for (int i = 0; list && i < count; i++)
		examine_device(d, v, list[i]);
	if (list)
		v->free_device_list(list);
	return list ? count : 0;
}

/* --------------------------------------------------------------------- memory */

/* Who has CAP_IPC_LOCK has no limit; root in a container may have lost it. */
static bool may_lock_all(void)
{
	unsigned long long effective = 0;
	char line[256];
	FILE *f = fopen("/proc/self/status", "re");

	while (f && fgets(line, sizeof line, f))
		if (sscanf(line, "CapEff: %llx", &effective) == 1)
			break;
	if (f)
		fclose(f);
	return effective >> 14 & 1;
}

static void examine_memlock(struct doctor *d)
{
	char has[32], want[32];
	struct rlimit lim;
	/* A client registers some MiB, and the values that it has under way. */
	uint64_t need = d->memory_bytes ? d->memory_bytes + (d->memory_bytes >> 4) : 64u << 20;

	opt_format_size(need, want, sizeof want);
	if (getrlimit(RLIMIT_MEMLOCK, &lim))
		return;
	if (lim.rlim_cur == RLIM_INFINITY || may_lock_all())
		tell(d, OK, "locked memory", "no limit");
	else if (lim.rlim_cur >= need)
		tell(d, OK, "locked memory", "limit %s, needed %s",
		     opt_format_size(lim.rlim_cur, has, sizeof has), want);
	else
		tell(d, FIX, "locked memory", "limit %s, needed %s: ulimit -l unlimited, or LimitMEMLOCK="
		     "infinity in a unit, or --ulimit memlock=-1 for a container",
		     opt_format_size(lim.rlim_cur, has, sizeof has), want);
}

static void examine_huge_pages(struct doctor *d)
{
	char mode[128];

	line_of(mode, "/sys/kernel/mm/transparent_hugepage/enabled");
	if (strstr(mode, "[always]") || strstr(mode, "[madvise]"))
		tell(d, OK, "huge pages", "transparent ones are used (%s)", mode);
	else
		tell(d, NOTE, "huge pages", "none, so the NIC's page tables get large: "
		     "echo madvise >/sys/kernel/mm/transparent_hugepage/enabled");
}

/* --------------------------------------------------------------------- network */

/* Soft-RoCE is UDP that goes through netfilter; a NIC's RoCE doesn't. */
static void examine_firewall(struct doctor *d)
{
	char line[512];
	bool blocks = false, allows = false;
	glob_t found;

	if (glob("/sys/class/infiniband/rxe*", 0, NULL, &found) || !found.gl_pathc)
		return;
	globfree(&found);
	FILE *rules = popen("nft list ruleset 2>/dev/null", "re");
	while (rules && fgets(line, sizeof line, rules)) {
		blocks |= strstr(line, "policy drop") || strstr(line, " drop") || strstr(line, " reject");
		allows |= strstr(line, "4791") != NULL;
	}
	if (rules)
		pclose(rules);
	if (blocks && !allows)
		tell(d, FIX, "firewall", "it drops packets, and has no rule for RoCE: "
		     "nft add rule inet filter input udp dport 4791 accept");
	else
		tell(d, OK, "firewall", "nothing in the way of UDP port 4791 is seen");
}

unsigned doctor_examine_each(void (*each)(void *arg, const char *mark, const char *what,
					  const char *text),
			     void *arg, uint64_t memory_bytes)
{
	struct doctor d = { .each = each, .arg = arg, .memory_bytes = memory_bytes };
	int devices = examine_devices(&d, &verbs_system);

	if (devices) {
		examine_modules(&d);
		examine_firewall(&d);
		if (!d.active_ports)
			tell(&d, FIX, "devices", "no port is active");
	} else {
		tell(&d, NOTE, "devices", "no RDMA device; Soft-RoCE makes one: modprobe rdma_rxe; "
		     "rdma link add rxe0 type rxe netdev IFACE");
	}
	if (verbs_soft)
		examine_devices(&d, verbs_soft);
	else if (!devices)
		tell(&d, FIX, "devices", "and this build has no software device");
	examine_memlock(&d);
	examine_huge_pages(&d);
	return d.findings;
}

static void print_line(void *arg, const char *mark, const char *what, const char *text)
{
	fprintf(arg, "%-5s %-16s %s\n", mark, what, text);
}

unsigned doctor_examine(FILE *out, uint64_t memory_bytes)
{
	return doctor_examine_each(print_line, out, memory_bytes);
}
