/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "tests/unit/server/cluster/link_kit.h"

const char *kit_address = "127.0.0.1:0";
uint64_t kit_later_ns;

uint64_t kit_now_ns(void)
{
	return clock_ns() + kit_later_ns;
}

void kit_key(struct link_key *key)
{
	assert_int_equal(auth_init(), 0);
	auth_new(&key->secret, &key->key);
}

static void up(void *arg, struct link_peer *p)
{
	struct side *s = arg;

	s->peer = p;
	s->ups++;
	if (s->events.up)
		s->events.up(s->events.arg, p);
}

static void message(void *arg, struct link_peer *p, struct link_reader *r)
{
	struct side *s = arg;

	if (s->events.message)
		s->events.message(s->events.arg, p, r);
}

static void read_done(void *arg, struct link_peer *p, uint64_t cookie, bool is_ok)
{
	struct side *s = arg;

	if (s->events.read)
		s->events.read(s->events.arg, p, cookie, is_ok);
}

static void room(void *arg, struct link_peer *p)
{
	struct side *s = arg;

	s->rooms++;
	if (s->events.room)
		s->events.room(s->events.arg, p);
}

static void down(void *arg, struct link_peer *p, const char *why)
{
	struct side *s = arg;

	s->downs++;
	if (s->peer == p)
		s->peer = NULL;
	snprintf(s->why, sizeof s->why, "%s", why);
	if (s->events.down)
		s->events.down(s->events.arg, p, why);
}

static void failed(void *arg, const struct addr *to, const struct link_lane *lane, const char *why)
{
	struct side *s = arg;

	(void)to;
	(void)lane;
	s->fails++;
	snprintf(s->why, sizeof s->why, "%s", why);
}

/* Lane 7 is nobody's. */
static struct link_port *port_of(void *arg, const struct link_lane *lane)
{
	struct side *s = arg;

	return lane->number == 7 ? NULL : s->port;
}

static void open_device(struct side *s, const struct addr *addr)
{
	struct err err;

	if (device_choose(&s->device, NULL, addr, &err))
		fail_msg("%s", err.text);
	const struct verbs *v = s->device.verbs;
	assert_int_equal(v->create_id(NULL, &s->id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(v->bind_addr(s->id, (struct sockaddr *)(uintptr_t)&addr->sa), 0);
	s->pd = v->alloc_pd(s->id->verbs);
	assert_non_null(s->pd);
	s->channel = v->create_comp_channel(s->id->verbs);
	assert_non_null(s->channel);
}

void kit_open(struct side *s, const char *name, const struct link_key *key, bool listens)
{
	kit_open_of(s, name, key, listens, (struct link_versions){ 0, 0 });
}

void kit_open_of(struct side *s, const char *name, const struct link_key *key, bool listens,
		 struct link_versions versions)
{
	struct addr any;
	struct err err;

	*s = (struct side){ .key = *key };
	assert_int_equal(addr_parse(&any, kit_address, &err), 0);
	open_device(s, &any);
	struct link_port_options port = {
		.verbs = s->device.verbs, .pd = s->pd, .channel = s->channel,
		.key = &s->key, .name = name,
		.is_read = true,
		.events = { up, message, read_done, room, down, s },
	};
	struct link_door_options door = {
		.device = &s->device, .pd = s->pd, .device_port = 1,
		.listen = listens ? &any : NULL, .versions = versions,
		.port = port_of, .failed = failed, .arg = s,
	};
	if (link_port_new(&port, &s->port, &err) || link_door_new(&door, &s->door, &err))
		fail_msg("%s", err.text);
}

void kit_connect(struct side *from, const struct addr *to, uint32_t lane)
{
	struct link_lane l = { 3, lane };
	struct err err;

	if (link_door_connect(from->door, to, &l, kit_now_ns(), &err))
		fail_msg("%s", err.text);
}

static void poll_one(struct side *s)
{
	if (!s->is_frozen)
		link_port_poll(s->port, kit_now_ns());
	link_door_poll(s->door, kit_now_ns());
}

void kit_poll(struct side *a, struct side *b)
{
	poll_one(a);
	if (b)
		poll_one(b);
}

void kit_until(struct side *a, struct side *b, bool (*is_so)(void *arg), void *arg,
	       const char *what)
{
	uint64_t end = clock_ns() + KIT_LIMIT_NS;

	while (!is_so(arg)) {
		kit_poll(a, b);
		if (clock_ns() > end)
			fail_msg("%s: not within a minute; %s; %s", what, a->why, b ? b->why : "");
	}
}

static void end(struct side *s)
{
	uint64_t limit = clock_ns() + KIT_LIMIT_NS;

	link_port_end(s->port, "the test is over");
	while (!link_port_is_empty(s->port)) {
		link_port_poll(s->port, kit_now_ns());
		assert_true(clock_ns() < limit);
	}
	link_door_delete(&s->door);
	link_port_delete(&s->port);
	s->device.verbs->destroy_comp_channel(s->channel);
	s->device.verbs->dealloc_pd(s->pd);
	s->device.verbs->destroy_id(s->id);
}

void kit_close(struct side *a, struct side *b)
{
	end(a);
	if (b)
		end(b);
}
