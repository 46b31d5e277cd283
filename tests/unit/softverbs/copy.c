/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * common/softverbs/base/copy.h: no aligned word of memory that others change is torn, and words
 * go in rising order.  The processor stops after each instruction of a copy, and this test
 * is then what others are: whatever comes of it does not depend on the other processors.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>
#include <cmocka.h>

#include "common/softverbs/base/compiler.h"
#include "common/softverbs/base/copy.h"

#define ROOM 1400u
#define OLD 0xa5a5a5a5a5a5a5a5u
#define NEW 0x1818181818181818u

/* ThreadSanitizer's own code can't be stopped anywhere. */
#if defined(__x86_64__) && !defined(SV_TSAN)
#define TRAP_FLAG 0x100u

static uint8_t shared[ROOM] __attribute__((aligned(64)));
static uint8_t own[ROOM] __attribute__((aligned(64)));

static void (*on_step)(void);
static volatile unsigned steps;
static volatile bool is_over;

static void on_trap(int signal, siginfo_t *info, void *context)
{
	ucontext_t *at = context;

	(void)signal;
	(void)info;
	steps++;
	if (is_over)
		at->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)TRAP_FLAG;
	else
		on_step();
}

/* The copy, one instruction after the other; what a function has below its stack stays. */
static void step_through(sv_copy_fn *copy, void *to, const void *from, size_t bytes)
{
	struct sigaction action = { .sa_sigaction = on_trap, .sa_flags = SA_SIGINFO }, before;

	assert_int_equal(sigaction(SIGTRAP, &action, &before), 0);
	steps = 0;
	is_over = false;
	__asm__ volatile("lea -128(%%rsp), %%rsp\n\tpushfq\n\torq %0, (%%rsp)\n\tpopfq\n\t"
			 "lea 128(%%rsp), %%rsp"
			 :
			 : "i"(TRAP_FLAG)
			 : "memory", "cc");
	copy(to, from, bytes);
	is_over = true; /* the trap after this store is the last */
	assert_int_equal(sigaction(SIGTRAP, &before, NULL), 0);
	assert_true(steps > bytes / 32); /* no instruction copies more */
}

/* ---- from memory that changes ---- */

static uint16_t moment; /* a word is four of them; it wraps */

static void change(void)
{
	uint64_t *word = (uint64_t *)(void *)shared;

	moment++;
	for (size_t i = 0; i < ROOM / 8; i++)
		word[i] = moment * 0x0001000100010001u;
}

/* Each aligned word is of one moment, and none of one before its predecessor's. */
static void judge_read(size_t at, size_t bytes)
{
	uint16_t part[4], before = 0;
	unsigned moments = 0;

	for (size_t i = -at & 7; i + 8 <= bytes; i += 8) {
		memcpy(part, own + i, 8);
		for (unsigned j = 1; j < 4; j++)
			assert_int_equal(part[j], part[0]);
		assert_true(!moments || (uint16_t)(part[0] - before) < 0x8000);
		moments += !moments || part[0] != before;
		before = part[0];
	}
	assert_true(moments > 1);
}

static void test_read(void **state)
{
	static const size_t sizes[] = { 24, 100, 511, 512, 700, 1300 };

	(void)state;
	on_step = change;
	for (size_t at = 0; at < 40; at += 5) {
		for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
			change();
			step_through(sv_copy_from_shared, own, shared + at, sizes[i]);
			judge_read(at, sizes[i]);
		}
	}
}

/* ---- to memory that is looked at ---- */

static size_t words, words_before; /* of the target, and those that are written already */
static bool is_torn, is_disordered, is_seen_halfway;

static void look(void)
{
	const uint64_t *word = (const uint64_t *)(const void *)shared;
	size_t written = 0;

	for (size_t i = 1; i <= words; i++) {
		is_torn |= word[i] != OLD && word[i] != NEW;
		is_disordered |= word[i] == NEW && written < i - 1;
		written += word[i] == NEW;
	}
	is_disordered |= written < words_before;
	is_seen_halfway |= written && written < words;
	words_before = written;
}

static void test_write(void **state)
{
	static const size_t sizes[] = { 24, 100, 700, 1300 };

	(void)state;
	on_step = look;
	memset(own, (int)(NEW & 0xff), ROOM);
	for (size_t lead = 0; lead < 8; lead++) {
		for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
			memset(shared, (int)(OLD & 0xff), ROOM);
			is_torn = is_disordered = is_seen_halfway = false;
			/* The words from the second on: `lead` bytes are before it. */
			words_before = 0;
			words = (sizes[i] - lead) / 8;
			step_through(sv_copy_to_shared, shared + 8 - lead, own + i, sizes[i]);
			assert_false(is_torn);
			assert_false(is_disordered);
			assert_true(is_seen_halfway);
			look();
			assert_int_equal(words_before, words);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_read),
		cmocka_unit_test(test_write),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void)
{
	puts("skipped: it stops the processors of x86-64 only, and not in ThreadSanitizer's code");
	return 77;
}
#endif
