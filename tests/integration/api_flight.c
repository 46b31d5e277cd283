/* SPDX-License-Identifier: BSD-2-Clause */
/* api_flight.c -- many operations in flight, and many sessions. */
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/integration/api.h"

enum { MANY = 1000 };

void case_many(void)
{
	static struct kvd_item items[MANY];
	static char keys[MANY][16], values[MANY][64], back[MANY][64];
	struct kvd_change absent = { .size = sizeof absent, .condition = KVD_IF_ABSENT };

	for (int i = 0; i < MANY; i++) {
		size_t n = (size_t)snprintf(keys[i], sizeof keys[i], "key%d", i);
		size_t v = (size_t)snprintf(values[i], sizeof values[i], "value %d", i * 7);
		items[i] = (struct kvd_item){ .key = keys[i], .key_bytes = n, .value = values[i],
					      .value_bytes = v, .result = 99 };
	}
	CHECK(kvd_mput(session, items, MANY, NULL) == KVD_OK);
	for (int i = 0; i < MANY; i++)
		CHECK(items[i].result == KVD_OK && items[i].version != 0);
	CHECK(kvd_mput(session, items, MANY, &absent) == KVD_OK);
	for (int i = 0; i < MANY; i++)
		CHECK(items[i].result == KVD_CONDITION);
	CHECK(kvd_del(session, keys[5], items[5].key_bytes) == KVD_OK);
	for (int i = 0; i < MANY; i++) {
		items[i].value = back[i];
		items[i].value_bytes_max = i == 7 ? 3 : sizeof back[i];
		items[i].value_bytes = 0;
	}
	CHECK(kvd_mget(session, items, MANY) == KVD_ESPACE);
	for (int i = 0; i < MANY; i++) {
		CHECK(items[i].result == (i == 5 ? KVD_NOT_FOUND : i == 7 ? KVD_ESPACE : KVD_OK));
		if (i != 5)
			CHECK(items[i].value_bytes == strlen(values[i]));
		if (items[i].result == KVD_OK)
			CHECK(!memcmp(back[i], values[i], strlen(values[i])));
	}
	items[3].key_bytes = 0;
	items[7].value_bytes_max = 64;
	CHECK(kvd_mget(session, items, MANY) == KVD_EINVAL);
	CHECK(items[3].result == KVD_EINVAL && items[4].result == KVD_OK);
	CHECK(kvd_mget(session, items, 0) == KVD_OK);
}

/* More long values at once than READs are under way for; one is not there, one has no room. */
void case_many_long(void)
{
	enum { LONG = 1500000, KEYS = 12, ABSENT = 5, SHORT = 7, TURNS = 200 };
	static struct kvd_item items[KEYS];
	static char keys[KEYS][16];
	static uint8_t *values[KEYS], *back[KEYS];
	struct kvd_counters after = { 0 };

	for (int i = 0; i < KEYS; i++) {
		size_t n = (size_t)snprintf(keys[i], sizeof keys[i], "long%d", i);
		values[i] = pattern(LONG + (size_t)i, (unsigned)i);
		back[i] = malloc(LONG + KEYS);
		CHECK(back[i] != NULL);
		items[i] = (struct kvd_item){ .key = keys[i], .key_bytes = n, .value = values[i],
					      .value_bytes = LONG + (size_t)i };
	}
	CHECK(kvd_mput(session, items, KEYS, NULL) == KVD_OK);
	CHECK(kvd_del(session, keys[ABSENT], items[ABSENT].key_bytes) == KVD_OK);
	for (int turn = 0; turn < 3; turn++) {
		for (int i = 0; i < KEYS; i++) {
			memset(back[i], 0, LONG + KEYS);
			items[i].value = back[i];
			items[i].value_bytes_max = i == SHORT ? 1000000 : LONG + (size_t)i;
		}
		CHECK(kvd_mget(session, items, KEYS) == KVD_ESPACE);
		for (int i = 0; i < KEYS; i++) {
			CHECK(items[i].result == (i == ABSENT ? KVD_NOT_FOUND
						  : i == SHORT ? KVD_ESPACE : KVD_OK));
			CHECK(items[i].result != KVD_OK ||
			      !memcmp(back[i], values[i], LONG + (size_t)i));
		}
	}
	/* The second thread has its part of one that is alone, sooner or later. */
	for (int turn = 0; turn < TURNS && !after.hashed_aside_bytes; turn++) {
		size_t bytes;
		CHECK(kvd_get(session, keys[0], items[0].key_bytes, back[0], LONG, &bytes, NULL) == KVD_OK);
		CHECK(bytes == LONG && !memcmp(back[0], values[0], LONG));
		kvd_session_counters(session, &after);
	}
	CHECK(after.hashed_aside_bytes > 0 || sysconf(_SC_NPROCESSORS_ONLN) == 1);
	CHECK(after.copied_bytes == 0);
	for (int i = 0; i < KEYS; i++) {
		free(values[i]);
		free(back[i]);
	}
}

