/* SPDX-License-Identifier: BSD-2-Clause */
/* Workloads: settings, the sequence of operations, values; numbers of inserts. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "bench/workload/workload.h"

static struct err err;

/* "a=1 b=2": a workload of these and a recordcount of 1000; 0 or -1. */
static int init(struct workload *w, const char *settings, uint64_t seed)
{
	struct properties *p = properties_new();
	char *copy = strdup(settings), *rest = copy, *one;
	int rc;

	assert_int_equal(properties_set(p, "recordcount=1000", &err), 0);
	while ((one = strsep(&rest, " ")) != NULL) {
		if (*one != '\0')
			assert_int_equal(properties_set(p, one, &err), 0);
	}
	rc = workload_init(w, p, seed, &err);
	free(copy);
	/* A prefix or path would be the properties': not used in these tests. */
	w->record.prefix = "field";
	properties_delete(&p);
	return rc;
}

static void must_init(struct workload *w, const char *settings, uint64_t seed)
{
	if (init(w, settings, seed) < 0)
		fail_msg("%s: %s", settings, err.text);
}

static void wrong_settings_are_refused(void **state)
{
	static const struct {
		const char *settings, *named;
	} list[] = {
		{ "recordcount=0", "recordcount" },
		{ "recordcount=many", "recordcount" },
		{ "operationcount=-5", "operationcount" },
		{ "readproportion=1.5", "readproportion" },
		{ "readproportion=0 updateproportion=0", "proportions" },
		{ "requestdistribution=normal", "requestdistribution" },
		{ "insertorder=random", "insertorder" },
		{ "fieldcount=0", "fieldcount" },
		{ "fieldlength=x", "fieldlength" },
		{ "fieldlength=2000000000", "fieldlength" },
		{ "fieldlengthdistribution=uniform minfieldlength=200", "minfieldlength" },
		{ "fieldlengthdistribution=uniform dataintegrity=true", "dataintegrity" },
		{ "dataintegrity=yes", "dataintegrity" },
		{ "readallfields=1", "readallfields" },
		{ "insertstart=1000", "insertstart" },
		{ "insertstart=600 insertcount=500", "insertcount" },
		{ "threadcount=0", "threadcount" },
		{ "workload=site.ycsb.workloads.TimeSeriesWorkload", "workload" },
		{ "hotspotdatafraction=2", "hotspotdatafraction" },
		{ "fieldlengthdistribution=histogram fieldlengthhistogram=/none", "/none" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
		struct workload w;
		assert_int_equal(init(&w, list[i].settings, 1), -1);
		if (strstr(err.text, list[i].named) == NULL)
			fail_msg("%s: %s", list[i].settings, err.text);
		workload_clear(&w);
	}
}

static void scans_are_refused_with_the_reason(void **state)
{
	struct workload w;

	(void)state;
	assert_int_equal(init(&w, "scanproportion=0.95 insertproportion=0.05", 1), -1);
	assert_non_null(strstr(err.text, "order"));
	workload_clear(&w);
}

static void defaults_are_those_of_ycsb(void **state)
{
	struct workload w;

	(void)state;
	must_init(&w, "", 1);
	assert_int_equal(w.distribution, GENERATOR_UNIFORM);
	assert_true(w.proportion[OP_READ] == 0.95);
	assert_true(w.proportion[OP_UPDATE] == 0.05);
	assert_int_equal(w.record.field_count, 10);
	assert_int_equal(w.record.field_bytes, 100);
	assert_int_equal(w.record.bytes_max, 1000);
	assert_false(w.record.write_all);
	assert_false(w.key.ordered);
	assert_int_equal(w.threads, 1);
	assert_int_equal(w.insert_count, 1000);
	workload_clear(&w);
}

/* Room for twice the inserts that are to be expected, and YCSB's one more. */
static void zipfian_makes_room_for_inserts(void **state)
{
	struct workload w;

	(void)state;
	must_init(&w, "requestdistribution=zipfian operationcount=10000 readproportion=0.95 "
		      "updateproportion=0 insertproportion=0.05", 1);
	assert_int_equal(w.generator.count, 1000 + 1000 + 1);
	workload_clear(&w);
}

static bool same_operation(const struct operation *a, const struct operation *b)
{
	return a->kind == b->kind && a->number == b->number && a->random.state == b->random.state;
}

static void the_seed_makes_the_sequence(void **state)
{
	struct workload a, b, c;
	struct operation x, y, z;
	int different = 0;

	(void)state;
	must_init(&a, "requestdistribution=zipfian updateproportion=0.95", 5);
	must_init(&b, "requestdistribution=zipfian updateproportion=0.95", 5);
	must_init(&c, "requestdistribution=zipfian updateproportion=0.95", 6);
	for (uint64_t i = 0; i < 1000; i++) {
		workload_operation(&a, &a.generator, i, &x);
		workload_operation(&c, &c.generator, i, &z);
		/* In another order, as other threads would. */
		workload_operation(&b, &b.generator, 999 - i, &y);
		workload_operation(&b, &b.generator, i, &y);
		assert_true(same_operation(&x, &y));
		different += !same_operation(&x, &z);
	}
	assert_true(different > 900);
	workload_clear(&a);
	workload_clear(&b);
	workload_clear(&c);
}

static void proportions_are_kept(void **state)
{
	enum { N = 200000 };
	static const double expected[OP_KINDS] = { 0.5, 0.2, 0.1, 0.2 };
	uint64_t counts[OP_KINDS] = { 0 };
	struct operation op;
	struct workload w;

	(void)state;
	/* They need not sum to 1. */
	must_init(&w, "readproportion=1 updateproportion=0.4 insertproportion=0.2 "
		      "readmodifywriteproportion=0.4 requestdistribution=latest", 1);
	for (uint64_t i = 0; i < N; i++) {
		workload_operation(&w, &w.generator, i, &op);
		counts[op.kind]++;
		if (op.kind == OP_INSERT)
			sequence_acknowledge(w.inserts, op.number);
		else
			assert_true(op.number <= sequence_newest(w.inserts));
	}
	for (int kind = 0; kind < OP_KINDS; kind++) {
		double sigma = sqrt(N * expected[kind] * (1 - expected[kind]));
		assert_true(fabs((double)counts[kind] - N * expected[kind]) < 4 * sigma);
	}
	workload_clear(&w);
}

static void loading_covers_the_range(void **state)
{
	struct operation op;
	struct workload w;

	(void)state;
	must_init(&w, "insertstart=100 insertcount=50", 1);
	workload_load_operation(&w, 0, &op);
	assert_int_equal(op.kind, OP_INSERT);
	assert_int_equal(op.number, 100);
	workload_load_operation(&w, 49, &op);
	assert_int_equal(op.number, 149);
	workload_clear(&w);
}

/* -------------------------------------------------------------------- values */

/* YCSB's buildDeterministicValue(). */
static void integrity_text_is_that_of_ycsb(void **state)
{
	static const char field0[] =
		"user6284781860667377211:field0:-56807877:2032869390:-165488160:1762371712:"
		"-169193395:-1039977118:-10";
	static const char field3[] = "user5:field3:91725617:719153263:-3050785";
	struct record_key key = { "user6284781860667377211", 23 }, five = { "user5", 5 };
	struct random r = random_stream(1, 1);
	const char *value;
	struct workload w;
	char *buf;

	(void)state;
	must_init(&w, "dataintegrity=true", 1);
	buf = malloc(w.record.bytes_max);
	assert_int_equal(record_insert(&w.record, key, &r, buf, &value), 1000);
	assert_memory_equal(value, field0, 100);
	assert_true(record_check(&w.record, key, value, 1000));
	assert_false(record_check(&w.record, five, value, 1000));
	assert_false(record_check(&w.record, key, value, 999));
	for (int at = 0; at < 1000; at += 37) {
		buf[at] ^= 1;
		assert_false(record_check(&w.record, key, buf, 1000));
		buf[at] ^= 1;
	}
	/* Whatever writes it, the value is the same. */
	assert_int_equal(record_update(&w.record, key, &r, buf, &value), 1000);
	assert_true(record_check(&w.record, key, value, 1000));
	assert_int_equal(record_modify(&w.record, key, &r, buf, 1000, &value), 1000);
	assert_true(record_check(&w.record, key, value, 1000));
	free(buf);
	workload_clear(&w);

	must_init(&w, "dataintegrity=true fieldlength=40 fieldcount=5", 1);
	buf = malloc(w.record.bytes_max);
	assert_int_equal(record_insert(&w.record, five, &r, buf, &value), 200);
	assert_memory_equal(value + 3 * 40, field3, 40);
	free(buf);
	workload_clear(&w);
}

/* How many of the ten fields of 100 bytes differ. */
static int count_different(const char *a, const char *b)
{
	int different = 0;

	for (int i = 0; i < 10; i++)
		different += memcmp(a + 100 * i, b + 100 * i, 100) != 0;
	return different;
}

static void updates_renew_one_field_or_all(void **state)
{
	struct record_key key = { "user6284781860667377211", 23 };
	struct random r = random_stream(1, 1);
	char first[1000], buf[1000];
	const char *value;
	struct workload w;

	(void)state;
	must_init(&w, "", 1);
	assert_int_equal(record_insert(&w.record, key, &r, buf, &value), 1000);
	memcpy(first, value, 1000);
	assert_int_equal(record_update(&w.record, key, &r, buf, &value), 1000);
	assert_int_equal(count_different(first, value), 1);
	memset(first, 'x', 1000);
	memset(buf, 'x', 1000);
	assert_int_equal(record_modify(&w.record, key, &r, buf, 1000, &value), 1000);
	assert_int_equal(count_different(first, value), 1);
	workload_clear(&w);

	must_init(&w, "writeallfields=true", 1);
	assert_int_equal(record_insert(&w.record, key, &r, buf, &value), 1000);
	memcpy(first, value, 1000);
	assert_int_equal(record_update(&w.record, key, &r, buf, &value), 1000);
	assert_int_equal(count_different(first, value), 10);
	memcpy(buf, first, 1000);
	assert_int_equal(record_modify(&w.record, key, &r, buf, 1000, &value), 1000);
	assert_int_equal(count_different(first, value), 10);
	workload_clear(&w);
}

static void lengths_follow_their_distribution(void **state)
{
	enum { N = 20000 };
	struct record_key key = { "user1", 5 };
	char buf[1000], path[] = "/tmp/bench_workload_XXXXXX", text[200];
	const char *value;
	struct workload w;
	double sum = 0, mean;
	FILE *file;

	(void)state;
	must_init(&w, "fieldlengthdistribution=uniform minfieldlength=51", 1);
	for (uint64_t i = 0; i < N; i++) {
		struct random r = random_stream(1, i);
		size_t bytes = record_insert(&w.record, key, &r, buf, &value);
		assert_true(bytes >= 510 && bytes <= 1000);
		sum += (double)bytes;
	}
	mean = sum / N;
	assert_true(fabs(mean - 755) < 4 * sqrt(10 * (50 * 50 - 1) / 12.0 / N));
	workload_clear(&w);

	/* Lengths of 10 and 30, three to one. */
	file = fdopen(mkstemp(path), "w");
	fprintf(file, "BlockSize\t10\n0\t3\n1\t0\n2\t1\n");
	fclose(file);
	snprintf(text, sizeof text,
		 "fieldlengthdistribution=histogram fieldlengthhistogram=%s fieldcount=1", path);
	must_init(&w, text, 1);
	remove(path);
	sum = 0;
	for (uint64_t i = 0; i < N; i++) {
		struct random r = random_stream(1, i);
		size_t bytes = record_insert(&w.record, key, &r, buf, &value);
		assert_true(bytes == 10 || bytes == 30);
		sum += (double)bytes;
	}
	assert_true(fabs(sum / N - 15) < 4 * 20 * sqrt(0.25 * 0.75 / N));
	workload_clear(&w);
}

/* ------------------------------------------------------------------- sequence */

static void newest_waits_for_gaps(void **state)
{
	struct sequence *s = sequence_new(10);

	(void)state;
	assert_int_equal(sequence_newest(s), 9);
	for (uint64_t i = 10; i < 15; i++)
		assert_int_equal(sequence_next(s), i);
	sequence_acknowledge(s, 11);
	sequence_acknowledge(s, 13);
	assert_int_equal(sequence_newest(s), 9);
	sequence_acknowledge(s, 10);
	assert_int_equal(sequence_newest(s), 11);
	sequence_acknowledge(s, 12);
	assert_int_equal(sequence_newest(s), 13);
	sequence_delete(&s);
	assert_null(s);
}

static void *insert_many(void *arg)
{
	for (int i = 0; i < 100000; i += 2) {
		uint64_t a = sequence_next(arg), b = sequence_next(arg);
		sequence_acknowledge(arg, b);
		sequence_acknowledge(arg, a);
	}
	return NULL;
}

static void threads_leave_no_gap(void **state)
{
	struct sequence *s = sequence_new(0);
	pthread_t threads[4];

	(void)state;
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, insert_many, s), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(sequence_newest(s), 399999);
	sequence_delete(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wrong_settings_are_refused),
		cmocka_unit_test(scans_are_refused_with_the_reason),
		cmocka_unit_test(defaults_are_those_of_ycsb),
		cmocka_unit_test(zipfian_makes_room_for_inserts),
		cmocka_unit_test(the_seed_makes_the_sequence),
		cmocka_unit_test(proportions_are_kept),
		cmocka_unit_test(loading_covers_the_range),
		cmocka_unit_test(integrity_text_is_that_of_ycsb),
		cmocka_unit_test(updates_renew_one_field_or_all),
		cmocka_unit_test(lengths_follow_their_distribution),
		cmocka_unit_test(newest_waits_for_gaps),
		cmocka_unit_test(threads_leave_no_gap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
