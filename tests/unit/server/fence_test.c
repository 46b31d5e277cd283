/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The fences of a change, where they have to be: kvd's changes of what clients READ, one
 * instruction at a time, and between which of them it executes a full fence.
 *
 * Other cores show a missing fence once in millions of changes, and the simulation never.
 * A child changes the table, traced; its instructions tell the fences, the table's memory what
 * was stored.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <unistd.h>
#include <cmocka.h>

#include "server/store/item/item.h"
#include "server/store/txn.h"
#include "server/table/show.h"
#include "tests/unit/server/stopped_kit.h"

#define ITEMS 2u
#define VALUE_BYTES 64u
#define SEEN_MAX 64u

static const char *const names[ITEMS] = { "one", "two" };
static struct layout_item *item[ITEMS]; /* of the keys, before the change */

/* What a client could see. */
struct look {
	uint64_t state[ITEMS];
	uint8_t value[ITEMS][VALUE_BYTES];
	uint64_t committed;
	struct layout_txn txn[ITEMS];
	struct layout_lease lease;
};

/* "mfence", or "lock or" of nothing into the stack, which compilers have for it. */
static bool is_fence(const uint8_t *code)
{
	static const uint8_t mfence[] = { 0x0f, 0xae, 0xf0 };
	static const uint8_t or_64[] = { 0xf0, 0x48, 0x83, 0x0c, 0x24, 0x00 };
	static const uint8_t or_32[] = { 0xf0, 0x83, 0x0c, 0x24, 0x00 };

	return !memcmp(code, mfence, sizeof mfence) || !memcmp(code, or_64, sizeof or_64) ||
	       !memcmp(code, or_32, sizeof or_32);
}

/* The instruction that the child executes next: it has its parent's code. */
static const uint8_t *next_code(pid_t child)
{
#ifdef __x86_64__
	struct user_regs_struct regs;

	assert_int_equal(ptrace(PTRACE_GETREGS, child, NULL, &regs), 0);
	return (const uint8_t *)(uintptr_t)regs.rip;
#else
	(void)child;
	return NULL;
#endif
}

static void take_look(struct look *l)
{
	const struct layout_scratch *scratch = stopped_store.worker[0].scratch;

	for (unsigned i = 0; i < ITEMS; i++) {
		l->state[i] = item[i]->state;
		memcpy(l->value[i], item[i]->data, VALUE_BYTES);
	}
	l->committed = scratch->committed;
	memcpy(l->txn, scratch->txn, sizeof l->txn);
	l->lease = stopped_store.table->header->lease;
}

/* P: marked as pending; U: being overwritten; O: replaced once the transaction is committed;
 * s: any other state. */
static char state_letter(uint64_t was, uint64_t is)
{
	if (layout_state_kind(is) != layout_state_kind(was))
		return layout_state_kind(is) == LAYOUT_UPDATING ? 'U'
		       : layout_state_kind(is) == LAYOUT_OLD	? 'O'
								: 's';
	return is & ~was & LAYOUT_PENDING ? 'P' : 's';
}

/* V: a value; C: the point of effect of a transaction; W: what it tells of itself; L: the lease of
 * the header.  0: nothing. */
static char change_between(const struct look *was, const struct look *is)
{
	for (unsigned i = 0; i < ITEMS; i++)
		if (is->state[i] != was->state[i])
			return state_letter(was->state[i], is->state[i]);
	if (memcmp(is->value, was->value, sizeof is->value))
		return 'V';
	if (is->committed != was->committed)
		return 'C';
	if (memcmp(is->txn, was->txn, sizeof is->txn))
		return 'W';
	return memcmp(&is->lease, &was->lease, sizeof is->lease) ? 'L' : 0;
}

/* The same letter again says nothing new, unless there was a fence. */
static void note(char *seen, char letter)
{
	size_t n = strlen(seen);

	if (letter && n + 1 < SEEN_MAX && (!n || seen[n - 1] != letter)) {
		seen[n] = letter;
		seen[n + 1] = '\0';
	}
}

