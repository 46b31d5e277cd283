/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * register.h -- records in memory: what tests and the simulation agree on.
 *
 * Sessions of one register see the same records.  It can lose what a real engine loses.
 */
#ifndef SERVER_CLUSTER_AGREE_REGISTER_H
#define SERVER_CLUSTER_AGREE_REGISTER_H

#include "server/cluster/agree/agree.h"

#define AGREE_RECORDS_MAX 64u
#define AGREE_SESSIONS_MAX 16u

struct agree_register;

/* NULL: no memory. */
struct agree_register *agree_register_new(void);
/* After the last of its sessions is closed.  Takes NULL. */
void agree_register_delete(struct agree_register **reg);

/* 0 or an errno value; ENOSPC: there are AGREE_SESSIONS_MAX. */
int agree_register_open(struct agree_register *reg, const struct agree_events *events,
			struct agree **agree);

/* What becomes of the next write or create, whichever session's: AGREE_UNKNOWN is its answer. */
enum agree_fault {
	AGREE_LOSE_REQUEST = 1,
	AGREE_LOSE_ANSWER,
	AGREE_LATE, /* agree_register_carry_out() carries it out; one at a time */
};
void agree_register_fault(struct agree_register *reg, enum agree_fault fault);
void agree_register_carry_out(struct agree_register *reg);

/* The session is over, as if it had been silent for too long. */
void agree_register_end(struct agree *agree);

#endif
