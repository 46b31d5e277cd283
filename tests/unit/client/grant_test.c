/* SPDX-License-Identifier: BSD-2-Clause */
/* client/cache/grant.h and client/op/look.h: what a GET counts for in a cluster. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "client/get/fast.h"
#include "client/get/get.h"
#include "client/op/look.h"
#include "client/op/operation.h"
#include "client/op/poll.h"
#include "tests/lib/end.h"

#include "common/hash.h"

#define MS 1000000ull
#define REIGN 7u
#define UNIT 4000u
#define VERSION 9u
#define LONG_BYTES 40000u

static struct layout_lease shown(uint64_t reign, uint64_t a, uint64_t g)
{
	struct layout_lease l = { .reign = reign, .a = a, .g = g };

	l.checksum = hash_lease(&l);
	return l;
}

static struct grant begun(uint64_t reign)
{
	struct grant g;

	grant_begin(&g, reign);
	return g;
}

static void look(struct grant *g, uint64_t reign, uint64_t a, uint64_t granted, uint64_t at_ns)
{
	const struct layout_lease l = shown(reign, a, granted);

	grant_looks(g, at_ns);
	grant_seen(g, &l);
}

/* --------------------------------------------------------- bytes and a clock */

static void test_words(void **state)
{
	struct grant g = begun(REIGN);

	(void)state;
	look(&g, REIGN, 5, 4, 100 * MS);
	assert_false(grant_is_good(&g, REIGN, 100 * MS));
	look(&g, REIGN, 6, 6, 150 * MS);
	assert_true(grant_is_good(&g, REIGN, 100 * MS + LEASE_GOOD_NS - 1));
	assert_false(grant_is_good(&g, REIGN, 100 * MS + LEASE_GOOD_NS));
	assert_false(grant_is_good(&g, REIGN - 1, 150 * MS));
}

/* What is no primary's: zeros, another checksum, another reign than the connection's. */
static void test_words_of_nobody(void **state)
{
	struct grant g = begun(REIGN);
	struct layout_lease l = { 0 };

	(void)state;
	look(&g, REIGN, 5, 4, 100 * MS);
	grant_looks(&g, 140 * MS);
	grant_seen(&g, &l);
	l = shown(REIGN, 6, 5);
	l.g = 6; /* while it is written */
	grant_looks(&g, 145 * MS);
	grant_seen(&g, &l);
	look(&g, 0, 6, 6, 150 * MS);
	look(&g, REIGN + 1, 6, 6, 150 * MS);
	assert_false(grant_is_good(&g, REIGN, 150 * MS));
	assert_false(grant_is_good(&g, REIGN + 1, 150 * MS));
	assert_int_equal(grant_reign(&g), REIGN);
}

/* Where the member did not serve at the hello, the first words say which reign it is. */
static void test_words_tell_the_reign(void **state)
{
	struct grant g = begun(0);

	(void)state;
	look(&g, REIGN, 5, 5, 100 * MS);
	grant_told(&g, 100, 100 * MS); /* of which reign, it does not know */
	assert_false(grant_is_good(&g, REIGN, 100 * MS));
	look(&g, REIGN, 6, 6, 150 * MS);
	assert_int_equal(grant_reign(&g), REIGN);
	assert_true(grant_is_good(&g, REIGN, 150 * MS));
	assert_false(grant_is_good(&g, 0, 150 * MS)); /* known before: none */
}

/* By the clock; ticks_test has the counter. */
static bool is_fresh(const struct grant *g, uint64_t now_ns)
{
	return now_ns < g->fresh_ns;
}

