/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A client of the torture: threads, each with a session and a history of its own,
 * that do random operations on few keys, one after the other or several at once.
 */
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/kvd.h"
#include "tests/lib/history.h"
#include "tests/torture/torture.h"
#include "tests/torture/value.h"

#define BATCH 8

struct thread {
	const struct settings *settings;
	struct board *board;
	kvd_client *client;
	kvd_session *session;
	struct history *history;
	int client_number;
	int number;
	int tid;
	bool is_reader;
	bool is_filler;
	uint64_t gets_unaided;
	uint64_t random;
	uint8_t *value[BATCH];
	pthread_t id;
};

static uint64_t roll(struct thread *t, uint64_t n)
{
	uint64_t x = t->random += 0x9e3779b97f4a7c15ull;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return (x ^ x >> 31) % n;
}

/* Keys of this run: what an earlier one left in the table is not in its history. */
static size_t make_key(const struct thread *t, uint64_t key, char *text)
{
	return (size_t)sprintf(text, "torture.%d.%" PRIu64, t->settings->run_id, key);
}

/* What must not be, with the library's own words. */
static void wrong(struct thread *t, const char *what, uint64_t key, int result)
{
	atomic_fetch_add(&t->board->wrong, 1);
	fprintf(stderr, "WRONG: client %d: %s of key %" PRIu64 ": %s (%s)\n", t->client_number, what,
		key, kvd_strerror(result), kvd_session_error(t->session));
}

/* What a GET returned that is no value. */
static void describe(const uint8_t *value, uint64_t bytes, uint64_t version)
{
	uint64_t head[3] = { 0 }, word, i = 3;

	memcpy(head, value, bytes < sizeof head ? bytes : sizeof head);
	for (; 8 * i < bytes; i++) {
		word = value_word(head[1], i) ^ bytes;
		if (memcmp(value + 8 * i, &word, bytes - 8 * i < 8 ? bytes - 8 * i : 8))
			break;
	}
	fprintf(stderr, "  %" PRIu64 " bytes, version %" PRIu64 "; it says: key %" PRIu64 ", id %" PRIx64
		", %" PRIu64 " bytes; wrong from byte %" PRIu64 "\n", bytes, version, head[0], head[1],
		head[2], 8 * i < bytes ? 8 * i : bytes);
}

/* Only a few sizes for each key, so that many updates are in place. */
static uint64_t pick_bytes(struct thread *t, uint64_t key)
{
	const struct settings *s = t->settings;
	uint64_t min = s->value_bytes_min, max = s->value_bytes_max, span;

	if (roll(t, 2))
		return min + key * 37 % (max - min < 400 ? max - min + 1 : 400);
	span = roll(t, 20) ? 4096 : max;
	span = span < max ? span : max;
	return span > min ? min + roll(t, span - min + 1) : min;
}

/* --------------------------------------------------------------------- results */

/* How a failed call counts in the history. */
static enum linear_result judge_error(struct thread *t, const char *what, uint64_t key, int result)
{
	switch (result) {
	case KVD_EUNKNOWN:
		atomic_fetch_add(&t->board->errors, 1);
		return LINEAR_UNKNOWN;
	case KVD_ECONNECT:
		poll(NULL, 0, 2); /* kvd is gone: don't fill the history with that */
		atomic_fetch_add(&t->board->errors, 1);
		return LINEAR_NOTHING;
	case KVD_EDISK:
	case KVD_ETIMEDOUT:
	case KVD_EFULL:
	case KVD_EBUSY:
		atomic_fetch_add(&t->board->errors, 1);
		return LINEAR_NOTHING;
	default:
		wrong(t, what, key, result);
		return LINEAR_NOTHING;
	}
}

static void got(struct thread *t, struct linear_op *op, int result, const uint8_t *value,
		uint64_t bytes, uint64_t version)
{
	if (result == KVD_NOT_FOUND) {
		history_return(op, t->settings->is_flipping ? LINEAR_NOTHING : LINEAR_NOT_FOUND, 0, 0);
		return;
	}
	if (result != KVD_OK) {
		history_return(op, judge_error(t, "GET", op->key, result), 0, 0);
		return;
	}
	/* The time first: checking a long value takes a while. */
	history_return(op, LINEAR_NOTHING, 0, version);
	uint64_t id = value_check(value, bytes, op->key);
	if (!id) {
		wrong(t, "bytes that nobody stored came from a GET", op->key, result);
		describe(value, bytes, version);
		return;
	}
	op->value = id;
	__atomic_store_n(&op->result, (uint8_t)LINEAR_DONE, __ATOMIC_RELEASE);
}

