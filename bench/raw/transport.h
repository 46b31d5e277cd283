/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * transport.h -- the kinds of queue pairs that kvbench's own connections may have, and what each
 * of them has of the verbs.
 *
 * All are introduced to each other by an rdma_cm connection, as RC's are.
 */
#ifndef BENCH_RAW_TRANSPORT_H
#define BENCH_RAW_TRANSPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/verbs/verbs.h"

enum rawtransport {
	RAWTRANSPORT_RC, /* acknowledged, in order: all verbs */
	RAWTRANSPORT_UC, /* nobody acknowledges: SEND and WRITE */
	RAWTRANSPORT_UD, /* datagrams up to the path's MTU: SEND */
	RAWTRANSPORTS
};

/* What comes before a datagram in a receive. */
#define RAWTRANSPORT_GRH_BYTES 40u

/* "RC", "UC", "UD". */
extern const char *const rawtransport_names[RAWTRANSPORTS];

/* Where a queue pair's requests go, of UD; NULL of the others, which are connected. */
struct rawtransport_peer {
	struct ibv_ah *ah;
	uint32_t qpn;
	uint64_t message_bytes_max; /* of UD: the path's MTU; 0: whatever the device takes */
};

enum ibv_qp_type rawtransport_qp_type(enum rawtransport t);
bool rawtransport_has(enum rawtransport t, enum ibv_wr_opcode opcode);

/* The transitions of a queue pair of UC or UD; access: IBV_ACCESS_REMOTE_*.  `peer` has what UD
 * needs then; end it with rawtransport_forget().  0, or -1 with err. */
int rawtransport_init(enum rawtransport t, const struct verbs *v, struct rdma_cm_id *id,
		      struct ibv_qp *qp, int access, struct err *err);
int rawtransport_ready(enum rawtransport t, const struct verbs *v, struct rdma_cm_id *id,
		       struct ibv_qp *qp, struct rawtransport_peer *peer, struct err *err);
void rawtransport_forget(const struct verbs *v, struct rawtransport_peer *peer);

/* Says in a request where it goes, of UD. */
void rawtransport_address(const struct rawtransport_peer *peer, struct ibv_send_wr *wr);

#endif