static void test_told(void **state)
{
	struct grant g = begun(REIGN);

	(void)state;
	grant_told(&g, 50, 500 * MS);
	assert_true(grant_is_good(&g, REIGN, 550 * MS - 1));
	assert_false(grant_is_good(&g, REIGN, 550 * MS));
	grant_told(&g, 0, 900 * MS); /* says nothing */
	assert_true(grant_is_good(&g, REIGN, 550 * MS - 1));
	grant_told(&g, 60000, 520 * MS); /* no primary has more than that */
	assert_true(grant_is_good(&g, REIGN, 520 * MS + LEASE_GOOD_NS - 1));
	assert_false(grant_is_good(&g, REIGN, 520 * MS + LEASE_GOOD_NS));
	grant_not_needed(&g);
	assert_false(grant_is_good(&g, REIGN, 520 * MS));
}

/* Words that make a lease do without another look too; what was asked earlier, and is answered late,
 * brings the next look no nearer. */
static void test_fresh_by_words(void **state)
{
	struct grant g = begun(REIGN);

	(void)state;
	look(&g, REIGN, 5, 4, 100 * MS);
	look(&g, REIGN, 6, 6, 150 * MS);
	assert_true(is_fresh(&g, 100 * MS + LEASE_GOOD_NS - 1));
	assert_false(is_fresh(&g, 100 * MS + LEASE_GOOD_NS));
	g = begun(REIGN);
	grant_told(&g, LEASE_GOOD_NS / MS, 500 * MS);
	grant_told(&g, LEASE_GOOD_NS / MS, 495 * MS);
	assert_false(grant_look_is_due(&g, 500 * MS + GRANT_LOOK_NS / 2 - 1));
	assert_true(is_fresh(&g, 500 * MS + GRANT_LOOK_NS / 2 - 1));
}

static void test_looks(void **state)
{
	struct grant g = begun(REIGN);

	(void)state;
	assert_true(grant_look_is_due(&g, 500 * MS));
	grant_told(&g, LEASE_GOOD_NS / MS, 500 * MS);
	assert_false(grant_look_is_due(&g, 500 * MS + GRANT_LOOK_NS / 2 - 1));
	assert_true(is_fresh(&g, 500 * MS + GRANT_LOOK_NS / 2 - 1));
	assert_false(is_fresh(&g, 500 * MS + GRANT_LOOK_NS / 2));
	assert_true(grant_look_is_due(&g, 500 * MS + GRANT_LOOK_NS / 2));
	grant_looks(&g, 510 * MS);
	assert_false(grant_look_is_due(&g, 900 * MS)); /* one is out */
	grant_seen(&g, &(struct layout_lease){ 0 });
	assert_false(grant_look_is_due(&g, 510 * MS + GRANT_LOOK_NS - 1));
	assert_true(grant_look_is_due(&g, 510 * MS + GRANT_LOOK_NS));
	assert_true(is_fresh(&g, 510 * MS + GRANT_LOOK_NS - 1));
	grant_looks(&g, 545 * MS);
	assert_true(is_fresh(&g, 500 * MS + LEASE_GOOD_NS - 1));
	assert_false(is_fresh(&g, 500 * MS + LEASE_GOOD_NS)); /* it is over before the next look */
}

/* With a round each 16 ms and a little, and looks when they are due, a lease that was told once never ends. */
static void test_looks_are_enough(void **state)
{
	for (uint64_t phase = 0; phase < 18; phase++) {
		struct grant g = begun(REIGN);

		/* It is told when the latest round is `phase` old. */
		grant_told(&g, (unsigned)(LEASE_GOOD_NS / MS - phase), 1000 * MS);
		for (uint64_t t = 1000; t < 3000; t++) {
			uint64_t round = (t + phase) / 18;
			if (grant_look_is_due(&g, t * MS))
				look(&g, REIGN, round, round, t * MS);
			assert_true(grant_is_good(&g, REIGN, t * MS));
		}
	}
	(void)state;
}

/* --------------------------------------------------------------------- GETs */

static struct end *end;
static struct engine *e;
static char key[] = "key";
static uint8_t value[BYTES_ROOM];

static int set_up(void **state)
{
	(void)state;
	end = end_new();
	e = end->engine;
	memset(value, 0, sizeof value);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	end_delete(end);
	return 0;
}

