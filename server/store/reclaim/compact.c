/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Happy path: an allocation fails, or little memory is left, and a round begins.  Each
 * worker looks over the slabs of its own heap (PHASE_SCAN), to know how full each size's
 * slabs are; then from the last to the first it empties those that are less full than
 * their size's average (PHASE_DRAIN), as jemalloc fills the first ones; and again, until
 * little is to be gained.  When all workers are through, the round is over.
 *
 * The slots of a slab are gone through in memory.  Whether one holds an item is decided
 * by the index: it does if its key's entry names it, under the key's mark and locks.
 * What else a slot may hold (free, being filled, a copy for a client) stays.
 *
 * Bounded: a step looks at SCAN_PAGES pages or empties one slab, of some 64 KiB at the
 * most; a round makes PASSES_MAX passes.
 */
#include "server/store/reclaim/compact.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "server/store/change/move.h"
#include "server/table/heap.h"

#define SCAN_PAGES 4096u
#define PASSES_MAX 12u
#define STEP_NS 500000ull  /* of a step while changes wait */
#define PAUSE_NS 1000000ull /* after one while none does */
#define ROUND_NS 1000000000ull /* between rounds that nobody waits for */
/* A round begins above 7/8 of the region, if so much was freed since the last one. */
#define FREED_PART 64u
#define FREED_MIN (256u << 10)
#define SIZES (REGION_PAGE_BYTES * 4 / LAYOUT_UNIT_BYTES)

/* Slots of one size in the worker's slabs. */
struct size {
	uint64_t slots;
	uint64_t taken;
	bool is_full; /* nowhere to move its items */
};

enum phase { PHASE_NONE, PHASE_SCAN, PHASE_DRAIN };

struct compact_worker {
	enum phase phase;
	uint64_t round;  /* that it is at, or has been */
	uint64_t resume_ns;
	unsigned pass;
	size_t page;
	uint64_t gained; /* slabs of this pass */
	struct size size[SIZES];
};

struct compact {
	_Atomic unsigned workers;
	_Atomic uint64_t round;
	_Atomic unsigned busy;     /* workers that are not through with the round */
	_Atomic bool urgent;       /* changes wait */
	_Atomic uint64_t freed_at; /* the store's freed_bytes when the last round began */
	_Atomic uint64_t ended_ns;
	_Atomic uint64_t passes, items, item_bytes, freed_bytes, waits;
};

int compact_new(struct compact **compact)
{
	*compact = calloc(1, sizeof **compact);
	return *compact ? 0 : ENOMEM;
}

void compact_delete(struct compact **compact)
{
	free(*compact);
	*compact = NULL;
}

void compact_join(struct store_worker *w)
{
	w->compact = calloc(1, sizeof *w->compact);
	if (!w->compact)
		return; /* then its slabs stay as they are */
	struct compact *x = w->store->compact;
	w->compact->round = atomic_load(&x->round);
	atomic_fetch_add(&x->workers, 1);
}

static void leave_round(struct store_worker *w, uint64_t now_ns)
{
	struct compact *x = w->store->compact;

	w->compact->phase = PHASE_NONE;
	if (atomic_fetch_sub(&x->busy, 1) != 1)
		return;
	atomic_store(&x->urgent, false);
	atomic_store(&x->ended_ns, now_ns);
}

void compact_leave(struct store_worker *w)
{
	struct compact *x = w->store->compact;

	if (!w->compact)
		return;
	if (w->compact->round != atomic_load(&x->round) || w->compact->phase != PHASE_NONE)
		leave_round(w, 0);
	atomic_fetch_sub(&x->workers, 1);
	free(w->compact);
	w->compact = NULL;
}

bool compact_is_busy(const struct compact *x)
{
	return atomic_load(&x->busy);
}

static uint64_t freed_since(const struct store *s)
{
	return atomic_load_explicit(&s->freed_bytes, memory_order_relaxed) -
	       atomic_load_explicit(&s->compact->freed_at, memory_order_relaxed);
}

/* One of those who want it begins a round that every worker takes part in. */
static void begin_round(const struct store *s)
{
	struct compact *x = s->compact;
	unsigned none = 0;

	if (!atomic_compare_exchange_strong(&x->busy, &none, atomic_load(&x->workers)))
		return;
	atomic_store(&x->freed_at, atomic_load(&s->freed_bytes));
	atomic_fetch_add(&x->round, 1);
}

bool compact_may_help(struct store_worker *w)
{
	struct compact *x = w->store->compact;

	if (!w->compact)
		return false;
	if (!atomic_load(&x->busy)) {
		if (freed_since(w->store) < FREED_MIN)
			return false;
		begin_round(w->store);
	}
	if (!atomic_exchange(&x->urgent, true) && w->store->wake)
		w->store->wake(w->store->wake_arg);
	atomic_fetch_add_explicit(&x->waits, 1, memory_order_relaxed);
	return true;
}

static bool is_short(const struct store *s)
{
	uint64_t all = s->table->bytes - s->table->heap_offset;

	/* A cache is always full: there only what waits is moved for. */
	return !s->evict && region_used_bytes(s->table->region) > all - all / 8 &&
	       freed_since(s) > all / FREED_PART;
}

bool compact_is_due(const struct store_worker *w)
{
	const struct compact *x = w->store->compact;

	return w->compact && (w->compact->phase != PHASE_NONE ||
			      w->compact->round != atomic_load_explicit(&x->round,
									memory_order_relaxed) ||
			      is_short(w->store));
}

/* ------------------------------------------------------------------- slabs */

