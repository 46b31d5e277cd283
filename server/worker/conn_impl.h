/* SPDX-License-Identifier: BSD-2-Clause */
/* conn_impl.h -- a connection, as its worker and the main thread see it. */
#ifndef SERVER_WORKER_CONN_IMPL_H
#define SERVER_WORKER_CONN_IMPL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/addr.h"
#include "server/access/gate.h"
#include "server/worker/request/pinned.h"
#include "server/worker/sendq.h"

enum conn_state {
	CONN_NEW,     /* accepted; has said nothing */
	CONN_DENIED,  /* said hello, and proved nothing: to be told, and closed */
	CONN_READY,   /* said hello and has its rights */
	CONN_CLOSING, /* queue pair in error, draining */
};

struct conn {
	struct server *server;
	struct commands *commands; /* its worker's, as is conn_set */
	struct conn_set *set;
	struct rdma_cm_id *id;
	struct ibv_qp *qp; /* NULL: destroyed */
	uint32_t qp_num;
	struct addr peer;
	unsigned listener; /* of the host's, by which it came */
	uint64_t number; /* of all that arrived: for the log */
	uint32_t credits;
	uint32_t depth; /* of its send queue: places in the completion queue that it may need */
	uint64_t since_ns;
	struct conn *next; /* of the list that it is in */
	struct conn *all_next, **all_prev; /* main thread */
	struct handshake handshake;

	/* Set by its worker; the main thread looks. */
	atomic_bool said_hello;     /* set before it gets any right */
	_Atomic uint64_t denied_ns; /* when its hello was found to prove nothing */
	/* Of its tokens and fates: as sendq.connection_id; 0: it said no good hello. */
	_Atomic uint64_t connection_id;
	enum conn_state state; /* stored by __atomic_store_n */

	/* Set by the main thread. */
	bool denial_told;
	_Atomic(const char *) drop_reason; /* set before `disconnected` */
	atomic_bool disconnected; /* partner: drain_collect */
	atomic_bool last_wqe;
	atomic_bool is_cut_off; /* its queue pair is destroyed; partner: drain_collect */
	struct locker_note *lock_note; /* of its end; NULL: there is no locker */
	/* Set by the locker: it does not know the connection any more. */
	atomic_bool lock_idle;

	/* Worker only, from here. */
	struct sendq sendq;
	bool draining; /* closing, and what it left with others is forgotten */
	bool is_marked;    /* the marker is posted, or could not be */
	bool is_flushed;   /* nothing of it is in the completion queue any more */
	bool is_given_up;  /* its queue pair is to be destroyed as it is */
	uint64_t flushed_at; /* where the marker could not be posted: completions of the worker */
	uint32_t hello_id;
	enum wire_status denial; /* of its hello; set before denied_ns */
	uint64_t close_ns; /* since when it closes */
	struct pinned pinned; /* of a WIRE_GET */
	uint64_t held_addr;       /* the tokens that the client says it holds */
	uint32_t held_rkey;
	bool reads_held;
	bool takes_notices;
	uint64_t look; /* for which it is read */
	struct conn *map_next;    /* by queue pair number */
	struct conn *closing_next;
	struct conn *set_next, **set_prev;
};

#endif
