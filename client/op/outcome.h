/* SPDX-License-Identifier: BSD-2-Clause */
/* outcome.h -- how an operation ended. */
#ifndef CLIENT_OP_OUTCOME_H
#define CLIENT_OP_OUTCOME_H

#include <stddef.h>
#include <stdint.h>

#include "client/kvd.h"
#include "common/wire.h"

/* A change that was sent, and when, by grant_clock_ns(); 0: that is not known. */
struct sent {
	struct kvd_receipt receipt;
	uint64_t ns;
};

struct outcome {
	int result;
	size_t bytes;
	uint64_t version;
	uint64_t ttl_ms;
	uint64_t lengths, expiry; /* of a GET: of the item's header */
	int64_t number;
	uint8_t *allocated;      /* the value, in memory made for the caller */
	struct sent sent;        /* of a change */
	struct wire_reply reply; /* if there was one */
	const uint8_t *payload;  /* of it, if its class keeps it */
	uint32_t payload_bytes;
};

#endif
