/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * server/worker/request: what a member of a cluster executes, commands for the cluster, and what became of
 * a change whose answer its client did not get.
 */
#include <time.h>

#include "common/clock.h"
#include "server/access/gate.h"
#include "server/worker/request/completions.h"
#include "tests/unit/server/request_kit.h"

#define S 1000000000ull
#define REIGN 7u
#define OTHER 3u /* a connection */

static struct membership membership;
static struct cluster_command asked;
static char asked_member[LAYOUT_KEY_BYTES_MAX + 1];
static enum wire_status command_status;
static bool knows;

uint64_t __wrap_gate_secret(const struct gate *gate, const struct user *user, uint64_t secret);

uint64_t __wrap_gate_secret(const struct gate *gate, const struct user *user, uint64_t secret)
{
	(void)gate;
	assert_ptr_equal(user, &conn.handshake.user);
	return secret + 1;
}

/* ------------------------------------------------------------------- the hooks */

static size_t where(void *arg, struct cluster_where *w, char *buf, size_t buf_bytes)
{
	assert_ptr_equal(arg, &membership);
	assert_true(buf_bytes >= 4096);
	*w = (struct cluster_where){ .epoch = 11, .heard_us = 12, .ports = 2 };
	memcpy(buf, "a:1 b:2", 7);
	return 7;
}

static enum wire_status command(void *arg, const struct cluster_command *c, enum wire_backup *state, char *text,
				size_t text_bytes)
{
	assert_ptr_equal(arg, &membership);
	assert_true(text_bytes >= 512);
	asked = *c;
	strcpy(asked_member, c->member);
	*state = WIRE_BACKUP_RUNNING;
	strcpy(text, "it is begun");
	return command_status;
}

static bool does_know(struct server *s, uint64_t connection_id)
{
	assert_ptr_equal(s, &server);
	assert_int_equal(connection_id, OTHER);
	return knows;
}

/* ----------------------------------------------------------------------- of no cluster */

static void test_of_none(void **state)
{
	const struct wire_request w = { .op = WIRE_WHERE, .request_id = 1 },
				  c = { .op = WIRE_CLUSTER, .version = WIRE_CLUSTER_INIT };

	(void)state;
	assert_int_equal(status_of(&w, NULL, NULL), WIRE_EUNSUPPORTED);
	assert_int_equal(status_of(&c, NULL, NULL), WIRE_EUNSUPPORTED);
	assert_int_equal(worker.stats.failed, 2);
}

static void make_member(void)
{
	atomic_store(&membership.reign, REIGN);
	atomic_store(&membership.is_held, false);
	atomic_store(&membership.lease_until_ns, ~0ull);
	atomic_store(&membership.reader_until_ns, 0);
	server.membership = &membership;
	worker.tx.membership = &membership;
	conn.sendq.reign = REIGN;
	server.hooks = (struct server_hooks){ .cluster_where = where, .cluster_command = command,
					      .knows = does_know, .cluster_arg = &membership };
	command_status = WIRE_OK;
	knows = false;
}

static void test_where(void **state)
{
	const struct wire_request w = { .op = WIRE_WHERE, .request_id = 3 };

	(void)state;
	make_member();
	assert_int_equal(status_of(&w, NULL, NULL), WIRE_OK);
	assert_int_equal(reply.version, 11);
	assert_int_equal(reply.word, REIGN);
	assert_int_equal(reply.item_flags, 12);
	assert_int_equal(reply.item_signs, 2);
	assert_int_equal(reply.value_bytes, 7);
	assert_int_equal(payload_bytes, 7);
	assert_memory_equal(payload, "a:1 b:2", 7);
}

static void test_command(void **state)
{
	struct wire_request c = { .op = WIRE_CLUSTER, .version = WIRE_CLUSTER_INIT, .key_bytes = 2,
				  .value_checksum = 77, .item_flags = 3 };

	(void)state;
	make_member();
	assert_int_equal(status_of(&c, "m1", NULL), WIRE_OK);
	assert_int_equal(asked.what, WIRE_CLUSTER_INIT);
	assert_int_equal(asked.id, 77);
	assert_int_equal(asked.copies, 3);
	assert_string_equal(asked_member, "m1");
	assert_int_equal(reply.version, WIRE_BACKUP_RUNNING);
	assert_int_equal(reply.value_bytes, 11);
	assert_int_equal(payload_bytes, 11);
	assert_memory_equal(payload, "it is begun", 11);
	c.version = WIRE_CLUSTER_FORCE;
	c.key_bytes = 0;
	assert_int_equal(status_of(&c, NULL, NULL), WIRE_OK);
	assert_int_equal(asked.what, WIRE_CLUSTER_FORCE);
	assert_string_equal(asked_member, "");
	command_status = WIRE_EBUSY;
	assert_int_equal(status_of(&c, NULL, NULL), WIRE_EBUSY);
	assert_int_equal(payload_bytes, 0);
	c.version = WIRE_CLUSTER_FORCE + 1;
	assert_int_equal(status_of(&c, NULL, NULL), WIRE_EINVALID);
	c.version = WIRE_CLUSTER_INIT - 1;
	assert_int_equal(status_of(&c, NULL, NULL), WIRE_EINVALID);
	c.version = WIRE_CLUSTER_INIT;
	c.key_bytes = 3;
	assert_int_equal(status_of(&c, "m\0x", NULL), WIRE_EINVALID);
}

