/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/mirror.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "common/layout.h"

/* The tag beside the words would spoil their alignment to cache lines. */
struct mirror {
	uint64_t lines; /* a power of two */
	size_t bytes;
	_Atomic uint64_t *tag;  /* bucket + 1; 0 = empty */
	_Atomic uint64_t *word; /* LAYOUT_BUCKET_WORDS a line */
};

#define LINE_BYTES (LAYOUT_BUCKET_BYTES + sizeof(uint64_t))

struct mirror *mirror_new(size_t bytes)
{
	struct mirror *m;

	if (bytes < LINE_BYTES)
		return NULL;
	m = calloc(1, sizeof *m);
	if (!m)
		return NULL;
	m->lines = 1ull << (63 - __builtin_clzll(bytes / LINE_BYTES));
	m->bytes = m->lines * LINE_BYTES;
	/* Zeroed, and costs nothing until it is used. */
	void *p = mmap(NULL, m->bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED) {
		free(m);
		return NULL;
	}
	m->word = p;
	m->tag = (_Atomic uint64_t *)((uint8_t *)p + m->lines * LAYOUT_BUCKET_BYTES);
	return m;
}

void mirror_delete(struct mirror *m)
{
	if (!m)
		return;
	munmap((void *)m->word, m->bytes);
	free(m);
}

void mirror_clear(struct mirror *m)
{
	if (!m)
		return;
	for (uint64_t i = 0; i < m->lines; i++)
		if (atomic_load_explicit(&m->tag[i], memory_order_relaxed))
			atomic_store_explicit(&m->tag[i], 0, memory_order_relaxed);
}

static _Atomic uint64_t *line(struct mirror *m, uint64_t bucket)
{
	return m->word + (bucket & (m->lines - 1)) * LAYOUT_BUCKET_WORDS;
}

static _Atomic uint64_t *tag_of(struct mirror *m, uint64_t bucket)
{
	return &m->tag[bucket & (m->lines - 1)];
}

void mirror_store(struct mirror *m, uint64_t bucket, const uint64_t *words)
{
	if (!m)
		return;
	_Atomic uint64_t *to = line(m, bucket);
	for (unsigned i = 0; i < LAYOUT_BUCKET_WORDS; i++)
		atomic_store_explicit(to + i, words[i], memory_order_relaxed);
	atomic_store_explicit(tag_of(m, bucket), bucket + 1, memory_order_relaxed);
}

void mirror_store_word(struct mirror *m, uint64_t bucket, unsigned slot, uint64_t word)
{
	if (m && slot < LAYOUT_BUCKET_WORDS &&
	    atomic_load_explicit(tag_of(m, bucket), memory_order_relaxed) == bucket + 1)
		atomic_store_explicit(line(m, bucket) + slot, word, memory_order_relaxed);
}

bool mirror_find(struct mirror *m, uint64_t bucket, unsigned fp, uint64_t *word)
{
	*word = 0;
	if (!m || atomic_load_explicit(tag_of(m, bucket), memory_order_relaxed) != bucket + 1)
		return false;
	_Atomic uint64_t *at = line(m, bucket);
	for (unsigned i = 0; i < LAYOUT_BUCKET_WORDS; i++) {
		uint64_t w = atomic_load_explicit(at + i, memory_order_relaxed);
		if (layout_word_fp(w) == fp && !layout_word_is_empty(w) &&
		    !layout_word_is_chain(w)) {
			*word = w;
			break;
		}
	}
	return true;
}
