/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * server/cluster/replica with four workers at each of two members, each a thread.  The test's own
 * thread is the clusters' of both: it gives the orders of take-overs, and of copies to a member whose
 * table was emptied, while the workers change keys, send, apply and acknowledge.  At the end both
 * tables are the same.  For ThreadSanitizer, too.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "server/cluster/link/door.h"
#include "server/cluster/link/peer.h"
#include "server/cluster/link/port.h"
#include "server/cluster/replica/begin.h"
#include "server/cluster/replica/copy.h"
#include "server/cluster/replica/empty.h"
#include "server/cluster/replica/order.h"
#include "server/cluster/replica/replica.h"
#include "tests/lib/fixture.h"

#define WORKERS 4u
#define KEYS 300u
#define UNDER_WAY 16u
#define REIGNS 12u
#define LIMIT_NS 120000000000ull
#define MEMBER 1u

struct post {
	struct post *next;
	struct replica_order order;
};

struct worker {
	struct member *member;
	unsigned index;
	pthread_t thread;
	struct link_port *port;
	struct replica_worker *replica;
	struct link_peer *peer;
	uint64_t seed;
	unsigned under_way;
	_Atomic uint64_t done, unknown, rounds;
	_Atomic bool is_up, is_ended;

	pthread_mutex_t lock;
	struct post *posts, **posts_end;
	bool is_emptying;
};

struct member {
	const char *name;
	struct device device;
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct link_key key;
	struct link_door *door;
	struct fixture f;
	struct replica *replica;
	struct replica_seat other;
	uint64_t incarnation, copies;
	struct worker workers[WORKERS];
	_Atomic bool serves, ends;
	_Atomic unsigned faults;
};

static struct member a, b;

/* -------------------------------------------------------------------- a worker */
static void up(void *arg, struct link_peer *p)
{
	struct worker *w = arg;

	w->peer = p;
	if (!replica_up(w->replica, p))
		w->member->faults++;
	w->is_up = true;
}

static void message(void *arg, struct link_peer *p, struct link_reader *r)
{
	struct worker *w = arg;

	if (!replica_heard(w->replica, p, r))
		w->member->faults++;
}

static void read_done(void *arg, struct link_peer *p, uint64_t cookie, bool is_ok)
{
	struct worker *w = arg;

	(void)p;
	replica_read(w->replica, cookie, is_ok);
}

static void down(void *arg, struct link_peer *p, const char *why)
{
	struct worker *w = arg;

	if (!w->member->ends) {
		print_message("%s: %s\n", w->member->name, why);
		w->member->faults++;
	}
	w->peer = NULL;
	replica_down(w->replica, p);
}

static void unfit(void *arg, const char *why)
{
	struct member *m = arg;

	print_message("%s: %s\n", m->name, why);
	m->faults++;
}

static void wake(void *arg)
{
	(void)arg;
}

static void obey(struct worker *w)
{
	struct post *p;

	if (w->is_emptying && !replica_empty(w->replica))
		return;
	w->is_emptying = false;
	pthread_mutex_lock(&w->lock);
	p = w->posts;
	if (p && !(w->posts = p->next))
		w->posts_end = &w->posts;
	pthread_mutex_unlock(&w->lock);
	if (!p)
		return;
	replica_obey(w->replica, &p->order);
	w->is_emptying = p->order.kind == REPLICA_EMPTY;
	free(p);
}

static void change(struct worker *w)
{
	struct store_worker *s = &w->member->f.worker[w->index];
	static const uint8_t value[20000];
	uint64_t drawn = fixture_random(&w->seed);
	struct store_change c = { .value = value };
	struct store_result r;
	char key[16];

	snprintf(key, sizeof key, "key%u", (unsigned)(drawn % KEYS));
	c.key = key;
	c.key_bytes = (unsigned)strlen(key);
	c.hash = hash_key(s->store->table->hash_seed, key, c.key_bytes);
	c.value_bytes = drawn >> 32 & 15 ? drawn >> 40 & 1023 : sizeof value;
	int status = drawn >> 36 & 7 ? store_put(s, &c, &r) : store_remove(s, &c, &r);
	w->under_way += status == STORE_COMMIT;
}

static void come_back(struct worker *w)
{
	struct store_worker *s = &w->member->f.worker[w->index];
	struct durable_op *op, *next;
	struct store_result r;

	for (op = durable_port_take(&s->port); op; op = next) {
		next = op->next;
		int status = commit_end(s, (struct commit *)op, &r);

		if (status == WIRE_EUNKNOWN)
			continue;
		w->under_way--;
		w->done += status == WIRE_OK;
		w->unknown += status == STORE_SILENT;
	}
}

