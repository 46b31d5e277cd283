/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * server/cluster/link: two members connect, prove themselves and speak; one of them has another
 * key, sends what is no message, lies, freezes, dies and comes back.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/cluster/link/impl.h"
#include "tests/unit/server/cluster/link_kit.h"

#define MESSAGES 5000u

static struct side a, b;
static struct link_key key;
static const char *program;

/* -------------------------------------------------------------------- the kit */
static bool are_up(void *arg)
{
	(void)arg;
	return a.peer && b.peer;
}

static bool is_down(void *arg)
{
	return ((struct side *)arg)->downs > 0;
}

static bool are_down(void *arg)
{
	(void)arg;
	return a.downs && b.downs;
}

static bool has_failed(void *arg)
{
	return ((struct side *)arg)->fails > 0;
}

static int setup(void **state)
{
	(void)state;
	kit_later_ns = 0;
	kit_key(&key);
	kit_open(&a, "anna", &key, false);
	kit_open(&b, "bert", &key, true);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	a.is_frozen = b.is_frozen = false;
	kit_close(&a, &b);
	return 0;
}

static void come_up(void)
{
	kit_connect(&a, link_door_addr(b.door), 2);
	kit_until(&a, &b, are_up, NULL, "two members are up");
}

static void expect(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("'%s' says nothing of '%s'", text, part);
}

/* A message of `count` numbers from `first` on; false: no room. */
static bool say(struct link_peer *p, uint64_t first, unsigned count)
{
	struct link_writer w;
	void *memory = link_peer_reserve(p);

	if (!memory)
		return false;
	link_begin(&w, memory, LINK_ACKS, 1, 2, 3, first);
	for (unsigned i = 0; i < count; i++)
		link_put_number(&w, first + i);
	link_peer_send(p, link_length(&w));
	return true;
}

struct ear {
	uint64_t heard, wrong;
};

static void listen_to(void *arg, struct link_peer *p, struct link_reader *r)
{
	struct ear *ear = arg;
	const uint64_t *number;
	uint64_t due = r->header->number;

	(void)p;
	ear->wrong += r->header->number != ear->heard;
	while ((number = link_next_number(r)))
		ear->wrong += *number != due++;
	ear->wrong += r->left != 0;
	ear->heard++;
}

/* -------------------------------------------------------------------- cases */
static void test_they_know_each_other(void **state)
{
	(void)state;
	come_up();
	assert_string_equal(link_peer_name(a.peer), "bert");
	assert_string_equal(link_peer_name(b.peer), "anna");
	assert_int_equal(link_peer_lane(b.peer)->number, 2);
	assert_int_equal(link_peer_lane(b.peer)->shard, 3);
	assert_true(link_peer_is_asker(a.peer));
	assert_false(link_peer_is_asker(b.peer));
	assert_int_equal(a.ups + b.ups, 2);
	link_peer_close(a.peer, "enough");
	expect(a.why, "member bert");
	kit_until(&a, &b, are_down, NULL, "both are told of the end");
	expect(b.why, "member anna");
}

/* Far more than there are credits, both ways at once: in order, once, and whole. */
static bool all_is_heard(void *arg)
{
	const struct ear *ears = arg;
	static uint64_t said[2];

	if (!ears[0].heard && !ears[1].heard)
		said[0] = said[1] = 0;
	while (said[0] < MESSAGES && say(a.peer, said[0], said[0] % 1024))
		said[0]++;
	while (said[1] < MESSAGES && say(b.peer, said[1], 1))
		said[1]++;
	return ears[0].heard == MESSAGES && ears[1].heard == MESSAGES;
}

static void test_messages(void **state)
{
	struct ear ears[2] = { { 0, 0 }, { 0, 0 } };

	(void)state;
	come_up();
	a.events = (struct link_events){ .message = listen_to, .arg = &ears[0] };
	b.events = (struct link_events){ .message = listen_to, .arg = &ears[1] };
	kit_until(&a, &b, all_is_heard, ears, "all messages arrive");
	assert_int_equal(ears[0].wrong + ears[1].wrong, 0);
	assert_true(a.rooms > 0);
	assert_int_equal(a.downs + b.downs, 0);
}

