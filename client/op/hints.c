/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/op/hints.h"

#include <stdlib.h>
#include <string.h>

#include "client/op/engine.h"
#include "client/op/operation.h"
#include "client/op/request.h"

#define SEEN 1024u /* a power of two */
#define AGE_NS_MAX 200000000ull

struct hints {
	unsigned every;
	unsigned shift;
	uint32_t random;
	uint32_t count;
	uint32_t turns;      /* GETs that had their turn since, told or seen already */
	uint64_t since_ns;   /* of the first */
	uint32_t seen[SEEN]; /* place + 1, of those in `place` */
	uint32_t place[WIRE_HINTS_MAX];
};

void hints_begin(struct engine *e)
{
	const struct wire_welcome *w = &e->table.welcome;

	if (!w->hints_every) {
		hints_delete(e->hints);
		e->hints = NULL;
		return;
	}
	if (!e->hints)
		e->hints = malloc(sizeof *e->hints);
	if (!e->hints)
		return;
	*e->hints = (struct hints){ .every = w->hints_every,
				    .shift = w->hint_shift,
				    .random = (uint32_t)w->connection_id | 1 };
}

void hints_delete(struct hints *hints)
{
	free(hints);
}

static void tell(struct engine *e)
{
	struct hints *h = e->hints;
	struct op *op = op_new(e, &detached_class, NULL, 0);
	struct iovec all = { h->place, h->count * sizeof h->place[0] };

	h->count = h->turns = 0;
	memset(h->seen, 0, sizeof h->seen);
	if (!op)
		return; /* all are in flight: they are told no more */
	request_start(op, &(struct wire_request){ .op = WIRE_HINTS }, &all, 1);
}

/* Xorshift: in turn would tell every other GET of a loop of an even length. */
static bool is_its_turn(struct hints *h)
{
	uint32_t x = h->random;

	x ^= x << 13;
	x ^= x >> 17;
	x ^= x << 5;
	h->random = x;
	return (uint64_t)x * h->every >> 32 == 0;
}

void hints_note(struct engine *e, uint64_t word)
{
	struct hints *h = e->hints;

	if (!is_its_turn(h))
		return;
	uint32_t place = (uint32_t)(layout_word_offset(word, e->table.unit_mask) >> h->shift);
	uint32_t *seen = &h->seen[(place * 2654435761u) >> 22 & (SEEN - 1)];
	uint64_t now = clock_coarse_ns();
	if (*seen != place + 1) {
		*seen = place + 1;
		if (!h->count)
			h->since_ns = now;
		h->place[h->count++] = place;
	}
	h->turns++;
	/* Few keys that are used all the time must be told as often as many: kvd goes by
	 * what it hears between two victims, not by the clock. */
	if (h->turns >= WIRE_HINTS_MAX || (h->count && now - h->since_ns > AGE_NS_MAX))
		tell(e);
}
