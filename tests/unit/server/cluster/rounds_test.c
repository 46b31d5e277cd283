/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * server/cluster/shard/shard.h: what the shard's thread does in a round, what it is told and what its member
 * wants done.
 */
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>

#include "tests/unit/said.h"
#include "tests/unit/server/cluster/rounds_kit.h"

#define EPOCH 7u
#define REIGN 4u

/* --------------------------------------------------------------------------- life */

static void test_life(void **state)
{
	struct link_lane lane = { 0, 0 };
	struct addr to = { .text = "b:1" };

	(void)state;
	expect_calls("replica channel port door crew0 crew1 crew2 restore start:127.0.0.1:7 place ");
	assert_string_equal(shard_name(s), "127.0.0.1:7");
	assert_int_equal(s->member.self.incarnation, OWN);
	assert_true(s->life != 0);
	assert_ptr_equal(shard_crew(s, 2), &s->crew[2]);
	assert_ptr_equal(s->keeper.path, s->path);
	eventfd_t value;
	assert_int_equal(eventfd_read(s->wake_fd, &value), -1); /* nothing has happened */
	assert_non_null(s->joining.wiped.wake);
	assert_ptr_equal(with_replica.store, &store);
	assert_int_equal(with_replica.incarnation, OWN);
	assert_int_equal(with_replica.copy_bytes_s, SHARD_COPY_BYTES_S);
	with_replica.completed(with_replica.arg, NULL, 9);
	expect_calls("completed9 ");
	assert_ptr_equal(with_port.channel, &channel);
	assert_ptr_equal(with_port.name, s->name);
	assert_ptr_equal(with_port.events.arg, s);
	assert_true(fcntl(channel.fd, F_GETFL) & O_NONBLOCK);
	assert_ptr_equal(with_door.listen, &s->options.listen);
	assert_int_equal(with_door.device_port, 2);
	/* Whose a lane is. */
	for (unsigned i = 0; i < WORKERS; i++)
		s->crew[i].port = (struct link_port *)(void *)&s->crew[i];
	assert_ptr_equal(with_door.port(s, &lane), port);
	for (lane.number = 1; lane.number <= 2 * WORKERS; lane.number++)
		assert_ptr_equal(with_door.port(s, &lane), &s->crew[(lane.number - 1) % WORKERS]);
	lane.shard = 1;
	assert_null(with_door.port(s, &lane));
	lane = (struct link_lane){ 0, 2 };
	with_door.failed(s, &to, &lane, "it is away");
	expect_calls("failed:b:1:2 ");
	shard_stop(s); /* it was not started */
	expect_calls("");
	end_it();
	shard_delete(&s); /* which is NULL */
}

/* Whatever there is of it is taken apart. */
static void test_not_made(void **state)
{
	static const char *const steps[] = { "replica", "channel", "port", "door", "crew1", "restore", "place" };

	(void)state;
	end_it();
	for (unsigned i = 0; i < sizeof steps / sizeof steps[0]; i++) {
		fails = steps[i];
		assert_int_equal(make(), -1);
		assert_non_null(s);
		const char *end = calls + strlen(calls) - strlen(steps[i]) - 1;
		assert_memory_equal(end, steps[i], strlen(steps[i])); /* and nothing behind it */
		fails = NULL;
		end_it();
	}
	strcpy(door_addr.text, "[::1]:7");
	assert_int_equal(make(), -1);
	assert_non_null(strstr(err.text, "--cluster-listen [::1]:7: it can't be a member's name yet"));
	end_it();
	strcpy(door_addr.text, "127.0.0.1:7");
	options.incarnation = 0; /* it draws one */
	assert_int_equal(make(), 0);
	assert_true(s->member.self.incarnation != 0);
	assert_int_equal(with_replica.incarnation, s->member.self.incarnation);
	calls[0] = '\0';
	struct config c = { .epoch = EPOCH, .reign = REIGN, .count = 1 };
	said_begin();
	s->keeper.events.config(s, &c);
	said_end();
	expect_calls("config expect roster hide "); /* without a disk of its own it lacked nothing */
}

/* ------------------------------------------------------------- what a member wants */