/* One way only: the other end's empty messages give the credits. */
static bool one_way_is_heard(void *arg)
{
	static uint64_t said;
	const struct ear *ear = arg;

	if (!ear->heard)
		said = 0;
	while (said < MESSAGES && say(a.peer, said, 1))
		said++;
	return ear->heard == MESSAGES;
}

static void test_one_way(void **state)
{
	struct ear ear = { 0, 0 };

	(void)state;
	come_up();
	b.events = (struct link_events){ .message = listen_to, .arg = &ear };
	kit_until(&a, &b, one_way_is_heard, &ear, "all messages arrive");
	assert_int_equal(ear.wrong, 0);
}

static void await_fd(int fd)
{
	assert_int_equal(poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, 60000), 1);
}

/* Who sleeps is woken: by who knocks, and by a message. */
static void test_who_sleeps(void **state)
{
	struct ear ear = { 0, 0 };
	struct ibv_cq *cq;
	void *context;

	(void)state;
	b.events = (struct link_events){ .message = listen_to, .arg = &ear };
	kit_connect(&a, link_door_addr(b.door), 1);
	for (unsigned i = 0; i < 1000; i++)
		link_door_poll(a.door, kit_now_ns());
	await_fd(link_door_fd(b.door));
	kit_until(&a, &b, are_up, NULL, "two members are up");
	link_port_arm(b.port);
	assert_true(say(a.peer, 0, 1));
	await_fd(b.channel->fd);
	assert_int_equal(b.device.verbs->get_cq_event(b.channel, &cq, &context), 0);
	b.device.verbs->ack_cq_events(cq, 1);
	link_port_poll(b.port, kit_now_ns());
	assert_int_equal(ear.heard, 1);
}

static void test_another_key(void **state)
{
	(void)state;
	kit_key(&a.key);
	kit_connect(&a, link_door_addr(b.door), 1);
	kit_until(&a, &b, are_down, NULL, "both end it");
	assert_int_equal(a.ups + b.ups, 0);
	expect(b.why, "has not this cluster's key");
	expect(a.why, "same --cluster-key");
}

/* Who has the key of it, and is answered by one who has not. */
static void test_another_keys_answer(void **state)
{
	(void)state;
	/* b accepts any hello that is signed with this key, and answers with another. */
	auth_new(&b.key.secret, &(struct auth_key){ .bytes = { 0 } });
	kit_connect(&a, link_door_addr(b.door), 1);
	kit_until(&a, &b, is_down, &a, "the asker ends it");
	assert_int_equal(a.ups, 0);
	expect(a.why, "has not this cluster's key");
}

static void open_versions(uint32_t a_oldest, uint32_t a_latest, uint32_t b_oldest, uint32_t b_latest)
{
	kit_close(&a, &b);
	kit_open_of(&a, "anna", &key, false, (struct link_versions){ a_oldest, a_latest });
	kit_open_of(&b, "bert", &key, true, (struct link_versions){ b_oldest, b_latest });
}

/* The latest that both speak; where there is none, who asked is told, whichever is the newer one. */
static void test_versions(void **state)
{
	(void)state;
	open_versions(2, 3, 1, 2);
	come_up();
	assert_int_equal(link_version(&b.peer->exchange.asks, &b.peer->exchange.answers), 2);
	open_versions(1, 2, 3, 4);
	kit_connect(&a, link_door_addr(b.door), 1);
	kit_until(&a, &b, has_failed, &a, "it is refused");
	expect(a.why, "it speaks versions 3 to 4 of the protocol between members, this one 1 to 2");
	open_versions(7, 8, 5, 6);
	kit_connect(&a, link_door_addr(b.door), 1);
	kit_until(&a, &b, has_failed, &a, "it is refused");
	expect(a.why, "it speaks versions 5 to 6");
	assert_int_equal(a.ups + b.ups, 0);
}

