/* SPDX-License-Identifier: BSD-2-Clause */
/* raw.h -- verbs with nothing around them: the limit that GET and PUT are held
 * against. */
#ifndef BENCH_RAW_RAW_H
#define BENCH_RAW_RAW_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/measure/histogram.h"
#include "bench/raw/end.h"
#include "common/addr.h"
#include "common/err.h"
#include "common/rdma/device.h"

enum raw_op {
	RAW_READ,
	RAW_WRITE,
	RAW_WRITE_WITH_IMM,
	RAW_CAS,
	RAW_FADD,
	RAW_SEND,
	RAW_SEND_WITH_IMM,
	RAW_EXCHANGE, /* a SEND that the peer answers once others have answered it (relay.h) */
	RAW_OPS
};

/* "READ", "WRITE", "WRITE_WITH_IMM", "CAS", ..., NULL-terminated. */
extern const char *const raw_names[RAW_OPS + 1];

struct raw_config {
	enum rawtransport transport;
	struct device *device;
	struct addr addr;      /* of the peer */
	uint64_t region_bytes; /* that addresses are drawn from */
	uint64_t inline_bytes; /* messages up to this go inline, as far as the device can */
	uint32_t depth;        /* work requests under way, for the rate */
	uint32_t batch;        /* work requests a doorbell, for the rate */
	uint32_t signal;       /* every so many is signalled, for the rate */
	bool events;           /* wait by completion events, not by polling */
	struct rawend_legs legs; /* of an exchange; 0: as long as the message */
	bool plain;            /* the peer's region is memory as a program's own */
	double seconds;        /* of each measurement */
};

#define RAW_DEPTH_MAX 1024u
#define RAW_ATOMIC_BYTES 8u

struct raw_figure {
	enum rawtransport transport;
	enum raw_op op;
	uint64_t bytes;
	struct histogram latency; /* of one at a time: see raw_measure() */
	double per_second;        /* of many at a time; NAN: that is not measured */
};

/*
 * The latency is from the doorbell until the completion was seen: for READ, WRITE
 * and atomics that of the work request, for SEND that of the peer's answer, which is as
 * long, for EXCHANGE that of the peer's answer.  A WRITE of UC is complete when it was sent: nobody
 * acknowledges it.  Addresses are random in the region, at
 * multiples of 64.
 *
 * The rate is one way for SEND: the peer takes messages and gives credits.  Of EXCHANGE `depth`
 * are under way, 32 at the most; the peer forwards as one message what it finds at once.  0, or
 * -1 with err.
 */
int raw_measure(const struct raw_config *config, enum raw_op op, uint64_t bytes,
		struct raw_figure *figure, struct err *err);

/* Whether the transport has it. */
bool raw_has(enum rawtransport transport, enum raw_op op);

/* Whether it is of 8 bytes only. */
static inline bool raw_is_atomic(enum raw_op op)
{
	return op == RAW_CAS || op == RAW_FADD;
}

#endif