static void act(enum member_action_kind kind)
{
	struct member_actions all = { .count = 1 };

	all.of[0] = (struct member_action){ .kind = kind, .order = 31, .epoch = EPOCH, .reign = REIGN, .number = 32,
					    .role = MEMBER_BACKUP, .bits = 5, .peer = "bert",
					    .config = { .epoch = 9, .count = 1 } };
	memset(&ordered, 0, sizeof ordered);
	ordered_number = 0;
	said_begin();
	s->act(s, &all);
	said_end();
}

static void expect_order(enum member_action_kind kind, enum replica_order_kind is, const char *words)
{
	act(kind);
	expect_calls(words);
	assert_int_equal(ordered.kind, is);
	assert_int_equal(ordered_number, 31);
	assert_int_equal(ordered.epoch, EPOCH);
	assert_int_equal(ordered.reign, REIGN);
	assert_int_equal(ordered.number, 32);
	assert_int_equal(ordered.incarnation, OWN);
	assert_int_equal(ordered.role, RECORDS_BACKUP);
	assert_int_equal(ordered.members, 5);
	assert_string_equal(ordered.seats[1].name, "carl");
	assert_int_equal(ordered.seats[1].incarnation, 200);
	assert_string_equal(ordered.seats[0].name, "bert");
	assert_string_equal(ordered.seats[2].name, "");
}

static void test_orders(void **state)
{
	(void)state;
	s->member.peers[0].id = (struct config_member){ "bert", 300 };
	s->member.peers[1].id = (struct config_member){ "carl", 200 };
	s->member.state = MEMBER_BACKING;
	calls[0] = '\0';
	expect_order(MEMBER_EPOCH, REPLICA_EPOCH, "hide order0 hide ");
	expect_order(MEMBER_SEAL, REPLICA_SEAL, "hide order1 hide ");
	expect_order(MEMBER_RESOLVE, REPLICA_RESOLVE, "order2 hide ");
	expect_order(MEMBER_BEGUN_BY, REPLICA_BEGUN_BY, "order3 hide ");
	expect_order(MEMBER_SERVE, REPLICA_SHOW, "order4 hide ");
	expect_order(MEMBER_VISIBLE, REPLICA_SEEN, "order6 hide ");
	expect_order(MEMBER_AWAIT, REPLICA_AWAIT, "order7 hide ");
	expect_order(MEMBER_COPY, REPLICA_COPY, "order8 hide ");
	s->is_barred = true;
	s->member.hold_order = 31;
	expect_order(MEMBER_HOLD, REPLICA_HOLD, "order5 hide ");
	assert_false(s->is_barred);
	assert_true(is_held);
	s->member.hold_order = 0;
	s->member.is_held = true;
	act(MEMBER_STOP);
	assert_true(is_held);
	s->member.is_held = false;
	calls[0] = '\0';
	act(MEMBER_STOP);
	assert_false(is_held);
	expect_calls("hide hide ");
	act(MEMBER_READ);
	expect_calls("read hide ");
	act(MEMBER_SEND);
	expect_calls("send:bert hide ");
	act(MEMBER_EMPTY);
	expect_calls("empty hide ");
	act(MEMBER_WRITE);
	expect_calls("write9 hide ");
	assert_true(s->is_unwritten);
	writes = true;
	act(MEMBER_WRITE);
	assert_false(s->is_unwritten);
}

