/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * message.h -- the bytes of messages between members (doc/cluster.md, "On the wire").
 *
 * A message is a struct link_header and `bytes` bytes of body, LINK_BYTES_MAX together.  All
 * integers are little-endian.  A body is `count` of what its kind has; each begins at a
 * multiple of 8.  What comes off the wire is checked by link_open() and link_next_*(): never
 * asserted, and read only where they say that it is.
 *
 * No I/O, no allocation; any thread.
 */
#ifndef SERVER_CLUSTER_LINK_MESSAGE_H
#define SERVER_CLUSTER_LINK_MESSAGE_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/cluster/link/prove.h"

#define LINK_BYTES_MAX 32768u /* a transaction of the longest keys has room */
#define LINK_COUNT_MAX 1024u
#define LINK_STRIPES_MAX 64u /* of a transaction */

/* What belongs to the cluster's threads has the numbers of enum member_message_kind. */
enum link_kind {
	LINK_HEARTBEAT = 1, /* one struct link_pulse; then, before it hands over, a uint64_t: the
			     * incarnation of who is next, which an older member passes over */
	LINK_PROMISE,       /* one struct link_pulse; `visible` is 0 */
	LINK_OPEN,          /* struct link_entry, without fates */
	LINK_BEGIN,         /* the same, with fates */
	LINK_BEGUN,
	LINK_JOIN,
	LINK_JOINED,
	LINK_RECORDS,       /* struct link_record */
	LINK_ACKS,          /* uint64_t: numbers */
	LINK_HELLO,         /* one struct link_hello (prove.h), before all others */
	LINK_ANSWER,        /* the same */
	LINK_KINDS
};

struct link_header {
	uint16_t kind;
	uint16_t count;
	uint32_t bytes; /* of the body */
	uint64_t epoch;
	uint64_t from, to; /* incarnations */
	uint64_t number;   /* as struct member_message; of others: 0 */
};
static_assert(sizeof(struct link_header) == 40, "link");

struct link_pulse {
	uint64_t visible;
	uint64_t clock_ms; /* the sender's, of expiry */
};
static_assert(sizeof(struct link_pulse) == 16, "link");

struct link_entry {
	uint32_t stripe;
	uint32_t fate; /* enum records_fate */
	uint64_t version;
	uint64_t reign;
};
static_assert(sizeof(struct link_entry) == 24, "link");

enum link_record_flag { LINK_COPY = 1 };

/* Behind it: stripes, padding to 8, items. */
struct link_record {
	uint32_t bytes; /* with all of that, and padding */
	uint16_t flags;
	uint16_t stripes, items;
	uint16_t unused[3];
	uint64_t number;
	uint64_t version;
};
static_assert(sizeof(struct link_record) == 32, "link");

enum link_item_flag {
	LINK_DELETED = 1, /* no value */
	LINK_FATE = 2,    /* a completion record: the key is the client's connection, the value a
			   * struct link_fate */
	LINK_PLACE = 4,   /* the value is a struct link_place: too long to be here */
};

/* Behind it: key, value, padding to 8. */
struct link_item {
	uint32_t value_bytes;
	uint16_t key_bytes;
	uint16_t flags;
	uint64_t version;
	uint64_t left_ms; /* 0: no expiry */
	uint32_t client_flags;
	uint32_t signs;   /* LAYOUT_STALE, LAYOUT_CLAIMED */
};
static_assert(sizeof(struct link_item) == 32, "link");

struct link_fate {
	uint64_t secret;
	uint64_t version, value_bytes;
	uint32_t request;
	uint32_t kept;
};
static_assert(sizeof(struct link_fate) == 32, "link");

struct link_place {
	uint64_t address;
	uint32_t rkey;
	uint32_t bytes;
	uint64_t checksum;
};
static_assert(sizeof(struct link_place) == 24, "link");

/* -------------------------------------------------------------------- writing */
/* Into memory of LINK_BYTES_MAX, aligned to 8.  What has no room sets is_full, writes nothing. */
struct link_writer {
	uint8_t *memory;
	uint32_t length;
	struct link_header *header;
	struct link_record *record; /* the one that is under way */
	bool is_full;
};

void link_begin(struct link_writer *w, void *memory, enum link_kind kind, uint64_t epoch,
		uint64_t from, uint64_t to, uint64_t number);
void link_put_pulse(struct link_writer *w, const struct link_pulse *pulse);
void link_put_entry(struct link_writer *w, const struct link_entry *entry);
void link_put_number(struct link_writer *w, uint64_t number);
void link_put_hello(struct link_writer *w, const struct link_hello *hello);
/*
 * A record: its beginning, its items, its end.  link_end_record(): 0, or -1 if it had no room:
 * then it is not in the message, which is as it was before it.
 */
void link_begin_record(struct link_writer *w, uint16_t flags, uint64_t number, uint64_t version,
		       const uint32_t *stripes, uint16_t count);
void link_put_item(struct link_writer *w, const struct link_item *item, const void *key,
		   const void *value);
int link_end_record(struct link_writer *w);
/* What to SEND. */
uint32_t link_length(const struct link_writer *w);

/* -------------------------------------------------------------------- reading */
struct link_reader {
	const struct link_header *header;
	const uint8_t *at, *end;
	unsigned left; /* of header->count */
};

/* 0; -1: not a message, and `why` says what is wrong with it. */
int link_open(struct link_reader *r, const void *memory, size_t length, const char **why);
/* The next one; NULL: there is no more, or, with left > 0, the body is not what it says. */
const struct link_pulse *link_next_pulse(struct link_reader *r);
const struct link_entry *link_next_entry(struct link_reader *r);
const uint64_t *link_next_number(struct link_reader *r);
const struct link_hello *link_next_hello(struct link_reader *r);

/* A record, whole: all of its stripes and items are there. */
struct link_reader_record {
	const struct link_record *record;
	const uint32_t *stripes;
	const uint8_t *at, *end;
	unsigned left; /* items */
};
bool link_next_record(struct link_reader *r, struct link_reader_record *record);
/* NULL: no more.  Key and value are behind it. */
const struct link_item *link_next_item(struct link_reader_record *record, const uint8_t **key,
				       const uint8_t **value);

#endif
