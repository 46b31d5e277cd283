/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cm.h -- connection management: what its files share.
 *
 * One lock guards all of it.  Handlers of the control thread take it first and
 * then look whether the id is still there.
 */
#ifndef COMMON_SOFTVERBS_CM_CM_H
#define COMMON_SOFTVERBS_CM_CM_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include "common/softverbs/base/bell.h"
#include "common/softverbs/base/compiler.h"
#include "common/softverbs/base/ctl.h"
#include "common/softverbs/base/fd.h"
#include "common/softverbs/base/limits.h"
#include "common/softverbs/base/proc.h"
#include "common/softverbs/softverbs.h"

#define SV_CM_REQ_DATA 56
#define SV_CM_REP_DATA 196
#define SV_CM_REJ_DATA 148
#define SV_CM_TIMEOUT_MS 4000 /* SOFTVERBS_CM_TIMEOUT_MS overrides */
#define SV_CM_DISCONNECT_MS 2000
#define SV_CM_BACKLOG_MAX 1024
#define SV_CM_EMBRYOS_MAX 256

/* Reasons of rejection, as InfiniBand's. */
#define SV_REJ_NO_RESOURCES 3
#define SV_REJ_NO_SERVICE 8
#define SV_REJ_CONSUMER 28

enum sv_cm_type { SV_CM_REQ = 1, SV_CM_REP, SV_CM_RTU, SV_CM_REJ, SV_CM_DREQ, SV_CM_DREP };

struct sv_cm_msg {
	uint32_t type;
	uint32_t abi;
	uint32_t qpn;
	uint32_t psn;
	uint32_t reason;
	uint8_t responder_resources;
	uint8_t initiator_depth;
	uint8_t flow_control;
	uint8_t retry_count;
	uint8_t rnr_retry_count;
	uint8_t srq;
	uint8_t ack_timeout;
	uint8_t reserved;
	struct sockaddr_in6 src; /* or a sockaddr_in in its first bytes */
	struct sockaddr_in6 dst;
	uint8_t data[SV_CM_REP_DATA];
};

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

/* A socket of connection management; outlives the id by a moment. */
struct sv_cm_sock {
	struct sv_watch watch;
	struct sv_id *id;	 /* NULL: over */
	struct sv_id *listener;	 /* a connection whose REQ is awaited */
	uint64_t deadline_ns;
	struct sv_cm_sock *next; /* sv_id.embryos */
};

struct sv_cm_event {
	struct rdma_cm_event ev;
	struct sv_id *counted; /* whose acknowledgement it wants */
	struct sv_cm_event *next;
	uint8_t data[SV_CM_REP_DATA];
};

struct sv_cm_channel {
	struct rdma_event_channel ch;
	struct sv_cm_event *head, **tail;
	/* Threads in sv_get_cm_event(); of a destroyed channel, the last frees it. */
	unsigned int readers;
	bool over;
	struct sv_cm_channel *next; /* sv_cm.channels */
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
	struct ibv_context *verbs;
	struct ibv_pd *pd;
	/* No timer is due before; UINT64_MAX: none. */
	_Atomic uint64_t next_ns;
};

extern struct sv_cm sv_cm;

static inline struct sv_id *sv_id_of(struct rdma_cm_id *id)
{
	return SV_CONTAINER(id, struct sv_id, id);
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

/* ---- cm.c ---- */
struct sv_id *sv_cm_new_id(struct sv_id *listener);
/* Unlinks and frees it; sv_cm.lock held. */
void sv_cm_free_id(struct sv_id *id);
/* Before anything else of connection management is used: 0, or -1 and errno.  Any thread. */
int sv_cm_start(void);
/* The id is at an address, and so on the device. */
void sv_cm_set_device(struct sv_id *id);

/* ---- cm_addr.c ---- */
/* sv_cm.lock held; 0 or an errno value. */
int sv_cm_bind_id(struct sv_id *id, const struct sockaddr *addr);

/* ---- event.c ---- */
/* Queues an event; sv_cm.lock held.  msg: the message that it tells of, or NULL. */
void sv_cm_queue(struct sv_id *id, enum rdma_cm_event_type type, int status,
		 const struct sv_cm_msg *msg);
void sv_cm_drop_events(struct sv_id *id);
/* In synchronous mode: waits for the event of an operation. */
int sv_cm_complete(struct rdma_cm_id *id);

/* ---- sock.c ---- */
/* All with sv_cm.lock held.  0 or an errno value. */
int sv_cm_bind(struct sv_id *id, const struct sockaddr *addr);
int sv_cm_listen(struct sv_id *id);
void sv_cm_start_connect(struct sv_id *id);
int sv_cm_send(struct sv_id *id, const struct sv_cm_msg *msg);
void sv_cm_close(struct sv_id *id);
void sv_cm_set_deadline(struct sv_id *id, uint64_t in_ms);
uint64_t sv_cm_timeout_ms(void);
/* Control thread: what is due; returns when the next is. */
uint64_t sv_cm_run_timers(void);

/* ---- conn.c ---- */
/* All with sv_cm.lock held.  Somebody wants to connect to a listener; the id is new. */
void sv_cm_on_request(struct sv_id *id, struct sv_id *listener, const struct sv_cm_msg *req);
void sv_cm_on_message(struct sv_id *id, const struct sv_cm_msg *msg);
/* The other side is gone. */
void sv_cm_on_end(struct sv_id *id);
void sv_cm_connect_failed(struct sv_id *id, enum rdma_cm_event_type type, int status);
/* Its deadline has come. */
void sv_cm_is_late(struct sv_id *id);

/* ---- cm_qp.c ---- */
/* Transitions of id->qp that connect and accept make by themselves. */
int sv_cm_qp_to_init(struct sv_id *id);
int sv_cm_qp_to_rts(struct sv_id *id);
int sv_cm_qp_to_error(struct sv_id *id);

/* ---- cm_ep.c ---- */
/* A queue pair for a request of the endpoint, if it wants one.  0, or -1 and errno. */
int sv_cm_equip(struct rdma_cm_id *id, const struct sv_id *listener);

#endif
