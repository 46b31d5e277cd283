/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/report/hdrlog.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

#include "bench/format/outfile.h"

#define COOKIE_ENCODED 0x1c849313u    /* V2, counts of variable length */
#define COOKIE_COMPRESSED 0x1c849314u
#define HEADER_BYTES 40u
#define COUNT_BYTES_MAX 9u
#define BLOCK_BYTES_MAX 65535u /* of a stored block of deflate */

struct hdrlog {
	struct outfile out;
};

/* A buffer that is large enough for whatever is put into it. */
struct bytes {
	uint8_t *at;
	size_t count;
};

static void put(struct bytes *b, const void *data, size_t count)
{
	memcpy(b->at + b->count, data, count);
	b->count += count;
}

static void put32(struct bytes *b, uint32_t value)
{
	uint32_t big = htobe32(value);
	put(b, &big, sizeof big);
}

static void put64(struct bytes *b, uint64_t value)
{
	uint64_t big = htobe64(value);
	put(b, &big, sizeof big);
}

/* ZigZag, then seven bits to a byte, low ones first; the ninth byte is whole. */
static void put_signed(struct bytes *b, int64_t value)
{
	uint64_t left = ((uint64_t)value << 1) ^ (value < 0 ? UINT64_MAX : 0);

	for (unsigned i = 1; left > 127 && i < COUNT_BYTES_MAX; i++) {
		b->at[b->count++] = (uint8_t)(left | 128);
		left >>= 7;
	}
	b->at[b->count++] = (uint8_t)left;
}

/* Counts in order; a run of zeros as its length, negative. */
static void put_counts(struct bytes *b, const struct histogram *h)
{
	unsigned end = HISTOGRAM_BUCKETS;
	int64_t zeros = 0;

	while (end > 0 && h->buckets[end - 1] == 0)
		end--;
	for (unsigned i = 0; i < end; i++) {
		if (h->buckets[i] == 0) {
			zeros++;
			continue;
		}
		if (zeros > 0)
			put_signed(b, -zeros);
		zeros = 0;
		put_signed(b, (int64_t)h->buckets[i]);
	}
}

static void put_histogram(struct bytes *b, const struct histogram *h)
{
	struct bytes counts = { b->at + b->count + HEADER_BYTES, 0 };

	put_counts(&counts, h);
	put32(b, COOKIE_ENCODED);
	put32(b, (uint32_t)counts.count);
	put32(b, 0); /* normalizing offset */
	put32(b, HISTOGRAM_SIGNIFICANT_DIGITS);
	put64(b, 1); /* the least value */
	put64(b, HISTOGRAM_NS_MAX);
	put64(b, 0x3ff0000000000000u); /* the double 1.0: conversion ratio */
	b->count += counts.count;
}

static uint32_t adler32(const uint8_t *data, size_t count)
{
	uint32_t a = 1, b = 0;

	for (size_t i = 0; i < count; i++) {
		a = (a + data[i]) % 65521;
		b = (b + a) % 65521;
	}
	return b << 16 | a;
}

static void put_zlib(struct bytes *b, const uint8_t *data, size_t count)
{
	uint32_t check = adler32(data, count);

	put(b, "\x78\x01", 2);
	do {
		uint16_t n = (uint16_t)(count < BLOCK_BYTES_MAX ? count : BLOCK_BYTES_MAX);
		uint16_t length = htole16(n), inverse = htole16((uint16_t)~n);
		count -= n;
		put(b, count == 0 ? "\1" : "\0", 1);
		put(b, &length, 2);
		put(b, &inverse, 2);
		put(b, data, n);
		data += n;
	} while (count > 0);
	put32(b, check);
}

static char *base64(const uint8_t *data, size_t count)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				     "0123456789+/";
	char *text = malloc((count + 2) / 3 * 4 + 1), *out = text;

	if (text == NULL)
		return NULL;
	for (size_t i = 0; i < count; i += 3) {
		uint32_t three = (uint32_t)data[i] << 16;
		three |= i + 1 < count ? (uint32_t)data[i + 1] << 8 : 0;
		three |= i + 2 < count ? data[i + 2] : 0;
		*out++ = digits[three >> 18];
		*out++ = digits[three >> 12 & 63];
		*out++ = i + 1 < count ? digits[three >> 6 & 63] : '=';
		*out++ = i + 2 < count ? digits[three & 63] : '=';
	}
	*out = '\0';
	return text;
}

char *hdrlog_encode(const struct histogram *h)
{
	size_t most = HEADER_BYTES + COUNT_BYTES_MAX * HISTOGRAM_BUCKETS;
	/* Room for the blocks' heads and the check sum. */
	struct bytes plain = { malloc(most), 0 }, packed = { malloc(most + 64), 8 };
	char *text = NULL;

	if (plain.at != NULL && packed.at != NULL) {
		struct bytes head = { packed.at, 0 };
		put_histogram(&plain, h);
		put_zlib(&packed, plain.at, plain.count);
		put32(&head, COOKIE_COMPRESSED);
		put32(&head, (uint32_t)(packed.count - 8));
		text = base64(packed.at, packed.count);
	}
	free(plain.at);
	free(packed.at);
	return text;
}

int hdrlog_new(const char *path, struct hdrlog **log, struct err *err)
{
	struct hdrlog *l = calloc(1, sizeof *l);
	struct timeval now;
	char date[64];
	struct tm tm;

	if (l == NULL)
		return err_set(err, -1, "out of memory");
	if (outfile_open(&l->out, path, err) < 0) {
		free(l);
		return -1;
	}
	gettimeofday(&now, NULL);
	strftime(date, sizeof date, "%a %b %d %H:%M:%S %Z %Y", localtime_r(&now.tv_sec, &tm));
	fprintf(l->out.file, "#[Latencies of kvbench, in nanoseconds]\n"
			 "#[Histogram log format version 1.3]\n"
			 "#[StartTime: %lld.%03ld (seconds since epoch), %s]\n"
			 "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\","
			 "\"HdrHistogram_compressed_histogram\"\n",
		(long long)now.tv_sec, (long)now.tv_usec / 1000, date);
	*log = l;
	return 0;
}

void hdrlog_tick(struct hdrlog *l, const struct driver_tick *t)
{
	for (int kind = 0; kind < OP_KINDS; kind++) {
		const struct histogram *h = t->interval[kind];
		char *text = h->count > 0 ? hdrlog_encode(h) : NULL;
		if (text == NULL)
			continue;
		/* The format's unit of the greatest value is the millisecond. */
		fprintf(l->out.file, "Tag=%s,%.3f,%.3f,%.3f,%s\n", op_names[kind], t->from_seconds,
			t->to_seconds - t->from_seconds, (double)h->max_ns / 1e6, text);
		free(text);
	}
}

int hdrlog_delete(struct hdrlog **log, struct err *err)
{
	struct hdrlog *l = *log;
	int rc;

	if (l == NULL)
		return 0;
	rc = outfile_close(&l->out, err);
	free(l);
	*log = NULL;
	return rc;
}
