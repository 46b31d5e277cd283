/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Each page of a slab has the slab's number in the region's notes, so a slot's address leads
 * to its slab.  A page holds 64 slots at the most, so a word of bits a page is enough: those
 * of a slab follow each other from the word of its first page on.
 *
 * Slabs with free slots are in lists, by how full they are.  Slots are taken from the fullest
 * ones: so those that are sparse become empty by themselves, and what is moved out of one
 * does not go into the next that is emptied.
 *
 * The first slabs of a class are of few pages, and where it has very many items they may be of
 * more than others' (size_class.h).  A slab is shorter where the region has no such run.
 */
#include "server/table/slab.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define BINS 4u
#define NOT_LISTED BINS
/* A class is past its first slabs when it has so many slots that they fill that many. */
#define FIRST_SLABS 4u
/* It has very many when they fill so many of the longest slabs. */
#define LONG_SLABS 8u

struct slab {
	uint32_t page; /* the first one */
	uint32_t next, prev;
	uint16_t slots, taken;
	_Atomic uint16_t class;
	uint8_t pages;
	uint8_t bin;
	bool is_held;
};
static_assert(sizeof(struct slab) <= 32, "what slab.h says");

/* A class' slabs. */
struct list {
	pthread_mutex_t lock;
	uint32_t bin[BINS]; /* numbers of slabs; 0: none */
	uint64_t slots, taken, pages;
};

struct slabs {
	struct region *region;
	uint8_t *base;
	struct size_classes classes;
	struct list list[SIZE_CLASSES_MAX];

	/* By number, from 1 on; by page. Zero pages until they are used. */
	struct slab *slab;
	uint64_t *free_bits;
	size_t slab_bytes, bits_bytes;

	pthread_mutex_t numbers_lock; /* behind a class' */
	uint32_t numbers;             /* given out so far */
	uint32_t unused;              /* a list by next */
};

/* ------------------------------------------------------------------- books */

