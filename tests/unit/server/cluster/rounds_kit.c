/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/server/cluster/rounds_kit.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "server/cluster/member/backup.h"
#include "server/cluster/shard/admin.h"
#include "server/cluster/shard/crew.h"
#include "server/cluster/shard/join.h"
#include "server/cluster/shard/lanes.h"
#include "server/cluster/shard/place.h"
#include "server/cluster/shard/roster.h"
#include "server/cluster/shard/speak.h"
#include "server/cluster/shard/stuck.h"
#include "server/table/show.h"
#include "tests/unit/made_up.h"
#include "tests/unit/poll_chk.h"

static struct ibv_context context;
static struct ibv_pd pd = { .context = &context };
struct ibv_comp_channel channel;
static struct device device;
static struct table *const table = (struct table *)(void *)&pd;
struct store store;
struct shard_options options;
struct shard *s;
struct err err;
struct addr door_addr;
_Atomic uint64_t reign, lease_until_ns, reader_until_ns;
_Atomic bool is_held;

char calls[4096];
const char *fails; /* whose call */
_Atomic uint64_t now_ns;
struct replica_order ordered;
uint64_t ordered_number, shown[3];
uint64_t obeyed[4]; /* that crew_obeyed() tells */
bool writes, empties, wipes, settled, misses, is_down, joins, is_first, is_ending;
enum member_state next_state;
struct member_actions todo; /* what a member wants done when it is told something */
unsigned port_has, port_is_busy;
_Atomic unsigned rounds_done, rounds_wanted;
int waited_ms;
short ready[4];
struct replica_options with_replica;
struct link_door_options with_door;
struct link_port_options with_port;

/* One more word. */
static int call(const char *format, ...)
{
	size_t used = strlen(calls);
	va_list args;

	va_start(args, format);
	vsnprintf(calls + used, sizeof calls - used, format, args);
	va_end(args);
	strncat(calls, " ", sizeof calls - strlen(calls) - 1);
	return fails && !strncmp(calls + used, fails, strlen(fails)) ? err_set(&err, -1, "%s", fails) : 0;
}

void expect_calls(const char *words)
{
	assert_string_equal(calls, words);
	calls[0] = '\0';
}

/* -------------------------------------------------------------------- made up */

static struct ibv_comp_channel *create_comp_channel(struct ibv_context *ctx)
{
	return ctx == &context && !call("channel") ? &channel : NULL;
}

static int destroy_comp_channel(struct ibv_comp_channel *c)
{
	return c == &channel ? call("-channel") : -1;
}

static int query_port(struct ibv_context *ctx, uint8_t number, struct ibv_port_attr *attr)
{
	attr->state = is_down ? IBV_PORT_DOWN : IBV_PORT_ACTIVE;
	return ctx == &context && number == 2 ? call("query") : -1;
}

static const struct verbs made_up = { .create_comp_channel = create_comp_channel,
				      .destroy_comp_channel = destroy_comp_channel,
				      .query_port = query_port };

struct link_port *const port = (struct link_port *)(void *)&store;
static const pthread_mutex_t *lock_made, *lock_ended; /* the first and the last one */
struct agree *const agree = (struct agree *)(void *)&options;
static struct link_door *const door = (struct link_door *)(void *)&device;
static struct replica *const replica = (struct replica *)(void *)&channel;

MADE_UP(int, clock_gettime, clockid_t clock, struct timespec *ts)
{
	(void)clock;
	*ts = (struct timespec){ (time_t)(now_ns / S), (long)(now_ns % S) };
	return 0;
}

MADE_UP(int, link_port_new, const struct link_port_options *o, struct link_port **p, struct err *e)
{
	with_port = *o;
	*p = port;
	*e = (struct err){ "port" };
	return call("port");
}

MADE_UP(void, link_port_delete, struct link_port **p) { call(*p ? "-port" : "-"); }
MADE_UP(void, link_port_arm, struct link_port *p) { call(p == port ? "arm" : "?"); }
MADE_UP(void, link_port_woken, struct link_port *p) { call(p == port ? "woken" : "?"); }
MADE_UP(void, link_port_end, struct link_port *p, const char *why)
{
	call(p == port ? "end:%s" : "?", why);
	is_ending = true;
}
MADE_UP(bool, link_port_is_empty, struct link_port *p) { return p == port && !port_is_busy; }

