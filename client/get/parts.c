/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/get/parts.h"

#include "client/get/item.h"
#include "client/op/engine.h"
#include "client/op/post.h"

static bool has_parts(const struct get *g)
{
	return g->length > PART_BYTES;
}

static void park(struct engine *e, struct get *g)
{
	if (!e->parked)
		e->parked_end = &e->parked;
	g->next_parked = NULL;
	*e->parked_end = g;
	e->parked_end = &g->next_parked;
}

static void post(struct engine *e, struct get *g, uint32_t bytes)
{
	const struct wire_welcome *w = &g->table->welcome;
	uint64_t from = w->table_addr + get_offset(g, g->word) + g->posted;
	uint32_t max = e->message_bytes_max;

	e->parts += has_parts(g);
	item_part_posted(g, op_read_item(g->op, from, w->table_rkey, g->posted, get_head_bytes(g),
					 bytes < max ? bytes : max));
}

/* One at the least, where not all are under way, and more as far as the send queue has room. */
static void post_more(struct engine *e, struct get *g)
{
	while (g->parts_posted == g->parts_arrived || engine_room(e) > e->sq_depth / 2) {
		uint32_t bytes = item_next_part(g);
		if (!bytes || (has_parts(g) && e->parts == PARTS_ALL_MAX))
			break;
		post(e, g, bytes);
	}
}

void parts_begin(struct engine *e, struct get *g)
{
	item_plan_direct(g);
	if (has_parts(g) && e->parts == PARTS_ALL_MAX)
		park(e, g);
	else
		post_more(e, g);
}

/*
 * Whether it is the session's only long value now.  Of many each is hashed by the session's own
 * thread: others' threads have the processors, from which one that waits for the next part of one
 * value would only take time.
 */
static bool is_alone(const struct engine *e, const struct get *g)
{
	return !e->parked && e->parts == g->parts_posted - g->parts_arrived;
}

void parts_arrived(struct engine *e, struct get *g)
{
	if (!g->arrived)
		g->hasher = is_alone(e, g) ? e->hasher : NULL;
	item_part_arrived(g);
	e->parts -= has_parts(g);
	post_more(e, g);
	while (e->parked && e->parts < PARTS_ALL_MAX) {
		struct get *next = e->parked;
		e->parked = next->next_parked;
		post_more(e, next);
	}
}
