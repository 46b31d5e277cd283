/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bytes.h -- a table as a client may READ it, written by hand, and a GET on it: for tests
 * of lookup, item and pending, which are functions of the bytes.
 *
 * It says that it is as large as a table may be, so that fingerprints are short and keys
 * can be found that share one; the first BYTES_ALL are there.
 */
#ifndef TESTS_LIB_BYTES_H
#define TESTS_LIB_BYTES_H

#include "client/get/state.h"

#define BYTES_ALL (1u << 20)
#define BYTES_SEGMENT (64u * LAYOUT_BUCKET_BYTES)
#define BYTES_SEGMENTS 2u
#define BYTES_WORKERS 2u
#define BYTES_STRIPES 64u
#define BYTES_ROOM 100000u
#define BYTES_KEY 64u

struct bytes {
	uint8_t *base;
	struct remote_table table;
	_Atomic uint64_t buckets;
	struct op_memory memory;
	struct kvd_counters counters;
	struct pieces value;
	uint8_t room[BYTES_ROOM]; /* the caller's memory */
	uint8_t key[BYTES_KEY];
	struct get get;
};

/* What an item says. */
struct bytes_item {
	uint64_t unit; /* where it is */
	const char *key;
	const char *value; /* its text, again and again */
	size_t value_bytes;
	enum layout_kind kind;
	uint64_t version;
	uint64_t expiry_ms;
	unsigned worker;
};

/* A table of BYTES_SEGMENTS without an entry, of 64 buckets, with a mirror of its own. */
struct bytes *bytes_new(void);
void bytes_delete(struct bytes *b);

/* Begins a GET of the key into `room` bytes of b->room, as get.c does. */
struct get *bytes_get(struct bytes *b, const char *key, size_t room);
/* Writes an item; the entry that names it, without epoch. */
uint64_t bytes_item(struct bytes *b, const struct bytes_item *item);
/* The same into a worker's scratch, as the old one of `item`. */
void bytes_old_item(struct bytes *b, const struct bytes_item *item);
struct layout_scratch *bytes_scratch(const struct bytes *b, unsigned worker);

uint64_t *bytes_bucket(const struct bytes *b, uint64_t bucket);
/* A word of a bucket; its epoch stays. */
void bytes_enter(struct bytes *b, uint64_t bucket, unsigned slot, uint64_t word);
/* The epoch of its words up to `slots`; the others' stay. */
void bytes_epoch(struct bytes *b, uint64_t bucket, unsigned epoch, unsigned slots);

/* READs what a step wants; fails the test if that is no READ, or of what is not there. */
void bytes_read(struct bytes *b, enum step step);

/* A key beginning with `begin` of which `is` says true, to BYTES_KEY bytes. */
void bytes_find_key(char *key, const char *begin, bool (*is)(struct hash hash, const void *arg),
		    const void *arg);
/* One: its fingerprint is *(const uint64_t *)fp. */
bool bytes_has_fp(struct hash hash, const void *fp);

#endif
