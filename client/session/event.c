/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/session/event.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "client/op/engine.h"

static int watch(struct engine *e, int fd)
{
	struct epoll_event readable = { .events = EPOLLIN };

	if (epoll_ctl(e->event_fd, EPOLL_CTL_ADD, fd, &readable) && errno != EEXIST)
		return err_set_errno(&e->health.err, KVD_EDEVICE, errno,
				     "can't watch the connection's descriptors");
	return 0;
}

/* A descriptor that is closed leaves the set by itself. */
int event_attach(struct engine *e)
{
	if (e->event_fd < 0)
		return 0;
	int rc = watch(e, e->comp->fd);
	return rc ? rc : watch(e, e->channel->fd);
}

void event_delete(struct engine *e)
{
	if (e->event_fd >= 0)
		close(e->event_fd);
	if (e->timer_fd >= 0)
		close(e->timer_fd);
	e->event_fd = e->timer_fd = -1;
	e->timer_ns = 0;
}

int event_fd_of(struct engine *e)
{
	if (e->event_fd >= 0)
		return e->event_fd;
	e->event_fd = epoll_create1(EPOLL_CLOEXEC);
	e->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	int rc = e->event_fd < 0 || e->timer_fd < 0
			 ? err_set_errno(&e->health.err, KVD_EDEVICE, errno, "can't make a descriptor")
			 : watch(e, e->timer_fd);
	if (!rc)
		rc = event_attach(e);
	if (rc) {
		event_delete(e);
		return rc;
	}
	return e->event_fd;
}
