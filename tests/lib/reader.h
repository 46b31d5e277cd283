/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * reader.h -- libkvd's GET (client/get/get.c, as it is) on a table in this process or
 * in memory shared with it: a READ is a copy, word by word, in an order that a
 * seed chooses, and the words of a GET are sampled one at a time.
 *
 * Linked with client/get and client/cache, it takes the place of the rest of libkvd.
 */
#ifndef TESTS_LIB_READER_H
#define TESTS_LIB_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/kvd.h"
#include "server/table/table.h"

struct reader;

/* A session that has just connected; seed 0: words in one order, which is quicker.  Ends the
 * test on an error. */
struct reader *reader_new(const struct table *table, size_t mirror_bytes, uint64_t seed);
void reader_delete(struct reader *reader);

/* Begins a GET into `value`, or into memory of its own if that is NULL. */
void reader_begin(struct reader *reader, const void *key, size_t key_bytes, void *value,
		  size_t value_bytes_max);
/* Samples up to `words` words; false when the GET has ended. */
bool reader_step(struct reader *reader, unsigned words);

struct reader_result {
	int result;  /* KVD_*; KVD_EBUSY: it would ask the server */
	const void *value; /* the caller's memory, or the reader's own until the next GET */
	size_t value_bytes;
	uint64_t version;
};
struct reader_result reader_end(struct reader *reader);

/* All at once. */
struct reader_result reader_get(struct reader *reader, const void *key, size_t key_bytes,
				void *value, size_t value_bytes_max);

/* From now on one bit of the table reads wrong, the first `times` times. */
void reader_flip(struct reader *reader, uint64_t offset, unsigned bit, unsigned times);

/* A READ is one copy from now on, for tables that nobody changes meanwhile; and the table
 * ends at this many bytes. */
void reader_hurry(struct reader *reader, uint64_t table_bytes);

/* As if it were new, without what that costs. */
void reader_restart(struct reader *reader);

/* Its view of the index is as old as when that had so many buckets. */
void reader_forget(struct reader *reader, uint64_t buckets);

const struct kvd_counters *reader_counters(const struct reader *reader);

/* How often it READ of a worker's scratch: the copy of an item that is being overwritten,
 * the change that is under way, the transaction that is. */
struct reader_scratches {
	uint64_t items, changes, txns;
};
struct reader_scratches reader_scratches(const struct reader *reader);

#endif
