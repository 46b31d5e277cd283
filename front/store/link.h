/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * link.h -- a session of libkvd in an event loop, which never waits for kvd.
 *
 * Happy path: a ticket is sent at once, and link_poll() tells of its end.  Where as many are
 * in flight as the session takes, it waits in the link's queue.
 *
 * The connection is lost: what was in flight ends with its error; a GET goes back to the
 * queue.  The session goes to a thread of its own, the mender, which connects again and may
 * wait for that.  What is sent meanwhile stays in the queue until the mender has failed
 * once; from then on, until it succeeds, all is refused at once, with the reason.  A change
 * is never sent twice.
 *
 * All but the mender is of the loop's thread.
 */
#ifndef FRONT_STORE_LINK_H
#define FRONT_STORE_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "client/kvd.h"
#include "common/err.h"
#include "front/store/mailbox.h"

struct ticket {
	struct ticket *next;
	/* Submits it with itself as the tag: KVD_OK, KVD_EBUSY or an error. */
	int (*send)(kvd_session *session, struct ticket *ticket);
	/* The end.  `why`: a sentence where the result is an error. */
	void (*done)(struct ticket *ticket, const struct kvd_completion *end, const char *why);
	uint64_t deadline_ns; /* it is not sent later */
	bool is_get;          /* may be sent again */
};

struct link;

/* Connects in the background.  `box` is woken when there is something for link_poll(). */
int link_new(kvd_client *client, struct mailbox *box, struct link **link, struct err *err);
/* Waits for the mender: the client's time-out at the most.  Tickets are forgotten. */
void link_delete(struct link **link);

/* May call done(). */
void link_send(struct link *link, struct ticket *ticket, uint64_t now_ns);

/* Takes what is complete, sends what waits; how many ended. */
unsigned link_poll(struct link *link, uint64_t now_ns);

/* Asks for an event at link_fd(); true: poll at once instead. */
bool link_arm(struct link *link);

/* To wait for; -1: there was no connection yet.  It stays the same once it is there. */
int link_fd(const struct link *link);
/* Its descriptor was readable. */
void link_readable(struct link *link);

bool link_is_up(const struct link *link);
unsigned link_in_flight(const struct link *link);
/* Those that were lost so far. */
uint64_t link_losses(const struct link *link);
/* Adds its READs and doorbells so far; false: they are not known now. */
bool link_count(const struct link *link, uint64_t *reads, uint64_t *doorbells);

#endif
