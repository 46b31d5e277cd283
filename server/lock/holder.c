/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/lock/holder.h"

#include <stddef.h>

void holders_init(struct holders *s, unsigned bits, uint64_t last)
{
	pthread_mutex_init(&s->lock, NULL);
	s->last = last;
	s->mask = (1ull << bits) - 1;
}

void holders_fini(struct holders *s)
{
	pthread_mutex_destroy(&s->lock);
}

static struct holder **slot_of(struct holders *s, uint64_t low)
{
	struct holder **at = &s->at[low % HOLDER_BUCKETS];

	while (*at && ((*at)->id & s->mask) != low)
		at = &(*at)->next;
	return at;
}

/* Low bits of nobody. */
static bool is_free(struct holders *s, uint64_t id)
{
	uint64_t low = id & s->mask;

	return low && low != s->mask && !*slot_of(s, low);
}

bool holders_add(struct holders *s, struct holder *h)
{
	uint64_t tries = 0;

	pthread_mutex_lock(&s->lock);
	while (!is_free(s, ++s->last) && tries <= s->mask)
		tries++;
	bool found = tries <= s->mask;
	if (found) {
		h->id = s->last;
		h->next = NULL;
		*slot_of(s, h->id & s->mask) = h;
	}
	pthread_mutex_unlock(&s->lock);
	return found;
}

void holders_end(struct holder *h)
{
	h->has_ended = true;
}

void holders_remove(struct holders *s, struct holder *h)
{
	pthread_mutex_lock(&s->lock);
	*slot_of(s, h->id & s->mask) = h->next;
	pthread_mutex_unlock(&s->lock);
}

struct holder *holders_find(struct holders *s, uint64_t low)
{
	pthread_mutex_lock(&s->lock);
	struct holder *h = *slot_of(s, low);
	pthread_mutex_unlock(&s->lock);
	return h;
}