MADE_UP(bool, link_port_poll, struct link_port *p, uint64_t at_ns)
{
	(void)p;
	(void)at_ns;
	if (is_ending && port_is_busy) {
		port_is_busy--;
		now_ns += 100 * MS;
	}
	if (!port_has)
		return false;
	port_has--;
	return true;
}

MADE_UP(int, link_door_new, const struct link_door_options *o, struct link_door **d, struct err *e)
{
	with_door = *o;
	*d = door;
	*e = (struct err){ "door" };
	return call("door");
}

MADE_UP(void, link_door_delete, struct link_door **d) { call(*d ? "-door" : "-"); }
MADE_UP(const struct addr *, link_door_addr, const struct link_door *d) { return d == door ? &door_addr : NULL; }
MADE_UP(int, link_door_fd, const struct link_door *d) { return d == door ? 77 : -1; }

MADE_UP(void, link_door_poll, struct link_door *d, uint64_t at_ns)
{
	(void)at_ns;
	call(d == door ? "knocks" : "?");
	if (++rounds_done >= rounds_wanted)
		atomic_store(&s->stops, true);
}

MADE_UP(int, poll, struct pollfd *fds, nfds_t n, int timeout_ms)
{
	waited_ms = timeout_ms;
	call(n == 4 && fds[0].fd == s->wake_fd && fds[1].fd == channel.fd && fds[2].fd == 77 &&
	     fds[3].fd == (s->keeper.agree ? 88 : -1) ? "wait" : "?");
	for (unsigned i = 0; i < 4; i++)
		fds[i].revents = ready[i];
	return ready[0] || ready[1] || ready[2] || ready[3];
}

MADE_UP(int, crew_new, struct shard *of, unsigned i, struct err *e)
{
	(void)of;
	*e = (struct err){ "crew" };
	return call("crew%u", i);
}

MADE_UP(void, crew_delete, struct crew *c) { call("-crew%u", (unsigned)(c - s->crew)); }
MADE_UP(void, crew_wake, struct shard *of) { call(of == s ? "wake" : "?"); }

MADE_UP(void, crew_order, struct shard *of, struct replica_order *o, uint64_t number)
{
	(void)of;
	ordered = *o;
	ordered_number = number;
	call("order%u", o->kind);
}

MADE_UP(uint64_t, crew_obeyed, struct shard *of)
{
	uint64_t number = obeyed[0];

	(void)of;
	memmove(obeyed, obeyed + 1, sizeof obeyed - sizeof obeyed[0]);
	return number;
}

MADE_UP(int, replica_new, const struct replica_options *o, struct replica **r, struct err *e)
{
	with_replica = *o;
	*r = replica;
	*e = (struct err){ "replica" };
	return call("replica");
}

MADE_UP(void, replica_delete, struct replica **r) { call(*r ? "-replica" : "-"); }

MADE_UP(int, replica_restore, struct replica *r, struct err *e)
{
	*e = (struct err){ "restore" };
	return r == replica ? call("restore") : -1;
}

MADE_UP(bool, replica_is_settled, struct replica *r) { return r == replica && settled; }
MADE_UP(uint64_t, replica_visible, struct replica *r) { return r == replica ? 66 : 0; }

MADE_UP(int, place_open, struct shard *of, struct err *e)
{
	(void)of;
	*e = (struct err){ "place" };
	return call("place");
}

MADE_UP(void, place_close, struct shard *of) { call(of == s ? "-place" : "?"); }
MADE_UP(void, place_look, struct shard *of, uint64_t at_ns) { call(of == s && at_ns == now_ns ? "place" : "?"); }
MADE_UP(void, admin_look, struct shard *of, uint64_t at_ns) { call(of == s && at_ns == now_ns ? "admin" : "?"); }
MADE_UP(void, stuck_look, struct shard *of, uint64_t at_ns) { call(of == s && at_ns == now_ns ? "stuck" : "?"); }
MADE_UP(void, lanes_keep, struct shard *of, uint64_t at_ns) { call(of == s && at_ns == now_ns ? "lanes" : "?"); }
MADE_UP(void, roster_want, struct shard *of) { call(of == s ? "roster" : "?"); }
MADE_UP(void, join_empty, struct shard *of) { call(of == s ? "empty" : "?"); }
MADE_UP(void, speak_send, struct shard *of, const struct member_action *a) { call(of == s ? "send:%s" : "?", a->peer); }
MADE_UP(void, keeper_read, struct keeper *k) { call(k == &s->keeper ? "read" : "?"); }

