/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/client/made_kvd.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

struct made made;

struct kvd_client {
	char error[128];
};

struct pending {
	char op; /* g, p, d */
	char key[KVD_KEY_BYTES_MAX];
	size_t key_bytes, bytes;
	void *room, *tag;
	const void *value;
	struct kvd_change change;
};

struct kvd_session {
	char error[128];
	struct pending pending[32];
	unsigned pending_count;
};

/* ------------------------------------------------------------------ items */

struct made_item *made_find(const void *key, size_t key_bytes)
{
	for (unsigned i = 0; i < made.items; i++)
		if (made.item[i].key_bytes == key_bytes && !memcmp(made.item[i].key, key, key_bytes))
			return &made.item[i];
	return NULL;
}

char *made_copy(const void *data, size_t bytes)
{
	char *copy = malloc(bytes + 1);

	assert_non_null(copy);
	if (bytes)
		memcpy(copy, data, bytes);
	copy[bytes] = '\0';
	return copy;
}

static void erase(struct made_item *item)
{
	free(item->key);
	free(item->value);
	made.items--;
	memmove(item, item + 1, (size_t)(&made.item[made.items] - item) * sizeof *item);
}

struct made_item *made_put_bytes(const void *key, size_t key_bytes, const void *value, size_t bytes)
{
	struct made_item *item = made_find(key, key_bytes);

	if (!item) {
		assert_true(made.items < sizeof made.item / sizeof made.item[0]);
		item = &made.item[made.items++];
		*item = (struct made_item){ .key = made_copy(key, key_bytes), .key_bytes = key_bytes };
	}
	free(item->value);
	item->value = made_copy(value, bytes);
	item->value_bytes = bytes;
	item->info = (struct kvd_info){ .value_bytes = bytes, .version = ++made.version };
	return item;
}

struct made_item *made_put(const char *key, const char *value)
{
	return made_put_bytes(key, strlen(key), value, strlen(value));
}

const char *made_value(const char *key)
{
	const struct made_item *item = made_find(key, strlen(key));

	return item ? item->value : NULL;
}

int made_begin(void **state)
{
	int open = made.clients || made.sessions || made.locks || made.txns;

	(void)state;
	while (made.items)
		erase(made.item);
	memset(&made, 0, sizeof made);
	return open;
}

/* ------------------------------------------------------------------ calls */

void made_note(const char *format, ...)
{
	size_t used = strlen(made.calls);
	va_list list;

	va_start(list, format);
	vsnprintf(made.calls + used, sizeof made.calls - used, format, list);
	va_end(list);
	if (made.asked)
		made.asked();
}

static int said(kvd_session *s, int result, const char *format, const char *name)
{
	if (s)
		snprintf(s->error, sizeof s->error, format, name);
	return result;
}

int made_fate(kvd_session *s, const char *name)
{
	made.count++;
	if (made.fails && !strcmp(name, made.fails) && made.well-- == 0) {
		made.well = made.once ? UINT32_MAX : 0;
		return said(s, made.result, made.mute ? "" : "%s failed", name);
	}
	return KVD_OK;
}

/* A call on one key. */
int made_keyed(kvd_session *s, const char *name, const void *key, size_t key_bytes)
{
	made_note("%s %.*s", name, (int)key_bytes, (const char *)key);
	return made_fate(s, name);
}

static void note_change(const struct kvd_change *change)
{
	static const char *const conditions[] = { "", " if-absent", " if-present", " if-version" };

	if (change) {
		assert_int_equal(change->size, sizeof *change);
		assert_int_equal(change->options | change->signs, change->signs);
		made_note("%s", conditions[change->condition]);
		if (change->version)
			made_note(" %" PRIu64, change->version);
		if (change->ttl_ms)
			made_note(" ttl %" PRIu64, change->ttl_ms);
		if (change->flags)
			made_note(" flags %u", change->flags);
		if (change->signs)
			made_note(" signs %d", change->signs);
	}
	made_note("\n");
}

int made_get(kvd_session *s, const void *key, size_t key_bytes, void *value, size_t room,
	       struct kvd_info *info)
{
	struct made_item *item = made_find(key, key_bytes);

