/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * news.h -- the last entries that were made in the index, for the replies to clients
 * to carry: who reads what others insert need not READ their buckets first.
 *
 * Any worker, no lock.  All of it are hints: a client that is told too little, or a
 * mixture of two entries, finds out by the item, or by its not being there.
 */
#ifndef SERVER_WORKER_NEWS_H
#define SERVER_WORKER_NEWS_H

#include <stddef.h>
#include <stdint.h>

#include "common/wire.h"

struct news;

/* NULL without memory. */
struct news *news_new(void);
void news_delete(struct news **news);

/* A connection's change made this entry. */
void news_put(struct news *news, uint64_t connection, uint64_t bucket, unsigned slot,
	      uint64_t word);

/* What there is since *seen that is not the connection's own, the latest if it is more
 * than `max`; how many. */
unsigned news_take(struct news *news, uint64_t connection, uint64_t *seen, struct wire_news *out,
		   unsigned max);

#endif
