/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A session in an event loop: one descriptor for what the completion queue and the
 * connection have to tell, the same over reconnections.
 */
#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "client/op/session.h"

/* A descriptor that is closed leaves the set by itself. */
int event_attach(struct kvd_session *s)
{
	int fds[] = { s->comp->fd, s->channel->fd };

	if (s->event_fd < 0)
		return 0;
	for (unsigned i = 0; i < sizeof fds / sizeof fds[0]; i++) {
		struct epoll_event e = { .events = EPOLLIN };
		if (epoll_ctl(s->event_fd, EPOLL_CTL_ADD, fds[i], &e) && errno != EEXIST)
			return err_set_errno(&s->err, KVD_EDEVICE, errno,
					     "can't watch the connection's descriptors");
	}
	return 0;
}

void event_delete(struct kvd_session *s)
{
	if (s->event_fd >= 0)
		close(s->event_fd);
	s->event_fd = -1;
}

int event_fd_of(struct kvd_session *s)
{
	if (s->event_fd >= 0)
		return s->event_fd;
	s->event_fd = epoll_create1(EPOLL_CLOEXEC);
	if (s->event_fd < 0)
		return err_set_errno(&s->err, KVD_EDEVICE, errno, "can't make a descriptor");
	int rc = event_attach(s);
	if (rc) {
		event_delete(s);
		return rc;
	}
	return s->event_fd;
}
