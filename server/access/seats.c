/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/access/seats.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct seat {
	struct seat *next;
	unsigned count;
	char name[];
};

/* Where the user's stands, or would. */
static struct seat **find(struct seats *s, const char *name)
{
	unsigned hash = 5381;
	struct seat **at;

	for (const char *c = name; *c; c++)
		hash = 33 * hash ^ (unsigned char)*c;
	for (at = &s->chain[hash % SEATS_CHAINS]; *at; at = &(*at)->next)
		if (!strcmp((*at)->name, name))
			break;
	return at;
}

static struct seat *new_seat(const char *name)
{
	size_t bytes = strlen(name) + 1;
	struct seat *seat = malloc(sizeof *seat + bytes);

	if (!seat)
		return NULL;
	*seat = (struct seat){ .count = 0 };
	memcpy(seat->name, name, bytes);
	return seat;
}

bool seats_take(struct seats *s, const char *name)
{
	struct seat **at;

	if (!s->max)
		return true;
	at = find(s, name);
	if (!*at)
		*at = new_seat(name);
	if (!*at || (*at)->count >= s->max)
		return false;
	(*at)->count++;
	return true;
}

void seats_leave(struct seats *s, const char *name)
{
	struct seat **at, *seat;

	if (!s->max)
		return;
	at = find(s, name);
	seat = *at;
	assert(seat && seat->count);
	if (--seat->count)
		return;
	*at = seat->next;
	free(seat);
}

void seats_free(struct seats *s)
{
	for (unsigned i = 0; i < SEATS_CHAINS; i++)
		for (struct seat *seat = s->chain[i], *next; seat; seat = next) {
			next = seat->next;
			free(seat);
		}
}
