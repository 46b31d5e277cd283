/* SPDX-License-Identifier: BSD-2-Clause */
/* What a member of a cluster tells and shows of its lease: server/worker/reply.h, table/show.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/clock.h"
#include "common/hash.h"
#include "server/table/show.h"
#include "server/table/table.h"
#include "server/worker/context.h"
#include "server/worker/reply.h"

#define MS 1000000ull
#define REIGN 7u

static struct membership membership;
static struct tx tx;
static struct txbuf buffer;
static struct sendq to;
static uint8_t bytes[WIRE_MESSAGE_BYTES_MAX];

static int set_up(void **state)
{
	uint64_t until_ns = clock_read_ns(CLOCK_BOOTTIME) + 150 * MS;

	(void)state;
	tx = (struct tx){ .membership = &membership };
	to = (struct sendq){ .reign = REIGN };
	buffer = (struct txbuf){ .data = bytes, .to = &to };
	atomic_store(&membership.reign, REIGN);
	atomic_store(&membership.lease_until_ns, until_ns);
	atomic_store(&membership.reader_until_ns, until_ns);
	return 0;
}

static const struct wire_reply *answer(enum wire_op op, enum wire_status status)
{
	*reply_head(&buffer) = (struct wire_reply){ .op = (uint8_t)op, .status = (uint8_t)status,
						    .value_bytes = 3 };
	to.chain = NULL;
	reply_send(&tx, &buffer, 0);
	return reply_head(&buffer);
}

static unsigned told(void)
{
	return answer(WIRE_GET, WIRE_OK)->lease_ms;
}

static void test_told(void **state)
{
	(void)state;
	assert_in_range(told(), 100, 150);
	assert_in_range(answer(WIRE_PUT, WIRE_EDISK)->lease_ms, 100, 150);
	assert_in_range(answer(WIRE_HELLO, WIRE_OK)->lease_ms, 100, 150);
}

/* A reader of another reign is not told, nor one who never said which. */
static void test_told_of_its_reign(void **state)
{
	(void)state;
	atomic_store(&membership.reign, REIGN + 2);
	assert_int_equal(told(), 0);
	atomic_store(&membership.reign, 0);
	assert_int_equal(told(), 0);
	to.reign = 0;
	assert_int_equal(told(), 0);
}

/* A primary that leaves answers, by its own lease, and tells readers of none. */
static void test_told_while_leaving(void **state)
{
	(void)state;
	atomic_store(&membership.reader_until_ns, 0);
	assert_int_equal(told(), 0);
	assert_int_equal(answer(WIRE_GET, WIRE_OK)->status, WIRE_OK);
}

/* What changed nothing is withheld when the lease is over; what is done is told. */
static void test_withheld(void **state)
{
	(void)state;
	atomic_store(&membership.lease_until_ns, clock_read_ns(CLOCK_BOOTTIME));
	atomic_store(&membership.reader_until_ns, clock_read_ns(CLOCK_BOOTTIME));
	for (unsigned i = 0; i < 2; i++) {
		const struct wire_reply *r = answer(WIRE_GET, i ? WIRE_NOT_FOUND : WIRE_OK);
		assert_int_equal(r->status, WIRE_EBUSY);
		assert_int_equal(r->value_bytes, 0);
		assert_int_equal(r->lease_ms, 0);
	}
	assert_int_equal(answer(WIRE_PUT, WIRE_CONDITION)->status, WIRE_EBUSY);
	tx.is_committed = true;
	assert_int_equal(answer(WIRE_PUT, WIRE_OK)->status, WIRE_OK);
}

static void test_no_cluster(void **state)
{
	(void)state;
	tx.membership = NULL;
	assert_int_equal(told(), 0);
}

/* ------------------------------------------------------------------- the header */

static struct layout_header header;
static struct table table = { .header = &header };

static void test_shown(void **state)
{
	const struct layout_lease *l = &header.lease, none = { 0 };

	(void)state;
	table_show_lease(&table, REIGN, 5, 4);
	assert_int_equal(l->reign, REIGN);
	assert_int_equal(l->a, 5);
	assert_int_equal(l->g, 4);
	assert_int_equal(l->checksum, hash_lease(l));
	table_hide_lease(&table);
	assert_memory_equal(l, &none, sizeof none);
	assert_int_not_equal(l->checksum, hash_lease(l));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_told, set_up),
		cmocka_unit_test_setup(test_told_of_its_reign, set_up),
		cmocka_unit_test_setup(test_told_while_leaving, set_up),
		cmocka_unit_test_setup(test_withheld, set_up),
		cmocka_unit_test_setup(test_no_cluster, set_up),
		cmocka_unit_test(test_shown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
