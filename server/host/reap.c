/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A connection ends.
 *
 * DISCONNECTED, an error of its queue pair, or a limit -> the worker is told, drains it
 * and gives it back -> it is destroyed by the main thread.  One that can't be drained is given
 * back twice: its queue pair is destroyed in between (server/worker/drain.c).
 *
 * Limits: on the time until a good hello (HELLO_NS_MAX), and on the time that replies may
 * wait for a peer to take them (STUCK_NS_MAX).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/log_limit.h"
#include "server/access/gate.h"
#include "server/host/conns.h"
#include "server/host/host.h"
#include "server/lock/locker.h"
#include "server/store/item/clock.h"
#include "server/worker/conn.h"
#include "server/worker/conn_impl.h"
#include "server/worker/conn_set.h"
#include "server/worker/context.h"
#include "server/worker/fate.h"
#include "server/worker/request/completions.h"

#define HELLO_NS_MAX 10000000000ull
#define STUCK_NS_MAX 10000000000ull

void burial_order(struct conn *c)
{
	struct host *h = c->server->host;

	pthread_mutex_lock(&h->done_lock);
	c->next = h->done;
	h->done = c;
	pthread_mutex_unlock(&h->done_lock);
	if (eventfd_write(h->done_fd, 1))
		log_error("can't wake the main thread: %s", strerror(errno));
}

static void destroy_qp(struct conn *c)
{
	const struct verbs *v = c->server->verbs;

	v->disconnect(c->id);
	v->destroy_qp(c->qp);
	c->qp = NULL;
	/* What it could put into its worker's completion queue it can't any more. */
	c->set->load--;
	c->set->places -= c->depth;
}

/* Of what is forgotten for it the kvd says that it is not known, should it be primary again. */
static void keep_fates(struct conn *c)
{
	struct server *s = c->server;
	struct fates_forgotten f = fates_keep(s->fates, c->connection_id, c->sendq.reign, c->sendq.fate);

	if (f.reign && s->completions)
		completions_lack(s->completions, f.reign, f.until_ns);
}

void burial_one(struct conn *c)
{
	const struct verbs *v = c->server->verbs;

	if (c->qp)
		destroy_qp(c);
	/* Only now can nothing that it sent take effect any more. */
	if (c->server->locker)
		locker_dead(c->server->locker, &c->lock_note);
	v->destroy_id(c->id);
	if (c->sendq.fate)
		keep_fates(c);
	conns_remove(c);
	free(c);
}

/* Its worker frees what completions would have freed, and gives it back again. */
static void cut_off(struct conn *c)
{
	struct commands *commands = c->commands;

	destroy_qp(c);
	atomic_store(&c->is_cut_off, true);
	commands_wake(commands);
}

void burial_all(struct host *h)
{
	eventfd_t value;

	eventfd_read(h->done_fd, &value);
	pthread_mutex_lock(&h->done_lock);
	struct conn *c = h->done, *next;
	h->done = NULL;
	pthread_mutex_unlock(&h->done_lock);
	for (; c; c = next) {
		next = c->next;
		if (c->is_given_up && c->qp)
			cut_off(c);
		else
			burial_one(c);
	}
	arrivals_go_on(h);
}

static void look_after_conn(struct conn *c, uint64_t now)
{
	uint64_t denied = atomic_load(&c->denied_ns);
	uint64_t stuck = atomic_load_explicit(&c->sendq.stuck_ns, memory_order_relaxed);

	if (atomic_load(&c->disconnected))
		return;
	if (denied && now - denied > 2 * DENIED_NS) {
		conn_drop(c, c->denial == WIRE_EBUSY ? "its user has as many connections as one may have"
						     : "its hello proved nothing");
	} else if (denied && now - denied > DENIED_NS && !c->denial_told) {
		c->denial_told = true;
		commands_post(c->commands, &(struct command){ .kind = CMD_DENY,
							      .connection = c->number });
	} else if (conn_is_pending(c) && now - c->since_ns > HELLO_NS_MAX) {
		conn_drop(c, "it said nothing for 10 s after it connected");
	} else if (stuck && now > stuck && now - stuck > STUCK_NS_MAX) {
		conn_drop(c, "it took none of its replies for 10 s");
	}
}

/* Peers that are silent, slow, or to be told what they are. */
void burial_look(struct host *h)
{
	uint64_t boot = clock_read_ns(CLOCK_BOOTTIME), now = clock_ns();

	if (now - h->looked_ns < LOOK_NS)
		return;
	h->looked_ns = now;
	log_limit_tell(now, false);
	for (unsigned i = 0; i < h->server_count; i++)
		store_clock_woke(h->servers[i].store, boot, now);
	arrivals_refuse(h, false);
	for (unsigned i = 0; i < h->server_count; i++)
		for (struct conn *c = h->servers[i].conns; c; c = c->all_next)
			look_after_conn(c, now);
}
