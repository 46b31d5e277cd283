/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/cache/grant.h"

#include "common/hash.h"

/* A primary has no more. */
#define LEFT_MS_MAX (LEASE_GOOD_NS / 1000000)

static void refresh(struct grant *g)
{
	g->fresh_ns = g->look_ns < g->lease.until_ns ? g->look_ns : g->lease.until_ns;
}

void grant_not_needed(struct grant *g)
{
	*g = (struct grant){ .is_needed = false };
}

void grant_begin(struct grant *g, uint64_t reign)
{
	*g = (struct grant){ .is_needed = true, .is_told = reign, .lease.reign = reign };
}

void grant_told(struct grant *g, unsigned left_ms, uint64_t asked_ns)
{
	uint64_t left = left_ms < LEFT_MS_MAX ? left_ms : LEFT_MS_MAX;

	if (!g->is_told || !left)
		return;
	lease_told(&g->lease, g->lease.reign, left * 1000000, asked_ns);
	if (asked_ns + GRANT_LOOK_NS / 2 > g->look_ns)
		g->look_ns = asked_ns + GRANT_LOOK_NS / 2;
	refresh(g);
}

uint64_t grant_look_at_clock_ns(struct grant *g)
{
	uint64_t now_ns = ticks_clock_ns(&g->ticks);

	ticks_trust(&g->ticks, now_ns, g->fresh_ns);
	return now_ns;
}

bool grant_look_is_due(const struct grant *g, uint64_t now_ns)
{
	return !g->looking_ns && now_ns >= g->look_ns;
}

void grant_looks(struct grant *g, uint64_t now_ns)
{
	g->looking_ns = now_ns;
	g->look_ns = now_ns + GRANT_LOOK_NS;
	refresh(g);
}

void grant_seen(struct grant *g, const struct layout_lease *shown)
{
	const struct lease_words words = { shown->reign, shown->a, shown->g };
	uint64_t posted_ns = g->looking_ns;

	g->looking_ns = 0;
	if (!words.reign || shown->checksum != hash_lease(shown))
		return;
	/* A connection is of one reign. */
	if (g->lease.reign && g->lease.reign != words.reign)
		return;
	lease_sampled(&g->lease, &words, posted_ns);
	refresh(g);
}