/* The connection is at that one's port, which has not looked at it. */
static void connect_until_at(struct side *at)
{
	kit_connect(&a, link_door_addr(b.door), 1);
	for (uint64_t end = kit_now_ns() + KIT_LIMIT_NS; !at->port->has_arrived && kit_now_ns() < end;)
		link_door_poll(a.door, kit_now_ns()), link_door_poll(b.door, kit_now_ns());
	assert_true(at->port->has_arrived);
}

/* Who takes a version away from a knock on its way proves nothing. */
static void test_a_version_taken_away(void **state)
{
	(void)state;
	open_versions(2, 3, 2, 3);
	connect_until_at(&b);
	b.port->arrived->exchange.asks.version = 2;
	kit_until(&a, &b, are_down, NULL, "both end it");
	assert_int_equal(a.ups + b.ups, 0);
}

static void test_nobodys_lane(void **state)
{
	(void)state;
	kit_connect(&a, link_door_addr(b.door), 1);
	kit_until(&a, &b, are_up, NULL, "that lane is somebody's");
	/* a's own door would not even ask: so the lane is asked for by its number alone. */
	struct link_lane l = { 3, 7 };
	struct err err;
	int rc = link_door_connect(a.door, link_door_addr(b.door), &l, kit_now_ns(), &err);
	assert_int_equal(rc, -1);
	expect(err.text, "no room");
}

static void test_nobody_there(void **state)
{
	struct addr nobody = *link_door_addr(b.door);

	(void)state;
	addr_set_port(&nobody, 1);
	kit_connect(&a, &nobody, 1);
	kit_until(&a, &b, has_failed, &a, "it is told that nobody is there");
	expect(a.why, "can't connect to the member at 127.0.0.1:1");
}

/* Whoever proves nothing is ended, and only so many of them are let in. */
static void test_who_proves_nothing(void **state)
{
	(void)state;
	a.is_frozen = true;
	for (unsigned i = 0; i <= LINK_PROVING_MAX; i++)
		kit_connect(&a, link_door_addr(b.door), 1);
	kit_until(&a, &b, has_failed, &a, "one too many is refused");
	assert_int_equal(a.fails, 1);
	while (b.port->count < LINK_PROVING_MAX)
		kit_poll(&a, &b);
	assert_int_equal(b.downs, 0);
	kit_later_ns += LINK_PROVE_NS;
	kit_poll(&a, &b);
	assert_int_equal(b.downs, LINK_PROVING_MAX);
	assert_int_equal(b.ups, 0);
	expect(b.why, "has not proved who it is within 1000 ms");
}

static void send_bytes(struct link_peer *p, const void *bytes, uint32_t length)
{
	memcpy(link_peer_reserve(p), bytes, length);
	link_peer_send(p, length);
}

static void test_another_message_first(void **state)
{
	(void)state;
	connect_until_at(&a);
	a.port->arrived->is_asker = false;
	link_port_poll(a.port, kit_now_ns());
	assert_true(say(a.port->peers[0], 0, 1));
	kit_until(&a, &b, is_down, &b, "it is ended");
	expect(b.why, "before it had proved who it is");
	assert_int_equal(b.ups, 0);
}

/* What is no message: too short, of no kind, of another length; and noise. */
static void garbage(const void *bytes, uint32_t length, const char *why)
{
	come_up();
	a.downs = b.downs = 0;
	send_bytes(a.peer, bytes, length);
	kit_until(&a, &b, are_down, NULL, "it is ended");
	expect(b.why, why);
}

