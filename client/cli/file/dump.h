/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dump.h -- the file of kvcli export and import (EXPORTS in kvcli(1)): a head,
 * blocks of records with a checksum each, and a last block without records.  All
 * integers are little-endian.
 *
 * A block is read whole and checked before any record of it is told.
 */
#ifndef CLIENT_CLI_FILE_DUMP_H
#define CLIENT_CLI_FILE_DUMP_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/cli/file/buffer.h"
#include "client/cli/file/dump_item.h"

#define DUMP_MAGIC "kvddump1"
#define DUMP_BLOCK_MAGIC 0x6b6c622eu /* ".blk" */
/* A block ends when it has so many bytes: one record more than that at the most. */
#define DUMP_BLOCK_BYTES (1u << 20)

struct dump_head {
	char magic[8];
	uint64_t created_ms; /* Unix time */
};
static_assert(sizeof(struct dump_head) == 16, "dump");

struct dump_block {
	uint32_t magic;
	uint32_t records;  /* 0: the last block */
	uint64_t first;    /* number of its first record; of the last block: how many in all */
	uint64_t bytes;    /* of all its records */
	uint64_t checksum; /* XXH3-64 of the 24 bytes before and of the records */
};
static_assert(sizeof(struct dump_block) == 32, "dump");

/* Then the key, then the value; not aligned. */
struct dump_record {
	uint16_t key_bytes;
	uint16_t signs; /* KVD_STALE, KVD_CLAIMED */
	uint32_t flags;
	uint64_t value_bytes;
	uint64_t ttl_ms; /* left when it was read; 0: for ever */
};
static_assert(sizeof(struct dump_record) == 24, "dump");

/* ------------------------------------------------------------------ writing */

struct dump_writer {
	int fd;
	bool json;
	struct cli_buffer buf;
	uint32_t records; /* of this block */
	uint64_t first;   /* records before it */
	uint64_t bytes;   /* written */
};

/* Each 0 or an errno value; EPIPE if the reader went away. */
int dump_begin(struct dump_writer *writer, int fd, bool json);
int dump_add(struct dump_writer *writer, const struct dump_item *item);
/* Without it the file is one that was cut off. */
int dump_end(struct dump_writer *writer);
void dump_free(struct dump_writer *writer);

/* ------------------------------------------------------------------ reading */

enum dump_got {
	DUMP_RECORD,
	DUMP_END,
	DUMP_CUT,      /* the file ends before its last block */
	DUMP_DAMAGED,  /* `why` says what is wrong */
	DUMP_FOREIGN,  /* it is no export; `why` says more */
	DUMP_FAILED,   /* error is an errno value */
	DUMP_STOPPED,  /* *stop was set */
};

struct dump_reader {
	int fd;
	bool json;
	const volatile int *stop; /* a signal's; or NULL */
	int error;
	char why[160];
	uint64_t at;     /* bytes read from the file */
	uint64_t begin;  /* of the block or line that the last record was in */
	uint64_t record; /* number of the next record; counted from where it began */
	struct cli_buffer buf; /* what was read; told up to `next` */
	size_t next;
	uint32_t left;   /* records of the block */
	struct cli_buffer text; /* json: the line's key and value, decoded */
	bool numbered;
};

/*
 * Reads the head and tells the format; `from`: goes on at this byte, where a block or
 * line begins.  DUMP_RECORD: go on with dump_next().
 */
enum dump_got dump_open(struct dump_reader *reader, int fd, uint64_t from,
			const volatile int *stop);
/* The item's memory is good until the next call. */
enum dump_got dump_next(struct dump_reader *reader, struct dump_item *item);
void dump_close(struct dump_reader *reader);

#endif