/* Readers see a lease of who serves, or leaves; requests are executed of who serves. */
static void test_serving(void **state)
{
	(void)state;
	calls[0] = '\0';
	s->member.reign = REIGN;
	s->member.round.until_ns = 77;
	s->member.round.words = (struct lease_words){ .reign = REIGN, .a = 5, .g = 6 };
	act(MEMBER_WORDS); /* MEMBER_OUT */
	expect_calls("hide ");
	s->member.state = MEMBER_SERVING;
	act(MEMBER_WORDS);
	expect_calls("show wake ");
	assert_int_equal(shown[0], REIGN);
	assert_int_equal(shown[1], 5);
	assert_int_equal(shown[2], 6);
	assert_int_equal(said_lines("serving, epoch"), 1);
	assert_int_equal(reign, REIGN);
	assert_int_equal(lease_until_ns, 77);
	assert_int_equal(reader_until_ns, 77);
	s->member.round.hidden_ns = 3;
	act(MEMBER_READ);
	expect_calls("read ");
	assert_int_equal(lease_until_ns, 77);
	assert_int_equal(reader_until_ns, 0);
	s->member.state = MEMBER_LEAVING;
	act(MEMBER_WORDS);
	expect_calls("show ");
	assert_int_equal(reign, REIGN);
	s->member.is_handing = true;
	act(MEMBER_STOP);
	expect_calls("wake ");
	assert_int_equal(said_lines("serving no more, epoch"), 1);
	assert_int_equal(reign, 0);
	assert_int_equal(lease_until_ns, 0);
	assert_int_equal(reader_until_ns, 0);
}

static void test_failover(void **state)
{
	(void)state;
	s->member.reign = REIGN;
	s->member.state = MEMBER_SERVING;
	act(MEMBER_READ); /* it was the first: no fail-over */
	assert_int_equal(s->failovers, 0);
	for (unsigned i = 0; i < 3; i++) {
		s->member.state = MEMBER_SEALED;
		act(MEMBER_READ);
		now_ns += 30 * MS;
		act(MEMBER_READ);
		s->member.state = i == 2 ? MEMBER_OUT : i ? MEMBER_BACKING : MEMBER_TAKING;
		now_ns += 10 * MS;
		act(MEMBER_READ);
		s->member.state = MEMBER_SERVING;
		act(MEMBER_READ);
		act(MEMBER_READ);
		assert_int_equal(s->failovers, 1);
		assert_int_equal(s->failover_ns, 40 * MS);
	}
}

/* ------------------------------------------------------------------- the agreement */

static void read_config(uint64_t epoch)
{
	struct config c = { .epoch = epoch, .reign = REIGN, .count = 2, .set = { { "anna", OWN } } };

	calls[0] = '\0';
	said_begin();
	s->keeper.events.config(s->keeper.events.arg, &c);
	said_end();
}

static void test_config(void **state)
{
	(void)state;
	next_state = MEMBER_BACKING;
	read_config(EPOCH);
	expect_calls("config expect roster lacks4 hide "); /* what its disk has says nothing of answers */
	assert_int_equal(said_lines("epoch 7, reign 4: primary anna, 1 with it"), 1);
	read_config(EPOCH);
	expect_calls("config hide ");
	assert_int_equal(said_lines("epoch 7"), 0);
	s->member.state = MEMBER_JOINING;
	todo = (struct member_actions){ .count = 1, .of = { { .kind = MEMBER_READ } } };
	read_config(EPOCH + 1);
	expect_calls("config expect roster lacks4 read hide ");
	s->member.state = next_state = MEMBER_JOINING;
	read_config(EPOCH + 2);
	expect_calls("config expect roster hide ");
}

static void test_written(void **state)
{
	const struct keeper_events *e = &s->keeper.events;
	struct config c = { .epoch = 9 };

	(void)state;
	calls[0] = '\0';
	todo = (struct member_actions){ .count = 1, .of = { { .kind = MEMBER_READ } } };
	e->wrote(s, KEEPER_WRITTEN, &c);
	expect_calls("wrote9 expect read hide ");
	e->wrote(s, KEEPER_UNKNOWN, NULL);
	expect_calls("wrote0 hide ");
	e->reached(s, true);
	e->reached(s, false);
	expect_calls("reached1 reached0 ");
	said_begin();
	e->failed(s, "it is away");
	assert_string_equal(said_end(), ""); /* it is told as long as there is no cluster */
	s->member.known.epoch = 1;
	said_begin();
	e->failed(s, "it is away");
	said_end();
	assert_int_equal(said_lines("it is away"), 1);
}

/* ------------------------------------------------------------------------- rounds */

#define END "hide -place end:kvd stops "
#define TICK "lanes place join hide stuck tick hide admin " /* of who serves not, behind its first words */