	if (!item)
		return KVD_NOT_FOUND;
	*info = item->info;
	if (item->value_bytes > room) {
		if (made.meanwhile) {
			char *longer = realloc(item->value, item->value_bytes + made.meanwhile + 1);
			assert_non_null(longer);
			memset(longer + item->value_bytes, '+', made.meanwhile);
			longer[item->value_bytes + made.meanwhile] = '\0';
			item->value = longer;
			item->value_bytes += made.meanwhile;
			item->info.value_bytes = item->value_bytes;
			made.meanwhile = 0;
		}
		return said(s, KVD_ESPACE, "%s", "the value is longer");
	}
	if (item->value_bytes)
		memcpy(value, item->value, item->value_bytes);
	return KVD_OK;
}

static int store(kvd_session *s, const void *key, size_t key_bytes, const void *value, size_t bytes,
		 const struct kvd_change *change, uint64_t *version)
{
	struct made_item *item = made_find(key, key_bytes);
	int condition = change ? change->condition : KVD_ALWAYS;

	(void)s;
	if ((condition == KVD_IF_ABSENT && item) || (condition == KVD_IF_PRESENT && !item) ||
	    (condition == KVD_IF_VERSION && (!item || item->info.version != change->version))) {
		if (version)
			*version = item ? item->info.version : 0;
		return KVD_CONDITION;
	}
	item = made_put_bytes(key, key_bytes, value, bytes);
	if (change) {
		item->info.ttl_ms = change->ttl_ms;
		item->info.flags = change->flags;
		item->info.signs = change->signs;
	}
	if (version)
		*version = item->info.version;
	return KVD_OK;
}

int made_del(const void *key, size_t key_bytes)
{
	struct made_item *item = made_find(key, key_bytes);

	if (!item)
		return KVD_NOT_FOUND;
	erase(item);
	return KVD_OK;
}

/* ------------------------------------------------------------- clients, sessions */

const char *kvd_strerror(int result)
{
	static char text[32];

	snprintf(text, sizeof text, "result %d", result);
	return text;
}

const char *kvd_version(void)
{
	return "9.8-made";
}

static const char *keep_text(char text[64], const char *from)
{
	if (!from)
		return NULL;
	assert_true(strlen(from) < 64);
	return strcpy(text, from);
}

int kvd_client_new(const char *server, const struct kvd_options *options, kvd_client **client)
{
	int result = made_fate(NULL, "client_new");

	*client = calloc(1, sizeof **client);
	assert_non_null(*client);
	assert_int_equal(options->size, sizeof *options);
	made.options = *options;
	made.options.device = keep_text(made.device, options->device);
	made.options.credentials = keep_text(made.credentials, options->credentials);
	made.options.namespace_name = keep_text(made.namespace_name, options->namespace_name);
	made.clients++;
	if (result && !made.mute)
		snprintf((*client)->error, sizeof (*client)->error, "%s: nobody is there", server);
	return result;
}

void kvd_client_delete(kvd_client **client)
{
	made.clients -= *client != NULL;
	free(*client);
	*client = NULL;
}

const char *kvd_client_error(const kvd_client *client)
{
	return client->error;
}

const char *kvd_client_device(const kvd_client *client)
{
	(void)client;
	return "made0, because it is made up";
}

int kvd_session_new(kvd_client *client, kvd_session **session)
{
	int result = made_fate(NULL, "session_new");

	if (result) {
		snprintf(client->error, sizeof client->error, "%s", made.mute ? "" : "no session");
		return result;
	}
	*session = calloc(1, sizeof **session);
	assert_non_null(*session);
	made.sessions++;
	return KVD_OK;
}

void kvd_session_delete(kvd_session **session)
{
	made.sessions -= *session != NULL;
	free(*session);
	*session = NULL;
}

const char *kvd_session_error(const kvd_session *session)
{
	return session->error;
}

/* ------------------------------------------------------------------ one key */

