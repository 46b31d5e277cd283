/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The loop of a worker: fill the free slots with operations that are due, take
 * completions, record them, again.
 *
 * An operation lives in a slot from its submission to its completion: a
 * read-modify-write through two of each.  What kvd is too busy for keeps its slot
 * and is submitted again.  A session that fails ends the run.
 */
#include "bench/run/worker.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "bench/measure/stopwatch.h"

/* Errors in a row after which a run is given up. */
#define ERROR_STREAK_MAX 100

/* A sleeping thread is woken up late by about so much: spin that long. */
#define WAKE_NS 20000u
#define SLEEP_NS_MAX 100000000u

/* GETs between that of a key and the raw READ of its item: more than caches hold. */
#define PAST 16384u

/* Buffers begin at cache lines. */
#define LINE_BYTES 64u

struct slot {
	struct slot *next; /* free or deferred */
	struct operation op;
	uint64_t index;
	uint64_t start_ns;  /* of the operation */
	uint64_t submit_ns; /* of the half that is under way */
	bool writing;       /* a PUT is under way, not a GET */
	bool under_way;
	bool raw_after;  /* its raw verb comes after it, not before */
	uint64_t raw_ns; /* what that took; 0: there was none */
	size_t key_bytes;
	const char *value; /* to put */
	size_t value_bytes;
	char *buf;
	char key[KEY_BYTES_MAX];
};

static inline void count(uint64_t *counter)
{
	__atomic_store_n(counter, *counter + 1, __ATOMIC_RELAXED);
}

static struct record_key key_of(const struct slot *s)
{
	return (struct record_key){ s->key, s->key_bytes };
}

static const struct driver_config *config_of(const struct worker *w)
{
	return w->shared->config;
}

/* -------------------------------------------------------------- construction */

static int alloc_slots(struct worker *w)
{
	const struct driver_config *c = config_of(w);
	size_t bytes = (c->workload->record.bytes_max / LINE_BYTES + 1) * LINE_BYTES;

	w->slots = calloc(c->depth, sizeof *w->slots);
	w->completions = calloc(c->depth, sizeof *w->completions);
	w->buffers = aligned_alloc(LINE_BYTES, bytes * c->depth);
	w->past = c->with_raw ? calloc(PAST, sizeof *w->past) : NULL;
	if (w->slots == NULL || w->completions == NULL || w->buffers == NULL ||
	    (c->with_raw && w->past == NULL))
		return err_set(&w->err, -1, "out of memory for %u values of %zu bytes", c->depth,
			       bytes);
	for (unsigned i = 0; i < c->depth; i++) {
		w->slots[i].buf = w->buffers + i * bytes;
		w->slots[i].next = w->free;
		w->free = &w->slots[i];
	}
	return 0;
}

int worker_init(struct worker *w, struct worker_shared *shared, unsigned number)
{
	w->shared = shared;
	w->number = number;
	w->next = number;
	w->generator = shared->config->workload->generator;
	for (int i = 0; i < OP_KINDS; i++) {
		histogram_clear(&w->op[i].latency);
		histogram_clear(&w->op[i].service);
	}
	for (int i = 0; i < PAIR_KINDS; i++) {
		histogram_clear(&w->pair[i].store);
		histogram_clear(&w->pair[i].raw);
	}
	w->order = random_stream(random_base(shared->config->workload->seed), ~(uint64_t)number);
	if (alloc_slots(w) < 0)
		return -1;
	return shared->config->store->ops->session_new(shared->config->store, &w->session,
						       &w->err);
}

void worker_clear(struct worker *w)
{
	if (w->session != NULL)
		w->session->ops->session_delete(w->session);
	free(w->slots);
	free(w->completions);
	free(w->past);
	free(w->buffers);
	w->session = NULL;
}

/* ------------------------------------------------------------------- answers */

static void give_up(struct worker *w)
{
	w->failed = true;
	atomic_store(&w->shared->stop, true);
}

static void record_error(struct worker *w, int result)
{
	const char *sentence = w->session->ops->session_error(w->session);

	if (w->err.text[0] == '\0')
		err_set(&w->err, -1, "%s", *sentence != '\0' ? sentence : kvd_strerror(result));
	count(&w->errors);
	if (++w->error_streak >= ERROR_STREAK_MAX)
		give_up(w);
}

