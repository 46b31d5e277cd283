/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * server/cluster/shard: a worker's part: its connections, and orders, which all workers obey.  Connections
 * and the replica are made up.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>
#include <cmocka.h>

#include "server/cluster/shard/crew.h"
#include "server/cluster/shard/guest.h"
#include "server/cluster/shard/impl.h"
#include "server/cluster/shard/lanes.h"
#include "tests/unit/made_up.h"
#include "tests/unit/said.h"

#define WORKERS 3u

/* In struct link_peer's place. */
struct fake {
	const char *name;
	bool is_asker;
	const char *closed;
};

static struct ibv_context context;
static struct ibv_pd pd = { .context = &context };
static struct ibv_comp_channel channel;
static struct device device;
static struct shard s;
static struct store_worker store_workers[WORKERS];
static struct crew *const c = &s.crew[1];
static struct fake bert = { .name = "bert" }, carl = { .name = "carl" };
static struct link_port_options made_with;
static struct err err;

static enum { NOTHING, CHANNEL, PORT, REPLICA } fails;
static bool takes_up, takes_message, obeys, emptied, writing, copies, parked, polled;
static unsigned heard, reads, downs, woken[WORKERS], armed, taken, flushed, copied, deleted, busy;
static uint64_t serial;
static struct replica_order obeyed;
static unsigned orders_obeyed;
static const struct fake *lane_of;
static unsigned lane_state; /* + 1 */
static const char *ended;
static unsigned not_held; /* locks that were given back */

static struct link_peer *of(struct fake *f)
{
	return (struct link_peer *)(void *)f;
}

static struct replica_worker *worker(unsigned i)
{
	return (struct replica_worker *)(void *)&store_workers[i];
}

static struct link_port *port(void)
{
	return (struct link_port *)(void *)&pd;
}

/* -------------------------------------------------------------------- made up */

static struct ibv_comp_channel *create_comp_channel(struct ibv_context *ctx)
{
	assert_ptr_equal(ctx, &context);
	return fails == CHANNEL ? NULL : &channel;
}

static int destroy_comp_channel(struct ibv_comp_channel *ch)
{
	assert_ptr_equal(ch, &channel);
	deleted++;
	return 0;
}

static const struct verbs made_up = { .create_comp_channel = create_comp_channel,
				      .destroy_comp_channel = destroy_comp_channel };

MADE_UP(const char *, link_peer_name, const struct link_peer *p)
{
	return ((const struct fake *)(const void *)p)->name;
}

MADE_UP(bool, link_peer_is_asker, const struct link_peer *p)
{
	return ((const struct fake *)(const void *)p)->is_asker;
}

MADE_UP(void, link_peer_close, struct link_peer *p, const char *why, ...)
{
	((struct fake *)(void *)p)->closed = why;
}

MADE_UP(void, lanes_are, struct shard *shard, const struct link_peer *p, enum lane_state state)
{
	assert_ptr_equal(shard, &s);
	lane_of = (const struct fake *)(const void *)p;
	lane_state = (unsigned)state + 1;
}

MADE_UP(int, link_port_new, const struct link_port_options *o, struct link_port **p, struct err *e)
{
	made_with = *o;
	*p = port();
	return fails == PORT ? err_set(e, -1, "no port") : 0;
}

MADE_UP(void, link_port_delete, struct link_port **p) { deleted += *p == port(); }
MADE_UP(void, link_port_arm, struct link_port *p) { armed += p == port(); }
MADE_UP(void, link_port_woken, struct link_port *p) { taken += p == port(); }
MADE_UP(bool, link_port_is_empty, struct link_port *p) { return p == port() && !busy; }

MADE_UP(void, link_port_end, struct link_port *p, const char *why)
{
	assert_ptr_equal(p, port());
	ended = why;
}

MADE_UP(bool, link_port_poll, struct link_port *p, uint64_t now_ns)
{
	assert_ptr_equal(p, port());
	assert_true(now_ns > 0);
	busy -= busy > 0;
	return polled;
}

