/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The generators against the exact distributions that their formulas give: every
 * share and mean within 4 sigma.  10^6 draws each; 10^7 with KVD_TEST_LONG=1.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "bench/workload/fnv.h"
#include "bench/workload/generator.h"
#include "bench/workload/key.h"
#include "bench/workload/zipf.h"

#define SIGMAS 4.0

static uint64_t draws = 1000000;

/* Fails unless `got` of the draws is what a probability of p makes. */
static void assert_share(const char *what, uint64_t got, double p)
{
	double expected = (double)draws * p;
	double sigma = sqrt((double)draws * p * (1 - p));
	double off = fabs((double)got - expected);

	if (off > SIGMAS * sigma + 1e-9)
		fail_msg("%s: %llu draws, not %.1f +- %.1f", what, (unsigned long long)got,
			 expected, sigma);
}

/* The sum of `draws` numbers of this mean and variance. */
static void assert_mean(const char *what, double sum, double mean, double variance)
{
	double sigma = sqrt(variance / (double)draws);
	double got = sum / (double)draws;

	if (fabs(got - mean) > SIGMAS * sigma + 1e-9)
		fail_msg("%s: mean %.6f, not %.6f +- %.6f", what, got, mean, sigma);
}

static uint64_t *draw_all(struct generator *g, uint64_t records, uint64_t newest)
{
	uint64_t *counts = calloc(records, sizeof *counts);

	assert_non_null(counts);
	for (uint64_t i = 0; i < draws; i++) {
		struct random r = random_stream(random_base(42), i);
		uint64_t number = generator_next(g, &r, i, newest);
		assert_true(number < records);
		counts[number]++;
	}
	return counts;
}

static void uniform_is_uniform(void **state)
{
	enum { N = 1000, FIRST = 10 };
	struct generator g;
	uint64_t *counts, below = 0;
	double sum = 0;

	(void)state;
	generator_init(&g, GENERATOR_UNIFORM, FIRST, N);
	counts = draw_all(&g, FIRST + N, FIRST + N - 1);
	for (uint64_t i = 0; i < FIRST + N; i++) {
		sum += (double)i * (double)counts[i];
		below += i < FIRST + N / 2 ? counts[i] : 0;
	}
	for (int i = 0; i < FIRST; i++)
		assert_int_equal(counts[i], 0);
	assert_share("lower half", below, 0.5);
	assert_share("first", counts[FIRST], 1.0 / N);
	assert_share("last", counts[FIRST + N - 1], 1.0 / N);
	assert_mean("uniform", sum, FIRST + (N - 1) / 2.0, ((double)N * N - 1) / 12);
	free(counts);
}

static void zeta_is_the_sum(void **state)
{
	double sum = 0;

	(void)state;
	for (uint64_t i = 1; i <= 2000000; i++) {
		sum += 1 / pow((double)i, ZIPF_THETA);
		if (i < 10 || i == 1023 || i == 1024 || i == 1025 || i == 5000 || i == 2000000)
			assert_true(fabs(zipf_zeta(i) - sum) < 1e-10 * sum);
	}
	/* The constant that YCSB has for its 10^10 items. */
	assert_true(fabs(zipf_zeta(10000000000) - GENERATOR_SCRAMBLED_ZETAN) < 1e-7);
}

static void resizing_is_the_same_as_anew(void **state)
{
	static const uint64_t sizes[] = { 1, 2, 3, 10, 2000, 2001, 2003, 5000, 4000000, 100, 7 };
	struct zipf grown, anew;

	(void)state;
	zipf_init(&grown, 5, 0);
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		zipf_resize(&grown, sizes[i]);
		zipf_init(&anew, sizes[i], 0);
		assert_int_equal(grown.items, anew.items);
		assert_true(fabs(grown.zetan - anew.zetan) < 1e-10);
		assert_true(fabs(grown.eta - anew.eta) < 1e-9);
	}
}

/* Shares of single ranks at the top, then of ever longer ranges. */
static void check_zipf(const struct zipf *z, const uint64_t *counts)
{
	char what[40];
	uint64_t from = 0, to = 1;

	while (from < z->items) {
		uint64_t got = 0;
		double p = 0;
		for (uint64_t i = from; i < to; i++) {
			got += counts[i];
			p += zipf_probability(z, i);
		}
		snprintf(what, sizeof what, "ranks %llu to %llu", (unsigned long long)from,
			 (unsigned long long)to - 1);
		assert_share(what, got, p);
		from = to;
		to = from < 20 ? from + 1 : from + from / 4;
		to = to < z->items ? to : z->items;
	}
}

