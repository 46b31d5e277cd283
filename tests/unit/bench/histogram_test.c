/* SPDX-License-Identifier: BSD-2-Clause */
/* Histograms: error, percentiles, merging; the HdrHistogram log line. */
#include <endian.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "bench/report/hdrlog.h"
#include "bench/measure/histogram.h"
#include "bench/workload/random.h"

static void error_is_below_one_percent(void **state)
{
	(void)state;
	for (uint64_t ns = 0; ns <= HISTOGRAM_NS_MAX; ns += 1 + ns / 1000) {
		unsigned bucket = histogram_bucket_of(ns);
		uint64_t first = histogram_bucket_first(bucket);
		uint64_t last = histogram_bucket_last(bucket);
		assert_true(bucket < HISTOGRAM_BUCKETS);
		assert_true(first <= ns && ns <= last);
		assert_true((double)(last - first) <= 0.01 * (double)ns);
	}
	assert_int_equal(histogram_bucket_of(UINT64_MAX), HISTOGRAM_BUCKETS - 1);
}

static void buckets_are_seamless(void **state)
{
	(void)state;
	assert_int_equal(histogram_bucket_first(0), 0);
	for (unsigned i = 0; i + 1 < HISTOGRAM_BUCKETS; i++)
		assert_int_equal(histogram_bucket_last(i) + 1, histogram_bucket_first(i + 1));
}

static int ascending(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void percentiles_are_those_of_the_values(void **state)
{
	enum { N = 100000 };
	static const double percentiles[] = { 0, 1, 50, 90, 95, 99, 99.9, 99.99, 100 };
	uint64_t *values = malloc(N * sizeof *values), sum = 0;
	struct histogram h;
	struct random r = random_stream(random_base(3), 0);

	(void)state;
	histogram_clear(&h);
	assert_int_equal(histogram_percentile(&h, 50), 0);
	for (int i = 0; i < N; i++) {
		values[i] = random_next(&r) >> (22 + random_below(&r, 40));
		sum += values[i];
		histogram_record(&h, values[i]);
	}
	qsort(values, N, sizeof *values, ascending);
	for (size_t i = 0; i < sizeof percentiles / sizeof *percentiles; i++) {
		int rank = (int)(percentiles[i] / 100 * N + 0.5);
		uint64_t exact = values[rank > 0 ? rank - 1 : 0];
		uint64_t got = histogram_percentile(&h, percentiles[i]);
		assert_true(got >= exact);
		assert_true((double)(got - exact) <= 0.01 * (double)exact);
	}
	assert_int_equal(h.count, N);
	assert_int_equal(h.min_ns, values[0]);
	assert_int_equal(h.max_ns, values[N - 1]);
	assert_int_equal(histogram_percentile(&h, 100), values[N - 1]);
	assert_true(histogram_mean(&h) == (double)sum / N);
	free(values);
}

static void beyond_the_end_is_kept(void **state)
{
	struct histogram h;

	(void)state;
	histogram_clear(&h);
	histogram_record(&h, UINT64_MAX / 2);
	assert_int_equal(h.max_ns, UINT64_MAX / 2);
	assert_int_equal(histogram_percentile(&h, 99), UINT64_MAX / 2);
}

static void merging_and_subtracting(void **state)
{
	struct histogram a, b, all, rest;

	(void)state;
	histogram_clear(&a);
	histogram_clear(&b);
	histogram_clear(&all);
	for (uint64_t i = 1; i <= 1000; i++) {
		histogram_record(&a, i);
		histogram_record(&b, 1000 * i);
	}
	histogram_merge(&all, &a);
	histogram_merge(&all, &b);
	assert_int_equal(all.count, 2000);
	assert_int_equal(all.sum_ns, a.sum_ns + b.sum_ns);
	assert_int_equal(all.min_ns, 1);
	assert_int_equal(all.max_ns, 1000000);
	histogram_difference(&rest, &all, &a);
	assert_int_equal(rest.count, 1000);
	assert_int_equal(rest.sum_ns, b.sum_ns);
	assert_memory_equal(rest.buckets, b.buckets, sizeof b.buckets);
	assert_int_equal(rest.max_ns, 1000000);
	assert_true(rest.min_ns >= 990 && rest.min_ns <= 1000);
	histogram_difference(&rest, &all, &all);
	assert_int_equal(rest.count, 0);
	assert_int_equal(rest.max_ns, 0);
}

/* ------------------------------------------------------------------- the log */

static size_t from_base64(const char *text, uint8_t *out)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				     "0123456789+/";
	size_t bytes = 0;

	for (; *text != '\0'; text += 4) {
		uint32_t four = 0;
		int pads = (text[2] == '=') + (text[3] == '=');
		for (int i = 0; i < 4; i++) {
			const char *at = strchr(digits, text[i]);
			four = four << 6 | (text[i] == '=' ? 0 : (uint32_t)(at - digits));
		}
		out[bytes++] = (uint8_t)(four >> 16);
		if (pads < 2)
			out[bytes++] = (uint8_t)(four >> 8);
		if (pads < 1)
			out[bytes++] = (uint8_t)four;
	}
	return bytes;
}

