/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a kvd that is a cache (--evict) keeps: one client that asks for keys by Zipf's law
 * and stores what it does not find, ten keys for each that there is room for; beside an
 * ideal LRU list of as many keys on the same sequence, and what the most frequent keys
 * would be worth.  Each value says of which key it is and which of its PUTs made it: what
 * was evicted must be absent, and nothing may come back.  KEYS is how many requests; 0: three
 * for each key.
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/engine/cache.h"
#include "bench/workload/zipf.h"

#define KEYS_A_PLACE 10u
#define WARM_PART 2u /* of the requests that nothing is counted of */

/* Doubly linked; place 0 is the list's head. */
struct lru {
	uint32_t *place; /* of each key, 0: none */
	uint32_t *key, *next, *prev;
	uint32_t used, size;
};

static void lru_new(struct lru *l, uint64_t keys, uint32_t size)
{
	*l = (struct lru){ .size = size };
	l->place = calloc(keys, sizeof *l->place);
	l->key = calloc(size + 1, sizeof *l->key);
	l->next = calloc(size + 1, sizeof *l->next);
	l->prev = calloc(size + 1, sizeof *l->prev);
	ENGINE_CHECK(l->place && l->key && l->next && l->prev, "out of memory");
}

static void lru_delete(struct lru *l)
{
	free(l->place);
	free(l->key);
	free(l->next);
	free(l->prev);
}

static void lru_unlink(struct lru *l, uint32_t place)
{
	l->next[l->prev[place]] = l->next[place];
	l->prev[l->next[place]] = l->prev[place];
}

/* Whether the key was there; it is the first one then. */
static bool lru_use(struct lru *l, uint32_t key)
{
	uint32_t place = l->place[key];
	bool hit = place;

	if (hit) {
		lru_unlink(l, place);
	} else if (l->used < l->size) {
		place = ++l->used;
	} else {
		place = l->prev[0];
		lru_unlink(l, place);
		l->place[l->key[place]] = 0;
	}
	l->key[place] = key;
	l->place[key] = place;
	l->next[place] = l->next[0];
	l->prev[place] = 0;
	l->prev[l->next[0]] = place;
	l->next[0] = place;
	return hit;
}

/* How many keys there is room for. */
static uint64_t fill_up(struct engine *e)
{
	uint64_t first = 1ull << 40; /* others than what is asked for then */

	while (engine_stat(e, "eviction.evictions") < 1) {
		engine_load(e, first, 1000);
		first += 1000;
	}
	return (uint64_t)engine_stat(e, "keys");
}

struct value {
	uint64_t key;
	uint64_t version; /* counts the key's PUTs */
	char rest[1000];
};

static bool ask(struct engine *e, uint32_t n, uint64_t *versions)
{
	struct value v = { 0 };
	char key[ENGINE_KEY_BYTES];
	size_t bytes;

	engine_key(n, key);
	int rc = kvd_get(e->session, key, sizeof key, &v, sizeof v, &bytes, NULL);
	if (rc == KVD_OK) {
		ENGINE_CHECK(bytes == e->value_bytes && v.key == n && v.version == versions[n],
			     "key %u: a value of key %llu, PUT %llu instead of %llu", n,
			     (unsigned long long)v.key, (unsigned long long)v.version,
			     (unsigned long long)versions[n]);
		return true;
	}
	ENGINE_CHECK(rc == KVD_NOT_FOUND, "GET: %s", kvd_session_error(e->session));
	v = (struct value){ .key = n, .version = ++versions[n] };
	rc = kvd_put(e->session, key, sizeof key, &v, e->value_bytes, NULL);
	ENGINE_CHECK(rc == KVD_OK, "PUT: %s", kvd_session_error(e->session));
	return false;
}

void engine_case_cache(struct engine *e)
{
	ENGINE_CHECK(e->value_bytes >= 16 && e->value_bytes <= sizeof(struct value),
		     "values of 16 to %zu bytes", sizeof(struct value));
	uint64_t room = fill_up(e), keys = room * KEYS_A_PLACE, requests = e->keys ? e->keys : 3 * keys;
	uint64_t *versions = calloc(keys, sizeof *versions), counted = 0, hits = 0, ideal = 0;
	double most = 0;
	struct zipf zipf;
	struct lru lru;

	ENGINE_CHECK(versions, "out of memory");
	lru_new(&lru, keys, (uint32_t)room);
	zipf_init(&zipf, keys, 0);
	struct kvd_counters a = engine_counters(e);
	for (uint64_t i = 0; i < requests; i++) {
		uint32_t n = (uint32_t)zipf_next(&zipf, &e->random);
		bool hit = ask(e, n, versions), would = lru_use(&lru, n);
		if (i < requests / WARM_PART)
			continue;
		counted++;
		hits += hit;
		ideal += would;
	}
	struct kvd_counters b = engine_counters(e);
	for (uint64_t i = 0; i < room; i++)
		most += zipf_probability(&zipf, i);
	figure("keys_there", (double)room);
	figure("hit_ratio", (double)hits / (double)counted);
	figure("lru_ratio", (double)ideal / (double)counted);
	figure("lfu_ratio", most);
	figure("evictions", engine_stat(e, "eviction.evictions"));
	figure("hint_messages_per_get", engine_stat(e, "operations.hints") / (double)(b.gets - a.gets));
	lru_delete(&lru);
	free(versions);
}
