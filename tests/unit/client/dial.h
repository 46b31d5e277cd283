/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dial.h -- a session of tests/lib/end.h that may connect: a device and rdma_cm whose steps a test
 * can let fail one by one, and up to DIAL_PLACES addresses, at each of which a made-up kvd answers.
 */
#ifndef TESTS_UNIT_CLIENT_DIAL_H
#define TESTS_UNIT_CLIENT_DIAL_H

#include "tests/lib/end.h"

#define DIAL_PLACES 4u
#define DIAL_PORT 7000u /* of the first address; the next ones follow */
#define DIAL_EVENTS 3u  /* of a connection: the address, the route, the answer */

enum dial_step {
	DIAL_NONE,
	DIAL_CHANNEL,
	DIAL_ID,
	DIAL_ADDR,
	DIAL_ROUTE,
	DIAL_DOMAIN,
	DIAL_COMP,
	DIAL_CQ,
	DIAL_MEMORY,
	DIAL_PAGE,
	DIAL_QP,
	DIAL_INIT,
	DIAL_RECEIVE,
	DIAL_CONNECT,
	DIAL_GONE, /* when it is to be RTR */
	DIAL_RTR,
	DIAL_RTS,
	DIAL_ESTABLISH,
};

struct dial_place {
	bool is_dead; /* nothing listens there */
	bool is_mute; /* it doesn't answer */
	struct wire_welcome welcome;
	const char *where; /* what it says of the cluster; a primary's: of one address */
	uint64_t epoch;
};

struct dial_mr {
	void *addr;
	size_t bytes;
	int access;
};

struct dial {
	struct end *end;
	struct verbs verbs;
	struct dial_place place[DIAL_PLACES];

	enum dial_step fails; /* this step does, with ENXIO */
	enum rdma_cm_event_type event[DIAL_EVENTS];
	int status[DIAL_EVENTS];
	struct wire_accept accept; /* what comes with the last one */
	unsigned accept_bytes;     /* so many of it; 0: nothing */
	bool is_hushed;            /* no event comes */
	int event_errno;           /* of the first `event_failures` looks for an event */
	unsigned event_failures;
	struct wire_reply hello;   /* the answer to a hello */
	unsigned welcome_bytes;    /* so many of it */
	uint32_t heard_us;         /* with that: since when it has not heard of it */
	unsigned where_status;     /* of the answer to where the primary is */
	bool is_deaf;              /* it answers nothing else, and else as that says: */
	void (*answer)(struct end *end, const struct wire_request *request);

	/* What was asked for. */
	unsigned port[64], dials;  /* of the addresses, in turn */
	uint64_t dialled_ns[64];   /* and when */
	int limit_ms[64];          /* how long it may take */
	int addr_ms, route_ms;     /* the last time-outs */
	unsigned looks;            /* for events */
	unsigned acks;             /* of events */
	enum rdma_port_space space;
	int cqe, vector;
	struct dial_mr memory, page;
	struct ibv_qp_init_attr qp;
	struct ibv_qp_attr state[IBV_QPS_RTS + 1]; /* the changes to it */
	unsigned receives;
	struct rdma_conn_param param;
	struct wire_connect said;
	struct wire_request greeting;
	uint8_t behind[256]; /* what stood behind that */
	unsigned greetings, wheres;
	unsigned established;
	int open; /* objects that were made, and not given back; without domains and registrations */
	int registered, domains;
};

extern struct dial dial;

/* `places` addresses, of kvds with the instances 100, 101, ...; the session is not connected. */
void dial_new(unsigned places);
void dial_delete(void);
/* One address; its session, whose calls take up to five seconds, and which is not connected. */
struct kvd_session *dial_session(void);
/* The same, connected; `answer` is the kvd's. */
void dial_connect(void (*answer)(struct end *end, const struct wire_request *request));
int dial_tear_down(void **state);
/* All of one cluster, whose first is primary of reign 3. */
void dial_as_cluster(void);
/* The last time-outs, counts and so on are forgotten. */
void dial_forget(void);

#endif
