/* SPDX-License-Identifier: BSD-2-Clause */
/* server/cluster/config: a configuration as text, and how it is kept in an agreement. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "server/cluster/agree/register.h"
#include "server/cluster/config/config.h"
#include "server/cluster/config/keeper.h"

#define PATH "/shard"

static struct config three(void)
{
	return (struct config){
		.epoch = 1, .reign = 1, .writer = 0xfedcba9876543210u, .count = 3,
		.set = { { "a", 0xa1 }, { "host-2.example:7000", 1 }, { "c_3", ~0ull } },
	};
}

/* The structures have gaps, which say nothing. */
static void assert_same(const struct config *a, const struct config *b)
{
	char text[2][CONFIG_TEXT_BYTES];

	config_print(a, text[0]);
	config_print(b, text[1]);
	assert_string_equal(text[0], text[1]);
	assert_int_equal(a->epoch, b->epoch);
}

static void test_text(void **state)
{
	char text[CONFIG_TEXT_BYTES];
	struct config c = three(), read;
	const char *why;
	size_t length = config_print(&c, text);

	(void)state;
	assert_string_equal(text, "kvd-shard 1\nreign 1\nprimary a 00000000000000a1\n"
			    "backup host-2.example:7000 0000000000000001\n"
			    "backup c_3 ffffffffffffffff\nhanded no\nwriter fedcba9876543210\n");
	assert_int_equal(config_parse(text, length, 0, &read, &why), 0);
	assert_same(&read, &c);
	for (size_t cut = 0; cut < length; cut++)
		assert_int_equal(config_parse(text, cut, 0, &read, &why), -1);
	assert_int_equal(config_find(&c, &c.set[2]), 2);
	c.copies = 3;
	c.removed = (struct config_member){ "d", 0xd4 };
	length = config_print(&c, text);
	assert_non_null(strstr(text, "\ncopies 3\nremoved d 00000000000000d4\n"));
	assert_int_equal(config_parse(text, length, 0, &read, &why), 0);
	assert_same(&read, &c);
	assert_true(config_is_same(&c.set[1], &read.set[1]));
	assert_false(config_is_same(&c.set[1], &c.set[2]));
	assert_int_equal(config_find(&c, &(struct config_member){ "c_3", 1 }), -1);
}

static void test_names(void **state)
{
	char name[CONFIG_NAME_BYTES + 1];

	(void)state;
	memset(name, 'a', CONFIG_NAME_BYTES);
	name[CONFIG_NAME_BYTES] = 0;
	assert_false(config_is_name(name));
	assert_true(config_is_name(name + 1));
	assert_true(config_is_name("a-Z_0.9:7000"));
	assert_false(config_is_name(""));
	assert_false(config_is_name("a b"));
	assert_false(config_is_name("a/b"));
}

/* The largest there can be fits, and is understood: as many copies are wanted as there may be members. */
static void test_largest(void **state)
{
	char text[CONFIG_TEXT_BYTES];
	const char *why;
	struct config read, c = { .epoch = 1, .reign = ~0ull, .writer = ~0ull, .is_handed = true,
				  .copies = CONFIG_MEMBERS_MAX, .count = CONFIG_MEMBERS_MAX };

	(void)state;
	for (unsigned i = 0; i < c.count; i++) {
		memset(c.set[i].name, 'a' + (int)i, CONFIG_NAME_BYTES - 1);
		c.set[i].incarnation = ~0ull;
	}
	c.removed = c.set[0];
	assert_true(config_print(&c, text) < sizeof text);
	assert_int_equal(text[strlen(text) - 1], '\n');
	c.reign = 1; /* no more than the epoch */
	assert_int_equal(config_parse(text, config_print(&c, text), 0, &read, &why), 0);
	assert_same(&read, &c);
	c.copies++;
	assert_int_equal(config_parse(text, config_print(&c, text), 0, &read, &why), -1);
	assert_string_equal(why, "copies can't be so many");
}

