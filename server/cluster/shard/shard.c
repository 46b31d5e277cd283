/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The shard's thread.  Each event is told to the member with the time, and what that wants done is
 * done before the next one.
 */
#include "server/cluster/shard/shard.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/log.h"
#include "server/cluster/member/backup.h"
#include "server/cluster/shard/crew.h"
#include "server/cluster/shard/impl.h"
#include "server/cluster/shard/join.h"
#include "server/cluster/shard/lanes.h"
#include "server/cluster/shard/place.h"
#include "server/cluster/shard/speak.h"
#include "server/cluster/shard/stuck.h"
#include "server/cluster/shard/roster.h"
#include "server/cluster/shard/admin.h"
#include "server/table/show.h"
#include "server/table/table.h"

#define END_NS 3000000000ull
#define POLLS_MAX 100u /* in a round */
#define PORT_LOOK_NS (MEMBER_SILENCE_NS / 4) /* before anybody is taken for gone */
#define NICE (-15)

static void unfit(void *arg, const char *why)
{
	log_error("this member lacks a change, and is of no use until it was copied to: %s", why);
	shard_say(arg, why);
}

static void completed(void *arg, const struct durable_fate *fate, uint64_t reign)
{
	const struct shard *s = arg;

	s->options.completed(s->options.completed_arg, fate, reign);
}

/* -------------------------------------------------------------------- what a member wants */
/* How long a fail-over took, from the seal to the first request that is executed. */
static void time_failover(struct shard *s, bool serves)
{
	if (s->member.state == MEMBER_SEALED && !s->sealed_ns)
		s->sealed_ns = shard_clock_ns();
	if (serves && s->sealed_ns) {
		pthread_mutex_lock(&s->lock);
		s->failovers++;
		s->failover_ns = shard_clock_ns() - s->sealed_ns;
		pthread_mutex_unlock(&s->lock);
	}
	if (serves || s->member.state == MEMBER_BACKING || s->member.state == MEMBER_OUT)
		s->sealed_ns = 0;
}

/* A header that is none of a serving primary shows nothing. */
static void show(struct shard *s)
{
	const struct member *m = &s->member;
	const struct lease_words *w = &m->round.words;

	if (m->state == MEMBER_SERVING || m->state == MEMBER_LEAVING)
		table_show_lease(s->options.store->table, w->reign, w->a, w->g);
}

/* Workers execute requests of that reign; 0: of none. */
static void serve(struct shard *s)
{
	const struct member *m = &s->member;
	bool serves = member_serves(m);
	uint64_t reign = serves ? m->reign : 0;
	uint64_t until_ns = reign ? m->round.until_ns : 0;

	time_failover(s, serves);
	if (!m->hold_order && !m->is_held)
		atomic_store(s->options.is_held, false);
	if (m->state != MEMBER_SERVING && m->state != MEMBER_LEAVING)
		table_hide_lease(s->options.store->table);
	/* The lease first: an answer needs both. */
	atomic_store(s->options.lease_until_ns, until_ns);
	atomic_store(s->options.reader_until_ns, reign && !m->round.hidden_ns ? until_ns : 0);
	if (atomic_exchange(s->options.reign, reign) == reign)
		return;
	log_info(reign ? "serving, epoch %llu" : "serving no more, epoch %llu",
		 (unsigned long long)m->known.epoch);
	crew_wake(s); /* they end connections of a reign that is over */
}

static void seat_others(const struct shard *s, struct replica_order *o)
{
	for (unsigned i = 0; i < MEMBER_PEERS_MAX && i < REPLICA_PEERS_MAX; i++) {
		memcpy(o->seats[i].name, s->member.peers[i].id.name, sizeof o->seats[i].name);
		o->seats[i].incarnation = s->member.peers[i].id.incarnation;
	}
}

static void order(struct shard *s, enum replica_order_kind kind, const struct member_action *a)
{
	static const enum records_role roles[] = { RECORDS_OUT, RECORDS_BACKUP, RECORDS_PRIMARY };
	struct replica_order o = { .kind = kind, .epoch = a->epoch, .reign = a->reign,
				   .number = a->number,
				   .incarnation = s->member.self.incarnation, .role = roles[a->role],
				   .members = a->bits };

	seat_others(s, &o);
	crew_order(s, &o, a->order);
}