static void find_items(void)
{
	struct index *index = stopped_store.store->index;
	struct index_spot spot;
	struct index_entry entry;

	for (unsigned i = 0; i < ITEMS; i++) {
		struct hash h = hash_key(stopped_store.table->hash_seed, names[i], strlen(names[i]));
		index_lock(index, h, &spot);
		assert_true(index_find(index, &spot, names[i], (unsigned)strlen(names[i]), &entry));
		item[i] = item_at(stopped_store.store, entry.word);
		index_unlock(index, &spot);
	}
}

/* What one change lets others see, with an F for each fence. */
static void watch(void (*work)(unsigned n), char *seen)
{
	static uint8_t value[VALUE_BYTES];
	struct look was, is;

	stopped_begin(1);
	for (unsigned i = 0; i < ITEMS; i++)
		assert_int_equal(fixture_put(&stopped_store.worker[0], names[i], strlen(names[i]), value,
					     sizeof value, 0, NULL), WIRE_OK);
	find_items();
	*seen = '\0';
	take_look(&was);
	pid_t child = stopped_start(work, 0);
	for (bool goes = true; goes;) {
		bool fence = is_fence(next_code(child));
		goes = stopped_go_on(child, true);
		take_look(&is);
		note(seen, change_between(&was, &is));
		was = is;
		if (fence)
			note(seen, 'F');
	}
	print_message("%s\n", seen);
	assert_true(stopped_shared->end);
	stopped_end();
}

static void put(const void *value, size_t value_bytes)
{
	if (fixture_put(&stopped_store.worker[0], names[0], strlen(names[0]), value, value_bytes, 0, NULL))
		_exit(3);
}

static void put_in_place(unsigned n)
{
	static uint8_t value[VALUE_BYTES] = { 1 };

	(void)n;
	put(value, sizeof value);
}

static void put_elsewhere(unsigned n)
{
	static uint8_t value[10 * VALUE_BYTES] = { 1 };

	(void)n;
	put(value, sizeof value);
}

static void remove_one(unsigned n)
{
	(void)n;
	if (fixture_remove(&stopped_store.worker[0], names[0], strlen(names[0])))
		_exit(3);
}

static void put_both(unsigned n)
{
	static const uint8_t value[VALUE_BYTES] = { 1 };
	struct txn_key keys[ITEMS] = { 0 };
	uint64_t version;
	unsigned failed;

	(void)n;
	for (unsigned i = 0; i < ITEMS; i++)
		keys[i] = (struct txn_key){
			.kind = WIRE_TXN_PUT,
			.version = WIRE_TXN_ANY,
			.change = { .hash = hash_key(stopped_store.table->hash_seed, names[i],
						     strlen(names[i])),
				    .key = names[i],
				    .key_bytes = (unsigned)strlen(names[i]),
				    .value = value,
				    .value_bytes = sizeof value },
		};
	if (txn_run(&stopped_store.worker[0], keys, ITEMS, 0, &version, &failed) != WIRE_OK)
		_exit(3);
}

static void must_begin(void (*work)(unsigned n), const char *with)
{
	char seen[SEEN_MAX];

	watch(work, seen);
	if (strncmp(seen, with, strlen(with)))
		fail_msg("%s instead of %s...: F is a fence, see state_letter()", seen, with);
}

/* Who holds a lock sees the mark, or kvd sees the lock: a fence behind the mark, before kvd looks.
 * Who READs a value that is being overwritten sees that it is. */
static void test_changes(void **state)
{
	(void)state;
	must_begin(put_in_place, "PFUFVs");
	must_begin(put_elsewhere, "PFs");
	must_begin(remove_one, "PFs");
}

/* Its scratch before who sends readers there; all of it before its effect; that before more. */
static void test_txn(void **state)
{
	(void)state;
	must_begin(put_both, "PFWFOFCFs");
}

static void show_and_hide(unsigned n)
{
	(void)n;
	table_show_lease(stopped_store.table, 7, 5, 4);
	table_hide_lease(stopped_store.table);
}

/* What is READ from now on has the words, before kvd says so to anybody. */
static void test_lease(void **state)
{
	(void)state;
	must_begin(show_and_hide, "LFLF");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_changes),
		cmocka_unit_test(test_txn),
		cmocka_unit_test(test_lease),
	};

#ifndef __x86_64__
	printf("skipped: it knows the fences of x86 only\n");
	return 77;
#endif
	return cmocka_run_group_tests(tests, NULL, NULL);
}
