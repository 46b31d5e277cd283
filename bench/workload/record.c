/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/workload/record.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/kvd.h"

const char *const record_length_names[RECORD_LENGTHS + 1] = {
	[RECORD_CONSTANT] = "constant",
	[RECORD_UNIFORM] = "uniform",
	[RECORD_ZIPFIAN] = "zipfian",
	[RECORD_HISTOGRAM] = "histogram",
};

/* New fields begin anywhere in the first part of the pool, new records at one of
 * its cache lines. */
#define POOL_STARTS (1u << 18)
#define LINE_BYTES 64u

/* --------------------------------------------------------------- the format */

static int read_shares(struct record_format *f, FILE *file, struct err *err)
{
	uint64_t length, share, sum = 0;

	if (fscanf(file, "BlockSize %" SCNu64, &f->block_bytes) != 1 || f->block_bytes == 0)
		return err_set(err, -1, "%s: does not begin with a line 'BlockSize N'",
			       f->histogram_path);
	while (fscanf(file, "%" SCNu64 " %" SCNu64, &length, &share) == 2) {
		uint64_t *grown = realloc(f->shares, (f->share_count + 1) * sizeof *grown);
		if (grown == NULL)
			return err_set(err, -1, "out of memory");
		f->shares = grown;
		sum += share;
		f->shares[f->share_count++] = sum;
	}
	if (sum == 0 || !feof(file))
		return err_set(err, -1, "%s: not lines of 'LENGTH COUNT' with a count above 0",
			       f->histogram_path);
	f->field_bytes = f->share_count * f->block_bytes;
	return 0;
}

static int read_histogram(struct record_format *f, struct err *err)
{
	FILE *file = fopen(f->histogram_path, "re");
	int rc;

	if (file == NULL)
		return err_set_errno(err, -1, errno, "cannot open the field length histogram %s",
				     f->histogram_path);
	rc = read_shares(f, file, err);
	fclose(file);
	return rc;
}

static int fill_pool(struct record_format *f, struct err *err)
{
	static const char letters[64] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
					"0123456789-_";
	struct random r = random_stream(random_base(1), 0);

	f->pool_bytes = POOL_STARTS + f->bytes_max;
	f->pool_bytes += -f->pool_bytes % LINE_BYTES;
	f->pool = aligned_alloc(LINE_BYTES, f->pool_bytes);
	if (f->pool == NULL)
		return err_set(err, -1, "out of memory for values of %" PRIu64 " bytes",
			       f->bytes_max);
	for (uint64_t i = 0; i < f->pool_bytes; i++)
		f->pool[i] = letters[random_next(&r) & 63];
	return 0;
}

int record_format_init(struct record_format *f, struct err *err)
{
	if (f->lengths == RECORD_HISTOGRAM && read_histogram(f, err) < 0)
		goto fail;
	if (f->lengths == RECORD_ZIPFIAN)
		zipf_init(&f->zipf, f->field_bytes - f->field_bytes_min + 1, 0);
	if (f->field_bytes > KVD_VALUE_BYTES_MAX / f->field_count) {
		err_set(err, -1, "fieldcount times fieldlength is over %llu bytes, the most that "
				 "a value can have", KVD_VALUE_BYTES_MAX);
		goto fail;
	}
	f->bytes_max = f->field_bytes * f->field_count;
	if (fill_pool(f, err) < 0)
		goto fail;
	return 0;
fail:
	record_format_clear(f);
	return -1;
}

void record_format_clear(struct record_format *f)
{
	free(f->pool);
	free(f->shares);
	f->pool = NULL;
	f->shares = NULL;
	f->share_count = 0;
}

/* ------------------------------------------------------------------- lengths */

static uint64_t histogram_length(const struct record_format *f, struct random *r)
{
	uint64_t at = random_below(r, f->shares[f->share_count - 1]);
	uint64_t low = 0, high = f->share_count - 1;

	while (low < high) {
		uint64_t middle = (low + high) / 2;
		if (f->shares[middle] > at)
			high = middle;
		else
			low = middle + 1;
	}
	return (low + 1) * f->block_bytes;
}

static uint64_t field_length(const struct record_format *f, struct random *r)
{
	switch (f->lengths) {
	case RECORD_UNIFORM:
		return f->field_bytes_min +
		       random_below(r, f->field_bytes - f->field_bytes_min + 1);
	case RECORD_ZIPFIAN:
		return f->field_bytes_min + zipf_next(&f->zipf, r);
	case RECORD_HISTOGRAM:
		return histogram_length(f, r);
	default:
		return f->field_bytes;
	}
}

static uint64_t record_length(const struct record_format *f, struct random *r)
{
	uint64_t bytes = 0;

	if (f->lengths == RECORD_CONSTANT)
		return f->bytes_max;
	for (uint32_t i = 0; i < f->field_count; i++)
		bytes += field_length(f, r);
	return bytes;
}

