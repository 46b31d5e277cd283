/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/host/device_events.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/log.h"
#include "common/log_limit.h"
#include "server/host/device_event.h"
#include "server/host/host.h"
#include "server/host/rails.h"
#include "server/worker/conn.h"
#include "server/worker/context.h"
#include "server/worker/rx.h"
#include "server/worker/worker.h"

/* A receive queue is watched again so long after it ran low. */
#define AGAIN_MS 1000
/* Of its receives: fewer are low. */
#define LOW_PART 8u

struct watch {
	struct host *host;
	struct server *server; /* the first: all are on its devices */
	pthread_t thread;
	int stop_fd; /* the thread is to end */
	int ruin_fd; /* kvd is */
	bool rearm; /* a receive queue is not watched */
	bool low[(1 + NAMESPACES_MAX) * LAYOUT_WORKERS_MAX];
};

/* Of all namespaces. */
static const struct worker_queues *queues_at(const struct watch *t, unsigned number)
{
	const struct server *s = t->host->servers;

	while (number >= s->worker_first + s->worker_count)
		s++;
	return worker_queues(s->worker[number - s->worker_first]);
}

static void arm(struct watch *t, const struct worker_queues *q)
{
	struct ibv_srq_attr attr = { .srq_limit = q->rx_count / LOW_PART };
	int rc = t->server->verbs->modify_srq(q->srq, &attr, IBV_SRQ_LIMIT);

	/* What a device has not got is only less to tell. */
	if (rc)
		log_debug("worker %u's receive queue is not watched: %s", q->number, strerror(rc));
	t->low[q->number] = false;
}

static void arm_low(struct watch *t)
{
	for (unsigned i = 0; i < t->host->worker_count; i++)
		if (t->low[i])
			arm(t, queues_at(t, i));
	t->rearm = false;
}

/* The connection stays until the event is acknowledged: its queue pair's destruction
 * waits for that. */
static void on_qp(const struct ibv_async_event *e, enum event_action action,
		  const char *words)
{
	struct conn *c = e->element.qp->qp_context;

	if (!c) {
		log_error("kvd's own queue pair, for locks: %s (%s)", words,
			  ibv_event_type_str(e->event_type));
	} else if (action == EVENT_DRAIN) {
		conn_drained(c);
	} else {
		log_limited(LOG_LEVEL_WARN, words, "%s: %s (%s)", conn_peer(c), words,
			    ibv_event_type_str(e->event_type));
		conn_drop(c, words);
	}
}

static void on_low(struct watch *t, const struct ibv_async_event *e, const char *words)
{
	unsigned number = worker_queues(e->element.srq->srq_context)->number;

	log_warn("worker %u: %s (%s)", number, words, ibv_event_type_str(e->event_type));
	t->low[number] = t->rearm = true;
}

static bool of_port(enum ibv_event_type type)
{
	return type == IBV_EVENT_PORT_ACTIVE || type == IBV_EVENT_PORT_ERR ||
	       type == IBV_EVENT_GID_CHANGE || type == IBV_EVENT_LID_CHANGE ||
	       type == IBV_EVENT_PKEY_CHANGE || type == IBV_EVENT_SM_CHANGE ||
	       type == IBV_EVENT_CLIENT_REREGISTER;
}

/* Those that came by the rail. */
static void tell_clients(struct watch *t, const struct rail *r, enum wire_notice notice)
{
	const struct command c = { .kind = CMD_NOTICE, .notice = notice };

	for (unsigned i = 0; i < t->host->server_count; i++) {
		const struct server *s = &t->host->servers[i];
		for (unsigned k = 0; k < s->worker_count; k++)
			if (worker_rail(s->worker[k])->number == r->number)
				commands_post(worker_commands(s->worker[k]), &c);
	}
}

/* Of the device: in the log, and to clients as far as there is a way to them. */
static void tell(struct watch *t, const struct rail *r, const struct ibv_async_event *e,
		 const char *words)
{
	const char *name = rail_name(r);
	const char *type = ibv_event_type_str(e->event_type);

	if (!of_port(e->event_type)) {
		log_warn("%s: %s (%s)", name, words, type);
		return;
	}
	log_warn("%s port %d: %s (%s)", name, e->element.port_num, words, type);
	if (e->event_type == IBV_EVENT_PORT_ERR)
		tell_clients(t, r, WIRE_NOTICE_PORT_DOWN);
	else if (e->event_type == IBV_EVENT_PORT_ACTIVE)
		tell_clients(t, r, WIRE_NOTICE_PORT_UP);
}