static void *map_zeros(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

int slabs_new(struct region *region, unsigned unit_bytes, struct slabs **slabs)
{
	struct slabs *s = calloc(1, sizeof *s);
	size_t pages = region_pages(region);

	if (!s)
		return ENOMEM;
	s->region = region;
	s->base = region_page(region, 0);
	s->slab_bytes = (pages + 1) * sizeof *s->slab;
	s->bits_bytes = pages * sizeof *s->free_bits;
	s->slab = map_zeros(s->slab_bytes);
	s->free_bits = map_zeros(s->bits_bytes);
	size_classes_init(&s->classes, unit_bytes);
	for (unsigned i = 0; i < SIZE_CLASSES_MAX; i++)
		pthread_mutex_init(&s->list[i].lock, NULL);
	pthread_mutex_init(&s->numbers_lock, NULL);
	*slabs = s;
	if (s->slab && s->free_bits)
		return 0;
	slabs_delete(slabs);
	return ENOMEM;
}

static void free_pages(struct slabs *s, const struct slab *b)
{
	for (unsigned i = 0; i < b->pages; i++)
		region_note(s->region, region_page(s->region, b->page + i), 0);
	region_free(s->region, region_page(s->region, b->page), b->pages * (size_t)REGION_PAGE_BYTES);
}

void slabs_delete(struct slabs **slabs)
{
	struct slabs *s = *slabs;

	*slabs = NULL;
	if (!s)
		return;
	for (uint32_t i = 1; i <= s->numbers; i++)
		if (s->slab[i].pages)
			free_pages(s, &s->slab[i]);
	for (unsigned i = 0; i < SIZE_CLASSES_MAX; i++)
		pthread_mutex_destroy(&s->list[i].lock);
	pthread_mutex_destroy(&s->numbers_lock);
	if (s->slab)
		munmap(s->slab, s->slab_bytes);
	if (s->free_bits)
		munmap(s->free_bits, s->bits_bytes);
	free(s);
}

const struct size_classes *slabs_classes(const struct slabs *s)
{
	return &s->classes;
}

static unsigned class_of(const struct slab *b)
{
	return atomic_load_explicit(&b->class, memory_order_relaxed);
}

static size_t slot_bytes_of(const struct slabs *s, const struct slab *b)
{
	return s->classes.class[class_of(b)].slot_bytes;
}

static uint8_t *addr_of(const struct slabs *s, const struct slab *b)
{
	return s->base + (size_t)b->page * REGION_PAGE_BYTES;
}

/* 0 where no slab is. */
static uint32_t number_at(const struct slabs *s, size_t page)
{
	uint32_t note = region_noted(s->region, page);

	return note & SLAB_NOTE_RUN ? 0 : note;
}

/* The slab of a slot that is taken. */
static uint32_t number_of(const struct slabs *s, const void *slot)
{
	return number_at(s, (size_t)((const uint8_t *)slot - s->base) / REGION_PAGE_BYTES);
}

/* ------------------------------------------------------------------- lists */

static void unlist(struct slabs *s, struct list *l, struct slab *b)
{
	if (b->bin == NOT_LISTED)
		return;
	if (b->prev)
		s->slab[b->prev].next = b->next;
	else
		l->bin[b->bin] = b->next;
	if (b->next)
		s->slab[b->next].prev = b->prev;
	b->bin = NOT_LISTED;
}

static void enlist(struct slabs *s, struct list *l, struct slab *b, unsigned bin)
{
	uint32_t number = (uint32_t)(b - s->slab);

	b->bin = (uint8_t)bin;
	b->prev = 0;
	b->next = l->bin[bin];
	if (b->next)
		s->slab[b->next].prev = number;
	l->bin[bin] = number;
}

/* Into the list that it belongs to now.  Caller: has the class' lock. */
static void place(struct slabs *s, struct list *l, struct slab *b)
{
	unsigned bin = b->is_held || b->taken == b->slots ? NOT_LISTED : b->taken * BINS / b->slots;

	if (bin == b->bin)
		return;
	unlist(s, l, b);
	if (bin != NOT_LISTED)
		enlist(s, l, b, bin);
}

/* ------------------------------------------------------------------- slabs */

static uint32_t new_number(struct slabs *s)
{
	pthread_mutex_lock(&s->numbers_lock);
	uint32_t number = s->unused;
	if (number)
		s->unused = s->slab[number].next;
	else
		number = ++s->numbers;
	pthread_mutex_unlock(&s->numbers_lock);
	return number;
}

static void give_number(struct slabs *s, struct slab *b)
{
	pthread_mutex_lock(&s->numbers_lock);
	b->pages = 0;
	b->next = s->unused;
	s->unused = (uint32_t)(b - s->slab);
	pthread_mutex_unlock(&s->numbers_lock);
}

static void *get_pages(struct slabs *s, unsigned pages)
{
	size_t bytes = (size_t)pages * REGION_PAGE_BYTES;

	return region_has_spare(s->region, bytes) ? region_alloc(s->region, bytes, REGION_PAGE_BYTES)
						  : NULL;
}

/* How long a slab of the class should be.  Caller: has the class' lock. */
static unsigned best_pages(const struct slabs *s, unsigned class)
{
	const struct size_class *c = &s->classes.class[class];

	uint64_t pages = s->list[class].pages;

	if (pages < FIRST_SLABS * c->pages)
		return c->pages_first;
	return pages < LONG_SLABS * c->pages_long ? c->pages : c->pages_long;
}

/*
 * A run for a slab of the class: of *pages.  Where there is none that is as long as it should
 * be, the slab is shorter: it has as many slots as fit into the longest run.
 */
static void *get_run(struct slabs *s, unsigned class, enum slabs_grow grow, unsigned *pages)
{
	const struct size_class *c = &s->classes.class[class];
	unsigned pages_min = grow == SLABS_GROW_ANY ? c->pages_min : c->pages_first;
	void *run;

	*pages = best_pages(s, class);
	run = get_pages(s, *pages);
	if (run)
		return run;
	size_t longest = region_longest_bytes(s->region) / REGION_PAGE_BYTES;
	if (longest < pages_min)
		return NULL;
	*pages = size_class_pages_within(c, longest < *pages ? (unsigned)longest : *pages);
	return get_pages(s, *pages);
}

static void set_all_free(uint64_t *bits, unsigned slots)
{
	for (; slots >= 64; slots -= 64)
		*bits++ = ~0ull;
	if (slots)
		*bits = (1ull << slots) - 1;
}

/* Caller: has the class' lock. */
static void enter_slab(struct slabs *s, unsigned class, const uint8_t *run, unsigned pages)
{
	struct list *l = &s->list[class];
	uint32_t number = new_number(s);
	struct slab *b = &s->slab[number];

	b->page = (uint32_t)((size_t)(run - s->base) / REGION_PAGE_BYTES);
	b->pages = (uint8_t)pages;
	atomic_store_explicit(&b->class, (uint16_t)class, memory_order_relaxed);
	b->slots = (uint16_t)size_class_slots(&s->classes.class[class], pages);
	b->taken = 0;
	b->is_held = false;
	set_all_free(&s->free_bits[b->page], b->slots);
	b->bin = NOT_LISTED;
	place(s, l, b);
	l->slots += b->slots;
	l->pages += pages;
	/* Whoever finds its number finds all of the above. */
	for (unsigned i = 0; i < pages; i++)
		region_note(s->region, run + (size_t)i * REGION_PAGE_BYTES, number);
}

/* Caller: has the class' lock. */
static bool add_slab(struct slabs *s, unsigned class, enum slabs_grow grow)
{
	unsigned pages;
	const uint8_t *run = get_run(s, class, grow, &pages);

	if (run)
		enter_slab(s, class, run, pages);
	return run;
}

/* It is empty.  Caller: has the class' lock. */
static void remove_slab(struct slabs *s, struct list *l, struct slab *b)
{
	unlist(s, l, b);
	l->slots -= b->slots;
	l->pages -= b->pages;
	free_pages(s, b);
	give_number(s, b);
}

/* ------------------------------------------------------------ take and give */

/* The slots of a slab that are free, up to `count` of them. */
static unsigned take_from(struct slabs *s, struct slab *b, void **slot, unsigned count)
{
	uint64_t *bits = &s->free_bits[b->page];
	uint8_t *addr = addr_of(s, b);
	size_t bytes = slot_bytes_of(s, b);
	unsigned n = 0;

	for (unsigned word = 0; n < count && word * 64 < b->slots; word++) {
		for (; n < count && bits[word]; bits[word] &= bits[word] - 1)
			slot[n++] = addr + (word * 64 + (unsigned)__builtin_ctzll(bits[word])) * bytes;
	}
	b->taken = (uint16_t)(b->taken + n);
	return n;
}

/* The fullest slab that has a free slot; 0: none. */
static uint32_t fullest(const struct list *l)
{
	unsigned bin = BINS;

	while (bin-- > 0)
		if (l->bin[bin])
			return l->bin[bin];
	return 0;
}

unsigned slabs_take(struct slabs *s, unsigned class, void **slot, unsigned count,
		    enum slabs_grow grow)
{
	struct list *l = &s->list[class];
	unsigned n = 0;
	uint32_t number;

	pthread_mutex_lock(&l->lock);
	if (grow != SLABS_GROW_NOT && !fullest(l))
		add_slab(s, class, grow);
	while (n < count && (number = fullest(l)) != 0) {
		struct slab *b = &s->slab[number];
		n += take_from(s, b, slot + n, count - n);
		place(s, l, b);
	}
	l->taken += n;
	pthread_mutex_unlock(&l->lock);
	return n;
}

/* Caller: has the class' lock. */
static void give_one(struct slabs *s, struct list *l, struct slab *b, const void *slot)
{
	size_t offset = (size_t)((const uint8_t *)slot - addr_of(s, b));
	unsigned i = (unsigned)offset / (unsigned)slot_bytes_of(s, b);
	uint64_t *word = &s->free_bits[b->page + i / 64], bit = 1ull << i % 64;
	/* Else it is no slot, or free twice. */
	assert(b->pages && i * slot_bytes_of(s, b) == offset && i < b->slots && !(*word & bit));
	*word |= bit;
	b->taken--;
	l->taken--;
	if (b->taken || b->is_held)
		place(s, l, b);
	else
		remove_slab(s, l, b);
}

void slabs_give(struct slabs *s, void *const *slot, unsigned count)
{
	struct list *locked = NULL;

	for (unsigned i = 0; i < count; i++) {
		struct slab *b = &s->slab[number_of(s, slot[i])];
		struct list *l = &s->list[class_of(b)];
		if (l != locked) {
			if (locked)
				pthread_mutex_unlock(&locked->lock);
			pthread_mutex_lock(&l->lock);
			locked = l;
		}
		give_one(s, l, b, slot[i]);
	}
	if (locked)
		pthread_mutex_unlock(&locked->lock);
}

size_t slabs_slot_bytes(const struct slabs *s, const void *slot)
{
	return slot_bytes_of(s, &s->slab[number_of(s, slot)]);
}

struct slab_use slabs_use(struct slabs *s, unsigned class)
{
	struct list *l = &s->list[class];

	pthread_mutex_lock(&l->lock);
	struct slab_use use = { l->slots, l->taken, l->pages * REGION_PAGE_BYTES,
				best_pages(s, class) };
	pthread_mutex_unlock(&l->lock);
	return use;
}

/* ----------------------------------------------------------------- holding */

/* The slab that the page belongs to, with its class' lock; NULL: none, and no lock. */
static struct slab *lock_slab(struct slabs *s, size_t page, struct list **list)
{
	uint32_t number = number_at(s, page);
	struct slab *b = &s->slab[number];

	if (!number)
		return NULL;
	unsigned class = class_of(b);
	*list = &s->list[class];
	pthread_mutex_lock(&(*list)->lock);
	/* It may have become another's in between; from here on it can't. */
	if (number_at(s, page) == number && class_of(b) == class)
		return b;
	pthread_mutex_unlock(&(*list)->lock);
	return NULL;
}

static void tell(const struct slabs *s, const struct slab *b, struct slab_held *slab)
{
	unsigned words = (b->slots + 63u) / 64;

	*slab = (struct slab_held){ .number = (uint32_t)(b - s->slab),
				    .class = class_of(b),
				    .addr = addr_of(s, b),
				    .bytes = b->pages * (size_t)REGION_PAGE_BYTES,
				    .slot_bytes = slot_bytes_of(s, b),
				    .slots = b->slots,
				    .taken = b->taken };
	memcpy(slab->free, &s->free_bits[b->page], words * sizeof slab->free[0]);
}

bool slabs_look(struct slabs *s, size_t page, struct slab_held *slab)
{
	struct list *l;
	const struct slab *b = lock_slab(s, page, &l);

	if (!b)
		return false;
	tell(s, b, slab);
	pthread_mutex_unlock(&l->lock);
	return true;
}

bool slabs_hold(struct slabs *s, size_t page, struct slab_held *slab)
{
	struct list *l;
	struct slab *b = lock_slab(s, page, &l);

	if (!b)
		return false;
	bool ok = !b->is_held;
	if (ok) {
		b->is_held = true;
		place(s, l, b);
		tell(s, b, slab);
	}
	pthread_mutex_unlock(&l->lock);
	return ok;
}

bool slabs_add_before(struct slabs *s, const struct slab_held *slab)
{
	struct list *l = &s->list[slab->class];

	pthread_mutex_lock(&l->lock);
	const uint8_t *run = region_alloc_before(s->region, slab->bytes, slab->addr);
	if (run)
		enter_slab(s, slab->class, run, (unsigned)(slab->bytes / REGION_PAGE_BYTES));
	pthread_mutex_unlock(&l->lock);
	return run;
}

bool slabs_release(struct slabs *s, struct slab_held *slab)
{
	struct slab *b = &s->slab[slab->number];
	struct list *l = &s->list[slab->class];

	slab->number = 0;
	pthread_mutex_lock(&l->lock);
	bool is_empty = !b->taken;
	b->is_held = false;
	if (is_empty)
		remove_slab(s, l, b);
	else
		place(s, l, b);
	pthread_mutex_unlock(&l->lock);
	return is_empty;
}

size_t slabs_metadata_bytes(struct slabs *s)
{
	size_t bits = 0;

	for (unsigned i = 0; i < s->classes.count; i++)
		bits += slabs_use(s, i).bytes / REGION_PAGE_BYTES * sizeof *s->free_bits;
	return sizeof *s + s->numbers * sizeof *s->slab + bits;
}
