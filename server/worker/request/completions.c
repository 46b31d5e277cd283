/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/worker/request/completions.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"

#define SETS 1024u
#define WAYS 4u
#define SIZE_MAX_OF_ONE 512u

struct ring {
	uint64_t connection, secret, reign, used_at;
	uint64_t used; /* ever: as many as no connection makes */
	uint32_t size;
	struct fate fate[];
};

struct completions {
	pthread_mutex_t lock;
	uint64_t clock;   /* counts notes */
	uint64_t lacking; /* the latest reign of which something is not known */
	uint64_t since_ns; /* all that was sent since then is known; CLOCK_BOOTTIME */
	struct ring *ring[SETS][WAYS];
};

struct completions *completions_new(void)
{
	struct completions *c = calloc(1, sizeof *c);

	if (c)
		pthread_mutex_init(&c->lock, NULL);
	return c;
}

void completions_delete(struct completions **at)
{
	struct completions *c = *at;

	if (!c)
		return;
	*at = NULL;
	for (unsigned i = 0; i < SETS * WAYS; i++)
		free(c->ring[i / WAYS][i % WAYS]);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

static void lack(struct completions *c, uint64_t reign)
{
	if (reign > c->lacking)
		c->lacking = reign;
	c->since_ns = clock_read_ns(CLOCK_BOOTTIME);
}

/* Secrets are random. */
static struct ring **set_of(struct completions *c, uint64_t secret)
{
	return c->ring[secret % SETS];
}

static struct ring **find(struct completions *c, uint64_t connection, uint64_t secret)
{
	struct ring **set = set_of(c, secret);

	for (unsigned i = 0; i < WAYS; i++)
		if (set[i] && set[i]->connection == connection && set[i]->secret == secret)
			return &set[i];
	return NULL;
}

/* The place of the one that was used longest ago, which is forgotten. */
static struct ring **make_room(struct completions *c, uint64_t secret)
{
	struct ring **set = set_of(c, secret), **eldest = &set[0];

	for (unsigned i = 0; i < WAYS && *eldest; i++)
		if (!set[i] || set[i]->used_at < (*eldest)->used_at)
			eldest = &set[i];
	if (*eldest)
		lack(c, (*eldest)->reign);
	free(*eldest);
	*eldest = NULL;
	return eldest;
}

static struct ring *make(struct completions *c, const struct completion *of)
{
	uint32_t size = of->size && of->size <= SIZE_MAX_OF_ONE ? of->size : SIZE_MAX_OF_ONE;
	struct ring **place = make_room(c, of->secret);

	*place = malloc(sizeof **place + size * sizeof (*place)->fate[0]);
	if (*place)
		**place = (struct ring){ .connection = of->connection, .secret = of->secret,
					 .size = size };
	else
		lack(c, of->reign);
	return *place;
}

void completions_note(struct completions *c, const struct completion *of)
{
	struct ring **at, *r;

	pthread_mutex_lock(&c->lock);
	at = find(c, of->connection, of->secret);
	r = at ? *at : make(c, of);
	if (r) {
		r->reign = of->reign > r->reign ? of->reign : r->reign;
		r->used_at = ++c->clock;
		r->fate[r->used++ % r->size] = of->fate;
	}
	pthread_mutex_unlock(&c->lock);
}

void completions_lack(struct completions *c, uint64_t reign)
{
	pthread_mutex_lock(&c->lock);
	lack(c, reign);
	pthread_mutex_unlock(&c->lock);
}

static bool look_up(const struct ring *r, uint32_t request_id, struct fate *fate)
{
	uint32_t n = r->used < r->size ? (uint32_t)r->used : r->size;

	for (uint32_t i = 0; i < n; i++)
		if (r->fate[i].request_id == request_id) {
			*fate = r->fate[i];
			return true;
		}
	return false;
}

enum wire_status completions_find(struct completions *c, const struct completion *asked,
				  struct fate *fate)
{
	enum wire_status found;
	struct ring **at;

	pthread_mutex_lock(&c->lock);
	at = find(c, asked->connection, asked->secret);
	found = at && look_up(*at, asked->fate.request_id, fate) ? WIRE_OK
		: asked->reign > c->lacking			 ? WIRE_NOT_FOUND
								 : WIRE_EUNSUPPORTED;
	if (found == WIRE_EUNSUPPORTED)
		*fate = (struct fate){
			.value_bytes = (clock_read_ns(CLOCK_BOOTTIME) - c->since_ns) / 1000000 };
	pthread_mutex_unlock(&c->lock);
	return found;
}
