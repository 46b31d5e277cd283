/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/session/route.h"

#include <stdio.h>
#include <string.h>

void route_init(struct route *r)
{
	pthread_mutex_init(&r->lock, NULL);
}

void route_fini(struct route *r)
{
	pthread_mutex_destroy(&r->lock);
}

bool route_is_same(const struct addr *a, const struct addr *b)
{
	return !strcmp(a->text, b->text);
}

/* Its place, or count. */
static unsigned find(const struct route *r, const struct addr *addr)
{
	unsigned i = 0;

	while (i < r->count && !route_is_same(&r->of[i], addr))
		i++;
	return i;
}

bool route_add(struct route *r, const struct addr *addr)
{
	unsigned i;

	pthread_mutex_lock(&r->lock);
	i = find(r, addr);
	if (i == r->count && i < ROUTE_MAX)
		r->of[r->count++] = *addr;
	pthread_mutex_unlock(&r->lock);
	return i < ROUTE_MAX;
}

unsigned route_count(struct route *r)
{
	unsigned n;

	pthread_mutex_lock(&r->lock);
	n = r->count;
	pthread_mutex_unlock(&r->lock);
	return n;
}

void route_present(struct route *r, struct addr *addr)
{
	pthread_mutex_lock(&r->lock);
	*addr = r->of[r->at];
	pthread_mutex_unlock(&r->lock);
}

void route_failed(struct route *r, const struct addr *addr)
{
	pthread_mutex_lock(&r->lock);
	if (r->count && route_is_same(&r->of[r->at], addr))
		r->at = (r->at + 1) % r->count;
	r->is_gone = r->epoch && route_is_same(&r->of[r->primary], addr);
	pthread_mutex_unlock(&r->lock);
}

bool route_is_gone(struct route *r)
{
	bool is_gone;

	pthread_mutex_lock(&r->lock);
	is_gone = r->is_gone;
	pthread_mutex_unlock(&r->lock);
	return is_gone;
}

void route_found(struct route *r)
{
	pthread_mutex_lock(&r->lock);
	r->is_gone = false;
	r->at = r->primary;
	pthread_mutex_unlock(&r->lock);
}

void route_settled(struct route *r, const struct addr *addr)
{
	pthread_mutex_lock(&r->lock);
	if (!r->is_list && r->count > 1) {
		r->of[0] = *addr;
		r->count = 1;
		r->at = 0;
	}
	r->is_gone = r->is_gone && !route_is_same(&r->of[r->primary], addr);
	pthread_mutex_unlock(&r->lock);
}

/* A member's line as an address; "-": it is not known. */
static bool parse(const struct route *r, const char *line, struct addr *addr)
{
	struct err ignored;
	size_t bytes;

	if (!strcmp(line, "-") || addr_parse(addr, line, &ignored))
		return false;
	bytes = strlen(addr->text);
	snprintf(addr->text + bytes, sizeof addr->text - bytes, "%s", r->suffix);
	return true;
}

bool route_learn(struct route *r, uint64_t epoch, char *lines, bool goes, struct addr *primary)
{
	bool is_first = true, is_known = false;
	char *save = NULL;

	pthread_mutex_lock(&r->lock);
	r->is_list = true;
	for (char *line = strtok_r(lines, "\n", &save); line && epoch && epoch >= r->epoch;
	     line = strtok_r(NULL, "\n", &save), is_first = false) {
		struct addr addr;
		unsigned i = parse(r, line, &addr) ? find(r, &addr) : ROUTE_MAX;

		if (i == r->count && i < ROUTE_MAX)
			r->of[r->count++] = addr;
		if (is_first && i < ROUTE_MAX) {
			r->is_gone = r->is_gone && epoch == r->epoch && i == r->primary;
			r->primary = i;
			r->at = goes && !r->is_gone ? i : r->at;
			*primary = addr;
			is_known = true;
		}
	}
	if (epoch > r->epoch)
		r->epoch = epoch;
	pthread_mutex_unlock(&r->lock);
	return is_known;
}
