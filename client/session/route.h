/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * route.h -- where kvd may be: the addresses that the user gave, and those of a cluster's members.
 *
 * A client's; any thread.  One of them is the present one, where sessions connect: it moves on
 * when nobody answers there, and to a cluster's primary when that is learnt.
 */
#ifndef CLIENT_SESSION_ROUTE_H
#define CLIENT_SESSION_ROUTE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/addr.h"

#define ROUTE_MAX 48u /* of a cluster, eight members with four each */
#define ROUTE_SUFFIX_BYTES 40u

/* What is known of an address, where sessions are dealt out. */
struct place {
	uint64_t instance; /* of the kvd that answered there last; 0: none did */
	uint64_t again_ns; /* no session is sent there before */
	unsigned misses;   /* in a row */
	unsigned sessions; /* that belong there */
};

struct route {
	pthread_mutex_t lock;
	struct addr of[ROUTE_MAX]; /* texts with the namespace */
	struct place place[ROUTE_MAX]; /* of each */
	unsigned count, at;
	bool is_list; /* of addresses: all are kept */
	bool deals;   /* sessions out over those of one kvd */
	unsigned draws; /* between addresses with as many sessions */
	uint64_t instance; /* of that kvd; 0: none was met, or a member of a cluster */
	uint64_t epoch; /* of what was learnt; 0: nothing was */
	unsigned primary; /* of that epoch: the first of its addresses; */
	uint64_t primaries; /* a bit for each of them */
	bool is_gone;     /* it was lost, or did not answer, and is not to be tried again yet */
	char suffix[ROUTE_SUFFIX_BYTES]; /* "/NAMESPACE" */
};

void route_init(struct route *r);
void route_fini(struct route *r);
/* False: there are too many. */
bool route_add(struct route *r, const struct addr *addr);

unsigned route_count(struct route *r);
/*
 * Where the primary has several addresses and is the present one: that which the session belongs to
 * (*own, as below), or where somebody answered.
 */
void route_present(struct route *r, unsigned *own, uint64_t now_ns, struct addr *addr);
/*
 * Nobody answered there: another address of the same primary is the present one, or else the next
 * one, unless another thread moved on.  A primary none of whose addresses answered is gone then, until
 * another member does not answer, or a later epoch is learnt.
 */
void route_failed(struct route *r, const struct addr *addr, uint64_t now_ns);
/* The same, for all addresses of that member. */
void route_forget(struct route *r, const struct addr *addr);
bool route_is_primary(struct route *r, const struct addr *addr);
bool route_is_gone(struct route *r);
/* It is not: it is the present one. */
void route_found(struct route *r);
/* kvd answered there, with this instance, or as a member of a cluster, with 0: of a name with several
 * addresses the others are forgotten. */
void route_settled(struct route *r, const struct addr *addr, uint64_t instance);
/*
 * What WIRE_WHERE said, which is changed: members that are new are added; the primary is the present
 * one, if `goes` and it is not gone.  The first `ports` lines are the primary's; 0: one is.  False:
 * the primary is not known, or this is older than what is.
 */
bool route_learn(struct route *r, uint64_t epoch, char *lines, unsigned ports, bool goes);

/* ------------------------------------------------------------ dealing out */
/*
 * A list of addresses may be of one kvd, which the number of its start tells (the instance).  Its
 * sessions are dealt out over them; one whose connection is lost goes to another one.  So of a
 * cluster's primary with several addresses, while it is the present one.
 */
struct goal {
	struct addr addr;
	uint64_t instance; /* who has to answer there; 0: that is known */
};

#define ROUTE_NOWHERE ROUTE_MAX

/* Whether there may be another address of the same kvd. */
bool route_has_others(struct route *r);
/*
 * *own: the address that a session belongs to, ROUTE_NOWHERE at first; where it is another kvd's the
 * session gets another one.  The goal is that address.  False: nobody answered there just now, or
 * nothing is dealt out.
 */
bool route_deal(struct route *r, unsigned *own, uint64_t now_ns, struct goal *goal);
/* A session that belongs nowhere belongs where it is now. */
void route_stay(struct route *r, unsigned *own, const struct addr *there);
/* It is no more. */
void route_undeal(struct route *r, unsigned *own);
/* Whether it is where it belongs, if anywhere. */
bool route_is_home(struct route *r, unsigned own, const struct addr *there);
/* Where a session goes that was there; false: every other address is another kvd's, or nobody
 * answered there just now. */
bool route_other(struct route *r, const struct addr *there, uint64_t now_ns, struct goal *goal);
/* kvd answered there with this instance: false if it is not that of the goal. */
bool route_met(struct route *r, const struct goal *goal, uint64_t instance, uint64_t now_ns);
/* Nobody answered there: no session is sent there for a while. */
void route_missed(struct route *r, const struct addr *addr, uint64_t now_ns);

#endif
