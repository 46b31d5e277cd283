/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * peer.h -- links between processes, and what is said over them.
 *
 * A link is a unix SEQPACKET connection from a process that has queue pairs
 * connected to another (it holds a sv_peer) to that other one (it holds a
 * sv_guest).  Two processes that talk have two links.  The peer's end asks, the
 * guest's end answers, always from the control threads.
 */
#ifndef COMMON_SOFTVERBS_PEER_PEER_H
#define COMMON_SOFTVERBS_PEER_PEER_H

#include "common/softverbs/sv.h"

/* Staging memory for accesses that the target's control thread executes. */
#define SV_STAGES 8u
#define SV_STAGE_BYTES (256u * 1024)

enum sv_msg_type {
	SV_MSG_HELLO = 1, /* -> abi, slot, incarnation */
	SV_MSG_HELLO_OK,  /* <- the same; descriptors ro, rw, kick */
	SV_MSG_CHAN,	  /* -> number of a completion channel */
	SV_MSG_CHAN_OK,	  /* <- and its descriptor, if it lives */
	SV_MSG_MAP,	  /* -> index, src_qpn, rkey, addr, bytes, write */
	SV_MSG_MAP_OK,	  /* <- status, mem, bytes64, write; descriptor */
	SV_MSG_STAGE,	  /* -> descriptor of the staging memory; no answer */
	SV_MSG_ACCESS,	  /* -> one remote access; payload in a stage */
	SV_MSG_ACCESS_OK, /* <- status, result */
	SV_MSG_GONE,	  /* <- mem: nothing in it is registered any more */
};

struct sv_msg {
	uint32_t type;
	uint32_t abi;
	uint32_t slot;
	uint32_t index;	  /* target's QP */
	uint32_t src_qpn; /* initiator's QP */
	uint32_t serial;  /* of the initiator's request */
	uint32_t opcode;  /* enum ibv_wr_opcode */
	uint32_t rkey;
	uint32_t bytes;
	uint32_t stage;
	uint32_t mem; /* or channel number */
	uint32_t write;
	uint32_t status; /* errno value, or enum ibv_wc_status */
	uint32_t reserved;
	uint64_t incarnation;
	uint64_t addr;
	uint64_t offset; /* of this part in the whole request */
	uint64_t bytes64;
	uint64_t compare_add;
	uint64_t swap; /* result in the answer */
};

#define SV_MSG_FDS 3

/* ---- msg.c ---- */
/* Sends with descriptors, never blocks. 0 or an errno value. */
int sv_msg_send(int fd, const struct sv_msg *msg, const int *fds, int nfds);
/* Receives one; *nfds descriptors are the caller's.  0, EAGAIN, or EPIPE. */
int sv_msg_recv(int fd, struct sv_msg *msg, int *fds, int *nfds);
/* Maps a descriptor that a peer sent, if it can't shrink; NULL. */
void *sv_map_received(int fd, size_t bytes, bool write);

enum sv_peer_state {
	SV_PEER_NEW,  /* no connection yet */
	SV_PEER_ASKED,
	SV_PEER_UP,
	SV_PEER_GONE,
};

struct sv_peer_map {
	struct sv_peer_map *next;
	uint32_t mem;
	bool write;
	bool pending; /* asked for, at asked_ns */
	uint8_t *base; /* NULL: can't be had, use the slow path */
	uint64_t size_bytes;
	uint64_t asked_ns;
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
	struct sv_spin lock; /* all below */
	struct sv_peer_map *maps;
	struct sv_peer_chan *chans;
	uint8_t *stage;
	uint32_t stage_free;
	unsigned int refs; /* sv_proc.lock */
	struct sv_peer *next;
};

/* ---- peer.c ---- */
/* The other process as named by a QP number, with a reference; NULL: no memory.
 * Never blocks: a peer that is not there yet is looked for by sv_peer_poke(). */
struct sv_peer *sv_peer_get(uint32_t slot);
void sv_peer_put(struct sv_peer *peer);
void sv_peer_poke(struct sv_peer *peer);
static inline bool sv_peer_up(struct sv_peer *peer)
{
	return atomic_load_explicit(&peer->state, memory_order_acquire) == SV_PEER_UP;
}
struct sv_wire *sv_peer_wire(struct sv_peer *peer, uint32_t index);
/* An event for the peer's CQ, whose armed word the caller took. */
void sv_peer_notify(struct sv_peer *peer, uint32_t qp_index, uint32_t cq_index);
void sv_peer_attention(struct sv_peer *peer, uint32_t index, uint32_t flags);
/* Claims a stage: its number, or -1. */
int sv_peer_stage_get(struct sv_peer *peer, uint8_t **data);
void sv_peer_stage_put(struct sv_peer *peer, uint32_t stage);
int sv_peer_ask(struct sv_peer *peer, const struct sv_msg *msg);

/* ---- map.c ---- */
/* Finds a mapping of the peer's memory.  0; EAGAIN: asked for; ENOTSUP: can't be
 * mapped. */
int sv_peer_map(struct sv_peer *peer, const struct sv_msg *ask, uint32_t mem, bool write,
		struct sv_map_hint *hint);
void sv_peer_free_maps(struct sv_peer_map *list);
/* The peer's answer: a refusal, or a descriptor, the caller's to close. */
void sv_peer_on_map(struct sv_peer *peer, const struct sv_msg *msg, int fd);
/* Nothing in mem is registered any more. */
void sv_peer_on_gone(struct sv_peer *peer, uint32_t mem);

/* ---- exec/serve.c: the other end ---- */
struct sv_guest {
	struct sv_watch watch;
	uint32_t slot;
	bool greeted;
	bool over;
	uint8_t *stage;
	struct sv_given {
		uint32_t mem;
		bool write;
	} *given; /* descriptors of memory; sv_proc.lock */
	uint32_t ngiven;
	struct sv_guest *next;
};

void sv_serve_accept(struct sv_watch *listener, uint32_t events);
/* Tells all guests that were given mem to drop it. */
void sv_serve_mem_gone(uint32_t mem);
/* Hands the memory of all regions that a QP's peer may now access to it, before
 * it asks: it can then use them while this process is stopped.  qp_index 0: all
 * QPs; pd 0: all domains.  Any thread; leaf. */
void sv_serve_push(uint32_t qp_index, uint32_t pd);
/* An atomic as a NIC that is not coherent with the CPU would do it. */
uint64_t sv_atomic_execute(void *word, uint32_t opcode, uint64_t compare_add, uint64_t swap);

#endif
