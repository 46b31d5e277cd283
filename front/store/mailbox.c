/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/store/mailbox.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

int mailbox_init(struct mailbox *box, struct err *err)
{
	box->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (box->fd < 0)
		return err_set_errno(err, -1, errno, "can't make an eventfd");
	pthread_mutex_init(&box->lock, NULL);
	box->first = NULL;
	box->last = &box->first;
	return 0;
}

void mailbox_destroy(struct mailbox *box)
{
	close(box->fd);
	pthread_mutex_destroy(&box->lock);
}

void mailbox_wake(struct mailbox *box)
{
	eventfd_write(box->fd, 1); /* full: the loop will wake all the same */
}

void mailbox_send(struct mailbox *box, struct letter *letter)
{
	letter->next = NULL;
	pthread_mutex_lock(&box->lock);
	*box->last = letter;
	box->last = &letter->next;
	pthread_mutex_unlock(&box->lock);
	mailbox_wake(box);
}

void mailbox_open(struct mailbox *box)
{
	eventfd_t count;

	eventfd_read(box->fd, &count);
	pthread_mutex_lock(&box->lock);
	struct letter *letter = box->first;
	box->first = NULL;
	box->last = &box->first;
	pthread_mutex_unlock(&box->lock);
	while (letter) {
		struct letter *next = letter->next;
		letter->open(letter);
		letter = next;
	}
}
