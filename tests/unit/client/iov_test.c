/* SPDX-License-Identifier: BSD-2-Clause */
/* client/cache/iov.h: whatever range of the pieces a work request takes, its gather
 * elements are just these bytes.  What no buffer has of them is registered, and that is given back. */
#include <errno.h>
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

/* As many as there may be; empty ones don't count, and a sum that no size_t counts is none. */
static void test_sets(void **state)
{
	struct iovec iov[KVD_IOV_MAX + 1];
	struct pieces p = { .registered = true };

	(void)state;
	for (unsigned i = 0; i <= KVD_IOV_MAX; i++)
		iov[i] = (struct iovec){ memory + i, i % 2 ? i : 0 };
	assert_int_equal(pieces_set(&p, iov, KVD_IOV_MAX), 0);
	assert_false(p.registered);
	assert_int_equal(p.count, KVD_IOV_MAX / 2);
	for (unsigned i = 0; i < p.count; i++) {
		assert_ptr_equal(p.iov[i].iov_base, memory + 2 * i + 1);
		assert_int_equal(p.iov[i].iov_len, 2 * i + 1);
	}
	assert_int_equal(pieces_set(&p, iov, 0), 0);
	assert_int_equal(p.count + p.bytes, 0);
	assert_int_equal(pieces_set(&p, iov, KVD_IOV_MAX + 1), KVD_EINVAL);
	assert_int_equal(pieces_set(&p, iov, -1), KVD_EINVAL);
	iov[0].iov_len = SIZE_MAX;
	assert_int_equal(pieces_set(&p, iov, 1), 0);
	assert_int_equal(pieces_set(&p, iov, 2), KVD_EINVAL);
}

/* ------------------------------------------------------------------ keys */

#define ACCESS 5
static struct ibv_pd domain;
static struct ibv_mr mr[8];
static unsigned registered, good; /* so many are, and so many more can be */
static int why_not;		  /* errno then */

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t bytes, int access)
{
	assert_ptr_equal(pd, &domain);
	for (unsigned i = 0; good && i < 8; i++)
		if (!mr[i].addr) {
			good--;
			registered++;
			mr[i] = (struct ibv_mr){ .addr = addr, .length = bytes, .handle = (uint32_t)access,
						 .lkey = 100 + i, .rkey = 200 + i };
			return &mr[i];
		}
	errno = why_not;
	return NULL;
}

static int dereg_mr(struct ibv_mr *old)
{
	assert_in_range((uintptr_t)old, (uintptr_t)mr, (uintptr_t)(mr + 7));
	assert_non_null(old->addr);
	old->addr = NULL;
	registered--;
	return 0;
}

static const struct verbs verbs = { .reg_mr = reg_mr, .dereg_mr = dereg_mr };
static struct registrar registrar = { .verbs = &verbs, .pd = &domain, .device = 1 };

/* The first BYTES are a buffer, with the keys 100 and 200. */
static int begin_buffer(void **state)
{
	(void)state;
	registered = 0;
	good = 8;
	why_not = 0;
	registrar.buffers = buffers_new();
	assert_non_null(registrar.buffers);
	assert_int_equal(buffers_join(registrar.buffers, &verbs, 1, &domain), 0);
	return buffers_add(registrar.buffers, &verbs, (uintptr_t)memory, BYTES);
}

static int end_buffer(void **state)
{
	(void)state;
	assert_int_equal(registered, 1);
	buffers_leave(registrar.buffers, &verbs, 1);
	buffers_delete(registrar.buffers);
	return (int)registered;
}

/* What was in it before is nobody's. */
static void set(struct pieces *p, const size_t *at, unsigned count)
{
	struct iovec iov[8];

	memset(p, 0x55, sizeof *p);
	for (unsigned i = 0; i < count; i++)
		iov[i] = (struct iovec){ memory + at[i], 10 };
	assert_int_equal(pieces_set(p, iov, (int)count), 0);
}

static void test_registers_what_no_buffer_has(void **state)
{
	static const size_t at[] = { 0, BYTES - 5, BYTES - 10, 2 * BYTES };
	static const unsigned lkeys[] = { 100, 101, 100, 102 };
	struct pieces p;

	(void)state;
	set(&p, at, 4);
	for (unsigned twice = 0; twice < 2; twice++) {
		assert_int_equal(pieces_register(&p, &registrar, ACCESS), 0);
		assert_true(p.registered);
		assert_int_equal(registered, 3);
	}
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(p.keys[i].lkey, lkeys[i]);
		assert_int_equal(p.keys[i].rkey, lkeys[i] + 100);
	}
	assert_ptr_equal(mr[1].addr, memory + BYTES - 5);
	assert_int_equal(mr[1].length, 10);
	assert_int_equal(mr[1].handle, ACCESS);
	assert_true(pieces_find(&p, &registrar)); /* they have keys */
	for (unsigned twice = 0; twice < 2; twice++) {
		pieces_release(&p, &verbs);
		assert_false(p.registered);
		assert_int_equal(registered, 1);
	}
}

/* All or nothing; why is said, also by a device that does not. */
static void test_one_can_not_be_registered(void **state)
{
	static const size_t at[] = { 2 * BYTES, 0, 3 * BYTES, 3 * BYTES + 100 };
	struct pieces p;

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		set(&p, at, 4);
		good = i % 3;
		why_not = i % 2 ? EPERM : 0;
		assert_int_equal(pieces_register(&p, &registrar, ACCESS), i % 2 ? EPERM : ENOMEM);
		assert_false(p.registered);
		assert_int_equal(registered, 1);
		pieces_release(&p, &verbs);
		assert_int_equal(registered, 1);
	}
}

static void test_finds_what_buffers_have(void **state)
{
	static const size_t at[] = { 500, 0, BYTES - 10, BYTES - 9 };
	struct pieces p;

	(void)state;
	set(&p, at, 3);
	assert_true(pieces_find(&p, &registrar));
	assert_true(p.registered);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(p.keys[i].lkey, 100);
	assert_int_equal(pieces_register(&p, &registrar, ACCESS), 0);
	assert_int_equal(registered, 1);
	pieces_release(&p, &verbs);
	assert_int_equal(registered, 1);
	set(&p, at, 4); /* one byte is beyond */
	assert_false(pieces_find(&p, &registrar));
	assert_false(p.registered);
	set(&p, at + 3, 1);
	assert_false(pieces_find(&p, &registrar));
	set(&p, at, 0);
	assert_false(pieces_find(&p, &registrar));
}

int main(void)
{
#define OF_BUFFERS(test) cmocka_unit_test_setup_teardown(test, begin_buffer, end_buffer)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ranges),
		cmocka_unit_test(test_copies),
		cmocka_unit_test(test_sets),
		OF_BUFFERS(test_registers_what_no_buffer_has),
		OF_BUFFERS(test_one_can_not_be_registered),
		OF_BUFFERS(test_finds_what_buffers_have),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