static void *run(void *arg)
{
	struct worker *w = arg;
	struct member *m = w->member;

	while (!m->ends || !link_port_is_empty(w->port)) {
		bool has = link_port_poll(w->port, clock_ns());

		obey(w);
		if (m->serves && w->under_way < UNDER_WAY)
			change(w);
		replica_flush(w->replica);
		come_back(w);
		replica_copy(w->replica, clock_ns());
		if (m->ends)
			link_port_end(w->port, "the test is over");
		w->rounds++;
		if (!has)
			sched_yield();
	}
	w->is_ended = true;
	return NULL;
}

/* -------------------------------------------------------------------- the members */
static struct link_port *port_of(void *arg, const struct link_lane *lane)
{
	struct member *m = arg;

	return lane->number && lane->number <= WORKERS ? m->workers[lane->number - 1].port : NULL;
}

static void failed(void *arg, const struct addr *to, const struct link_lane *lane, const char *why)
{
	struct member *m = arg;

	(void)to;
	(void)lane;
	print_message("%s: %s\n", m->name, why);
	m->faults++;
}

static void open_worker(struct member *m, unsigned i)
{
	struct worker *w = &m->workers[i];
	struct err err;

	*w = (struct worker){ .member = m, .index = i, .seed = i + 1 };
	pthread_mutex_init(&w->lock, NULL);
	w->posts_end = &w->posts;
	durable_port_init(&m->f.worker[i].port, wake, NULL);
	struct link_port_options o = {
		.verbs = m->device.verbs, .pd = m->pd, .key = &m->key, .name = m->name,
		.is_read = true, .events = { up, message, read_done, NULL, down, w },
	};
	if (link_port_new(&o, &w->port, &err) ||
	    replica_worker_new(m->replica, &m->f.worker[i], wake, NULL, &w->replica, &err))
		fail_msg("%s", err.text);
}

