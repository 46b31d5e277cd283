/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * server/cluster/link: who sleeps is woken by what comes, and not by each message that it sent; what
 * is not signalled is free with a later one, or at the end; and a door keeps nobody for long.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>

#include "server/cluster/link/impl.h"
#include "tests/unit/server/cluster/link_kit.h"

#define MOMENT_MS 20
#define AWAITED_MS 60000

static struct side a, b;

static bool are_up(void *arg)
{
	(void)arg;
	return a.peer && b.peer;
}

static int setup(void **state)
{
	struct link_key key;

	(void)state;
	kit_later_ns = 0;
	kit_key(&key);
	kit_open(&a, "anna", &key, false);
	kit_open(&b, "bert", &key, true);
	kit_connect(&a, link_door_addr(b.door), 1);
	kit_until(&a, &b, are_up, NULL, "two members are up");
	for (unsigned i = 0; i < 100; i++)
		kit_poll(&a, &b);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	kit_close(&a, &b);
	return 0;
}

/* As who sleeps next: armed, and nothing has come meanwhile. */
static void arm(struct side *s)
{
	link_port_arm(s->port);
	assert_false(link_port_poll(s->port, kit_now_ns()));
}

static bool is_woken(struct side *s, int timeout_ms)
{
	struct pollfd fd = { .fd = s->channel->fd, .events = POLLIN };

	if (poll(&fd, 1, timeout_ms) != 1)
		return false;
	link_port_woken(s->port);
	return true;
}

static void say(struct link_peer *p)
{
	struct link_writer w;
	void *memory = link_peer_reserve(p);

	assert_non_null(memory);
	link_begin(&w, memory, LINK_ACKS, 1, 2, 3, 0);
	link_peer_send(p, link_length(&w));
}

/* The next one is not signalled. */
static bool is_behind(const struct link_peer *p)
{
	return p->posted % LINK_SIGNAL_EACH && (p->posted + 1) % LINK_SIGNAL_EACH;
}

static void test_by_a_message(void **state)
{
	(void)state;
	while (!is_behind(a.peer)) {
		say(a.peer);
		kit_poll(&a, &b);
	}
	arm(&a);
	arm(&b);
	say(a.peer);
	assert_true(is_woken(&b, AWAITED_MS));
	assert_false(is_woken(&a, MOMENT_MS));
}

static void test_by_a_later_one(void **state)
{
	(void)state;
	for (unsigned round = 0; round < 100; round++) {
		arm(&a);
		for (unsigned i = 0; i < LINK_SIGNAL_EACH; i++)
			say(a.peer);
		assert_true(is_woken(&a, AWAITED_MS));
		kit_poll(&a, &b);
		kit_poll(&a, &b);
		assert_true(a.peer->posted - a.peer->completed < LINK_SIGNAL_EACH);
	}
}

static bool has_room(void *arg)
{
	(void)arg;
	return a.rooms > 0;
}

/* Who found no room is told when there is some. */
static void test_by_room(void **state)
{
	(void)state;
	while (link_peer_reserve(a.peer))
		say(a.peer);
	link_port_arm(a.port);
	assert_true(link_port_poll(a.port, kit_now_ns()) || is_woken(&a, AWAITED_MS));
	kit_until(&a, &b, has_room, NULL, "it is told of room");
}

/* Or it was given up. */
static bool has_posted_since(void *arg)
{
	return a.downs || a.peer->posted != *(uint32_t *)arg;
}

/* It is no frozen one, though what leaves for that is not signalled for long. */
static void test_one_at_a_time(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 100 && a.peer->posted == a.peer->queued; i++) {
		while (link_peer_reserve(a.peer))
			say(a.peer);
		link_port_poll(a.port, kit_now_ns());
	}
	assert_int_not_equal(a.peer->posted, a.peer->queued);
	for (unsigned i = 0; i < 2 * LINK_SIGNAL_EACH; i++) {
		uint32_t posted = a.peer->posted;

		kit_later_ns += LINK_STALL_NS / 4 * 3;
		b.peer->taken++;
		say(b.peer);
		kit_until(&a, NULL, has_posted_since, &posted, "one more leaves");
		assert_int_equal(a.downs, 0);
	}
}

static bool is_drained(void *arg)
{
	(void)arg;
	return !a.port->count;
}

static void test_the_end(void **state)
{
	(void)state;
	for (unsigned each = 0; each < LINK_SIGNAL_EACH && !is_behind(a.peer); each++)
		say(a.peer);
	say(a.peer);
	kit_poll(&a, &b);
	assert_int_not_equal(a.peer->posted, a.peer->completed);
	uint64_t since_ns = kit_now_ns();
	link_peer_close(a.peer, "that is all");
	kit_until(&a, &b, is_drained, NULL, "its queue pair goes");
	assert_true(kit_now_ns() - since_ns < LINK_DRAIN_NS / 2);
}

static unsigned events;

/* There is another for as long as it matters, of an id that is nobody's. */
static int next_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	static struct rdma_cm_id id;
	static struct rdma_cm_event next = { .id = &id, .event = RDMA_CM_EVENT_ADDR_CHANGE };

	(void)channel;
	*event = &next;
	return ++events < 10 * LINK_KNOCKS_MAX ? 0 : -1;
}

static int ack_event(struct rdma_cm_event *event)
{
	(void)event;
	return 0;
}

/* A round looks at as many events as may knock at once, and no more, though more are there: those who are
 * connected wait for its end. */
static void test_a_round(void **state)
{
	const struct verbs *own = b.device.verbs;
	struct verbs many = *own;
	unsigned looked_at[2];

	(void)state;
	many.get_cm_event = next_event;
	many.ack_cm_event = ack_event;
	b.device.verbs = &many;
	for (unsigned round = 0; round < 2; round++) {
		events = 0;
		link_door_poll(b.door, kit_now_ns());
		looked_at[round] = events;
	}
	b.device.verbs = own; /* for the end of the test, too */
	assert_int_equal(looked_at[0], LINK_KNOCKS_MAX);
	assert_int_equal(looked_at[1], LINK_KNOCKS_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		CASE(test_by_a_message),
		CASE(test_by_a_later_one),
		CASE(test_by_room),
		CASE(test_one_at_a_time),
		CASE(test_the_end),
		CASE(test_a_round),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