int kvd_get_alloc(kvd_session *s, const void *key, size_t key_bytes, void **value,
		  size_t *value_bytes, uint64_t *version)
{
	int result = made_keyed(s, "get_alloc", key, key_bytes);
	const struct made_item *item = made_find(key, key_bytes);

	(void)version;
	made_note("\n");
	if (result || !item)
		return result ? result : KVD_NOT_FOUND;
	*value = made_copy(item->value, item->value_bytes);
	*value_bytes = item->value_bytes;
	return KVD_OK;
}

int kvd_get_info(kvd_session *s, const void *key, size_t key_bytes, void *value, size_t room,
		 struct kvd_info *info)
{
	int result = made_keyed(s, "get_info", key, key_bytes);

	made_note("\n");
	assert_int_equal(info->size, sizeof *info);
	return result ? result : made_get(s, key, key_bytes, value, room, info);
}

int kvd_exists(kvd_session *s, const void *key, size_t key_bytes, size_t *value_bytes)
{
	int result = made_keyed(s, "exists", key, key_bytes);
	const struct made_item *item = made_find(key, key_bytes);

	made_note("\n");
	if (item && value_bytes)
		*value_bytes = item->value_bytes;
	return result ? result : item ? KVD_OK : KVD_NOT_FOUND;
}

int kvd_put_with(kvd_session *s, const void *key, size_t key_bytes, const void *value,
		 size_t value_bytes, const struct kvd_change *change, uint64_t *version)
{
	int result = made_keyed(s, "put", key, key_bytes);

	note_change(change);
	return result ? result : store(s, key, key_bytes, value, value_bytes, change, version);
}

int kvd_del(kvd_session *s, const void *key, size_t key_bytes)
{
	int result = made_keyed(s, "del", key, key_bytes);

	made_note("\n");
	return result ? result : made_del(key, key_bytes);
}

int kvd_incr(kvd_session *s, const void *key, size_t key_bytes, int64_t delta, const int64_t *initial,
	     const struct kvd_change *change, int64_t *sum)
{
	int result = made_keyed(s, "incr", key, key_bytes);
	const struct made_item *item = made_find(key, key_bytes);
	char text[32];

	made_note(" %" PRId64, delta);
	note_change(change);
	if (result)
		return result;
	*sum = item ? strtoll(item->value, NULL, 10) + delta : *initial + delta;
	snprintf(text, sizeof text, "%" PRId64, *sum);
	made_put_bytes(key, key_bytes, text, strlen(text));
	return KVD_OK;
}

static int join(kvd_session *s, const char *name, const void *key, size_t key_bytes,
		const void *value, size_t value_bytes, const struct kvd_change *change)
{
	int result = made_keyed(s, name, key, key_bytes);

	made_note(" %.*s", (int)value_bytes, (const char *)value);
	note_change(change);
	return result;
}

int kvd_append(kvd_session *s, const void *key, size_t key_bytes, const void *value,
	       size_t value_bytes, const struct kvd_change *change, size_t *total_bytes)
{
	(void)total_bytes;
	return join(s, "append", key, key_bytes, value, value_bytes, change);
}

int kvd_prepend(kvd_session *s, const void *key, size_t key_bytes, const void *value,
		size_t value_bytes, const struct kvd_change *change, size_t *total_bytes)
{
	(void)total_bytes;
	return join(s, "prepend", key, key_bytes, value, value_bytes, change);
}

int kvd_touch(kvd_session *s, const void *key, size_t key_bytes, uint64_t ttl_ms)
{
	int result = made_keyed(s, "touch", key, key_bytes);
	struct made_item *item = made_find(key, key_bytes);

	made_note(" %" PRIu64 "\n", ttl_ms);
	return result ? result : item ? KVD_OK : KVD_NOT_FOUND;
}

/* ------------------------------------------------------------------ in flight */

static int submit(kvd_session *s, const char *name, char op, const void *key, size_t key_bytes,
		  struct pending pending)
{
	int result = made_keyed(s, name, key, key_bytes);

	note_change(op == 'p' ? &pending.change : NULL);
	if (result)
		return result;
	if (s->pending_count == 32)
		return KVD_EBUSY;
	pending.op = op;
	memcpy(pending.key, key, key_bytes);
	pending.key_bytes = key_bytes;
	s->pending[s->pending_count++] = pending;
	return KVD_OK;
}

