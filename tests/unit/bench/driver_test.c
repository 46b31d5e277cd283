/* SPDX-License-Identifier: BSD-2-Clause */
/* The driver against a store in this process, with trouble on demand. */
#include <pthread.h>
#include <search.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "bench/run/driver.h"
#include "bench/format/jsonread.h"

#define VALUE_BYTES 1000

/* ------------------------------------------------------------------ the store */

struct item {
	char key[64]; /* first: the tree compares items as strings */
	size_t bytes;
	char value[VALUE_BYTES];
};

struct memory_store {
	struct store base;
	pthread_mutex_t mutex;
	void *tree;
	unsigned sessions, gets, puts, calls;
	/* Trouble */
	unsigned refuse_session;   /* the n-th session cannot connect */
	unsigned busy_every;       /* every n-th submission is answered busy */
	unsigned fail_from;        /* puts fail from the n-th on */
	unsigned break_at;         /* the n-th poll breaks its session */
	unsigned flip_at;          /* the n-th get is answered with a wrong bit */
	unsigned stall_at, stall_ms; /* the n-th poll takes so long */
	unsigned polls;
};

struct memory_session {
	struct store_session base;
	struct memory_store *store;
	struct kvd_completion done[64];
	int count;
};

static int compare(const void *a, const void *b)
{
	return strcmp(a, b);
}

static struct item *find(struct memory_store *s, const void *key, size_t key_bytes, bool add)
{
	struct item *item = calloc(1, sizeof *item);
	void **node;

	assert_true(key_bytes < sizeof item->key);
	memcpy(item->key, key, key_bytes);
	node = add ? tsearch(item, &s->tree, compare) : tfind(item, &s->tree, compare);
	if (node == NULL || *node != item)
		free(item);
	return node != NULL ? *node : NULL;
}

static int session_new(struct store *store, struct store_session **session, struct err *err)
{
	struct memory_store *m = (struct memory_store *)store;
	struct memory_session *s;
	unsigned number = __atomic_add_fetch(&m->sessions, 1, __ATOMIC_RELAXED);

	if (number == m->refuse_session)
		return err_set(err, -1, "no such server");
	s = calloc(1, sizeof *s);
	s->base.ops = store->ops;
	s->store = m;
	*session = &s->base;
	return 0;
}

static void session_delete(struct store_session *session)
{
	free(session);
}

static const char *session_error(const struct store_session *session)
{
	(void)session;
	return "trouble on demand";
}

static void done(struct memory_session *s, void *tag, int result, size_t bytes)
{
	assert_true(s->count < 64);
	s->done[s->count++] = (struct kvd_completion){ .tag = tag, .result = result,
							.value_bytes = bytes, .version = 1 };
}

static bool is_nth(unsigned number, unsigned every)
{
	return every > 0 && number % every == 0;
}

static int submit_get(struct store_session *session, const void *key, size_t key_bytes,
		      void *value, size_t value_bytes_max, void *tag)
{
	struct memory_session *s = (struct memory_session *)session;
	struct memory_store *m = s->store;
	struct item *item;

	pthread_mutex_lock(&m->mutex);
	item = find(m, key, key_bytes, false);
	if (is_nth(++m->calls, m->busy_every)) {
		done(s, tag, KVD_EBUSY, 0);
	} else if (item == NULL) {
		done(s, tag, KVD_NOT_FOUND, 0);
	} else {
		assert_true(item->bytes <= value_bytes_max);
		memcpy(value, item->value, item->bytes);
		((char *)value)[0] ^= ++m->gets == m->flip_at;
		done(s, tag, KVD_OK, item->bytes);
	}
	pthread_mutex_unlock(&m->mutex);
	return KVD_OK;
}

static int submit_put(struct store_session *session, const void *key, size_t key_bytes,
		      const void *value, size_t value_bytes, void *tag)
{
	struct memory_session *s = (struct memory_session *)session;
	struct memory_store *m = s->store;
	struct item *item;
	int rc = KVD_OK;

	assert_true(value_bytes <= VALUE_BYTES);
	pthread_mutex_lock(&m->mutex);
	if (m->fail_from > 0 && m->puts + 1 >= m->fail_from) {
		rc = KVD_EFULL;
	} else if (is_nth(++m->calls, m->busy_every)) {
		done(s, tag, KVD_EBUSY, 0);
	} else {
		m->puts++;
		item = find(m, key, key_bytes, true);
		item->bytes = value_bytes;
		memcpy(item->value, value, value_bytes);
		done(s, tag, KVD_OK, 0);
	}
	pthread_mutex_unlock(&m->mutex);
	return rc;
}

