/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * peer_conn.h -- a connection to kvd that says what it likes, for peer.c.
 *
 * One thread.  What goes wrong on this side ends the program with a sentence.
 */
#ifndef TESTS_INTEGRATION_PEER_CONN_H
#define TESTS_INTEGRATION_PEER_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/addr.h"
#include "common/layout.h"
#include "common/rdma/device.h"
#include "common/wire.h"

#define SEND_BYTES_MAX (2 * WIRE_MESSAGE_BYTES_MAX)

struct peer {
	struct device device;
	struct addr addr;
	const struct verbs *v;
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t *send; /* then the receive buffers */
	/* The locks that it says it holds: kvd READs it. */
	struct layout_held *held;
	struct ibv_mr *held_mr;
	struct wire_accept accept; /* of the last answer to a connect */
	struct wire_welcome welcome;
	uint64_t random_state;
	bool gone; /* kvd ended the connection */
};

/* Ends the program if it is not so. */
void peer_check(bool ok, const char *what);

uint64_t peer_random(struct peer *p);
void peer_fill(struct peer *p, void *to, size_t bytes);

/* Connects with this private data; the event that answers. */
enum rdma_cm_event_type peer_connect_with(struct peer *p, const void *data, uint8_t bytes);
/* Connects as a good client does. */
void peer_connect(struct peer *p);
void peer_hang_up(struct peer *p);

/* True with a completion, false if kvd ended the connection instead. */
bool peer_completion(struct peer *p, struct ibv_wc *wc);

/* Posts a work request with the first bytes of p->send; 0 or an errno value. */
int peer_send(struct peer *p, struct ibv_send_wr *wr, uint32_t bytes);

/*
 * Sends what stands in p->send.  True with the reply; false if kvd ended the
 * connection.  A message that brings neither is what no peer may see.
 */
bool peer_call(struct peer *p, uint32_t bytes, struct wire_reply *reply);

/* Puts a request and its key into p->send; how many bytes that are. */
uint32_t peer_put_request(struct peer *p, const struct wire_request *request, const char *key,
			  size_t key_bytes);

/* A good hello, which kvd must answer; then p->welcome is set. */
void peer_hello(struct peer *p);

#endif
