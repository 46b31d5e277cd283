/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "common/hash.h"
#include "tests/unit/made_up.h"
#include "tests/unit/server/cluster/wire_kit.h"

struct wire wires[WIRE_LANES];
struct fixture wire_fixture;
struct replica *wire_replica;
struct replica_worker *wire_worker;
char wire_unfit[160];
unsigned wire_wakes, wire_completed;
struct durable_fate wire_fate;
uint64_t wire_fate_reign;
struct link_writer wire_message;
static uint8_t memory[LINK_BYTES_MAX] __attribute__((aligned(8)));

/* -------------------------------------------------------------------- made up */

static struct wire *of(const struct link_peer *p)
{
	return (struct wire *)(uintptr_t)p;
}

struct link_peer *wire_link(unsigned i)
{
	return (struct link_peer *)(void *)&wires[i];
}

MADE_UP(const char *, link_peer_name, const struct link_peer *p) { return of(p)->name; }

MADE_UP(void *, link_peer_reserve, struct link_peer *p)
{
	struct wire *w = of(p);

	return w->room ? w->sent[w->sent_count % WIRE_SENT_MAX] : NULL;
}

MADE_UP(void, link_peer_send, struct link_peer *p, uint32_t bytes)
{
	struct wire *w = of(p);
	struct link_reader r;
	const char *why = "";

	assert_true(w->room > 0);
	if (link_open(&r, w->sent[w->sent_count % WIRE_SENT_MAX], bytes, &why))
		fail_msg("%s", why);
	w->room--;
	w->sent_count++;
}

MADE_UP(bool, link_peer_read, struct link_peer *p, const struct link_read *read)
{
	struct wire *w = of(p);

	if (!w->reads_room)
		return false;
	w->reads_room--;
	assert_true(w->read_count < WIRE_READS_MAX);
	w->reads[w->read_count++] = *read;
	return true;
}

MADE_UP(void, link_peer_close, struct link_peer *p, const char *why, ...)
{
	va_list args;

	va_start(args, why);
	vsnprintf(of(p)->closed, sizeof of(p)->closed, why, args);
	va_end(args);
	replica_down(wire_worker, p);
}

static void unfit(void *arg, const char *why)
{
	assert_ptr_equal(arg, &wires);
	snprintf(wire_unfit, sizeof wire_unfit, "%s", why);
}

static void completed(void *arg, const struct durable_fate *fate, uint64_t reign)
{
	assert_ptr_equal(arg, &wires);
	wire_completed++;
	wire_fate = *fate;
	wire_fate_reign = reign;
}

static void wake(void *arg)
{
	wire_wakes += arg == &wires;
}

static void wake_store(void *arg)
{
	(void)arg;
}

/* ------------------------------------------------------------------------- group */

int wire_setup(void **state)
{
	const struct replica_options o = { .store = NULL, .incarnation = WIRE_ME, .unfit = unfit,
					   .completed = completed, .arg = &wires };
	struct replica_options options = o;
	struct err err;

	(void)state;
	memset(wires, 0, sizeof wires);
	wire_unfit[0] = '\0';
	wire_wakes = wire_completed = 0;
	fixture_new(&wire_fixture, WIRE_TABLE_BYTES, 1);
	durable_port_init(&wire_fixture.worker[0].port, wake_store, NULL);
	options.store = wire_fixture.store;
	return replica_new(&options, &wire_replica, &err) ||
	       replica_worker_new(wire_replica, &wire_fixture.worker[0], wake, &wires, &wire_worker, &err);
}

/* Nobody is awaited any more: what is under way comes back; if to be undone, once more. */
static void end_changes(void)
{
	struct store_worker *w = &wire_fixture.worker[0];
	struct durable_op *next;
	struct store_result r;

	wire_order((struct replica_order){ .kind = REPLICA_AWAIT });
	for (unsigned i = 0; i < 3; i++) {
		replica_flush(wire_worker);
		for (struct durable_op *op = durable_port_take(&w->port); op; op = next) {
			next = op->next;
			commit_end(w, (struct commit *)op, &r);
		}
	}
}