/* -------------------------------------------------------------- what it executes */

static const struct wire_request get = { .op = WIRE_GET, .key_bytes = 1 },
				 put = { .op = WIRE_PUT, .key_bytes = 1, .value_bytes = 1 },
				 ping = { .op = WIRE_PING }, flush = { .op = WIRE_FLUSH };

/* As primary only, in the connection's reign. */
static void test_reign(void **state)
{
	static const uint64_t reigns[][2] = { { 0, 0 }, { 0, REIGN }, { REIGN + 1, REIGN }, { REIGN, 0 } };

	(void)state;
	make_member();
	for (unsigned i = 0; i < 4; i++) {
		atomic_store(&membership.reign, reigns[i][0]);
		conn.sendq.reign = reigns[i][1];
		assert_int_equal(status_of(&put, "k", "v"), WIRE_EELSEWHERE);
		assert_int_equal(status_of(&get, "k", NULL), WIRE_EELSEWHERE);
		assert_int_equal(status_of(&ping, NULL, NULL), WIRE_OK);
		assert_int_equal(status_of(&(struct wire_request){ .op = WIRE_WHERE }, NULL, NULL), WIRE_OK);
	}
	make_member();
	assert_int_equal(status_of(&get, "k", NULL), WIRE_NOT_FOUND);
	assert_int_equal(status_of(&flush, NULL, NULL), WIRE_OK);
	const struct wire_request then = { .op = WIRE_FLUSH, .flags = WIRE_UNIX, .ttl_ms = 1 };
	assert_int_equal(status_of(&then, NULL, NULL), WIRE_EUNSUPPORTED);
}

/* While another one is to be primary, and after its lease. */
static void test_held(void **state)
{
	struct wire_txn one = { .version = WIRE_TXN_ANY, .key_bytes = 1, .kind = WIRE_TXN_CHECK };
	uint8_t text[sizeof one + 1];
	const struct wire_request txn = { .op = WIRE_TXN, .version = 1, .value_bytes = sizeof text };

	(void)state;
	make_member();
	memcpy(text, &one, sizeof one);
	text[sizeof one] = 'k';
	assert_int_equal(status_of(&txn, NULL, text), WIRE_OK);
	atomic_store(&membership.is_held, true);
	assert_int_equal(request(&put, "k", "v"), REQUEST_ASIDE);
	assert_int_equal(request(&txn, NULL, text), REQUEST_ASIDE);
	assert_int_equal(worker.stats.aside, 2);
	assert_int_equal(request(&flush, NULL, NULL), REQUEST_ASIDE);
	assert_int_equal(status_of(&get, "k", NULL), WIRE_NOT_FOUND);
	assert_int_equal(status_of(&ping, NULL, NULL), WIRE_OK);
	atomic_store(&membership.is_held, false);
	atomic_store(&membership.lease_until_ns, clock_read_ns(CLOCK_BOOTTIME));
	assert_int_equal(request(&get, "k", NULL), REQUEST_ASIDE);
	assert_int_equal(request(&put, "k", "v"), REQUEST_ASIDE);
	assert_int_equal(status_of(&ping, NULL, NULL), WIRE_OK);
}

/* ----------------------------------------------------------------------- fates */

/* What became of another connection's change, of that reign. */
static int fate_of(uint32_t request_id, uint64_t secret, uint64_t reign)
{
	const struct wire_request q = { .op = WIRE_FATE, .version = OTHER, .value_checksum = secret - 1,
					.value_bytes = request_id, .item_flags = (uint32_t)reign };

	return status_of(&q, NULL, NULL);
}

static void keep(uint32_t request_id, enum wire_status status)
{
	struct fate_ring *ring = fate_ring_new(SECRET, CREDITS);

	fate_note(ring, request_id, status, 55, 66);
	fates_keep(server.fates, OTHER, REIGN, ring);
}

