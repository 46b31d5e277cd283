/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * relay.h -- the middle of an exchange: a peer's connections with others, to which it forwards
 * what its client sends.
 *
 * A relay is of one thread, the peer's.  What it is sent at once it forwards as one message, and
 * waits for that: so a member of a cluster does, too.
 */
#ifndef BENCH_RAW_RELAY_H
#define BENCH_RAW_RELAY_H

#include "bench/raw/end.h"

#define RAWRELAY_MAX 2u
/* For an answer: less than the client waits for its own, so that it is told. */
#define RAWRELAY_TIMEOUT_MS (RAWEND_TIMEOUT_MS / 2)

/* Whom to forward to. */
struct rawrelay_to {
	unsigned count;
	struct addr addr[RAWRELAY_MAX];
};

struct rawrelay {
	struct rawrelay_to to;
	struct rawend ends[RAWRELAY_MAX];
	uint32_t record_bytes, batch; /* records that may go as one message */
	uint64_t sent;
};

/* Whether it has somebody to forward to, and can send such messages. */
bool rawrelay_may(const struct rawrelay *r, const struct rawend_legs *legs);
/* Connects to all of them, as a client's hello says; blocks.  0, or -1 with err;
 * rawrelay_clear() in either case. */
int rawrelay_connect(struct rawrelay *r, struct device *device, const struct rawend_hello *hello,
		     struct err *err);
/* Sends that many records to all of them, then waits for the answers of all.  0, or -1 with err:
 * one did not answer within RAWRELAY_TIMEOUT_MS, or is gone. */
int rawrelay_forward(struct rawrelay *r, uint32_t records, struct err *err);
/* Ends its connections. */
void rawrelay_clear(struct rawrelay *r);

#endif
