/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * server/cluster/replica: what a member does without memory, allocation by allocation, and where a
 * stripe stays marked.  It acknowledges nothing that it has not, it says why it is unfit, and what it
 * counted is given back.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "server/cluster/replica/begin.h"
#include "server/cluster/replica/copy.h"
#include "server/cluster/replica/impl.h"
#include "server/durable/durable.h"
#include "server/store/item/stripe.h"
#include "tests/unit/no_memory.h"
#include "tests/unit/server/cluster/disk_kit.h"

int __real_sched_yield(void);
int __wrap_sched_yield(void);

/* -------------------------------------------------------------------- allocations */
/* Runs it with the first allocation failing, then with the second, and so on; how many there are. */
static unsigned for_each_allocation(void (*run)(unsigned n))
{
	unsigned n = 1;

	for (;; n++) {
		kit_setup(NULL);
		has_failed = false;
		run(n);
		disk_teardown(NULL);
		if (!has_failed)
			return n - 1;
	}
}

/* What Bert hears next he hears so. */
static unsigned short_at;

static void hear(void *arg, struct link_peer *p, struct link_reader *r)
{
	(void)arg;
	b.heard++;
	fails_at = short_at;
	assert_true(replica_heard(b.worker, p, r));
	fails_at = 0;
	if (has_failed)
		short_at = 0;
}

static void let_hear(unsigned n)
{
	short_at = n;
	b.side.events.message = hear;
}

static void expect_nothing_kept(struct kit_member *m)
{
	assert_int_equal(m->f.worker[0].commit_bytes, 0);
	assert_int_equal(m->replica->writes, 0);
}

/* What Anna has under way comes back as unknown. */
static void depose(void)
{
	kit_epoch(&a, 9, 9, RECORDS_BACKUP, 0);
	kit_finish();
}

/* -------------------------------------------------------------------- a backup's */
static void take(unsigned n)
{
	disk_fill(&b);
	disk_start();
	let_hear(n);
	kit_put(&a, "k", "one", 3);
	KIT_UNTIL(b.unfit[0] || a.done);
	if (b.unfit[0]) {
		kit_turns(100);
		assert_non_null(strstr(b.unfit, "no memory to write a change"));
		assert_int_equal(a.done, 0);
		depose();
	}
	disk_end(&b);
	expect_nothing_kept(&b);
	disk_remove_folder();
}

static void test_taken(void **state)
{
	(void)state;
	assert_true(for_each_allocation(take) >= 3); /* the record, its write, a note */
}

static void copy(unsigned n)
{
	kit_epoch(&b, 1, 1, RECORDS_OUT, 0);
	kit_epoch(&a, 2, 1, RECORDS_PRIMARY, 0);
	kit_put(&a, "k", "one", 3);
	kit_finish();
	disk_fill(&b);
	disk_start();
	kit_epoch(&b, 2, 1, RECORDS_BACKUP, 0);
	kit_order(&b, REPLICA_RESOLVE, 0, 0);
	kit_order(&a, REPLICA_AWAIT, 0, MEMBER);
	kit_order(&a, REPLICA_BEGUN_BY, 0, MEMBER);
	let_hear(n);
	kit_order(&a, REPLICA_COPY, 1, MEMBER);
	KIT_UNTIL(b.unfit[0] || replica_is_copied(a.replica, 1));
	if (b.unfit[0]) {
		kit_turns(100);
		assert_non_null(strstr(b.unfit, "no memory to write a copy"));
		assert_false(replica_is_copied(a.replica, 1));
	}
	disk_end(&b);
	expect_nothing_kept(&b);
	disk_remove_folder();
}

static void test_copied(void **state)
{
	(void)state;
	assert_true(for_each_allocation(copy) >= 4); /* and the key with its value */
}

/* Neither for the record nor to keep it: its connection ends, and another one brings it again. */
static void test_not_even_parked(void **state)
{
	(void)state;
	let_hear(1);
	and_all_behind = true;
	kit_put(&a, "k", "one", 3);
	KIT_UNTIL(!b.side.peer);
	and_all_behind = false;
	assert_non_null(strstr(b.side.why, "more than there is memory to keep"));
	assert_int_equal(a.done, 0);
	KIT_UNTIL(!a.side.peer);
	kit_connect_them();
	kit_finish();
	assert_int_equal(a.done, 1);
	assert_string_equal(b.unfit, "");
}

/* What is dropped is to be on the disk as it was. */
static void drop(unsigned n)
{
	disk_fill(&b);
	disk_start();
	kit_put(&a, "k", "one", 3);
	kit_finish();
	kit_put(&a, "k", "two", 3);
	kit_send_to(&a, &b);
	kit_epoch(&b, 2, 2, RECORDS_BACKUP, 0);
	assert_true(replica_ask(b.replica, KIT_QUESTION));
	for (unsigned i = 0; i < b.replica->question.count; i++)
		b.replica->question.entries[i].fate = RECORDS_UNKNOWN;
	b.replica->question.answered = b.replica->question.count;
	assert_true(b.replica->question.count > 0);
	fails_at = n;
	kit_order(&b, REPLICA_RESOLVE, KIT_QUESTION, 0);
	fails_at = 0;
	assert_int_equal(has_failed, b.unfit[0] != 0);
	assert_true(!has_failed || strstr(b.unfit, "no memory to write what was dropped"));
	depose();
	disk_end(&b);
	expect_nothing_kept(&b);
	disk_remove_folder();
}