MADE_UP(int, replica_worker_new, struct replica *r, struct store_worker *w, void (*wake)(void *arg), void *arg,
	struct replica_worker **out, struct err *e)
{
	assert_ptr_equal(r, s.replica);
	assert_ptr_equal(w, &store_workers[1]);
	assert_ptr_equal(arg, c);
	wake(arg);
	*out = worker(1);
	return fails == REPLICA ? err_set(e, -1, "no worker") : 0;
}

MADE_UP(void, replica_worker_delete, struct replica_worker **w) { deleted += *w == worker(1); }
MADE_UP(void, replica_flush, struct replica_worker *w) { flushed += w == worker(1); }
MADE_UP(bool, replica_copies, const struct replica_worker *w) { return w == worker(1) && copies; }
MADE_UP(bool, replica_has_parked, const struct replica_worker *w) { return w == worker(1) && parked; }
MADE_UP(bool, replica_empty, struct replica_worker *w) { return w == worker(1) && emptied; }
MADE_UP(bool, replica_is_writing, const struct replica_worker *w) { return w == worker(1) && writing; }
MADE_UP(void, replica_copy, struct replica_worker *w, uint64_t now_ns) { copied += w == worker(1) && now_ns; }
MADE_UP(void, replica_down, struct replica_worker *w, struct link_peer *p) { downs += w == worker(1) && p; }
MADE_UP(uint64_t, replica_order_serial, struct replica *r) { return r == s.replica ? ++serial : 0; }

MADE_UP(bool, replica_up, struct replica_worker *w, struct link_peer *p)
{
	assert_ptr_equal(w, worker(1));
	assert_non_null(p);
	return takes_up;
}

MADE_UP(bool, replica_heard, struct replica_worker *w, struct link_peer *p, struct link_reader *r)
{
	heard += w == worker(1) && p && !r;
	return takes_message;
}

MADE_UP(void, replica_read, struct replica_worker *w, uint64_t cookie, bool is_ok)
{
	assert_ptr_equal(w, worker(1));
	assert_int_equal(cookie, 77);
	reads += is_ok;
}

MADE_UP(bool, replica_obey, struct replica_worker *w, const struct replica_order *o)
{
	assert_ptr_equal(w, worker(1));
	if (!obeys)
		return false;
	obeyed = *o;
	orders_obeyed++;
	return true;
}

int __real_pthread_mutex_unlock(pthread_mutex_t *lock);
MADE_UP(int, pthread_mutex_unlock, pthread_mutex_t *lock)
{
	int rc = __real_pthread_mutex_unlock(lock);

	not_held += rc != 0;
	return rc;
}

static void wake(void *arg)
{
	++*(unsigned *)arg;
}

/* ------------------------------------------------------------------ connections */

static void test_up(void **state)
{
	(void)state;
	made_with.events.up(c, of(&bert));
	assert_string_equal(bert.closed, "this worker has too many connections with other members");
	assert_null(lane_of);
	takes_up = true;
	bert.closed = NULL;
	made_with.events.up(c, of(&bert));
	assert_null(bert.closed);
	assert_null(lane_of); /* the other end asked for it */
	assert_null(c->asked[0]);
	carl.is_asker = true;
	made_with.events.up(c, of(&carl));
	assert_ptr_equal(c->asked[0], of(&carl));
	assert_null(c->asked[1]);
	assert_ptr_equal(lane_of, &carl);
	assert_int_equal(lane_state, LANE_UP + 1);
	bert.is_asker = true;
	made_with.events.up(c, of(&bert));
	assert_ptr_equal(c->asked[1], of(&bert));
}

static void test_down(void **state)
{
	(void)state;
	takes_up = bert.is_asker = true;
	made_with.events.up(c, of(&bert));
	lane_of = NULL;
	said_begin();
	made_with.events.down(c, of(&carl), "carl is away");
	said_end();
	assert_int_equal(said_lines("worker 1: carl is away"), 1);
	assert_null(lane_of);
	assert_int_equal(downs, 1);
	assert_ptr_equal(c->asked[0], of(&bert));
	said_begin();
	made_with.events.down(c, of(&bert), "bert is away");
	said_end();
	assert_int_equal(downs, 2);
	assert_null(c->asked[0]);
	assert_ptr_equal(lane_of, &bert);
	assert_int_equal(lane_state, LANE_NONE + 1);
}

