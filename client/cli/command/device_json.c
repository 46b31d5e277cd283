/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/cli/command/device_json.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "client/cli/text/json_write.h"

/* ------------------------------------------------------------------- words */

const char *cli_node_type(const struct ibv_device *device)
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

const char *cli_port_state(enum ibv_port_state state)
{
	static const char *const names[] = { "no state", "down",   "initializing",
					     "armed",    "active", "active, deferred" };

	return (size_t)state < sizeof names / sizeof names[0] ? names[state] : "unknown";
}

const char *cli_link_layer(uint8_t layer)
{
	return layer == IBV_LINK_LAYER_ETHERNET   ? "Ethernet" :
	       layer == IBV_LINK_LAYER_INFINIBAND ? "InfiniBand" :
						    "unspecified";
}

unsigned cli_mtu_bytes(enum ibv_mtu mtu)
{
	return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128u << mtu : 0;
}

/* A line of sysfs about a device; "" if there is none. */
const char *cli_sysfs_line(char buf[64], const struct ibv_device *device, const char *format, ...)
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

/* The code of InfiniBand: 1, 2, 4, 8 or 15 data lanes. */
unsigned cli_lanes(uint8_t max_vl_num)
{
	return max_vl_num >= 1 && max_vl_num <= 4 ? 1u << (max_vl_num - 1) : max_vl_num == 5 ? 15 : 0;
}

bool cli_gid_is_set(const union ibv_gid *gid)
{
	static const uint8_t none[sizeof gid->raw];

	return memcmp(gid->raw + 8, none, 8) != 0;
}

/* -------------------------------------------------------------------- JSON */

static void gid_json(struct cli_json *json, const struct ibv_device *device, uint8_t port, int index,
		     const union ibv_gid *gid)
{
	char text[INET6_ADDRSTRLEN], line[64];

	inet_ntop(AF_INET6, gid->raw, text, sizeof text);
	cli_json_open(json, NULL, '{');
	cli_json_number(json, "index", (uint64_t)index);
	cli_json_text(json, "gid", text);
	if (*cli_sysfs_line(line, device, "ports/%d/gid_attrs/types/%d", port, index))
		cli_json_text(json, "type", line);
	if (*cli_sysfs_line(line, device, "ports/%d/gid_attrs/ndevs/%d", port, index))
		cli_json_text(json, "interface", line);
	cli_json_close(json, '}');
}

static void pkeys_json(struct cli_json *json, const struct verbs *verbs, struct ibv_context *ctx,
		       uint8_t port, int count)
{
	char text[8];
	__be16 pkey;

	cli_json_open(json, "pkeys", '[');
	for (int i = 0; i < count; i++) {
		if (verbs->query_pkey(ctx, port, i, &pkey) != 0 || pkey == 0)
			continue;
		snprintf(text, sizeof text, "0x%04x", be16toh(pkey));
		cli_json_open(json, NULL, '{');
		cli_json_number(json, "index", (uint64_t)i);
		cli_json_text(json, "pkey", text);
		cli_json_close(json, '}');
	}
	cli_json_close(json, ']');
}

static void port_json(struct cli_json *json, const struct verbs *verbs, struct ibv_context *ctx,
		      uint8_t port)
{
	struct ibv_port_attr attr;
	union ibv_gid gid;

	memset(&attr, 0, sizeof attr);
	if (verbs->query_port(ctx, port, &attr) != 0)
		return;
	cli_json_open(json, NULL, '{');
	cli_json_number(json, "port", port);
	cli_json_text(json, "state", cli_port_state(attr.state));
	cli_json_text(json, "link_layer", cli_link_layer(attr.link_layer));
	cli_json_number(json, "mtu", cli_mtu_bytes(attr.active_mtu));
	cli_json_number(json, "mtu_max", cli_mtu_bytes(attr.max_mtu));
	cli_json_number(json, "lid", attr.lid);
	cli_json_number(json, "lmc", attr.lmc);
	cli_json_number(json, "sm_lid", attr.sm_lid);
	cli_json_number(json, "sm_sl", attr.sm_sl);
	cli_json_number(json, "vls", cli_lanes(attr.max_vl_num));
	pkeys_json(json, verbs, ctx, port, attr.pkey_tbl_len);
	cli_json_open(json, "gids", '[');
	for (int i = 0; i < attr.gid_tbl_len; i++)
		if (verbs->query_gid(ctx, port, i, &gid) == 0 && cli_gid_is_set(&gid))
			gid_json(json, ctx->device, port, i, &gid);
	cli_json_close(json, ']');
	cli_json_close(json, '}');
}

static void attr_json(struct cli_json *json, const struct verbs *verbs, struct ibv_context *ctx,
		      const struct ibv_device_attr *attr)
{
	char guid[24];

	snprintf(guid, sizeof guid, "%016" PRIx64, (uint64_t)be64toh(verbs->get_device_guid(ctx->device)));
	cli_json_text(json, "type", cli_node_type(ctx->device));
	cli_json_text(json, "guid", guid);
	cli_json_text(json, "firmware", attr->fw_ver);
	cli_json_text(json, "atomics", attr->atomic_cap == IBV_ATOMIC_NONE ? "none" :
				       attr->atomic_cap == IBV_ATOMIC_GLOB ? "global" : "device");
	cli_json_number(json, "queue_pairs_max", (uint64_t)attr->max_qp);
	cli_json_number(json, "requests_max", (uint64_t)attr->max_qp_wr);
	cli_json_number(json, "sges_max", (uint64_t)attr->max_sge);
	cli_json_number(json, "reads_max", (uint64_t)attr->max_qp_rd_atom);
	cli_json_number(json, "regions_max", (uint64_t)attr->max_mr);
	cli_json_open(json, "ports", '[');
	for (unsigned port = 1; port <= attr->phys_port_cnt; port++)
		port_json(json, verbs, ctx, (uint8_t)port);
	cli_json_close(json, ']');
}

void cli_device_json(const struct verbs *verbs, struct ibv_device *device)
{
	struct ibv_context *ctx = verbs->open_device(device);
	struct cli_json json = { .to = stdout };
	struct ibv_device_attr attr;

	memset(&attr, 0, sizeof attr);
	cli_json_open(&json, NULL, '{');
	cli_json_text(&json, "device", device->name);
	cli_json_bool(&json, "software", verbs->soft);
	if (!ctx || verbs->query_device(ctx, &attr) != 0)
		cli_json_text(&json, "error", strerror(errno));
	else
		attr_json(&json, verbs, ctx, &attr);
	cli_json_end(&json);
	if (ctx)
		verbs->close_device(ctx);
}
