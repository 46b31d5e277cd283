/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * connect.c -- connection management: the active side's connection, and what is due.
 *
 * Nobody listens: tried again for 100 ms.  The listener's backlog is full: for as long as
 * the id waits.
 */
#include "common/softverbs/base/lock.h"
#include "common/softverbs/cm/accept.h"
#include "common/softverbs/cm/conn.h"
#include "common/softverbs/cm/connect.h"
#include "common/softverbs/cm/sock.h"

#define BACKLOG_RETRY_MS 5
/* A request takes its time on a wire; a server that listens anew between two clients, as
 * perftest's does, relies on it. */
#define REFUSE_AFTER_MS 100

/* One try; EAGAIN if the listener's backlog is full, or a port is cut; ECONNREFUSED if there is
 * none. */
static int try_connect(struct sv_id *id)
{
	int fd, ret;

	if (sv_cm_is_cut(id))
		return EAGAIN;
	fd = sv_cm_dial(id);
	if (fd < 0)
		return errno;
	ret = sv_cm_watch(id, fd);
	return ret ? ret : sv_cm_send(id, &id->req);
}

void sv_cm_start_connect(struct sv_id *id)
{
	int ret = try_connect(id);
	uint64_t now = sv_now_ns();

	if (ret == ECONNREFUSED && !id->refused_ns)
		id->refused_ns = now;
	if (ret == ECONNREFUSED && now - id->refused_ns < REFUSE_AFTER_MS * 1000000ull)
		ret = EAGAIN;
	if (ret == ECONNREFUSED)
		sv_cm_connect_failed(id, RDMA_CM_EVENT_REJECTED, SV_REJ_NO_SERVICE);
	else if (ret && ret != EAGAIN)
		sv_cm_connect_failed(id, RDMA_CM_EVENT_UNREACHABLE, -ret);
	else if (ret)
		sv_cm_due_at(now + BACKLOG_RETRY_MS * 1000000u);
}

/* ---- timers ---- */

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t run_embryos(struct sv_id *id, uint64_t now)
{
	struct sv_cm_sock *sock = id->embryos, *next;
	uint64_t due = UINT64_MAX;

	for (; sock; sock = next) {
		next = sock->next;
		if (now >= sock->deadline_ns)
			sv_cm_drop_embryo(sock);
		else
			due = earlier(due, sock->deadline_ns);
	}
	return due;
}

static uint64_t run_id(struct sv_id *id, uint64_t now)
{
	uint64_t due = run_embryos(id, now);

	if (now >= id->deadline_ns)
		sv_cm_is_late(id);
	if (id->state == SV_CM_CONNECTING && (!id->sock || !id->sock->watch.ready)) {
		sv_cm_start_connect(id); /* the backlog was full, or nobody listened */
		due = earlier(due, now + BACKLOG_RETRY_MS * 1000000u);
	}
	return earlier(due, id->deadline_ns);
}

uint64_t sv_cm_run_timers(void)
{
	uint64_t now = sv_now_ns();
	uint64_t next = atomic_load(&sv_cm.next_ns);

	if (now < next)
		return next;
	pthread_mutex_lock(&sv_cm.lock);
	next = UINT64_MAX;
	for (struct sv_id *id = sv_cm.ids; id; id = id->next)
		next = earlier(next, run_id(id, now));
	atomic_store(&sv_cm.next_ns, next);
	pthread_mutex_unlock(&sv_cm.lock);
	return next;
}
