/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Happy path: an allocation fails, or little memory is left, and a round begins.  A worker
 * goes through its part of the region's pages, from the last to the first, and empties the
 * slabs that are less full than their class is on average: no slot of such a slab is taken
 * any more, its items are moved to other slabs, and its pages are the region's.  What does not
 * fill a slab of its class goes to slots that are an eighth longer at the most, and what is in
 * a slab with a long tail to a better one.  And again, until little is to be gained.
 *
 * Where the free pages are in pieces, slabs then slide: from the first to the last each moves,
 * as it is, to the lowest run that is before it.  What it leaves joins the next piece, so a
 * hole that is longer than any slab goes up through the pages and gathers the others.  So do
 * items of whole pages, but for the longest.  When all workers are through, the round is over.
 *
 * A slab knows which of its slots are taken.  Whether an item stands in one is decided by the
 * index: it does if its key's entry names it, under the key's mark and locks.  What else a
 * taken slot may hold (being filled, kept by a worker, a copy for a client) stays.
 *
 * Bounded: a step looks at SCAN_PAGES pages or moves STEP_ITEMS items, of STEP_BYTES, or, while
 * a change waits, works for STEP_NS; a round makes PASSES_MAX passes, and slides no more than
 * SLIDE_PART times what was freed before it.
 */
#include "server/store/reclaim/compact.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "server/platform/stall.h"
#include "server/store/change/move.h"
#include "server/store/reclaim/gain.h"
#include "server/table/heap.h"

#define SCAN_PAGES 512u
#define STEP_ITEMS 8u
#define STEP_BYTES (32u << 10)
#define PASSES_MAX 12u
#define SLIDES_MAX 2u
#define SLIDE_RUN_MAX (1u << 20) /* an item of whole pages: it moves in one step */
/* What slides at most in a round: so many times what was freed since the last one. */
#define SLIDE_PART 16u
/* A slab that has so much less in it than the best one is made anew. */
#define TAIL_PART 32u
#define STEP_NS 300000ull   /* of a step while changes wait */
#define PAUSE_NS 250000ull /* after one in a round in which none has waited */
#define ROUND_NS 1000000000ull /* between rounds that nobody waits for */
/* A round begins above 7/8 of the region, if so much was freed since the last one. */
#define FREED_PART 64u
#define FREED_MIN (256u << 10)
/* Of a cache: so much freed, so much wasted; looked at every so many times. */
#define CACHE_FREED_PART 16u
#define CACHE_WASTE_PART 10u
#define CACHE_ASKED_EVERY 64u
/* Of the pages so many in turn are one worker's. */
#define SHARE_PAGES 64u

struct compact_worker {
	bool is_in_round;
	uint64_t round;  /* that it is at, or has been */
	uint64_t resume_ns;
	unsigned pass;
	size_t page;     /* below it, it has not looked */
	uint64_t gained; /* slabs of this pass */
	unsigned slides; /* of this round */
	bool is_sliding;
	size_t slide_page;    /* where the next slide goes on */
	uint64_t slide_bytes; /* that may still move */
	struct slab_held slab; /* that it empties; number 0: none */
	unsigned slot;         /* of it, where to go on */
	unsigned moved;        /* out of it */
	unsigned asked;
	enum heap_packed how;  /* where its items go */
	bool is_full[SIZE_CLASSES_MAX]; /* nowhere to move its items */
};

struct compact {
	_Atomic unsigned workers;
	_Atomic uint64_t round;
	_Atomic unsigned busy;     /* workers that are not through with the round */
	_Atomic bool urgent;       /* changes wait, and nothing was freed since */
	_Atomic bool wanted;       /* a change has waited in this round */
	_Atomic uint64_t freed_at; /* the store's freed_bytes when the last round began */
	_Atomic uint64_t slide_bytes; /* a worker's, of this round */
	_Atomic uint64_t ended_ns;
	_Atomic uint64_t passes, items, item_bytes, freed_bytes, waits, longest_ns;
};