static void test_garbage(void **state)
{
	struct link_header h = { .kind = 99 };
	uint8_t noise[LINK_BYTES_MAX];

	(void)state;
	garbage(&h, 7, "shorter than a header");
	garbage(&h, sizeof h, "of a kind");
	h.kind = LINK_ACKS;
	h.bytes = 8;
	garbage(&h, sizeof h, "another length");
	h = (struct link_header){ .kind = LINK_HELLO };
	garbage(&h, sizeof h, "hello again");
	for (unsigned i = 0; i < 20; i++) {
		for (unsigned k = 0; k < sizeof noise; k++)
			noise[k] = (uint8_t)rand();
		garbage(noise, 1 + (unsigned)rand() % LINK_BYTES_MAX, "is no message");
	}
}

/* It says that it took what it was never sent. */
static void test_a_false_count(void **state)
{
	(void)state;
	come_up();
	a.peer->taken += 1000;
	assert_true(say(a.peer, 0, 1));
	kit_until(&a, &b, is_down, &b, "the liar is ended");
	expect(b.why, "taken more messages than it was sent");
}

/* Its card takes what there are receives for; then nothing. */
static void test_a_frozen_one(void **state)
{
	unsigned said = 0;

	(void)state;
	come_up();
	b.is_frozen = true;
	for (unsigned i = 0; i < 1000; i++) {
		while (a.peer && say(a.peer, said, 1))
			said++;
		kit_poll(&a, &b);
	}
	assert_int_equal(said, LINK_CREDITS + LINK_SENDS - 1 /* the hello is one */);
	assert_int_equal(a.downs, 0);
	kit_later_ns += LINK_STALL_NS;
	kit_until(&a, &b, is_down, &a, "it is given up");
	expect(a.why, "it has taken nothing for 2000 ms");
	b.is_frozen = false;
	kit_until(&a, &b, is_down, &b, "it finds out when it wakes");
}

/* One that is slow is not frozen: whatever it takes, it has the time anew. */
static void test_a_slow_one(void **state)
{
	struct ear ear = { 0, 0 };
	uint64_t said = 0;

	(void)state;
	come_up();
	b.events = (struct link_events){ .message = listen_to, .arg = &ear };
	for (unsigned round = 0; round < 20; round++) {
		uint64_t heard = ear.heard;
		b.is_frozen = true;
		for (unsigned i = 0; i < 100; i++) {
			while (say(a.peer, said, 1))
				said++;
			kit_poll(&a, &b);
		}
		kit_later_ns += LINK_STALL_NS - LINK_STALL_NS / 4;
		kit_poll(&a, &b);
		assert_int_equal(a.downs, 0);
		b.is_frozen = false;
		for (unsigned i = 0; i < 1000000 && ear.heard < heard + LINK_CREDITS; i++)
			kit_poll(&a, &b);
		assert_true(ear.heard >= heard + LINK_CREDITS / 2);
	}
	assert_int_equal(ear.wrong + a.downs, 0);
}

struct reading {
	unsigned good, bad;
};

static void read_done(void *arg, struct link_peer *p, uint64_t cookie, bool is_ok)
{
	struct reading *r = arg;

	(void)p;
	assert_int_equal(cookie, 42);
	*(is_ok ? &r->good : &r->bad) += 1;
}

static bool has_read(void *arg)
{
	const struct reading *r = arg;

	return r->good + r->bad;
}