int wire_teardown(void **state)
{
	(void)state;
	end_changes();
	for (unsigned i = 0; i < WIRE_LANES; i++)
		replica_down(wire_worker, wire_link(i));
	replica_worker_delete(&wire_worker);
	replica_delete(&wire_replica);
	fixture_delete(&wire_fixture);
	return 0;
}

void wire_up(unsigned i, const char *name)
{
	wires[i].name = name;
	wires[i].room = wires[i].reads_room = UINT32_MAX;
	wires[i].closed[0] = '\0';
	assert_true(replica_up(wire_worker, wire_link(i)));
}

/* ------------------------------------------------------------------------ orders */

void wire_order(struct replica_order o)
{
	o.serial = replica_order_serial(wire_replica);
	assert_true(replica_obey(wire_worker, &o));
}

void wire_epoch(uint64_t epoch, uint64_t reign, enum records_role role, uint32_t members)
{
	wire_order((struct replica_order){ .kind = REPLICA_EPOCH, .epoch = epoch, .reign = reign, .role = role,
					   .members = members, .incarnation = WIRE_ME,
					   .seats = { { "anna", WIRE_ANNA }, { "carl", WIRE_CARL } } });
	if (role == RECORDS_BACKUP)
		wire_order((struct replica_order){ .kind = REPLICA_RESOLVE });
}

void wire_see(uint64_t up_to)
{
	wire_order((struct replica_order){ .kind = REPLICA_SEEN, .epoch = WIRE_EPOCH, .number = up_to });
}

/* ---------------------------------------------------------------------- messages */

void wire_begin(enum link_kind kind)
{
	link_begin(&wire_message, memory, kind, WIRE_EPOCH, WIRE_ANNA, WIRE_ME, 0);
}

void wire_end_record(void)
{
	assert_int_equal(link_end_record(&wire_message), 0);
}

bool wire_hear(unsigned i)
{
	struct link_reader r;
	const char *why = "";

	if (link_open(&r, memory, link_length(&wire_message), &why))
		fail_msg("%s", why);
	return replica_heard(wire_worker, wire_link(i), &r);
}

struct link_reader wire_sent(unsigned i, unsigned which, enum link_kind kind)
{
	struct link_reader r = { .left = 0 };
	const char *why = "";

	assert_true(which < wires[i].sent_count && which + WIRE_SENT_MAX >= wires[i].sent_count);
	const uint8_t *message = wires[i].sent[which % WIRE_SENT_MAX];
	const struct link_header *h = (const struct link_header *)(const void *)message;
	assert_int_equal(link_open(&r, message, sizeof *h + h->bytes, &why), 0);
	assert_int_equal(h->kind, kind);
	return r;
}

/* ------------------------------------------------------------------------- keys */

uint32_t wire_stripe(const void *key, size_t key_bytes)
{
	const struct table *t = wire_fixture.table;

	return (uint32_t)layout_stripe(hash_key(t->hash_seed, key, key_bytes).b, t->stripes);
}

struct store_change wire_change_of(const char *key)
{
	return (struct store_change){ .hash = hash_key(wire_fixture.table->hash_seed, key, strlen(key)), .key = key,
				      .key_bytes = (unsigned)strlen(key) };
}

int wire_get(const char *key, char *value, size_t bytes, struct store_result *result)
{
	struct store_change c = wire_change_of(key);

	*result = (struct store_result){ .version = 0 };
	return store_get(&wire_fixture.worker[0], &c, value, bytes, result);
}

void wire_expect(const char *key, const char *value)
{
	struct store_result r;
	char is[64];
	int status = wire_get(key, is, sizeof is, &r);

	assert_int_equal(status, value ? WIRE_OK : WIRE_NOT_FOUND);
	if (!value)
		return;
	assert_int_equal(r.value_bytes, strlen(value));
	assert_memory_equal(is, value, strlen(value));
}
