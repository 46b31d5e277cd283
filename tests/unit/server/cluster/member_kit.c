/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/server/cluster/member_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

struct member m;
struct member_actions acts;
uint64_t now;

struct config config(uint64_t epoch, uint64_t reign, uint64_t writer, const char *names)
{
	struct config c = { .epoch = epoch, .reign = reign, .writer = writer };

	for (; *names; names++) {
		c.set[c.count].name[0] = *names;
		c.set[c.count++].incarnation = *names == 'a' ? A : *names == 'b' ? B : C;
	}
	return c;
}

const struct member_action *wants(enum member_action_kind kind)
{
	for (unsigned i = 0; i < acts.count; i++)
		if (acts.of[i].kind == kind)
			return &acts.of[i];
	return NULL;
}

const struct member_message *sends(enum member_message_kind kind, const char *to)
{
	for (unsigned i = 0; i < acts.count; i++)
		if (acts.of[i].kind == MEMBER_SEND && acts.of[i].message.kind == kind &&
		    !strcmp(acts.of[i].peer, to))
			return &acts.of[i].message;
	return NULL;
}

void read_config(struct config c)
{
	acts.count = 0;
	member_config(&m, now, &c, &acts);
}

bool is_mute;

void answer(void)
{
	const struct config known = m.known;

	member_config(&m, now, &known, &acts);
}

void tick(uint64_t later_ms)
{
	now += later_ms * MS;
	acts.count = 0;
	member_tick(&m, now, 0, &acts);
	if (m.suspects && !is_mute)
		answer();
}

void obey(uint64_t order)
{
	assert_true(order);
	acts.count = 0;
	member_obeyed(&m, order, now, &acts);
}

void hear(const char *from, uint64_t incarnation, struct member_message message)
{
	message.from = incarnation;
	message.epoch = message.epoch ? message.epoch : m.known.epoch;
	message.to = message.kind == MEMBER_JOIN ? 0 : m.self.incarnation;
	acts.count = 0;
	member_heard(&m, now, from, &message, &acts);
}

void start(void)
{
	now = 1000 * MS;
	acts.count = 0;
	member_start(&m, &(struct config_member){ "b", B }, LIFE, now, &acts);
	assert_non_null(wants(MEMBER_READ));
	member_reached(&m, true);
}

void back(void)
{
	start();
	read_config(config(1, 1, 1, "abc"));
	assert_int_equal(m.state, MEMBER_BACKING);
	obey(m.epoch_order);
}
