/* SPDX-License-Identifier: BSD-2-Clause */
/* server/lock/word.h: what is done with one lock word, on a loopback that is a function. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/clock.h"
#include "common/layout.h"
#include "server/lock/word.h"

#define STRIPES 16u

static _Atomic uint64_t words[STRIPES];
static struct lockwords l;
static bool flips; /* somebody changes a word between each look and swap */
static unsigned swaps;

struct loopback {
	int unused;
};
static struct loopback only;

int loopback_new(const struct loopback_config *config, struct loopback **loopback, struct err *err)
{
	(void)config;
	(void)err;
	*loopback = &only;
	return 0;
}

void loopback_delete(struct loopback **loopback)
{
	*loopback = NULL;
}

int loopback_cas(struct loopback *loopback, uint64_t stripe, uint64_t expected, uint64_t desired,
		 uint64_t *old, struct err *err)
{
	(void)loopback;
	(void)err;
	if (++swaps > 1000000)
		fail_msg("a word that changes keeps the locker for ever");
	if (flips)
		words[stripe] ^= 1;
	*old = words[stripe];
	if (*old == expected)
		words[stripe] = desired;
	return 0;
}

static int begin(void **state)
{
	const struct locker_config config = { .loopback = { .locks = words }, .stripes = STRIPES };
	struct err err;

	(void)state;
	memset((void *)words, 0, sizeof words);
	flips = false;
	l = (struct lockwords){ 0 };
	if (lockwords_init(&l, &config, &err))
		return -1;
	swaps = 0;
	return 0;
}

static int end(void **state)
{
	(void)state;
	lockwords_fini(&l);
	return 0;
}

/* A writer that changes its word in a loop: the others' turn comes nevertheless. */
static void test_flips(void **state)
{
	struct queue *q = queue_get(&l.queues, 1);

	(void)state;
	flips = true;
	words[1] = layout_token(77, 1); /* of nobody: to be released */
	q->watched_ns = UINT64_MAX;
	lockword_serve(&l, q, clock_ns());
	assert_in_range(swaps, 1, 100);
	assert_non_null(queue_find(&l.queues, 1));
	flips = false;
	lockword_serve(&l, q, clock_ns());
	assert_int_equal(words[1] & ~LAYOUT_LOCK_WAIT, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_flips, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