static void act(struct shard *s, const struct member_action *a)
{
	switch (a->kind) {
	case MEMBER_READ: keeper_read(&s->keeper); break;
	case MEMBER_WRITE:
		log_info("asking for epoch %llu: primary %s, %u with it",
			 (unsigned long long)a->config.epoch, a->config.set[0].name,
			 a->config.count - 1);
		/* It is told in the next round: not from within what it wants done. */
		s->is_unwritten = !keeper_write(&s->keeper, &a->config);
		break;
	case MEMBER_SEND: speak_send(s, a); break;
	case MEMBER_EPOCH: serve(s); order(s, REPLICA_EPOCH, a); break;
	case MEMBER_SEAL: serve(s); order(s, REPLICA_SEAL, a); break;
	case MEMBER_RESOLVE: order(s, REPLICA_RESOLVE, a); break;
	case MEMBER_BEGUN_BY: order(s, REPLICA_BEGUN_BY, a); break;
	case MEMBER_SERVE: order(s, REPLICA_SHOW, a); break;
	case MEMBER_VISIBLE: order(s, REPLICA_SEEN, a); break;
	case MEMBER_STOP: serve(s); break;
	case MEMBER_WORDS: show(s); break;
	case MEMBER_AWAIT: order(s, REPLICA_AWAIT, a); break;
	case MEMBER_COPY: order(s, REPLICA_COPY, a); break;
	case MEMBER_EMPTY: join_empty(s); break;
	case MEMBER_HOLD:
		s->is_barred = false;
		atomic_store(s->options.is_held, true);
		order(s, REPLICA_HOLD, a);
		break;
	}
}

static void act_all(struct shard *s, const struct member_actions *actions)
{
	for (unsigned i = 0; i < actions->count; i++)
		act(s, &actions->of[i]);
	serve(s);
}

/* -------------------------------------------------------------------- the agreement */
static void on_config(void *arg, const struct config *c)
{
	struct shard *s = arg;
	static _Thread_local struct member_actions actions;
	bool is_new, was_joining = s->member.state == MEMBER_JOINING;
	bool is_first = !s->member.known.epoch && s->options.incarnation;

	if (c->epoch > s->member.known.epoch)
		log_info("epoch %llu, reign %llu: primary %s, %u with it",
			 (unsigned long long)c->epoch, (unsigned long long)c->reign,
			 c->set[0].name, c->count - 1);
	actions.count = 0;
	is_new = c->epoch > s->member.known.epoch;
	member_config(&s->member, shard_clock_ns(), c, &actions);
	if (is_new) {
		member_expect(&s->member, shard_clock_ns());
		roster_want(s);
	}
	/* A copy, and a disk, bring no completion records. */
	if ((was_joining && s->member.state == MEMBER_BACKING) || is_first)
		s->options.lacks(s->options.completed_arg, c->reign);
	act_all(s, &actions);
}

static void on_wrote(void *arg, enum keeper_outcome outcome, const struct config *c)
{
	struct shard *s = arg;
	static _Thread_local struct member_actions actions;

	(void)outcome;
	actions.count = 0;
	member_wrote(&s->member, shard_clock_ns(), c, &actions);
	if (c)
		member_expect(&s->member, shard_clock_ns());
	act_all(s, &actions);
}

static void on_reached(void *arg, bool is_reached)
{
	struct shard *s = arg;

	member_reached(&s->member, is_reached);
}

static void on_failed(void *arg, const char *why)
{
	struct shard *s = arg;

	if (s->member.known.epoch)
		log_warn("%s", why);
}

/* -------------------------------------------------------------------- connections */
static struct link_port *port_of(void *arg, const struct link_lane *lane)
{
	struct shard *s = arg;

	if (lane->shard)
		return NULL;
	return lane->number ? s->crew[(lane->number - 1) % s->options.worker_count].port : s->port;
}

static void connect_failed(void *arg, const struct addr *to, const struct link_lane *lane,
			   const char *why)
{
	log_debug("%s", why);
	lanes_failed(arg, to, lane);
}

static int open_links(struct shard *s, struct err *err)
{
	const struct shard_options *o = &s->options;
	struct link_port_options port = { .verbs = o->device->verbs, .pd = o->pd, .key = &o->key,
					  .name = s->name, .events = speak_events(s) };
	struct link_door_options door = { .device = o->device, .pd = o->pd,
					  .device_port = o->device_port, .listen = &o->listen,
					  .port = port_of, .failed = connect_failed, .arg = s };

	s->channel = o->device->verbs->create_comp_channel(o->pd->context);
	if (!s->channel || fcntl(s->channel->fd, F_SETFL, O_NONBLOCK))
		return err_set_errno(err, -1, errno, "can't create a completion channel");
	port.channel = s->channel;
	if (link_port_new(&port, &s->port, err) || link_door_new(&door, &s->door, err))
		return -1;
	if (!config_is_name(link_door_addr(s->door)->text))
		return err_set(err, -1, "--cluster-listen %s: it can't be a member's name yet: give an "
			       "IPv4 address", link_door_addr(s->door)->text);
	strcpy(s->name, link_door_addr(s->door)->text);
	return 0;
}

