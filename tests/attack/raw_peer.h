/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * raw_peer.h -- a peer of kvd on bare verbs, that keeps to no rules: connections,
 * messages and one-sided requests, each by itself.  One thread.
 */
#ifndef TESTS_ATTACK_RAW_PEER_H
#define TESTS_ATTACK_RAW_PEER_H

#include "common/addr.h"
#include "common/auth/file.h"
#include "common/rdma/device.h"
#include "common/rdma/link.h"
#include "common/auth/space.h"
#include "common/wire.h"

#define RAW_RECVS 40u
#define RAW_SENDS 64u
#define RAW_SEND_BYTES (2 * WIRE_MESSAGE_BYTES_MAX)

/* What all connections of a process share. */
struct raw {
	struct addr addr;
	uint64_t space; /* of the namespace that is asked for */
	struct device device;
	const struct verbs *v;
	struct rdma_event_channel *channel;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	uint8_t *memory; /* what is sent, what comes back one-sided, what is received */
	unsigned sent;   /* whose places are taken in turn */
	uint8_t *reach;  /* of RAW_REACH bytes */
	uint8_t *recv;
	uint64_t random;
	unsigned recvs; /* posted on a connection; default RAW_RECVS */
	uint16_t depth; /* credits that are asked for; 0: kvd's default */
	bool tolerant;  /* of a kvd that hangs up before a connection is through */
};
#define RAW_REACH 65536u

struct raw_conn {
	struct raw *raw;
	struct rdma_cm_id *id;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct wire_connect connect;
	struct wire_accept accept;
	uint32_t server_qpn;
	struct wire_welcome welcome;
	uint8_t hello[sizeof(struct wire_request) + WIRE_NAME_BYTES_MAX + WIRE_PROOF_BYTES];
	uint32_t hello_bytes;
	uint64_t lent_addr; /* what the hello says that kvd may READ; 0: nothing */
	uint32_t lent_rkey;
	bool gone; /* kvd ended it */
};

void raw_die(const char *what) __attribute__((noreturn));
uint64_t raw_random(struct raw *raw);
void raw_open(struct raw *raw, const char *addr);
void raw_close(struct raw *raw);

/* True if kvd accepted; else c->accept may say why, and there is nothing to end. */
bool raw_connect(struct raw *raw, struct raw_conn *c, const struct wire_connect *connect);
/* The same with a good request; ends the process if kvd refuses. */
void raw_connect_well(struct raw *raw, struct raw_conn *c);
void raw_hang_up(struct raw_conn *c);

/* Makes the hello of these credentials (NULL: of nobody) for this connection. */
void raw_make_hello(struct raw_conn *c, const struct credentials *who);
/* SENDs bytes; false if kvd ended the connection.  No reply is waited for. */
bool raw_send(struct raw_conn *c, const void *message, uint32_t bytes);
/* The next reply, into *reply and (what fits) *payload.  False: kvd ended the
 * connection, or nothing came in patience_ms. */
bool raw_reply(struct raw_conn *c, struct wire_reply *reply, void *payload, size_t payload_max,
	       int patience_ms);
/* Says the hello that was made; the status, or -1 if kvd hung up.  Checks kvd's proof. */
int raw_say_hello(struct raw_conn *c, const struct credentials *who);
/* Both, and dies if kvd doesn't let it in. */
void raw_enter(struct raw *raw, struct raw_conn *c, const struct credentials *who);

/* A one-sided request of `bytes` from or to raw->reach; IBV_WC_SUCCESS or not. */
enum ibv_wc_status raw_reach(struct raw_conn *c, enum ibv_wr_opcode opcode, uint64_t addr,
			     uint32_t rkey, uint32_t bytes);
/* A completion; false if kvd ended the connection or after the time. */
bool raw_completion(struct raw_conn *c, struct ibv_wc *wc, int patience_ms);
/* Takes the events of the connection: sets gone. */
void raw_look(struct raw_conn *c);
uint64_t raw_now_ms(void);

#endif
