/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/worker/request/completions.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"

#define CHAINS 16384u
#define SIZE_MAX_OF_ONE 512u
#define BYTES_MAX (64u << 20) /* of all rings */

struct ring {
	struct ring *next;           /* of its chain */
	struct ring *newer, *older;  /* by when they were noted last */
	uint64_t connection, secret, reign, noted_ns;
	uint64_t used;
	uint32_t size;
	struct fate fate[];
};

struct completions {
	pthread_mutex_t lock;
	uint64_t lacking;  /* the latest reign of which something is not known */
	uint64_t since_ns; /* all that was sent since then is known; CLOCK_BOOTTIME */
	uint64_t bytes;
	struct ring *newest, *eldest;
	struct ring *chain[CHAINS];
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
	struct ring *older;

	if (!c)
		return;
	*at = NULL;
	for (struct ring *r = c->newest; r; r = older) {
		older = r->older;
		free(r);
	}
	pthread_mutex_destroy(&c->lock);
	free(c);
}

/* What was sent before that may be unknown. */
static void lack(struct completions *c, uint64_t reign, uint64_t until_ns)
{
	if (reign > c->lacking)
		c->lacking = reign;
	if (until_ns > c->since_ns)
		c->since_ns = until_ns;
}

/* Secrets are random. */
static struct ring **chain_of(struct completions *c, uint64_t secret)
{
	return &c->chain[secret % CHAINS];
}

static struct ring *find(struct completions *c, uint64_t connection, uint64_t secret)
{
	struct ring *r = *chain_of(c, secret);

	while (r && (r->connection != connection || r->secret != secret))
		r = r->next;
	return r;
}

static uint64_t bytes_of(const struct ring *r)
{
	return sizeof *r + r->size * sizeof r->fate[0];
}

/* -------------------------------------------------------------------- by age */
static void take_out(struct completions *c, struct ring *r)
{
	*(r->newer ? &r->newer->older : &c->newest) = r->older;
	*(r->older ? &r->older->newer : &c->eldest) = r->newer;
}

static void put_first(struct completions *c, struct ring *r)
{
	r->newer = NULL;
	r->older = c->newest;
	*(c->newest ? &c->newest->newer : &c->eldest) = r;
	c->newest = r;
}

/* Nothing of its was sent after it was noted last. */
static void forget(struct completions *c, struct ring *r)
{
	struct ring **at = chain_of(c, r->secret);

	while (*at != r)
		at = &(*at)->next;
	*at = r->next;
	take_out(c, r);
	c->bytes -= bytes_of(r);
	lack(c, r->reign, r->noted_ns);
	free(r);
}

/* -------------------------------------------------------------------- notes */
static struct ring *make(struct completions *c, const struct completion *of, uint64_t now_ns)
{
	uint32_t size = of->size && of->size <= SIZE_MAX_OF_ONE ? of->size : SIZE_MAX_OF_ONE;
	struct ring **chain = chain_of(c, of->secret), *r = malloc(sizeof *r + size * sizeof r->fate[0]);

	if (!r) {
		lack(c, of->reign, now_ns);
		return NULL;
	}
	*r = (struct ring){ .next = *chain, .connection = of->connection, .secret = of->secret,
			    .size = size };
	*chain = r;
	put_first(c, r);
	c->bytes += bytes_of(r);
	while (c->bytes > BYTES_MAX)
		forget(c, c->eldest);
	return r;
}

void completions_note(struct completions *c, const struct completion *of)
{
	uint64_t now_ns = clock_read_ns(CLOCK_BOOTTIME);
	struct ring *r;

	pthread_mutex_lock(&c->lock);
	r = find(c, of->connection, of->secret);
	r = r ? r : make(c, of, now_ns);
	if (r) {
		r->reign = of->reign > r->reign ? of->reign : r->reign;
		r->noted_ns = now_ns;
		r->fate[r->used++ % r->size] = of->fate;
		take_out(c, r);
		put_first(c, r);
	}
	pthread_mutex_unlock(&c->lock);
}

void completions_lack(struct completions *c, uint64_t reign, uint64_t until_ns)
{
	pthread_mutex_lock(&c->lock);
	lack(c, reign, until_ns);
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
	struct ring *r;

	pthread_mutex_lock(&c->lock);
	r = find(c, asked->connection, asked->secret);
	found = r && look_up(r, asked->fate.request_id, fate) ? WIRE_OK
		: asked->reign > c->lacking			 ? WIRE_NOT_FOUND
								 : WIRE_EUNSUPPORTED;
	if (found == WIRE_EUNSUPPORTED)
		*fate = (struct fate){
			.value_bytes = (clock_read_ns(CLOCK_BOOTTIME) - c->since_ns) / 1000000 };
	pthread_mutex_unlock(&c->lock);
	return found;
}