static void open_device(struct member *m, const struct addr *addr)
{
	struct err err;

	if (device_choose(&m->device, NULL, addr, &err))
		fail_msg("%s", err.text);
	const struct verbs *v = m->device.verbs;
	assert_int_equal(v->create_id(NULL, &m->id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(v->bind_addr(m->id, (struct sockaddr *)(uintptr_t)&addr->sa), 0);
	m->pd = v->alloc_pd(m->id->verbs);
	assert_non_null(m->pd);
	fixture_new(&m->f, 64 << 20, WORKERS);
	m->mr = v->reg_mr(m->pd, m->f.table->base, m->f.table->bytes,
			  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	assert_non_null(m->mr);
	m->f.table->mr[0] = m->mr;
	m->f.table->lkey[0] = m->mr->lkey;
}

static void open_member(struct member *m, const char *name, const struct link_key *key,
			uint64_t incarnation, const struct replica_seat *other)
{
	struct addr any;
	struct err err;

	*m = (struct member){ .name = name, .key = *key, .other = *other,
			      .incarnation = incarnation };
	assert_int_equal(addr_parse(&any, "127.0.0.1:0", &err), 0);
	open_device(m, &any);
	if (replica_new(&(struct replica_options){ .store = m->f.store, .incarnation = incarnation,
						  .unfit = unfit, .arg = m },
			&m->replica, &err))
		fail_msg("%s", err.text);
	for (unsigned i = 0; i < WORKERS; i++)
		open_worker(m, i);
	struct link_door_options door = { .device = &m->device, .pd = m->pd, .device_port = 1,
					  .listen = &any, .port = port_of, .failed = failed,
					  .arg = m };
	if (link_door_new(&door, &m->door, &err))
		fail_msg("%s", err.text);
	for (unsigned i = 0; i < WORKERS; i++)
		assert_int_equal(pthread_create(&m->workers[i].thread, NULL, run, &m->workers[i]), 0);
}

static void poll_doors(void)
{
	link_door_poll(a.door, clock_ns());
	link_door_poll(b.door, clock_ns());
	sched_yield();
}

static void close_member(struct member *m)
{
	for (unsigned i = 0; i < WORKERS; i++)
		pthread_join(m->workers[i].thread, NULL);
	link_door_delete(&m->door);
	for (unsigned i = 0; i < WORKERS; i++) {
		link_port_delete(&m->workers[i].port);
		replica_worker_delete(&m->workers[i].replica);
		pthread_mutex_destroy(&m->workers[i].lock);
	}
	replica_delete(&m->replica);
	m->device.verbs->dereg_mr(m->mr);
	m->f.table->mr[0] = NULL;
	fixture_delete(&m->f);
	m->device.verbs->dealloc_pd(m->pd);
	m->device.verbs->destroy_id(m->id);
}

/* -------------------------------------------------------------------- orders */
static void wait_for(bool (*is_so)(struct member *m), struct member *m, const char *what)
{
	uint64_t end = clock_ns() + LIMIT_NS;

	while (!is_so(m)) {
		poll_doors();
		if (clock_ns() > end)
			fail_msg("%s: %s: not within two minutes", m->name, what);
	}
}

static bool have_obeyed(struct member *m)
{
	for (unsigned i = 0; i < WORKERS; i++) {
		pthread_mutex_lock(&m->workers[i].lock);
		bool has = m->workers[i].posts;
		pthread_mutex_unlock(&m->workers[i].lock);
		if (has)
			return false;
	}
	return true;
}

/* Each has made whole rounds since it was told: what an order ended has come back. */
static void after_a_round(struct member *m)
{
	for (unsigned i = 0; i < WORKERS; i++)
		for (uint64_t was = m->workers[i].rounds; m->workers[i].rounds < was + 2;)
			poll_doors();
}

static void order(struct member *m, const struct replica_order *o)
{
	struct replica_order copy = *o;

	copy.serial = replica_order_serial(m->replica);
	copy.seats[0] = m->other;
	copy.incarnation = m->incarnation;
	for (unsigned i = 0; i < WORKERS; i++) {
		struct worker *w = &m->workers[i];
		struct post *p = malloc(sizeof *p);

		assert_non_null(p);
		*p = (struct post){ .order = copy };
		pthread_mutex_lock(&w->lock);
		*w->posts_end = p;
		w->posts_end = &p->next;
		pthread_mutex_unlock(&w->lock);
	}
	wait_for(have_obeyed, m, "an order");
	after_a_round(m);
}

static void epoch(struct member *m, uint64_t number, enum records_role role)
{
	order(m, &(struct replica_order){ .kind = REPLICA_EPOCH, .epoch = number, .reign = number,
					  .role = role,
					  .members = role == RECORDS_PRIMARY ? MEMBER : 0 });
}

static void begin(struct member *primary, struct member *backup, uint64_t number)
{
	static uint8_t memory[2][LINK_BYTES_MAX] __attribute__((aligned(8)));
	enum replica_answered answered;
	struct link_writer open, answer;
	struct link_reader r;
	const char *why;

	assert_true(replica_ask(backup->replica, number));
	do {
		link_begin(&open, memory[0], LINK_OPEN, number, 0, 0, number);
		replica_put_question(backup->replica, &open);
		assert_int_equal(link_open(&r, memory[0], link_length(&open), &why), 0);
		link_begin(&answer, memory[1], LINK_BEGIN, number, 0, 0, number);
		assert_true(replica_answer(primary->replica, &r, &answer));
		assert_int_equal(link_open(&r, memory[1], link_length(&answer), &why), 0);
		answered = replica_answered(backup->replica, &r);
	} while (answered == REPLICA_ANSWERED_PART);
	assert_int_equal(answered, REPLICA_ANSWERED_WHOLE);
	order(backup, &(struct replica_order){ .kind = REPLICA_RESOLVE, .number = number });
	order(primary, &(struct replica_order){ .kind = REPLICA_BEGUN_BY, .members = MEMBER });
}

static bool is_settled(struct member *m)
{
	return replica_is_settled(m->replica);
}

static void reign(struct member *primary, struct member *backup, uint64_t number)
{
	order(primary, &(struct replica_order){ .kind = REPLICA_SEAL });
	backup->serves = false;
	epoch(primary, number, RECORDS_PRIMARY);
	epoch(backup, number, RECORDS_BACKUP);
	begin(primary, backup, number);
	wait_for(is_settled, primary, "settled");
	order(primary, &(struct replica_order){ .kind = REPLICA_SHOW });
	primary->serves = true;
}

/* -------------------------------------------------------------------- a copy */
static bool is_copied(struct member *m)
{
	return replica_is_copied(m->replica, m->copies);
}

static bool is_empty(struct member *m)
{
	return !index_keys(m->f.store->index);
}

/* The backup is left out, becomes empty, and is copied to while changes go on. */
static void rejoin(struct member *primary, struct member *backup, uint64_t number, bool is_given_up)
{
	order(backup, &(struct replica_order){ .kind = REPLICA_EPOCH, .epoch = number,
					       .reign = number, .role = RECORDS_OUT });
	order(primary, &(struct replica_order){ .kind = REPLICA_AWAIT });
	order(backup, &(struct replica_order){ .kind = REPLICA_EMPTY });
	wait_for(is_empty, backup, "empty");
	after_a_round(backup);
	backup->incarnation++;
	primary->other.incarnation = backup->incarnation;
	epoch(backup, number, RECORDS_BACKUP);
	order(backup, &(struct replica_order){ .kind = REPLICA_RESOLVE });
	order(primary, &(struct replica_order){ .kind = REPLICA_AWAIT, .members = MEMBER });
	order(primary, &(struct replica_order){ .kind = REPLICA_BEGUN_BY, .members = MEMBER });
	order(primary, &(struct replica_order){ .kind = REPLICA_COPY, .members = MEMBER,
						.number = ++primary->copies });
	if (is_given_up)
		rejoin(primary, backup, number, false);
	else
		wait_for(is_copied, primary, "copied");
}

/* -------------------------------------------------------------------- the case */
static uint64_t done_at(const struct member *m)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < WORKERS; i++)
		n += m->workers[i].done;
	return n;
}

static bool are_all_up(struct member *m)
{
	for (unsigned i = 0; i < WORKERS; i++)
		if (!m->workers[i].is_up)
			return false;
	return true;
}

static void connect_them(void)
{
	struct err err;

	for (uint32_t i = 1; i <= WORKERS; i++)
		if (link_door_connect(a.door, link_door_addr(b.door), &(struct link_lane){ 0, i },
				      clock_ns(), &err))
			fail_msg("%s", err.text);
	wait_for(are_all_up, &a, "connections");
	wait_for(are_all_up, &b, "connections");
}

static bool is_quiet(struct member *m)
{
	return !replica_visible(m->replica) || replica_is_settled(m->replica);
}

static void expect_same(void)
{
	static uint8_t value[2][32768];
	uint64_t version[2];
	size_t bytes[2];
	char key[16];

	for (unsigned i = 0; i < KEYS; i++) {
		snprintf(key, sizeof key, "key%u", i);
		int of_a = fixture_get(&a.f.worker[0], key, strlen(key), value[0], sizeof value[0],
				       &bytes[0], &version[0]);
		int of_b = fixture_get(&b.f.worker[0], key, strlen(key), value[1], sizeof value[1],
				       &bytes[1], &version[1]);

		assert_int_equal(of_a, of_b);
		if (of_a != WIRE_OK)
			continue;
		assert_int_equal(version[0], version[1]);
		assert_int_equal(bytes[0], bytes[1]);
		assert_memory_equal(value[0], value[1], bytes[0]);
	}
}

static bool have_ended(struct member *m)
{
	for (unsigned i = 0; i < WORKERS; i++)
		if (!m->workers[i].is_ended)
			return false;
	return true;
}

static void test_take_overs(void **state)
{
	struct member *primary = &b, *backup = &a;
	uint64_t number = 0;
	struct link_key key;

	(void)state;
	assert_int_equal(auth_init(), 0);
	auth_new(&key.secret, &key.key);
	open_member(&a, "anna", &key, 0xa1, &(struct replica_seat){ "bert", 0xb2 });
	open_member(&b, "bert", &key, 0xb2, &(struct replica_seat){ "anna", 0xa1 });
	connect_them();
	while (number++ < REIGNS) {
		struct member *other = primary;

		primary = backup;
		backup = other;
		reign(primary, backup, number);
		if (number % 2)
			rejoin(primary, backup, number, number % 3);
		for (uint64_t until = done_at(primary) + 500, end = clock_ns() + LIMIT_NS;
		     done_at(primary) < until;) {
			poll_doors();
			assert_true(clock_ns() < end);
		}
		assert_int_equal(a.faults + b.faults, 0);
	}
	primary->serves = false;
	wait_for(is_quiet, primary, "quiet");
	after_a_round(primary);
	order(backup, &(struct replica_order){ .kind = REPLICA_SEEN, .epoch = REIGNS,
					       .number = replica_visible(primary->replica) });
	a.ends = b.ends = true;
	wait_for(have_ended, &a, "its end");
	wait_for(have_ended, &b, "its end");
	for (unsigned i = 0; i < WORKERS; i++)
		assert_int_equal(a.workers[i].under_way + b.workers[i].under_way, 0);
	expect_same();
	close_member(&a);
	close_member(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_take_overs) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