static void expect_told(enum wire_status status, uint64_t version, uint64_t value_bytes)
{
	assert_int_equal(reply.word, status);
	assert_int_equal(reply.version, version);
	assert_int_equal(reply.value_bytes, value_bytes);
}

/* A connection that is there yet is cut off first. */
static void expect_fenced(void)
{
	struct command *c = commands_take(&worker.commands);

	assert_non_null(c);
	assert_int_equal(c->kind, CMD_FENCE);
	assert_int_equal(c->connection, OTHER);
	assert_int_equal(c->secret, SECRET);
	assert_null(c->next);
	free(c);
}

static void test_fate(void **state)
{
	const struct wire_request own = { .op = WIRE_FATE, .version = CONNECTION, .value_bytes = 4 };

	(void)state;
	server.hooks.knows = does_know;
	knows = true;
	assert_int_equal(fate_of(4, SECRET, 0), WIRE_EBUSY);
	expect_fenced();
	knows = false;
	assert_int_equal(fate_of(4, SECRET, 0), WIRE_EUNSUPPORTED);
	assert_null(commands_take(&worker.commands));
	assert_int_equal(status_of(&own, NULL, NULL), WIRE_EUNSUPPORTED); /* nobody is asked of it */
	keep(4, WIRE_CONDITION);
	for (unsigned i = 0; i < 2; i++) {
		knows = i; /* it is just being destroyed */
		assert_int_equal(fate_of(4, SECRET, REIGN), WIRE_OK);
		expect_told(WIRE_CONDITION, 55, 66);
		assert_int_equal(fate_of(5, SECRET, 0), WIRE_NOT_FOUND);
		assert_null(commands_take(&worker.commands));
	}
	knows = false;
	assert_int_equal(fate_of(4, SECRET + 1, 0), WIRE_EUNSUPPORTED);
}

static void note(uint64_t connection, uint32_t request_id, uint64_t reign)
{
	completions_note(server.completions, &(struct completion){
		.connection = connection, .secret = SECRET, .reign = reign, .size = CREDITS,
		.fate = { .request_id = request_id, .status = WIRE_OK, .version = 88, .value_bytes = 99 } });
}

/* Of a reign that is over: this member's own answers count, then what came with the changes. */
static void test_fate_in_cluster(void **state)
{
	(void)state;
	make_member();
	conn.sendq.reign = REIGN + 1;
	atomic_store(&membership.reign, REIGN + 1);
	server.completions = completions_new();
	assert_int_equal(fate_of(4, SECRET, REIGN + 2), WIRE_EELSEWHERE);
	knows = true;
	assert_int_equal(fate_of(4, SECRET, REIGN), WIRE_EBUSY);
	expect_fenced();
	knows = false;
	assert_int_equal(fate_of(4, SECRET, REIGN + 1), WIRE_EUNSUPPORTED); /* it was of this reign, here */
	note(OTHER, 4, REIGN);
	assert_int_equal(fate_of(4, SECRET, REIGN), WIRE_OK);
	expect_told(WIRE_OK, 88, 99);
	keep(5, WIRE_CONDITION);
	assert_int_equal(fate_of(5, SECRET, REIGN), WIRE_OK);
	expect_told(WIRE_CONDITION, 55, 66);
	assert_int_equal(fate_of(5, SECRET, REIGN + 1), WIRE_OK);
	expect_told(WIRE_CONDITION, 55, 66);
	assert_int_equal(fate_of(4, SECRET, REIGN), WIRE_OK); /* the others' word */
	expect_told(WIRE_OK, 88, 99);
	assert_int_equal(fate_of(6, SECRET, REIGN), WIRE_NOT_FOUND);
	assert_int_equal(fate_of(4, SECRET, 0), WIRE_NOT_FOUND); /* by its own book */
	completions_delete(&server.completions);
}

/* That the own answer was not known says nothing; what came with the changes does. */
static void test_unknown_in_cluster(void **state)
{
	(void)state;
	make_member();
	conn.sendq.reign = REIGN + 1;
	atomic_store(&membership.reign, REIGN + 1);
	server.completions = completions_new();
	keep(5, WIRE_EUNKNOWN);
	note(OTHER, 4, REIGN);
	assert_int_equal(fate_of(5, SECRET, REIGN), WIRE_NOT_FOUND);
	note(OTHER, 5, REIGN);
	assert_int_equal(fate_of(5, SECRET, REIGN), WIRE_OK);
	expect_told(WIRE_OK, 88, 99);
	completions_delete(&server.completions);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, request_kit_make, request_kit_unmake)
		CASE(test_of_none), CASE(test_where), CASE(test_command), CASE(test_reign),
		CASE(test_held), CASE(test_fate), CASE(test_fate_in_cluster),
		CASE(test_unknown_in_cluster),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
