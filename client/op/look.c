/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/op/look.h"

#include "client/op/post.h"

bool look_again(struct engine *e, uint64_t reign)
{
	struct grant *g = &e->table.grant;
	uint64_t now_ns = grant_look_at_clock_ns(g);

	if (grant_look_is_due(g, now_ns) && engine_room(e)) {
		grant_looks(g, now_ns);
		engine_read(e, LOOK_INDEX,
			    e->table.welcome.table_addr + offsetof(struct layout_header, lease),
			    e->look, sizeof *e->look);
		engine_flush(e);
	}
	return grant_is_good(g, reign, now_ns);
}

void look_seen(struct engine *e)
{
	grant_seen(&e->table.grant, e->look);
}
