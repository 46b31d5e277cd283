/* SPDX-License-Identifier: BSD-2-Clause */
/* What the two ends say to each other. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "common/bootstrap/message.h"
#include "common/bootstrap/path.h"

bool bootstrap_is_sane(const struct wire_bootstrap *m, unsigned kinds)
{
	return m->magic == WIRE_BOOTSTRAP_MAGIC && m->version == WIRE_BOOTSTRAP_VERSION &&
	       m->kind <= WIRE_BOOTSTRAP_READY && (kinds & 1u << m->kind) &&
	       (m->link_layer == WIRE_BOOTSTRAP_INFINIBAND ||
		m->link_layer == WIRE_BOOTSTRAP_ETHERNET) &&
	       m->qpn <= 0xffffff && m->psn <= 0xffffff && m->mtu >= IBV_MTU_256 &&
	       m->mtu <= IBV_MTU_4096 && m->data_bytes <= WIRE_BOOTSTRAP_DATA_BYTES;
}

void bootstrap_message_fill(struct id *id, enum wire_bootstrap_kind kind, const struct rdma_conn_param *param)
{
	struct wire_bootstrap *m = &id->out;

	*m = (struct wire_bootstrap){ .magic = WIRE_BOOTSTRAP_MAGIC,
				      .version = WIRE_BOOTSTRAP_VERSION, .kind = (uint8_t)kind };
	bootstrap_path_tell(&id->path, m);
	if (!param)
		return;
	m->qpn = param->qp_num;
	m->initiator_depth = param->initiator_depth;
	m->responder_resources = param->responder_resources;
	m->data_bytes = param->private_data_len;
	memcpy(m->data, param->private_data, param->private_data_len);
}

/* So little fits into a socket that has just been made, or it is of no use. */
int bootstrap_message_send(struct id *id)
{
	ssize_t n = send(id->fd, &id->out, sizeof id->out, MSG_NOSIGNAL | MSG_DONTWAIT);

	if (n == (ssize_t)sizeof id->out)
		return 0;
	return n < 0 ? -1 : fail(EPIPE);
}