static void count(_Atomic uint64_t *counter, uint64_t more)
{
	atomic_fetch_add_explicit(counter, more, memory_order_relaxed);
}

static uint64_t counted(const _Atomic uint64_t *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed);
}

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

	w->compact->is_in_round = false;
	if (atomic_fetch_sub(&x->busy, 1) != 1)
		return;
	atomic_store(&x->urgent, false);
	atomic_store(&x->wanted, false);
	atomic_store(&x->ended_ns, now_ns);
}

/* Of the slab that it empties, if there is one.  Whether it was empty. */
static bool let_go(struct store_worker *w)
{
	struct compact_worker *c = w->compact;
	struct compact *x = w->store->compact;
	uint64_t bytes = c->slab.bytes;

	if (!c->slab.number)
		return false;
	count(&x->items, c->moved);
	count(&x->item_bytes, c->moved * c->slab.slot_bytes);
	if (!slabs_release(w->store->table->slabs, &c->slab))
		return false;
	count(&x->freed_bytes, bytes);
	return true;
}

void compact_leave(struct store_worker *w)
{
	struct compact *x = w->store->compact;

	if (!w->compact)
		return;
	let_go(w);
	if (w->compact->round != atomic_load(&x->round) || w->compact->is_in_round)
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
	return counted(&s->freed_bytes) - counted(&s->compact->freed_at);
}

/* One of those who want it begins a round that every worker takes part in.  slide_bytes: of all. */
static void begin_round(const struct store *s, uint64_t slide_bytes)
{
	struct compact *x = s->compact;
	unsigned none = 0, workers = atomic_load(&x->workers);

	if (!workers || !atomic_compare_exchange_strong(&x->busy, &none, workers))
		return;
	atomic_store(&x->slide_bytes, slide_bytes / workers);
	atomic_store(&x->freed_at, atomic_load(&s->freed_bytes));
	atomic_fetch_add(&x->round, 1);
}

void compact_force(struct store_worker *w)
{
	struct compact *x = w->store->compact;
	const struct table *t = w->store->table;

	if (!w->compact)
		return;
	begin_round(w->store, 2 * (t->bytes - t->heap_offset));
	atomic_store(&x->wanted, true);
	atomic_store(&x->urgent, true);
}

bool compact_may_help(struct store_worker *w)
{
	struct compact *x = w->store->compact;

	if (!w->compact)
		return false;
	if (!atomic_load(&x->busy)) {
		if (freed_since(w->store) < FREED_MIN)
			return false;
		begin_round(w->store, freed_since(w->store) * SLIDE_PART);
	}
	atomic_store(&x->wanted, true);
	if (!atomic_exchange(&x->urgent, true) && w->store->wake)
		w->store->wake(w->store->wake_arg);
	count(&x->waits, 1);
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

	return w->compact && (w->compact->is_in_round ||
			      w->compact->round != atomic_load_explicit(&x->round,
									memory_order_relaxed) ||
			      is_short(w->store));
}

/* ------------------------------------------------------------------- slabs */

static void begin_pass(struct store_worker *w)
{
	struct compact_worker *c = w->compact;

	heap_trim(w->heap); /* what it keeps is taken */
	memset(c->is_full, 0, sizeof c->is_full);
	c->page = region_pages(w->store->table->region);
	c->pass++;
	c->gained = 0;
	count(&w->store->compact->passes, 1);
}

static bool is_worth_it(struct store_worker *w)
{
	uint64_t all, gain = gain_of_slabs(w->store->table->slabs, &all);

	return gain_is_worth_it(gain, all);
}

static void begin_slide(struct store_worker *w)
{
	struct compact_worker *c = w->compact;

	heap_trim(w->heap);
	c->is_sliding = true;
	c->slides++;
	c->page = c->slide_page;
	count(&w->store->compact->passes, 1);
}

static bool may_slide(const struct store_worker *w)
{
	return w->compact->slides < SLIDES_MAX && w->compact->slide_bytes &&
	       gain_is_torn(w->store->table);
}

