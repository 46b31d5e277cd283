/* SPDX-License-Identifier: BSD-2-Clause */
/* client/api/txn.c: a transaction that only reads looks at its keys a second time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "tests/unit/client/dial.h"
#include "tests/unit/client/set_clock.h"

static struct kvd_session *s;
static struct engine *e;
static kvd_txn_t *t;

/* The versions of the keys "a", "b", ...; 0: it is absent; and which were asked for, in turn. */
static uint64_t versions[4];
static char asked[32];
static char denied; /* that one may not be read */
static unsigned txns;

static void answer(struct end *end, const struct wire_request *q)
{
	const char key[] = { (char)end->behind[0], '\0' };
	struct wire_reply reply = { .bucket = ~0ull, .status = WIRE_NOT_FOUND };

	if (q->op == WIRE_TXN) {
		txns++;
		end_reply(end, (struct wire_reply){ .status = WIRE_CONDITION, .bucket = ~0ull }, NULL, 0);
		return;
	}
	assert_int_equal(q->op, WIRE_GET);
	assert_true(strlen(asked) + 1 < sizeof asked);
	strcat(asked, key);
	if (*key == denied)
		reply.status = WIRE_EDENIED;
	else if (versions[*key - 'a'])
		reply = (struct wire_reply){ .bucket = ~0ull, .version = versions[*key - 'a'],
					     .value_bytes = 3 };
	end_reply(end, reply, "abc", reply.value_bytes);
}

static int set_up(void **state)
{
	(void)state;
	set_clock();
	s = dial_session();
	e = dial.end->engine;
	e->get = KVD_GET_MESSAGE;
	dial_connect(answer);
	denied = 0;
	txns = 0;
	return 0;
}

/* A transaction that has read so many keys, with those versions. */
static void begin(unsigned count, uint64_t a, uint64_t b, uint64_t c)
{
	char value[3];
	size_t bytes;

	versions[0] = a;
	versions[1] = b;
	versions[2] = c;
	*asked = '\0';
	assert_int_equal(kvd_txn_new(s, &t), KVD_OK);
	for (unsigned i = 0; i < count; i++) {
		const char key[] = { (char)('a' + i), '\0' };

		assert_int_equal(kvd_txn_get(t, key, 1, value, 3, &bytes),
				 versions[i] ? KVD_OK : KVD_NOT_FOUND);
	}
	*asked = '\0';
}

/* It ends like that, and these were asked for again. */
static void must_end(int rc, const char *again)
{
	uint64_t version = 77;

	assert_int_equal(kvd_txn_commit(&t, &version), rc);
	assert_null(t);
	assert_string_equal(asked, again);
	assert_int_equal(txns, 0);
}

static void test_nothing_changed(void **state)
{
	(void)state;
	begin(1, 5, 0, 0);
	must_end(KVD_OK, ""); /* its READ was an instant */
	begin(1, 0, 0, 0);
	must_end(KVD_OK, "");
	begin(2, 5, 6, 0);
	must_end(KVD_OK, "ab");
	begin(3, 5, 0, 7); /* the absent one first */
	must_end(KVD_OK, "bac");
	begin(3, 5, 6, 0);
	must_end(KVD_OK, "cab");
}

/* Whichever did: it is no instant's view, and nobody needs to look at the others. */
static void test_something_changed(void **state)
{
	(void)state;
	begin(3, 5, 0, 7);
	versions[1] = 9;
	must_end(KVD_CONDITION, "b");
	begin(3, 5, 0, 7);
	versions[0] = 6;
	must_end(KVD_CONDITION, "ba");
	begin(3, 5, 0, 7);
	versions[2] = 0; /* it is gone */
	must_end(KVD_CONDITION, "bac");
	begin(2, 5, 7, 0);
	versions[0] = 4;
	must_end(KVD_CONDITION, "a");
}

static void test_not_told(void **state)
{
	(void)state;
	begin(3, 5, 0, 7);
	denied = 'b';
	must_end(KVD_EDENIED, "b");
	denied = 0;
	begin(3, 5, 0, 7);
	denied = 'a';
	must_end(KVD_EDENIED, "ba");
}

/* Two that are absent may have come and gone in turn: kvd says so. */
static void test_two_are_absent(void **state)
{
	(void)state;
	begin(3, 0, 0, 7);
	assert_int_equal(kvd_txn_commit(&t, NULL), KVD_CONDITION);
	assert_int_equal(txns, 1);
	assert_string_equal(asked, "");
}

/* What it reads twice has to be the same. */
static void test_reads_again(void **state)
{
	char value[3];
	size_t bytes = 0;

	(void)state;
	begin(2, 5, 6, 0);
	assert_int_equal(kvd_txn_get(t, "a", 1, value, 2, &bytes), KVD_ESPACE);
	assert_int_equal(bytes, 3);
	assert_int_equal(kvd_txn_get(t, "a", 1, value, 3, &bytes), KVD_OK);
	assert_memory_equal(value, "abc", 3);
	versions[0] = 8;
	assert_int_equal(kvd_txn_get(t, "a", 1, value, 3, &bytes), KVD_CONDITION);
	*asked = '\0';
	kvd_txn_delete(&t);
	assert_null(t);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, dial_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_nothing_changed),
		TEST(test_something_changed),
		TEST(test_not_told),
		TEST(test_two_are_absent),
		TEST(test_reads_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