static void run(unsigned n)
{
	uint64_t left = 100000000;

	calls[0] = '\0';
	rounds_done = 0;
	is_ending = false;
	rounds_wanted = n;
	atomic_store(&s->stops, false);
	said_begin();
	assert_int_equal(shard_start(s, &err), 0);
	while (rounds_done < n && --left)
		sched_yield();
	shard_stop(s);
	said_end();
	assert_false(s->is_started);
}

static void test_round(void **state)
{
	(void)state;
	reign = REIGN;
	run(1);
	expect_calls("arm wait knocks heard hide wake " TICK END);
	assert_int_equal(waited_ms, SHARD_TICK_MS);
	assert_int_equal(reign, 0);
	assert_int_equal(memcmp(&s->seen, &s->member, sizeof s->seen), 0);
	eventfd_t value;
	eventfd_read(s->wake_fd, &value);
	ready[0] = POLLIN;
	shard_wake(s);
	run(1);
	expect_calls("arm wait knocks heard hide " TICK END);
	assert_int_equal(eventfd_read(s->wake_fd, &value), 0); /* of the stop alone */
	assert_int_equal(value, 1);
	ready[0] = 0;
	ready[1] = POLLIN;
	run(1);
	expect_calls("arm wait woken knocks heard hide " TICK END);
	ready[1] = 0;
	ready[2] = POLLIN;
	s->keeper.agree = agree;
	run(1);
	expect_calls("arm wait knocks heard agree hide " TICK END);
}

/* At its end until no connection is left, but not for ever. */
static void test_end(void **state)
{
	uint64_t begin_ns = now_ns;

	(void)state;
	port_is_busy = 3;
	run(1);
	expect_calls("arm wait knocks heard hide " TICK END "knocks knocks knocks ");
	assert_int_equal(port_is_busy, 0);
	assert_true(is_first);
	port_is_busy = 1000;
	run(1);
	assert_true(port_is_busy > 0);
	assert_true(now_ns - begin_ns < 10 * S);
	assert_true(now_ns - begin_ns > S);
}

/* All that came is heard, but only so much in a round. */
static void test_hear(void **state)
{
	(void)state;
	port_has = 4;
	run(1);
	expect_calls("arm knocks heard hide " TICK END);
	assert_int_equal(port_has, 0);
	port_has = 1000;
	run(1);
	expect_calls("arm knocks hide " TICK END);
	assert_true(port_has > 500);
	port_has = 0;
}

/* While the primary changes it comes more often. */
static void test_turning(void **state)
{
	static const enum member_state states[] = { MEMBER_OUT, MEMBER_JOINING, MEMBER_BACKING, MEMBER_SEALED,
						    MEMBER_TAKING, MEMBER_SERVING, MEMBER_LEAVING };
	static const int ms[] = { 5, 5, 5, 1, 1, 5, 1 };

	(void)state;
	for (unsigned i = 0; i < 7; i++) {
		s->member.state = states[i];
		run(1);
		assert_int_equal(waited_ms, ms[i]);
	}
}

static void note_reads(void)
{
	todo = (struct member_actions){ .count = 1, .of = { { .kind = MEMBER_READ } } };
}

/* What workers have done is told, in that order. */
static void test_obeyed(void **state)
{
	(void)state;
	obeyed[0] = 41;
	obeyed[1] = 42;
	note_reads();
	run(1);
	expect_calls("arm wait knocks heard obeyed41 read hide obeyed42 hide hide " TICK END);
	obeyed[0] = 43;
	empties = true;
	note_reads();
	run(1);
	expect_calls("arm wait knocks heard emptied43 read hide hide " TICK END);
	wipes = true;
	note_reads();
	run(1);
	expect_calls("arm wait knocks heard wiped read hide hide " TICK END);
	/* All in one round: nothing is done twice. */
	obeyed[0] = 44;
	wipes = s->is_unfit = true;
	note_reads();
	run(1);
	expect_calls("arm wait knocks heard emptied44 read hide wiped hide unfit hide hide " TICK END);
	joins = true;
	note_reads();
	run(2);
	expect_calls("arm wait knocks heard hide lanes place join read hide stuck tick hide admin "
		     "arm wait knocks heard hide " TICK END);
	joins = false;
	note_reads();
	run(2);
	expect_calls("arm wait knocks heard hide lanes place join hide stuck tick read hide admin "
		     "arm wait knocks heard hide " TICK END);
}

