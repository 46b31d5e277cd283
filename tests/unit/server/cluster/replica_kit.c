/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "server/cluster/replica/begin.h"
#include "server/cluster/replica/copy.h"
#include "server/cluster/replica/empty.h"
#include "server/store/reclaim/evict.h"
#include "tests/unit/server/cluster/replica_kit.h"

struct kit_member a, b;

static void up(void *arg, struct link_peer *p)
{
	struct kit_member *m = arg;

	assert_true(replica_up(m->worker, p));
}

static void message(void *arg, struct link_peer *p, struct link_reader *r)
{
	struct kit_member *m = arg;

	m->heard++;
	assert_true(replica_heard(m->worker, p, r));
}

static void read_done(void *arg, struct link_peer *p, uint64_t cookie, bool is_ok)
{
	struct kit_member *m = arg;

	(void)p;
	m->reads++;
	replica_read(m->worker, cookie, is_ok);
}

static void down(void *arg, struct link_peer *p, const char *why)
{
	struct kit_member *m = arg;

	(void)why;
	replica_down(m->worker, p);
}

static void unfit(void *arg, const char *why)
{
	struct kit_member *m = arg;

	snprintf(m->unfit, sizeof m->unfit, "%s", why);
}

static void completed(void *arg, const struct durable_fate *fate, uint64_t reign)
{
	struct kit_member *m = arg;

	(void)reign;
	m->completed++;
	m->fate = *fate;
}

static void wake(void *arg)
{
	(void)arg;
}