/* The first pass of a round, or the next; `again`: the one before was of use. */
static void next_pass(struct store_worker *w, bool again, uint64_t now_ns)
{
	if (again && w->compact->pass < PASSES_MAX && is_worth_it(w))
		begin_pass(w);
	else if (may_slide(w))
		begin_slide(w);
	else
		leave_round(w, now_ns);
}

static void end_slide(struct store_worker *w, uint64_t now_ns)
{
	struct compact_worker *c = w->compact;

	c->is_sliding = false;
	c->slide_page = c->page < region_pages(w->store->table->region) ? c->page : 0;
	next_pass(w, true, now_ns);
}

bool compact_is_better(struct store_worker *w)
{
	const struct table *t = w->store->table;
	uint64_t memory = t->bytes - t->heap_offset, all;

	if (!w->compact || ++w->compact->asked % CACHE_ASKED_EVERY ||
	    freed_since(w->store) < memory / CACHE_FREED_PART)
		return false;
	uint64_t gain = gain_of_slabs(t->slabs, &all) + memory - region_used_bytes(t->region) -
			region_longest_bytes(t->region);
	return gain > memory / CACHE_WASTE_PART;
}

static void begin_worker_round(struct store_worker *w, uint64_t now_ns)
{
	struct compact_worker *c = w->compact;

	c->round = atomic_load(&w->store->compact->round);
	c->is_in_round = true;
	c->pass = c->slides = 0;
	c->slide_bytes = atomic_load(&w->store->compact->slide_bytes);
	heap_trim(w->heap);
	next_pass(w, true, now_ns);
}

/*
 * The other slabs of its class have room for what it holds, and it is less full than they are
 * on average; or all are nearly full, and then the last are emptied, so that what becomes free
 * is side by side.
 */
static bool is_sparse(struct store_worker *w, const struct slab_held *slab)
{
	struct slab_use use = slabs_use(w->store->table->slabs, slab->class);

	return !w->compact->is_full[slab->class] && use.slots - use.taken >= slab->slots &&
	       (slab->taken * use.slots <= use.taken * slab->slots ||
		use.taken > use.slots / 8 * 7);
}

/* What the moves of a step will look at comes into the cache: for all of them at once. */
static void fetch_ahead(struct store_worker *w, unsigned most)
{
	const struct slab_held *slab = &w->compact->slab;

	for (unsigned i = w->compact->slot, n = 0; i < slab->slots && n < most; i++) {
		if (!slab_held_is_taken(slab, i))
			continue;
		store_move_fetch(w, (const struct layout_item *)(slab->addr + i * slab->slot_bytes),
				 slab->slot_bytes);
		n++;
	}
}

/* Of the slab that it holds: moves some items elsewhere. */
static void drain(struct store_worker *w)
{
	struct compact_worker *c = w->compact;
	struct slab_held *slab = &c->slab;
	uint64_t fit = (STEP_BYTES + slab->slot_bytes - 1) / slab->slot_bytes;
	unsigned begun = c->moved, most = fit < STEP_ITEMS ? (unsigned)fit : STEP_ITEMS;

	fetch_ahead(w, most);
	while (c->slot < slab->slots && c->moved - begun < most) {
		unsigned i = c->slot++;
		if (!slab_held_is_taken(slab, i))
			continue;
		enum store_moved how = store_move(
			w, (struct layout_item *)(slab->addr + i * slab->slot_bytes), slab->slot_bytes,
			c->how);
		if (how == STORE_MOVED_NOWHERE) {
			c->is_full[slab->class] = true;
			c->slot = slab->slots;
		}
		c->moved += how == STORE_MOVED;
	}
	if (c->slot == slab->slots)
		c->gained += let_go(w);
}

/* Its tail is longer than that of the best one, which could be made. */
static bool is_wasteful(const struct store_worker *w, const struct slab_held *slab)
{
	const struct table *t = w->store->table;
	const struct size_class *c = &slabs_classes(t->slabs)->class[slab->class];
	unsigned pages = slabs_use(t->slabs, slab->class).pages;
	uint64_t best = pages * (uint64_t)REGION_PAGE_BYTES;

	return slab->bytes * size_class_slots(c, pages) * TAIL_PART >
		       best * slab->slots * (TAIL_PART + 1) &&
	       region_longest_bytes(t->region) >= best;
}