/* -------------------------------------------------------------------- the thread */
static void note(struct shard *s)
{
	static _Thread_local struct member_actions actions;
	bool is_unfit;
	uint64_t number;

	while ((number = crew_obeyed(s))) {
		/* What was under way as they came to it has to be over, too: tick(). */
		if (number == s->member.hold_order) {
			s->is_barred = true;
			continue;
		}
		actions.count = 0;
		if (!join_emptied(s, number, &actions))
			member_obeyed(&s->member, number, shard_clock_ns(), &actions);
		act_all(s, &actions);
	}
	actions.count = 0;
	if (join_wiped(s, &actions))
		act_all(s, &actions);
	pthread_mutex_lock(&s->lock);
	is_unfit = s->is_unfit;
	pthread_mutex_unlock(&s->lock);
	if (!is_unfit || s->member.is_unfit)
		return;
	actions.count = 0;
	member_failed(&s->member, true, shard_clock_ns(), &actions);
	act_all(s, &actions);
}

/* What could not even be asked for. */
static void tell_of_unwritten(struct shard *s, struct member_actions *actions)
{
	if (!s->is_unwritten)
		return;
	s->is_unwritten = false;
	member_wrote(&s->member, shard_clock_ns(), NULL, actions);
}

static bool is_port_down(const struct shard *s)
{
	const struct shard_options *o = &s->options;
	struct ibv_port_attr port;

	return !o->device->verbs->query_port(o->pd->context, o->device_port, &port) &&
	       port.state != IBV_PORT_ACTIVE;
}

/* Whether it is this one who is gone, before the others are taken for that. */
static void look_at_port(struct shard *s)
{
	uint64_t now_ns = shard_clock_ns();

	/* Devices answer by their firmware, and who is sealed may miss its primary for hours. */
	if (now_ns - s->port_ns < PORT_LOOK_NS)
		return;
	s->port_ns = now_ns;
	bool is_cut = (s->member.is_cut || member_misses(&s->member, now_ns)) && is_port_down(s);

	if (is_cut != s->member.is_cut)
		log_warn(is_cut ? "its port is down: this member leaves nobody out and does not take over"
				: "its port is up: this member waits for connections with the others");
	member_cut(&s->member, is_cut, now_ns);
}

static void tick(struct shard *s)
{
	static _Thread_local struct member_actions actions;
	uint64_t now_ns;

	actions.count = 0;
	tell_of_unwritten(s, &actions);
	if (s->member.state == MEMBER_TAKING && !s->member.epoch_order &&
	    replica_is_settled(s->replica))
		member_settled(&s->member, s->member.known.epoch, shard_clock_ns(), &actions);
	if (s->member.hold_order && s->is_barred && replica_is_settled(s->replica))
		member_obeyed(&s->member, s->member.hold_order, shard_clock_ns(), &actions);
	act_all(s, &actions);
	look_at_port(s);
	now_ns = shard_clock_ns();
	lanes_keep(s, now_ns);
	place_look(s, now_ns);
	actions.count = 0;
	join_tick(s, now_ns, &actions);
	act_all(s, &actions);
	stuck_look(s, now_ns);
	actions.count = 0;
	member_tick(&s->member, now_ns, replica_visible(s->replica), &actions);
	act_all(s, &actions);
	pthread_mutex_lock(&s->lock);
	s->seen = s->member;
	pthread_mutex_unlock(&s->lock);
	/* Who hears that a command is done, and asks next, is shown it. */
	admin_look(s, now_ns);
}

static bool is_turning(const struct shard *s)
{
	enum member_state state = s->member.state;

	return state == MEMBER_SEALED || state == MEMBER_TAKING || state == MEMBER_LEAVING;
}

static void wait_for_something(struct shard *s)
{
	int tick_ms = is_turning(s) ? SHARD_TICK_TURN_MS : SHARD_TICK_MS;
	struct pollfd fds[] = { { .fd = s->wake_fd, .events = POLLIN },
				{ .fd = s->channel->fd, .events = POLLIN },
				{ .fd = link_door_fd(s->door), .events = POLLIN },
				{ .fd = s->keeper.agree ? agree_descriptor(s->keeper.agree) : -1,
				  .events = POLLIN } };
	eventfd_t value;

	link_port_arm(s->port);
	if (link_port_poll(s->port, shard_clock_ns()) ||
	    poll(fds, sizeof fds / sizeof *fds, tick_ms) <= 0)
		return;
	if (fds[0].revents)
		eventfd_read(s->wake_fd, &value);
	if (fds[1].revents)
		link_port_woken(s->port);
}

