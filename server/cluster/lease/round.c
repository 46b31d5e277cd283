/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/cluster/lease/round.h"

void round_reign(struct round *r, uint64_t reign)
{
	*r = (struct round){ .words = { reign, r->number, r->words.g }, .number = r->number };
}

/*
 * All have promised: readers that sampled A before it was raised may go on, if it was shown
 * raised before they were asked.
 */
static void complete(struct round *r)
{
	r->until_ns = r->raised_ns + LEASE_GOOD_NS;
	if (!r->hidden_ns && r->words.a == r->number)
		r->words.g = r->number;
}

void round_raise(struct round *r, uint32_t members, uint64_t now_ns)
{
	r->number++;
	r->raised_ns = now_ns;
	r->awaited = members | r->joiner;
	if (!r->hidden_ns)
		r->words.a = r->number;
	if (!r->awaited)
		complete(r);
}

bool round_promised(struct round *r, uint32_t member, uint64_t number)
{
	if (number != r->number || !(r->awaited & member))
		return false;
	r->awaited &= ~member;
	if (r->awaited)
		return false;
	complete(r);
	return true;
}

void round_include(struct round *r, uint32_t joiner, uint64_t now_ns)
{
	r->joiner = joiner;
	r->included_ns = now_ns;
}

bool round_may_grow(const struct round *r, uint64_t now_ns)
{
	return r->joiner && now_ns >= r->included_ns + LEASE_NS;
}

void round_hide(struct round *r, uint64_t now_ns)
{
	r->hidden_ns = now_ns;
}

void round_show(struct round *r)
{
	r->hidden_ns = 0;
}

bool round_is_forgotten(const struct round *r, uint64_t now_ns)
{
	return r->hidden_ns && now_ns >= r->hidden_ns + LEASE_NS;
}

bool round_is_good(const struct round *r, uint64_t now_ns)
{
	return now_ns < r->until_ns;
}

uint64_t round_left_ns(const struct round *r, uint64_t now_ns)
{
	return !r->hidden_ns && now_ns < r->until_ns ? r->until_ns - now_ns : 0;
}
