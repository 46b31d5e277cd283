/* SPDX-License-Identifier: BSD-2-Clause */
/* api_pieces.c -- values in pieces, in registered buffers, and large ones. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "tests/integration/api.h"

/* Cuts `bytes` of memory into n pieces of odd lengths, some of them empty. */
static int cut(uint8_t *memory, size_t bytes, int n, struct iovec *iov)
{
	size_t at = 0;

	for (int i = 0; i < n; i++) {
		size_t left = bytes - at, length = i == n - 1 ? left : left / 3 + (size_t)i % 2;
		if (i % 5 == 3 && i < n - 1)
			length = 0;
		if (length > left)
			length = left;
		iov[i] = (struct iovec){ memory + at, length };
		at += length;
	}
	return n;
}

static void check_pieces(uint8_t *from, uint8_t *to, size_t bytes, int n)
{
	struct iovec iov[KVD_IOV_MAX];
	size_t got;
	uint64_t version, read;

	CHECK(kvd_putv(KEY("v"), iov, cut(from, bytes, n, iov), NULL, &version) == KVD_OK);
	CHECK(holds("v", from, bytes));
	memset(to, 0xee, bytes + 1);
	CHECK(kvd_getv(KEY("v"), iov, cut(to, bytes, n, iov), &got, &read) == KVD_OK);
	CHECK(got == bytes && read == version && !memcmp(from, to, bytes) && to[bytes] == 0xee);
	memset(to, 0xee, bytes + 1);
	CHECK(kvd_get(KEY("v"), to, bytes, &got, NULL) == KVD_OK && !memcmp(from, to, bytes));
	CHECK(to[bytes] == 0xee);
	/* One byte too few is told with the length. */
	if (bytes > 0) {
		got = 0;
		CHECK(kvd_getv(KEY("v"), iov, cut(to, bytes - 1, n, iov), &got, NULL) == KVD_ESPACE);
		CHECK(got == bytes);
		CHECK(kvd_getv(KEY("v"), iov, cut(to, bytes / 2, n, iov), &got, NULL) == KVD_ESPACE);
		CHECK(got == bytes);
	}
	size_t exists;
	CHECK(kvd_exists(KEY("v"), &exists) == KVD_OK && exists == bytes);
}

static const size_t piece_lengths[] = { 0,    1,     31,	 100,   511,    1000,  2000,
					4063, 4064,  4065,  8000,  8128,   8191,  8192,
					8193, 16000, 16351, 16352, 16384, 20000, 1000000,
					5000003 };

void case_pieces(void)
{
	uint8_t *from = pattern(5000003, 7), *to = malloc(5000004);
	struct iovec iov[KVD_IOV_MAX + 1] = { { from, 1 } };
	size_t got;

	CHECK(to != NULL);
	for (size_t i = 0; i < sizeof piece_lengths / sizeof *piece_lengths; i++) {
		check_pieces(from, to, piece_lengths[i], 1);
		check_pieces(from, to, piece_lengths[i], 7);
		check_pieces(from, to, piece_lengths[i], KVD_IOV_MAX);
	}
	CHECK(kvd_putv(KEY("v"), iov, KVD_IOV_MAX + 1, NULL, NULL) == KVD_EINVAL);
	CHECK(kvd_getv(KEY("v"), iov, -1, &got, NULL) == KVD_EINVAL);
	iov[1] = (struct iovec){ from, KVD_VALUE_BYTES_MAX };
	CHECK(kvd_putv(KEY("v"), iov, 2, NULL, NULL) == KVD_ETOOBIG);
	iov[0] = iov[1] = (struct iovec){ from, SIZE_MAX / 2 + 1 };
	CHECK(kvd_putv(KEY("v"), iov, 2, NULL, NULL) == KVD_EINVAL);
	free(from);
	free(to);
}