static void test_reads(void **state)
{
	static char there[1 << 20] __attribute__((aligned(4096)));
	static char here[1 << 20] __attribute__((aligned(4096)));
	const struct verbs *v = a.device.verbs;
	struct ibv_mr *from = v->reg_mr(a.pd, there, sizeof there, IBV_ACCESS_REMOTE_READ);
	struct ibv_mr *to = v->reg_mr(b.pd, here, sizeof here, IBV_ACCESS_LOCAL_WRITE);
	struct link_read read = { here, to->lkey, sizeof here, (uintptr_t)there, from->rkey, 42 };
	struct reading r = { 0, 0 };

	(void)state;
	for (unsigned i = 0; i < sizeof there; i++)
		there[i] = (char)(i * 7 + i / 251);
	come_up();
	b.events = (struct link_events){ .read = read_done, .arg = &r };
	assert_true(link_peer_read(b.peer, &read));
	kit_until(&a, &b, has_read, &r, "the READ ends");
	assert_int_equal(r.good, 1);
	assert_memory_equal(here, there, sizeof here);
	/* What nobody may READ. */
	read.rkey++;
	r = (struct reading){ 0, 0 };
	assert_true(link_peer_read(b.peer, &read));
	kit_until(&a, &b, is_down, &b, "the READ is refused");
	assert_int_equal(r.bad, 1);
	expect(b.why, "remote access error");
	/* More than there is room for, and the other end away: all are told of. */
	read.rkey--;
	come_up();
	r = (struct reading){ 0, 0 };
	while (link_peer_read(b.peer, &read))
		;
	assert_int_equal(b.peer->reads, LINK_READS);
	link_peer_close(b.peer, "enough");
	while (b.port->count)
		kit_poll(&a, &b);
	assert_int_equal(r.good + r.bad, LINK_READS);
	v->dereg_mr(from);
	v->dereg_mr(to);
}

/* -------------------------------------------------------------------- a process of its own */
static pid_t start_other(const char *port)
{
	char text[2 * sizeof key.secret.bytes + 1];
	pid_t pid;

	for (unsigned i = 0; i < sizeof key.secret.bytes; i++)
		snprintf(text + 2 * i, 3, "%02x", key.secret.bytes[i]);
	pid = fork();
	if (!pid) {
		execl(program, program, port, text, (char *)NULL);
		_exit(127);
	}
	return pid;
}

static bool b_is_up(void *arg)
{
	(void)arg;
	return b.peer;
}

/* Killed while it is sent to; then another one of that name connects, and is up. */
static void test_a_dead_one(void **state)
{
	char port[16];

	(void)state;
	snprintf(port, sizeof port, "%u", ntohs(link_door_addr(b.door)->v4.sin_port));
	for (unsigned round = 0; round < 3; round++) {
		pid_t pid = start_other(port);
		unsigned said = 0;

		assert_true(pid > 0);
		b.downs = 0;
		kit_until(&b, NULL, b_is_up, NULL, "the other process is up");
		assert_string_equal(link_peer_name(b.peer), "other");
		for (unsigned i = 0; i < 100; i++) {
			while (say(b.peer, said, 1))
				said++;
			kit_poll(&b, NULL);
		}
		kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
		kit_until(&b, NULL, is_down, &b, "its end is seen");
		expect(b.why, "member other");
		while (b.port->count)
			kit_poll(&b, NULL);
	}
}

static bool never(void *arg)
{
	(void)arg;
	return a.downs || a.fails;
}

static int be_the_other(char *port, const char *secret)
{
	struct addr to;
	struct err err;

	auth_init();
	for (unsigned i = 0; i < sizeof key.secret.bytes; i++) {
		unsigned byte;
		sscanf(secret + 2 * i, "%2x", &byte);
		key.secret.bytes[i] = (uint8_t)byte;
	}
	auth_key_of(&key.secret, &key.key);
	kit_open(&a, "other", &key, false);
	if (addr_parse(&to, port, &err))
		return 1;
	kit_connect(&a, &to, 1);
	kit_until(&a, NULL, never, NULL, "it is killed");
	return 1;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		CASE(test_they_know_each_other),
		CASE(test_messages),
		CASE(test_one_way),
		CASE(test_who_sleeps),
		CASE(test_another_key),
		CASE(test_another_keys_answer),
		CASE(test_versions),
		CASE(test_a_version_taken_away),
		CASE(test_nobodys_lane),
		CASE(test_nobody_there),
		CASE(test_who_proves_nothing),
		CASE(test_another_message_first),
		CASE(test_garbage),
		CASE(test_a_false_count),
		CASE(test_a_frozen_one),
		CASE(test_a_slow_one),
		CASE(test_reads),
		CASE(test_a_dead_one),
	};

	program = "/proc/self/exe";
	if (argc == 3)
		return be_the_other(argv[1], argv[2]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
