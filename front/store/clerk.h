/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * clerk.h -- what takes kvd long, or is rare: done by a thread with a session of its own, one
 * after the other.
 *
 * An errand belongs to the clerk from clerk_send() until it is opened as a letter of its
 * loop's mailbox.
 */
#ifndef FRONT_STORE_CLERK_H
#define FRONT_STORE_CLERK_H

#include <stdbool.h>

#include "client/kvd.h"
#include "common/err.h"
#include "front/store/mailbox.h"

#define CLERK_ERRANDS_MAX 1024u

struct errand {
	struct letter letter; /* first; its open() gets the result */
	struct errand *next;
	struct mailbox *box;
	/* The clerk's thread; the result is put into the errand. */
	int (*run)(kvd_session *session, struct errand *errand);
	int result;
	struct err why; /* where the result is an error */
};

struct clerk;

int clerk_new(kvd_client *client, struct clerk **clerk, struct err *err);
/* Waits for the errand that is under way.  The others fail.  Takes NULL. */
void clerk_delete(struct clerk **clerk);

/* Any thread; false: too many wait already. */
bool clerk_send(struct clerk *clerk, struct errand *errand);

#endif