/* Last in, first out, and not all at once. */
static int poll_session(struct store_session *session, struct kvd_completion *completions,
			int max, int timeout_ms)
{
	struct memory_session *s = (struct memory_session *)session;
	unsigned number = __atomic_add_fetch(&s->store->polls, 1, __ATOMIC_RELAXED);
	int n = 0;

	(void)timeout_ms;
	if (number == s->store->break_at)
		return KVD_ECONNECT;
	if (number == s->store->stall_at)
		usleep(1000 * s->store->stall_ms);
	while (n < max && n < 3 && s->count > 0)
		completions[n++] = s->done[--s->count];
	return n;
}

static void counters(const struct store_session *session, struct kvd_counters *c)
{
	struct memory_store *m = ((const struct memory_session *)session)->store;

	memset(c, 0, sizeof *c);
	pthread_mutex_lock(&m->mutex);
	c->gets = c->reads = m->gets;
	pthread_mutex_unlock(&m->mutex);
}

static int stats(struct store_session *session, struct store_stats *st)
{
	*st = (struct store_stats){ 0, 0, ((struct memory_session *)session)->store->puts, 0 };
	return 0;
}

static const char *device(const struct store *store)
{
	(void)store;
	return "memory";
}

static const struct store_ops memory_ops = {
	.name = "memory", .device = device, .session_new = session_new,
	.session_delete = session_delete, .session_error = session_error,
	.submit_get = submit_get, .submit_put = submit_put, .poll = poll_session,
	.counters = counters, .stats = stats,
};

/* ---------------------------------------------------------------- the fixture */

struct fixture {
	struct properties *properties;
	struct workload workload;
	struct memory_store store;
	struct driver_config config;
	struct result result;
	struct err err;
	uint64_t ticks, ticked;
};

static void count_tick(void *arg, const struct driver_tick *t)
{
	struct fixture *f = arg;

	f->ticks++;
	for (int kind = 0; kind < OP_KINDS; kind++)
		f->ticked += t->interval[kind]->count;
}

static struct fixture *fixture_new(const char *settings)
{
	struct fixture *f = calloc(1, sizeof *f);
	char *copy = strdup(settings), *rest = copy, *one;

	f->properties = properties_new();
	while ((one = strsep(&rest, " ")) != NULL) {
		if (*one != '\0')
			assert_int_equal(properties_set(f->properties, one, &f->err), 0);
	}
	free(copy);
	if (workload_init(&f->workload, f->properties, 1, &f->err) < 0)
		fail_msg("%s", f->err.text);
	f->store.base.ops = &memory_ops;
	pthread_mutex_init(&f->store.mutex, NULL);
	f->config = (struct driver_config){
		.workload = &f->workload, .store = &f->store.base, .threads = 3, .depth = 7,
		.operations = 5000, .tick = count_tick, .arg = f,
	};
	return f;
}

static void fixture_delete(struct fixture *f)
{
	tdestroy(f->store.tree, free);
	workload_clear(&f->workload);
	properties_delete(&f->properties);
	free(f);
}

static void load(struct fixture *f)
{
	struct driver_config config = f->config;

	config.load = true;
	config.operations = f->workload.insert_count;
	assert_int_equal(driver_run(&config, &f->result, &f->err), 0);
	assert_false(f->result.failed);
	assert_int_equal(f->result.operations, f->workload.insert_count);
	assert_int_equal(f->result.op[OP_INSERT].ok, f->workload.insert_count);
	assert_int_equal(f->store.puts, f->workload.insert_count);
	f->ticks = f->ticked = 0;
}

static void run(struct fixture *f)
{
	if (driver_run(&f->config, &f->result, &f->err) < 0)
		fail_msg("%s", f->err.text);
}

#define MIX "recordcount=500 operationcount=5000 requestdistribution=zipfian readproportion=0.5 " \
	    "updateproportion=0.2 insertproportion=0.1 readmodifywriteproportion=0.2 "

/* -------------------------------------------------------------------- the tests */