static uint32_t get32(const uint8_t *at)
{
	uint32_t big;

	memcpy(&big, at, sizeof big);
	return be32toh(big);
}

/* Stored blocks only: what hdrlog writes. */
static size_t inflate_stored(const uint8_t *in, uint8_t *out)
{
	size_t bytes = 0;
	int last;

	assert_int_equal((in[0] << 8 | in[1]) % 31, 0);
	assert_int_equal(in[0] & 15, 8);
	in += 2;
	do {
		unsigned length = in[1] | (unsigned)in[2] << 8;
		assert_int_equal(length ^ 0xffff, in[3] | (unsigned)in[4] << 8);
		last = in[0];
		memcpy(out + bytes, in + 5, length);
		bytes += length;
		in += 5 + length;
	} while (!last);
	return bytes;
}

static const uint8_t *get_signed(const uint8_t *at, int64_t *value)
{
	uint64_t word = 0;
	unsigned shift = 0;

	do
		word |= (uint64_t)(*at & 127) << shift;
	while (shift += 7, *at++ & 128);
	*value = (int64_t)(word >> 1) ^ -(int64_t)(word & 1);
	return at;
}

static void check_line(const struct histogram *h)
{
	static uint8_t packed[1 << 18], plain[1 << 18];
	static struct histogram back;
	const uint8_t *at, *end;
	unsigned bucket = 0;
	size_t bytes;
	char *text;

	histogram_clear(&back);
	text = hdrlog_encode(h);
	bytes = from_base64(text, packed);
	assert_memory_equal(text, "HISTFAAA", 8); /* as every line of that version begins */
	free(text);
	assert_int_equal(get32(packed), 0x1c849314);
	assert_int_equal(get32(packed + 4), bytes - 8);
	bytes = inflate_stored(packed + 8, plain);
	assert_int_equal(get32(plain), 0x1c849313);
	assert_int_equal(get32(plain + 4), bytes - 40);
	assert_int_equal(get32(plain + 12), 2);
	for (at = plain + 40, end = plain + bytes; at < end;) {
		int64_t value;
		at = get_signed(at, &value);
		if (value < 0)
			bucket += (unsigned)-value;
		else
			back.buckets[bucket++] = (uint64_t)value;
	}
	assert_memory_equal(back.buckets, h->buckets, sizeof h->buckets);
}

static void a_line_of_the_log_decodes(void **state)
{
	static struct histogram h;
	struct random r = random_stream(random_base(9), 0);

	(void)state;
	histogram_clear(&h);
	histogram_record(&h, 5); /* few values: long runs of empty buckets */
	check_line(&h);
	histogram_record(&h, 0);
	histogram_record(&h, 7);
	histogram_record(&h, 1000000000);
	histogram_record(&h, HISTOGRAM_NS_MAX);
	check_line(&h);
	for (int i = 0; i < 200000; i++)
		histogram_record(&h, random_next(&r) >> (22 + random_below(&r, 40)));
	check_line(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(error_is_below_one_percent),
		cmocka_unit_test(buckets_are_seamless),
		cmocka_unit_test(percentiles_are_those_of_the_values),
		cmocka_unit_test(beyond_the_end_is_kept),
		cmocka_unit_test(merging_and_subtracting),
		cmocka_unit_test(a_line_of_the_log_decodes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
