/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A worker's part of the shard: its connections, its records, and the orders, which it takes from
 * a ring that all workers share.  An order that ends changes is obeyed when they have come back.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>

#include "common/log.h"
#include "server/cluster/shard/crew.h"
#include "server/cluster/shard/guest.h"
#include "server/cluster/shard/lanes.h"

/* -------------------------------------------------------------------- connections */
static void up(void *arg, struct link_peer *p)
{
	struct crew *c = arg;

	if (!replica_up(c->replica, p)) {
		link_peer_close(p, "this worker has too many connections with other members");
		return;
	}
	if (!link_peer_is_asker(p))
		return;
	for (unsigned i = 0; i < LINK_PEERS_MAX; i++)
		if (!c->asked[i]) {
			c->asked[i] = p;
			break;
		}
	lanes_are(c->shard, p, LANE_UP);
}

static void message(void *arg, struct link_peer *p, struct link_reader *r)
{
	struct crew *c = arg;

	if (!replica_heard(c->replica, p, r))
		link_peer_close(p, "it sent a worker what is not for one");
}

static void read_done(void *arg, struct link_peer *p, uint64_t cookie, bool is_ok)
{
	struct crew *c = arg;

	(void)p;
	replica_read(c->replica, cookie, is_ok);
}

static void down(void *arg, struct link_peer *p, const char *why)
{
	struct crew *c = arg;

	log_info("worker %u: %s", c->index, why);
	replica_down(c->replica, p);
	for (unsigned i = 0; i < LINK_PEERS_MAX; i++)
		if (c->asked[i] == p)
			c->asked[i] = NULL;
	if (link_peer_is_asker(p))
		lanes_are(c->shard, p, LANE_NONE);
}

static void wake(void *arg)
{
	struct crew *c = arg;

	c->shard->options.wake(c->shard->options.wake_args[c->index]);
}

/* -------------------------------------------------------------------- life */
int crew_new(struct shard *s, unsigned index, struct err *err)
{
	struct crew *c = &s->crew[index];
	const struct verbs *v = s->options.device->verbs;

	c->shard = s;
	c->index = index;
	c->channel = v->create_comp_channel(s->options.pd->context);
	if (!c->channel || fcntl(c->channel->fd, F_SETFL, O_NONBLOCK))
		return err_set_errno(err, -1, errno, "can't create a completion channel");
	struct link_port_options o = {
		.verbs = v, .pd = s->options.pd, .channel = c->channel, .key = &s->options.key,
		.name = s->name, .is_read = true,
		.events = { up, message, read_done, NULL, down, c }, .wake = wake, .wake_arg = c,
	};
	if (link_port_new(&o, &c->port, err))
		return -1;
	return replica_worker_new(s->replica, s->options.workers[index], wake, c, &c->replica, err);
}

void crew_delete(struct crew *c)
{
	if (!c->shard)
		return;
	replica_worker_delete(&c->replica);
	link_port_delete(&c->port);
	if (c->channel)
		c->shard->options.device->verbs->destroy_comp_channel(c->channel);
}

int crew_descriptor(const struct crew *c)
{
	return c->channel->fd;
}

void crew_arm(struct crew *c)
{
	link_port_arm(c->port);
}

void crew_woken(struct crew *c)
{
	link_port_woken(c->port);
}

void crew_leave(struct crew *c)
{
	link_port_end(c->port, "kvd stops");
	while (!link_port_is_empty(c->port)) {
		crew_poll(c);
		crew_flush(c);
		sched_yield();
	}
}

/* -------------------------------------------------------------------- orders */
/*
 * What is seen says the next order of its kind, too: while a worker waits for its disk, or is late, it
 * leaves room for those that have to be.
 */
static bool is_full_for(const struct shard *s, enum replica_order_kind kind)
{
	unsigned room = kind == REPLICA_SEEN ? SHARD_ORDERS / 2 : SHARD_ORDERS;

	return s->ordered - s->done >= room;
}

