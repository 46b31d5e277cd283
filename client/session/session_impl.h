/* SPDX-License-Identifier: BSD-2-Clause */
/* session_impl.h -- the inside of a session, for those who make and end its connection. */
#ifndef CLIENT_SESSION_SESSION_IMPL_H
#define CLIENT_SESSION_SESSION_IMPL_H

#include "client/op/engine.h"
#include "common/addr.h"

struct client_device;
struct get;
struct kvd_client;

struct kvd_session {
	struct engine engine;
	struct kvd_client *client;
	struct get *gets; /* one for each operation */
	uint8_t *memory;  /* op_memory[depth], then receive buffers */
	size_t memory_bytes;

	struct addr addr; /* where it is, or tries to be */
	int attempt_ms;   /* what an attempt to connect may take */
	unsigned own;     /* the address that it belongs to: route.h */
	unsigned others;  /* so many attempts at other addresses come first */
	uint64_t expected; /* the instance that has to answer an attempt; 0: any */
	struct client_device *device; /* of the client's; NULL: none */
	struct rdma_cm_id *id;
	struct ibv_mr *held_mr;      /* of engine.held.page */
	struct wire_connect connect; /* what this connection began with */
	struct wire_accept accept;
	uint32_t server_qpn;
};

#endif