static void test_wrong_texts(void **state)
{
	static const char *const texts[] = {
		"kvd-shard 2\nreign 1\nprimary a 1\nhanded no\nwriter 1\n",
		"kvd-shard 1\nreign 2\nprimary a 1\nhanded no\nwriter 1\n",
		"kvd-shard 1\nreign 1\nbackup a 1\nhanded no\nwriter 1\n",
		"kvd-shard 1\nreign 1\nprimary a 1\nprimary b 1\nhanded no\nwriter 1\n",
		"kvd-shard 1\nreign 1\nprimary a 1\nbackup a 2\nhanded no\nwriter 1\n",
		"kvd-shard 1\nreign 1\nprimary a 0\nhanded no\nwriter 1\n",
		"kvd-shard 1\nreign 1\nprimary a/b 1\nhanded no\nwriter 1\n",
		"kvd-shard 1\nreign 1\nprimary a 1 2\nhanded no\nwriter 1\n",
		"kvd-shard 1\nreign 1\nprimary a 1\nhanded maybe\nwriter 1\n",
		"kvd-shard 1\nreign 1\nprimary a 1\nhanded no\nwriter 0\n",
		"kvd-shard 1\nprimary a 1\nhanded no\nwriter 1\n",
		"kvd-shard 1\nreign 1\nprimary a 1\nhanded no\nwriter 1\nmore\n",
	};

	(void)state;
	for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
		struct config c;
		const char *why = NULL;

		if (!config_parse(texts[i], strlen(texts[i]), 0, &c, &why))
			fail_msg("taken for a configuration: %s", texts[i]);
		assert_non_null(why);
	}
}

#define BEFORE "kvd-shard 1\nreign 1\n"
#define A "primary a 1\n"
#define BEHIND "handed no\nwriter 1\n"