MADE_UP(void, lanes_failed, struct shard *of, const struct addr *to, const struct link_lane *lane)
{
	call(of == s ? "failed:%s:%u" : "?", to->text, lane->number);
}

MADE_UP(bool, keeper_write, struct keeper *k, const struct config *c)
{
	call(k == &s->keeper ? "write%u" : "?", (unsigned)c->epoch);
	return writes;
}

/* Once. */
static void want(struct member_actions *actions)
{
	if (actions->count)
		call("left");
	*actions = todo;
	todo.count = 0;
}

MADE_UP(bool, join_emptied, struct shard *of, uint64_t number, struct member_actions *actions)
{
	(void)of;
	if (!empties)
		return false;
	call("emptied%u", (unsigned)number);
	want(actions);
	return true;
}

MADE_UP(bool, join_wiped, struct shard *of, struct member_actions *actions)
{
	(void)of;
	if (!wipes)
		return false;
	wipes = false;
	call("wiped");
	want(actions);
	return true;
}

MADE_UP(void, join_tick, struct shard *of, uint64_t at_ns, struct member_actions *actions)
{
	call(of == s && at_ns == now_ns && !actions->count ? "join" : "?");
	if (joins)
		want(actions);
}

MADE_UP(void, member_start, struct member *m, const struct config_member *self, uint64_t life, uint64_t at_ns,
	struct member_actions *actions)
{
	m->self = *self;
	call(life && at_ns && !actions->count ? "start:%s" : "?", self->name);
}

MADE_UP(void, member_config, struct member *m, uint64_t at_ns, const struct config *c, struct member_actions *actions)
{
	call(m == &s->member && at_ns ? "config" : "?");
	m->known = *c;
	m->state = next_state;
	want(actions);
}

MADE_UP(void, member_wrote, struct member *m, uint64_t at_ns, const struct config *c, struct member_actions *actions)
{
	(void)m;
	call(at_ns ? "wrote%u" : "?", c ? (unsigned)c->epoch : 0);
	want(actions);
}

MADE_UP(void, member_obeyed, struct member *m, uint64_t order, uint64_t at_ns, struct member_actions *actions)
{
	(void)m;
	call(at_ns ? "obeyed%u" : "?", (unsigned)order);
	want(actions);
}

MADE_UP(void, member_failed, struct member *m, bool may_heal, uint64_t at_ns, struct member_actions *actions)
{
	m->is_unfit = true;
	call(at_ns && may_heal ? "unfit" : "?");
	want(actions);
}

MADE_UP(void, member_settled, struct member *m, uint64_t epoch, uint64_t at_ns, struct member_actions *actions)
{
	(void)m;
	call(at_ns ? "settled%u" : "?", (unsigned)epoch);
	want(actions);
}

MADE_UP(void, member_tick, struct member *m, uint64_t at_ns, uint64_t visible, struct member_actions *actions)
{
	(void)m;
	call(at_ns == now_ns && visible == 66 ? "tick" : "?");
	want(actions);
}

MADE_UP(void, member_polled, struct member *m, uint64_t at_ns) { call(m == &s->member && at_ns ? "heard" : "?"); }
MADE_UP(void, member_expect, struct member *m, uint64_t at_ns) { call(m == &s->member && at_ns ? "expect" : "?"); }
MADE_UP(void, member_reached, struct member *m, bool is) { call(m == &s->member ? "reached%u" : "?", is); }
MADE_UP(bool, member_misses, const struct member *m, uint64_t at_ns) { return m == &s->member && at_ns && misses; }

MADE_UP(void, member_cut, struct member *m, bool is_cut, uint64_t at_ns)
{
	m->is_cut = is_cut;
	call(at_ns ? "cut%u" : "?", is_cut);
}

