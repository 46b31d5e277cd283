/* SPDX-License-Identifier: BSD-2-Clause */
/* server/cluster/record: what is under way, what is open, and what becomes of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "server/cluster/record/in.h"
#include "server/cluster/record/out.h"
#include "server/cluster/record/records.h"

#define STRIPES 4u
#define B 1u
#define C 2u

static const uint32_t stripe_of[STRIPES + 1] = { 0, 1, 2, 3, 0 };

struct side {
	struct records rs;
	struct record_slot slots[STRIPES];
	char said[64]; /* "+version" applied, "-version" dropped */
};

static void say(struct side *s, char what, const struct record *r)
{
	char text[3] = { what, (char)('0' + r->version), 0 };

	strcat(s->said, text);
}

static void on_apply(void *arg, struct record *r)
{
	say(arg, r->is_copy ? 'c' : '+', r);
}

static void on_drop(void *arg, struct record *r)
{
	say(arg, r->is_copy ? 'x' : '-', r);
}

static void begin(struct side *s, enum records_role role, uint32_t awaited)
{
	memset(s, 0, sizeof *s);
	records_init(&s->rs, s->slots, STRIPES, &(struct records_hooks){ on_apply, on_drop, s });
	records_epoch(&s->rs, 1, 1, role, awaited);
	if (role == RECORDS_PRIMARY)
		records_show(&s->rs);
	else
		records_ready(&s->rs);
}

static struct record record(uint64_t version, unsigned stripe, unsigned count)
{
	return (struct record){ .version = version, .count = count, .stripes = &stripe_of[stripe] };
}

#define EXPECT(s, text) (assert_string_equal((s).said, text), (s).said[0] = 0)

static void test_all_have_it(void **state)
{
	struct side p;
	struct record a = record(1, 0, 1), b = record(2, 1, 2);

	(void)state;
	begin(&p, RECORDS_PRIMARY, B | C);
	records_add(&p.rs, &a, RECORDS_SELF);
	records_add(&p.rs, &b, 0);
	assert_false(records_is_free(&p.rs, &b));
	assert_int_equal(records_visible(&p.rs), 0);
	records_acked(&p.rs, B, 1, 1);
	assert_true(records_lacks(&a, C));
	assert_false(records_lacks(&a, B));
	records_acked(&p.rs, C, 1, 1);
	EXPECT(p, "");
	records_acked(&p.rs, RECORDS_SELF, 1, 1);
	EXPECT(p, "+1");
	assert_int_equal(records_visible(&p.rs), 1);
	records_acked(&p.rs, B, 1, 2);
	/* C is left out. */
	records_epoch(&p.rs, 2, 1, RECORDS_PRIMARY, B);
	EXPECT(p, "+2");
	assert_true(records_is_settled(&p.rs));
}

/* Acknowledgements of other reigns don't count, those of this one's earlier epochs do. */
static void test_reigns(void **state)
{
	struct side p;
	struct record a = record(1, 0, 1);

	(void)state;
	begin(&p, RECORDS_PRIMARY, B);
	records_epoch(&p.rs, 4, 4, RECORDS_PRIMARY, B);
	records_add(&p.rs, &a, 0);
	records_epoch(&p.rs, 5, 4, RECORDS_PRIMARY, B);
	records_show(&p.rs);
	records_acked(&p.rs, B, 3, 1);
	records_acked(&p.rs, B, 6, 1);
	EXPECT(p, "");
	records_acked(&p.rs, B, 4, 1);
	EXPECT(p, "+1");
}

static void test_a_backup(void **state)
{
	struct side b;
	struct record a = record(1, 0, 2), c = record(2, 1, 1), d = record(3, 3, 1), again = c;
	struct record e = record(4, 0, 1), late = record(5, 3, 1);

	(void)state;
	begin(&b, RECORDS_BACKUP, 0);
	a.number = 1, c.number = again.number = late.number = 2, d.number = 3, e.number = 4;
	assert_int_equal(records_take(&b.rs, 1, &a), RECORDS_TAKEN);
	EXPECT(b, "");
	assert_int_equal(records_take(&b.rs, 1, &c), RECORDS_TAKEN);
	EXPECT(b, "+1"); /* in both of its stripes */
	assert_null(b.slots[0].open);
	assert_int_equal(records_take(&b.rs, 1, &again), RECORDS_HAD);
	assert_int_equal(records_take(&b.rs, 2, &d), RECORDS_REFUSED);
	records_seen(&b.rs, 1, 2);
	EXPECT(b, "+2");
	assert_int_equal(records_take(&b.rs, 1, &again), RECORDS_HAD);
	records_seal(&b.rs);
	assert_int_equal(records_take(&b.rs, 1, &d), RECORDS_REFUSED);
	records_epoch(&b.rs, 2, 2, RECORDS_BACKUP, 0);
	assert_int_equal(records_take(&b.rs, 2, &d), RECORDS_REFUSED); /* no beginning yet */
	records_ready(&b.rs);
	assert_int_equal(records_take(&b.rs, 2, &d), RECORDS_TAKEN);
	/* Of an earlier epoch; one that comes again behind a later one of its stripe. */
	assert_int_equal(records_take(&b.rs, 1, &e), RECORDS_REFUSED);
	assert_int_equal(records_take(&b.rs, 2, &late), RECORDS_HAD);
	records_seen(&b.rs, 2, 3);
	EXPECT(b, "+3");
}

