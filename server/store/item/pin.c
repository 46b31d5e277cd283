/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pins are in lists by their item's address.  `count` lets a delete pass by without the mutex:
 * a pin is taken, and counted, under the stripe's mark, and the item's delete comes under
 * the same mark later.
 */
#include "server/store/item/pin.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#define LISTS 256u

struct pins {
	pthread_mutex_t lock;
	struct pin *list[LISTS];
	_Atomic unsigned count;
	_Atomic uint64_t dead_bytes;
	uint64_t dead_bytes_max;
};

int pins_new(uint64_t heap_bytes, struct pins **pins)
{
	struct pins *x = calloc(1, sizeof *x);

	if (!x)
		return ENOMEM;
	pthread_mutex_init(&x->lock, NULL);
	x->dead_bytes_max = heap_bytes / PIN_DEAD_PART;
	*pins = x;
	return 0;
}

void pins_delete(struct pins **pins)
{
	if (!*pins)
		return;
	pthread_mutex_destroy(&(*pins)->lock);
	free(*pins);
	*pins = NULL;
}

uint64_t pins_dead_bytes(const struct pins *x)
{
	return atomic_load_explicit(&x->dead_bytes, memory_order_relaxed);
}

static uint64_t bytes_of(const struct layout_item *item)
{
	return layout_item_bytes(layout_key_bytes(item->lengths), layout_value_bytes(item->lengths));
}

static struct pin **list_of(struct pins *x, const struct layout_item *item)
{
	uint64_t unit = (uint64_t)(uintptr_t)item / LAYOUT_UNIT_BYTES;

	return &x->list[(unit * 0x9e3779b97f4a7c15ull >> 32) % LISTS];
}

/* The first pin of the item from `p` on. */
static struct pin *next_of(struct pin *p, const struct layout_item *item)
{
	while (p && p->item != item)
		p = p->next;
	return p;
}

static bool has_writer(struct pins *x, const struct layout_item *item)
{
	struct pin *p = next_of(*list_of(x, item), item);

	while (p && p->kind != PIN_WRITER)
		p = next_of(p->next, item);
	return p;
}

static void add_dead(struct pins *x, uint64_t bytes)
{
	atomic_fetch_add_explicit(&x->dead_bytes, bytes, memory_order_relaxed);
}

static bool is_over(const struct pins *x, uint64_t more)
{
	return pins_dead_bytes(x) + more > x->dead_bytes_max;
}

static void unlink_pin(struct pins *x, struct pin *p)
{
	struct pin **at = list_of(x, p->item);

	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	p->item = NULL;
	atomic_fetch_sub_explicit(&x->count, 1, memory_order_relaxed);
}

/* The item's memory is free: who READs it will find out. */
static void end_all(struct pins *x, const struct layout_item *item)
{
	struct pin *p;

	while ((p = next_of(*list_of(x, item), item)))
		unlink_pin(x, p);
}

bool pin_take(struct pins *x, struct pin *p, struct layout_item *item, enum pin_kind kind)
{
	struct pin **list = list_of(x, item);

	if (bytes_of(item) < PIN_ITEM_BYTES_MIN)
		return false;
	pthread_mutex_lock(&x->lock);
	bool may = kind == PIN_READER || !has_writer(x, item);
	if (may) {
		*p = (struct pin){ .item = item, .next = *list, .kind = kind };
		*list = p;
		atomic_fetch_add_explicit(&x->count, 1, memory_order_relaxed);
	}
	pthread_mutex_unlock(&x->lock);
	return may;
}

struct layout_item *pin_end(struct pins *x, struct pin *p)
{
	struct layout_item *item, *to_free = NULL;

	pthread_mutex_lock(&x->lock);
	item = p->item;
	if (item) {
		bool dead = p->dead;
		unlink_pin(x, p);
		bool wanted = next_of(*list_of(x, item), item) &&
			      (has_writer(x, item) || !is_over(x, 0));
		if (dead && !wanted) {
			end_all(x, item);
			atomic_fetch_sub_explicit(&x->dead_bytes, bytes_of(item),
						  memory_order_relaxed);
			to_free = item;
		}
	}
	pthread_mutex_unlock(&x->lock);
	return to_free;
}

bool pin_is_lost(struct pins *x, const struct pin *p)
{
	pthread_mutex_lock(&x->lock);
	bool lost = !p->item || p->dead;
	pthread_mutex_unlock(&x->lock);
	return lost;
}

bool pin_has(struct pins *x, const struct layout_item *item)
{
	if (!atomic_load_explicit(&x->count, memory_order_relaxed))
		return false;
	pthread_mutex_lock(&x->lock);
	bool has = next_of(*list_of(x, item), item);
	pthread_mutex_unlock(&x->lock);
	return has;
}

bool pin_keeps(struct pins *x, const struct layout_item *item, uint64_t bytes)
{
	struct pin *first;

	if (!atomic_load_explicit(&x->count, memory_order_relaxed))
		return false;
	pthread_mutex_lock(&x->lock);
	first = next_of(*list_of(x, item), item);
	bool keep = first && (has_writer(x, item) || !is_over(x, bytes));
	for (struct pin *p = first; keep && p; p = next_of(p->next, item))
		p->dead = true;
	if (keep)
		add_dead(x, bytes);
	else
		end_all(x, item);
	pthread_mutex_unlock(&x->lock);
	return keep;
}
