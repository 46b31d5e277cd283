/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/mirror.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "common/layout.h"

/* The tag beside the words would spoil their alignment to cache lines. */
struct mirror {
	uint64_t lines;
	uint64_t inverse; /* of lines: see remainder_of */
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
	m->lines = bytes / LINE_BYTES;
	m->inverse = UINT64_MAX / m->lines + 1;
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

/*
 * A line's name: a bucket's number, or where an overflow node is and its generation.
 * Nodes have the last part of the lines to themselves for as long as the buckets leave it
 * free.
 */
#define NODE (1ull << 63)
#define NODE_PART 8u
#define CHAIN_MAX 4u

static uint64_t node_name(uint64_t link, uint64_t unit_mask)
{
	return NODE | (link & ~LAYOUT_EPOCH_MASK & ~layout_filter_mask(unit_mask));
}

/* bucket % lines without a division (Lemire, Kaser, Kurz 2019): right for 32 bits. */
static uint64_t remainder_of(const struct mirror *m, uint64_t bucket)
{
	if (bucket >> 32 || m->lines >> 32)
		return bucket % m->lines;
	return (uint64_t)((unsigned __int128)(m->inverse * bucket) * m->lines >> 64);
}

static uint64_t line_of(const struct mirror *m, uint64_t name)
{
	if (!(name & NODE))
		return remainder_of(m, name);
	return m->lines - 1 - (name & LAYOUT_LOC_MASK) % (m->lines / NODE_PART + 1);
}

static _Atomic uint64_t *line(struct mirror *m, uint64_t name)
{
	return m->word + line_of(m, name) * LAYOUT_BUCKET_WORDS;
}

static _Atomic uint64_t *tag_of(struct mirror *m, uint64_t name)
{
	return &m->tag[line_of(m, name)];
}

static bool is_there(struct mirror *m, uint64_t name)
{
	return atomic_load_explicit(tag_of(m, name), memory_order_relaxed) == name + 1;
}

static void store(struct mirror *m, uint64_t name, const uint64_t *words, unsigned count)
{
	if (!m)
		return;
	_Atomic uint64_t *to = line(m, name);
	for (unsigned i = 0; i < count; i++)
		atomic_store_explicit(to + i, words[i], memory_order_relaxed);
	atomic_store_explicit(tag_of(m, name), name + 1, memory_order_relaxed);
}

void mirror_store(struct mirror *m, uint64_t bucket, const uint64_t *words)
{
	store(m, bucket, words, LAYOUT_BUCKET_WORDS);
}

void mirror_store_node(struct mirror *m, uint64_t unit_mask, uint64_t link, const uint64_t *words)
{
	store(m, node_name(link, unit_mask), words, LAYOUT_NODE_WORDS);
}

void mirror_store_word(struct mirror *m, uint64_t bucket, unsigned slot, uint64_t word)
{
	static const uint64_t nothing[LAYOUT_BUCKET_WORDS];

	if (!m || slot >= LAYOUT_BUCKET_WORDS)
		return;
	if (!atomic_load_explicit(tag_of(m, bucket), memory_order_relaxed))
		store(m, bucket, nothing, LAYOUT_BUCKET_WORDS);
	if (is_there(m, bucket))
		atomic_store_explicit(line(m, bucket) + slot, word, memory_order_relaxed);
}

uint64_t mirror_buckets_max(const struct mirror *m)
{
	return m ? m->lines : 0;
}

void mirror_prefetch(const struct mirror *m, uint64_t bucket)
{
	if (!m)
		return;
	uint64_t i = line_of(m, bucket);
	__builtin_prefetch((const void *)&m->tag[i]);
	for (unsigned k = 0; k < LAYOUT_BUCKET_WORDS; k += 8)
		__builtin_prefetch((const void *)(m->word + i * LAYOUT_BUCKET_WORDS + k));
}

typedef uint32_t quad __attribute__((vector_size(16), may_alias));

/*
 * The words that may have that fingerprint, a bit each: two words at a time and without a
 * branch, as this is what a GET does most, and by what of it is in their upper halves.  The
 * loads are not atomic to the language, though each word's is to the machine: what is found
 * is loaded again.
 */
__attribute__((no_sanitize("thread"))) static uint32_t matching(const _Atomic uint64_t *at,
								unsigned count, uint64_t mask,
								uint64_t fp)
{
	const uint32_t upper = (uint32_t)(mask >> 32), value = (uint32_t)(fp >> 32);
	const quad masks = { 0, upper, 0, upper }, want = { 0, value, 0, value };
	const quad *from = (const quad *)(const void *)at;
	quad bit = { 0, 1, 0, 2 }, bits = { 0 };

	static_assert(LAYOUT_FP_SHIFT >= 32, "most of a fingerprint is in the upper half");
	static_assert(LAYOUT_BUCKET_WORDS <= 32, "a bit for each word");
	for (unsigned i = 0; i < count / 2; i++, bit <<= 2)
		bits |= (quad)(((from[i] ^ want) & masks) == 0) & bit;
	return bits[1] | bits[3];
}

/* The first entry among the words that has the fingerprint, or 0. */
static inline uint64_t entry_in(const _Atomic uint64_t *at, unsigned count, uint64_t mask,
				uint64_t fp)
{
	for (uint32_t bits = matching(at, count, mask, fp); bits; bits &= bits - 1) {
		uint64_t w = atomic_load_explicit(at + __builtin_ctz(bits), memory_order_relaxed);
		if ((w & mask) == fp && !layout_word_is_empty(w) && !layout_word_is_chain(w))
			return w;
	}
	return 0;
}

bool mirror_find(struct mirror *m, uint64_t bucket, uint64_t unit_mask, uint64_t fp,
		 uint64_t *word)
{
	const uint64_t mask = layout_fp_mask(unit_mask);
	unsigned count = LAYOUT_BUCKET_WORDS;
	uint64_t name = bucket;

	*word = 0;
	if (!m || !is_there(m, bucket))
		return false;
	for (unsigned n = 0; n < CHAIN_MAX; n++, count = LAYOUT_NODE_WORDS) {
		const _Atomic uint64_t *at = line(m, name);
		*word = entry_in(at, count, mask, fp);
		if (*word)
			break;
		uint64_t link = atomic_load_explicit(at + count - 1, memory_order_relaxed);
		if (!layout_word_is_chain(link) || !layout_link_may_lead_to(link, fp, unit_mask) ||
		    !is_there(m, node_name(link, unit_mask)))
			break;
		name = node_name(link, unit_mask);
	}
	return true;
}