int kvd_submit_get(kvd_session *s, const void *key, size_t key_bytes, void *value, size_t room,
		   void *tag)
{
	return submit(s, "submit_get", 'g', key, key_bytes,
		      (struct pending){ .room = value, .bytes = room, .tag = tag });
}

int kvd_submit_put_with(kvd_session *s, const void *key, size_t key_bytes, const void *value,
			size_t bytes, const struct kvd_change *change, void *tag)
{
	return submit(s, "submit_put", 'p', key, key_bytes,
		      (struct pending){ .value = value, .bytes = bytes, .change = *change, .tag = tag });
}

int kvd_submit_del(kvd_session *s, const void *key, size_t key_bytes, void *tag)
{
	return submit(s, "submit_del", 'd', key, key_bytes, (struct pending){ .tag = tag });
}

/* The last first. */
int kvd_poll(kvd_session *s, struct kvd_completion *done, int max, int timeout_ms)
{
	struct pending *p;
	struct kvd_info info = { 0 };
	int result = made_fate(s, "poll");

	(void)timeout_ms;
	assert_true(max > 0);
	if (result || !s->pending_count)
		return result;
	p = &s->pending[--s->pending_count];
	result = made_fate(s, "done");
	if (!result)
		result = p->op == 'g' ? made_get(s, p->key, p->key_bytes, p->room, p->bytes, &info) :
			 p->op == 'd' ? made_del(p->key, p->key_bytes) :
					store(s, p->key, p->key_bytes, p->value, p->bytes, &p->change,
					      &info.version);
	*done = (struct kvd_completion){ p->tag, result, info.value_bytes, info.version, 0,
					 info.ttl_ms, info.flags, info.signs };
	return 1;
}

void kvd_session_receipt(kvd_session *s, struct kvd_receipt *receipt)
{
	(void)s, (void)receipt;
}

int kvd_fate(kvd_session *s, const struct kvd_receipt *receipt, int *result, uint64_t *version)
{
	(void)s, (void)receipt, (void)result, (void)version;
	return KVD_EUNKNOWN;
}

void kvd_session_counters(const kvd_session *s, struct kvd_counters *counters)
{
	(void)s;
	memset(counters, 0, sizeof *counters);
}

/* ------------------------------------------------------------------ all keys, the server */

int kvd_keys(kvd_session *s, const void *prefix, size_t prefix_bytes,
	     int (*each)(void *arg, const void *key, size_t key_bytes, uint64_t value_bytes), void *arg)
{
	int result = made_keyed(s, "keys", prefix, prefix_bytes);

	made_note("\n");
	for (unsigned i = 0; i < made.items && !result; i++) {
		const struct made_item *item = &made.item[i];
		if (item->key_bytes >= prefix_bytes && !memcmp(item->key, prefix, prefix_bytes) &&
		    each(arg, item->key, item->key_bytes, item->value_bytes)) {
			made_note("keys stopped\n");
			break;
		}
	}
	return result;
}

int kvd_flush(kvd_session *s)
{
	int result = made_keyed(s, "flush", "", 0);

	made_note("\n");
	while (!result && made.items)
		erase(made.item);
	return result;
}

int kvd_flush_at(kvd_session *s, uint64_t unix_ms)
{
	made_note("flush_at %" PRIu64 "\n", unix_ms);
	return made_fate(s, "flush_at");
}

int kvd_stats(kvd_session *s, char **json)
{
	const char *told = made.stats ? made.stats : "{}";
	int result = made_fate(s, "stats");

	if (!result)
		*json = made_copy(told, strlen(told));
	return result;
}

int kvd_ping(kvd_session *s, uint64_t *ns)
{
	static const uint64_t times[] = { 999900, 1000, 2500000, 998900, 7060, 3000 };

	made_note("ping\n");
	*ns = times[made.count % 6];
	return made_fate(s, "ping");
}

int kvd_backup(kvd_session *s, const char *path)
{
	made_note("backup %s\n", path);
	return made_fate(s, "backup");
}

int kvd_cluster(kvd_session *s, int what, const char *member, int copies, char **told)
{
	(void)s, (void)what, (void)member, (void)copies, (void)told;
	return KVD_EINVAL;
}
