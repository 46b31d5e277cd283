/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/cli/file/dump.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/cli/file/dump_json.h"
#include "client/cli/file/value.h"
#include "client/kvd.h"
#include "common/hash.h"

#define READ_BYTES (256u << 10)
/* No block is longer: what is full but for a byte, and one record. */
#define BLOCK_BYTES_MAX \
	(DUMP_BLOCK_BYTES + sizeof(struct dump_record) + KVD_KEY_BYTES_MAX + KVD_VALUE_BYTES_MAX)
/* Of JSON: base64, or six characters for a byte. */
#define LINE_BYTES_MAX (6 * (KVD_KEY_BYTES_MAX + KVD_VALUE_BYTES_MAX) + 256)

static uint64_t block_checksum(const struct dump_block *block, const void *records)
{
	struct hash_stream stream;

	hash_bytes_begin(&stream);
	hash_add(&stream, block, offsetof(struct dump_block, checksum));
	hash_add(&stream, records, block->bytes);
	return hash_bytes_end(&stream);
}

/* ------------------------------------------------------------------ writing */

static int put_bytes(struct dump_writer *w, const void *data, size_t bytes)
{
	int error = cli_value_write(w->fd, data, bytes);

	if (!error)
		w->bytes += bytes;
	return error;
}

int dump_begin(struct dump_writer *w, int fd, bool json)
{
	struct dump_head head = { .magic = DUMP_MAGIC };
	struct timespec now;

	*w = (struct dump_writer){ .fd = fd, .json = json };
	clock_gettime(CLOCK_REALTIME, &now);
	head.created_ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
	return json ? 0 : put_bytes(w, &head, sizeof head);
}

static int end_block(struct dump_writer *w)
{
	struct dump_block block = { .magic = DUMP_BLOCK_MAGIC, .records = w->records,
				    .first = w->first, .bytes = w->buf.used };
	int error;

	if (w->json) {
		error = put_bytes(w, w->buf.data, w->buf.used);
	} else {
		block.checksum = block_checksum(&block, w->buf.data);
		error = put_bytes(w, &block, sizeof block);
		if (!error)
			error = put_bytes(w, w->buf.data, w->buf.used);
	}
	w->first += w->records;
	w->records = 0;
	w->buf.used = 0;
	return error;
}

static void append(struct dump_writer *w, const void *data, size_t bytes)
{
	if (bytes)
		memcpy(w->buf.data + w->buf.used, data, bytes);
	w->buf.used += bytes;
}

int dump_add(struct dump_writer *w, const struct dump_item *item)
{
	struct dump_record record = { .key_bytes = (uint16_t)item->key_bytes,
				      .signs = (uint16_t)item->signs, .flags = item->flags,
				      .value_bytes = item->value_bytes, .ttl_ms = item->ttl_ms };
	size_t bytes = sizeof record + item->key_bytes + item->value_bytes;

	if (w->json) {
		if (!dump_json_write(&w->buf, item))
			return ENOMEM;
	} else {
		if (!cli_buffer_room(&w->buf, bytes))
			return ENOMEM;
		append(w, &record, sizeof record);
		append(w, item->key, item->key_bytes);
		append(w, item->value, item->value_bytes);
	}
	w->records++;
	return w->buf.used >= DUMP_BLOCK_BYTES ? end_block(w) : 0;
}

int dump_end(struct dump_writer *w)
{
	int error = w->records ? end_block(w) : 0;

	return error || w->json ? error : end_block(w);
}

void dump_free(struct dump_writer *w)
{
	cli_buffer_free(&w->buf);
}

/* ------------------------------------------------------------------ reading */

static enum dump_got damaged(struct dump_reader *r, const char *what)
{
	snprintf(r->why, sizeof r->why, "%s", what);
	return DUMP_DAMAGED;
}