/* B has open what the new primary has open, has applied, and does not know. */
static void test_a_beginning(void **state)
{
	struct side p, b;
	struct record open = record(1, 0, 1), copy = open, applied = record(2, 1, 1), twin = applied;
	struct record unknown = record(3, 2, 1);

	(void)state;
	begin(&p, RECORDS_BACKUP, 0);
	begin(&b, RECORDS_BACKUP, 0);
	open.number = copy.number = 1, applied.number = twin.number = 2, unknown.number = 3;
	records_take(&p.rs, 1, &applied);
	records_seen(&p.rs, 1, 2);
	records_take(&p.rs, 1, &open);
	records_take(&b.rs, 1, &copy);
	records_take(&b.rs, 1, &twin);
	records_take(&b.rs, 1, &unknown);
	EXPECT(p, "+2");
	records_epoch(&p.rs, 2, 2, RECORDS_PRIMARY, B);
	records_epoch(&b.rs, 2, 2, RECORDS_BACKUP, 0);
	for (uint32_t i = 0; i < 3; i++)
		records_resolve(&b.rs, i, i + 1, records_fate(&p.rs, i, i + 1, 1));
	EXPECT(b, "+2-3");
	records_ready(&b.rs);
	assert_false(records_is_settled(&p.rs));
	assert_int_equal(open.number, 1);
	struct record sent = open;
	assert_int_equal(records_take(&b.rs, 2, &sent), RECORDS_HAD);
	records_acked(&p.rs, B, 2, 1);
	assert_true(records_is_settled(&p.rs));
	EXPECT(p, "");
	records_show(&p.rs);
	EXPECT(p, "+1");
	assert_int_equal(records_fate(&p.rs, 0, 1, 1), RECORDS_APPLIED);
}

static void test_a_copy(void **state)
{
	struct side p, j;
	struct record a = record(1, 0, 1), copy = record(0, 0, 1), late = a;

	(void)state;
	begin(&p, RECORDS_PRIMARY, 0);
	records_add(&p.rs, &a, 0);
	EXPECT(p, "+1");
	records_await(&p.rs, B);
	records_begun(&p.rs, B);
	records_add_copy(&p.rs, &copy, B);
	assert_int_equal(copy.version, 1);
	assert_true(records_lacks(&copy, B));
	begin(&j, RECORDS_BACKUP, 0);
	records_empty(&j.rs); /* and takes nothing until it is of an epoch again */
	assert_int_equal(records_take_copy(&j.rs, 1, &copy), RECORDS_REFUSED);
	begin(&j, RECORDS_OUT, 0);
	records_empty(&j.rs);
	records_epoch(&j.rs, 1, 1, RECORDS_BACKUP, 0);
	records_ready(&j.rs);
	assert_int_equal(records_take_copy(&j.rs, 1, &copy), RECORDS_TAKEN);
	assert_int_equal(records_fate(&j.rs, 0, 1, 0), RECORDS_APPLIED);
	late.number = 1;
	assert_int_equal(records_take(&j.rs, 1, &late), RECORDS_HAD);
	/* The joiner is given up: the stripe is free again. */
	records_await(&p.rs, 0);
	EXPECT(p, "c1");
	records_add_copy(&p.rs, &copy, B);
	records_epoch(&p.rs, 2, 2, RECORDS_BACKUP, 0);
	EXPECT(p, "x1");
}

/* What is on the disk as open is open after a start, and known when it comes again. */
static void test_a_start(void **state)
{
	struct side b;
	struct record a = record(5, 0, 1), again = a, old = record(4, 1, 1);

	(void)state;
	begin(&b, RECORDS_OUT, 0);
	records_restore(&b.rs, &a);
	records_restore_applied(&b.rs, 1, 4);
	records_epoch(&b.rs, 3, 2, RECORDS_BACKUP, 0);
	records_ready(&b.rs);
	again.number = 1, old.number = 2;
	assert_int_equal(records_take(&b.rs, 3, &again), RECORDS_HAD);
	assert_int_equal(records_take(&b.rs, 3, &old), RECORDS_HAD);
	records_empty(&b.rs);
	EXPECT(b, "-5");
}

/* One that comes again in a later reign, as it is open still, has that reign's number in all its stripes, and
 * is behind those that came before: what was seen up to there takes effect in this order. */