void case_buffers(void)
{
	size_t bytes = 6000000;
	uint8_t *from = pattern(bytes, 8), *to = malloc(bytes);
	kvd_buffer *a, *b, *c, *many[KVD_BUFFERS_MAX];
	struct kvd_counters before, after;

	CHECK(kvd_buffer_new(client, from, bytes, &a) == KVD_OK);
	CHECK(kvd_buffer_new(client, to, bytes / 2, &b) == KVD_OK);
	CHECK(kvd_buffer_new(client, to + 100, 10, &c) == KVD_EINVAL && c == NULL);
	CHECK(kvd_buffer_new(client, to + bytes / 2 - 1, 10, &c) == KVD_EINVAL);
	CHECK(kvd_buffer_new(client, from - 1, 2, &c) == KVD_EINVAL);
	CHECK(kvd_buffer_new(client, NULL, 2, &c) == KVD_EINVAL);
	CHECK(kvd_buffer_new(client, to, 0, &c) == KVD_EINVAL);
	CHECK(strstr(kvd_client_error(client), "length"));
	kvd_session_counters(session, &before);
	for (size_t i = 0; i < sizeof piece_lengths / sizeof *piece_lengths; i++) {
		check_pieces(from + 1, to + 1, piece_lengths[i] < bytes / 2 - 2 ? piece_lengths[i]
										 : bytes / 2 - 2, 7);
		/* In the buffer, over its end, and beyond. */
		check_pieces(from + i, to + bytes / 2 - 50, piece_lengths[i] < bytes / 2
								    ? piece_lengths[i] : 0, 3);
		check_pieces(to + bytes / 2, from + 3, piece_lengths[i] < bytes / 2 - 4
							       ? piece_lengths[i] : 0, 3);
	}
	kvd_session_counters(session, &after);
	CHECK(after.messages > before.messages);
	kvd_buffer_delete(&b);
	CHECK(b == NULL);
	check_pieces(from, to, 1000000, 5);
	CHECK(kvd_buffer_new(client, to, bytes, &b) == KVD_OK);
	check_pieces(from, to, 1000000, 5);
	kvd_buffer_delete(&a);
	check_pieces(from, to, 1000000, 5);
	kvd_buffer_delete(&b);
	kvd_buffer_delete(&b);
	for (unsigned i = 0; i < KVD_BUFFERS_MAX; i++)
		CHECK(kvd_buffer_new(client, to + (i * 389 % KVD_BUFFERS_MAX) * 5000, 5000, &many[i]) ==
		      KVD_OK);
	CHECK(kvd_buffer_new(client, from, 1, &c) == KVD_ETOOBIG);
	check_pieces(from, to, 100000, 9);
	for (unsigned i = 0; i < KVD_BUFFERS_MAX; i++)
		kvd_buffer_delete(&many[i]);
	free(from);
	free(to);
}

/* Whether a peer can map this memory on the software device: it is a file's. */
static bool is_shared(const void *addr)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long begin, end;
	char line[512], rights[5];
	bool found = false;

	CHECK(maps);
	while (!found && fgets(line, sizeof line, maps))
		found = sscanf(line, "%lx-%lx %4s", &begin, &end, rights) == 3 &&
			(uintptr_t)addr >= begin && (uintptr_t)addr < end;
	fclose(maps);
	return found && rights[3] == 's';
}

void case_buffers_made(void)
{
	size_t bytes = 3000000;
	uint8_t *from = pattern(bytes, 9);
	void *memory = NULL;
	kvd_buffer *a, *b;

	CHECK(kvd_buffer_alloc(client, 0, &memory, &a) == KVD_EINVAL && !a && !memory);
	CHECK(kvd_buffer_alloc(client, (size_t)1 << 62, &memory, &a) == KVD_ENOMEM && !a && !memory);
	CHECK(strstr(kvd_client_error(client), "buffer of"));
	CHECK(kvd_buffer_alloc(client, bytes, &memory, &a) == KVD_OK);
	uint8_t *to = memory;
	CHECK((uintptr_t)to % 4096 == 0 && !to[0] && !to[bytes - 1]);
	CHECK(!strstr(kvd_client_device(client), "soft") || is_shared(to));
	CHECK(kvd_buffer_new(client, to + 10, 10, &b) == KVD_EINVAL);
	for (size_t i = 0; i < sizeof piece_lengths / sizeof *piece_lengths; i++) {
		size_t some = piece_lengths[i] < bytes ? piece_lengths[i] : bytes - 1;
		check_pieces(from, to, some, 3);
		check_pieces(to, from, some, 3);
	}
	kvd_buffer_delete(&a);
	CHECK(!a && !is_shared(to));
	free(from);
}

/* A value of `size` bytes there and back, one way and the other. */
void case_large(void)
{
	uint8_t *from = pattern(size, 9), *to;
	struct iovec iov[KVD_IOV_MAX];
	void *value;
	size_t got;

	CHECK(kvd_put(KEY("large"), from, size, NULL) == KVD_OK);
	CHECK(kvd_get_alloc(KEY("large"), &value, &got, NULL) == KVD_OK);
	CHECK(got == size && !memcmp(from, value, size) && ((char *)value)[size] == 0);
	free(value);
	to = malloc(size);
	CHECK(to != NULL);
	/* A second one may be too much for the table: replace it. */
	CHECK(kvd_del(KEY("large")) == KVD_OK);
	from[0] ^= 1;
	CHECK(kvd_putv(KEY("large"), iov, cut(from, size, 9, iov), NULL, NULL) == KVD_OK);
	CHECK(kvd_getv(KEY("large"), iov, cut(to, size, 5, iov), &got, NULL) == KVD_OK);
	CHECK(got == size && !memcmp(from, to, size));
	CHECK(kvd_exists(KEY("large"), &got) == KVD_OK && got == size);
	free(from);
	free(to);
}