static void test_dropped(void **state)
{
	(void)state;
	assert_true(for_each_allocation(drop) >= 3);
}

/* -------------------------------------------------------------------- a primary's */
/* It waits or refuses, and goes on. */
static unsigned refused;

static void change(unsigned n)
{
	disk_fill(&a);
	disk_start();
	fails_at = n;
	kit_put(&a, "k", "one", 3);
	fails_at = 0;
	kit_finish();
	assert_int_equal(a.done + a.no_disk, 1);
	assert_true(a.done || has_failed);
	refused += a.no_disk;
	kit_has_value(&a, "k", a.done ? "one" : NULL);
	kit_put(&a, "k", "two", 3);
	kit_finish();
	kit_has_value(&a, "k", "two");
	assert_string_equal(a.unfit, "");
	disk_end(&a);
	expect_nothing_kept(&a);
	disk_remove_folder();
}

static void test_refused(void **state)
{
	(void)state;
	refused = 0;
	for_each_allocation(change);
	assert_int_equal(refused, 3); /* the record, its write, a note */
}

/* Who is deposed keeps what was under way, or says that it lacks it. */
static void keep(unsigned n)
{
	b.side.is_frozen = true;
	kit_put(&a, "k", "one", 3);
	kit_turn();
	fails_at = n;
	depose();
	fails_at = 0;
	assert_int_equal(a.unknown, 1);
	assert_int_equal(has_failed, a.unfit[0] != 0);
	assert_true(!has_failed || strstr(a.unfit, "no memory to keep a change that was under way"));
	assert_int_equal(a.replica->records.open.next == &a.replica->records.open, has_failed);
	kit_has_value(&a, "k", NULL);
}

static void test_deposed(void **state)
{
	(void)state;
	assert_int_equal(for_each_allocation(keep), 1);
}

/* -------------------------------------------------------------------- marks */
/* Another worker's, which it takes away while it is waited for. */
static uint32_t marked;
static unsigned yields, yields_of_a_mark;

int __wrap_sched_yield(void)
{
	if (yields_of_a_mark && ++yields == yields_of_a_mark)
		stripe_unmark(b.f.store, marked);
	return __real_sched_yield();
}

static void mark(const char *key, unsigned yields_of_it)
{
	struct store_change k = kit_change_of(&b, key);

	marked = (uint32_t)layout_stripe(k.hash.b, b.f.table->stripes);
	yields = 0;
	yields_of_a_mark = yields_of_it;
	assert_true(stripe_mark(b.f.store, marked));
}

static void test_a_mark_is_waited_for(void **state)
{
	(void)state;
	kit_put(&a, "k", "one", 3);
	kit_finish();
	mark("k", 3);
	kit_order(&b, REPLICA_SEEN, replica_visible(a.replica), 0);
	assert_int_equal(yields, 3);
	assert_string_equal(b.unfit, "");
	kit_has_value(&b, "k", "one");
}

static void test_a_mark_that_stays(void **state)
{
	uint64_t begun_ns;

	(void)state;
	kit_put(&a, "k", "one", 3);
	kit_finish();
	mark("k", 0);
	begun_ns = clock_ns();
	kit_order(&b, REPLICA_SEEN, replica_visible(a.replica), 0);
	assert_true(clock_ns() - begun_ns >= REPLICA_FREE_NS);
	assert_non_null(strstr(b.unfit, "a stripe is marked or locked"));
	stripe_unmark(b.f.store, marked);
}

static void test_a_mark_before_the_disk(void **state)
{
	(void)state;
	disk_fill(&b);
	disk_start();
	mark("k", 3);
	kit_put(&a, "k", "one", 3);
	kit_finish();
	assert_int_equal(yields, 3);
	assert_string_equal(b.unfit, "");
	assert_true(stripe_mark(b.f.store, marked)); /* nobody has it any more */
	stripe_unmark(b.f.store, marked);
	disk_end(&b);
	disk_remove_folder();
}

static void test_a_mark_that_stays_before_the_disk(void **state)
{
	uint64_t begun_ns;

	(void)state;
	disk_fill(&b);
	disk_start();
	mark("k", 0);
	kit_put(&a, "k", "one", 3);
	begun_ns = clock_ns();
	KIT_UNTIL(b.unfit[0] || a.done);
	assert_true(clock_ns() - begun_ns >= REPLICA_FREE_NS);
	assert_non_null(strstr(b.unfit, "its stripe stays marked"));
	stripe_unmark(b.f.store, marked);
	depose();
	disk_end(&b);
	expect_nothing_kept(&b);
	disk_remove_folder();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, kit_setup, disk_teardown)
		cmocka_unit_test(test_taken),
		cmocka_unit_test(test_copied),
		CASE(test_not_even_parked),
		cmocka_unit_test(test_dropped),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_deposed),
		CASE(test_a_mark_is_waited_for),
		CASE(test_a_mark_that_stays),
		CASE(test_a_mark_before_the_disk),
		CASE(test_a_mark_that_stays_before_the_disk),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
