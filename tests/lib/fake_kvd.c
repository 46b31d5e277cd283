/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fake_kvd.c -- <kvd.h> over a table in this process, so that programs on top
 * of it can be tested without a server or a device.
 *
 * With $FAKE_KVD_FILE the table is read from that file and written back, so that
 * it outlives the process.  What is submitted is done by kvd_poll(), the last first,
 * so that a program that counts on an order fails.  Trouble on
 * demand: a server named "nobody" can't be reached; a key that begins with
 * "!full" or "!lost" fails so, and "!dead" fails the whole session from
 * kvd_poll(); "!grown" is longer than any buffer that was not made for it.
 */
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/kvd.h"

#define BUCKETS 65536
#define DEPTH 32

struct item {
	struct item *next;
	size_t key_bytes, value_bytes;
	uint64_t version;
	char *key, *value;
};

struct pending {
	enum { GET, PUT, DEL } op;
	void *key;
	size_t key_bytes;
	void *room;        /* of a GET */
	const void *value; /* of a PUT */
	size_t value_bytes;
	void *tag;
};

struct kvd_client {
	char error[256];
	char device[128];
};

struct kvd_session {
	kvd_client *client;
	char error[256];
	struct pending pending[DEPTH];
	int pending_count;
	struct kvd_counters counters;
};

static struct item *table[BUCKETS];
static uint64_t item_count, used_bytes, versions;
static int clients;

static struct item **find(const void *key, size_t key_bytes)
{
	unsigned hash = 5381;
	struct item **at;

	for (size_t i = 0; i < key_bytes; i++)
		hash = 33 * hash ^ ((const unsigned char *)key)[i];
	for (at = &table[hash % BUCKETS]; *at; at = &(*at)->next)
		if ((*at)->key_bytes == key_bytes && memcmp((*at)->key, key, key_bytes) == 0)
			break;
	return at;
}

static void *copy_of(const void *data, size_t bytes)
{
	char *copy = malloc(bytes + 1);

	if (!copy)
		abort();
	if (bytes)
		memcpy(copy, data, bytes);
	copy[bytes] = '\0';
	return copy;
}

static void erase(struct item **at)
{
	struct item *item = *at;

	*at = item->next;
	item_count--;
	used_bytes -= item->key_bytes + item->value_bytes;
	free(item->key);
	free(item->value);
	free(item);
}

static uint64_t store(const void *key, size_t key_bytes, const void *value, size_t value_bytes)
{
	struct item **at = find(key, key_bytes), *item = calloc(1, sizeof *item);

	if (!item)
		abort();
	*item = (struct item){ .key_bytes = key_bytes, .value_bytes = value_bytes,
			       .version = ++versions, .key = copy_of(key, key_bytes),
			       .value = copy_of(value, value_bytes) };
	if (*at)
		erase(at);
	item->next = *at;
	*at = item;
	item_count++;
	used_bytes += key_bytes + value_bytes;
	return item->version;
}

static void erase_all(void)
{
	for (unsigned i = 0; i < BUCKETS; i++)
		while (table[i])
			erase(&table[i]);
}

static void load_file(void)
{
	const char *path = getenv("FAKE_KVD_FILE");
	FILE *file = path ? fopen(path, "rb") : NULL;
	size_t head[2];

	if (!file)
		return;
	while (fread(head, sizeof head, 1, file) == 1) {
		char *bytes = copy_of(NULL, 0), *grown = realloc(bytes, head[0] + head[1] + 1);
		if (!grown || fread(grown, 1, head[0] + head[1], file) != head[0] + head[1])
			abort();
		store(grown, head[0], grown + head[0], head[1]);
		free(grown);
	}
	fclose(file);
}

static void save_file(void)
{
	const char *path = getenv("FAKE_KVD_FILE");
	FILE *file = path ? fopen(path, "wb") : NULL;

	if (!file)
		return;
	for (unsigned i = 0; i < BUCKETS; i++) {
		for (struct item *item = table[i]; item; item = item->next) {
			size_t head[2] = { item->key_bytes, item->value_bytes };
			fwrite(head, sizeof head, 1, file);
			fwrite(item->key, 1, item->key_bytes, file);
			fwrite(item->value, 1, item->value_bytes, file);
		}
	}
	fclose(file);
}