static void store(size_t bytes)
{
	const struct bytes_item item = { .unit = UNIT, .key = key, .value = "READ", .kind = LAYOUT_LIVE,
					 .value_bytes = bytes, .version = VERSION };
	struct hash h = hash_key(e->table.welcome.hash_seed, key, strlen(key));

	bytes_enter(end->bytes, layout_bucket_of(h.a, 0), 3, bytes_item(end->bytes, &item));
}

/* kvd says by message that the value is "told". */
static void answer(struct end *to, const struct wire_request *request)
{
	assert_int_equal(request->op, WIRE_GET);
	end_reply(to, (struct wire_reply){ .value_bytes = 4, .lease_ms = 100 }, "told", 4);
}

static uint64_t now_ns(void)
{
	return clock_read_ns(CLOCK_BOOTTIME);
}

static void lease_for(unsigned left_ms)
{
	grant_begin(&e->table.grant, REIGN);
	grant_told(&e->table.grant, left_ms, now_ns());
	end->answer = answer;
}

static struct op *start(void)
{
	struct op *op = op_new(e, &get_class, key, strlen(key));

	assert_int_equal(get_start(op, GET_PLAIN, &(struct iovec){ value, sizeof value }, 1), 0);
	return op;
}

static void assert_says(int rc, const char *what, unsigned messages)
{
	assert_int_equal(rc, what ? KVD_OK : KVD_NOT_FOUND);
	if (what)
		assert_memory_equal(value, what, strlen(what));
	assert_int_equal(end->messages, messages);
}

static void test_a_lease(void **state)
{
	(void)state;
	lease_for(150);
	assert_says(end_run(end, start())->result, NULL, 0);
	store(4);
	assert_says(end_run(end, start())->result, "READ", 0);
}

/* It asks, and is told how long the lease is. */
static void test_no_lease(void **state)
{
	(void)state;
	store(4);
	lease_for(0);
	assert_says(end_run(end, start())->result, "told", 1);
	assert_int_equal(e->counters.fallbacks, 1);
	assert_says(end_run(end, start())->result, "READ", 1);
}

static uint64_t asked_ns;

static void answer_late(struct end *to, const struct wire_request *request)
{
	asked_ns = now_ns();
	while (now_ns() < asked_ns + 20 * MS)
		;
	answer(to, request);
}

static void test_a_lease_counts_from_the_question(void **state)
{
	(void)state;
	lease_for(0);
	end->answer = answer_late;
	assert_says(end_run(end, start())->result, "told", 1);
	assert_in_range(e->table.grant.lease.until_ns, asked_ns, asked_ns + LEASE_GOOD_NS);
}

static void test_not_found_without_a_lease(void **state)
{
	(void)state;
	lease_for(0);
	assert_says(end_run(end, start())->result, "told", 1);
}

/* What was posted when another reign was known, or none. */
static void test_known_before(void **state)
{
	struct op *op;

	(void)state;
	store(4);
	lease_for(150);
	e->table.grant.lease.reign = 0;
	op = start();
	e->table.grant.lease.reign = REIGN;
	assert_says(end_run(end, op)->result, "told", 1);
}

static enum fast fast(struct op **op)
{
	struct got got;
	int rc;
	enum fast how = fast_get(e, key, strlen(key), &(struct iovec){ value, 100 }, &got, op, &rc);

	assert_true(how != FAST_DONE || rc == KVD_OK);
	return how;
}

static void test_the_short_way(void **state)
{
	struct op *op;

	(void)state;
	store(4);
	lease_for(150);
	end_run(end, start()); /* the mirror knows it */
	assert_int_equal(fast(&op), FAST_DONE);
	assert_says(KVD_OK, "READ", 0);
	lease_for(0);
	assert_int_equal(fast(&op), FAST_BEGUN);
	assert_says(end_run(end, op)->result, "told", 1);
	assert_int_equal(fast(&op), FAST_DONE);
	assert_says(KVD_OK, "READ", 1);
}

