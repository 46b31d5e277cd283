/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * server/cluster/link: who sleeps is woken by what comes, and not by what it sent, unless it waits for
 * that; with a member of the version before by both.
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
static uint8_t bytes[64];

static bool are_up(void *arg)
{
	(void)arg;
	return a.peer && b.peer;
}

/* Two of them; a speaks no later version than that, 0: any. */
static void meet(uint32_t latest)
{
	struct link_key key;

	kit_later_ns = 0;
	kit_key(&key);
	kit_open_of(&a, "anna", &key, false, (struct link_versions){ latest, latest });
	kit_open(&b, "bert", &key, true);
	kit_connect(&a, link_door_addr(b.door), 1);
	kit_until(&a, &b, are_up, NULL, "two members are up");
	for (unsigned i = 0; i < 100; i++)
		kit_poll(&a, &b);
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

static bool has_sent(void *arg)
{
	struct link_peer *p = arg;

	return p->completed == p->queued && !p->reads;
}

static void test_by_a_message(void **state)
{
	(void)state;
	meet(0);
	arm(&a);
	arm(&b);
	say(a.peer);
	assert_true(is_woken(&b, AWAITED_MS));
	assert_false(is_woken(&a, MOMENT_MS));
	kit_until(&a, &b, has_sent, a.peer, "it is sent all the same");
}

/* It says of no message that it is one to wake for, and is not told so. */
static void test_of_the_version_before(void **state)
{
	(void)state;
	meet(LINK_VERSION_SOLICITED - 1);
	arm(&a);
	arm(&b);
	say(a.peer);
	assert_true(is_woken(&b, AWAITED_MS));
	assert_true(is_woken(&a, AWAITED_MS));
}

static void test_by_a_read(void **state)
{
	static uint8_t from[64] = "a value";
	struct ibv_mr *to_mr, *from_mr;

	(void)state;
	meet(0);
	to_mr = a.device.verbs->reg_mr(a.pd, bytes, sizeof bytes, IBV_ACCESS_LOCAL_WRITE);
	from_mr = b.device.verbs->reg_mr(b.pd, from, sizeof from, IBV_ACCESS_REMOTE_READ);
	assert_true(to_mr && from_mr);
	struct link_read r = { bytes, to_mr->lkey, sizeof bytes, (uintptr_t)from, from_mr->rkey, 1 };
	assert_true(link_peer_read(a.peer, &r));
	link_port_arm(a.port);
	assert_true(link_port_poll(a.port, kit_now_ns()) || is_woken(&a, AWAITED_MS));
	kit_until(&a, &b, has_sent, a.peer, "it is read");
	assert_memory_equal(bytes, from, sizeof from);
	a.device.verbs->dereg_mr(to_mr);
	b.device.verbs->dereg_mr(from_mr);
}

/* Who found no room is told when there is some. */
static void test_by_room(void **state)
{
	(void)state;
	meet(0);
	while (link_peer_reserve(a.peer))
		say(a.peer);
	link_port_arm(a.port);
	assert_true(link_port_poll(a.port, kit_now_ns()) || is_woken(&a, AWAITED_MS));
}

/* What was posted comes back, and the queue pair can go. */
static void test_by_its_end(void **state)
{
	(void)state;
	meet(0);
	arm(&a);
	link_peer_close(a.peer, "that is all");
	assert_true(is_woken(&a, AWAITED_MS));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_teardown(name, teardown)
		CASE(test_by_a_message),
		CASE(test_of_the_version_before),
		CASE(test_by_a_read),
		CASE(test_by_room),
		CASE(test_by_its_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