__attribute__((format(printf, 3, 4))) static int fail(kvd_session *s, int result,
						      const char *format, ...)
{
	va_list list;

	va_start(list, format);
	vsnprintf(s->error, sizeof s->error, format, list);
	va_end(list);
	return result;
}

static bool begins(const void *key, size_t key_bytes, const char *text)
{
	return key_bytes >= strlen(text) && memcmp(key, text, strlen(text)) == 0;
}

static int check(kvd_session *s, const char *what, const void *key, size_t key_bytes)
{
	if (key_bytes == 0)
		return fail(s, KVD_EINVAL, "%s: the key is empty", what);
	if (key_bytes > KVD_KEY_BYTES_MAX)
		return fail(s, KVD_ETOOBIG, "%s: the key has %zu bytes, the most is %d", what,
			    key_bytes, KVD_KEY_BYTES_MAX);
	if (begins(key, key_bytes, "!full"))
		return fail(s, KVD_EFULL, "%s: no memory for this value", what);
	if (begins(key, key_bytes, "!lost"))
		return fail(s, KVD_EUNKNOWN, "%s: connection lost", what);
	return KVD_OK;
}

const char *kvd_strerror(int result)
{
	static const char *const texts[] = { "done", "wrong argument", "no memory", "no connection",
					     "outcome unknown", "timed out", "table full",
					     "too long", "busy", "not kvd", "no device",
					     "buffer too short" };

	return result > 0 ? "false" : texts[-result];
}

const char *kvd_version(void)
{
	return "0.0-fake";
}

int kvd_client_new(const char *server, const struct kvd_options *options, kvd_client **client)
{
	*client = calloc(1, sizeof **client);
	if (!*client)
		return KVD_ENOMEM;
	snprintf((*client)->device, sizeof (*client)->device, "soft0, a table in this process (%d ms)",
		 options ? options->timeout_ms : 0);
	if (clients++ == 0)
		load_file();
	if (strcmp(server, "nobody") != 0)
		return KVD_OK;
	snprintf((*client)->error, sizeof (*client)->error, "connecting to %s: there is nobody; "
		 "is kvd running?", server);
	return KVD_ECONNECT;
}

void kvd_client_delete(kvd_client **client)
{
	if (!*client)
		return;
	free(*client);
	*client = NULL;
	if (--clients == 0) {
		save_file();
		erase_all();
	}
}

const char *kvd_client_error(const kvd_client *client)
{
	return client->error;
}

const char *kvd_client_device(const kvd_client *client)
{
	return client->device;
}

int kvd_session_new(kvd_client *client, kvd_session **session)
{
	*session = calloc(1, sizeof **session);
	if (!*session)
		return KVD_ENOMEM;
	(*session)->client = client;
	return KVD_OK;
}

void kvd_session_delete(kvd_session **session)
{
	for (int i = 0; *session && i < (*session)->pending_count; i++)
		free((*session)->pending[i].key);
	free(*session);
	*session = NULL;
}

const char *kvd_session_error(const kvd_session *session)
{
	return session->error;
}

static int get(kvd_session *s, const void *key, size_t key_bytes, void *value,
	       size_t value_bytes_max, size_t *value_bytes, uint64_t *version)
{
	int result = check(s, "GET", key, key_bytes);
	struct item *item;

	if (result < 0)
		return result;
	s->counters.gets++;
	item = *find(key, key_bytes);
	if (!item)
		return KVD_NOT_FOUND;
	*value_bytes = item->value_bytes;
	if (item->value_bytes > value_bytes_max)
		return fail(s, KVD_ESPACE, "GET: the value has %zu bytes", item->value_bytes);
	memcpy(value, item->value, item->value_bytes);
	if (version)
		*version = item->version;
	return KVD_OK;
}

static int put(kvd_session *s, const void *key, size_t key_bytes, const void *value,
	       size_t value_bytes, uint64_t *version)
{
	int result = check(s, "PUT", key, key_bytes);
	uint64_t stored;

	if (result < 0)
		return result;
	s->counters.changes++;
	stored = store(key, key_bytes, value, value_bytes);
	if (version)
		*version = stored;
	return KVD_OK;
}

static int del(kvd_session *s, const void *key, size_t key_bytes)
{
	int result = check(s, "DEL", key, key_bytes);
	struct item **at = find(key, key_bytes);

	if (result < 0)
		return result;
	if (!*at)
		return KVD_NOT_FOUND;
	erase(at);
	return KVD_OK;
}

