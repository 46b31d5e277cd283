/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/workload/sequence.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/*
 * Who answers the number after the newest one advances it, over everything that
 * was answered meanwhile.  `answered` is stored before `newest` is loaded, and
 * `newest` before `answered` is loaded, all sequentially consistent: so of two
 * threads at neighbouring numbers at least one sees the other.
 */
struct sequence {
	pthread_mutex_t advancing;
	_Atomic uint64_t next;
	_Atomic uint64_t newest;
	_Atomic uint8_t answered[SEQUENCE_WINDOW];
};

struct sequence *sequence_new(uint64_t first)
{
	struct sequence *s = calloc(1, sizeof *s);

	if (s == NULL)
		return NULL;
	pthread_mutex_init(&s->advancing, NULL);
	atomic_init(&s->next, first);
	atomic_init(&s->newest, first - 1);
	return s;
}

void sequence_delete(struct sequence **sequence)
{
	if (*sequence == NULL)
		return;
	pthread_mutex_destroy(&(*sequence)->advancing);
	free(*sequence);
	*sequence = NULL;
}

uint64_t sequence_next(struct sequence *s)
{
	return atomic_fetch_add_explicit(&s->next, 1, memory_order_relaxed);
}

static void advance(struct sequence *s)
{
	uint64_t number = atomic_load(&s->newest) + 1;

	while (atomic_load(&s->answered[number % SEQUENCE_WINDOW])) {
		atomic_store(&s->answered[number % SEQUENCE_WINDOW], 0);
		atomic_store(&s->newest, number++);
	}
}

void sequence_acknowledge(struct sequence *s, uint64_t number)
{
	assert(number - sequence_newest(s) <= SEQUENCE_WINDOW);
	atomic_store(&s->answered[number % SEQUENCE_WINDOW], 1);
	if (atomic_load(&s->newest) + 1 != number)
		return;
	pthread_mutex_lock(&s->advancing);
	advance(s);
	pthread_mutex_unlock(&s->advancing);
}

uint64_t sequence_newest(const struct sequence *s)
{
	return atomic_load_explicit(&s->newest, memory_order_acquire);
}
