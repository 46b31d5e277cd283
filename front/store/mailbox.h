/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mailbox.h -- what other threads hand to an event loop, in order.
 *
 * Any thread sends; the loop waits for mailbox_fd() and opens what is there.  A letter
 * belongs to the mailbox from the sending to its open().
 */
#ifndef FRONT_STORE_MAILBOX_H
#define FRONT_STORE_MAILBOX_H

#include <pthread.h>

#include "common/err.h"

struct letter {
	struct letter *next;
	void (*open)(struct letter *letter); /* the loop's thread */
};

struct mailbox {
	pthread_mutex_t lock;
	struct letter *first, **last; /* under the lock */
	int fd;                       /* eventfd */
};

int mailbox_init(struct mailbox *box, struct err *err);
/* Nobody sends any more, and what was not opened stays its owner's. */
void mailbox_destroy(struct mailbox *box);

void mailbox_send(struct mailbox *box, struct letter *letter);
/* Wakes the loop without a letter. */
void mailbox_wake(struct mailbox *box);
/* Opens all. */
void mailbox_open(struct mailbox *box);

#endif