static void changed(struct thread *t, struct linear_op *op, int result, uint64_t version)
{
	if (result == KVD_OK)
		history_return(op, LINEAR_DONE, 0, version);
	else if (result == KVD_NOT_FOUND && op->kind == LINEAR_DEL)
		history_return(op, LINEAR_NOT_FOUND, 0, 0);
	else
		history_return(op, judge_error(t, op->kind == LINEAR_PUT ? "PUT" : "DEL", op->key,
					       result), 0, 0);
}

/* ------------------------------------------------------------------ operations */

static uint64_t next_value(struct thread *t)
{
	uint64_t n = atomic_fetch_add(&t->board->next_value[t->client_number][t->number], 1) + 1;

	return (uint64_t)(t->client_number * THREADS_MAX + t->number + 1) << 40 | n;
}

static struct linear_op *invoke(struct thread *t, enum linear_kind kind, uint64_t key,
				uint64_t value)
{
	struct linear_op *op =
		history_invoke(t->history, (uint32_t)(t->client_number * THREADS_MAX + t->number),
			       kind, key, value);

	if (!op)
		atomic_store(&t->board->stop, true);
	return op;
}

/* A GET that needs no help of kvd's, and what the session had done before. */
struct unaided {
	uint64_t stopped_ns; /* since when kvd is; 0: it runs */
	struct kvd_counters before;
};

static struct reading *reading_of(struct thread *t)
{
	return &t->board->reading[t->client_number][t->number];
}

static void get_begins(struct thread *t, struct unaided *get)
{
	struct reading *r = reading_of(t);

	if (!t->is_reader)
		return;
	get->stopped_ns = atomic_load(&t->board->stop_began_ns);
	kvd_session_counters(t->session, &get->before);
	r->began = get->stopped_ns ? effort_of(getpid(), t->tid) : (struct effort){ 0 };
	atomic_store(&r->get, ++t->gets_unaided); /* partner: is_blocked() in stop.c */
}

static void get_ended(struct thread *t, const struct unaided *get)
{
	struct reading *r = reading_of(t);
	struct kvd_counters now;

	if (!t->is_reader)
		return;
	if (get->stopped_ns && atomic_load(&t->board->stop_began_ns) == get->stopped_ns)
		atomic_fetch_add(&t->board->gets_while_stopped, 1);
	atomic_store(&r->get, 0);
	if (!atomic_exchange(&r->is_blamed, false))
		return;
	kvd_session_counters(t->session, &now);
	fprintf(stderr, "client %d: a GET with %" PRIu64 " READs, %" PRIu64 " retries, %" PRIu64 " messages, %"
		PRIu64 " fallbacks, %" PRIu64 " connections waited\n", t->client_number,
		now.reads - get->before.reads, now.retries - get->before.retries,
		now.messages - get->before.messages, now.fallbacks - get->before.fallbacks,
		now.reconnects - get->before.reconnects);
}

static void do_get(struct thread *t, uint64_t key)
{
	char text[64];
	size_t key_bytes = make_key(t, key, text), bytes = 0;
	uint64_t version = 0;
	void *value = NULL;
	struct linear_op *op = invoke(t, LINEAR_GET, key, 0);
	struct unaided get;
	int rc;

	if (!op)
		return;
	get_begins(t, &get);
	if (roll(t, 4)) {
		rc = kvd_get(t->session, text, key_bytes, t->value[0], t->settings->value_bytes_max,
			     &bytes, &version);
		get_ended(t, &get);
		got(t, op, rc, t->value[0], bytes, version);
	} else {
		rc = kvd_get_alloc(t->session, text, key_bytes, &value, &bytes, &version);
		get_ended(t, &get);
		got(t, op, rc, value, bytes, version);
		if (rc == KVD_OK)
			free(value);
	}
}

static void do_put(struct thread *t, uint64_t key)
{
	char text[64];
	size_t key_bytes = make_key(t, key, text), bytes = pick_bytes(t, key);
	uint64_t id = next_value(t), version = 0;

	value_make(t->value[0], bytes, key, id);
	struct linear_op *op = invoke(t, LINEAR_PUT, key, id);
	if (!op)
		return;
	int rc = kvd_put(t->session, text, key_bytes, t->value[0], bytes, &version);
	changed(t, op, rc, version);
}

