/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * record.h -- the value of a key: its fields one after another, without names.
 *
 * A new record and the fields of an update are random printable text.  Those of
 * a new record depend on the key; those of an update on the operation too.  With
 * data integrity, each field is YCSB's function of the key and the field's name,
 * whoever writes it, and every read can be checked.
 *
 * A format is made once and then read by any thread.
 */
#ifndef BENCH_WORKLOAD_RECORD_H
#define BENCH_WORKLOAD_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/workload/random.h"
#include "bench/workload/zipf.h"
#include "common/err.h"

#define RECORD_FIELDS_MAX 10000
#define RECORD_PREFIX_BYTES_MAX 64

enum record_lengths {
	RECORD_CONSTANT,
	RECORD_UNIFORM,
	RECORD_ZIPFIAN,   /* short fields more often */
	RECORD_HISTOGRAM, /* as a file says */
	RECORD_LENGTHS
};

extern const char *const record_length_names[RECORD_LENGTHS + 1];

struct record_format {
	/* Settings */
	uint32_t field_count;
	uint64_t field_bytes;     /* the most, but for RECORD_HISTOGRAM */
	uint64_t field_bytes_min; /* RECORD_UNIFORM, RECORD_ZIPFIAN */
	enum record_lengths lengths;
	const char *histogram_path;
	const char *prefix; /* of the fields' names */
	bool integrity;
	bool write_all; /* an update writes all fields, not one */

	/* Made by record_format_init() */
	uint64_t bytes_max; /* of a record */
	char *pool;         /* random text */
	uint64_t pool_bytes;
	struct zipf zipf;
	uint64_t *shares; /* RECORD_HISTOGRAM: running sums */
	uint64_t share_count;
	uint64_t block_bytes;
};

/* Call with the settings set and everything else zero.  0, or -1 with err. */
int record_format_init(struct record_format *f, struct err *err);
void record_format_clear(struct record_format *f);

struct record_key {
	const char *text;
	size_t bytes;
};

/*
 * The value that an insert, an update or the second half of a read-modify-write
 * puts.  Sets *value to `buf` (bytes_max bytes) or into the format, and returns
 * its length.  kvd replaces values whole: an update of one field puts the record
 * as it was when new with one field renewed; a modification renews one field of
 * the `bytes` that were read into buf.  Where fields differ in length, nobody can
 * tell them apart in a value, and all are renewed.
 */
size_t record_insert(const struct record_format *f, struct record_key key, struct random *r,
		     char *buf, const char **value);
size_t record_update(const struct record_format *f, struct record_key key, struct random *r,
		     char *buf, const char **value);
size_t record_modify(const struct record_format *f, struct record_key key, struct random *r,
		     char *buf, size_t bytes, const char **value);

/* With data integrity: whether a value is what the key's must be. */
bool record_check(const struct record_format *f, struct record_key key, const char *value,
		  size_t bytes);

/* Writes the number of an operation over the beginning of a field that it put,
 * so that no two operations put the same value: up to 11 bytes. */
void record_stamp(char *field, size_t bytes, uint64_t number);

#endif