static void test_messages(void **state)
{
	(void)state;
	made_with.events.message(c, of(&bert), NULL);
	assert_string_equal(bert.closed, "it sent a worker what is not for one");
	bert.closed = NULL;
	takes_message = true;
	made_with.events.message(c, of(&bert), NULL);
	assert_null(bert.closed);
	assert_int_equal(heard, 2);
	made_with.events.read(c, of(&bert), 77, false);
	made_with.events.read(c, of(&bert), 77, true);
	assert_int_equal(reads, 1);
}

/* --------------------------------------------------------------------------- life */

static void test_life(void **state)
{
	(void)state;
	assert_ptr_equal(made_with.channel, &channel);
	assert_ptr_equal(made_with.pd, &pd);
	assert_ptr_equal(made_with.key, &s.options.key);
	assert_ptr_equal(made_with.name, s.name);
	assert_true(made_with.is_read);
	assert_true(fcntl(channel.fd, F_GETFL) & O_NONBLOCK);
	assert_int_equal(woken[1], 1);
	made_with.wake(made_with.wake_arg);
	assert_int_equal(woken[1], 2);
	assert_int_equal(crew_descriptor(c), channel.fd);
	crew_arm(c);
	assert_int_equal(armed, 1);
	crew_woken(c);
	assert_int_equal(taken, 1);
	crew_flush(c);
	assert_int_equal(flushed, 1);
	crew_wake(&s);
	for (unsigned i = 0; i < WORKERS; i++)
		assert_int_equal(woken[i], i == 1 ? 3 : 1);
	crew_delete(c);
	assert_int_equal(deleted, 3);
	s.crew[2].shard = NULL;
	crew_delete(&s.crew[2]); /* which there is not */
	assert_int_equal(deleted, 3);
}

static void test_not_made(void **state)
{
	(void)state;
	fails = PORT;
	assert_int_equal(crew_new(&s, 1, &err), -1);
	assert_string_equal(err.text, "no port");
	fails = REPLICA;
	assert_int_equal(crew_new(&s, 1, &err), -1);
	assert_string_equal(err.text, "no worker");
	fails = CHANNEL;
	assert_int_equal(crew_new(&s, 1, &err), -1);
	assert_non_null(strstr(err.text, "can't create a completion channel"));
	deleted = 0;
	c->replica = NULL;
	c->port = NULL;
	crew_delete(c);
	assert_int_equal(deleted, 0);
}

/* At its end until all connections are. */
static void test_leave(void **state)
{
	(void)state;
	busy = 3;
	crew_leave(c);
	assert_string_equal(ended, "kvd stops");
	assert_int_equal(busy, 0);
	assert_true(flushed >= 3);
}

static void test_copies(void **state)
{
	(void)state;
	crew_copy(c);
	assert_int_equal(copied, 0);
	assert_false(crew_waits(c));
	copies = true;
	crew_copy(c);
	assert_int_equal(copied, 1);
	assert_true(crew_waits(c));
	copies = false;
	parked = true;
	assert_true(crew_waits(c));
}

/* ------------------------------------------------------------------------- orders */

static void order(enum replica_order_kind kind, uint64_t number)
{
	crew_order(&s, &(struct replica_order){ .kind = kind, .epoch = 5 }, number);
}

/* The others obey. */
static void others_obey(void)
{
	for (uint64_t i = s.done; i < s.ordered; i++)
		if (s.orders[i % SHARD_ORDERS].left == WORKERS)
			s.orders[i % SHARD_ORDERS].left = 1;
}

static bool is_told(void)
{
	eventfd_t value;

	return !eventfd_read(s.wake_fd, &value);
}