static int not_in_flight(kvd_session *s)
{
	return s->pending_count ? fail(s, KVD_EINVAL, "operations are in flight") : KVD_OK;
}

int kvd_get(kvd_session *s, const void *key, size_t key_bytes, void *value, size_t value_bytes_max,
	    size_t *value_bytes, uint64_t *version)
{
	return not_in_flight(s) < 0 ? KVD_EINVAL :
	       get(s, key, key_bytes, value, value_bytes_max, value_bytes, version);
}

int kvd_get_alloc(kvd_session *s, const void *key, size_t key_bytes, void **value,
		  size_t *value_bytes, uint64_t *version)
{
	int result = not_in_flight(s) < 0 ? KVD_EINVAL : check(s, "GET", key, key_bytes);
	struct item *item;

	if (result < 0)
		return result;
	item = *find(key, key_bytes);
	if (!item)
		return KVD_NOT_FOUND;
	*value = copy_of(item->value, item->value_bytes);
	*value_bytes = item->value_bytes;
	if (version)
		*version = item->version;
	return KVD_OK;
}

int kvd_exists(kvd_session *s, const void *key, size_t key_bytes, size_t *value_bytes)
{
	int result = not_in_flight(s) < 0 ? KVD_EINVAL : check(s, "GET", key, key_bytes);
	struct item *item;

	if (result < 0)
		return result;
	item = *find(key, key_bytes);
	if (item && value_bytes)
		*value_bytes = item->value_bytes;
	return item ? KVD_OK : KVD_NOT_FOUND;
}

int kvd_put(kvd_session *s, const void *key, size_t key_bytes, const void *value,
	    size_t value_bytes, uint64_t *version)
{
	return not_in_flight(s) < 0 ? KVD_EINVAL :
	       put(s, key, key_bytes, value, value_bytes, version);
}

int kvd_del(kvd_session *s, const void *key, size_t key_bytes)
{
	return not_in_flight(s) < 0 ? KVD_EINVAL : del(s, key, key_bytes);
}

static int submit(kvd_session *s, struct pending pending)
{
	if (s->pending_count == DEPTH)
		return KVD_EBUSY;
	pending.key = copy_of(pending.key, pending.key_bytes);
	s->pending[s->pending_count++] = pending;
	return KVD_OK;
}

int kvd_submit_get(kvd_session *s, const void *key, size_t key_bytes, void *value,
		   size_t value_bytes_max, void *tag)
{
	return submit(s, (struct pending){ GET, (void *)(uintptr_t)key, key_bytes, value, NULL,
					   value_bytes_max, tag });
}

int kvd_submit_put_with(kvd_session *s, const void *key, size_t key_bytes, const void *value,
			size_t value_bytes, const struct kvd_change *change, void *tag)
{
	(void)change;
	return submit(s, (struct pending){ PUT, (void *)(uintptr_t)key, key_bytes, NULL, value,
					   value_bytes, tag });
}

int kvd_submit_del(kvd_session *s, const void *key, size_t key_bytes, void *tag)
{
	return submit(s, (struct pending){ DEL, (void *)(uintptr_t)key, key_bytes, NULL, NULL, 0,
					   tag });
}

static void complete(kvd_session *s, const struct pending *p, struct kvd_completion *c)
{
	bool grown = begins(p->key, p->key_bytes, "!grown") && p->value_bytes >= 4096;
	size_t room = grown ? 0 : p->value_bytes;

	*c = (struct kvd_completion){ .tag = p->tag };
	if (p->op == GET)
		c->result = get(s, p->key, p->key_bytes, p->room, room, &c->value_bytes,
				&c->version);
	else if (p->op == PUT)
		c->result = put(s, p->key, p->key_bytes, p->value, p->value_bytes, &c->version);
	else
		c->result = del(s, p->key, p->key_bytes);
}

int kvd_poll(kvd_session *s, struct kvd_completion *completions, int max, int timeout_ms)
{
	int count = 0;

	(void)timeout_ms;
	while (count < max && s->pending_count > 0) {
		struct pending *pending = &s->pending[s->pending_count - 1];
		if (begins(pending->key, pending->key_bytes, "!dead"))
			return fail(s, KVD_ECONNECT, "the connection broke");
		complete(s, pending, &completions[count++]);
		free(pending->key);
		s->pending_count--;
	}
	return count;
}