static void verify(struct worker *w, const struct slot *s, int result, size_t bytes)
{
	if (result == KVD_NOT_FOUND)
		w->verify.missing++;
	else if (record_check(&config_of(w)->workload->record, key_of(s), s->buf, bytes))
		w->verify.ok++;
	else
		w->verify.wrong++;
}

/* Where a rate is set, an operation counts from when it was meant to begin. */
static uint64_t due_ns(const struct worker *w, uint64_t index)
{
	const struct driver_config *c = config_of(w);
	double offset = (double)(index - c->warmup) * 1e9 / (double)c->target;

	return w->shared->start_ns + (uint64_t)offset;
}

static void record(struct worker *w, struct slot *s, int result)
{
	struct op_result *op = &w->op[s->op.kind];

	if (result < 0) {
		op->errors++;
		return;
	}
	if (result == KVD_OK)
		op->ok++;
	else
		op->not_found++;
	histogram_record(&op->latency,
			 w->now_ns - (w->paced ? due_ns(w, s->index) : s->start_ns));
	if (w->paced)
		histogram_record(&op->service, w->now_ns - s->start_ns);
}

/* ----------------------------------------------------------------- raw verbs */

static bool has_raw(const struct worker *w, const struct slot *s)
{
	return w->measured && config_of(w)->with_raw && s->op.kind != OP_READ_MODIFY_WRITE;
}

/*
 * A raw READ goes where a GET went a while before: to the same places in the end, but
 * right behind its own GET it would find in the caches all that the GET had to wait for.
 */
static void note_past(struct worker *w, const struct slot *s)
{
	if (config_of(w)->with_raw && !s->writing)
		w->past[w->past_count++ % PAST] = s->op.number;
}

static bool past_key(struct worker *w, char *key, size_t *key_bytes)
{
	uint64_t i = w->past_count % PAST;

	if (!w->past_count)
		return false;
	if (w->past_count < PAST)
		i = random_below(&w->order, w->past_count);
	*key_bytes = key_make(&config_of(w)->workload->key, w->past[i], key);
	return true;
}

static void run_raw(struct worker *w, struct slot *s)
{
	const struct store_ops *ops = w->session->ops;
	uint64_t ns;
	int rc;

	if (s->writing) {
		rc = ops->raw_message(w->session, s->key_bytes, s->value_bytes, &ns);
	} else {
		char key[KEY_BYTES_MAX];
		size_t key_bytes;
		if (!past_key(w, key, &key_bytes))
			return;
		rc = ops->raw_read(w->session, key, key_bytes, &ns);
	}
	if (rc == KVD_OK)
		s->raw_ns = ns;
}

/* The order is drawn anew each time: whoever comes second finds caches warm. */
static void raw_before(struct worker *w, struct slot *s)
{
	s->raw_ns = 0;
	s->raw_after = random_next(&w->order) & 1;
	if (!s->raw_after)
		run_raw(w, s);
}

static void raw_after(struct worker *w, struct slot *s)
{
	struct pair *pair = &w->pair[s->writing ? PAIR_MESSAGE : PAIR_READ];
	uint64_t store_ns = w->now_ns - s->start_ns;

	if (s->raw_after)
		run_raw(w, s);
	if (s->raw_ns == 0)
		return;
	histogram_record(&pair->store, store_ns);
	histogram_record(&pair->raw, s->raw_ns);
}

/* ---------------------------------------------------------------- completion */

static void finish(struct worker *w, struct slot *s, int result)
{
	if (s->op.kind == OP_INSERT && !config_of(w)->load)
		sequence_acknowledge(config_of(w)->workload->inserts, s->op.number);
	if (w->measured)
		record(w, s, result);
	if (result == KVD_OK && has_raw(w, s))
		raw_after(w, s);
	if (result < 0)
		record_error(w, result);
	else
		w->error_streak = 0;
	s->next = w->free;
	w->free = s;
}

/* ---------------------------------------------------------------- operations */

static void submit(struct worker *w, struct slot *s)
{
	const struct store_ops *ops = w->session->ops;
	int result;

	if (s->writing)
		result = ops->submit_put(w->session, s->key, s->key_bytes, s->value,
					 s->value_bytes, s);
	else
		result = ops->submit_get(w->session, s->key, s->key_bytes, s->buf,
					 config_of(w)->workload->record.bytes_max, s);
	if (result == KVD_OK) {
		s->under_way = true;
		w->in_flight++;
	} else if (result == KVD_EBUSY && w->in_flight > 0) {
		/* The session takes fewer at once than depth. */
		s->next = w->deferred;
		w->deferred = s;
	} else {
		finish(w, s, result);
	}
}

