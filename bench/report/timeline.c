/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/report/timeline.h"

#include <stdlib.h>

static struct timeline_point *append(struct timeline *t)
{
	if (t->count == t->room) {
		size_t room = t->room > 0 ? 2 * t->room : 64;
		void *grown = realloc(t->points, room * sizeof *t->points);
		if (grown == NULL)
			return NULL;
		t->points = grown;
		t->room = room;
	}
	return &t->points[t->count++];
}

void timeline_add(struct timeline *t, const struct driver_tick *tick)
{
	struct histogram all;
	struct timeline_point *point;

	histogram_clear(&all);
	for (int kind = 0; kind < OP_KINDS; kind++)
		histogram_merge(&all, tick->interval[kind]);
	point = all.count > 0 ? append(t) : NULL;
	if (point == NULL)
		return;
	point->from_seconds = tick->from_seconds;
	point->to_seconds = tick->to_seconds;
	point->operations = all.count;
	point->p50_ns = histogram_percentile(&all, 50);
	point->p99_ns = histogram_percentile(&all, 99);
	point->max_ns = all.max_ns;
}

void timeline_clear(struct timeline *t)
{
	free(t->points);
	*t = (struct timeline){ 0 };
}
