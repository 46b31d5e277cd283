/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/worker/news.h"

#include <stdatomic.h>
#include <stdlib.h>

#define RING 1024u

struct entry {
	_Atomic uint64_t place;
	_Atomic uint64_t word;
	_Atomic uint64_t connection;
};

struct news {
	_Atomic uint64_t count; /* ever */
	struct entry entry[RING];
};

#define LOAD(x) atomic_load_explicit(&(x), memory_order_relaxed)
#define STORE(x, value) atomic_store_explicit(&(x), value, memory_order_relaxed)

struct news *news_new(void)
{
	return calloc(1, sizeof(struct news));
}

void news_delete(struct news **news)
{
	free(*news);
	*news = NULL;
}

void news_put(struct news *n, uint64_t connection, uint64_t bucket, unsigned slot, uint64_t word)
{
	uint64_t i = atomic_fetch_add_explicit(&n->count, 1, memory_order_relaxed);
	struct entry *e = &n->entry[i % RING];

	STORE(e->place, bucket << 8 | slot);
	STORE(e->word, word);
	STORE(e->connection, connection);
}

unsigned news_take(struct news *n, uint64_t connection, uint64_t *seen, struct wire_news *out,
		   unsigned max)
{
	uint64_t now = LOAD(n->count), i = now;
	unsigned count = 0;

	/* From the latest on; as many own ones may lie between as others'. */
	for (; i > *seen && now - i < 2 * max && count < max; i--) {
		struct entry *e = &n->entry[(i - 1) % RING];
		if (LOAD(e->connection) != connection)
			out[count++] = (struct wire_news){ LOAD(e->place), LOAD(e->word) };
	}
	*seen = now;
	return count;
}