static void every_operation_is_counted_once(void **state)
{
	struct fixture *f = fixture_new(MIX "dataintegrity=true");
	uint64_t sum = 0, histograms = 0;

	(void)state;
	load(f);
	f->config.verify = true;
	run(f);
	for (int kind = 0; kind < OP_KINDS; kind++) {
		const struct op_result *op = &f->result.op[kind];
		assert_true(op->ok > 0);
		assert_int_equal(op->not_found + op->errors, 0);
		assert_int_equal(op->latency.count, op->ok);
		sum += op->ok;
		histograms += op->latency.count;
	}
	assert_int_equal(sum, 5000);
	assert_int_equal(f->result.operations, 5000);
	assert_int_equal(f->ticked, histograms);
	assert_false(f->result.failed);
	assert_int_equal(f->result.verify.ok, f->result.op[OP_READ].ok +
						      f->result.op[OP_READ_MODIFY_WRITE].ok);
	assert_int_equal(f->result.verify.wrong + f->result.verify.missing, 0);
	assert_int_equal(sequence_newest(f->workload.inserts),
			 499 + f->result.op[OP_INSERT].ok);
	fixture_delete(f);
}

static void a_wrong_bit_fails_the_run(void **state)
{
	struct fixture *f = fixture_new("recordcount=500 dataintegrity=true");

	(void)state;
	load(f);
	f->config.verify = true;
	f->store.flip_at = 1234;
	run(f);
	assert_int_equal(f->result.verify.wrong, 1);
	assert_true(f->result.failed);
	fixture_delete(f);
}

static void a_missing_value_fails_the_check(void **state)
{
	struct fixture *f = fixture_new("recordcount=500 dataintegrity=true readproportion=1 "
					"updateproportion=0");

	(void)state;
	f->config.verify = true;
	run(f);
	assert_int_equal(f->result.verify.missing, 5000);
	assert_int_equal(f->result.op[OP_READ].not_found, 5000);
	assert_true(f->result.failed);
	f->config.verify = false; /* without the check it is a result like any other */
	run(f);
	assert_false(f->result.failed);
	fixture_delete(f);
}

static void warmup_is_left_out(void **state)
{
	struct fixture *f = fixture_new(MIX);

	(void)state;
	load(f);
	f->config.warmup = 2000;
	f->config.operations = 300;
	f->config.threads = 1;
	run(f);
	assert_int_equal(f->result.operations, 300);
	assert_int_equal(f->result.counters.gets,
			 f->result.op[OP_READ].ok + f->result.op[OP_READ_MODIFY_WRITE].ok);
	assert_int_equal(f->ticked, 300);
	fixture_delete(f);
}

static void busy_is_tried_again(void **state)
{
	struct fixture *f = fixture_new(MIX);

	(void)state;
	load(f);
	f->store.busy_every = 5;
	run(f);
	assert_int_equal(f->result.operations, 5000);
	assert_false(f->result.failed);
	assert_true(f->result.busy > 500);
	fixture_delete(f);
}

static void errors_are_counted_and_end_the_run(void **state)
{
	struct fixture *f = fixture_new("recordcount=500 readproportion=0 updateproportion=1");

	(void)state;
	load(f);
	f->store.fail_from = 1000;
	run(f);
	assert_int_equal(f->result.op[OP_UPDATE].ok, 499);
	assert_true(f->result.op[OP_UPDATE].errors >= 100);
	assert_true(f->result.op[OP_UPDATE].errors <= 300 + 3 * 7);
	assert_true(f->result.failed);
	assert_string_equal(f->result.err.text, "trouble on demand");
	fixture_delete(f);
}

static void a_broken_session_ends_the_run(void **state)
{
	struct fixture *f = fixture_new(MIX);

	(void)state;
	load(f);
	f->store.break_at = f->store.polls + 100;
	run(f);
	assert_true(f->result.failed);
	assert_true(f->result.operations < 5000);
	assert_string_equal(f->result.err.text, "trouble on demand");
	fixture_delete(f);
}

static void no_connection_is_an_error(void **state)
{
	struct fixture *f = fixture_new(MIX);

	(void)state;
	for (unsigned number = 1; number <= 4; number++) {
		f->store.sessions = 0;
		f->store.refuse_session = number;
		assert_int_equal(driver_run(&f->config, &f->result, &f->err), -1);
		assert_string_equal(f->err.text, "no such server");
	}
	fixture_delete(f);
}

