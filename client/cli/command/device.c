/* SPDX-License-Identifier: BSD-2-Clause */
/* devices: what the verbs of both kinds know of this machine's devices. */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/command/device.h"
#include "client/cli/session/answer.h"
#include "common/opt.h"
#include "common/verbs/verbs.h"

#define LABEL "  %-14s "

static const char *node_type(const struct ibv_device *device)
{
	switch (device->node_type) {
	case IBV_NODE_CA:
		return "channel adapter";
	case IBV_NODE_SWITCH:
		return "switch";
	case IBV_NODE_ROUTER:
		return "router";
	case IBV_NODE_RNIC:
		return "RDMA NIC (iWARP)";
	case IBV_NODE_USNIC:
	case IBV_NODE_USNIC_UDP:
		return "usNIC";
	default:
		return "unknown";
	}
}

static const char *port_state(enum ibv_port_state state)
{
	static const char *const names[] = { "no state", "down",   "initializing",
					     "armed",    "active", "active, deferred" };

	return (size_t)state < sizeof names / sizeof names[0] ? names[state] : "unknown";
}

static const char *link_layer(uint8_t layer)
{
	return layer == IBV_LINK_LAYER_ETHERNET   ? "Ethernet" :
	       layer == IBV_LINK_LAYER_INFINIBAND ? "InfiniBand" :
						    "unspecified";
}

static const char *atomics(enum ibv_atomic_cap cap)
{
	switch (cap) {
	case IBV_ATOMIC_HCA:
		return "among queue pairs of the device (IBV_ATOMIC_HCA)";
	case IBV_ATOMIC_GLOB:
		return "with CPUs and other devices too (IBV_ATOMIC_GLOB)";
	default:
		return "none: kvd can't use this device for locks";
	}
}

static unsigned mtu_bytes(enum ibv_mtu mtu)
{
	return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128u << mtu : 0;
}

/* A line of sysfs about a device; "" if there is none. */
__attribute__((format(printf, 3, 4))) static const char *
sysfs_line(char buf[64], const struct ibv_device *device, const char *format, ...)
{
	char name[128], path[256];
	va_list list;
	FILE *file;

	buf[0] = '\0';
	va_start(list, format);
	vsnprintf(name, sizeof name, format, list);
	va_end(list);
	snprintf(path, sizeof path, "/sys/class/infiniband/%s/%s", device->name, name);
	file = fopen(path, "re");
	if (!file)
		return buf;
	if (fgets(buf, 64, file))
		buf[strcspn(buf, "\n")] = '\0';
	fclose(file);
	return buf;
}

static bool gid_is_set(const union ibv_gid *gid)
{
	static const uint8_t none[sizeof gid->raw];

	return memcmp(gid->raw + 8, none, 8) != 0;
}

static void print_gid(const struct ibv_device *device, uint8_t port, int index,
		      const union ibv_gid *gid)
{
	char text[INET6_ADDRSTRLEN], kind[64], interface[64];

	inet_ntop(AF_INET6, gid->raw, text, sizeof text);
	sysfs_line(kind, device, "ports/%d/gid_attrs/types/%d", port, index);
	sysfs_line(interface, device, "ports/%d/gid_attrs/ndevs/%d", port, index);
	printf("    GID %-8d %s%s%s%s%s\n", index, text, *kind ? ", " : "", kind,
	       *interface ? ", " : "", interface);
}

static void print_port(const struct verbs *verbs, struct ibv_context *ctx, uint8_t port)
{
	struct ibv_port_attr attr;
	union ibv_gid gid;
	char rate[64];

	memset(&attr, 0, sizeof attr);
	if (verbs->query_port(ctx, port, &attr) != 0) {
		printf("  port %-9u can't be asked: %s\n", port, strerror(errno));
		return;
	}
	sysfs_line(rate, ctx->device, "ports/%d/rate", port);
	printf("  port %-9u %s, %s, MTU %u of %u%s%s", port, port_state(attr.state),
	       link_layer(attr.link_layer), mtu_bytes(attr.active_mtu), mtu_bytes(attr.max_mtu),
	       *rate ? ", " : "", rate);
	if (attr.link_layer != IBV_LINK_LAYER_ETHERNET)
		printf(", LID %u", attr.lid);
	putchar('\n');
	for (int i = 0; i < attr.gid_tbl_len; i++)
		if (verbs->query_gid(ctx, port, i, &gid) == 0 && gid_is_set(&gid))
			print_gid(ctx->device, port, i, &gid);
}