static void open_member(struct kit_member *m, const char *name, const struct link_key *key,
			bool listens, uint64_t incarnation, const struct replica_seat *other)
{
	struct err err;

	memset(m, 0, sizeof *m);
	kit_open(&m->side, name, key, listens);
	fixture_new(&m->f, 64 << 20, 1);
	m->mr = m->side.device.verbs->reg_mr(m->side.pd, m->f.table->base, m->f.table->bytes,
					     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	assert_non_null(m->mr);
	m->f.table->mr[0] = m->mr;
	m->f.table->lkey[0] = m->mr->lkey;
	m->other = *other;
	m->incarnation = incarnation;
	durable_port_init(&m->f.worker[0].port, wake, NULL);
	if (replica_new(&(struct replica_options){ .store = m->f.store, .incarnation = incarnation,
						  .unfit = unfit, .completed = completed, .arg = m },
			&m->replica, &err) ||
	    replica_worker_new(m->replica, &m->f.worker[0], wake, NULL, &m->worker, &err))
		fail_msg("%s", err.text);
	m->side.events = (struct link_events){ up, message, read_done, NULL, down, m };
}

static void close_member(struct kit_member *m)
{
	replica_worker_delete(&m->worker);
	replica_delete(&m->replica);
	m->f.table->mr[0] = NULL;
	fixture_delete(&m->f);
}

static bool are_up(void *arg)
{
	(void)arg;
	return a.side.peer && b.side.peer;
}

void kit_connect_them(void)
{
	kit_connect(&a.side, link_door_addr(b.side.door), 1);
	kit_until(&a.side, &b.side, are_up, NULL, "two members are up");
}

/* As a worker's crew says. */
static bool is_obeyed(const struct kit_member *m, const struct replica_order *o)
{
	if (o->kind == REPLICA_RESOLVE)
		return !replica_is_writing(m->worker);
	return o->kind != REPLICA_EPOCH || o->role == RECORDS_PRIMARY || !m->f.worker[0].commits;
}

static void obey(struct kit_member *m, const struct replica_order *o)
{
	uint64_t end = clock_ns() + KIT_LIMIT_NS;

	while (!replica_obey(m->worker, o) && clock_ns() < end)
		replica_flush(m->worker);
	while (!is_obeyed(m, o) && clock_ns() < end)
		kit_step(m);
	assert_true(is_obeyed(m, o));
}

void kit_epoch(struct kit_member *m, uint64_t epoch, uint64_t reign, enum records_role role,
	       uint32_t members)
{
	obey(m, &(struct replica_order){
		.serial = replica_order_serial(m->replica), .kind = REPLICA_EPOCH, .epoch = epoch,
		.reign = reign, .role = role, .members = members, .incarnation = m->incarnation,
		.seats = { m->other } });
	m->epoch = epoch;
}

void kit_order(struct kit_member *m, enum replica_order_kind kind, uint64_t number, uint32_t members)
{
	obey(m, &(struct replica_order){
		.serial = replica_order_serial(m->replica), .kind = kind, .epoch = m->epoch,
		.number = number, .members = members, .seats = { m->other } });
}

int kit_setup(void **state)
{
	struct link_key key;

	(void)state;
	kit_later_ns = 0;
	kit_key(&key);
	open_member(&a, "anna", &key, false, PRIMARY, &(struct replica_seat){ "bert", BACKUP });
	open_member(&b, "bert", &key, true, BACKUP, &(struct replica_seat){ "anna", PRIMARY });
	kit_connect_them();
	kit_epoch(&a, 1, 1, RECORDS_PRIMARY, MEMBER);
	kit_epoch(&b, 1, 1, RECORDS_BACKUP, 0);
	kit_order(&a, REPLICA_SHOW, 0, 0);
	kit_order(&b, REPLICA_RESOLVE, 0, 0);
	kit_order(&a, REPLICA_BEGUN_BY, 0, MEMBER);
	return 0;
}

int kit_teardown(void **state)
{
	(void)state;
	a.side.is_frozen = b.side.is_frozen = false;
	/* Before the memory goes what is READ into it ends. */
	link_port_end(a.side.port, "the test is over");
	link_port_end(b.side.port, "the test is over");
	while (!link_port_is_empty(a.side.port) || !link_port_is_empty(b.side.port))
		kit_poll(&a.side, &b.side);
	a.side.device.verbs->dereg_mr(a.mr);
	b.side.device.verbs->dereg_mr(b.mr);
	kit_close(&a.side, &b.side);
	close_member(&a);
	close_member(&b);
	return 0;
}

/* What came to nothing is taken back in two steps: it comes here once more. */
static void come_back(struct kit_member *m, struct durable_op *op)
{
	struct store_worker *w = &m->f.worker[0];
	struct store_result r;
	unsigned evictions = w->evictions;
	int status = commit_end(w, (struct commit *)op, &r);

	if (status == WIRE_EUNKNOWN || w->evictions != evictions)
		return;
	m->under_way--;
	if (status == STORE_SILENT)
		m->unknown++;
	else
		m->done += status == WIRE_OK;
	m->elsewhere += status == WIRE_EELSEWHERE;
	m->no_disk += status == WIRE_EDISK;
	assert_true(status == STORE_SILENT || status == WIRE_OK || status == WIRE_EELSEWHERE ||
		    status == WIRE_EDISK);
}

void kit_step(struct kit_member *m)
{
	struct durable_op *op, *next;

	if (m->side.is_frozen)
		return;
	replica_flush(m->worker);
	evict_round(&m->f.worker[0]);
	for (op = durable_port_take(&m->f.worker[0].port); op; op = next) {
		next = op->next;
		come_back(m, op);
	}
	replica_copy(m->worker, clock_ns());
}

void kit_turn(void)
{
	kit_poll(&a.side, &b.side);
	kit_step(&a);
	kit_step(&b);
}

void kit_turns(unsigned n)
{
	while (n--)
		kit_turn();
}

void kit_finish(void)
{
	uint64_t end = clock_ns() + KIT_LIMIT_NS;

	while (a.under_way || b.under_way) {
		kit_turn();
		if (clock_ns() > end)
			fail_msg("%u changes have not come back; %s; %s", a.under_way + b.under_way,
				 a.side.why, b.side.why);
	}
}

struct store_change kit_change_of(struct kit_member *m, const char *key)
{
	return (struct store_change){ .hash = hash_key(m->f.table->hash_seed, key, strlen(key)),
				      .key = key, .key_bytes = (unsigned)strlen(key) };
}

void kit_put(struct kit_member *m, const char *key, const void *value, size_t bytes)
{
	struct store_change c = kit_change_of(m, key);
	struct store_result r;
	int status;

	c.value = value;
	c.value_bytes = bytes;
	while ((status = store_put(&m->f.worker[0], &c, &r)) == STORE_ASIDE)
		kit_turn();
	assert_int_equal(status, STORE_COMMIT);
	m->under_way++;
}

void kit_remove(struct kit_member *m, const char *key)
{
	struct store_change c = kit_change_of(m, key);
	struct store_result r;
	int status;

	while ((status = store_remove(&m->f.worker[0], &c, &r)) == STORE_ASIDE)
		kit_turn();
	m->under_way += status == STORE_COMMIT;
	assert_true(status == STORE_COMMIT || status == WIRE_NOT_FOUND);
}

static uint8_t value_a[2 << 20], value_b[2 << 20];

static int get(struct kit_member *m, const char *key, uint8_t *value, size_t *bytes, uint64_t *version)
{
	return fixture_get(&m->f.worker[0], key, strlen(key), value, sizeof value_b, bytes,
			   version);
}

void kit_has_value(struct kit_member *m, const char *key, const char *value)
{
	size_t bytes;
	uint64_t version;
	int status = get(m, key, value_b, &bytes, &version);

	if (!value) {
		assert_int_equal(status, WIRE_NOT_FOUND);
		return;
	}
	assert_int_equal(status, WIRE_OK);
	assert_int_equal(bytes, strlen(value));
	assert_memory_equal(value_b, value, bytes);
}

void kit_expect_same(const char *key)
{
	size_t bytes[2];
	uint64_t version[2];
	int of_a = get(&a, key, value_a, &bytes[0], &version[0]);
	int of_b = get(&b, key, value_b, &bytes[1], &version[1]);

	assert_int_equal(of_a, of_b);
	if (of_a != WIRE_OK)
		return;
	assert_int_equal(bytes[0], bytes[1]);
	assert_int_equal(version[0], version[1]);
	assert_memory_equal(value_a, value_b, bytes[0]);
}

void kit_expect_all_same(struct kit_member *primary, struct kit_member *backup)
{
	char key[16];

	kit_order(backup, REPLICA_SEEN, replica_visible(primary->replica), 0);
	for (unsigned i = 0; i < KEYS; i++) {
		snprintf(key, sizeof key, "key%u", i);
		kit_expect_same(key);
	}
	assert_string_equal(backup->unfit, "");
}

void kit_change_something(struct kit_member *m, uint64_t *seed)
{
	static uint8_t value[REPLICA_INLINE_MAX + LONG_BYTES + 1];
	uint64_t what = fixture_random(seed) % 100;
	char key[16];

	snprintf(key, sizeof key, "key%u", (unsigned)(fixture_random(seed) % KEYS));
	for (unsigned i = 0; i < 64; i++)
		value[i] = (uint8_t)fixture_random(seed);
	if (what < 20)
		kit_remove(m, key);
	else if (what < 25)
		kit_put(m, key, value, REPLICA_INLINE_MAX + 1 + fixture_random(seed) % LONG_BYTES);
	else
		kit_put(m, key, value, fixture_random(seed) % 10000);
}

/* -------------------------------------------------------------------- reigns */
uint8_t kit_memory[2][LINK_BYTES_MAX] __attribute__((aligned(8)));

struct link_reader kit_opened(const struct link_writer *w)
{
	struct link_reader r;
	const char *why;

	if (link_open(&r, w->memory, link_length(w), &why))
		fail_msg("%s", why);
	return r;
}

/* One part of the question, and what the primary says of it. */
static enum replica_answered ask_part(struct kit_member *backup, struct kit_member *primary, unsigned *parts)
{
	struct link_writer open, begin;
	struct link_reader r;

	link_begin(&open, kit_memory[0], LINK_OPEN, backup->epoch, 0, 0, KIT_QUESTION);
	replica_put_question(backup->replica, &open);
	r = kit_opened(&open);
	link_begin(&begin, kit_memory[1], LINK_BEGIN, backup->epoch, 0, 0, KIT_QUESTION);
	assert_true(replica_answer(primary->replica, &r, &begin));
	r = kit_opened(&begin);
	++*parts;
	return replica_answered(backup->replica, &r);
}

/* OPEN, BEGIN, and its effect: BEGUN.  How many messages it took. */
unsigned kit_begin_with(struct kit_member *backup, struct kit_member *primary)
{
	enum replica_answered answered;
	unsigned parts = 0;

	assert_true(replica_ask(backup->replica, KIT_QUESTION));
	while ((answered = ask_part(backup, primary, &parts)) == REPLICA_ANSWERED_PART)
		;
	assert_int_equal(answered, REPLICA_ANSWERED_WHOLE);
	kit_order(backup, REPLICA_RESOLVE, KIT_QUESTION, 0);
	kit_order(primary, REPLICA_BEGUN_BY, 0, MEMBER);
	return parts;
}

/* What its workers are told and do as it takes over from the other one, up to BEGUN. */
void kit_take_over(struct kit_member *primary, struct kit_member *backup, uint64_t epoch)
{
	kit_order(primary, REPLICA_SEAL, 0, 0);
	kit_epoch(primary, epoch, epoch, RECORDS_PRIMARY, MEMBER);
	kit_epoch(backup, epoch, epoch, RECORDS_BACKUP, 0);
	kit_begin_with(backup, primary);
}

void kit_settle(struct kit_member *primary)
{
	KIT_UNTIL(replica_is_settled(primary->replica));
}

/* Its records arrive there, and no acknowledgement comes back. */
void kit_send_to(struct kit_member *from, struct kit_member *to)
{
	uint64_t end = clock_ns() + KIT_LIMIT_NS;
	unsigned heard = to->heard;

	replica_flush(from->worker);
	while (to->heard == heard) {
		kit_poll(&from->side, &to->side);
		assert_true(clock_ns() < end);
	}
}