/* That no change begins is told when none is under way, too. */
static void test_held(void **state)
{
	(void)state;
	s->member.hold_order = obeyed[0] = 44;
	run(1);
	expect_calls("arm wait knocks heard hide " TICK END);
	assert_true(s->is_barred);
	settled = true;
	note_reads();
	run(1);
	expect_calls("arm wait knocks heard obeyed44 read hide " TICK END);
	s->is_barred = false;
	run(1);
	expect_calls("arm wait knocks heard hide " TICK END);
}

static void test_settled(void **state)
{
	(void)state;
	s->member.known.epoch = EPOCH;
	s->member.state = MEMBER_TAKING;
	run(1);
	expect_calls("arm wait knocks heard hide " TICK END);
	settled = true;
	s->member.epoch_order = 1; /* workers are not of the epoch yet */
	run(1);
	expect_calls("arm wait knocks heard hide " TICK END);
	s->member.epoch_order = 0;
	note_reads();
	run(1);
	expect_calls("arm wait knocks heard settled7 read hide " TICK END);
	s->member.state = MEMBER_BACKING;
	run(1);
	expect_calls("arm wait knocks heard hide " TICK END);
}

static void test_unfit(void **state)
{
	(void)state;
	said_begin();
	with_replica.unfit(with_replica.arg, "it has no memory");
	said_end();
	assert_int_equal(said_lines("of no use until it was copied to: it has no memory"), 1);
	assert_string_equal(s->why, "it has no memory");
	note_reads();
	run(1);
	expect_calls("arm wait knocks heard unfit read hide hide " TICK END);
	run(1);
	expect_calls("arm wait knocks heard hide " TICK END);
}

/* A write that could not be asked for is told in the next round. */
static void test_unwritten(void **state)
{
	(void)state;
	writes = false;
	todo = (struct member_actions){ .count = 1, .of = { { .kind = MEMBER_WRITE,
							     .config = { .epoch = 9, .count = 1 } } } };
	obeyed[0] = 1;
	run(2);
	expect_calls("arm wait knocks heard obeyed1 write9 hide wrote0 hide " TICK
		     "arm wait knocks heard hide " TICK END);
	assert_false(s->is_unwritten);
}

/* Whether it is cut off itself: the device is asked before anybody else is taken for gone. */
static void test_port(void **state)
{
	static const struct {
		bool misses, is_down;
		const char *calls, *says;
	} looks[] = { { false, true, "cut0 ", NULL },
		      { true, false, "query cut0 ", NULL },
		      { true, true, "query cut1 ", "its port is down: this member leaves nobody out" },
		      { false, true, "query cut1 ", NULL },
		      { false, false, "query cut0 ", "its port is up: this member waits for connections" } };
	char words[256];

	(void)state;
	for (unsigned i = 0; i < 5; i++) {
		misses = looks[i].misses;
		is_down = looks[i].is_down;
		now_ns += MEMBER_SILENCE_NS / 4;
		snprintf(words, sizeof words, "arm wait knocks heard hide %s%s%s", looks[i].calls, TICK, END);
		run(1);
		expect_calls(words);
		assert_int_equal(said_lines("its port is"), looks[i].says != NULL);
		assert_int_equal(!looks[i].says || said_lines(looks[i].says), 1);
		now_ns += MEMBER_SILENCE_NS / 4 - 1;
		run(1);
		expect_calls("arm wait knocks heard hide " TICK END);
		now_ns++; /* the next look is due, from the last one on */
		s->port_ns = now_ns;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
		TEST(test_life), TEST(test_not_made), TEST(test_orders), TEST(test_serving), TEST(test_failover),
		TEST(test_config), TEST(test_written), TEST(test_round), TEST(test_end), TEST(test_hear), TEST(test_turning),
		TEST(test_obeyed), TEST(test_held), TEST(test_settled), TEST(test_unfit), TEST(test_unwritten),
		TEST(test_port),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