/* A quarter of it is free, its class has no room for the rest, but longer slots are free. */
static bool is_loose(const struct store_worker *w, const struct slab_held *slab)
{
	return slab->taken * 4 <= slab->slots * 3 && !w->compact->is_full[slab->class] &&
	       heap_longer_slots(w->heap, slab->class) >= slab->taken;
}

/* Whether the slab is to be emptied, and where its items go then. */
static bool is_to_empty(struct store_worker *w, const struct slab_held *slab, enum heap_packed *how)
{
	*how = HEAP_PACKED_GROW;
	if (is_wasteful(w, slab))
		return true;
	*how = HEAP_PACKED;
	if (is_sparse(w, slab))
		return true;
	*how = HEAP_PACKED_LONGER;
	return is_loose(w, slab);
}

static bool is_mine(const struct store_worker *w, size_t page)
{
	unsigned workers = atomic_load_explicit(&w->store->compact->workers, memory_order_relaxed);

	return !workers || page / SHARE_PAGES % workers == w->id % workers;
}

/* The next slab to empty, from the last page down to the first. */
static void find_sparse(struct store_worker *w, uint64_t now_ns)
{
	struct compact_worker *c = w->compact;
	struct table *t = w->store->table;
	struct slab_held slab;

	for (unsigned n = 0; c->page > 0 && n < SCAN_PAGES; n++) {
		if (!slabs_look(t->slabs, --c->page, &slab))
			continue;
		c->page = (size_t)(slab.addr - (uint8_t *)region_page(t->region, 0)) / REGION_PAGE_BYTES;
		if (!is_mine(w, c->page) || !is_to_empty(w, &slab, &c->how) ||
		    !slabs_hold(t->slabs, c->page, &c->slab))
			continue;
		c->slot = c->moved = 0;
		return;
	}
	if (!c->page)
		next_pass(w, c->gained, now_ns);
}

/* Whether there is a place for its items: in other slabs of its class, or before it. */
static bool has_place(struct slabs *slabs, const struct slab_held *slab)
{
	struct slab_use use = slabs_use(slabs, slab->class);

	return use.slots - use.taken >= slab->slots || slabs_add_before(slabs, slab);
}

static void slid(struct compact_worker *c, uint64_t bytes)
{
	c->slide_bytes -= bytes < c->slide_bytes ? bytes : c->slide_bytes;
}

/* Holds the slab that begins there if it can slide. */
static bool hold_to_slide(struct store_worker *w, size_t page)
{
	struct compact_worker *c = w->compact;
	struct slabs *slabs = w->store->table->slabs;

	if (!is_mine(w, page) || !slabs_hold(slabs, page, &c->slab))
		return false;
	if (!has_place(slabs, &c->slab)) {
		slabs_release(slabs, &c->slab);
		return false;
	}
	slid(c, c->slab.taken * c->slab.slot_bytes);
	c->slot = c->moved = 0;
	c->how = HEAP_PACKED;
	return true;
}

/* An item of whole pages that begins there goes before it, if it can; whether it went. */
static bool slide_run(struct store_worker *w, size_t page)
{
	struct compact *x = w->store->compact;
	struct region *region = w->store->table->region;
	size_t bytes = heap_run_bytes(region, page);

	if (!bytes)
		return false;
	w->compact->page = page + bytes / REGION_PAGE_BYTES;
	if (bytes > SLIDE_RUN_MAX || !is_mine(w, page) ||
	    store_move(w, region_page(region, page), bytes, HEAP_PACKED) != STORE_MOVED)
		return false;
	slid(w->compact, bytes);
	count(&x->items, 1);
	count(&x->item_bytes, bytes);
	count(&x->freed_bytes, bytes);
	return true;
}

