/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * shm.h -- what processes with the device open share with each other.
 *
 * Each process owns two sealed memfds and hands them to its peers over a unix
 * socket.  There is nothing global, and no lock: a process that dies leaves its
 * own memory to be unmapped and, in its peers' memory, counters from which they
 * compute what it had in flight.
 *
 * struct sv_ro: written by its owner alone; peers can't map it writable.  What
 *	the owner's queue pairs, regions and receive queues allow is read from
 *	here at every remote operation.
 * struct sv_rw: written by peers as well, so nothing in it is trusted: each
 *	value is checked against limits before use, and none is a pointer.
 *	Behind it, page aligned, comes one struct sv_wire per queue pair: the
 *	ring through which the only peer of that queue pair sends to it, or the
 *	pool (struct sv_pool) in which anybody leaves datagrams for it.
 *
 * Untouched pages of both cost nothing.
 */
#ifndef COMMON_SOFTVERBS_BASE_SHM_H
#define COMMON_SOFTVERBS_BASE_SHM_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include "common/softverbs/base/lock.h"

/* Raised whenever a struct of this file or a message of peer/msg.h changes. */
#define SV_ABI_VERSION 6

#define SV_SLOTS 4096u /* processes of a fabric; slot 0 and the last are not used */
#define SV_QPS 4096u   /* queue pairs of a process; index 0 is not used */
#define SV_CQS 1024u
#define SV_SRQS 256u
#define SV_RQS (SV_QPS + SV_SRQS) /* a QP's own receive queue has the QP's index */
#define SV_MRS 16384u

#define SV_DESCS 256u
#define SV_WIRE_BYTES 65536u
#define SV_PAYLOAD_BYTES (SV_WIRE_BYTES - SV_DESCS * 16u)
/* A message longer than this is staged in pieces of this size. */
#define SV_PIECE_BYTES 16384u

/* A QP number is the slot of its process and its index there. */
static inline uint32_t sv_qpn(uint32_t slot, uint32_t index)
{
	return slot << 12 | index;
}
/* Not one queue pair, but a multicast group's, as InfiniBand has it. */
#define SV_QPN_GROUP 0xffffffu
static inline uint32_t sv_qpn_slot(uint32_t qpn)
{
	return qpn >> 12 & (SV_SLOTS - 1);
}
static inline uint32_t sv_qpn_index(uint32_t qpn)
{
	return qpn & (SV_QPS - 1);
}

/* A key's place in sv_ro.mr.  Its low 8 bits are no part of it: of a memory window's they are the
 * program's to choose. */
static inline uint32_t sv_key_place(uint32_t key)
{
	return key >> 8 & (SV_MRS - 1);
}

/* Why a responder's queue pair refused what its peer sent; sv_ro_qp.nak. */
enum sv_nak {
	SV_NAK_NONE,
	SV_NAK_LENGTH, /* message longer than the receive: remote invalid request */
	SV_NAK_LOCAL,  /* responder's own buffers were wrong: remote operation error */
};

/* The owner's view of a queue pair.  All stores are release, all loads by peers
 * acquire, except where said. */
struct sv_ro_qp {
	alignas(SV_CACHE_LINE) _Atomic uint32_t state; /* enum ibv_qp_state */
	/* seq_cst: 0 before the owner computes what its peer had claimed, read by
	 * the peer after a claim: one of the two sees the other. */
	_Atomic uint32_t dest_qpn;
	_Atomic uint32_t gen; /* never 0 for a live QP; a reused index has another */
	_Atomic uint32_t access;
	_Atomic uint32_t pd;
	_Atomic uint32_t rq;
	_Atomic uint32_t cq; /* receive CQ */
	_Atomic uint32_t rd_atomic;
	_Atomic uint32_t rnr_timer;
	_Atomic uint32_t nak;
	_Atomic uint32_t type; /* enum ibv_qp_type */
	_Atomic uint32_t qkey;
	_Atomic uint64_t domain; /* of an XRC_RECV queue pair; else 0 */
};

/* sv_ro_mr.window: of all queue pairs of the domain (type 1). */
#define SV_WINDOW_ANY UINT32_MAX

/* A memory region, or a window into one.  rkey is 0 while the other fields change: a reader loads
 * rkey (acquire), the fields, and rkey again. */
