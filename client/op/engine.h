/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * engine.h -- a session's operations, and the queue pair that they are in flight on.
 *
 * An operation is a small state machine: the READs or the message that it waits for, and
 * a function that goes on when they are complete (struct op_class).  Many are in flight on
 * one queue pair.  The engine knows no GET, no change and no lock.  One thread at a time.
 */
#ifndef CLIENT_OP_ENGINE_H
#define CLIENT_OP_ENGINE_H

#include "client/cache/buffer.h"
#include "client/cache/table.h"
#include "client/kvd.h"
#include "client/op/error.h"
#include "client/op/held.h"
#include "client/op/time.h"
#include "common/rdma/hwcount.h"
#include "common/spin.h"

struct get;
struct hasher;
struct op;

#define SGE_MAX 16u /* of a work request */

/* An odd number of cache lines from one to the next: at multiples of 8 KiB all messages
 * would share a few sets of the cache. */
#define RX_STRIDE_BYTES (WIRE_MESSAGE_BYTES_MAX + 5 * 64)

struct engine {
	struct health health;
	struct call_time time;
	struct remote_table table;
	struct registrar registrar;
	struct hasher *hasher; /* the client's */
	const struct kvd_options *options; /* the client's */
	int get; /* KVD_GET_*: as there, or as kvd says */

	struct rdma_event_channel *channel;
	struct ibv_comp_channel *comp;
	int event_fd;      /* of kvd_fd(), or -1 */
	int timer_fd;      /* in its set, for pauses that end; or -1 */
	uint64_t timer_ns; /* what it is set to; 0: nothing */
	struct ibv_cq *cq;
	unsigned events; /* of it that are to be acknowledged */
	struct ibv_qp *qp;
	uint32_t inline_bytes;
	uint32_t message_bytes_max; /* of a READ */

	struct ibv_mr *memory_mr; /* of the operations, what is received, and `look` */
	struct layout_lease *look; /* what a look brings */
	uint32_t rx_count;
	uint8_t *rx; /* RX_STRIDE_BYTES each */

	/* Work requests to be posted with the next doorbell. */
	struct ibv_send_wr *wr;
	struct ibv_sge *sge; /* sge_max each */
	uint32_t sge_max;    /* at most SGE_MAX */
	uint32_t wr_count;
	uint32_t sq_depth;
	uint64_t sq_posted; /* put into wr[], ever */
	uint64_t sq_done;
	uint32_t unsignaled;
	uint32_t parts; /* of long values, that are under way */
	struct get *parked, **parked_end; /* whose first is to be posted yet: client/get/parts.h */

	struct op *ops;
	uint32_t depth; /* of them: one more than may be submitted, for an unlock */
	struct op *free_ops;
	struct op *done, **done_end;
	uint32_t in_flight;
	uint32_t adrift;   /* of them, those without a connection: operation.h */
	bool may_drift;    /* the call may wait for another connection */
	bool is_resuming;
	unsigned follows;     /* to a primary that was not there, or not one, in short order */
	uint64_t followed_ns; /* the last time */
	bool probes;          /* there may be another way to kvd: a cut is to be noticed soon */
	uint64_t probed_ns;   /* the last time */
	uint64_t tried_ns;    /* since when no READ of those has ended; 0: none was made */
	uint64_t tried_done;  /* sq_done, then */
	uint64_t home_ns;     /* when it may go where it belongs; 0: it is there */
	bool is_homesick;     /* that is now */
	uint64_t drains_ns;   /* since when nothing new begins, so that it may; 0: that is not so */
	unsigned away_gets;   /* of the short way, which asks no clock */
	unsigned silences;    /* of kvd, since it answered last */
	uint64_t patience_ns; /* with a cluster's primary that does not answer; 0: as long as a call takes */
	uint64_t connections; /* that were begun: a lock is of one */
	uint64_t reign;    /* of a cluster's primary, as the connection began; 0: it served not, or none */
	bool was_primary;  /* the connection is, or was, with one that served: who loses it asks another member first */
	uint32_t next_request, next_change;
	uint64_t later_ns;           /* when the first pause ends (message.h); 0: there is none */
	uint64_t secret;             /* of receipts */
	struct kvd_receipt *receipt; /* the caller's, or NULL */

	struct held held;
	struct hints *hints; /* NULL: kvd wants none */
	struct spin spin;
	uint64_t last_cm_look_ns;
	unsigned busy_polls; /* that found something, since the last look that this made */
	struct hwcount counted; /* by the device, until the session connected */
	struct kvd_counters counters;
};

/* Of a work request that is put into the send queue now: of the operation `index`;
 * `awaited`: its completion is what that waits for. */
static inline uint64_t engine_wr_id(struct engine *e, uint32_t index, bool awaited)
{
	return index | (uint64_t)awaited << 16 | ++e->sq_posted << 17;
}

#endif