/* The next slab or item to slide, from the first page up. */
static void find_to_slide(struct store_worker *w, uint64_t now_ns)
{
	struct compact_worker *c = w->compact;
	struct table *t = w->store->table;
	size_t pages = region_pages(t->region);
	struct slab_held slab;

	if (!c->slide_bytes || !gain_is_torn(t))
		return end_slide(w, now_ns);
	for (size_t end = c->page + SCAN_PAGES; c->page < end && c->page < pages;) {
		size_t page = c->page++;
		if (slide_run(w, page))
			return;
		if (!slabs_look(t->slabs, page, &slab))
			continue;
		page = (size_t)(slab.addr - (uint8_t *)region_page(t->region, 0)) / REGION_PAGE_BYTES;
		c->page = page + slab.bytes / REGION_PAGE_BYTES;
		if (hold_to_slide(w, page))
			return;
	}
	if (c->page >= pages)
		end_slide(w, now_ns);
}

static void go_on(struct store_worker *w, uint64_t now_ns)
{
	if (w->compact->slab.number)
		drain(w);
	else if (w->compact->is_sliding)
		find_to_slide(w, now_ns);
	else
		find_sparse(w, now_ns);
}

void compact_note_stall(struct store_worker *w, uint64_t begun_ns)
{
	struct compact *x = w->store->compact;
	uint64_t was = counted(&x->longest_ns);
	uint64_t ns = stall_end(&w->stall, begun_ns, was);

	while (was < ns && !atomic_compare_exchange_weak(&x->longest_ns, &was, ns))
		;
}

/* The beginning of a round, where it is time for one. */
static void join_round(struct store_worker *w, uint64_t now_ns)
{
	struct compact *x = w->store->compact;
	struct compact_worker *c = w->compact;

	if (c->is_in_round)
		return;
	if (c->round == atomic_load(&x->round) && is_short(w->store) &&
	    now_ns - atomic_load(&x->ended_ns) > ROUND_NS)
		begin_round(w->store, freed_since(w->store) * SLIDE_PART);
	if (c->round != atomic_load(&x->round))
		begin_worker_round(w, now_ns);
}

/* Until there is something for a change that waits: it looks before more is done, and says so if
 * that was too little. */
static void step_urgently(struct store_worker *w, uint64_t now_ns)
{
	struct compact *x = w->store->compact;
	uint64_t freed = counted(&x->freed_bytes);
	uint64_t begun_ns = clock_ns();

	while (w->compact->is_in_round && counted(&x->freed_bytes) == freed &&
	       clock_ns() - begun_ns < STEP_NS)
		go_on(w, now_ns);
	atomic_store(&x->urgent, false);
}

/* One piece of work.  In a round in which changes have waited half of the time is for it, so that
 * few wait once more; otherwise it can take its time. */
static void step(struct store_worker *w, uint64_t now_ns)
{
	struct compact_worker *c = w->compact;
	uint64_t begun_ns = clock_ns();

	if (c->is_in_round)
		go_on(w, now_ns);
	c->resume_ns = now_ns + (atomic_load(&w->store->compact->wanted)
					 ? 2 * (clock_ns() - begun_ns) : PAUSE_NS);
}

void compact_step(struct store_worker *w, uint64_t now_ns)
{
	struct compact *x = w->store->compact;
	bool urgent = atomic_load(&x->urgent);

	if (!urgent && now_ns < w->compact->resume_ns)
		return;
	uint64_t begun_ns = stall_begin(&w->stall);
	join_round(w, now_ns);
	if (urgent)
		step_urgently(w, now_ns);
	else
		step(w, now_ns);
	compact_note_stall(w, begun_ns);
}

struct compact_stats compact_stats(const struct compact *x)
{
	return (struct compact_stats){
		.passes = counted(&x->passes),
		.items = counted(&x->items),
		.item_bytes = counted(&x->item_bytes),
		.freed_bytes = counted(&x->freed_bytes),
		.waits = counted(&x->waits),
		.longest_ns = counted(&x->longest_ns),
	};
}