/* A look goes with a GET when it is due; its completion is taken with the next one's. */
static void test_a_look(void **state)
{
	struct layout_lease words = shown(REIGN, 3, 3);
	struct op *op;

	(void)state;
	store(4);
	memcpy(end->bytes->base + offsetof(struct layout_header, lease), &words, sizeof words);
	lease_for(150);
	end_run(end, start());
	unsigned reads = end->reads;
	e->table.grant.look_ns = e->table.grant.fresh_ns = e->table.grant.ticks.near = 0;
	assert_int_equal(fast(&op), FAST_DONE);
	assert_int_equal(end->reads, reads + 2);
	assert_int_equal(e->table.grant.lease.count, 0);
	assert_int_equal(fast(&op), FAST_DONE);
	assert_int_equal(end->reads, reads + 3);
	assert_int_equal(e->table.grant.lease.count, 1);
	assert_int_equal(e->counters.reads, end->reads);
	assert_int_equal(end->messages, 0);
	/* The next one has a G that is above: the lease that ends now goes on. */
	words = shown(REIGN, 4, 4);
	memcpy(end->bytes->base + offsetof(struct layout_header, lease), &words, sizeof words);
	uint64_t until_ns = e->table.grant.lease.until_ns;
	e->table.grant.look_ns = e->table.grant.fresh_ns = e->table.grant.ticks.near = 0;
	end_run(end, start());
	engine_take(e);
	assert_true(e->table.grant.lease.until_ns > until_ns);
	assert_int_equal(end->messages, 0);
}

/* ------------------------------------------------------ what kvd answers with */

static unsigned pins, version_there;

/* It pinned an item; another live one is there by now. */
static void answer_pinned(struct end *to, const struct wire_request *request)
{
	struct bytes_item item = { .unit = UNIT, .key = key, .value = "READ", .kind = LAYOUT_LIVE,
				   .value_bytes = LONG_BYTES, .version = version_there };
	struct wire_reply r = { .flags = WIRE_PINNED, .version = VERSION };

	if (request->op != WIRE_GET) {
		end_reply(to, (struct wire_reply){ .status = WIRE_OK }, NULL, 0);
		return;
	}
	pins++;
	version_there = VERSION;
	r.word = bytes_item(to->bytes, &item);
	end_reply(to, r, NULL, 0);
}

static unsigned pinned(unsigned there)
{
	pins = 0;
	version_there = there;
	end->messages = 0;
	lease_for(0);
	end->answer = answer_pinned;
	assert_int_equal(end_run(end, start())->result, KVD_OK);
	return pins;
}

/* What kvd answered with needs no lease, but that item only. */
static void test_a_pinned_item(void **state)
{
	(void)state;
	assert_int_equal(pinned(VERSION), 1);
	assert_int_equal(pinned(VERSION + 1), 2);
}

static unsigned busy;

static void answer_busy(struct end *to, const struct wire_request *request)
{
	if (busy && busy--)
		end_reply(to, (struct wire_reply){ .status = WIRE_EBUSY }, NULL, 0);
	else
		answer(to, request);
}

/* A primary that found its lease over is asked again. */
static void test_a_primary_without_a_lease(void **state)
{
	(void)state;
	store(4);
	lease_for(0);
	end->answer = answer_busy;
	busy = 2;
	assert_says(end_run(end, start())->result, "told", 3);
}

int main(void)
{
#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_words), cmocka_unit_test(test_words_of_nobody),
		cmocka_unit_test(test_words_tell_the_reign), cmocka_unit_test(test_told),
		cmocka_unit_test(test_fresh_by_words), cmocka_unit_test(test_looks),
		cmocka_unit_test(test_looks_are_enough),
		TEST(test_a_lease), TEST(test_no_lease), TEST(test_not_found_without_a_lease),
		TEST(test_a_lease_counts_from_the_question), TEST(test_known_before),
		TEST(test_the_short_way), TEST(test_a_look),
		TEST(test_a_pinned_item), TEST(test_a_primary_without_a_lease),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