static void do_del(struct thread *t, uint64_t key)
{
	char text[64];
	size_t key_bytes = make_key(t, key, text);
	struct linear_op *op = invoke(t, LINEAR_DEL, key, 0);

	if (op)
		changed(t, op, kvd_del(t->session, text, key_bytes), 0);
}

static int submit(struct thread *t, unsigned i, struct linear_op **op)
{
	uint64_t key = roll(t, (uint64_t)t->settings->keys), kind = roll(t, 10);
	char text[64];
	size_t key_bytes = make_key(t, key, text);

	if (kind < 5 || t->is_reader) {
		*op = invoke(t, LINEAR_GET, key, 0);
		return *op ? kvd_submit_get(t->session, text, key_bytes, t->value[i],
					    t->settings->value_bytes_max, *op) : KVD_EBUSY;
	}
	if (kind < 9) {
		uint64_t id = next_value(t), bytes = pick_bytes(t, key);
		value_make(t->value[i], bytes, key, id);
		*op = invoke(t, LINEAR_PUT, key, id);
		return *op ? kvd_submit_put(t->session, text, key_bytes, t->value[i], bytes, *op)
			   : KVD_EBUSY;
	}
	*op = invoke(t, LINEAR_DEL, key, 0);
	return *op ? kvd_submit_del(t->session, text, key_bytes, *op) : KVD_EBUSY;
}

static void complete(struct thread *t, const struct kvd_completion *c, struct linear_op *const *ops,
		     unsigned n)
{
	struct linear_op *op = c->tag;
	unsigned i = 0;

	while (i < n && ops[i] != op)
		i++;
	if (i == n)
		wrong(t, "a completion that nobody waits for", 0, c->result);
	else if (op->kind == LINEAR_GET)
		got(t, op, c->result, t->value[i], c->value_bytes, c->version);
	else
		changed(t, op, c->result, op->kind == LINEAR_PUT ? c->version : 0);
}

/* Several at once, the same keys among them. */
static void do_batch(struct thread *t)
{
	struct linear_op *ops[BATCH];
	struct kvd_completion c[BATCH];
	unsigned n = 0, wanted = 2 + (unsigned)roll(t, BATCH - 1), open;
	int rc = KVD_OK;

	while (n < wanted && rc == KVD_OK) {
		rc = submit(t, n, &ops[n]);
		if (rc != KVD_OK && ops[n])
			history_return(ops[n], rc == KVD_EUNKNOWN ? LINEAR_UNKNOWN : LINEAR_NOTHING,
				       0, 0);
		n += rc == KVD_OK;
	}
	for (open = n; open;) {
		int m = kvd_poll(t->session, c, BATCH, -1);
		for (int i = 0; i < m; i++)
			complete(t, &c[i], ops, n);
		if (m <= 0) {
			wrong(t, "operations in flight that don't end", 0, m);
			return;
		}
		open -= (unsigned)m;
	}
}

/* ---------------------------------------------------------------------- filler */

/* Keys that come, one after the other, and stay: whoever reads them finds them. */
static void fill(struct thread *t)
{
	uint64_t n = atomic_load(&t->board->filled), key = KEYS_MAX + n;
	char text[64];
	size_t key_bytes = make_key(t, key, text);

	if (atomic_load(&t->board->table_is_full))
		return;
	value_make(t->value[0], VALUE_BYTES_MIN + n % 100, key, n + 1);
	int rc = kvd_put(t->session, text, key_bytes, t->value[0], VALUE_BYTES_MIN + n % 100, NULL);
	if (rc == KVD_OK)
		atomic_store(&t->board->filled, n + 1);
	else if (rc == KVD_EFULL)
		atomic_store(&t->board->table_is_full, true);
	else
		judge_error(t, "PUT of a new key", key, rc);
}

