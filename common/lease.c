/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two samples are kept: while a round is under way A is already above the last G, so a
 * reader that READs often would otherwise replace each sample before it is worth a lease.
 */
#include "common/lease.h"

#include <stddef.h>

static void be_of(struct lease *l, uint64_t reign)
{
	if (l->reign != reign)
		*l = (struct lease){ .reign = reign };
}

static void extend(struct lease *l, uint64_t until_ns)
{
	if (until_ns > l->until_ns)
		l->until_ns = until_ns;
}

/* A later sample of the same A is worth more. */
static void keep(struct lease *l, const struct lease_sample *sample)
{
	struct lease_sample *newest = l->count ? &l->samples[l->count - 1] : NULL;

	if (newest && newest->a == sample->a) {
		if (sample->posted_ns > newest->posted_ns)
			newest->posted_ns = sample->posted_ns;
		return;
	}
	if (l->count == 2)
		l->samples[0] = l->samples[1];
	else
		l->count++;
	l->samples[l->count - 1] = *sample;
}

void lease_sampled(struct lease *l, const struct lease_words *words, uint64_t posted_ns)
{
	be_of(l, words->reign);
	for (unsigned i = 0; i < l->count; i++)
		if (words->g > l->samples[i].a)
			extend(l, l->samples[i].posted_ns + LEASE_GOOD_NS);
	if (!l->count || words->a >= l->samples[l->count - 1].a)
		keep(l, &(struct lease_sample){ words->a, posted_ns });
}

void lease_told(struct lease *l, uint64_t reign, uint64_t left_ns, uint64_t asked_ns)
{
	be_of(l, reign);
	extend(l, asked_ns + left_ns);
}