static void test_again_in_a_reign(void **state)
{
	struct side b;
	struct record a = record(1, 0, 2), c = record(2, 2, 1), again = a, other = record(3, 3, 1);
	struct record copy = record(9, 1, 1);

	(void)state;
	begin(&b, RECORDS_BACKUP, 0);
	a.number = 1, c.number = 2;
	assert_int_equal(records_take(&b.rs, 1, &a), RECORDS_TAKEN);
	assert_int_equal(records_take(&b.rs, 1, &c), RECORDS_TAKEN);
	records_epoch(&b.rs, 2, 2, RECORDS_BACKUP, 0);
	records_ready(&b.rs);
	/* Numbers of the reign before are nothing that is seen in this one. */
	assert_true(records_seen(&b.rs, 2, 2));
	EXPECT(b, "");
	other.number = 1, again.number = 3;
	assert_int_equal(records_take(&b.rs, 2, &other), RECORDS_TAKEN);
	assert_int_equal(records_take(&b.rs, 2, &again), RECORDS_HAD);
	assert_int_equal(b.slots[0].number, 3);
	assert_int_equal(b.slots[1].number, 3);
	copy.number = 3;
	assert_int_equal(records_take_copy(&b.rs, 2, &copy), RECORDS_HAD);
	again = c, again.number = 4;
	assert_int_equal(records_take(&b.rs, 2, &again), RECORDS_HAD);
	assert_true(records_seen(&b.rs, 2, 4));
	EXPECT(b, "+3+1+2");
	assert_false(records_seen(&b.rs, 1, 4));
}

/* A copy proves, as a record does, that what was before it in its stripe took effect; it counts once. */
static void test_a_copy_behind_a_record(void **state)
{
	struct side b;
	struct record a = record(1, 0, 1), copy = record(2, 0, 1);

	(void)state;
	begin(&b, RECORDS_BACKUP, 0);
	a.number = 1, copy.number = 2;
	assert_int_equal(records_take(&b.rs, 1, &a), RECORDS_TAKEN);
	assert_int_equal(records_take_copy(&b.rs, 1, &copy), RECORDS_TAKEN);
	EXPECT(b, "+1");
	assert_int_equal(b.slots[0].applied, 2);
	assert_int_equal(records_take_copy(&b.rs, 1, &copy), RECORDS_HAD);
}

/* What is open is under way again in a new reign: its numbers begin anew, nobody has it yet, and nothing
 * takes effect before the primary serves. */
static void test_a_new_reign(void **state)
{
	struct side p;
	struct record a = record(1, 0, 1), b = record(2, 1, 1), c = record(3, 2, 1);

	(void)state;
	begin(&p, RECORDS_PRIMARY, B | C);
	records_begun(&p.rs, B);
	records_add(&p.rs, &a, 0);
	records_add(&p.rs, &b, 0);
	for (uint64_t number = 1; number <= 2; number++) {
		records_acked(&p.rs, B, 1, number);
		records_acked(&p.rs, C, 1, number);
	}
	EXPECT(p, "+1+2");
	assert_int_equal(records_visible(&p.rs), 2);
	records_add(&p.rs, &c, 0);
	records_acked(&p.rs, B, 1, 3);
	records_epoch(&p.rs, 2, 2, RECORDS_PRIMARY, B | C);
	assert_int_equal(p.rs.begun, 0);
	assert_int_equal(c.number, 1);
	assert_int_equal(p.slots[0].number, 0);
	assert_int_equal(p.slots[2].number, 1);
	assert_true(records_lacks(&c, B));
	assert_true(records_lacks(&c, C));
	records_acked(&p.rs, B, 2, 1);
	records_acked(&p.rs, C, 2, 1);
	EXPECT(p, "");
	assert_int_equal(records_visible(&p.rs), 0);
	records_show(&p.rs);
	EXPECT(p, "+3");
	assert_int_equal(records_visible(&p.rs), 1);
}

/* Who is not awaited has not begun; the primary's own disk stays awaited whoever is left out. */
static void test_who_is_left_out(void **state)
{
	struct side p;
	struct record a = record(1, 0, 1);

	(void)state;
	begin(&p, RECORDS_PRIMARY, B);
	records_begun(&p.rs, B | C);
	assert_int_equal(p.rs.begun, B);
	records_add(&p.rs, &a, RECORDS_SELF);
	records_await(&p.rs, C);
	assert_int_equal(p.rs.begun, 0);
	records_await(&p.rs, 0);
	EXPECT(p, "");
	records_acked(&p.rs, RECORDS_SELF, 1, 1);
	EXPECT(p, "+1");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_have_it),
		cmocka_unit_test(test_reigns),
		cmocka_unit_test(test_a_backup),
		cmocka_unit_test(test_a_beginning),
		cmocka_unit_test(test_a_copy),
		cmocka_unit_test(test_a_start),
		cmocka_unit_test(test_again_in_a_reign),
		cmocka_unit_test(test_a_new_reign),
		cmocka_unit_test(test_who_is_left_out),
		cmocka_unit_test(test_a_copy_behind_a_record),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
