/* SPDX-License-Identifier: BSD-2-Clause */
/* operation_impl.h -- the inside of an operation, for the engine and for its classes. */
#ifndef CLIENT_OP_OPERATION_IMPL_H
#define CLIENT_OP_OPERATION_IMPL_H

#include "client/cache/iov.h"
#include "client/op/memory.h"
#include "client/op/outcome.h"

enum phase {
	PHASE_FREE,
	PHASE_BUSY,  /* READs are out, or an atomic; or it is about to begin */
	PHASE_REPLY, /* a message is out */
	PHASE_LATER, /* kvd was too busy for it: it will be posted again */
	PHASE_ADRIFT, /* its connection is gone, it is not: operation.h */
};

struct engine;
struct op_class;

struct op {
	struct engine *engine;
	uint32_t index;
	const struct op_class *class;
	enum phase phase;
	bool is_unsettled; /* adrift, and it may have happened */
	bool ended; /* answered, but its SEND is not complete */
	bool done;
	void *tag;
	struct op *next; /* of the list of free or completed ones */
	struct op_memory *memory;
	uint64_t begun_ns;
	uint64_t deadline_ns;
	int more_ms; /* that it has, of op_allow_ms() */
	uint64_t sent_ns;
	uint64_t asked_ns; /* the same by the clock of leases: grant_clock_ns() */
	uint32_t request_id;
	uint32_t message_bytes;
	bool gathers;      /* and the value behind it */
	uint32_t refusals; /* by a busy kvd, as far as they lengthen the pause */
	uint64_t again_ns; /* the end of the pause */
	uint32_t reads;    /* completions that it waits for */

	uint8_t key[KVD_KEY_BYTES_MAX];
	uint32_t key_bytes;
	struct pieces value; /* the caller's memory */
	void *own;           /* what its class keeps of it */
	uint64_t words[2];   /* the same, where these are enough */
	struct outcome out;
};

#endif
