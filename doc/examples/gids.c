/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * gids [DEVICE] -- the GIDs of every port: the addresses that a peer names a port by.
 * On RoCE each address of the interface is one, in two versions of the protocol.
 */
#include <arpa/inet.h>
#include "doc/examples/example.h"

static const char *type_name(uint32_t type)
{
	switch (type) {
	case IBV_GID_TYPE_IB:
		return "InfiniBand";
	case IBV_GID_TYPE_ROCE_V1:
		return "RoCE v1";
	default:
		return "RoCE v2";
	}
}

static int show_port(struct ibv_context *context, uint8_t number)
{
	struct ibv_port_attr port;
	struct ibv_gid_entry entry;
	char text[INET6_ADDRSTRLEN];
	int shown = 0;

	NEED_0(ibv_query_port(context, number, &port));
	for (uint32_t i = 0; i < (uint32_t)port.gid_tbl_len; i++) {
		if (ibv_query_gid_ex(context, number, i, &entry, 0))
			continue; /* an empty place of the table */
		inet_ntop(AF_INET6, entry.gid.raw, text, sizeof(text));
		printf("port %u, GID %u: %s, %s\n", number, i, text, type_name(entry.gid_type));
		shown++;
	}
	return shown;
}

int main(int argc, char **argv)
{
	struct ibv_context *context = open_device(argc > 1 ? argv[1] : NULL);
	struct ibv_device_attr attr;
	int shown = 0;

	NEED_0(ibv_query_device(context, &attr));
	for (uint8_t port = 1; port <= attr.phys_port_cnt; port++)
		shown += show_port(context, port);
	NEED_0(ibv_close_device(context));
	return shown ? 0 : 1;
}