/* What is put has to be told apart in a history. */
static void stamp(struct worker *w, struct slot *s)
{
	const struct record_format *f = &config_of(w)->workload->record;

	if (config_of(w)->history == NULL || f->integrity)
		return;
	if (s->value != s->buf)
		memcpy(s->buf, s->value, s->value_bytes);
	s->value = s->buf;
	record_stamp(s->buf, s->value_bytes, s->index);
}

static void make_value(struct worker *w, struct slot *s)
{
	const struct record_format *f = &config_of(w)->workload->record;

	if (s->op.kind == OP_INSERT)
		s->value_bytes = record_insert(f, key_of(s), &s->op.random, s->buf, &s->value);
	else if (s->op.kind == OP_UPDATE)
		s->value_bytes = record_update(f, key_of(s), &s->op.random, s->buf, &s->value);
	stamp(w, s);
}

/* What is put comes out of a pool that no cache has all of; a program has just made its value. */
static void fetch_value(const struct slot *s)
{
	for (size_t i = 0; s->writing && i < s->value_bytes; i += 64)
		__builtin_prefetch(s->value + i);
}

/* -------------------------------------------------------- under the key's lock */

struct modification {
	struct worker *worker;
	struct slot *slot;
	bool found;
};

static int modify(void *arg, void *value, size_t *value_bytes)
{
	struct modification *m = arg;
	struct slot *s = m->slot;
	const struct driver_config *c = config_of(m->worker);

	m->found = *value_bytes != SIZE_MAX;
	if (!m->found)
		return 1;
	memcpy(s->buf, value, *value_bytes);
	if (c->verify)
		verify(m->worker, s, KVD_OK, *value_bytes);
	s->value_bytes = record_modify(&c->workload->record, key_of(s), &s->op.random, s->buf,
				       *value_bytes, &s->value);
	memcpy(value, s->value, s->value_bytes);
	*value_bytes = s->value_bytes;
	return 0;
}

static void update(struct worker *w, struct slot *s)
{
	struct modification m = { w, s, true };
	int result = w->session->ops->update(w->session, s->key, s->key_bytes, modify, &m,
					     config_of(w)->workload->record.bytes_max);

	w->now_ns = stopwatch_ns();
	if (!m.found && config_of(w)->verify)
		verify(w, s, KVD_NOT_FOUND, 0);
	finish(w, s, result == KVD_CONDITION ? KVD_NOT_FOUND : result);
}

static void start(struct worker *w, struct slot *s)
{
	const struct driver_config *c = config_of(w);

	s->index = w->next;
	w->next += c->threads;
	if (c->load)
		workload_load_operation(c->workload, s->index, &s->op);
	else
		workload_operation(c->workload, &w->generator, s->index, &s->op);
	s->key_bytes = key_make(&c->workload->key, s->op.number, s->key);
	s->writing = s->op.kind == OP_INSERT || s->op.kind == OP_UPDATE;
	if (s->writing)
		make_value(w, s);
	if (has_raw(w, s)) {
		fetch_value(s);
		raw_before(w, s);
	}
	note_past(w, s);
	s->start_ns = s->submit_ns = w->now_ns = stopwatch_ns();
	if (c->locked_rmw && s->op.kind == OP_READ_MODIFY_WRITE)
		update(w, s);
	else
		submit(w, s);
}

static void write_history(struct worker *w, const struct slot *s,
			  const struct kvd_completion *done)
{
	struct history_entry entry = {
		.client = w->number,
		.put = s->writing,
		.key = s->key,
		.key_bytes = s->key_bytes,
		.value = s->writing ? s->value : s->buf,
		.value_bytes = s->writing ? s->value_bytes : done->value_bytes,
		.version = done->version,
		.invoke_ns = s->submit_ns,
		.return_ns = w->now_ns,
		.result = done->result,
	};

	history_add(config_of(w)->history, &entry);
}