static void read_filled(struct thread *t)
{
	uint64_t n = atomic_load(&t->board->filled);
	struct unaided get;
	char text[64];
	size_t bytes;

	if (!n)
		return;
	uint64_t i = roll(t, 4) ? roll(t, n) : n - 1, key = KEYS_MAX + i;
	size_t key_bytes = make_key(t, key, text);
	get_begins(t, &get);
	int rc = kvd_get(t->session, text, key_bytes, t->value[0], t->settings->value_bytes_max,
			 &bytes, NULL);
	get_ended(t, &get);
	if (rc == KVD_NOT_FOUND && t->settings->is_flipping)
		return;
	if (rc == KVD_NOT_FOUND)
		wrong(t, "not found, but it is there: GET", key, rc);
	else if (rc != KVD_OK)
		judge_error(t, "GET", key, rc);
	else if (value_check(t->value[0], bytes, key) != i + 1)
		wrong(t, "bytes that nobody stored came from a GET", key, rc);
}

/* ------------------------------------------------------------------------ loop */

static void one_operation(struct thread *t)
{
	uint64_t key = roll(t, (uint64_t)t->settings->keys), kind = roll(t, 20);

	if (t->is_filler)
		fill(t);
	else if (t->settings->fill && kind % 3 == 0)
		read_filled(t);
	else if (t->is_reader || kind < 9)
		do_get(t, key);
	else if (kind < 14)
		do_put(t, key);
	else if (kind < 16)
		do_del(t, key);
	else
		do_batch(t);
}

static void count_up(struct thread *t)
{
	struct kvd_counters c;

	kvd_session_counters(t->session, &c);
	atomic_fetch_add(&t->board->gets, c.gets);
	atomic_fetch_add(&t->board->reads, c.reads);
	atomic_fetch_add(&t->board->fallbacks, c.fallbacks);
	atomic_fetch_add(&t->board->retries, c.retries);
	atomic_fetch_add(&t->board->reconnects, c.reconnects);
}

static int begin(struct thread *t)
{
	char path[512];

	history_path(t->settings, t->client_number, t->number, path, sizeof path);
	if (history_open(path, RECORDS_MAX, &t->history))
		return -1;
	for (unsigned i = 0; i < BATCH; i++)
		if (!(t->value[i] = malloc(t->settings->value_bytes_max + 8)))
			return -1;
	/* On a device that fails on purpose connecting may fail, too. */
	for (int tries = 0; !atomic_load(&t->board->stop); tries++) {
		if (kvd_session_new(t->client, &t->session) == KVD_OK)
			return 0;
		if (tries == 20 || !t->settings->is_faulty)
			break;
	}
	return atomic_load(&t->board->stop) ? 1 : -1;
}

static void *run(void *arg)
{
	struct thread *t = arg;
	int rc = begin(t);

	t->tid = gettid();
	if (rc < 0) {
		fprintf(stderr, "WRONG: client %d can't begin: %s\n", t->client_number,
			kvd_client_error(t->client));
		atomic_fetch_add(&t->board->wrong, 1);
	}
	if (rc == 0 && t->is_reader)
		atomic_store(&reading_of(t)->tid, t->tid);
	while (rc == 0 && !atomic_load(&t->board->stop))
		one_operation(t);
	atomic_store(&reading_of(t)->tid, 0);
	if (rc == 0)
		count_up(t);
	kvd_session_delete(&t->session);
	history_close(&t->history);
	for (unsigned i = 0; i < BATCH; i++)
		free(t->value[i]);
	return NULL;
}

void client_main(const struct settings *s, struct board *b, int client, unsigned incarnation)
{
	struct kvd_options options = { .size = sizeof options, .device = s->device,
				       .mirror_bytes = s->no_mirror ? SIZE_MAX : 0 };
	static struct thread threads[THREADS_MAX];
	kvd_client *c;

	if (kvd_client_new(s->server, &options, &c) < 0) {
		fprintf(stderr, "WRONG: %s\n", c ? kvd_client_error(c) : "out of memory");
		atomic_fetch_add(&b->wrong, 1);
		_exit(1);
	}
	for (int i = 0; i < s->threads; i++) {
		struct thread *t = &threads[i];
		*t = (struct thread){ .settings = s, .board = b, .client = c, .client_number = client,
				      .number = i, .is_reader = client < s->readers,
				      .is_filler = s->fill && client == s->clients - 1 && i == 0 };
		t->random = (s->seed * CLIENTS_MAX + (unsigned)client) * THREADS_MAX + (unsigned)i +
			    ((uint64_t)incarnation << 40);
		if (pthread_create(&t->id, NULL, run, t))
			_exit(1);
	}
	for (int i = 0; i < s->threads; i++)
		pthread_join(threads[i].id, NULL);
	kvd_client_delete(&c);
	exit(0);
}