static void time_ends_the_run(void **state)
{
	struct fixture *f = fixture_new(MIX);

	(void)state;
	load(f);
	f->config.operations = 0;
	f->config.seconds = 0.2;
	run(f);
	assert_true(f->result.seconds >= 0.2 && f->result.seconds < 2);
	assert_true(f->result.operations > 100);
	fixture_delete(f);
}

/* One stall of 200 ms at 2,000 operations/s delays 400 of them, and each counts
 * from when it was meant to begin; by itself only one was slow. */
static void a_stall_is_not_omitted(void **state)
{
	struct fixture *f = fixture_new("recordcount=500 readproportion=1 updateproportion=0");
	const struct op_result *op = &f->result.op[OP_READ];

	(void)state;
	load(f);
	f->config.threads = 1;
	f->config.depth = 1;
	f->config.target = 2000;
	f->config.operations = 1000;
	f->store.polls = 0;
	f->store.stall_at = 100;
	f->store.stall_ms = 200;
	run(f);
	assert_int_equal(op->latency.count, 1000);
	assert_int_equal(op->service.count, 1000);
	assert_true(f->result.seconds > 0.49);
	assert_true(histogram_percentile(&op->service, 99) < 100000000);
	assert_true(op->service.max_ns >= 200000000);
	assert_true(histogram_percentile(&op->latency, 85) > 60000000);
	assert_true(histogram_percentile(&op->latency, 75) > 10000000);
	fixture_delete(f);
}

static char *operations_of(const char *path)
{
	FILE *file = fopen(path, "r");
	char *line = NULL, *all = calloc(1, 1 << 20);
	size_t bytes = 0, used = 0;
	struct err err;

	assert_non_null(file);
	while (getline(&line, &bytes, file) > 0) {
		struct jsonread *json = jsonread_new(line, &err);
		if (json == NULL)
			fail_msg("%s: %s", err.text, line);
		assert_true(jsonread_number(jsonread_path(json, "return_ns"), 0) >=
			    jsonread_number(jsonread_path(json, "invoke_ns"), 1e300));
		used += (size_t)sprintf(all + used, "%s %s %.30s %s\n",
					jsonread_string(jsonread_path(json, "op"), "?"),
					jsonread_string(jsonread_path(json, "key"), "?"),
					jsonread_string(jsonread_path(json, "value"), "-"),
					jsonread_string(jsonread_path(json, "result"), "?"));
		jsonread_delete(&json);
	}
	free(line);
	fclose(file);
	return all;
}

/* The same seed, the same history, whatever is in between. */
static void history_repeats(void **state)
{
	char *first = NULL;

	(void)state;
	for (int round = 0; round < 2; round++) {
		struct fixture *f = fixture_new(MIX "fieldlength=20");
		char path[] = "/tmp/bench_driver_XXXXXX";
		char *operations;
		close(mkstemp(path));
		load(f);
		f->config.threads = 1;
		f->config.depth = 1;
		f->config.operations = 500;
		assert_int_equal(history_new(path, &f->config.history, &f->err), 0);
		run(f);
		assert_int_equal(history_delete(&f->config.history, &f->err), 0);
		operations = operations_of(path);
		unlink(path);
		fixture_delete(f);
		if (round == 0) {
			first = operations;
			continue;
		}
		assert_true(strlen(first) > 10000);
		assert_string_equal(first, operations);
		free(operations);
	}
	free(first);
}

static void own_cost_is_measured(void **state)
{
	struct fixture *f = fixture_new(MIX);
	double ns = driver_cost(&f->workload, 1);

	(void)state;
	assert_true(ns > 1 && ns < 1e6);
	/* The measurement inserts records of its own. */
	assert_int_equal(sequence_newest(f->workload.inserts), 499);
	fixture_delete(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_operation_is_counted_once),
		cmocka_unit_test(a_wrong_bit_fails_the_run),
		cmocka_unit_test(a_missing_value_fails_the_check),
		cmocka_unit_test(warmup_is_left_out),
		cmocka_unit_test(busy_is_tried_again),
		cmocka_unit_test(errors_are_counted_and_end_the_run),
		cmocka_unit_test(a_broken_session_ends_the_run),
		cmocka_unit_test(no_connection_is_an_error),
		cmocka_unit_test(time_ends_the_run),
		cmocka_unit_test(a_stall_is_not_omitted),
		cmocka_unit_test(history_repeats),
		cmocka_unit_test(own_cost_is_measured),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