/* Whether what was read of the head can be the beginning of an export's. */
static bool is_foreign(struct dump_reader *r)
{
	size_t bytes = r->buf.used < sizeof DUMP_MAGIC - 1 ? r->buf.used : sizeof DUMP_MAGIC - 1;

	if (r->buf.used == 0)
		snprintf(r->why, sizeof r->why, "it is empty");
	else if (!r->json && memcmp(r->buf.data, DUMP_MAGIC, bytes) != 0)
		snprintf(r->why, sizeof r->why, "it is neither a file of kvcli's nor lines of JSON");
	return r->why[0] != '\0';
}

/* Up to so many bytes more into the buffer, as many as one read gives; *got of them. */
static enum dump_got take_some(struct dump_reader *r, size_t bytes, size_t *got)
{
	/* Grows with what is there: a length that lies costs nothing. */
	if (!cli_buffer_room(&r->buf, bytes)) {
		r->error = ENOMEM;
		return DUMP_FAILED;
	}
	ssize_t n = -1;
	for (errno = EINTR; n < 0 && errno == EINTR;) {
		if (r->stop && *r->stop)
			return DUMP_STOPPED;
		n = read(r->fd, r->buf.data + r->buf.used, bytes);
	}
	if (n < 0) {
		r->error = errno;
		return DUMP_FAILED;
	}
	if (n == 0 && r->stop && *r->stop)
		return DUMP_STOPPED; /* perhaps the end is one of those who were stopped, too */
	*got = (size_t)n;
	r->buf.used += (size_t)n;
	r->at += (uint64_t)n;
	return n ? DUMP_RECORD : DUMP_CUT;
}

/* So many bytes more, fewer at the end of the file. */
static enum dump_got take(struct dump_reader *r, size_t bytes)
{
	enum dump_got got = DUMP_RECORD;
	size_t n = 0;

	for (; bytes > 0 && got == DUMP_RECORD; bytes -= n)
		got = take_some(r, bytes < READ_BYTES ? bytes : READ_BYTES, &n);
	return got;
}

/* To a byte of the file, also where that can't be sought. */
static enum dump_got skip_to(struct dump_reader *r, uint64_t from)
{
	if (lseek(r->fd, (off_t)from, SEEK_SET) >= 0) {
		r->at = from;
		return DUMP_RECORD;
	}
	while (r->at < from) {
		uint64_t left = from - r->at;
		r->buf.used = 0;
		enum dump_got got = take(r, left < READ_BYTES ? (size_t)left : READ_BYTES);
		if (got != DUMP_RECORD)
			return got;
	}
	return DUMP_RECORD;
}

enum dump_got dump_open(struct dump_reader *r, int fd, uint64_t from, const volatile int *stop)
{
	*r = (struct dump_reader){ .fd = fd, .stop = stop, .numbered = from == 0 };
	enum dump_got got = take(r, sizeof(struct dump_head));

	r->json = r->buf.used > 0 && r->buf.data[0] == '{';
	if ((got == DUMP_CUT || got == DUMP_RECORD) && is_foreign(r))
		return DUMP_FOREIGN;
	if (got == DUMP_CUT && r->json)
		got = DUMP_RECORD; /* a short line */
	if (got != DUMP_RECORD)
		return got;
	if (from > r->at) {
		got = skip_to(r, from);
		r->buf.used = 0;
	} else if (r->json) {
		r->next = (size_t)from;
	} else {
		r->buf.used = 0;
	}
	r->begin = r->at - r->buf.used + r->next;
	return got;
}

static enum dump_got check_block(struct dump_reader *r, const struct dump_block *block)
{
	if (block->magic != DUMP_BLOCK_MAGIC)
		return damaged(r, "no block begins there");
	if (block->bytes > BLOCK_BYTES_MAX ||
	    block->records > block->bytes / sizeof(struct dump_record))
		return damaged(r, "its lengths make no sense");
	if (r->numbered && block->first != r->record)
		return damaged(r, "a part of the file is missing before it");
	return DUMP_RECORD;
}

static enum dump_got next_block(struct dump_reader *r)
{
	struct dump_block block;
	enum dump_got got;