/* ----------------------------------------------------------------- integrity */

/*
 * YCSB's text of a field: KEY ":" NAME, and then, as often as needed, ":" and
 * Java's hashCode() of all that stands so far.
 */
struct field_text {
	char *out; /* written to, or compared with */
	size_t bytes, room;
	uint32_t hash;
};

static inline void add_char(struct field_text *t, char c)
{
	t->hash = 31 * t->hash + (unsigned char)c;
	if (t->bytes < t->room)
		t->out[t->bytes++] = c;
}

static void add_text(struct field_text *t, const char *text, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		add_char(t, text[i]);
}

static void add_number(struct field_text *t, int64_t number)
{
	char digits[12];
	size_t at = sizeof digits;
	uint64_t left = (uint64_t)(number < 0 ? -number : number);

	do {
		digits[--at] = (char)('0' + left % 10);
		left /= 10;
	} while (left != 0);
	if (number < 0)
		digits[--at] = '-';
	add_text(t, digits + at, sizeof digits - at);
}

static void make_field(const struct record_format *f, struct record_key key, uint32_t field,
		       char *out)
{
	struct field_text t = { .out = out, .room = f->field_bytes };

	add_text(&t, key.text, key.bytes);
	add_char(&t, ':');
	add_text(&t, f->prefix, strlen(f->prefix));
	add_number(&t, field);
	while (t.bytes < t.room) {
		add_char(&t, ':');
		/* The hash of what stands before the number, colon included. */
		add_number(&t, (int32_t)t.hash);
	}
}

static void make_record(const struct record_format *f, struct record_key key, char *buf)
{
	for (uint32_t i = 0; i < f->field_count; i++)
		make_field(f, key, i, buf + i * f->field_bytes);
}

bool record_check(const struct record_format *f, struct record_key key, const char *value,
		  size_t bytes)
{
	char small[1024];
	char *field = f->field_bytes <= sizeof small ? small : malloc(f->field_bytes);
	bool same = bytes == f->bytes_max && field != NULL;

	for (uint32_t i = 0; same && i < f->field_count; i++) {
		make_field(f, key, i, field);
		same = memcmp(field, value + i * f->field_bytes, f->field_bytes) == 0;
	}
	if (field != small)
		free(field);
	return same;
}

/* -------------------------------------------------------------------- values */

static const char *random_text(const struct record_format *f, struct random *r)
{
	return f->pool + random_below(r, POOL_STARTS);
}

/* What a record's text was when it was new: the last digits of the key decide. */
static const char *first_text(const struct record_format *f, struct record_key key)
{
	uint64_t digits = 0;
	size_t bytes = key.bytes < sizeof digits ? key.bytes : sizeof digits;

	memcpy(&digits, key.text + key.bytes - bytes, bytes);
	return f->pool + random_mix(digits) % POOL_STARTS / LINE_BYTES * LINE_BYTES;
}

size_t record_insert(const struct record_format *f, struct record_key key, struct random *r,
		     char *buf, const char **value)
{
	if (f->integrity) {
		make_record(f, key, buf);
		*value = buf;
		return f->bytes_max;
	}
	*value = first_text(f, key);
	return record_length(f, r);
}

/* One field new, the others as they stand in buf. */
static void renew_field(const struct record_format *f, struct random *r, char *buf)
{
	uint64_t field = random_below(r, f->field_count);

	memcpy(buf + field * f->field_bytes, random_text(f, r), f->field_bytes);
}

static size_t renew_all(const struct record_format *f, struct random *r, const char **value)
{
	*value = random_text(f, r);
	return record_length(f, r);
}

size_t record_update(const struct record_format *f, struct record_key key, struct random *r,
		     char *buf, const char **value)
{
	if (f->integrity)
		return record_insert(f, key, r, buf, value);
	if (f->write_all || f->field_count == 1 || f->lengths != RECORD_CONSTANT)
		return renew_all(f, r, value);
	memcpy(buf, first_text(f, key), f->bytes_max);
	renew_field(f, r, buf);
	*value = buf;
	return f->bytes_max;
}

size_t record_modify(const struct record_format *f, struct record_key key, struct random *r,
		     char *buf, size_t bytes, const char **value)
{
	if (f->integrity)
		return record_insert(f, key, r, buf, value);
	if (f->write_all || bytes != f->bytes_max || f->lengths != RECORD_CONSTANT)
		return renew_all(f, r, value);
	renew_field(f, r, buf);
	*value = buf;
	return bytes;
}

void record_stamp(char *field, size_t bytes, uint64_t number)
{
	for (size_t i = 0; i < bytes && i < 11; i++) {
		field[i] = (char)('0' + (number & 63)); /* '0' to 'o' */
		number >>= 6;
	}
}