/* Long and short, there and not: all with one call, and only what says that it is there. */
void case_many_exist(void)
{
	enum { LONG = 100000, KEYS = 40 };
	static char value[LONG];
	static struct kvd_item items[KEYS];
	static char keys[KEYS][16];
	struct kvd_counters before, after;

	for (int i = 0; i < KEYS; i++) {
		size_t n = (size_t)snprintf(keys[i], sizeof keys[i], "exist%d", i);
		items[i] = (struct kvd_item){ .key = keys[i], .key_bytes = n, .result = 99 };
		if (i % 4)
			CHECK(kvd_put(session, keys[i], n, value, i % 4 == 1 ? LONG : (size_t)i,
				      NULL) == KVD_OK);
	}
	kvd_session_counters(session, &before);
	CHECK(kvd_mexists(session, items, KEYS) == KVD_OK);
	kvd_session_counters(session, &after);
	for (int i = 0; i < KEYS; i++) {
		CHECK(items[i].result == (i % 4 ? KVD_OK : KVD_NOT_FOUND));
		CHECK(!(i % 4) || items[i].value_bytes == (i % 4 == 1 ? LONG : (size_t)i));
	}
	/* Of the long ones the heads. */
	CHECK(after.reads > before.reads && after.read_bytes - before.read_bytes < LONG);
	CHECK(after.copied_bytes == before.copied_bytes);
	CHECK(kvd_mdel(session, items, KEYS) == KVD_OK);
	for (int i = 0; i < KEYS; i++)
		CHECK(items[i].result == (i % 4 ? KVD_OK : KVD_NOT_FOUND));
	CHECK(kvd_mexists(session, items, KEYS) == KVD_OK);
	for (int i = 0; i < KEYS; i++)
		CHECK(items[i].result == KVD_NOT_FOUND);
	items[0].key_bytes = 0;
	CHECK(kvd_mexists(session, items, KEYS) == KVD_EINVAL && items[0].result == KVD_EINVAL);
	CHECK(items[1].result == KVD_NOT_FOUND);
}

/* What an mget of keys whose places are known costs. */
static void mget_cost(kvd_session *s, struct kvd_item *items, size_t count,
		      struct kvd_counters *cost)
{
	struct kvd_counters before;

	CHECK(kvd_mget(s, items, count) == KVD_OK);
	kvd_session_counters(s, &before);
	CHECK(kvd_mget(s, items, count) == KVD_OK);
	kvd_session_counters(s, cost);
	cost->reads -= before.reads;
	cost->doorbells -= before.doorbells;
}

/* A session that may have a hundred in flight posts a hundred READs together. */
void case_one_doorbell(void)
{
	enum { KEYS = 100, DEPTH_OF_MOST = 32 };
	struct kvd_options deep = { .size = sizeof deep, .timeout_ms = 60000, .depth = KEYS };
	static struct kvd_item items[KEYS];
	static char keys[KEYS][16], values[KEYS][16];
	struct kvd_counters cost;
	kvd_client *other;
	kvd_session *s;

	for (int i = 0; i < KEYS; i++) {
		size_t n = (size_t)snprintf(keys[i], sizeof keys[i], "bell%d", i);
		items[i] = (struct kvd_item){ .key = keys[i], .key_bytes = n, .value = values[i],
					      .value_bytes = 8, .value_bytes_max = 16 };
	}
	CHECK(kvd_mput(session, items, KEYS, NULL) == KVD_OK);
	CHECK(kvd_client_new(kvd_address, &deep, &other) == KVD_OK);
	CHECK(kvd_session_new(other, &s) == KVD_OK);
	mget_cost(s, items, KEYS, &cost);
	CHECK(cost.reads == KEYS && cost.doorbells == 1);
	mget_cost(session, items, KEYS, &cost);
	CHECK(cost.reads == KEYS && cost.doorbells >= KEYS / DEPTH_OF_MOST);
	kvd_session_delete(&s);
	kvd_client_delete(&other);
}

/* The first sessions of a client, several at once: one of them opens the device. */
enum { FIRST_SESSIONS = 4, FIRST_ROUNDS = 20 };

static pthread_barrier_t first_begin;

static void *begin_session(void *arg)
{
	struct kvd_session *s;
	char value[8];
	size_t bytes;

	pthread_barrier_wait(&first_begin);
	CHECK(kvd_session_new(arg, &s) == KVD_OK);
	CHECK(kvd_put(s, "key", 3, "value", 5, NULL) == KVD_OK);
	CHECK(kvd_get(s, "key", 3, value, sizeof value, &bytes, NULL) == KVD_OK && bytes == 5);
	kvd_session_delete(&s);
	return NULL;
}

