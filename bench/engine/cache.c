/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a kvd that is a cache (--evict) keeps: one client that asks for keys by Zipf's law
 * and stores what it does not find, ten keys for each that there is room for; beside an
 * ideal LRU list of as many bytes on the same sequence, and what the most frequent keys
 * would be worth.  Each value says of which key it is and which of its PUTs made it: what
 * was evicted must be absent, and nothing may come back.  KEYS is how many requests; 0: three
 * for each key.  VALUE-BYTES 0: 16 to 1,000 bytes, of each key another length.
 */
#include <err.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/engine/cache.h"
#include "bench/workload/zipf.h"

#define KEYS_A_PLACE 10u
#define WARM_PART 2u /* of the requests that nothing is counted of */

#define VALUE_BYTES_MIN sizeof(uint64_t[2])

/* Doubly linked; node 0 is the list's head, node n + 1 key n's. */
struct lru {
	uint32_t *next, *prev;
	bool *is_there;
	uint64_t used, size; /* bytes of keys and values */
};

static void lru_new(struct lru *l, uint64_t keys, uint64_t size)
{
	*l = (struct lru){ .size = size };
	l->next = calloc(keys + 1, sizeof *l->next);
	l->prev = calloc(keys + 1, sizeof *l->prev);
	l->is_there = calloc(keys + 1, sizeof *l->is_there);
	ENGINE_CHECK(l->next && l->prev && l->is_there, "out of memory");
}

static void lru_delete(struct lru *l)
{
	free(l->next);
	free(l->prev);
	free(l->is_there);
}

static void lru_unlink(struct lru *l, uint32_t node)
{
	l->next[l->prev[node]] = l->next[node];
	l->prev[l->next[node]] = l->prev[node];
}

struct value {
	uint64_t key;
	uint64_t version; /* counts the key's PUTs */
	char rest[1000 - VALUE_BYTES_MIN];
};

static uint64_t value_bytes_of(const struct engine *e, uint64_t key)
{
	if (e->value_bytes)
		return e->value_bytes;
	return VALUE_BYTES_MIN + (key * 0x9e3779b97f4a7c15ull >> 32) % (sizeof(struct value) - VALUE_BYTES_MIN + 1);
}

static uint64_t bytes_of(const struct engine *e, uint64_t key)
{
	return ENGINE_KEY_BYTES + value_bytes_of(e, key);
}

/* Whether the key was there; it is the first one then. */
static bool lru_use(struct lru *l, const struct engine *e, uint32_t key)
{
	uint32_t node = key + 1;
	bool hit = l->is_there[node];

	if (hit) {
		lru_unlink(l, node);
		l->used -= bytes_of(e, key);
	}
	for (l->used += bytes_of(e, key); l->used > l->size;) {
		uint32_t last = l->prev[0];

		lru_unlink(l, last);
		l->is_there[last] = false;
		l->used -= bytes_of(e, last - 1);
	}
	l->is_there[node] = true;
	l->next[node] = l->next[0];
	l->prev[node] = 0;
	l->prev[l->next[0]] = node;
	l->next[0] = node;
	return hit;
}

/* How many keys there is room for. */
static uint64_t fill_up(struct engine *e)
{
	static const struct value v;
	char key[ENGINE_KEY_BYTES];

	/* Others than what is asked for then. */
	for (uint64_t n = 1ull << 40; n % 1000 || engine_stat(e, "eviction.evictions") < 1; n++) {
		engine_key(n, key);
		int rc = kvd_put(e->session, key, sizeof key, &v, value_bytes_of(e, n), NULL);
		ENGINE_CHECK(rc == KVD_OK, "PUT: %s", kvd_session_error(e->session));
	}
	return (uint64_t)engine_stat(e, "keys");
}

static bool ask(struct engine *e, uint32_t n, uint64_t *versions)
{
	struct value v = { 0 };
	char key[ENGINE_KEY_BYTES];
	size_t bytes;

	engine_key(n, key);
	int rc = kvd_get(e->session, key, sizeof key, &v, sizeof v, &bytes, NULL);
	if (rc == KVD_OK) {
		ENGINE_CHECK(bytes == value_bytes_of(e, n) && v.key == n && v.version == versions[n],
			     "key %u: a value of key %llu, PUT %llu instead of %llu", n,
			     (unsigned long long)v.key, (unsigned long long)v.version,
			     (unsigned long long)versions[n]);
		return true;
	}
	ENGINE_CHECK(rc == KVD_NOT_FOUND, "GET: %s", kvd_session_error(e->session));
	v = (struct value){ .key = n, .version = ++versions[n] };
	rc = kvd_put(e->session, key, sizeof key, &v, value_bytes_of(e, n), NULL);
	ENGINE_CHECK(rc == KVD_OK, "PUT: %s", kvd_session_error(e->session));
	return false;
}

void engine_case_cache(struct engine *e)
{
	ENGINE_CHECK(!e->value_bytes ||
			     (e->value_bytes >= VALUE_BYTES_MIN && e->value_bytes <= sizeof(struct value)),
		     "values of %zu to %zu bytes", VALUE_BYTES_MIN, sizeof(struct value));
	uint64_t room = fill_up(e), keys = room * KEYS_A_PLACE, requests = e->keys ? e->keys : 3 * keys;
	uint64_t *versions = calloc(keys, sizeof *versions), counted = 0, hits = 0, ideal = 0;
	double most = 0;
	struct zipf zipf;
	struct lru lru;

	ENGINE_CHECK(versions, "out of memory");
	lru_new(&lru, keys, (uint64_t)engine_stat(e, "memory.value_bytes") + room * ENGINE_KEY_BYTES);
	zipf_init(&zipf, keys, 0);
	struct kvd_counters a = engine_counters(e);
	for (uint64_t i = 0; i < requests; i++) {
		uint32_t n = (uint32_t)zipf_next(&zipf, &e->random);
		bool hit = ask(e, n, versions), would = lru_use(&lru, e, n);
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
