/* SPDX-License-Identifier: BSD-2-Clause */
/* rdma.c -- READ, WRITE and atomics between processes. */
#include <sys/mman.h>
#include "tests/unit/softverbs/kit.h"

#define S IBV_SEND_SIGNALED
#define TORN_BYTES 10304
#define TORN_READS 3000
#define TORN_MIN 300 /* one may be between two words by chance */
#define TORN_S 20

/* The passive side of most tests: memory with a known content. */
static void fill(struct kit *k)
{
	for (size_t i = 0; i < k->opts.mem_bytes; i++)
		k->mem[i] = (uint8_t)(i * 7 + i / 251);
}

static void serve_opts(int sock, const struct kit_opts *opts)
{
	struct kit k;

	kit_open(&k, opts, sock);
	fill(&k);
	kit_connect(&k);
	kit_meet(&k);
	kit_close(&k);
}

static void serve(int sock)
{
	serve_opts(sock, &kit_defaults);
}

static void serve_malloc(int sock)
{
	struct kit_opts opts = kit_defaults;

	opts.mem_flags = -1;
	serve_opts(sock, &opts);
}

static void check_read(struct kit *k, size_t at, uint32_t bytes)
{
	memset(k->mem, 0xee, bytes + 8);
	CHECK(!kit_post(k, IBV_WR_RDMA_READ, 0, bytes, at, at, S));
	kit_expect(k->scq, at, IBV_WC_SUCCESS);
	for (uint32_t i = 0; i < bytes; i++)
		CHECK(k->mem[i] == (uint8_t)((at + i) * 7 + (at + i) / 251));
	for (uint32_t i = bytes; i < bytes + 8; i++)
		CHECK(k->mem[i] == 0xee);
}

static void use(int sock)
{
	static const uint32_t sizes[] = { 1,   7,   8,   9,   63,   64,   65,    100,	 511,
					  512, 513, 575, 639, 4096, 4671, 10303, 300001, 500000 };
	struct kit k;

	kit_open(&k, &kit_defaults, sock);
	kit_connect(&k);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		for (size_t at = 0; at < 70; at += 3)
			check_read(&k, at, sizes[i]);
	}
	/* What is written is read back. */
	for (int i = 0; i < 1000; i++)
		k.mem[i] = (uint8_t)(i ^ 0x5a);
	CHECK(!kit_post(&k, IBV_WR_RDMA_WRITE, 0, 1000, 5, 1, S));
	CHECK(!kit_post(&k, IBV_WR_RDMA_READ, 2000, 1000, 5, 2, S | IBV_SEND_FENCE));
	kit_expect(k.scq, 1, IBV_WC_SUCCESS);
	kit_expect(k.scq, 2, IBV_WC_SUCCESS);
	CHECK(!memcmp(k.mem, k.mem + 2000, 1000));
	/* Atomics. */
	memset(k.mem, 0, 8);
	CHECK(!kit_post(&k, IBV_WR_RDMA_WRITE, 0, 8, 64, 3, S | IBV_SEND_INLINE));
	kit_expect(k.scq, 3, IBV_WC_SUCCESS);
	CHECK(!kit_post_atomic(&k, IBV_WR_ATOMIC_CMP_AND_SWP, 8, 64, 0, 42, 4));
	kit_expect(k.scq, 4, IBV_WC_SUCCESS);
	CHECK(*(uint64_t *)(k.mem + 8) == 0);
	CHECK(!kit_post_atomic(&k, IBV_WR_ATOMIC_CMP_AND_SWP, 8, 64, 0, 43, 5));
	kit_expect(k.scq, 5, IBV_WC_SUCCESS);
	CHECK(*(uint64_t *)(k.mem + 8) == 42);
	CHECK(!kit_post_atomic(&k, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 64, 8, 0, 6));
	kit_expect(k.scq, 6, IBV_WC_SUCCESS);
	CHECK(!kit_post(&k, IBV_WR_RDMA_READ, 16, 8, 64, 7, S));
	kit_expect(k.scq, 7, IBV_WC_SUCCESS);
	CHECK(*(uint64_t *)(k.mem + 8) == 42 && *(uint64_t *)(k.mem + 16) == 50);
	kit_meet(&k);
	kit_close(&k);
}

