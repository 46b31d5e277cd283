/* SPDX-License-Identifier: BSD-2-Clause */
/* lock_words.h -- a few lock words on a loopback that is a function, for one program. */
#ifndef TESTS_UNIT_SERVER_LOCK_WORDS_H
#define TESTS_UNIT_SERVER_LOCK_WORDS_H

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

#define STRIPES (LAYOUT_HELD_MAX + 2)
#define LEASE_NS 1000000000ull
#define LOOK_NS 10000000ull /* between two looks at a holder, and more */
#define TRIES 8u /* at a word that changes, before others have their turn */

static _Atomic uint64_t words[STRIPES];
static struct lockwords l;
static bool flips; /* somebody changes a word between each look and swap */
static bool is_down; /* no loopback can be made */
static unsigned tries; /* to make one */
static unsigned loopbacks; /* that are there */
static bool breaks, is_unseen, lies; /* a swap: fails; the CPU doesn't see it; its answer is wrong */
static unsigned swaps;
static uint64_t fenced, looked_at; /* whom the hooks were last called for */
static unsigned looks;
static unsigned answers, wakes;
static uint64_t answered; /* whose request was answered last, by its token, and with what */
static enum wire_status status_of_it;

struct loopback {
	int unused;
};
static struct loopback only;

int loopback_new(const struct loopback_config *config, struct loopback **loopback, struct err *err)
{
	(void)config;
	tries++;
	if (is_down)
		return err_set(err, -1, "down");
	*loopback = &only;
	loopbacks++;
	return 0;
}

void loopback_delete(struct loopback **loopback)
{
	loopbacks -= *loopback != NULL;
	*loopback = NULL;
}

int loopback_cas(struct loopback *loopback, uint64_t stripe, uint64_t expected, uint64_t desired,
		 uint64_t *old, struct err *err)
{
	(void)loopback;
	if (breaks)
		return err_set(err, -1, "broken");
	if (++swaps > 1000000)
		fail_msg("a word that changes keeps the locker for ever");
	if (flips)
		words[stripe] ^= 1;
	*old = words[stripe];
	if (*old == expected && !is_unseen)
		words[stripe] = desired;
	*old ^= lies;
	return 0;
}

static void fence(void *arg, uint64_t connection)
{
	(void)arg;
	fenced = connection;
}

static void read_held(void *arg, uint64_t connection, uint64_t look)
{
	(void)arg;
	(void)look;
	looked_at = connection;
	looks++;
}

static void answer(struct conn *conn, const struct wire_request *request, enum wire_status status)
{
	(void)conn;
	answers++;
	answered = request->token;
	status_of_it = status;
}

static void wake_all(void *arg)
{
	(void)arg;
	wakes++;
}

static int init(struct err *err)
{
	const struct locker_config config = { .loopback = { .locks = words }, .stripes = STRIPES,
					      .lease_ns = LEASE_NS,
					      .hooks = { .answer = answer, .fence = fence,
							 .read_held = read_held, .wake_all = wake_all } };

	l = (struct lockwords){ 0 };
	return lockwords_init(&l, &config, err);
}

static int begin(void **state)
{
	struct err err;

	(void)state;
	memset((void *)words, 0, sizeof words);
	flips = breaks = is_unseen = lies = is_down = false;
	if (init(&err))
		return -1;
	swaps = 0;
	fenced = looked_at = answered = 0;
	looks = answers = wakes = 0;
	return 0;
}

static int end(void **state)
{
	(void)state;
	lockwords_fini(&l);
	return 0;
}

#endif
