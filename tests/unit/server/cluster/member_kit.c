/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "server/cluster/member/primary.h"
#include "tests/unit/server/cluster/member_kit.h"

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

void take_over(void)
{
	const struct member_action *a;

	back();
	assert_non_null(sends(MEMBER_OPEN, "a"));
	tick(MEMBER_SILENCE_NS / MS - 1);
	assert_null(wants(MEMBER_SEAL));
	tick(1);
	assert_non_null(wants(MEMBER_SEAL));
	tick(1);
	assert_null(wants(MEMBER_WRITE)); /* a worker may still acknowledge */
	obey(m.seal_order);
	a = wants(MEMBER_WRITE);
	assert_non_null(a);
	assert_int_equal(a->config.epoch, 2);
	assert_int_equal(a->config.reign, 2);
	assert_int_equal(a->config.count, 2);
	assert_string_equal(a->config.set[0].name, "b");
	assert_string_equal(a->config.set[1].name, "c");
	read_config(config(2, 2, LIFE, "bc"));
	assert_int_equal(m.state, MEMBER_TAKING);
	assert_int_equal(wants(MEMBER_EPOCH)->role, MEMBER_PRIMARY);
	member_wrote(&m, now, NULL, &acts);
}

void c_begins(void)
{
	hear("c", C, (struct member_message){ .kind = MEMBER_OPEN, .number = 77 });
	assert_int_equal(sends(MEMBER_BEGIN, "c")->number, 77);
	hear("c", C, (struct member_message){ .kind = MEMBER_BEGUN, .number = 76 });
	assert_null(wants(MEMBER_BEGUN_BY));
	hear("c", C, (struct member_message){ .kind = MEMBER_BEGUN, .number = 77 });
	assert_non_null(wants(MEMBER_BEGUN_BY));
}

void settled(void)
{
	acts.count = 0;
	member_settled(&m, m.known.epoch, now, &acts);
}

void keep_c(uint64_t later_ms)
{
	for (uint64_t i = 0; i < later_ms; i += 50) {
		hear("c", C, (struct member_message){ .kind = MEMBER_PROMISE,
						      .number = m.round.number });
		tick(50);
	}
}

void serve(void)
{
	take_over();
	obey(m.epoch_order);
	c_begins();
	settled();
	keep_c(400);
	obey(m.serve_order);
	tick(0);
	hear("c", C, (struct member_message){ .kind = MEMBER_PROMISE, .number = m.round.number });
	assert_true(member_may_answer(&m, now));
}