/* All that came until now, however late this thread is. */
static void hear(struct shard *s)
{
	uint64_t now_ns = shard_clock_ns();
	unsigned n = 0;

	while (link_port_poll(s->port, shard_clock_ns()) && n < POLLS_MAX)
		n++;
	if (n < POLLS_MAX)
		member_polled(&s->member, now_ns);
}

static void one_round(struct shard *s)
{
	wait_for_something(s);
	link_door_poll(s->door, shard_clock_ns());
	hear(s);
	if (s->keeper.agree)
		agree_poll(s->keeper.agree);
	note(s);
	tick(s);
}

/* Others take this one for gone if it comes late.  Without the right to it that is as it was. */
static void come_first(void)
{
	if (setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), NICE))
		log_debug("the shard's thread has no higher priority: %s", strerror(errno));
}

static void *run(void *arg)
{
	struct shard *s = arg;
	uint64_t end_ns;

	come_first();
	while (!atomic_load(&s->stops))
		one_round(s);
	atomic_store(s->options.reign, 0);
	table_hide_lease(s->options.store->table);
	place_close(s);
	link_port_end(s->port, "kvd stops");
	for (end_ns = shard_clock_ns() + END_NS;
	     !link_port_is_empty(s->port) && shard_clock_ns() < end_ns;) {
		link_port_poll(s->port, shard_clock_ns());
		link_door_poll(s->door, shard_clock_ns());
	}
	return NULL;
}

/* -------------------------------------------------------------------- life */
static int make(struct shard *s, struct err *err)
{
	struct replica_options replica = { .store = s->options.store,
					   .copy_bytes_s = SHARD_COPY_BYTES_S,
					   .unfit = unfit, .completed = completed, .arg = s };
	struct config_member self = { .incarnation = s->options.incarnation };
	struct member_actions actions = { 0 };

	s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->wake_fd < 0)
		return err_set_errno(err, -1, errno, "eventfd");
	s->life = join_draw();
	if (!self.incarnation)
		self.incarnation = join_draw();
	join_init(s);
	replica.incarnation = self.incarnation;
	if (replica_new(&replica, &s->replica, err) || open_links(s, err))
		return -1;
	for (unsigned i = 0; i < s->options.worker_count; i++)
		if (crew_new(s, i, err))
			return -1;
	if (replica_restore(s->replica, err))
		return -1;
	memcpy(self.name, s->name, sizeof self.name);
	s->keeper = (struct keeper){ .path = s->path,
				     .events = { on_config, on_wrote, on_reached, on_failed, s } };
	member_start(&s->member, &self, s->life, shard_clock_ns(), &actions);
	return place_open(s, err);
}

int shard_new(const struct shard_options *o, struct shard **out, struct err *err)
{
	struct shard *s = calloc(1, sizeof *s);

	if (!s)
		return err_set(err, -1, "no memory for the shard");
	s->options = *o;
	s->act = act_all;
	pthread_mutex_init(&s->lock, NULL);
	*out = s;
	return make(s, err);
}

int shard_start(struct shard *s, struct err *err)
{
	int rc = pthread_create(&s->thread, NULL, run, s);

	s->is_started = !rc;
	return rc ? err_set_errno(err, -1, rc, "can't start the shard's thread") : 0;
}

void shard_stop(struct shard *s)
{
	if (!s->is_started)
		return;
	atomic_store(&s->stops, true);
	shard_wake(s);
	pthread_join(s->thread, NULL);
	s->is_started = false;
}

void shard_delete(struct shard **at)
{
	struct shard *s = *at;

	if (!s)
		return;
	*at = NULL;
	place_close(s);
	link_door_delete(&s->door);
	for (unsigned i = 0; i < s->options.worker_count; i++)
		crew_delete(&s->crew[i]);
	link_port_delete(&s->port);
	if (s->channel)
		s->options.device->verbs->destroy_comp_channel(s->channel);
	replica_delete(&s->replica);
	close(s->wake_fd);
	auth_wipe(&s->options.key.secret, sizeof s->options.key.secret);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

struct crew *shard_crew(struct shard *s, unsigned worker)
{
	return &s->crew[worker];
}

const char *shard_name(const struct shard *s)
{
	return s->name;
}
