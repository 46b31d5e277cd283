/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/host/loop.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "common/log.h"
#include "common/rdma/link.h"
#include "server/access/gate.h"
#include "server/host/conns.h"
#include "server/host/host.h"
#include "server/host/listener.h"
#include "server/host/rails.h"
#include "server/host/revoke.h"
#include "server/platform/sd_notify.h"
#include "server/host/device_events.h"
#include "server/lock/locker.h"
#include "server/worker/conn.h"
#include "server/worker/context.h"
#include "server/worker/worker.h"

/* The device of a listener was taken away, which waits until kvd has nothing of it.  False: it was
 * the first. */
static bool on_removal(struct host *h, const struct rdma_cm_id *id)
{
	struct server *s = h->servers;
	const struct rail *r = rails_find(s, id->verbs);

	if (r && r->number) {
		rails_lose(h, r->number, "it was taken away");
		return true;
	}
	log_error("%s was taken away: kvd ends", rail_name(&s->rails[0]));
	return false;
}

/* False: kvd ends. */
static bool on_cm_event(struct host *h)
{
	const struct server *s = h->servers;
	struct rdma_cm_event *e;
	bool go_on = true;
	char words[256];

	while (!s->verbs->get_cm_event(h->channel, &e)) {
		/* A listener's is the host, which requests inherit. */
		struct conn *c = e->id->context == h ? NULL : e->id->context;
		switch (e->event) {
		case RDMA_CM_EVENT_CONNECT_REQUEST:
			arrival_asked(h, e);
			continue;
		case RDMA_CM_EVENT_ESTABLISHED:
			break;
		case RDMA_CM_EVENT_DISCONNECTED:
			/* Our side of the handshake, so that the peer needs no time-out. */
			s->verbs->disconnect(e->id);
			/* fall through */
		default:
			if (e->event == RDMA_CM_EVENT_DEVICE_REMOVAL && !c)
				go_on &= on_removal(h, e->id);
			log_debug("%s: %s", c ? conn_peer(c) : "listener",
				  link_event_words(e, words, sizeof words));
			if (c && e->event != RDMA_CM_EVENT_TIMEWAIT_EXIT)
				conn_drop(c, "disconnected by the peer");
			break;
		}
		s->verbs->ack_cm_event(e);
	}
	return go_on;
}

/* ----------------------------------------------------------- start and run */

int listen_start(struct host *h, struct err *err)
{
	h->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (h->done_fd < 0)
		return err_set_errno(err, -1, errno, "can't set up event descriptors");
	return listeners_open(h, err);
}

/* SIGHUP: the log's level, and the users. */
static void reload(struct host *h)
{
	struct server *s = h->servers;
	static const char *const names[] = { "error", "warn", "info", "debug" };
	struct options fresh;
	struct err err;

	if (h->read_options(&fresh, &err)) {
		log_error("%s: the log's level stays %s", err.text, names[s->options->log_level]);
	} else if (fresh.log_level != s->options->log_level) {
		/* Told at the wider of the two. */
		if (fresh.log_level > s->options->log_level)
			log_set_level((enum log_level)fresh.log_level);
		log_info("the log's level is %s now", names[fresh.log_level]);
		log_set_level((enum log_level)fresh.log_level);
		s->options->log_level = fresh.log_level;
	}
	for (unsigned i = 0; i < h->server_count; i++)
		revoke_reload(&h->servers[i]);
}

static bool stop_asked(struct host *h)
{
	struct signalfd_siginfo info;

	if (read(h->signal_fd, &info, sizeof info) != (ssize_t)sizeof info)
		return false;
	if (info.ssi_signo == SIGHUP) {
		reload(h);
		return false;
	}
	log_info("%s: finishing what was accepted", strsignal((int)info.ssi_signo));
	notify_manager("STOPPING=1\nSTATUS=Finishing what was accepted\n");
	return true;
}

/* The users' files that were touched. */
static void look_at_users(struct host *h, const struct pollfd *fds)
{
	for (unsigned i = 0; i < h->server_count; i++)
		if (fds[i].revents && gate_touched(h->servers[i].gate))
			revoke_reload(&h->servers[i]);
}

int listen_run(struct host *h)
{
	struct pollfd fds[4 + 1 + NAMESPACES_MAX] = {
		{ .fd = h->channel->fd, .events = POLLIN },
		{ .fd = watch_fd(h->watch), .events = POLLIN },
		{ .fd = h->done_fd, .events = POLLIN },
		{ .fd = h->signal_fd, .events = POLLIN },
	};

	for (unsigned i = 0; i < h->server_count; i++)
		fds[4 + i] = (struct pollfd){ .fd = gate_fd(h->servers[i].gate), .events = POLLIN };
	for (;;) {
		int wait_ms = conns_count_pending(h) ? (int)(LOOK_NS / 1000000) : 1000;
		int n = poll(fds, 4 + h->server_count, wait_ms);
		if (n < 0 && errno != EINTR) {
			log_error("poll: %s", strerror(errno));
			return -1;
		}
		burial_look(h);
		if (n <= 0)
			continue;
		if (fds[0].revents && !on_cm_event(h))
			return -1;
		if (fds[1].revents)
			return -1; /* it said why */
		listeners_close_lost(h);
		if (fds[2].revents)
			burial_all(h);
		if (fds[3].revents && stop_asked(h))
			return 0;
		look_at_users(h, fds + 4);
	}
}

static void stop_server(struct server *s)
{
	for (unsigned i = 0; i < s->worker_count; i++)
		worker_stop(s->worker[i]);
	while (s->conns)
		burial_one(s->conns);
	locker_delete(&s->locker);
}

void listen_stop(struct host *h)
{
	const struct verbs *v = h->servers->verbs;

	listeners_close(h);
	arrivals_refuse(h, true);
	for (unsigned i = 0; i < h->server_count; i++)
		stop_server(&h->servers[i]);
	if (h->channel)
		v->destroy_event_channel(h->channel);
	h->channel = NULL;
}
