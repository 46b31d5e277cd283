/* SPDX-License-Identifier: BSD-2-Clause */
/* peer.h -- this process's links to others: tables, channels, staging memory. */
#ifndef COMMON_SOFTVERBS_PEER_PEER_H
#define COMMON_SOFTVERBS_PEER_PEER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "common/softverbs/base/ctl.h"
#include "common/softverbs/base/lock.h"
#include "common/softverbs/base/shm.h"
#include "common/softverbs/peer/map.h"
#include "common/softverbs/peer/msg.h"

enum sv_peer_state {
	SV_PEER_NEW,  /* no connection yet */
	SV_PEER_ASKED,
	SV_PEER_UP,
	SV_PEER_GONE,
};

struct sv_peer_chan {
	struct sv_peer_chan *next;
	uint32_t id;
	int fd; /* -1: asked for, or over */
};

struct sv_peer {
	struct sv_watch watch;
	uint32_t slot;
	bool self;
	/* release after the fields below it were set, acquire by the data path. */
	_Atomic uint32_t state;
	const struct sv_ro *ro;
	struct sv_rw *rw;
	int rw_fd;
	int kick_fd;
	struct sv_maps maps;
	struct sv_spin lock; /* the next four */
	struct sv_peer_chan *chans;
	uint8_t *stage;
	uint32_t stage_free;
	unsigned int refs; /* sv_proc.lock */
	struct sv_peer *next;
};

/* What a link tells to those whose queue pairs use it.  On the control thread; no lock is
 * held. */
struct sv_peer_hooks {
	/* It is up, or has something that was asked for: requests that wait may go on. */
	void (*progress)(struct sv_peer *peer);
	/* SV_MSG_ACCESS_OK: one part of a request; data is valid until it returns. */
	void (*answered)(const struct sv_msg *msg, void *data);
	/* SV_MSG_JOIN_OK. */
	void (*joined)(const struct sv_msg *msg);
	/* The mappings of mem are about to end: no queue pair may use them any more. */
	void (*unmapped)(struct sv_peer *peer, uint32_t mem);
	/* The process is dead, or has hung up. */
	void (*gone)(struct sv_peer *peer);
};
/* Before there is any link. */
void sv_peer_on_event(const struct sv_peer_hooks *hooks);

/* The other process as named by a QP number, with a reference; NULL: no memory.
 * Never blocks: a peer that is not there yet is looked for by sv_peer_poke(). */
struct sv_peer *sv_peer_get(uint32_t slot);
void sv_peer_put(struct sv_peer *peer);
void sv_peer_poke(struct sv_peer *peer);
static inline bool sv_peer_up(struct sv_peer *peer)
{
	return atomic_load_explicit(&peer->state, memory_order_acquire) == SV_PEER_UP;
}
/* The ring of one of its queue pairs, mapped; the caller unmaps it.  NULL. */
struct sv_wire *sv_peer_wire(struct sv_peer *peer, uint32_t index);
/* An event for the peer's CQ, whose armed word the caller took. */
void sv_peer_notify(struct sv_peer *peer, uint32_t qp_index, uint32_t cq_index);
void sv_peer_attention(struct sv_peer *peer, uint32_t index, uint32_t flags);
/* Claims a stage: its number, or -1. */
int sv_peer_stage_get(struct sv_peer *peer, uint8_t **data);
void sv_peer_stage_put(struct sv_peer *peer, uint32_t stage);
/* 0 or an errno value. */
int sv_peer_ask(struct sv_peer *peer, const struct sv_msg *msg);

#endif
