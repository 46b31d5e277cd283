/* SPDX-License-Identifier: BSD-2-Clause */
/* message.h -- what the clusters' threads of two members say to each other. */
#ifndef SERVER_CLUSTER_MEMBER_MESSAGE_H
#define SERVER_CLUSTER_MEMBER_MESSAGE_H

#include <stdint.h>

enum member_message_kind {
	MEMBER_HEARTBEAT = 1, /* primary; number: its A, 0: no promise is asked for */
	MEMBER_PROMISE,       /* member; number: that A, 0: none is given, MEMBER_REFUSED: it has sealed */
	MEMBER_OPEN,          /* member; number: of this question; with what it has open */
	MEMBER_BEGIN,         /* primary; number: of that question; with what is to be done */
	MEMBER_BEGUN,         /* member; number: of that question: it takes records */
	MEMBER_JOIN,          /* primary, to who is to be copied to; number: of this copy */
	MEMBER_JOINED,        /* from it; number: of that copy; `from` was drawn for it */
};

/* The number of a PROMISE of who has sealed. */
#define MEMBER_REFUSED UINT64_MAX

struct member_message {
	enum member_message_kind kind;
	uint64_t epoch;    /* that its sender knew */
	uint64_t from, to; /* incarnations; `to` of a JOIN: 0 */
	uint64_t number;
	uint64_t visible;  /* HEARTBEAT: all records up to this number are; 0: not known */
	uint64_t next;     /* HEARTBEAT: the incarnation that is to be primary; 0: none */
};

#endif
