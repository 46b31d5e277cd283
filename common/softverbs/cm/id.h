/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * id.h -- connection management: ids, and the one lock that guards all of it.
 *
 * Handlers of the control thread take the lock first and then look whether the id is still
 * there.
 */
#ifndef COMMON_SOFTVERBS_CM_ID_H
#define COMMON_SOFTVERBS_CM_ID_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <rdma/rdma_cma.h>
#include "common/softverbs/base/compiler.h"
#include "common/softverbs/base/device.h"
#include "common/softverbs/cm/msg.h"

struct sv_cm_channel;
struct sv_cm_group;
struct sv_cm_sock;

enum sv_cm_state {
	SV_CM_IDLE,
	SV_CM_BOUND,
	SV_CM_ADDR_RESOLVED,
	SV_CM_ROUTE_RESOLVED,
	SV_CM_LISTENING,
	SV_CM_CONNECTING, /* active: REQ sent, or its listener's backlog is full */
	SV_CM_RESPONDED,  /* active: REP is here */
	SV_CM_REQUESTED,  /* passive: REQ is here */
	SV_CM_ACCEPTED,	  /* passive: REP sent */
	SV_CM_CONNECTED,
	SV_CM_DISCONNECTING, /* DREQ sent */
	SV_CM_DISCONNECTED,
	SV_CM_OVER, /* refused, unreachable, or its time wait is over */
};

struct sv_id {
	struct rdma_cm_id id;
	enum sv_cm_state state;
	bool sync;
	bool gone; /* passive: the other side left before the answer */
	struct sv_cm_sock *sock;
	struct sv_cm_sock *embryos; /* of a listener */
	unsigned int nembryos;
	unsigned int nrequests; /* CONNECT_REQUESTs not yet answered */
	unsigned int backlog;
	struct sv_id *listener;	    /* of a passive id, while it counts there */
	unsigned int events_got, events_acked;
	uint64_t deadline_ns; /* of the state; UINT64_MAX: none */
	uint64_t refused_ns;  /* when first nobody listened; 0: not so */
	uint8_t tos;
	uint8_t ack_timeout;
	bool af_only;
	struct sv_cm_group *groups; /* multicast; mcast.c */
	/* What the two sides agreed on. */
	uint32_t psn;
	uint32_t remote_psn;
	uint32_t remote_qpn;
	uint8_t responder_resources;
	uint8_t initiator_depth;
	uint8_t retry_count;
	uint8_t rnr_retry_count;
	uint8_t peer_ack_timeout;
	/* Of a listening endpoint: for its requests. */
	struct ibv_pd *ep_pd;
	struct ibv_qp_init_attr *ep_attr;
	struct sv_cm_msg req; /* to be sent again while the backlog is full */
	struct sv_id *next;
};

struct sv_cm {
	pthread_mutex_t lock;
	pthread_cond_t acked;
	struct sv_id *ids;
	struct sv_cm_channel *channels; /* that are not destroyed */
	struct ibv_context *verbs[SV_DEVICES]; /* all that there are, or none */
	struct ibv_pd *pd[SV_DEVICES];
	/* No timer is due before; UINT64_MAX: none. */
	_Atomic uint64_t next_ns;
};

extern struct sv_cm sv_cm;

static inline struct sv_id *sv_id_of(struct rdma_cm_id *id)
{
	return SV_CONTAINER(id, struct sv_id, id);
}

/* Nobody is connected: the other side's queue pair is asked for, and told. */
static inline bool sv_id_datagram(const struct sv_id *id)
{
	return id->id.ps == RDMA_PS_UDP;
}

static inline int sv_cm_fail(int err)
{
	errno = err;
	return -1;
}

/* Unlocks; 0, or -1 and errno. */
static inline int sv_cm_done(int err)
{
	pthread_mutex_unlock(&sv_cm.lock);
	return err ? sv_cm_fail(err) : 0;
}

/* Before anything else of connection management is used: 0, or -1 and errno.  Any thread. */
int sv_cm_start(void);

/* All with sv_cm.lock held. */
/* A new id, linked; NULL: no memory.  listener: whose connection it is to be, or NULL. */
struct sv_id *sv_cm_new_id(struct sv_id *listener);
/* Unlinks and frees it. */
void sv_cm_free_id(struct sv_id *id);
/* The id is at an address, its source, and so on a device. */
void sv_cm_set_device(struct sv_id *id);

#endif
