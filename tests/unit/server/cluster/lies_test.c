/* SPDX-License-Identifier: BSD-2-Clause */
/* server/cluster/replica: records that can't be, from who has the cluster's key. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "server/cluster/replica/impl.h"
#include "tests/unit/server/cluster/replica_kit.h"

/* Of so many keys, which are one and the same, and of that version. */
static void say_record(unsigned items, uint64_t version)
{
	const uint32_t stripe = (uint32_t)layout_stripe(hash_key(b.f.table->hash_seed, "k", 1).b,
							b.f.table->stripes);
	const struct link_item item = { .key_bytes = 1, .flags = LINK_DELETED };
	struct link_writer w;
	struct link_reader r;

	link_begin(&w, kit_memory[0], LINK_RECORDS, 1, a.incarnation, b.incarnation, 0);
	link_begin_record(&w, 0, 1, version, &stripe, 1);
	for (unsigned i = 0; i < items; i++)
		link_put_item(&w, &item, "k", NULL);
	assert_int_equal(link_end_record(&w), 0);
	r = kit_opened(&w);
	assert_true(replica_heard(b.worker, b.side.peer, &r));
}

static void must_end_it(void)
{
	assert_int_equal(b.side.downs, 1);
	assert_non_null(strstr(b.side.why, "a record that can't be"));
	kit_epoch(&a, 2, 1, RECORDS_PRIMARY, 0);
	kit_finish();
}

/* As many as a transaction has may be.  One more has only room where it is a completion record. */
static void test_too_many_keys(void **state)
{
	(void)state;
	say_record(LAYOUT_TXN_KEYS_MAX, 10);
	assert_int_equal(b.side.downs, 0);
	say_record(LAYOUT_TXN_KEYS_MAX + 1, 11);
	must_end_it();
}

/* Behind it there would be no version for the next change. */
static void test_no_version(void **state)
{
	(void)state;
	say_record(1, LAYOUT_VERSION_MAX);
	assert_int_equal(b.side.downs, 0);
	say_record(1, LAYOUT_VERSION_MAX + 1);
	must_end_it();
	assert_true(atomic_load(&b.f.store->version) <= LAYOUT_VERSION_MAX);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, kit_setup, kit_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_too_many_keys),
		CASE(test_no_version),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