static void test_mapped(void **state)
{
	(void)state;
	kit_run(use, serve);
}

static void test_not_mappable(void **state)
{
	(void)state;
	kit_run(use, serve_malloc);
}

#define GOING_BYTES (256u << 10)

/* Takes its memory away while it is read: nobody touches it afterwards. */
static void serve_going(int sock)
{
	struct kit_opts opts = kit_defaults;
	struct kit k;
	uint64_t until;

	opts.mem_flags = -1;
	kit_open(&k, &opts, sock);
	void *mem = mmap(NULL, GOING_BYTES, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr = sv_reg_mr(k.pd, mem, GOING_BYTES, opts.mr_access);
	CHECK(mem != MAP_FAILED && mr);
	kit_connect(&k);
	kit_say(sock, mr->rkey);
	kit_say(sock, (uintptr_t)mem);
	kit_meet(&k); /* the first READ is through */
	until = kit_now_ns() + (uint64_t)getpid() % 64 * 2000;
	while (kit_now_ns() < until)
		;
	CHECK(!sv_dereg_mr(mr));
	CHECK(!munmap(mem, GOING_BYTES));
	kit_meet(&k);
	kit_close(&k);
}

static void use_going(int sock)
{
	struct kit k;
	struct ibv_wc wc = { .status = IBV_WC_SUCCESS };
	bool met = false;

	kit_open(&k, &kit_defaults, sock);
	kit_connect(&k);
	k.rkey = (uint32_t)kit_hear(sock);
	k.addr = kit_hear(sock);
	while (wc.status == IBV_WC_SUCCESS) {
		CHECK(!kit_post(&k, IBV_WR_RDMA_READ, 0, GOING_BYTES, 0, 1, S));
		wc = kit_wait(k.scq);
		if (!met)
			kit_meet(&k);
		met = true;
	}
	CHECK(wc.status == IBV_WC_REM_ACCESS_ERR);
	kit_meet(&k);
	kit_close(&k);
}

static void test_deregistered_while_read(void **state)
{
	(void)state;
	for (int i = 0; i < 60; i++)
		kit_run(use_going, serve_going);
}

/* ---- no word is half of what it was ---- */

static void serve_changing(int sock)
{
	struct kit k;
	uint64_t value = 0;

	kit_open(&k, &kit_defaults, sock);
	kit_connect(&k);
	while (recv(sock, &(char){ 0 }, 1, MSG_PEEK | MSG_DONTWAIT) < 0) {
		value = ~value;
		for (size_t i = 0; i < TORN_BYTES / 8; i++)
			__atomic_store_n((uint64_t *)(void *)k.mem + i, value, __ATOMIC_RELAXED);
	}
	kit_meet(&k);
	kit_close(&k);
}

/* Words that changed since the one before; each is all of one value. */
static unsigned changes_in(const uint8_t *read, size_t bytes)
{
	unsigned changes = 0;
	uint64_t before = 0, word;

	for (size_t i = 0; i + 8 <= bytes; i += 8) {
		memcpy(&word, read + i, 8);
		CHECK(!word || !~word);
		changes += i && word != before;
		before = word;
	}
	return changes;
}

static void use_changing(int sock)
{
	static const uint32_t sizes[] = { 64, 1000, TORN_BYTES - 64 };
	uint64_t end_ns = kit_now_ns() + TORN_S * 1000000000ull;
	unsigned torn = 0;
	struct kit k;

	kit_open(&k, &kit_defaults, sock);
	kit_connect(&k);
	for (unsigned i = 0; i < TORN_READS || (torn < TORN_MIN && kit_now_ns() < end_ns); i++) {
		uint32_t bytes = sizes[i % 3];
		CHECK(!kit_post(&k, IBV_WR_RDMA_READ, 0, bytes, i % 8 * 8, i, S));
		kit_expect(k.scq, i, IBV_WC_SUCCESS);
		torn += changes_in(k.mem, bytes);
	}
	CHECK(torn); /* or they were not changed meanwhile */
	kit_meet(&k);
	kit_close(&k);
}

static void test_words_are_whole(void **state)
{
	(void)state;
	kit_run(serve_changing, use_changing);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mapped),
		cmocka_unit_test(test_not_mappable),
		cmocka_unit_test(test_deregistered_while_read),
		cmocka_unit_test(test_words_are_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
