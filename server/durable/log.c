/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RocksDB's log: blocks of 32 KiB with records of 7 bytes of header (CRC-32C of type and
 * payload, masked; length; type) and payload.  A batch is one FULL record, or a FIRST,
 * some MIDDLE and a LAST, one in each block.  Zeros are space that was not written yet.
 *
 * A batch is written only after the one before it was synced.  So behind a record that
 * is not whole there may be other pieces of its own batch, but no beginning of another.
 */
#include "server/durable/log.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK_BYTES 32768u
#define HEADER_BYTES 7u
#define LOGS_MAX 1024u

enum { TYPE_ZERO, TYPE_FULL, TYPE_FIRST, TYPE_MIDDLE, TYPE_LAST };

static uint32_t table[256];

static void make_table(void)
{
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t c = i;
		for (int k = 0; k < 8; k++)
			c = c & 1 ? 0x82f63b78u ^ c >> 1 : c >> 1;
		table[i] = c;
	}
}

static uint32_t crc32c(const uint8_t *data, size_t bytes)
{
	uint32_t c = ~0u;

	for (size_t i = 0; i < bytes; i++)
		c = table[(c ^ data[i]) & 0xff] ^ c >> 8;
	return ~c;
}

static uint32_t get32(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* The bytes of the record that stands there whole, or 0. */
static size_t record(const uint8_t *at, size_t room)
{
	if (room < HEADER_BYTES || at[6] < TYPE_FULL || at[6] > TYPE_LAST)
		return 0;
	size_t bytes = at[4] | (size_t)at[5] << 8;
	if (bytes > room - HEADER_BYTES)
		return 0;
	uint32_t c = crc32c(at + 6, bytes + 1);
	if ((c >> 15 | c << 17) + 0xa282ead8u != get32(at))
		return 0;
	return HEADER_BYTES + bytes;
}

static bool is_zero(const uint8_t *at, size_t bytes)
{
	return !bytes || (!at[0] && !memcmp(at, at + 1, bytes - 1));
}

static size_t block_end(size_t at, size_t bytes)
{
	size_t end = (at / BLOCK_BYTES + 1) * BLOCK_BYTES;

	return end < bytes ? end : bytes;
}

/* Whether a batch begins at or behind `at`.  In the first block its place is not known. */
static bool has_beginning(const uint8_t *data, size_t at, size_t bytes)
{
	size_t end = block_end(at, bytes), n;

	for (; at < end; at++)
		if ((data[at + 6 < bytes ? at + 6 : at] == TYPE_FULL ||
		     data[at + 6 < bytes ? at + 6 : at] == TYPE_FIRST) && record(data + at, end - at))
			return true;
	while (at < bytes) {
		end = block_end(at, bytes);
		n = record(data + at, end - at);
		if (n && (data[at + 6] == TYPE_FULL || data[at + 6] == TYPE_FIRST))
			return true;
		at = n ? at + n : end;
	}
	return false;
}

/* Offset of what is no record, or `bytes`. */
static size_t find_bad(const uint8_t *data, size_t bytes)
{
	bool inside = false;
	size_t at = 0, begun = 0;

	while (at < bytes) {
		size_t end = block_end(at, bytes), n = record(data + at, end - at);
		if (!n && end - at < HEADER_BYTES && end < bytes && is_zero(data + at, end - at)) {
			at = end; /* no room for a header */
			continue;
		}
		if (!n)
			return is_zero(data + at, bytes - at) && !inside ? bytes : inside ? begun : at;
		uint8_t type = data[at + 6];
		if (inside != (type == TYPE_MIDDLE || type == TYPE_LAST))
			return inside ? begun : at;
		if (type == TYPE_FIRST)
			begun = at;
		inside = type == TYPE_FIRST || type == TYPE_MIDDLE;
		at += n;
	}
	return inside ? begun : bytes;
}

static void look_at(struct log_look *look, uint64_t number, const uint8_t *data, size_t bytes)
{
	size_t bad = 0;

	if (look->state == LOG_WHOLE) {
		bad = find_bad(data, bytes);
		if (bad == bytes)
			return;
		look->state = LOG_TORN;
		snprintf(look->where, sizeof look->where, "%06" PRIu64 ".log at byte %zu", number, bad);
		bad++;
	}
	if (look->state == LOG_TORN && has_beginning(data, bad, bytes))
		look->state = LOG_DAMAGED;
}

static int look_at_file(const char *dir, uint64_t number, struct log_look *look, struct err *err)
{
	char path[4096];
	struct stat st;
	void *data = NULL;

	snprintf(path, sizeof path, "%s/%06" PRIu64 ".log", dir, number);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st)) {
		int rc = errno;
		if (fd >= 0)
			close(fd);
		return err_set_errno(err, -1, rc, "can't read %.300s", path);
	}
	if (st.st_size)
		data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (data == MAP_FAILED)
		return err_set_errno(err, -1, errno, "can't read %.300s", path);
	if (data) {
		look_at(look, number, data, (size_t)st.st_size);
		munmap(data, (size_t)st.st_size);
	}
	return 0;
}

/* The number of a log's file name, or 0. */
static uint64_t number_of(const char *name)
{
	char *end;
	uint64_t n = isdigit((unsigned char)name[0]) ? strtoull(name, &end, 10) : 0;

	return n && !strcmp(end, ".log") ? n : 0;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

int log_look(const char *dir, struct log_look *look, struct err *err)
{
	uint64_t number[LOGS_MAX];
	size_t n = 0;
	const struct dirent *e;
	DIR *d = opendir(dir);

	*look = (struct log_look){ .state = LOG_WHOLE };
	if (!d)
		return err_set_errno(err, -1, errno, "can't read %.300s", dir);
	while ((e = readdir(d)) && n < LOGS_MAX)
		if ((number[n] = number_of(e->d_name)))
			n++;
	closedir(d);
	if (n == LOGS_MAX)
		return err_set(err, -1, "%.300s has %u logs or more, too many to look at: is it a database's?", dir, LOGS_MAX);
	qsort(number, n, sizeof number[0], compare);
	make_table();
	for (size_t i = 0; i < n; i++) {
		if (look_at_file(dir, number[i], look, err))
			return -1;
		look->newest = number[i];
	}
	return 0;
}
