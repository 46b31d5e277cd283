/* SPDX-License-Identifier: BSD-2-Clause */
/* What a peer says over TCP before anybody knows who it is. */
#include <string.h>

#include "common/bootstrap/message.h"
#include "common/bootstrap/path.h"
#include "tests/fuzz/fuzz.h"

static const unsigned all_kinds = 1u << WIRE_BOOTSTRAP_REQUEST | 1u << WIRE_BOOTSTRAP_RESPONSE |
				  1u << WIRE_BOOTSTRAP_REJECTION | 1u << WIRE_BOOTSTRAP_READY;

/* A queue pair that is led to such a peer: nothing out of range gets to the device. */
static void check_attr(const struct bootstrap_path *path, const struct wire_bootstrap *peer)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR };
	int mask = 0;

	FUZZ_CHECK(bootstrap_path_attr(path, peer, &attr, &mask) == 0);
	FUZZ_CHECK(attr.dest_qp_num <= 0xffffff && attr.rq_psn <= 0xffffff);
	FUZZ_CHECK(attr.path_mtu >= IBV_MTU_256 && attr.path_mtu <= (enum ibv_mtu)path->mtu);
	FUZZ_CHECK(attr.ah_attr.port_num == path->port);
	if (attr.ah_attr.is_global)
		FUZZ_CHECK(attr.ah_attr.grh.sgid_index == path->gid_index);
	else
		FUZZ_CHECK(path->link_layer == WIRE_BOOTSTRAP_INFINIBAND && attr.ah_attr.dlid);
	FUZZ_CHECK(mask & IBV_QP_AV && !(mask & IBV_QP_ACCESS_FLAGS));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct bootstrap_path path = { .device = { .gid_index = -1 }, .port = 1,
				       .mtu = IBV_MTU_1024, .gid_index = 3 };
	struct wire_bootstrap m;

	while (bytes >= sizeof m) {
		memcpy(&m, data, sizeof m);
		data += sizeof m;
		bytes -= sizeof m;
		for (unsigned kind = 0; kind < 32; kind++)
			FUZZ_CHECK(!bootstrap_is_sane(&m, 1u << kind) || m.kind == kind);
		if (!bootstrap_is_sane(&m, all_kinds))
			continue;
		FUZZ_CHECK(m.data_bytes <= sizeof m.data);
		path.link_layer = m.link_layer;
		check_attr(&path, &m);
	}
	return 0;
}