/* The second half of a read-modify-write. */
static void write_back(struct worker *w, struct slot *s, size_t bytes)
{
	s->value_bytes = record_modify(&config_of(w)->workload->record, key_of(s), &s->op.random,
				       s->buf, bytes, &s->value);
	stamp(w, s);
	s->writing = true;
	s->submit_ns = stopwatch_ns();
	submit(w, s);
}

static void complete(struct worker *w, const struct kvd_completion *done)
{
	const struct driver_config *c = config_of(w);
	struct slot *s = done->tag;

	w->in_flight--;
	s->under_way = false;
	if (c->history != NULL)
		write_history(w, s, done);
	if (done->result == KVD_EBUSY) {
		count(&w->busy);
		s->next = w->deferred;
		w->deferred = s;
		return;
	}
	if (c->verify && !s->writing && done->result >= 0)
		verify(w, s, done->result, done->value_bytes);
	if (s->op.kind == OP_READ_MODIFY_WRITE && !s->writing && done->result == KVD_OK)
		write_back(w, s, done->value_bytes);
	else
		finish(w, s, done->result);
}

/* ---------------------------------------------------------------------- loop */

static bool may_start(const struct worker *w)
{
	return w->next < w->end && w->now_ns < w->shared->deadline_ns &&
	       !atomic_load_explicit(&w->shared->stop, memory_order_relaxed);
}

static bool is_due(struct worker *w)
{
	if (!w->paced || w->now_ns >= due_ns(w, w->next))
		return true;
	w->now_ns = stopwatch_ns();
	return w->now_ns >= due_ns(w, w->next);
}

static void fill(struct worker *w)
{
	while (w->deferred != NULL) {
		struct slot *s = w->deferred;
		w->deferred = s->next;
		submit(w, s);
		if (w->deferred == s) /* still too busy */
			break;
	}
	while (w->free != NULL && may_start(w) && is_due(w)) {
		struct slot *s = w->free;
		w->free = s->next;
		start(w, s);
	}
}

/* Milliseconds that a poll may wait: not beyond the next operation's time. */
static int poll_timeout_ms(const struct worker *w)
{
	uint64_t due;

	if (w->deferred != NULL)
		return 0;
	if (!w->paced || w->free == NULL || !may_start(w))
		return -1;
	due = due_ns(w, w->next);
	return due > w->now_ns ? (int)((due - w->now_ns) / 1000000) : 0;
}

/* The session failed: nothing will be answered any more. */
static void lose_all(struct worker *w, int result)
{
	record_error(w, result);
	give_up(w);
	w->now_ns = stopwatch_ns();
	for (unsigned i = 0; i < config_of(w)->depth; i++) {
		struct kvd_completion lost = { .tag = &w->slots[i], .result = KVD_EUNKNOWN };
		if (w->slots[i].under_way)
			complete(w, &lost);
	}
}

static void take_completions(struct worker *w)
{
	int n = w->session->ops->poll(w->session, w->completions, (int)config_of(w)->depth,
				      poll_timeout_ms(w));

	if (n < 0) {
		lose_all(w, n);
		return;
	}
	w->now_ns = stopwatch_ns();
	for (int i = 0; i < n; i++)
		complete(w, &w->completions[i]);
}

/* Nothing is under way and nothing is due. */
static void sleep_until_due(struct worker *w)
{
	uint64_t due = due_ns(w, w->next), wake = due - WAKE_NS;
	struct timespec ts;

	w->now_ns = stopwatch_ns();
	if (wake <= w->now_ns)
		return;
	if (wake > w->now_ns + SLEEP_NS_MAX)
		wake = w->now_ns + SLEEP_NS_MAX;
	if (wake > w->shared->deadline_ns)
		wake = w->shared->deadline_ns;
	ts = (struct timespec){ (time_t)(wake / 1000000000u), (long)(wake % 1000000000u) };
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
	w->now_ns = stopwatch_ns();
}

void worker_run(struct worker *w, uint64_t end, bool measured)
{
	w->end = end;
	w->measured = measured;
	w->paced = measured && config_of(w)->target > 0;
	w->now_ns = stopwatch_ns();
	if (w->paced)
		prctl(PR_SET_TIMERSLACK, 1000);
	for (;;) {
		fill(w);
		if (w->in_flight > 0)
			take_completions(w);
		else if (w->deferred == NULL && !may_start(w))
			break;
		else if (w->paced && w->deferred == NULL)
			sleep_until_due(w);
	}
	w->end_ns = stopwatch_ns();
}
