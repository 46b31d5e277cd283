/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/session/event.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "client/op/engine.h"

/* A descriptor that is closed leaves the set by itself. */
int event_attach(struct engine *e)
{
	int fds[] = { e->comp->fd, e->channel->fd };

	if (e->event_fd < 0)
		return 0;
	for (unsigned i = 0; i < sizeof fds / sizeof fds[0]; i++) {
		struct epoll_event readable = { .events = EPOLLIN };
		if (epoll_ctl(e->event_fd, EPOLL_CTL_ADD, fds[i], &readable) && errno != EEXIST)
			return err_set_errno(&e->health.err, KVD_EDEVICE, errno,
					     "can't watch the connection's descriptors");
	}
	return 0;
}

void event_delete(struct engine *e)
{
	if (e->event_fd >= 0)
		close(e->event_fd);
	e->event_fd = -1;
}

int event_fd_of(struct engine *e)
{
	if (e->event_fd >= 0)
		return e->event_fd;
	e->event_fd = epoll_create1(EPOLL_CLOEXEC);
	if (e->event_fd < 0)
		return err_set_errno(&e->health.err, KVD_EDEVICE, errno, "can't make a descriptor");
	int rc = event_attach(e);
	if (rc) {
		event_delete(e);
		return rc;
	}
	return e->event_fd;
}