void crew_order(struct shard *s, struct replica_order *order, uint64_t number)
{
	struct shard_order *o = &s->orders[s->ordered % SHARD_ORDERS];
	bool is_full;

	order->serial = replica_order_serial(s->replica);
	pthread_mutex_lock(&s->lock);
	is_full = is_full_for(s, order->kind);
	if (!is_full) {
		*o = (struct shard_order){ *order, number, s->options.worker_count };
		s->ordered++;
	}
	pthread_mutex_unlock(&s->lock);
	if (is_full && order->kind != REPLICA_SEEN)
		shard_say(s, "a worker stands still: it takes no orders");
	for (unsigned i = 0; i < s->options.worker_count; i++)
		wake(&s->crew[i]);
}

uint64_t crew_obeyed(struct shard *s)
{
	uint64_t number = 0;

	pthread_mutex_lock(&s->lock);
	while (!number && s->done < s->ordered && !s->orders[s->done % SHARD_ORDERS].left)
		number = s->orders[s->done++ % SHARD_ORDERS].number;
	pthread_mutex_unlock(&s->lock);
	return number;
}

bool crew_is_idle(struct shard *s)
{
	bool is_idle;

	pthread_mutex_lock(&s->lock);
	is_idle = s->done == s->ordered;
	pthread_mutex_unlock(&s->lock);
	return is_idle;
}

static struct replica_order latest(struct crew *c)
{
	struct replica_order o;

	pthread_mutex_lock(&c->shard->lock);
	o = c->shard->orders[c->taken % SHARD_ORDERS].order;
	pthread_mutex_unlock(&c->shard->lock);
	return o;
}

static void is_done(struct crew *c)
{
	struct shard *s = c->shard;
	bool is_last;

	c->is_obeying = false;
	pthread_mutex_lock(&s->lock);
	is_last = !--s->orders[c->taken++ % SHARD_ORDERS].left;
	pthread_mutex_unlock(&s->lock);
	if (is_last)
		shard_wake(s);
}

static bool is_over(struct crew *c, const struct replica_order *o)
{
	if (o->kind == REPLICA_EMPTY)
		return replica_empty(c->replica);
	if (o->kind == REPLICA_RESOLVE)
		return !replica_is_writing(c->replica);
	return o->kind != REPLICA_EPOCH || o->role == RECORDS_PRIMARY ||
	       !c->shard->options.workers[c->index]->commits;
}

static bool is_seated(const struct replica_order *o, const char *name)
{
	for (unsigned i = 0; i < REPLICA_PEERS_MAX; i++)
		if (!strcmp(o->seats[i].name, name))
			return true;
	return false;
}

/* What this one asked for as primary, and is of no use any more. */
static void hang_up(struct crew *c, const struct replica_order *o)
{
	if (o->kind != REPLICA_EPOCH && o->kind != REPLICA_AWAIT)
		return;
	for (unsigned i = 0; i < LINK_PEERS_MAX; i++) {
		struct link_peer *p = c->asked[i];

		if (p && ((o->kind == REPLICA_EPOCH && o->role != RECORDS_PRIMARY) ||
			  !is_seated(o, link_peer_name(p))))
			link_peer_close(p, "it is not sent changes any more");
	}
}

static void obey(struct crew *c)
{
	while (c->taken != atomic_load(&c->shard->ordered)) {
		struct replica_order o = latest(c);

		if (!c->is_obeying) {
			if (!replica_obey(c->replica, &o))
				return;
			hang_up(c, &o);
		}
		c->is_obeying = true;
		if (!is_over(c, &o))
			return;
		is_done(c);
	}
}

bool crew_poll(struct crew *c)
{
	bool has = link_port_poll(c->port, shard_clock_ns());

	if (c->taken != atomic_load_explicit(&c->shard->ordered, memory_order_relaxed)) {
		obey(c);
		has = true;
	}
	return has;
}

void crew_flush(struct crew *c)
{
	replica_flush(c->replica);
}

void crew_copy(struct crew *c)
{
	if (replica_copies(c->replica))
		replica_copy(c->replica, shard_clock_ns());
}

bool crew_waits(const struct crew *c)
{
	return replica_copies(c->replica) || replica_has_parked(c->replica);
}

void crew_wake(struct shard *s)
{
	for (unsigned i = 0; i < s->options.worker_count; i++)
		wake(&s->crew[i]);
}
