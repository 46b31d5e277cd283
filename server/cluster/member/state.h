/* SPDX-License-Identifier: BSD-2-Clause */
/* state.h -- what a member knows.  Its owner and tests read it; member.h and its like change it. */
#ifndef SERVER_CLUSTER_MEMBER_STATE_H
#define SERVER_CLUSTER_MEMBER_STATE_H

#include "server/cluster/config/config.h"
#include "server/cluster/lease/promise.h"
#include "server/cluster/lease/round.h"
#include "server/cluster/member/action.h"

/* So long: then the other one is taken for gone. */
#define MEMBER_SILENCE_NS 200000000ull
/* And so much longer before a primary leaves out all others, if there are several: then it is more
 * likely cut off itself, and the others may go on without it. */
#define MEMBER_ALONE_NS 1000000000ull
#define MEMBER_CONNECT_NS 1000000000ull /* to connect at first */
#define MEMBER_RETRY_NS 50000000ull    /* between writes of unknown outcome */
#define MEMBER_ASK_NS 10000000ull      /* between questions, at first */
#define MEMBER_ASK_NS_MAX 500000000ull /* and later on: an answer may take long */
#define MEMBER_JOIN_NS 1000000000ull   /* a joiner without a heartbeat gives up */
/* Before one that was unfit is copied to again: at first, and at most. */
#define MEMBER_HEAL_NS 3000000000ull
#define MEMBER_HEAL_NS_MAX 300000000000ull
#define MEMBER_PEERS_MAX (CONFIG_MEMBERS_MAX + 1)

enum member_state {
	MEMBER_OUT,
	MEMBER_JOINING,
	MEMBER_BACKING, /* BACKUP */
	MEMBER_SEALED,
	MEMBER_TAKING,
	MEMBER_SERVING,
	MEMBER_LEAVING,
};

/* One of the others of the set, or the joiner: its place is its bit. */
struct member_peer {
	struct config_member id; /* no name: none */
	uint64_t heard_ns;
	bool is_gone;  /* its connection is broken */
	bool is_begun;     /* in this epoch */
	uint64_t question; /* that it was told the beginning for */
};

struct member {
	struct config_member self;
	uint64_t life;
	enum member_state state;
	struct config known; /* epoch 0: none yet */
	struct member_peer peers[MEMBER_PEERS_MAX];
	struct promise promise;
	struct round round;
	bool is_reached;  /* the agreement can be asked */
	bool is_cut;      /* its port is down: nobody else is to blame */
	bool suspects, is_answered; /* the primary; and the agreement has answered since */
	bool is_unfit;    /* it lacks a change, or its disk failed: it takes over nothing */
	uint64_t heal_ns; /* from then on it may be copied to; UINT64_MAX: never */
	uint64_t ailing_ns; /* how long it waited for that the last time; 0: it was fit */
	bool is_forced;   /* out of the set, it is to be primary: it is SEALED */
	uint64_t polled_ns; /* what had come by then was told; 0: not known */
	uint64_t numbers; /* of orders, questions and copies; from `life` on, so those of no other */

	/* A member's */
	uint64_t heard_ns; /* its primary */
	bool is_gone;      /* the connection to it is broken */
	uint64_t asked, asked_ns; /* the latest question, OPEN, until it is answered; 0: none */
	unsigned asks;     /* of this epoch; an answer to an earlier one is none */
	uint64_t begun;    /* the one whose answer is followed */
	bool is_ready;     /* it said BEGUN */
	bool is_next;      /* its primary is about to hand over to it */

	/* Orders that are not obeyed yet; 0: none. */
	uint64_t epoch_order, seal_order, resolve_order, hold_order, serve_order;

	bool is_writing;   /* an answer is awaited */
	uint64_t write_ns; /* no other write before that */

	/* A primary's */
	uint64_t reign; /* 0: none */
	uint64_t wait_ns; /* until which its promise lasts, with this clock; 0: handed */
	bool is_settled;
	char wanted[CONFIG_NAME_BYTES]; /* is to join, or to be primary; empty: nobody */
	char unwanted[CONFIG_NAME_BYTES]; /* is to leave the set */
	uint64_t wanted_ns, copy;
	int joiner;     /* its place; -1: none */
	bool is_copied;
	bool is_naming;    /* what names the joiner was sent: it is not given up */
	bool is_handing; /* what names another was sent: it answers nothing */
	bool is_held;    /* begins no change */
};

#endif
