/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/store/item/heat.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "server/table/table.h"

#define STEP_SHIFT 6u /* no two items begin in the same 64 bytes */
#define USES_MAX 3u

/* bit 0..1 uses, 2..7 age */
typedef _Atomic uint8_t mark;

struct heat {
	mark *marks;
	size_t bytes;
	uint64_t table_bytes;
	unsigned shift;
	_Atomic unsigned age;
};

int heat_new(const struct table *t, struct heat **heat)
{
	struct heat *h = calloc(1, sizeof *h);

	if (!h)
		return ENOMEM;
	h->table_bytes = t->bytes;
	h->shift = STEP_SHIFT;
	while ((t->bytes >> h->shift) > UINT32_MAX)
		h->shift++;
	h->bytes = (t->bytes >> h->shift) + 1;
	void *p = mmap(NULL, h->bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED) {
		free(h);
		return ENOMEM;
	}
	h->marks = p;
	*heat = h;
	return 0;
}

void heat_delete(struct heat **heat)
{
	if (!*heat)
		return;
	munmap((void *)(*heat)->marks, (*heat)->bytes);
	free(*heat);
	*heat = NULL;
}

unsigned heat_hint_shift(const struct heat *h)
{
	return h->shift;
}

static uint8_t load(const mark *m)
{
	return atomic_load_explicit(m, memory_order_relaxed);
}

static void store(mark *m, unsigned value)
{
	atomic_store_explicit(m, (uint8_t)value, memory_order_relaxed);
}

static mark *mark_of(const struct heat *h, uint64_t offset)
{
	return &h->marks[offset >> h->shift];
}

/* Two workers at once may count one use: no harm. */
static void warm(mark *m)
{
	unsigned value = load(m);

	if ((value & USES_MAX) < USES_MAX)
		store(m, value + 1);
}

void heat_note(struct heat *h, uint64_t offset)
{
	if (h && offset < h->table_bytes)
		warm(mark_of(h, offset));
}

void heat_note_hint(struct heat *h, uint32_t hint)
{
	if (h && hint < h->bytes)
		warm(&h->marks[hint]);
}

void heat_note_new(struct heat *h, uint64_t offset)
{
	if (h)
		store(mark_of(h, offset),
		      atomic_load_explicit(&h->age, memory_order_relaxed) << 2);
}

void heat_note_moved(struct heat *h, uint64_t from, uint64_t to)
{
	if (h)
		store(mark_of(h, to), load(mark_of(h, from)));
}

void heat_next_age(struct heat *h)
{
	atomic_store_explicit(&h->age, (atomic_load(&h->age) + 1) % HEAT_AGES,
			      memory_order_relaxed);
}

unsigned heat_uses(const struct heat *h, uint64_t offset)
{
	return load(mark_of(h, offset)) & USES_MAX;
}

unsigned heat_age(const struct heat *h, uint64_t offset)
{
	unsigned now = atomic_load_explicit(&h->age, memory_order_relaxed);

	return (now - (load(mark_of(h, offset)) >> 2)) % HEAT_AGES;
}

void heat_cool(struct heat *h, uint64_t offset)
{
	mark *m = mark_of(h, offset);
	unsigned value = load(m);

	if (value & USES_MAX)
		store(m, value - 1);
}