struct sv_ro_mr {
	alignas(SV_CACHE_LINE) _Atomic uint32_t rkey;
	_Atomic uint32_t access;
	_Atomic uint32_t pd;
	_Atomic uint32_t mem; /* sv_mem_alloc() object it lies in; 0: not mappable */
	_Atomic uint64_t addr;
	_Atomic uint64_t length;
	_Atomic uint64_t mem_offset;
	/* 0: a region.  A window: SV_WINDOW_ANY, or the number of its queue pair (type 2). */
	_Atomic uint32_t window;
};

struct sv_ro_rq {
	/* Receives posted since the queue was made, and credits given back.
	 * release after min_len; acquire by senders. */
	alignas(SV_CACHE_LINE) _Atomic uint32_t posted;
	/* No posted receive is shorter than this. */
	_Atomic uint32_t min_len;
};

struct sv_ro_cq {
	_Atomic uint32_t channel; /* completion channel's number; 0: none */
};

struct sv_ro {
	uint32_t abi;
	uint32_t slot;
	uint64_t incarnation;
	struct sv_ro_qp qp[SV_QPS];
	struct sv_ro_mr mr[SV_MRS];
	struct sv_ro_rq rq[SV_RQS];
	struct sv_ro_cq cq[SV_CQS];
};

/* Why an initiator put its peer's queue pair in error; sv_rw_qp.fault. */
enum sv_fault_code {
	SV_FAULT_NONE,
	SV_FAULT_ACCESS,  /* IBV_EVENT_QP_ACCESS_ERR */
	SV_FAULT_REQUEST, /* IBV_EVENT_QP_REQ_ERR */
	SV_FAULT_FATAL,   /* own CQ overrun, damaged ring: IBV_EVENT_QP_FATAL */
	SV_FAULT_QUIET,   /* a completion tells it already: no event */
};

/* What the control thread of the process is asked to do for a queue pair. */
enum sv_attention {
	SV_ATTN_FAULT = 1,     /* look at sv_rw_qp.fault */
	SV_ATTN_DRAIN = 2,     /* take the ring's messages: its sender waits for room */
	SV_ATTN_NOTIFY = 4,    /* wake the receive CQ's channel */
	SV_ATTN_PROGRESS = 8,  /* the send queue may go on */
	SV_ATTN_RECONCILE = 16, /* a claim was given up: compute lost credits */
	SV_ATTN_JOIN = 32 /* XRC: a branch to a receive queue of the same process is wanted */
};

struct sv_rw_qp {
	/* Written by the one sender: ring records pushed.  release; acquire by
	 * the receiver. */
	alignas(SV_CACHE_LINE) _Atomic uint32_t tail;
	/* Receive credits that the sender has claimed, since this index was
	 * first used; see exec/wire.c. */
	_Atomic uint32_t claimed;
	/* Written by the receiver: records taken.  release; acquire by the
	 * sender. */
	alignas(SV_CACHE_LINE) _Atomic uint32_t head;
	/* Set by the sender before it sleeps on head, exchanged by the receiver
	 * after it moved head; seq_cst both. */
	_Atomic uint32_t tx_wait;
	alignas(SV_CACHE_LINE) _Atomic uint32_t fault;
	_Atomic uint32_t attention;
	/* Datagrams that found no receive posted, or no room in time. */
	_Atomic uint32_t dropped;
};

struct sv_rw_rq {
	/* claimed:32 | claimant's QP index:12 | its claim number:20.  CAS by
	 * senders; see exec/wire.c. */
	alignas(SV_CACHE_LINE) _Atomic uint64_t claim;
};

/* A set of up to 4096 numbers in two levels.  Adding sets the lower level, then
 * the upper; taking clears the upper, then the lower (all seq_cst), so that a
 * number that is added while the set is taken from is found at the next look. */
struct sv_set {
	alignas(SV_CACHE_LINE) _Atomic uint64_t top;
	alignas(SV_CACHE_LINE) _Atomic uint64_t word[64];
};

/* What a CQ's next event is for. */
enum sv_armed {
	SV_ARMED_NOT,
	SV_ARMED_SOLICITED,
	SV_ARMED_ANY,
	SV_ARMED_TAKEN, /* somebody is about to write the event */
	SV_ARMED_MASK = 3,
};

