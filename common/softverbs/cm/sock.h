/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sock.h -- connection management: the sockets between processes, and deadlines.
 *
 * All with sv_cm.lock held.  Nothing blocks.  0 or an errno value, except where said.
 */
#ifndef COMMON_SOFTVERBS_CM_SOCK_H
#define COMMON_SOFTVERBS_CM_SOCK_H

#include <stdint.h>
#include <sys/socket.h>
#include "common/softverbs/base/ctl.h"
#include "common/softverbs/cm/id.h"
#include "common/softverbs/cm/msg.h"

/* A socket of connection management; outlives the id by a moment. */
struct sv_cm_sock {
	struct sv_watch watch;
	struct sv_id *id;	 /* NULL: over */
	struct sv_id *listener;	 /* a connection whose REQ is awaited */
	uint64_t deadline_ns;
	struct sv_cm_sock *next; /* sv_id.embryos */
};

uint64_t sv_cm_timeout_ms(void);
/* sv_cm_run_timers() runs at the latest then. */
void sv_cm_due_at(uint64_t at_ns);
/* in_ms 0: none. */
void sv_cm_set_deadline(struct sv_id *id, uint64_t in_ms);

/* A socket with the id's address, which must be of this host; the id has it, and its port. */
int sv_cm_bind(struct sv_id *id, const struct sockaddr *addr);
/* Connects to the listener of the id's destination: a descriptor, or -1 and errno: EAGAIN
 * if its backlog is full, ECONNREFUSED if there is none. */
int sv_cm_dial(const struct sv_id *id);
/* One for a descriptor, not watched; NULL: no memory. */
struct sv_cm_sock *sv_cm_new_sock(int fd, struct sv_id *id);
/* Closes at once (its address is free again) and frees later. */
void sv_cm_end_sock(struct sv_cm_sock *sock);
/* The id's socket, and those that its listener has not heard of yet. */
void sv_cm_close(struct sv_id *id);
/* What is said over a port that is cut is lost. */
int sv_cm_send(struct sv_id *id, const struct sv_cm_msg *msg);
/* Whether a port on the id's way is cut (SOFTVERBS_DOWN). */
bool sv_cm_is_cut(const struct sv_id *id);

#endif