static void print_limits(const struct ibv_device_attr *attr)
{
	char mr[32];

	printf(LABEL "%s\n", "atomics", atomics(attr->atomic_cap));
	printf(LABEL "%d queue pairs of %d requests, %d SGEs each\n", "limits", attr->max_qp,
	       attr->max_qp_wr, attr->max_sge);
	printf(LABEL "%d CQs of %d entries; %d SRQs of %d requests\n", "", attr->max_cq,
	       attr->max_cqe, attr->max_srq, attr->max_srq_wr);
	printf(LABEL "%d READs and atomics in flight a queue pair, %d served\n", "",
	       attr->max_qp_init_rd_atom, attr->max_qp_rd_atom);
	printf(LABEL "%d memory regions of %s\n", "", attr->max_mr,
	       attr->max_mr_size >= 1ull << 62 ?
		       "any size" :
		       opt_format_size(attr->max_mr_size, mr, sizeof mr));
}

static void print_identity(const struct verbs *verbs, struct ibv_device *device,
			   const struct ibv_device_attr *attr)
{
	uint64_t guid = be64toh(verbs->get_device_guid(device));

	printf(LABEL "%s, %u port%s\n", "type", node_type(device), attr->phys_port_cnt,
	       attr->phys_port_cnt == 1 ? "" : "s");
	printf(LABEL "%04x:%04x:%04x:%04x%s%.64s\n", "GUID", (unsigned)(guid >> 48),
	       (unsigned)(guid >> 32 & 0xffff), (unsigned)(guid >> 16 & 0xffff),
	       (unsigned)(guid & 0xffff), attr->fw_ver[0] ? ", firmware " : "", attr->fw_ver);
}

static void print_device(const struct verbs *verbs, struct ibv_device *device)
{
	const char *bold = cli_color(1) ? "\033[1m" : "", *plain = cli_color(1) ? "\033[0m" : "";
	struct ibv_context *ctx = verbs->open_device(device);
	struct ibv_device_attr attr;

	printf("%s%s%s (%s)\n", bold, device->name, plain,
	       verbs->soft ? "software device" : "system");
	if (!ctx) {
		printf(LABEL "%s\n", "can't be opened", strerror(errno));
		return;
	}
	memset(&attr, 0, sizeof attr);
	if (verbs->query_device(ctx, &attr) == 0) {
		print_identity(verbs, device, &attr);
		for (unsigned port = 1; port <= attr.phys_port_cnt; port++)
			print_port(verbs, ctx, (uint8_t)port);
		print_limits(&attr);
	} else {
		printf(LABEL "%s\n", "can't be asked", strerror(errno));
	}
	verbs->close_device(ctx);
}

static int print_devices(const struct verbs *verbs)
{
	int count = 0;
	struct ibv_device **list = verbs->get_device_list(&count);

	if (!list)
		return 0;
	for (int i = 0; i < count; i++)
		print_device(verbs, list[i]);
	verbs->free_device_list(list);
	return count;
}

static int run_devices(struct cli *cli, const struct cli_args *args)
{
	int system = print_devices(&verbs_system);
	int soft = verbs_soft ? print_devices(verbs_soft) : 0;

	(void)args;
	if (system == 0)
		puts("no RDMA device of this machine (Soft-RoCE makes one of a network interface:\n"
		     "rdma link add rxe0 type rxe netdev IFACE)");
	if (system + soft > 0)
		return CLI_DONE;
	return cli_fail(cli, CLI_FALSE, "no RDMA device, and kvcli was built without the software one");
}

const struct cli_command cli_devices = {
	.name = "devices",
	.arguments = "",
	.summary = "show RDMA devices here",
	.help = "Shows every RDMA device of this machine and the software device: ports, GIDs,\n"
		"atomic capability, limits. It needs no server.",
	.run = run_devices,
};