/* What it is that can't be understood is told; more on a line than belongs there is no less. */
static void test_why(void **state)
{
	static const char line[] = "a line can't be understood";
	static const char member[] = "a line of a member can't be understood";
	static const char copies[] = "copies can't be so many", missing[] = "a line is missing, or its end";
	static const struct {
		const char *text, *why;
	} texts[] = {
		{ "kvd-shard 1\nreign 1 \n" A BEHIND, line },
		{ BEFORE A "handed no\nwriter 1 1\n", line },
		{ BEFORE A "copies 2 \n" BEHIND, line },
		{ BEFORE A "removed d 1 \n" BEHIND, line },
		{ BEFORE A "handed no \nwriter 1\n", line },
		{ BEFORE A "handed noo\nwriter 1\n", "\"handed\" is yes or no" },
		{ BEFORE A "copies 0\n" BEHIND, copies },
		{ BEFORE A "copies 9\n" BEHIND, copies },
		{ BEFORE A "removed d/e 1\n" BEHIND, "who was removed can't be understood" },
		{ BEFORE "primary a 0\n" BEHIND, member },
		{ BEFORE A "backup a 2\n" BEHIND, "a member is named twice" },
		{ BEFORE A "primary b 1\n" BEHIND, "its first member is not the primary, or there are two" },
		{ BEFORE A "backup b 1\nbackup c 1\nbackup d 1\nbackup e 1\nbackup f 1\nbackup g 1\n"
			 "backup h 1\nbackup i 1\n" BEHIND, "it has more members than this kvd knows of" },
		{ BEFORE A BEHIND "more", missing },
		{ BEFORE BEHIND, missing },
		{ "kvd-shard 2\n", "it is no configuration of a shard, or one of a later kvd's" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
		struct config c;
		const char *why = NULL;

		assert_int_equal(config_parse(texts[i].text, strlen(texts[i].text), 0, &c, &why), -1);
		assert_string_equal(why, texts[i].why);
	}
}

/* The longest there can be, with its 0, and no longer; a 0 within is no end; no version, no text. */
static void test_length(void **state)
{
	static const char longer[] = "it is longer than a configuration, or no text";
	static const char behind[] = BEFORE A BEHIND "\0more\n";
	char text[CONFIG_TEXT_BYTES + 64];
	struct config c;
	const char *why;

	(void)state;
	for (size_t length = CONFIG_TEXT_BYTES - 1; length <= CONFIG_TEXT_BYTES; length++) {
		size_t begin = (size_t)snprintf(text, sizeof text, BEFORE A BEHIND "copies ");

		memset(text + begin, '0', length - begin - 2);
		memcpy(text + length - 2, "1\n", 2);
		why = text;
		if (length < CONFIG_TEXT_BYTES) {
			assert_int_equal(config_parse(text, length, 0, &c, &why), 0);
			assert_null(why);
			assert_int_equal(c.copies, 1);
			continue;
		}
		assert_int_equal(config_parse(text, length, 0, &c, &why), -1);
		assert_string_equal(why, longer);
	}
	assert_int_equal(config_parse(behind, sizeof behind - 1, 0, &c, &why), -1);
	assert_string_equal(why, longer);
	assert_int_equal(config_parse(behind, strlen(behind), -1, &c, &why), -1);
	assert_string_equal(why, longer);
	assert_int_equal(config_parse(behind, strlen(behind), 41, &c, &why), 0);
	assert_int_equal(c.epoch, 42);
}

/* ------------------------------------------------------------------- keeper */
struct seat {
	struct keeper keeper;
	struct config config;
	unsigned reads, outcomes, failures;
	enum keeper_outcome outcome;
	bool is_reached;
	const char *why; /* of the last failure */
};

static void on_config(void *arg, const struct config *c)
{
	((struct seat *)arg)->config = *c;
	((struct seat *)arg)->reads++;
}

static void on_wrote(void *arg, enum keeper_outcome outcome, const struct config *c)
{
	struct seat *s = arg;

	s->outcome = outcome;
	s->outcomes++;
	assert_int_equal(c != NULL, outcome == KEEPER_WRITTEN);
	if (c)
		s->config = *c;
}

static void on_reached(void *arg, bool is_reached)
{
	((struct seat *)arg)->is_reached = is_reached;
}

static void on_failed(void *arg, const char *why)
{
	assert_non_null(why);
	((struct seat *)arg)->failures++;
	((struct seat *)arg)->why = why;
}

static void open_seat(struct agree_register *reg, struct seat *s)
{
	*s = (struct seat){ .keeper = { .path = PATH, .events = { on_config, on_wrote, on_reached,
								  on_failed, s } } };
	struct agree_events events = keeper_agree_events(&s->keeper);

	assert_int_equal(agree_register_open(reg, &events, &s->keeper.agree), 0);
	agree_poll(s->keeper.agree); /* the session */
	agree_poll(s->keeper.agree); /* what was read then */
	assert_true(s->is_reached);
}

static void turn(struct seat *s)
{
	keeper_tick(&s->keeper);
	agree_poll(s->keeper.agree);
	agree_poll(s->keeper.agree);
}

static void on_created(void *arg, const struct agree_answer *a)
{
	*(bool *)arg = a->status == AGREE_DONE;
}

static struct agree_register *begin(struct seat *a, struct seat *b)
{
	struct agree_register *reg = agree_register_new();
	struct config c = three();
	char text[CONFIG_TEXT_BYTES];
	size_t length = config_print(&c, text);
	bool is_created = false;

	assert_non_null(reg);
	open_seat(reg, a);
	assert_int_equal(a->failures, 1); /* there is none yet */
	assert_int_equal(agree_create(a->keeper.agree, PATH, text, length, false, on_created,
				      &is_created), 0);
	agree_poll(a->keeper.agree);
	assert_true(is_created);
	keeper_read(&a->keeper);
	agree_poll(a->keeper.agree);
	assert_int_equal(a->config.epoch, 1);
	open_seat(reg, b);
	assert_int_equal(b->config.epoch, 1);
	return reg;
}

static void end(struct agree_register *reg, struct seat *a, struct seat *b)
{
	agree_close(&a->keeper.agree);
	agree_close(&b->keeper.agree);
	agree_register_delete(&reg);
}

static struct config next(const struct config *c, uint64_t writer)
{
	struct config n = *c;

	n.epoch++;
	n.writer = writer;
	return n;
}

/* Who writes second loses, and reads who won; who watches is told. */
static void test_two_write(void **state)
{
	struct seat a, b;
	struct agree_register *reg = begin(&a, &b);
	struct config ca = next(&a.config, 0xa), cb = next(&b.config, 0xb);

	(void)state;
	assert_true(keeper_write(&a.keeper, &ca));
	assert_false(keeper_write(&a.keeper, &ca));
	assert_true(keeper_write(&b.keeper, &cb));
	turn(&a);
	assert_int_equal(a.outcome, KEEPER_WRITTEN);
	turn(&b);
	assert_int_equal(b.outcome, KEEPER_LOST);
	turn(&b);
	assert_int_equal(b.config.epoch, 2);
	assert_int_equal(b.config.writer, 0xa);
	end(reg, &a, &b);
}

/* "Not there" is not "never": a late write is carried out until another took its version. */
static void test_lost_and_late(void **state)
{
	struct seat a, b;
	struct agree_register *reg = begin(&a, &b);
	struct config ca = next(&a.config, 0xa);

	(void)state;
	agree_register_fault(reg, AGREE_LATE);
	assert_true(keeper_write(&a.keeper, &ca));
	turn(&a);
	assert_int_equal(a.outcome, KEEPER_UNKNOWN);
	assert_int_equal(a.config.epoch, 1);
	assert_true(keeper_write(&a.keeper, &ca));
	turn(&a);
	assert_int_equal(a.outcome, KEEPER_WRITTEN);
	agree_register_carry_out(reg);
	turn(&b);
	assert_int_equal(b.config.epoch, 2);
	agree_register_fault(reg, AGREE_LOSE_ANSWER);
	ca = next(&ca, 0xaa);
	assert_true(keeper_write(&a.keeper, &ca));
	turn(&a);
	assert_int_equal(a.outcome, KEEPER_UNKNOWN);
	turn(&a);
	assert_int_equal(a.config.epoch, 3);
	assert_int_equal(a.config.writer, 0xaa);
	end(reg, &a, &b);
}

/* What is not there, or can't be understood, is told, and asked for again at each tick until it is. */
static void test_not_there(void **state)
{
	struct agree_register *reg = agree_register_new();
	struct config c = three();
	char text[CONFIG_TEXT_BYTES];
	struct seat s;
	bool is_created = false;

	(void)state;
	assert_non_null(reg);
	open_seat(reg, &s);
	assert_int_equal(s.failures, 1);
	turn(&s);
	assert_int_equal(s.failures, 2);
	assert_int_equal(agree_create(s.keeper.agree, PATH, "none\n", 5, false, on_created, &is_created), 0);
	turn(&s);
	turn(&s);
	assert_true(is_created);
	assert_string_equal(s.why, "it is no configuration of a shard, or one of a later kvd's");
	assert_int_equal(s.reads, 0);
	is_created = false;
	assert_int_equal(agree_write(s.keeper.agree, PATH, text, config_print(&c, text), 0, on_created,
				     &is_created), 0);
	turn(&s);
	turn(&s);
	assert_true(is_created);
	assert_int_equal(s.config.epoch, 2);
	unsigned reads = s.reads;
	turn(&s);
	assert_int_equal(s.reads, reads); /* it is known: nothing is asked */
	agree_close(&s.keeper.agree);
	agree_register_delete(&reg);
}

/* One read at a time: what is asked for meanwhile is read again behind it. */
static void test_one_read(void **state)
{
	struct seat a, b;
	struct agree_register *reg = begin(&a, &b);
	unsigned reads = a.reads;

	(void)state;
	for (unsigned i = 0; i < 3; i++)
		keeper_read(&a.keeper);
	agree_poll(a.keeper.agree);
	assert_int_equal(a.reads, reads + 1);
	turn(&a);
	assert_int_equal(a.reads, reads + 2);
	turn(&a);
	assert_int_equal(a.reads, reads + 2);
	end(reg, &a, &b);
}

/* Why it is not known whether it was written is told; that another wrote first is no failure. */
static void test_told(void **state)
{
	struct seat a, b;
	struct agree_register *reg = begin(&a, &b);
	struct config ca = next(&a.config, 0xa), cb = next(&b.config, 0xb);
	unsigned failures = b.failures, reads;

	(void)state;
	assert_true(keeper_write(&a.keeper, &ca));
	assert_true(keeper_write(&b.keeper, &cb));
	turn(&a);
	turn(&b);
	assert_int_equal(b.outcome, KEEPER_LOST);
	assert_int_equal(b.failures, failures);
	turn(&b);
	reads = b.reads;
	agree_register_fault(reg, AGREE_LOSE_REQUEST);
	cb = next(&b.config, 0xbb);
	assert_true(keeper_write(&b.keeper, &cb));
	turn(&b);
	turn(&b);
	assert_int_equal(b.outcome, KEEPER_UNKNOWN);
	assert_int_equal(b.failures, failures + 1);
	assert_int_equal(b.reads, reads + 1); /* it looks what became of it */
	assert_int_equal(b.config.writer, 0xa);
	end(reg, &a, &b);
}

/* The first configuration is not a keeper's to write; without a session nothing is written, nor read. */
static void test_no_write(void **state)
{
	struct seat a, b;
	struct agree_register *reg = begin(&a, &b);
	struct config c = three();
	struct agree *agree = a.keeper.agree;
	unsigned reads = a.reads;

	(void)state;
	assert_false(keeper_write(&a.keeper, &c));
	assert_false(a.keeper.is_writing);
	c = next(&c, 0xa);
	a.keeper.agree = NULL;
	assert_false(keeper_write(&a.keeper, &c));
	keeper_read(&a.keeper);
	a.keeper.agree = agree;
	assert_int_equal(a.reads, reads);
	turn(&a); /* it can be asked */
	assert_int_equal(a.reads, reads + 1);
	assert_true(keeper_write(&a.keeper, &c));
	turn(&a);
	assert_int_equal(a.outcome, KEEPER_WRITTEN);
	end(reg, &a, &b);
}

static void test_session_over(void **state)
{
	struct seat a, b;
	struct agree_register *reg = begin(&a, &b);

	(void)state;
	agree_register_end(a.keeper.agree);
	turn(&a);
	assert_false(a.is_reached);
	end(reg, &a, &b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_largest),
		cmocka_unit_test(test_wrong_texts),
		cmocka_unit_test(test_why),
		cmocka_unit_test(test_length),
		cmocka_unit_test(test_two_write),
		cmocka_unit_test(test_lost_and_late),
		cmocka_unit_test(test_not_there),
		cmocka_unit_test(test_one_read),
		cmocka_unit_test(test_told),
		cmocka_unit_test(test_no_write),
		cmocka_unit_test(test_session_over),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
