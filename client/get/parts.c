/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/get/parts.h"

#include "client/get/item.h"
#include "client/op/engine.h"
#include "client/op/operation_impl.h"
#include "client/op/post.h"

static bool has_parts(const struct get *g)
{
	return g->length > PART_BYTES;
}

static void park(struct op *op)
{
	struct engine *e = op->engine;

	if (!e->parked)
		e->parked_end = &e->parked;
	op->next = NULL;
	*e->parked_end = op;
	e->parked_end = &op->next;
}

static void post(struct op *op, struct get *g, uint32_t bytes)
{
	struct engine *e = op->engine;
	const struct wire_welcome *w = &g->table->welcome;
	uint64_t from = w->table_addr + get_offset(g, g->word) + g->posted;
	uint32_t max = e->message_bytes_max;

	e->parts += has_parts(g);
	item_part_posted(g, op_read_item(op, from, w->table_rkey, g->posted, get_head_bytes(g),
					 bytes < max ? bytes : max));
}

/* One at the least, where not all are under way, and more as far as the send queue has room. */
static void post_more(struct op *op, struct get *g)
{
	struct engine *e = op->engine;
	uint32_t bytes;

	while (!op->reads || engine_room(e) > e->sq_depth / 2) {
		bytes = item_next_part(g);
		if (!bytes || (has_parts(g) && e->parts == PARTS_ALL_MAX))
			break;
		post(op, g, bytes);
	}
}

void parts_begin(struct op *op, struct get *g)
{
	item_plan_direct(g);
	if (has_parts(g) && op->engine->parts == PARTS_ALL_MAX)
		park(op);
	else
		post_more(op, g);
}

void parts_arrived(struct op *op, struct get *g)
{
	struct engine *e = op->engine;

	item_part_arrived(g);
	e->parts -= has_parts(g);
	post_more(op, g);
	while (e->parked && e->parts < PARTS_ALL_MAX) {
		struct op *next = e->parked;
		e->parked = next->next;
		post_more(next, next->own);
	}
}
