/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fate.h -- what became of the last changes of a connection.
 *
 * A client whose connection broke does not know whether its last changes took
 * effect.  Each connection keeps the results of as many changes as it may have
 * outstanding, and some; when it is destroyed they go to a bounded table, where the
 * client's next connection asks for them.  A change that is not among them had no
 * effect, and never will: the queue pair is gone.  (protocols.md, 7.)
 */
#ifndef SERVER_WORKER_FATE_H
#define SERVER_WORKER_FATE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/wire.h"

/* Connections that are remembered; the oldest is forgotten first. */
#define FATES_MAX 4096u

struct fate_ring; /* one connection's; its worker's, then the table's */

/* NULL if there is no memory.  `secret` is what a client has to know to ask. */
struct fate_ring *fate_ring_new(uint64_t secret, uint32_t credits);
void fate_ring_delete(struct fate_ring **ring);
void fate_note(struct fate_ring *ring, uint32_t request_id, enum wire_status status,
	       uint64_t version, uint64_t value_bytes);

uint64_t fate_secret(const struct fate_ring *ring);
/* How many changes it remembers. */
uint32_t fate_kept(const struct fate_ring *ring);
bool fate_is_secret(const struct fate_ring *ring, uint64_t secret);

struct fates;

struct fates *fates_new(void);
void fates_delete(struct fates **fates);

/* What is not known any more. */
struct fates_forgotten {
	uint64_t reign;    /* 0: nothing, or of no cluster */
	uint64_t until_ns; /* that connection was gone by then; CLOCK_BOOTTIME */
};
/*
 * Any thread.  Takes the ring over: the connection, which was of that reign, is destroyed.  What was
 * kept of the eldest is forgotten for it.
 */
struct fates_forgotten fates_keep(struct fates *fates, uint64_t connection_id, uint64_t reign,
				  struct fate_ring *ring);

/*
 * Any thread.  WIRE_OK: *fate is the request's; WIRE_NOT_FOUND: it had no effect;
 * WIRE_EUNSUPPORTED: nothing is known of that connection.
 */
struct fate {
	uint32_t request_id;
	uint32_t status;
	uint64_t version;
	uint64_t value_bytes; /* as in the reply */
};
enum wire_status fates_find(struct fates *fates, uint64_t connection_id, uint64_t secret,
			    uint32_t request_id, struct fate *fate);

#endif
