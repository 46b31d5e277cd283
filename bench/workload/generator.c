/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/workload/generator.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>

#include "bench/workload/fnv.h"

const char *const generator_names[GENERATOR_KINDS + 1] = {
	[GENERATOR_UNIFORM] = "uniform",         [GENERATOR_ZIPFIAN] = "zipfian",
	[GENERATOR_LATEST] = "latest",           [GENERATOR_HOTSPOT] = "hotspot",
	[GENERATOR_EXPONENTIAL] = "exponential", [GENERATOR_SEQUENTIAL] = "sequential",
};

void generator_init(struct generator *g, enum generator_kind kind, uint64_t first, uint64_t count)
{
	assert(count > 0);
	g->kind = kind;
	g->first = first;
	g->count = count;
	g->inverse = UINT64_MAX / count;
	if (kind == GENERATOR_ZIPFIAN)
		zipf_init(&g->zipf, GENERATOR_SCRAMBLED_ITEMS, GENERATOR_SCRAMBLED_ZETAN);
	else if (kind == GENERATOR_LATEST)
		zipf_init(&g->zipf, count, 0);
}

static uint64_t next_hotspot(const struct generator *g, struct random *r)
{
	uint64_t cold = g->count - g->hot_count;
	bool hot = random_double(r) < g->hot_proportion;

	if (cold == 0 || (hot && g->hot_count > 0))
		return g->first + random_below(r, g->hot_count);
	return g->first + g->hot_count + random_below(r, cold);
}

static uint64_t next_latest(struct generator *g, struct random *r, uint64_t newest)
{
	zipf_resize(&g->zipf, newest - g->first + 1);
	return newest - zipf_next(&g->zipf, r);
}

static uint64_t next_exponential(const struct generator *g, struct random *r, uint64_t newest)
{
	double range = (double)(newest - g->first) + 1;
	double distance;

	do {
		distance = -log(1 - random_double(r)) * g->mean;
	} while (distance >= range);
	return newest - (uint64_t)distance;
}

/* n modulo the count, without a division: the quotient is at most 2 too small. */
static uint64_t modulo_count(const struct generator *g, uint64_t n)
{
	uint64_t quotient = (uint64_t)((unsigned __int128)n * g->inverse >> 64);
	uint64_t rest = n - quotient * g->count;

	while (rest >= g->count)
		rest -= g->count;
	return rest;
}

static uint64_t draw(struct generator *g, struct random *r, uint64_t index, uint64_t newest)
{
	switch (g->kind) {
	case GENERATOR_UNIFORM:
		return g->first + random_below(r, g->count);
	case GENERATOR_ZIPFIAN:
		return g->first + modulo_count(g, fnv_hash(zipf_next(&g->zipf, r)));
	case GENERATOR_LATEST:
		return next_latest(g, r, newest);
	case GENERATOR_HOTSPOT:
		return next_hotspot(g, r);
	case GENERATOR_EXPONENTIAL:
		return next_exponential(g, r, newest);
	case GENERATOR_SEQUENTIAL:
		return g->first + index % g->count;
	case GENERATOR_KINDS:
		break;
	}
	assert(!"kind");
	return g->first;
}

uint64_t generator_next(struct generator *g, struct random *r, uint64_t index, uint64_t newest)
{
	uint64_t number;

	assert(newest >= g->first);
	do {
		number = draw(g, r, index++, newest);
	} while (number > newest);
	return number;
}
