/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * proc.h -- the process: its tables, and what their parts share.
 *
 * Made by sv_start() (verbs/start.h), before which sv_proc is NULL; ends with the process.
 */
#ifndef COMMON_SOFTVERBS_BASE_PROC_H
#define COMMON_SOFTVERBS_BASE_PROC_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>
#include "common/softverbs/base/device.h"
#include "common/softverbs/base/lock.h"
#include "common/softverbs/base/shm.h"

struct sv_chan;
struct sv_cq;
struct sv_guest;
struct sv_offer;
struct sv_peer;
struct sv_qp;
struct sv_srq;
struct sv_watch;
struct sv_window;

/* A place in the table of queue pairs; outlives them. */
struct sv_qp_seat {
	struct sv_spin lock; /* guards qp and taking references to it */
	struct sv_qp *qp;
	/* Receives used and credits given back, since the seat was first used, as
	 * sv_rw_qp.claimed.  Under the lock of the receive CQ of the QP that sits
	 * here; of an empty seat, under sv_proc.lock. */
	uint32_t received;
	uint32_t reclaimed;
	uint32_t rq; /* receive queue of the QP that sits or sat here */
};

struct sv_proc {
	pid_t pid;
	uint32_t slot;
	uint64_t incarnation;
	char fabric[48];
	int ro_fd;
	int rw_fd;
	int kick_fd;
	int epoll_fd;
	int timer_fd;
	int listener_fd;
	int sender_fd; /* name of one that sends to multicast groups; lock */
	struct sv_ro *ro;
	struct sv_rw *rw;
	_Atomic(struct sv_watch *) retired; /* ctl.c */
	/* When the control thread wakes by itself; see sv_ctl_wake_at(). */
	_Atomic uint64_t wake_at_ns;
	/* QPs whose send queue waits; one bit each.  seq_cst, against wake_at_ns. */
	_Atomic uint64_t blocked[SV_QPS / 64];

	_Atomic uint32_t next_gen;
	_Atomic uint32_t bad_qkeys; /* datagrams with another Q_Key than their receiver's */

	pthread_mutex_t lock; /* all below */
	struct sv_qp_seat seat[SV_QPS];
	/* Taken seats, from creation to the end of destruction. */
	uint64_t seats[SV_QPS / 64];
	struct sv_cq *cq[SV_CQS];
	struct sv_srq *srq[SV_SRQS];
	struct sv_chan *chans;
	uint64_t keys[SV_MRS / 64]; /* places of sv_ro.mr that are taken */
	struct sv_window *windows;
	struct sv_offer *offers; /* regions in memory that peers can map */
	uint32_t next_qp;
	uint32_t next_pd;
	uint32_t next_chan;
	uint64_t qps_made;
	struct sv_peer *peers;
	struct sv_guest *guests;
	pthread_mutex_t grouping; /* held while a queue pair enters or leaves a multicast group */
	pthread_mutex_t serving;  /* held while this process's memory is used for another */
	pthread_mutex_t nic_lock[SV_DEVICES]; /* fault injection: atomics that a CPU can tear */
};

static inline bool sv_seat_taken(const struct sv_proc *p, uint32_t index)
{
	return p->seats[index / 64] >> index % 64 & 1;
}

extern struct sv_proc *sv_proc;

int sv_random(void *buf, size_t bytes);
/* An abstract unix address "softverbs/<fabric>/<kind>/<name>". */
struct sockaddr_un;
socklen_t sv_address(struct sockaddr_un *sun, const char *kind, const char *name);
/* A sealed memfd; peers can't make it shorter.  -1 and errno. */
int sv_memfd(const char *name, size_t bytes);
bool sv_same_user(int fd);
/* Asks the control thread of this process to look at one of its QPs. */
void sv_attention(uint32_t index, uint32_t flags);

#endif
