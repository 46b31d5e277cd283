/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * completions.h -- what became of changes that another member of a cluster executed: its completion
 * records, which come with the changes (doc/cluster.md, 7).
 *
 * They are kept by client, in a table that is bounded: the client that was heard of longest ago is
 * forgotten first, and then it is known up to which reign nothing can be said for certain.
 * Any thread; one lock.
 */
#ifndef SERVER_WORKER_REQUEST_COMPLETIONS_H
#define SERVER_WORKER_REQUEST_COMPLETIONS_H

#include <stdint.h>

#include "common/wire.h"
#include "server/worker/fate.h"

struct completions;

/* Of one change: of a client's connection, in a reign. */
struct completion {
	uint64_t connection, secret;
	uint64_t reign;
	struct fate fate;
	uint32_t size; /* so many are kept of a connection */
};

struct completions *completions_new(void);
void completions_delete(struct completions **completions);

/* The change took effect here. */
void completions_note(struct completions *c, const struct completion *completion);
/* Of that reign, and of those before, not all is known that was sent until then, by CLOCK_BOOTTIME. */
void completions_lack(struct completions *c, uint64_t reign, uint64_t until_ns);
/*
 * Of a change that was asked for in that reign, which is over.  WIRE_OK: *fate; WIRE_NOT_FOUND: it
 * had no effect, and never will; WIRE_EUNSUPPORTED: that is not known, unless it was sent in the
 * last fate->value_bytes milliseconds: then it had none either.
 */
enum wire_status completions_find(struct completions *c, const struct completion *asked,
				  struct fate *fate);

#endif