static struct size *size_of(struct compact_worker *c, const struct heap_slab *slab)
{
	size_t units = slab->bytes / slab->slots / LAYOUT_UNIT_BYTES;

	return &c->size[units < SIZES ? units : SIZES - 1];
}

static void begin_scan(struct store_worker *w)
{
	struct compact_worker *c = w->compact;

	heap_trim(w->heap); /* what the cache keeps is taken to be in use */
	memset(c->size, 0, sizeof c->size);
	c->page = 0;
	c->phase = PHASE_SCAN;
}

/* Slots that other items could have if this size's were packed. */
static uint64_t to_gain(const struct compact_worker *c)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < SIZES; i++)
		bytes += (c->size[i].slots - c->size[i].taken) * i * LAYOUT_UNIT_BYTES;
	return bytes;
}

static uint64_t all_bytes(const struct compact_worker *c)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < SIZES; i++)
		bytes += c->size[i].slots * i * LAYOUT_UNIT_BYTES;
	return bytes;
}

static void scan(struct store_worker *w, uint64_t now_ns)
{
	struct compact_worker *c = w->compact;
	size_t pages = region_pages(w->store->table->region), end = c->page + SCAN_PAGES;
	struct heap_slab slab;

	while (c->page < end && heap_slab_next(w->heap, &c->page, end - c->page, &slab)) {
		struct size *z = size_of(c, &slab);
		z->slots += slab.slots;
		z->taken += slab.slots - slab.free;
	}
	if (c->page < pages)
		return;
	/* A fiftieth is left: the last is the dearest. */
	if (c->pass == PASSES_MAX || (c->pass && !c->gained) ||
	    to_gain(c) <= all_bytes(c) / 50 + (64u << 10)) {
		leave_round(w, now_ns);
		return;
	}
	c->pass++;
	c->gained = 0;
	c->phase = PHASE_DRAIN;
	atomic_fetch_add_explicit(&w->store->compact->passes, 1, memory_order_relaxed);
}

/* Less full than the average of its size, and the others have room for what it holds. */
static bool is_sparse(struct compact_worker *c, const struct heap_slab *slab)
{
	const struct size *z = size_of(c, slab);
	uint64_t taken = slab->slots - slab->free;

	return !z->is_full && taken * z->slots <= z->taken * slab->slots &&
	       z->slots - z->taken > slab->slots;
}

/* Moves a slab's items elsewhere.  Whether it is empty now. */
static bool drain(struct store_worker *w, const struct heap_slab *slab)
{
	struct compact *x = w->store->compact;
	struct size *z = size_of(w->compact, slab);
	size_t slot_bytes = slab->bytes / slab->slots;
	uint32_t moved = 0;

	for (uint32_t i = 0; i < slab->slots; i++) {
		struct layout_item *item = (struct layout_item *)(slab->addr + i * slot_bytes);
		enum store_moved how = store_move(w, item, slot_bytes, slab->addr, slab->bytes);
		if (how == STORE_MOVED_NOWHERE) {
			z->is_full = true;
			break;
		}
		moved += how == STORE_MOVED;
	}
	atomic_fetch_add_explicit(&x->items, moved, memory_order_relaxed);
	atomic_fetch_add_explicit(&x->item_bytes, moved * slot_bytes, memory_order_relaxed);
	if (moved < slab->slots - slab->free)
		return false;
	z->slots -= slab->slots;
	atomic_fetch_add_explicit(&x->freed_bytes, slab->bytes, memory_order_relaxed);
	return true;
}

/* From the last page down to the first, one slab at a call. */
static void drain_next(struct store_worker *w)
{
	struct compact_worker *c = w->compact;
	struct heap_slab slab;

	for (unsigned n = 0; c->page > 0 && n < SCAN_PAGES; n++) {
		if (!heap_slab_at(w->heap, --c->page, &slab) || !is_sparse(c, &slab))
			continue;
		c->gained += drain(w, &slab);
		return;
	}
	if (!c->page)
		begin_scan(w);
}

static void go_on(struct store_worker *w, uint64_t now_ns)
{
	if (w->compact->phase == PHASE_SCAN)
		scan(w, now_ns);
	else if (w->compact->phase == PHASE_DRAIN)
		drain_next(w);
}

void compact_step(struct store_worker *w, uint64_t now_ns)
{
	struct compact *x = w->store->compact;
	struct compact_worker *c = w->compact;
	bool urgent = atomic_load(&x->urgent);

	if (!urgent && now_ns < c->resume_ns)
		return;
	c->resume_ns = now_ns + PAUSE_NS;
	if (c->phase == PHASE_NONE && c->round == atomic_load(&x->round)) {
		if (is_short(w->store) && now_ns - atomic_load(&x->ended_ns) > ROUND_NS)
			begin_round(w->store);
	}
	if (c->phase == PHASE_NONE && c->round != atomic_load(&x->round)) {
		c->round = atomic_load(&x->round);
		c->pass = 0;
		begin_scan(w);
	}
	do
		go_on(w, now_ns);
	while (urgent && c->phase != PHASE_NONE && clock_ns() - now_ns < STEP_NS);
}

struct compact_stats compact_stats(const struct compact *x)
{
	return (struct compact_stats){
		.passes = atomic_load_explicit(&x->passes, memory_order_relaxed),
		.items = atomic_load_explicit(&x->items, memory_order_relaxed),
		.item_bytes = atomic_load_explicit(&x->item_bytes, memory_order_relaxed),
		.freed_bytes = atomic_load_explicit(&x->freed_bytes, memory_order_relaxed),
		.waits = atomic_load_explicit(&x->waits, memory_order_relaxed),
	};
}