static void ruin(struct watch *t, const struct rail *r, const char *words)
{
	if (r->number) {
		rails_lose(t->host, r->number, words);
		return;
	}
	log_error("%s is of no use any more: kvd ends with status %d", rail_name(r), EVENT_STATUS);
	for (unsigned i = 0; i < t->server->rail_count; i++)
		tell_clients(t, &t->server->rails[i], WIRE_NOTICE_DEVICE);
	if (eventfd_write(t->ruin_fd, 1))
		log_error("can't wake the main thread: %s", strerror(errno));
}

static void take_events(struct watch *t, const struct rail *r)
{
	struct server *s = t->server;
	struct ibv_async_event e;
	const char *words;

	while (!s->verbs->get_async_event(r->ctx, &e)) {
		enum event_action action = event_judge(e.event_type, &words);
		if (action == EVENT_CONN || action == EVENT_DRAIN)
			on_qp(&e, action, words);
		else if (e.event_type == IBV_EVENT_SRQ_LIMIT_REACHED)
			on_low(t, &e, words);
		else if (action != EVENT_PASS)
			tell(t, r, &e, words);
		if (action == EVENT_STOP)
			ruin(t, r, words);
		s->verbs->ack_async_event(&e);
	}
}

static void *run(void *arg)
{
	struct watch *t = arg;
	const struct server *s = t->server;
	struct pollfd fds[RAILS_MAX + 1] = { { .fd = t->stop_fd, .events = POLLIN } };

	for (unsigned i = 0; i < s->rail_count; i++)
		fds[1 + i] = (struct pollfd){ .fd = s->rails[i].ctx->async_fd, .events = POLLIN };
	for (;;) {
		int n = poll(fds, 1 + s->rail_count, t->rearm ? AGAIN_MS : -1);
		if (n < 0 && errno != EINTR)
			log_error("poll for events of the device: %s", strerror(errno));
		if (n > 0 && fds[0].revents)
			return NULL;
		for (unsigned i = 0; n > 0 && i < s->rail_count; i++) {
			if (fds[1 + i].revents & POLLIN)
				take_events(t, &s->rails[i]);
			else if (fds[1 + i].revents)
				fds[1 + i].fd = -1; /* the device is gone, which rdma_cm tells too */
		}
		if (n == 0 && t->rearm)
			arm_low(t);
	}
}

static int set_nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 ? flags : fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

static void free_watch(struct watch *t)
{
	if (t->stop_fd >= 0)
		close(t->stop_fd);
	if (t->ruin_fd >= 0)
		close(t->ruin_fd);
	free(t);
}

int watch_new(struct host *h, struct watch **watch, struct err *err)
{
	struct server *s = h->servers;
	struct watch *t = calloc(1, sizeof *t);

	if (!t)
		return err_set(err, -1, "out of memory");
	t->host = h;
	t->server = s;
	t->stop_fd = eventfd(0, EFD_CLOEXEC);
	t->ruin_fd = eventfd(0, EFD_CLOEXEC);
	bool ok = t->stop_fd >= 0 && t->ruin_fd >= 0;
	for (unsigned i = 0; ok && i < s->rail_count; i++)
		ok = !set_nonblocking(s->rails[i].ctx->async_fd);
	if (!ok) {
		err_set_errno(err, -1, errno, "can't set up descriptors for events");
		free_watch(t);
		return -1;
	}
	for (unsigned i = 0; i < h->worker_count; i++)
		arm(t, queues_at(t, i));
	int rc = pthread_create(&t->thread, NULL, run, t);
	if (rc) {
		free_watch(t);
		return err_set_errno(err, -1, rc, "can't start the thread for events");
	}
	*watch = t;
	return 0;
}

void watch_delete(struct watch **watch)
{
	struct watch *t = *watch;

	if (!t)
		return;
	if (eventfd_write(t->stop_fd, 1))
		log_error("can't wake the thread for events: %s", strerror(errno));
	pthread_join(t->thread, NULL);
	free_watch(t);
	*watch = NULL;
}

int watch_fd(const struct watch *t)
{
	return t->ruin_fd;
}