static void zipf_is_what_the_formula_gives(void **state)
{
	static const uint64_t sizes[] = { 1, 2, 3, 100, 100000 };

	(void)state;
	for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
		uint64_t *counts = calloc(sizes[s], sizeof *counts);
		double sum = 0, mean = 0, square = 0, total = 0;
		struct zipf z;
		assert_non_null(counts);
		zipf_init(&z, sizes[s], 0);
		for (uint64_t i = 0; i < draws; i++) {
			struct random r = random_stream(random_base(7), i);
			uint64_t number = zipf_next(&z, &r);
			assert_true(number < sizes[s]);
			counts[number]++;
			sum += (double)number;
		}
		for (uint64_t i = 0; i < sizes[s]; i++) {
			double p = zipf_probability(&z, i);
			total += p;
			mean += p * (double)i;
			square += p * (double)i * (double)i;
		}
		assert_true(fabs(total - 1) < 1e-9);
		check_zipf(&z, counts);
		assert_mean("zipfian", sum, mean, square - mean * mean);
		free(counts);
	}
}

/* The formula is not Zipf's law; so that nobody takes the one for the other. */
static void third_number_is_drawn_a_fifth_too_often(void **state)
{
	struct zipf z;
	double law;

	(void)state;
	zipf_init(&z, 10000, 0);
	law = pow(3, -ZIPF_THETA) / z.zetan;
	assert_true(zipf_probability(&z, 2) / law > 1.15);
	assert_true(zipf_probability(&z, 2) / law < 1.30);
}

static int descending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x < y) - (x > y);
}

#define SCRAMBLED_RECORDS 1000u

/* A record's probability: that of the 10^6 first ranks that are hashed to it, and
 * its share of the rest, which are spread evenly. */
static double *scrambled_probabilities(const struct zipf *z)
{
	enum { HEAD = 1000000 };
	double *p = calloc(SCRAMBLED_RECORDS, sizeof *p), head = 0;

	assert_non_null(p);
	for (uint64_t rank = 0; rank < HEAD; rank++) {
		double share = zipf_probability(z, rank);
		p[fnv_hash(rank) % SCRAMBLED_RECORDS] += share;
		head += share;
	}
	for (unsigned i = 0; i < SCRAMBLED_RECORDS; i++)
		p[i] += (1 - head) / SCRAMBLED_RECORDS;
	return p;
}

static void scrambled_zipfian_is_spread(void **state)
{
	struct generator g;
	uint64_t *counts, top = 0;
	double *p, *sorted, share = 0;

	(void)state;
	generator_init(&g, GENERATOR_ZIPFIAN, 0, SCRAMBLED_RECORDS);
	counts = draw_all(&g, SCRAMBLED_RECORDS, SCRAMBLED_RECORDS - 1);
	p = scrambled_probabilities(&g.zipf);
	sorted = malloc(SCRAMBLED_RECORDS * sizeof *sorted);
	assert_non_null(sorted);
	memcpy(sorted, p, SCRAMBLED_RECORDS * sizeof *sorted);
	qsort(sorted, SCRAMBLED_RECORDS, sizeof *sorted, descending);
	for (unsigned i = 0; i < SCRAMBLED_RECORDS; i++) {
		if (p[i] < sorted[99])
			continue;
		/* The hundred keys that are drawn most, each by itself and together. */
		assert_share("one of the top records", counts[i], p[i]);
		top += counts[i];
		share += p[i];
	}
	assert_share("the top records", top, share);
	free(sorted);
	free(p);
	free(counts);
}

static void records_not_there_are_drawn_again(void **state)
{
	enum { N = 1000, THERE = 400 };
	struct generator g;
	uint64_t *counts, got = 0;

	(void)state;
	generator_init(&g, GENERATOR_ZIPFIAN, 0, N);
	counts = draw_all(&g, N, THERE - 1);
	for (int i = 0; i < N; i++) {
		got += counts[i];
		if (i >= THERE)
			assert_int_equal(counts[i], 0);
	}
	assert_int_equal(got, draws);
	free(counts);
}

static void latest_is_zipfian_from_the_newest(void **state)
{
	enum { FIRST = 100, N = 5000, NEWEST = FIRST + 2 * N };
	struct generator g;
	uint64_t *counts, *reversed;

	(void)state;
	generator_init(&g, GENERATOR_LATEST, FIRST, N);
	counts = draw_all(&g, NEWEST + 1, NEWEST);
	reversed = calloc(NEWEST + 1, sizeof *reversed);
	assert_non_null(reversed);
	for (int i = 0; i <= NEWEST; i++) {
		assert_true(i >= FIRST || counts[i] == 0);
		reversed[NEWEST - i] = counts[i];
	}
	assert_int_equal(g.zipf.items, NEWEST - FIRST + 1);
	check_zipf(&g.zipf, reversed);
	free(reversed);
	free(counts);
}