void case_sessions(void)
{
	struct kvd_options options = { .size = sizeof options, .timeout_ms = 60000 };

	for (int round = 0; round < FIRST_ROUNDS; round++) {
		pthread_t thread[FIRST_SESSIONS];
		struct kvd_client *c;
		CHECK(kvd_client_new(kvd_address, &options, &c) == KVD_OK);
		CHECK(!pthread_barrier_init(&first_begin, NULL, FIRST_SESSIONS));
		for (int i = 0; i < FIRST_SESSIONS; i++)
			CHECK(!pthread_create(&thread[i], NULL, begin_session, c));
		for (int i = 0; i < FIRST_SESSIONS; i++)
			CHECK(!pthread_join(thread[i], NULL));
		pthread_barrier_destroy(&first_begin);
		kvd_client_delete(&c);
	}
}

/* Many in flight from an event loop, that never calls kvd_poll but when told to. */
void case_events(void)
{
	struct pollfd fd = { .fd = kvd_fd(session), .events = POLLIN };
	struct kvd_completion c[8];
	uint64_t submitted = 0, done = 0, slept = 0;
	char value[32];

	CHECK(fd.fd >= 0 && kvd_fd(session) == fd.fd);
	CHECK(kvd_arm(session) == 0 && kvd_connected(session) == 1);
	/* On, if need be, until it had to wait for the descriptor once. */
	for (uint64_t all = size; done < all; all += done == all && !slept && all < 1000 * size) {
		while (submitted < all) {
			int rc = submitted % 3 ? kvd_submit_get(KEY("k"), value, sizeof value, NULL)
					       : kvd_submit_put(KEY("k"), "v", 1, NULL);
			if (rc == KVD_EBUSY)
				break;
			CHECK(rc == KVD_OK);
			submitted++;
		}
		if (kvd_arm(session) == 0) {
			CHECK(poll(&fd, 1, 30000) == 1);
			slept++;
		}
		int n = kvd_poll(session, c, 8, 0);
		for (int i = 0; i < n; i++)
			CHECK(c[i].result == KVD_OK || c[i].result == KVD_NOT_FOUND);
		done += (uint64_t)n;
	}
	CHECK(slept > 0);
	CHECK(kvd_arm(session) == 0 && poll(&fd, 1, 0) == 0);
}

/* The other submits, each completion with what belongs to it. */
void case_submits(void)
{
	struct kvd_change ttl = { .size = sizeof ttl, .ttl_ms = 60000, .condition = KVD_IF_ABSENT };
	int64_t ten = 10;
	char value[32];
	struct iovec iov[2] = { { value, 2 }, { value + 10, 20 } };
	struct kvd_completion c;

#define ONE(x, want)                                                                               \
	do {                                                                                       \
		CHECK((x) == KVD_OK);                                                              \
		CHECK(kvd_poll(session, &c, 1, -1) == 1 && c.tag == value && c.result == (want));  \
	} while (0)
	ONE(kvd_submit_incr(KEY("n"), 5, &ten, &ttl, value), KVD_OK);
	CHECK(c.number == 15);
	ONE(kvd_submit_incr(KEY("n"), 5, &ten, &ttl, value), KVD_CONDITION);
	ONE(kvd_submit_append(KEY("n"), "00", 2, NULL, value), KVD_OK);
	CHECK(c.value_bytes == 4);
	ONE(kvd_submit_incr(KEY("n"), -1, NULL, NULL, value), KVD_OK);
	CHECK(c.number == 1499);
	ONE(kvd_submit_touch(KEY("n"), 0, value), KVD_OK);
	ONE(kvd_submit_touch(KEY("none"), 0, value), KVD_NOT_FOUND);
	ONE(kvd_submit_getv(KEY("n"), iov, 2, value), KVD_OK);
	CHECK(c.value_bytes == 4 && !memcmp(value, "14", 2) && !memcmp(value + 10, "99", 2));
	ONE(kvd_submit_putv(KEY("n"), iov, 1, NULL, value), KVD_OK);
	CHECK(is_value("n", "14"));
	ONE(kvd_submit_put_with(KEY("n"), "x", 1, &ttl, value), KVD_CONDITION);
	ttl = (struct kvd_change){ .size = sizeof ttl, .condition = KVD_IF_VERSION, .version = 1 };
	ONE(kvd_submit_del_with(KEY("n"), &ttl, value), KVD_CONDITION);
	ttl.version = c.version;
	ONE(kvd_submit_del_with(KEY("n"), &ttl, value), KVD_OK);
	CHECK(kvd_exists(KEY("n"), NULL) == KVD_NOT_FOUND);
}
