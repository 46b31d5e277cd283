/* SPDX-License-Identifier: BSD-2-Clause */
/* action.h -- what a member wants done, in this order, before it is told anything else. */
#ifndef SERVER_CLUSTER_MEMBER_ACTION_H
#define SERVER_CLUSTER_MEMBER_ACTION_H

#include <stdbool.h>

#include "common/lease.h"
#include "server/cluster/config/config.h"
#include "server/cluster/member/message.h"

#define MEMBER_ACTIONS_MAX 64u

/*
 * Orders are for all workers, each of which obeys between two messages; when the last has,
 * member_obeyed() is called with the order's number.  Of those for records, records.h says more.
 */
enum member_action_kind {
	MEMBER_READ = 1, /* the configuration */
	MEMBER_WRITE,    /* `config`, as its epoch: one at a time; member_wrote() */
	MEMBER_SEND,     /* `message` to `peer`; with OPEN and BEGIN goes what records.h tells */
	MEMBER_WORDS,    /* the header shows `words` */
	MEMBER_EPOCH,    /* order: records_epoch(), with `role` and `bits`; requests of others than
			    `reign` are refused, and unless it serves all are */
	MEMBER_SEAL,     /* order: records_seal(); requests are refused */
	MEMBER_RESOLVE,  /* order: what the latest BEGIN says, then records_ready() */
	MEMBER_BEGUN_BY, /* records_begun() of `bits`, who is sent what it lacks */
	MEMBER_AWAIT,    /* records_await() of `bits` */
	MEMBER_SERVE,    /* order: lock words are free, records_show(), requests of `reign` */
	MEMBER_HOLD,     /* order: no change is begun; obeyed when none is under way */
	MEMBER_STOP,     /* clients' connections are ended: the reign is over */
	MEMBER_EMPTY,    /* the table and its records; then member_emptied() */
	MEMBER_COPY,     /* each stripe to the joiner `bits`, as that `number`; then
			    member_copied() */
	MEMBER_VISIBLE,  /* records_seen() up to `number` */
};

enum member_role { MEMBER_NONE, MEMBER_BACKUP, MEMBER_PRIMARY };

struct member_action {
	enum member_action_kind kind;
	uint64_t order;          /* of what is obeyed; never 0 */
	uint64_t epoch, reign, number;
	enum member_role role;
	uint32_t bits;           /* members, by the place they have with this one */
	char peer[CONFIG_NAME_BYTES];
	struct member_message message;
	struct lease_words words;
	struct config config;
};

struct member_actions {
	unsigned count;
	struct member_action of[MEMBER_ACTIONS_MAX];
};

#endif