static void hotspot_is_hot(void **state)
{
	enum { N = 1000 };
	struct generator g;
	uint64_t *counts, hot = 0;

	(void)state;
	generator_init(&g, GENERATOR_HOTSPOT, 0, N);
	g.hot_count = 200;
	g.hot_proportion = 0.8;
	counts = draw_all(&g, N, N - 1);
	for (uint64_t i = 0; i < g.hot_count; i++)
		hot += counts[i];
	assert_share("hot set", hot, 0.8);
	assert_share("first hot", counts[0], 0.8 / 200);
	assert_share("last hot", counts[199], 0.8 / 200);
	assert_share("first cold", counts[200], 0.2 / 800);
	assert_share("last cold", counts[N - 1], 0.2 / 800);
	free(counts);
	g.hot_count = N; /* nothing is cold, or hot */
	free(draw_all(&g, N, N - 1));
	g.hot_count = 0;
	free(draw_all(&g, N, N - 1));
}

static void exponential_is_exponential(void **state)
{
	enum { N = 1000 };
	struct generator g;
	uint64_t *counts;
	double q, all, mean = 0, square = 0, sum = 0;

	(void)state;
	generator_init(&g, GENERATOR_EXPONENTIAL, 0, N);
	g.mean = N / 3.0;
	counts = draw_all(&g, N, N - 1);
	q = exp(-1 / g.mean);
	all = 1 - exp(-N / g.mean); /* farther ones are drawn again */
	for (int distance = 0; distance < N; distance++) {
		double p = pow(q, distance) * (1 - q) / all;
		if (distance % 100 == 0)
			assert_share("distance", counts[N - 1 - distance], p);
		mean += p * distance;
		square += p * distance * distance;
		sum += (double)counts[N - 1 - distance] * distance;
	}
	assert_mean("exponential", sum, mean, square - mean * mean);
	free(counts);
}

static void sequential_goes_round(void **state)
{
	enum { FIRST = 5, N = 100 };
	struct generator g;
	struct random r = random_stream(1, 1);

	(void)state;
	generator_init(&g, GENERATOR_SEQUENTIAL, FIRST, N);
	for (uint64_t i = 0; i < 3 * N; i++)
		assert_int_equal(generator_next(&g, &r, i, FIRST + N - 1), FIRST + i % N);
}

/* As YCSB's Utils.hash() gives. */
static void keys_are_those_of_ycsb(void **state)
{
	static const struct {
		uint64_t number;
		bool ordered;
		int padding;
		const char *key;
	} list[] = {
		{ 0, false, 1, "user6284781860667377211" },
		{ 1, false, 1, "user8517097267634966620" },
		{ 2, false, 1, "user1820151046732198393" },
		{ 999, false, 1, "user2071219101098386137" },
		{ 123456789012, false, 1, "user2556987882972209844" },
		{ 0, false, 21, "user006284781860667377211" },
		{ 0, true, 1, "user0" },
		{ 0, true, 0, "user0" },
		{ 5, true, 8, "user00000005" },
		{ 123456789, true, 4, "user123456789" },
		{ UINT64_MAX, true, 1, "user18446744073709551615" },
	};
	char key[KEY_BYTES_MAX];

	(void)state;
	for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
		struct key_format format = { list[i].ordered, list[i].padding };
		size_t bytes = key_make(&format, list[i].number, key);
		assert_int_equal(bytes, strlen(list[i].key));
		assert_memory_equal(key, list[i].key, bytes);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(uniform_is_uniform),
		cmocka_unit_test(zeta_is_the_sum),
		cmocka_unit_test(resizing_is_the_same_as_anew),
		cmocka_unit_test(zipf_is_what_the_formula_gives),
		cmocka_unit_test(third_number_is_drawn_a_fifth_too_often),
		cmocka_unit_test(scrambled_zipfian_is_spread),
		cmocka_unit_test(records_not_there_are_drawn_again),
		cmocka_unit_test(latest_is_zipfian_from_the_newest),
		cmocka_unit_test(hotspot_is_hot),
		cmocka_unit_test(exponential_is_exponential),
		cmocka_unit_test(sequential_goes_round),
		cmocka_unit_test(keys_are_those_of_ycsb),
	};

	if (getenv("KVD_TEST_LONG") != NULL)
		draws = 10000000;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
