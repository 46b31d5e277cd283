/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * end.h -- one end of a connection of kvbench's own, for verbs with nothing
 * around them: a queue pair, a completion queue and a region.
 *
 * Either end is made by the store's own path (common/device, common/link), but the
 * one that answers gives what kvd never does: WRITE and ATOMIC rights, on a region
 * that holds nothing.  An end belongs to one thread.
 */
#ifndef BENCH_RAW_END_H
#define BENCH_RAW_END_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "bench/raw/transport.h"
#include "common/addr.h"
#include "common/err.h"
#include "common/rdma/device.h"
#include "common/rdma/link.h"

#define RAWEND_TIMEOUT_MS 10000
#define RAWEND_SGE_MAX 16u /* what devices take for a READ, too */

/* What the answering end does. */
enum rawend_mode {
	RAWEND_PASSIVE, /* nothing: READ, WRITE and atomics need nobody */
	RAWEND_ECHO,    /* answers each message */
	RAWEND_SINK,    /* takes messages, and grants credits for more */
	RAWEND_RELAY,   /* answers each message once others have answered it (relay.h) */
	RAWEND_MODES
};

/* Receives that a sink keeps posted; it grants a fourth of them at a time. */
#define RAWEND_SINK_RECEIVES 256u
#define RAWEND_CREDIT (RAWEND_SINK_RECEIVES / 4)

/* Lengths of an exchange's other messages. */
struct rawend_legs {
	uint64_t record_bytes; /* RAWEND_RELAY: of what is forwarded */
	uint64_t ack_bytes;    /* and of the answer to that */
	uint64_t answer_bytes; /* of the answer; 0: as long as the message */
};

/* Private data of the connection request and of its answer. */
struct rawend_hello {
	uint32_t magic;
	uint16_t version;
	uint8_t mode;
	uint8_t events; /* sleep for completions rather than poll */
	uint64_t region_bytes;
	uint64_t message_bytes_max;
	struct rawend_legs legs;
	uint32_t plain; /* 1: the region is to be memory that the device did not give */
	uint32_t transport; /* enum rawtransport */
};
static_assert(sizeof(struct rawend_hello) <= 56, "what rdma_cm takes with a request");

struct rawend_welcome {
	uint32_t magic;
	uint32_t rkey;
	uint64_t addr;
};

#define RAWEND_MAGIC 0x3157424bu /* "KBW1" */
#define RAWEND_VERSION 4u
#define RAWEND_REGION_BYTES_MAX (1ull << 30)

/* How an end is to be made. */
struct rawend_config {
	enum rawtransport transport;
	uint64_t region_bytes;
	uint32_t send_depth;
	uint32_t send_sge;
	uint32_t recv_depth;
	uint64_t recv_bytes; /* room for one message behind the region; all share it */
	uint32_t inline_bytes;
	bool events;
	int access; /* IBV_ACCESS_REMOTE_* of the region and the queue pair */
	struct rawend_legs legs; /* that the peer is asked for */
	uint32_t timeout_ms;     /* of rawend_wait(); 0: RAWEND_TIMEOUT_MS */
	bool plain;              /* memory as a program's own, not the device's */
	bool plain_peer;         /* that the peer is asked for */
};

struct rawend {
	const struct verbs *verbs;
	struct rdma_event_channel *channel; /* not the end's own if it was accepted */
	struct rdma_cm_id *id;
	struct link_limits limits;
	struct ibv_pd *pd;
	struct ibv_comp_channel *comp;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t *memory; /* the region, then the room for messages */
	uint64_t memory_bytes;
	struct rawend_config config;
	uint32_t inline_bytes;
	struct rawtransport_peer peer;
	uint8_t rd_atom;
	unsigned events; /* not yet acknowledged */

	uint64_t remote_addr; /* the peer's region */
	uint32_t remote_rkey;
};

/* Makes everything but the connection, on a resolved or requested id.  0, or -1
 * with err; rawend_clear() it in either case. */
int rawend_make(struct rawend *e, const struct rawend_config *config, struct err *err);

/* Connects to a peer of peer.h and learns its region.  `e` is zero; sets
 * device->line.  0 or -1 with err; rawend_clear() it in either case. */
int rawend_connect(struct rawend *e, struct device *device, const struct addr *addr,
		   const struct rawend_config *config, enum rawend_mode mode, struct err *err);

/* The queue pair to RTS, once the other's is known.  0 or -1 with err. */
int rawend_ready(struct rawend *e, uint8_t peer_rd_atom, struct err *err);

void rawend_clear(struct rawend *e);

int rawend_post_receive(struct rawend *e);

/* Takes up to `max` completions, waiting for one at least (polling or by events)
 * until its time-out.  The count, or -1 with err: none came, one failed, or the peer
 * closed the connection, of an end that rawend_connect() made. */
int rawend_wait(struct rawend *e, struct ibv_wc *wc, int max, struct err *err);

/* The next event of the channel within timeout_ms, or NULL; acknowledge it. */
struct rdma_cm_event *rawend_event(const struct verbs *verbs, struct rdma_event_channel *channel,
				   int timeout_ms);

/* An event channel that doesn't block; NULL with err. */
struct rdma_event_channel *rawend_channel(const struct verbs *verbs, struct err *err);

#endif
