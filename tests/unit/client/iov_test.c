/* SPDX-License-Identifier: BSD-2-Clause */
/* client/cache/iov.h: whatever range of the pieces a work request takes, its gather
 * elements are just these bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "client/cache/iov.h"

enum { BYTES = 1000 };

static uint64_t random_state = 1;

static uint64_t draw(uint64_t below)
{
	random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
	return (random_state >> 33) % below;
}

static uint8_t memory[4 * BYTES], value[BYTES];

/* Pieces of `memory`, with holes between them, that together hold `value`. */
static void make_pieces(struct pieces *p)
{
	struct iovec iov[KVD_IOV_MAX];
	size_t at = 0, left = BYTES;
	int n = 1 + (int)draw(KVD_IOV_MAX);

	for (int i = 0; i < n; i++) {
		size_t length = i == n - 1 ? left : draw(left / 2 + 1);
		at += draw(BYTES / KVD_IOV_MAX);
		iov[i] = (struct iovec){ memory + at, length };
		memcpy(memory + at, value + BYTES - left, length);
		at += length;
		left -= length;
	}
	assert_int_equal(pieces_set(p, iov, n), 0);
	assert_int_equal(p->bytes, BYTES);
	for (unsigned i = 0; i < p->count; i++)
		p->keys[i] = (struct buffer_keys){ .lkey = i + 1, .rkey = i + 100 };
}

static void test_ranges(void **state)
{
	struct pieces p;

	(void)state;
	for (unsigned i = 0; i < BYTES; i++)
		value[i] = (uint8_t)(i * 31 + (i >> 8));
	for (unsigned run = 0; run < 20000; run++) {
		struct ibv_sge sge[KVD_IOV_MAX + 1];
		uint64_t from = draw(BYTES), at = from;
		uint32_t bytes = 1 + (uint32_t)draw(BYTES - from), covered;
		unsigned max = 1 + (unsigned)draw(KVD_IOV_MAX);
		make_pieces(&p);
		unsigned n = pieces_sge(&p, from, bytes, sge, max, &covered);
		assert_true(n >= 1 && n <= max);
		assert_true(covered == bytes || n == max);
		for (unsigned i = 0; i < n; at += sge[i++].length) {
			assert_true(sge[i].length > 0 && sge[i].lkey > 0);
			assert_memory_equal((void *)(uintptr_t)sge[i].addr, value + at, sge[i].length);
		}
		assert_int_equal(at, from + covered);
	}
}

static void test_copies(void **state)
{
	uint8_t back[BYTES];
	struct pieces p;

	(void)state;
	for (unsigned run = 0; run < 1000; run++) {
		size_t bytes = draw(BYTES + 1);
		make_pieces(&p);
		pieces_gather(&p, back);
		assert_memory_equal(back, value, BYTES);
		memset(memory, 0, sizeof memory);
		pieces_scatter(&p, value, bytes);
		pieces_gather(&p, back);
		assert_memory_equal(back, value, bytes);
		for (size_t i = bytes; i < BYTES; i++)
			assert_int_equal(back[i], 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ranges),
		cmocka_unit_test(test_copies),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
