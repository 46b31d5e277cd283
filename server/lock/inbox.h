/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * inbox.h -- what other threads tell the locker, first come, first served.
 *
 * Any thread appends, without waiting; the locker takes all that there is.
 */
#ifndef SERVER_LOCK_INBOX_H
#define SERVER_LOCK_INBOX_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/layout.h"
#include "common/wire.h"
#include "server/lock/holder.h"

struct conn;

enum message_kind { MSG_DEAD, MSG_WAIT, MSG_UNLOCK, MSG_WATCH, MSG_FORGET, MSG_HELD };

struct message {
	struct message *next;
	enum message_kind kind;
	struct conn *conn;
	uint64_t connection_id;
	uint64_t stripe, token;
	struct wire_request request;
	uint64_t look;
	struct layout_held held[LAYOUT_HELD_MAX];
};

/* Of one connection: whom words name, and what is said at its end: MSG_FORGET, and when that
 * is through, MSG_DEAD. */
struct locker_note {
	struct message message;
	struct holder holder;
};

struct inbox {
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct message *first, **end;
	unsigned copies; /* of inbox_post() that were not taken */
	bool closed;
};

#define INBOX_COPIES_MAX 65536u

void inbox_init(struct inbox *inbox);
void inbox_fini(struct inbox *inbox);

/* The message is the inbox's until it was taken. */
void inbox_append(struct inbox *inbox, struct message *message);
/* A copy, to be freed by who takes it.  False: no memory, or too many; for what is asked for
 * again, or can be refused. */
bool inbox_post(struct inbox *inbox, const struct message *message);

/* All there is, waiting so long for the first; NULL: none came. */
struct message *inbox_take(struct inbox *inbox, unsigned wait_ms);
/* What is there is still to be taken. */
void inbox_close(struct inbox *inbox);
/* And it was. */
bool inbox_is_closed(struct inbox *inbox);

#endif