	r->begin = r->at;
	r->buf.used = r->next = 0;
	got = take(r, sizeof block);
	if (got != DUMP_RECORD)
		return got;
	memcpy(&block, r->buf.data, sizeof block);
	got = check_block(r, &block);
	if (got != DUMP_RECORD)
		return got;
	r->buf.used = 0;
	got = take(r, block.bytes);
	if (got != DUMP_RECORD)
		return got;
	if (block_checksum(&block, r->buf.data) != block.checksum)
		return damaged(r, "its checksum is wrong");
	r->record = block.first;
	r->numbered = true;
	r->left = block.records;
	return block.records ? DUMP_RECORD : DUMP_END;
}

static enum dump_got next_record(struct dump_reader *r, struct dump_item *item)
{
	struct dump_record record;
	enum dump_got got = r->left ? DUMP_RECORD : next_block(r);

	if (got != DUMP_RECORD)
		return got;
	if (r->buf.used - r->next < sizeof record)
		return damaged(r, "a record is cut off");
	memcpy(&record, r->buf.data + r->next, sizeof record);
	r->next += sizeof record;
	if (!record.key_bytes || record.key_bytes > KVD_KEY_BYTES_MAX ||
	    record.value_bytes > KVD_VALUE_BYTES_MAX || record.ttl_ms > KVD_TTL_MS_MAX ||
	    record.key_bytes + record.value_bytes > r->buf.used - r->next)
		return damaged(r, "a record's lengths make no sense");
	if (record.signs & ~(KVD_STALE | KVD_CLAIMED))
		return damaged(r, "a record has signs that nobody knows");
	*item = (struct dump_item){
		.key = r->buf.data + r->next,
		.key_bytes = record.key_bytes,
		.value = r->buf.data + r->next + record.key_bytes,
		.value_bytes = record.value_bytes,
		.ttl_ms = record.ttl_ms,
		.flags = record.flags,
		.signs = record.signs,
	};
	r->next += record.key_bytes + record.value_bytes;
	r->left--;
	r->record++;
	return DUMP_RECORD;
}

/* The next line, in buf from `next` on; *bytes without its newline. */
static enum dump_got next_line(struct dump_reader *r, size_t *bytes)
{
	enum dump_got got = DUMP_RECORD;
	size_t looked = r->next, some;

	for (;;) {
		size_t more = r->buf.used - looked;
		uint8_t *end = more ? memchr(r->buf.data + looked, '\n', more) : NULL;
		if (end) {
			*bytes = (size_t)(end - (r->buf.data + r->next));
			return DUMP_RECORD;
		}
		if (got == DUMP_CUT) /* the last line without its newline is whole, or no JSON */
			return *bytes = r->buf.used - r->next, *bytes ? DUMP_RECORD : DUMP_END;
		if (r->buf.used - r->next > LINE_BYTES_MAX)
			return damaged(r, "a line is longer than any record's");
		if (r->next) {
			memmove(r->buf.data, r->buf.data + r->next, r->buf.used - r->next);
			r->buf.used -= r->next;
			r->next = 0;
		}
		looked = r->buf.used;
		got = take_some(r, 65536, &some); /* lines as they come */
		if (got != DUMP_RECORD && got != DUMP_CUT)
			return got;
	}
}

static enum dump_got next_json(struct dump_reader *r, struct dump_item *item)
{
	enum dump_got got;
	size_t bytes = 0;

	do {
		got = next_line(r, &bytes);
		r->begin = r->at - r->buf.used + r->next;
		if (got != DUMP_RECORD)
			return got;
		r->next += bytes + (r->next + bytes < r->buf.used);
	} while (bytes == 0);
	r->record++;
	const char *line = (char *)r->buf.data + (r->begin - (r->at - r->buf.used));
	return dump_json_read(&r->text, line, bytes, item, r->why, sizeof r->why) ? DUMP_RECORD
										  : DUMP_DAMAGED;
}

enum dump_got dump_next(struct dump_reader *r, struct dump_item *item)
{
	if (r->stop && *r->stop)
		return DUMP_STOPPED;
	return r->json ? next_json(r, item) : next_record(r, item);
}

void dump_close(struct dump_reader *r)
{
	cli_buffer_free(&r->buf);
	cli_buffer_free(&r->text);
}