static void test_orders(void **state)
{
	(void)state;
	obeys = true;
	assert_true(crew_is_idle(&s));
	assert_false(crew_poll(c));
	polled = true;
	assert_true(crew_poll(c));
	polled = false;
	order(REPLICA_HOLD, 41);
	for (unsigned i = 0; i < WORKERS; i++)
		assert_int_equal(woken[i], i == 1 ? 2 : 1);
	assert_false(crew_is_idle(&s));
	assert_int_equal(s.orders[0].left, WORKERS);
	assert_true(crew_poll(c));
	assert_int_equal(orders_obeyed, 1);
	assert_int_equal(obeyed.kind, REPLICA_HOLD);
	assert_int_equal(obeyed.epoch, 5);
	assert_int_equal(obeyed.serial, 1);
	assert_int_equal(s.orders[0].left, WORKERS - 1);
	assert_false(is_told());
	assert_int_equal(crew_obeyed(&s), 0);
	assert_false(crew_poll(c)); /* once */
	assert_int_equal(orders_obeyed, 1);
	order(REPLICA_SEEN, 0);
	order(REPLICA_SEAL, 42);
	others_obey();
	s.orders[0].left = 0;
	assert_true(crew_poll(c));
	assert_int_equal(obeyed.kind, REPLICA_SEAL);
	assert_int_equal(obeyed.serial, 3);
	assert_true(is_told());
	assert_int_equal(crew_obeyed(&s), 41);
	assert_false(crew_is_idle(&s));
	assert_int_equal(crew_obeyed(&s), 42);
	assert_true(crew_is_idle(&s));
	assert_int_equal(crew_obeyed(&s), 0);
}

/* In order: what can't be obeyed yet is tried again, and those behind it wait. */
static void test_not_yet(void **state)
{
	(void)state;
	order(REPLICA_HOLD, 41);
	order(REPLICA_SEAL, 42);
	others_obey();
	assert_true(crew_poll(c));
	assert_int_equal(orders_obeyed, 0);
	obeys = true;
	assert_true(crew_poll(c));
	assert_int_equal(orders_obeyed, 2);
	assert_int_equal(crew_obeyed(&s), 41);
	assert_int_equal(crew_obeyed(&s), 42);
}

/* Some are obeyed once, and done later. */
static void expect_later(enum replica_order_kind kind, enum records_role role, bool *until, bool is)
{
	static uint64_t number;

	orders_obeyed = 0;
	*until = !is;
	crew_order(&s, &(struct replica_order){ .kind = kind, .role = role }, ++number);
	others_obey();
	for (unsigned i = 0; i < 3; i++) {
		assert_true(crew_poll(c));
		assert_int_equal(orders_obeyed, 1);
		assert_int_equal(crew_obeyed(&s), 0);
	}
	*until = is;
	assert_true(crew_poll(c));
	assert_int_equal(orders_obeyed, 1);
	assert_int_equal(crew_obeyed(&s), number);
	assert_false(crew_poll(c));
}

static void test_later(void **state)
{
	(void)state;
	obeys = true;
	expect_later(REPLICA_EMPTY, RECORDS_OUT, &emptied, true);
	expect_later(REPLICA_RESOLVE, RECORDS_BACKUP, &writing, false);
	/* Of who is primary no more, when its own changes have come back. */
	for (unsigned i = 0; i < 3; i++) {
		const enum records_role role = i == 0 ? RECORDS_OUT : i == 1 ? RECORDS_BACKUP : RECORDS_PRIMARY;
		store_workers[1].commits = 2;
		crew_order(&s, &(struct replica_order){ .kind = REPLICA_EPOCH, .role = role }, 50 + i);
		others_obey();
		crew_poll(c);
		assert_int_equal(crew_obeyed(&s), role == RECORDS_PRIMARY ? 50 + i : 0);
		store_workers[1].commits = 0;
		crew_poll(c);
		assert_int_equal(crew_obeyed(&s), role == RECORDS_PRIMARY ? 0 : 50 + i);
	}
}

static unsigned seat = REPLICA_PEERS_MAX - 1; /* carl's */

/* The connections that it asked for as primary, and that are of no use any more. */
static void expect_hung_up(enum replica_order_kind kind, enum records_role role, bool has_bert, bool has_carl)
{
	struct replica_order o = { .kind = kind, .role = role };

	strcpy(o.seats[seat].name, "carl");
	bert.closed = carl.closed = NULL;
	crew_order(&s, &o, 1);
	others_obey();
	crew_poll(c);
	assert_int_equal(bert.closed == NULL, has_bert);
	assert_int_equal(carl.closed == NULL, has_carl);
	assert_true(has_bert || !strcmp(bert.closed, "it is not sent changes any more"));
	crew_obeyed(&s);
}

