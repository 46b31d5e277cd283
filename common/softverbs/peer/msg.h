/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * msg.h -- what the control threads of two processes say to each other.
 *
 * A link is a unix SEQPACKET connection from a process that has queue pairs
 * connected to another (it holds a sv_peer) to that other one (it holds a
 * sv_guest).  Two processes that talk have two links.  The peer's end asks, the
 * guest's end answers, always from the control threads.
 */
#ifndef COMMON_SOFTVERBS_PEER_MSG_H
#define COMMON_SOFTVERBS_PEER_MSG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
	/* XRC (object/branch.h).  -> index of a shared receive queue, src_qpn, mem: target's number,
	 * write, stage, bytes: its access, RNR timer and READs; addr: domain; serial: the branch */
	SV_MSG_JOIN,
	SV_MSG_JOIN_OK, /* <- the same with status, and index of the queue pair made */
	SV_MSG_PART,	/* -> src_qpn has left that of index; no answer */
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

/* Sends with descriptors, never blocks. 0 or an errno value. */
int sv_msg_send(int fd, const struct sv_msg *msg, const int *fds, int nfds);
/* Receives one; *nfds descriptors are the caller's.  0, EAGAIN, or EPIPE. */
int sv_msg_recv(int fd, struct sv_msg *msg, int *fds, int *nfds);
/* Maps a descriptor that a peer sent, if it can't shrink; NULL. */
void *sv_map_received(int fd, size_t bytes, bool write);

#endif