struct sv_rw_cq {
	struct sv_set ready; /* QPs of the owner with messages in their ring */
	/* An enum sv_armed, and above it a number that each arming has of its own.
	 * seq_cst: set by the owner before its last look at the CQ, taken by whoever
	 * adds a completion after adding it. */
	alignas(SV_CACHE_LINE) _Atomic uint32_t armed;
	/* Events not yet taken; each was or will be written to the channel. */
	_Atomic uint32_t pending;
	/* Counted up after that was done, for a process that looks for it itself: a hint, late by one
	 * for each writer that died in between. */
	_Atomic uint32_t rung;
};

struct sv_rw {
	struct sv_set attention; /* QPs with a non-zero attention word */
	/* Raised when the members of any multicast group change; peer/group.c. */
	_Atomic uint32_t groups;
	struct sv_rw_qp qp[SV_QPS];
	struct sv_rw_rq rq[SV_RQS];
	struct sv_rw_cq cq[SV_CQS];
};

enum sv_desc_flag {
	SV_DESC_FIRST = 1,
	SV_DESC_LAST = 2,
	SV_DESC_IMM = 4,
	SV_DESC_WRITE = 8, /* RDMA WRITE with immediate: no payload here */
	SV_DESC_INV = 16,  /* imm is the key of a window that ends */
};

/* A record of the ring.  Written before tail's release, read after its
 * acquire. */
struct sv_desc {
	_Atomic uint32_t place; /* offset in the payload area | flags << 16 */
	_Atomic uint32_t len;   /* of this piece */
	_Atomic uint32_t total; /* of the message */
	_Atomic uint32_t imm;
};

struct sv_wire {
	struct sv_desc desc[SV_DESCS];
	uint8_t payload[SV_PAYLOAD_BYTES];
};

_Static_assert(sizeof(struct sv_wire) == SV_WIRE_BYTES, "wire size");

/* A datagram is in as many chunks, one behind the other, as it needs. */
#define SV_CHUNKS 60u
#define SV_CHUNK_BYTES 1024u
#define SV_DGRAM_BYTES 4096u /* the longest: an MTU */

enum sv_dgram_flag {
	SV_DGRAM_IMM = 1,
	SV_DGRAM_GID1 = 2, /* sent to a group, from the port's second address */
};

/* What is said of a datagram, in the place of its first chunk.  Written before its bit of
 * sv_pool.full. */
struct sv_dgram {
	_Atomic uint32_t gen; /* of the queue pair that it is for: a later one drops it */
	_Atomic uint32_t len;
	_Atomic uint32_t src_qpn;
	_Atomic uint32_t qkey;
	_Atomic uint32_t imm;
	_Atomic uint32_t flags;	 /* enum sv_dgram_flag */
	_Atomic uint32_t ticket; /* of sv_pool.ticket: the order in which they are taken */
	uint32_t reserved;
	_Atomic uint64_t dgid[2];
};

/* The datagrams of a queue pair; see exec/dgram.c. */
struct sv_pool {
	/* A bit for each first chunk of a datagram that is there.  seq_cst: set by senders,
	 * cleared by the receiver. */
	_Atomic uint64_t full;
	_Atomic uint32_t ticket;
	/* 0: free.  CAS by senders to incarnation << 24 | number of their queue pair. */
	_Atomic uint64_t owner[SV_CHUNKS];
	struct sv_dgram dgram[SV_CHUNKS];
	alignas(4096) uint8_t payload[SV_CHUNKS * SV_CHUNK_BYTES];
};

_Static_assert(sizeof(struct sv_pool) == SV_WIRE_BYTES, "pool size");

/* How many chunks so many bytes take; none takes one. */
static inline uint32_t sv_chunks(uint32_t bytes)
{
	return bytes ? (bytes + SV_CHUNK_BYTES - 1) / SV_CHUNK_BYTES : 1;
}
_Static_assert(SV_PAYLOAD_BYTES <= 65536, "payload offsets have 16 bits");

/* Bytes of the shared part before the wires; page aligned for 64 KiB pages. */
#define SV_RW_BYTES ((sizeof(struct sv_rw) + 65535u) / 65536u * 65536u)
#define SV_RO_BYTES ((sizeof(struct sv_ro) + 65535u) / 65536u * 65536u)
#define SV_RW_FILE_BYTES (SV_RW_BYTES + (size_t)SV_QPS * SV_WIRE_BYTES)

static inline void sv_set_add(struct sv_set *set, uint32_t n)
{
	atomic_fetch_or(&set->word[n / 64], 1ull << n % 64);
	atomic_fetch_or(&set->top, 1ull << n / 64);
}

#endif