/* Nobody else is there to hold a lock. */
struct kvd_lock {
	kvd_session *session;
};

int kvd_lock(kvd_session *s, const struct kvd_key *keys, size_t count, int timeout_ms,
	     kvd_lock_t **lock)
{
	(void)keys;
	(void)count;
	(void)timeout_ms;
	if (not_in_flight(s) < 0)
		return KVD_EINVAL;
	*lock = malloc(sizeof **lock);
	if (!*lock)
		return KVD_ENOMEM;
	(*lock)->session = s;
	return KVD_OK;
}

int kvd_lock_get(kvd_session *s, const void *key, size_t key_bytes, int timeout_ms, void *value,
		 size_t value_bytes_max, size_t *value_bytes, uint64_t *version, kvd_lock_t **lock)
{
	int rc = kvd_lock(s, NULL, 0, timeout_ms, lock);

	return rc ? rc : kvd_get(s, key, key_bytes, value, value_bytes_max, value_bytes, version);
}

int kvd_unlock(kvd_lock_t **lock)
{
	free(*lock);
	*lock = NULL;
	return KVD_OK;
}

int kvd_lock_check(kvd_lock_t *lock)
{
	(void)lock;
	return KVD_OK;
}

int kvd_locked_get(kvd_lock_t *lock, const void *key, size_t key_bytes, void *value,
		   size_t value_bytes_max, size_t *value_bytes, uint64_t *version)
{
	return kvd_get(lock->session, key, key_bytes, value, value_bytes_max, value_bytes, version);
}

int kvd_locked_put(kvd_lock_t *lock, const void *key, size_t key_bytes, const void *value,
		   size_t value_bytes, uint64_t *version)
{
	return kvd_put(lock->session, key, key_bytes, value, value_bytes, version);
}

int kvd_flush(kvd_session *s)
{
	if (not_in_flight(s) < 0)
		return KVD_EINVAL;
	erase_all();
	return KVD_OK;
}

/* All in one page. */
int kvd_keys_page(kvd_session *s, const void *prefix, size_t prefix_bytes, uint64_t *cursor,
		  int (*each)(void *arg, const void *key, size_t key_bytes, uint64_t value_bytes),
		  void *arg)
{
	*cursor = 0;
	return kvd_keys(s, prefix, prefix_bytes, each, arg);
}

int kvd_keys(kvd_session *s, const void *prefix, size_t prefix_bytes,
	     int (*each)(void *arg, const void *key, size_t key_bytes, uint64_t value_bytes),
	     void *arg)
{
	if (not_in_flight(s) < 0)
		return KVD_EINVAL;
	for (unsigned i = 0; i < BUCKETS; i++)
		for (struct item *item = table[i]; item; item = item->next)
			if (item->key_bytes >= prefix_bytes &&
			    memcmp(item->key, prefix, prefix_bytes) == 0 &&
			    each(arg, item->key, item->key_bytes, item->value_bytes) != 0)
				return KVD_OK;
	return KVD_OK;
}

int kvd_ping(kvd_session *s, uint64_t *round_trip_ns)
{
	static uint64_t ns = 3000;

	if (not_in_flight(s) < 0)
		return KVD_EINVAL;
	*round_trip_ns = ns = ns * 7919 % 100003 + 1000;
	return KVD_OK;
}

int kvd_stats(kvd_session *s, char **json)
{
	size_t room = 1024;

	if (not_in_flight(s) < 0)
		return KVD_EINVAL;
	*json = malloc(room);
	if (!*json)
		return KVD_ENOMEM;
	snprintf(*json, room,
		 "{\"server\": {\"version\": \"0.0-fake\", \"cpu_seconds\": 1.25, "
		 "\"workers\": [{\"operations\": 12}, {\"operations\": 34567}]}, "
		 "\"keys\": %llu, \"memory\": {\"used_bytes\": %llu, \"budget_bytes\": 1073741824}, "
		 "\"operations\": {\"put\": 1234567, \"del\": 0}, \"connections\": 1}",
		 (unsigned long long)item_count, (unsigned long long)used_bytes);
	return KVD_OK;
}

void kvd_session_counters(const kvd_session *session, struct kvd_counters *counters)
{
	*counters = session->counters;
}
