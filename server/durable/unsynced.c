/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/durable/unsynced.h"

#include <stdlib.h>
#include <rocksdb/c.h>

struct unsynced_batch {
	struct unsynced_batch *next;
	uint64_t number; /* from 1 */
	uint64_t bytes;
	rocksdb_writebatch_t *batch;
};

void unsynced_init(struct unsynced *u)
{
	*u = (struct unsynced){ .count = 0 };
	pthread_mutex_init(&u->lock, NULL);
	u->end = &u->first;
}

void unsynced_fini(struct unsynced *u)
{
	unsynced_synced(u, UINT64_MAX);
	pthread_mutex_destroy(&u->lock);
}

bool unsynced_add(struct unsynced *u, rocksdb_writebatch_t *batch)
{
	struct unsynced_batch *b = malloc(sizeof *b);
	size_t bytes;

	if (!b)
		return false;
	rocksdb_writebatch_data(batch, &bytes);
	*b = (struct unsynced_batch){ .bytes = bytes, .batch = batch };
	pthread_mutex_lock(&u->lock);
	b->number = ++u->count;
	u->bytes += bytes;
	*u->end = b;
	u->end = &b->next;
	pthread_mutex_unlock(&u->lock);
	return true;
}

uint64_t unsynced_count(struct unsynced *u)
{
	pthread_mutex_lock(&u->lock);
	uint64_t count = u->count;
	pthread_mutex_unlock(&u->lock);
	return count;
}

uint64_t unsynced_bytes(struct unsynced *u)
{
	pthread_mutex_lock(&u->lock);
	uint64_t bytes = u->bytes;
	pthread_mutex_unlock(&u->lock);
	return bytes;
}

void unsynced_synced(struct unsynced *u, uint64_t count)
{
	struct unsynced_batch *b, *old, **at = &old;

	pthread_mutex_lock(&u->lock);
	old = u->first;
	while (*at && (*at)->number <= count) {
		u->bytes -= (*at)->bytes;
		at = &(*at)->next;
	}
	u->first = *at;
	if (!u->first)
		u->end = &u->first;
	*at = NULL;
	pthread_mutex_unlock(&u->lock);
	while ((b = old)) {
		old = b->next;
		rocksdb_writebatch_destroy(b->batch);
		free(b);
	}
}

void unsynced_write(struct unsynced *u, rocksdb_t *db, const rocksdb_writeoptions_t *options,
		    char **why)
{
	for (struct unsynced_batch *b = u->first; b && !*why; b = b->next)
		rocksdb_write(db, options, b->batch, why);
}
