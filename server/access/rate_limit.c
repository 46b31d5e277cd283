/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/access/rate_limit.h"

#include <pthread.h>
#include <sodium.h>
#include <stdlib.h>

#define BUCKETS 1024u

struct bucket {
	uint64_t owner; /* which address */
	double tokens;
	uint64_t at_ns;
};

struct knock {
	double rate;
	pthread_mutex_t lock; /* a leaf */
	struct bucket bucket[BUCKETS];
	uint8_t key[crypto_shorthash_KEYBYTES];
};

struct knock *knock_new(int rate)
{
	struct knock *k = calloc(1, sizeof *k);

	if (!k)
		return NULL;
	k->rate = rate;
	pthread_mutex_init(&k->lock, NULL);
	crypto_shorthash_keygen(k->key);
	return k;
}

void knock_delete(struct knock **knock)
{
	if (!*knock)
		return;
	pthread_mutex_destroy(&(*knock)->lock);
	free(*knock);
	*knock = NULL;
}

static uint64_t address_hash(const struct knock *k, const struct addr *peer)
{
	const void *at = &peer->v4.sin_addr;
	size_t bytes = sizeof peer->v4.sin_addr;
	uint64_t hash;

	if (peer->sa.sa_family == AF_INET6) {
		at = &peer->v6.sin6_addr;
		bytes = 8; /* who has one address has its /64 */
	}
	crypto_shorthash((uint8_t *)&hash, at, bytes, k->key);
	return hash;
}

/* An address's bucket, filled up to now; lock held.  Two addresses that fall together
 * share one while it is not full. */
static struct bucket *bucket_of(struct knock *k, const struct addr *peer, uint64_t now_ns)
{
	double most = k->rate * KNOCK_BURST_S;
	uint64_t owner = address_hash(k, peer);
	struct bucket *b = &k->bucket[owner % BUCKETS];

	/* Another thread's clock may be a little ahead. */
	if (now_ns > b->at_ns) {
		b->tokens += (double)(now_ns - b->at_ns) / 1e9 * k->rate;
		b->at_ns = now_ns;
	}
	if (b->tokens >= most) {
		b->tokens = most;
		b->owner = owner;
	}
	return b;
}

bool knock_may(struct knock *k, const struct addr *peer, uint64_t now_ns)
{
	if (k->rate == 0)
		return true;
	pthread_mutex_lock(&k->lock);
	struct bucket *b = bucket_of(k, peer, now_ns);
	bool may = b->tokens >= 1;
	if (may)
		b->tokens -= 1;
	pthread_mutex_unlock(&k->lock);
	return may;
}

void knock_failed(struct knock *k, const struct addr *peer, uint64_t now_ns)
{
	if (!k || k->rate == 0)
		return;
	pthread_mutex_lock(&k->lock);
	struct bucket *b = bucket_of(k, peer, now_ns);
	b->tokens -= k->rate / KNOCK_FAILURES_PER_S;
	if (b->tokens < -k->rate * KNOCK_BURST_S)
		b->tokens = -k->rate * KNOCK_BURST_S;
	pthread_mutex_unlock(&k->lock);
}
