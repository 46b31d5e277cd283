/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/lock/sweep.h"

#include <stddef.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/log_limit.h"
#include "server/lock/word.h"

#define WORDS 8192u /* looked at between two looks at the clock, or */
#define SWAPS 4u    /* changed, each some microseconds of a device's time */
#define STEP_NS 100000ull
#define UNREACHED_NS 100000000ull /* until it is asked again whether words can be swapped */
#define REST_PART 4 /* times as long as a step takes nothing is done */

bool sweep_is_due(const struct sweep *s)
{
	return s->is_running || s->later || s->words->wants_sweep;
}

static void go_through(struct sweep *s)
{
	s->next = 0;
	s->failures = s->words->failures;
}

static void begin(struct sweep *s)
{
	s->is_running = true;
	go_through(s);
	s->now = s->later;
	s->later = NULL;
	s->words->wants_sweep = false;
}

static void tell(const struct holder *h)
{
	if (h->released)
		log_limited(LOG_LEVEL_INFO, "locks of a connection that is gone released",
			    "released %u lock%s of connection %llu, which is gone", h->released,
			    h->released == 1 ? "" : "s", (unsigned long long)h->number);
}

static void forget_all(struct sweep *s, struct holder *first)
{
	for (struct holder *h = first, *next; h; h = next) {
		next = h->next_ended;
		tell(h);
		holders_remove(&s->words->holders, h);
		s->forget(h);
	}
}

void sweep_ended(struct sweep *s, struct holder *h)
{
	holders_end(h);
	if (!h->may_write) { /* no word can have its token, but one that somebody else wrote */
		forget_all(s, h);
		return;
	}
	h->next_ended = s->later;
	s->later = h;
}

static void finish(struct sweep *s)
{
	struct holder *ended = s->now;

	s->is_running = false;
	s->now = NULL;
	forget_all(s, ended);
}

static void look(struct sweep *s)
{
	uint64_t stripes = s->words->config.stripes;
	uint64_t end = stripes - s->next < WORDS ? stripes : s->next + WORDS;

	for (unsigned swaps = 0; s->next < end && swaps < SWAPS; s->next++)
		if (lockword_get(s->words, s->next))
			swaps += lockword_clear(s->words, s->next);
}

void sweep_step(struct sweep *s, uint64_t now)
{
	uint64_t at = now;

	if (now < s->resume_ns || !sweep_is_due(s))
		return;
	if (!lockwords_are_reached(s->words)) {
		s->resume_ns = now + UNREACHED_NS;
		return;
	}
	if (!s->is_running)
		begin(s);
	do {
		look(s);
		at = clock_ns();
	} while (s->next < s->words->config.stripes && at - now < STEP_NS);
	s->resume_ns = at + REST_PART * (at - now);
	if (s->failures != s->words->failures)
		go_through(s); /* once more: words that could not be released name who is to be forgotten */
	if (s->next >= s->words->config.stripes)
		finish(s);
}

void sweep_drop(struct sweep *s)
{
	finish(s);
	forget_all(s, s->later);
	s->later = NULL;
}
