/* SPDX-License-Identifier: BSD-2-Clause */
/* devices: what the verbs of both kinds know of this machine's devices. */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/cli/command/device.h"
#include "client/cli/command/device_json.h"
#include "client/cli/session/answer.h"
#include "common/opt.h"
#include "common/verbs/verbs.h"

#define LABEL "  %-14s "

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

static void print_gid(const struct ibv_device *device, uint8_t port, int index,
		      const union ibv_gid *gid)
{
	char text[INET6_ADDRSTRLEN], kind[64], interface[64];

	inet_ntop(AF_INET6, gid->raw, text, sizeof text);
	cli_sysfs_line(kind, device, "ports/%d/gid_attrs/types/%d", port, index);
	cli_sysfs_line(interface, device, "ports/%d/gid_attrs/ndevs/%d", port, index);
	printf("    GID %-8d %s%s%s%s%s\n", index, text, *kind ? ", " : "", kind,
	       *interface ? ", " : "", interface);
}

/* What a subnet manager gave the port, and its partitions. */
static void print_subnet(const struct verbs *verbs, struct ibv_context *ctx, uint8_t port,
			 const struct ibv_port_attr *attr)
{
	__be16 pkey;

	printf("    LID          %u, LMC %u (%u path%s)\n", attr->lid, attr->lmc, 1u << attr->lmc,
	       attr->lmc ? "s" : "");
	printf("    SM           LID %u, SL %u, subnet timeout %u\n", attr->sm_lid, attr->sm_sl,
	       attr->subnet_timeout);
	printf("    VLs          %u\n", cli_lanes(attr->max_vl_num));
	for (int i = 0; i < attr->pkey_tbl_len; i++)
		if (verbs->query_pkey(ctx, port, i, &pkey) == 0 && pkey != 0)
			printf("    P_Key %-6d 0x%04x, %s member\n", i, be16toh(pkey),
			       be16toh(pkey) & 0x8000 ? "full" : "limited");
	printf("    violations   P_Key %u, Q_Key %u\n", attr->bad_pkey_cntr, attr->qkey_viol_cntr);
}

static void print_port(const struct verbs *verbs, struct ibv_context *ctx, uint8_t port,
		       bool verbose)
{
	struct ibv_port_attr attr;
	union ibv_gid gid;
	char rate[64];

	memset(&attr, 0, sizeof attr);
	if (verbs->query_port(ctx, port, &attr) != 0) {
		printf("  port %-9u can't be asked: %s\n", port, strerror(errno));
		return;
	}
	cli_sysfs_line(rate, ctx->device, "ports/%d/rate", port);
	printf("  port %-9u %s, %s, MTU %u of %u%s%s", port, cli_port_state(attr.state),
	       cli_link_layer(attr.link_layer), cli_mtu_bytes(attr.active_mtu), cli_mtu_bytes(attr.max_mtu),
	       *rate ? ", " : "", rate);
	if (attr.link_layer != IBV_LINK_LAYER_ETHERNET)
		printf(", LID %u", attr.lid);
	putchar('\n');
	if (verbose)
		print_subnet(verbs, ctx, port, &attr);
	for (int i = 0; i < attr.gid_tbl_len; i++)
		if (verbs->query_gid(ctx, port, i, &gid) == 0 && cli_gid_is_set(&gid))
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

	printf(LABEL "%s, %u port%s\n", "type", cli_node_type(device), attr->phys_port_cnt,
	       attr->phys_port_cnt == 1 ? "" : "s");
	printf(LABEL "%04x:%04x:%04x:%04x%s%.64s\n", "GUID", (unsigned)(guid >> 48),
	       (unsigned)(guid >> 32 & 0xffff), (unsigned)(guid >> 16 & 0xffff),
	       (unsigned)(guid & 0xffff), attr->fw_ver[0] ? ", firmware " : "", attr->fw_ver);
}

static void print_device(const struct verbs *verbs, struct ibv_device *device, bool verbose)
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
			print_port(verbs, ctx, (uint8_t)port, verbose);
		print_limits(&attr);
	} else {
		printf(LABEL "%s\n", "can't be asked", strerror(errno));
	}
	verbs->close_device(ctx);
}

enum { DEVICES_JSON, DEVICES_VERBOSE };

static const struct cli_option devices_options[] = {
	[DEVICES_JSON] = { "json", 'j', NULL, "a line of JSON for each device" },
	[DEVICES_VERBOSE] = { "verbose", 'v', NULL, "subnet manager, LMC, VLs and P_Keys of each port, too" },
	{ 0 },
};

/* How many there are. */
static int show_devices(const struct verbs *verbs, const struct cli_args *args)
{
	int count = 0;
	struct ibv_device **list = verbs->get_device_list(&count);

	if (!list)
		return 0;
	for (int i = 0; i < count; i++) {
		if (args->given[DEVICES_JSON])
			cli_device_json(verbs, list[i]);
		else
			print_device(verbs, list[i], args->given[DEVICES_VERBOSE]);
	}
	verbs->free_device_list(list);
	return count;
}

static int run_devices(struct cli *cli, const struct cli_args *args)
{
	int system = show_devices(&verbs_system, args);
	int soft = verbs_soft ? show_devices(verbs_soft, args) : 0;

	if (system == 0 && !args->given[DEVICES_JSON])
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
	.options = devices_options,
	.run = run_devices,
};