static void test_hang_up(void **state)
{
	(void)state;
	obeys = true;
	c->asked[0] = of(&carl);
	c->asked[LINK_PEERS_MAX - 1] = of(&bert);
	expect_hung_up(REPLICA_HOLD, RECORDS_OUT, true, true);
	expect_hung_up(REPLICA_AWAIT, RECORDS_OUT, false, true);
	expect_hung_up(REPLICA_EPOCH, RECORDS_PRIMARY, false, true);
	expect_hung_up(REPLICA_EPOCH, RECORDS_BACKUP, false, false);
	expect_hung_up(REPLICA_EPOCH, RECORDS_OUT, false, false);
	seat = 0;
	expect_hung_up(REPLICA_AWAIT, RECORDS_OUT, false, true);
}

/* A ring of so many: those that say what is seen leave half of it for others. */
static void test_full(void **state)
{
	(void)state;
	for (unsigned i = 0; i < SHARD_ORDERS; i++)
		order(REPLICA_SEEN, 0);
	assert_int_equal(s.ordered, SHARD_ORDERS / 2);
	for (unsigned i = 0; i < SHARD_ORDERS / 2; i++)
		order(REPLICA_HOLD, 60 + i);
	assert_int_equal(s.ordered, SHARD_ORDERS);
	assert_false(s.is_unfit);
	order(REPLICA_SEEN, 0);
	assert_false(s.is_unfit);
	order(REPLICA_HOLD, 0);
	assert_int_equal(s.ordered, SHARD_ORDERS);
	assert_true(s.is_unfit);
	assert_string_equal(s.why, "a worker stands still: it takes no orders");
	assert_true(is_told());
	obeys = true;
	others_obey();
	crew_poll(c);
	assert_int_equal(orders_obeyed, SHARD_ORDERS);
	for (unsigned i = 0; i < SHARD_ORDERS / 2; i++)
		assert_int_equal(crew_obeyed(&s), 60 + i);
	assert_int_equal(crew_obeyed(&s), 0);
	assert_true(crew_is_idle(&s));
	order(REPLICA_SEAL, 99); /* over the ring's end */
	others_obey();
	crew_poll(c);
	assert_int_equal(obeyed.kind, REPLICA_SEAL);
	assert_int_equal(crew_obeyed(&s), 99);
}

/* -------------------------------------------------------------------------- group */

static int set_up(void **state)
{
	pthread_mutexattr_t checked;
	int ends[2];

	(void)state;
	memset(&s, 0, sizeof s);
	memset(store_workers, 0, sizeof store_workers);
	assert_int_equal(pipe(ends), 0);
	channel.fd = ends[0];
	close(ends[1]);
	device.verbs = &made_up;
	s.options.device = &device;
	s.options.pd = &pd;
	s.options.worker_count = WORKERS;
	s.options.wake = wake;
	s.replica = (struct replica *)(void *)&channel;
	s.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	pthread_mutexattr_init(&checked);
	pthread_mutexattr_settype(&checked, PTHREAD_MUTEX_ERRORCHECK);
	pthread_mutex_init(&s.lock, &checked);
	pthread_mutexattr_destroy(&checked);
	fails = NOTHING;
	takes_up = takes_message = obeys = emptied = writing = copies = parked = polled = false;
	heard = reads = downs = armed = taken = flushed = copied = deleted = busy = lane_state = orders_obeyed = 0;
	serial = 0;
	lane_of = NULL;
	bert = (struct fake){ .name = "bert" };
	carl = (struct fake){ .name = "carl" };
	for (unsigned i = 0; i < WORKERS; i++) {
		woken[i] = 0;
		s.options.wake_args[i] = &woken[i];
		s.options.workers[i] = &store_workers[i];
		s.crew[i].shard = i == 1 ? NULL : &s; /* it is made */
		s.crew[i].index = i == 1 ? 0 : i;
	}
	assert_int_equal(crew_new(&s, 1, &err), 0);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	assert_int_equal(not_held, 0);
	close(s.wake_fd);
	pthread_mutex_destroy(&s.lock);
	return close(channel.fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
		TEST(test_up), TEST(test_down), TEST(test_messages), TEST(test_life), TEST(test_not_made),
		TEST(test_leave), TEST(test_copies), TEST(test_orders), TEST(test_not_yet), TEST(test_later),
		TEST(test_hang_up), TEST(test_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
