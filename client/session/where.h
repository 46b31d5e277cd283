/* SPDX-License-Identifier: BSD-2-Clause */
/* where.h -- a cluster's member says where its primary is, and the others. */
#ifndef CLIENT_SESSION_WHERE_H
#define CLIENT_SESSION_WHERE_H

#include <stdbool.h>
#include <stdint.h>

struct kvd_session;

struct where {
	uint64_t epoch; /* 0: nobody has made the cluster */
	uint64_t reign; /* that this member serves in; 0: it does not */
	bool is_known;  /* the primary's address is; */
	bool is_here;   /* it is this one */
	bool is_gone;   /* it is another one, which was lost, or did not answer */
	uint64_t heard_ns; /* when this member had heard of it, at the earliest; 0: it does not */
};

/*
 * Asks the member that the session is connected with, and adds what it says to the client's route;
 * the primary is the present address then, if `goes`.  0 or KVD_E*, with the session's err set.
 */
int where_ask(struct kvd_session *s, bool goes, struct where *where);

/* The primary is there after all: its address is the present one. */
void where_found(struct kvd_session *s);
/* The present address is to be one of another member than this session's. */
void where_forget(struct kvd_session *s);

#endif