MADE_UP(int, agree_poll, struct agree *a) { return call(a == agree ? "agree" : "?"); }
MADE_UP(int, agree_descriptor, const struct agree *a) { return a == agree ? 88 : -2; }
MADE_UP(void, auth_wipe, void *secret, size_t bytes) { call(secret && bytes ? "wipe" : "?"); }

MADE_UP(int, setpriority, __priority_which_t which, id_t who, int priority)
{
	is_first = which == PRIO_PROCESS && who != (id_t)getpid() && priority < 0;
	return 0;
}

int __real_pthread_mutex_init(pthread_mutex_t *lock, const pthread_mutexattr_t *attr);
int __real_pthread_mutex_unlock(pthread_mutex_t *lock);
int __real_pthread_mutex_destroy(pthread_mutex_t *lock);

MADE_UP(int, pthread_mutex_init, pthread_mutex_t *lock, const pthread_mutexattr_t *attr)
{
	pthread_mutexattr_t checked;

	(void)attr;
	if (!lock_made)
		lock_made = lock;
	pthread_mutexattr_init(&checked);
	pthread_mutexattr_settype(&checked, PTHREAD_MUTEX_ERRORCHECK);
	int rc = __real_pthread_mutex_init(lock, &checked);
	pthread_mutexattr_destroy(&checked);
	return rc;
}

MADE_UP(int, pthread_mutex_unlock, pthread_mutex_t *lock)
{
	if (__real_pthread_mutex_unlock(lock))
		call("?"); /* it was not held */
	return 0;
}

MADE_UP(int, pthread_mutex_destroy, pthread_mutex_t *lock)
{
	lock_ended = lock;
	return __real_pthread_mutex_destroy(lock);
}

MADE_UP(void, table_hide_lease, struct table *t) { call(t == table ? "hide" : "?"); }

MADE_UP(void, table_show_lease, struct table *t, uint64_t r, uint64_t a, uint64_t g)
{
	call(t == table ? "show" : "?");
	shown[0] = r;
	shown[1] = a;
	shown[2] = g;
}

static void completed(void *arg, const struct durable_fate *fate, uint64_t of)
{
	call(arg == &store && !fate ? "completed%u" : "?", (unsigned)of);
}

static void lacks(void *arg, uint64_t of)
{
	call(arg == &store ? "lacks%u" : "?", (unsigned)of);
}

int make(void)
{
	s = NULL;
	calls[0] = '\0';
	lock_made = NULL;
	return shard_new(&options, &s, &err);
}

void end_it(void)
{
	struct shard *gone = s;

	shard_delete(&gone);
	assert_null(gone);
	s = NULL;
}

int set_up(void **state)
{
	int ends[2];

	(void)state;
	assert_int_equal(pipe(ends), 0);
	channel.fd = ends[0];
	close(ends[1]);
	strcpy(door_addr.text, "127.0.0.1:7");
	device.verbs = &made_up;
	store.table = table;
	options = (struct shard_options){ .device = &device, .pd = &pd, .device_port = 2, .clients = "c:1",
					  .incarnation = OWN, .store = &store, .worker_count = WORKERS,
					  .completed = completed, .lacks = lacks, .completed_arg = &store,
					  .reign = &reign, .lease_until_ns = &lease_until_ns,
					  .reader_until_ns = &reader_until_ns, .is_held = &is_held };
	now_ns = 1000 * S;
	reign = lease_until_ns = reader_until_ns = 0;
	is_held = writes = empties = wipes = settled = misses = is_down = joins = is_first = false;
	next_state = MEMBER_OUT;
	fails = NULL;
	port_has = port_is_busy = 0;
	todo.count = 0;
	memset(obeyed, 0, sizeof obeyed);
	memset(ready, 0, sizeof ready);
	assert_int_equal(make(), 0);
	s->port_ns = now_ns;
	return 0;
}

int tear_down(void **state)
{
	(void)state;
	if (s) {
		const int fd = s->wake_fd;
		const pthread_mutex_t *lock = &s->lock;
		assert_ptr_equal(lock_made, lock);
		calls[0] = '\0';
		s->keeper.agree = NULL;
		end_it();
		assert_string_equal(calls, "-place -door -crew0 -crew1 -crew2 -port -channel -replica wipe ");
		assert_int_equal(fcntl(fd, F_GETFD), -1);
		assert_ptr_equal(lock_ended, lock);
	}
	return close(channel.fd);
}
